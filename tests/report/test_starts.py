"""The table of several starts, as it is printed and written."""

from __future__ import annotations

from dataclasses import replace

from tnvmc.analysis.starts import Start, StartTable
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.report.starts import headline, markdown, plain_text

ABOUT = {
    "hamiltonian": {"model": "heisenberg", "J": 1.0},
    "lattice": {"kind": "square", "shape": [4, 4], "boundary": "cylinder"},
    "n_sites": 16, "units": "S.S",
}  # fmt: skip
VALUES = {"n_starts": 2, "near": 1, "within": 3.0, "spread_per_site": 1e-3}
FAR = Diagnostic("walkers_few", "warning", {})
BELOW = Diagnostic(
    "below_reference",
    "warning",
    {"sigmas": 9.0, "relative": 1e-2, "method": "exact", "raise": ["chi"]},
)
FIRST = Start("start-1", 0, -9.88, 0.004, 1.28, 0.2, 20, 512, 16, "S.S", 4.1, (FAR,))
LOWEST = replace(FIRST, name="start-2", seed=1, energy=-9.9, above=None)
AGAIN = replace(LOWEST, name="again-2", seed=1001, energy=-9.896)


def table(measured: Start | None = AGAIN, first: Start = FIRST) -> StartTable:
    told = (Diagnostic("lowest_alone", "warning", VALUES),)
    unfinished = (("start-3", Diagnostic("start_unfinished", "error")),)
    return StartTable((first, LOWEST), unfinished, "start-2", measured, told, ABOUT)


def test_text_and_markdown_say_the_same() -> None:
    shown, page = plain_text(table()), markdown(table())
    for part in (shown, page):
        for word in ("-9.8800(40)", "-0.61750(25)", "8.00e-02", "+4.1", "1001", "not in the table: start-3",
                     "-0.61850(25) per site (again-2)", "run.starts"):  # fmt: skip
            assert word in part, word
    assert page.startswith(headline(table())) and "cylinder" in headline(table())


def test_the_energy_to_quote_is_the_one_of_new_samples() -> None:
    assert "-0.61875" in plain_text(table())  # in the row of the start
    assert "measured again, " not in plain_text(table(None))
    assert "too low on average" in plain_text(table(None))


def test_doubts_are_those_of_the_energy_to_quote_and_what_is_wrong_of_all() -> None:
    def told(shown: str) -> list[str]:
        return [
            line.split(":")[0]
            for line in shown.splitlines()
            if "walkers_few" in line or "error bars below" in line
        ]

    assert told(plain_text(table())) == ["again-2"]
    assert told(plain_text(table(None))) == ["start-2"]
    wrong = replace(FIRST, diagnostics=(BELOW,))
    assert told(plain_text(table(first=wrong))) == ["start-1", "again-2"]


def test_a_notebook_shows_the_rows() -> None:
    for name in ("start-1", "start-2", "again-2"):
        assert name in repr(table()) and name in table()._repr_html_()
