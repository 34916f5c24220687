"""Digits as errors have them, tables that notebooks show."""

from __future__ import annotations

import sys
from html import unescape
from types import ModuleType

import pytest

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.shown import Table, data_frame, fixed, line, quoted, scientific, sentence, with_error


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (-0.603521, 0.000124, "-0.60352(12)"),
        (12.4, 3.0, "12.4(30)"),
        (-0.5, 0.0, "-0.50000000"),
        (float("nan"), float("inf"), "nan +- inf"),
    ],
)
def test_a_number_has_the_digits_of_its_error(value: float, error: float, text: str) -> None:
    assert with_error(value, error) == text


def test_a_path_with_spaces_is_quoted() -> None:
    assert quoted("runs/three/PEPS D=3") == "'runs/three/PEPS D=3'"
    assert quoted("runs/three") == "runs/three"


def test_a_small_number_keeps_its_digits() -> None:
    assert float(fixed(1.23456e-9, 6)) == pytest.approx(1.23456e-9, rel=1e-6)


def test_a_table_is_escaped_in_html_and_aligned_in_text() -> None:
    table = Table("<E>", ("a & b", "c"), [("<script>", "1"), ("2", "3")], ["x < y"])
    html = table.html()
    assert "<script>" not in html and "&lt;script&gt;" in html
    assert "&lt;E&gt;" in html and "a &amp; b" in html and "x &lt; y" in html
    lines = str(table).splitlines()
    assert lines[0] == "<E>" and lines[-1] == "x < y"
    assert lines[2].index("1") == lines[3].index("3")


def test_a_diagnostic_is_a_sentence_in_html_and_in_text() -> None:
    found = Diagnostic("few_walkers", "warning", {"n_walkers": 1, "draws": 16.0, "tau": 0.5})
    table = Table("", (), [("a",)], [found, "a < text"])
    assert f"warning: {sentence(found)}" in unescape(table.html())
    assert "a &lt; text" in table.html()
    assert str(table).splitlines()[-2:] == [line(found), "a < text"]


def test_a_data_frame_is_of_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = ModuleType("pandas")
    pandas.DataFrame = lambda columns: ("frame", columns)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    assert data_frame({"a": [1]}) == ("frame", {"a": [1]})
    monkeypatch.setitem(sys.modules, "pandas", None)  # type: ignore[arg-type]
    with pytest.raises(ImportError, match="pip install pandas"):
        data_frame({})


def test_large_values_have_the_digits_of_their_error() -> None:
    assert with_error(3746416132.92, 100.0) == "3.746416133e+09 +- 1.0e+02"


def test_errors_that_are_unknown() -> None:
    assert with_error(-0.5, float("nan")) == "-0.500000 +- unknown"
    for error in (float("nan"), float("inf")):
        assert scientific(3.2e-5, error) == "3.2e-5 +- unknown"
