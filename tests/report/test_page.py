"""The page holds numbers, diagnostics and pictures, and refers to nothing outside itself."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.run_files import result, write_json, write_run
from tnvmc.app.cli import main
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.report import page
from tnvmc.report.figures import NAMES
from tnvmc.report.page import page_data, report_html
from tnvmc.storage.run_files import read_run

CHI_ENOUGH = {"chi": 9, "largest_chi": 12, "sigmas": 0.1, "per_site": 2e-6, "too_small": []}
TABLES = (
    "comparison", "stages", "chi_scan", "double_layer", "observables"
)  # fmt: skip
_VOID = {"meta", "br", "link", "path", "use", "rect", "circle", "image", "stop", "clippath"}


class _Page(HTMLParser):
    """Collects text, attributes, and tags that were closed out of order."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.text, self.attributes, self.tags = "", [], []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(content)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if tag in _VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.text += " " + data


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> str:
    return report_html(read_run(write_run(tmp_path_factory.mktemp("report") / "run")))


@pytest.fixture(scope="module")
def text(content: str) -> str:
    return " ".join(_Page(content).text.split())


@pytest.mark.whole
@pytest.mark.parametrize(
    "expected",
    [
        "−0.574232(26)",  # energy per site and its error
        "+1.63(46)e−4",  # against the exact one
        "−0.5743254416",
        "Warning. No <psi>.",
        "Good. Chi 9 is enough: chi 12 on the same samples moves the energy by 0.1 sigma",
        "Heisenberg model, J = 1, square, 4 × 4 sites, open",
        "peps, D = 3, float64",
        "1056",
        "2048",
        "31.4 s",
        "plateau",
        "−2.12(25)e−5",  # chi ladder
        "−0.574625(56)",  # zero variance
        "−0.57744(38)",  # infinite D
        "0.2331(20)",  # M^2
        "at q = (π, π) 3.729(10)",
        "left half",
        'boundary = "open"',
        "tnvmc run config.toml --out again",
        "tnvmc 0.1.0",
    ],
)
def test_the_page_tells(text: str, expected: str) -> None:
    assert expected in text


def test_the_data_of_the_page(tmp_path: Path) -> None:
    found = page_data(read_run(write_run(tmp_path / "run")))
    assert [status for status, _ in found["words"]] == ["verdict", "warning", "good"]
    assert [value for value, _ in found["headline"]] == [
        "-0.574232(26)", "+1.63(46)e-4", "7.6e-4", "2.3e-3",
    ]  # fmt: skip
    sizes = {name: {len(row) for row in found[name]} for name in TABLES}
    assert [len(found[name]) for name in TABLES] == [4, 3, 3, 2, 5]
    assert list(sizes.values()) == [{5}, {9}, {5}, {4}, {3}]
    assert found["double_layer"][1] == ["18", "-0.5742437500", "1e-8", "0.6 s"]
    assert found["chi_scan"][0] == ["6", "-0.574251(26)", "-2.12(25)e-5", "-8.5", "8e-4"]
    assert found["chi_scan"][-1][2:4] == [None, None]
    assert found["comparison"][2][2:] == ["-0.57744(38)", "-5.43(66)e-3", "-8.2"]


def test_the_page_is_whole_and_alone(content: str) -> None:
    page = _Page(content)
    assert not page.wrong
    assert not page.open
    assert "script" not in page.tags
    assert "link" not in page.tags
    for name, value in page.attributes:
        if name in ("src", "href", "xlink:href", "action", "data"):
            assert value.startswith(("#", "data:image/png;base64,"))
    assert "http" not in content
    assert "@import" not in content
    targets = {value for name, value in page.attributes if name == "id"}
    assert len(targets) == sum(name == "id" for name, _ in page.attributes)
    asked = set(re.findall(r"""(?:href="|url\()#([^")]*)""", content))
    assert asked
    assert asked <= targets


def test_pictures_are_in_the_ink_of_the_page(content: str) -> None:
    assert content.count("<svg") == 12
    assert content.count("<figure") == 12
    assert "currentColor" in content
    assert "#23272e" not in content.partition("</style>")[2].lower()


@pytest.mark.whole
def test_an_unfinished_run(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run", finished=False, measured=False))
    found = page_data(run)
    assert [status for status, _ in found["words"]] == ["warning"]
    assert len(found["headline"]) == 2 and found["comparison"][0][1] == "at step 12"
    missing = ("total", *TABLES[1:])
    assert all(not found[name] for name in missing)
    text = " ".join(_Page(report_html(run)).text.split())
    assert "Warning. The run is not finished: 12 of 40 steps are done." in text
    assert "None are measured; do so with: tnvmc measure" in text
    assert "Chi is left out" in text
    assert "Stages" not in text


def test_a_damaged_run_says_what_is_damaged(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "result.json").write_text("{")
    (run / "config.toml").write_text("[lattice")
    found = page_data(read_run(run))
    assert [status for status, _ in found["words"]] == ["warning"] * 3
    assert found["words"][1][1] == "Result.json is damaged: not a JSON object."
    assert found["comparison"][0][1] == "at step 40"
    assert not found["runs_again"] and found["settings"] == "[lattice"


@pytest.mark.parametrize(
    ("diagnostics", "statuses"),
    [
        ([], ["verdict"]),
        ([Diagnostic("steps_too_few", "open", {"steps": 7})], ["verdict", "open"]),
        ([Diagnostic("chi_enough", "good", CHI_ENOUGH)], ["verdict", "good"]),
        (
            [
                Diagnostic("steps_too_few", "open", {"steps": 7}),
                Diagnostic("walkers_disagree", "warning", {"r_hat": 1.21}),
            ],
            ["verdict", "warning", "open"],
        ),
    ],
)
def test_the_verdict_comes_first_and_then_the_worst(
    tmp_path: Path, diagnostics: list[Diagnostic], statuses: list[str]
) -> None:
    run = read_run(write_run(tmp_path / "run", measured=False))
    assert run.result is not None
    run.result["convergence"]["diagnostics"] = [each.as_dict() for each in diagnostics]
    words = page_data(run)["words"]
    assert [status for status, _ in words] == statuses


def test_a_result_of_an_earlier_state_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", measured=False)
    found = result()
    del found["convergence"]["diagnostics"]
    write_json(run / "result.json", found)
    (damage,) = read_run(run).damage
    assert (damage.file, damage.code) == ("result.json", "bad_content")
    assert "diagnostics" in damage.detail


def test_the_verb_writes_one_file_and_replaces_only_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", finished=False, measured=False)
    (run / "history.jsonl").write_text("")
    assert main(["report", str(run)]) == 0
    assert capsys.readouterr().out == f"written to {run / 'report.html'}\n"
    assert main(["report", str(run)]) == 0
    (run / "mine.html").write_text("mine")
    for out, complaint in ((run / "mine.html", "not made by tnvmc report"), (run, "is a folder")):
        capsys.readouterr()
        assert main(["report", str(run), "--out", str(out)]) == 2
        error = capsys.readouterr().err
        assert complaint in error
        assert error.count("\n") == 1
    assert (run / "mine.html").read_text() == "mine"


@pytest.mark.usefixtures("page_without_pictures")
def test_an_error_that_is_unknown_is_told(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run"))
    assert run.result is not None
    run.result["energy_per_site_error"] = None
    found = page_data(run)
    assert "+- unknown" in found["headline"][0][0]
    assert [row[2:] for row in found["comparison"][:1]] == [
        [found["headline"][0][0], found["headline"][1][0], None]
    ]


def test_an_extrapolation_without_an_error_is_in_no_table(tmp_path: Path) -> None:
    """A line through two points; what it says is told in words, with the warning that it has no error."""
    run = read_run(write_run(tmp_path / "run", measured=False))
    assert run.result is not None
    before = page_data(run)
    run.result["convergence"]["variance"]["energy_error"] = None
    found = page_data(run)
    assert len(found["comparison"]) == len(before["comparison"]) - 1
    assert "extrapolated to infinite D" in [row[1] for row in found["comparison"]]
    assert "unknown" not in report_html(run).split("<h2>Optimisation")[0]


def test_a_difference_that_is_rounding_is_none(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run", measured=False))
    assert run.result is not None
    run.result["convergence"]["chi"][1] |= {"difference": 1e-18, "difference_error": 3e-18}
    assert page_data(run)["chi_scan"][1][2:4] == ["0", None]


def test_wide_tables_fold_on_a_phone(content: str) -> None:
    """Each cell carries the name of its column, which stands beside it there."""
    wide = re.search(r'<div class="wide fold"><table>(.*?)</table>', content, re.DOTALL)
    assert wide is not None
    names = re.findall(r"<th[^>]*>([^<]*)</th>", wide[1])
    row = re.findall(
        r'<td[^>]* data-label="([^"]*)"', wide[1].split("<tbody>")[1].split("</tr>")[0]
    )
    assert row == names


def test_every_figure_has_its_place_and_its_caption() -> None:
    folder = Path(page.__file__).parent / "templates"
    template = (folder / "page.html").read_text().split("{% set labels")
    for name in NAMES:
        assert f'"{name}": ' in template[0] and f'"{name}"' in template[1]


@pytest.mark.whole
def test_the_zone_is_named_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tnvmc.report.page.NAMES", ("structure_factor",))
    run = read_run(write_run(tmp_path / "run"))
    assert page_data(run)["zone"] == "square" and "Γ–X–M–Γ" in report_html(run)
    assert run.observables is not None
    run.observables["structure_factor"]["SS"]["zone"] = "plane"
    assert page_data(run)["zone"] == "plane" and "Γ–X–M–Γ" not in report_html(run)
