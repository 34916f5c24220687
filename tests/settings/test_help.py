"""What `tnvmc settings` prints."""

from __future__ import annotations

import pytest

from tnvmc.app.cli import main
from tnvmc.settings.config import SECTIONS, Budget, keys
from tnvmc.settings.help import BASIC, basic_text, settings_text
from tnvmc.settings.problems import ConfigError


def test_all_keys_are_listed_and_each_is_described() -> None:
    listed = settings_text()
    for section in SECTIONS:
        told = settings_text(section)
        for key in keys(section):
            assert key in listed
            assert f"\n{section}.{key}\n    " in told
            assert settings_text(f"{section}.{key}") in told


def test_a_section_is_found_as_it_is_written() -> None:
    assert settings_text("[sampler]") == settings_text("sampler")
    assert settings_text("[[stage]]").startswith("[[stage]]  Optional.")
    assert "xxz" in settings_text("hamiltonian")


def test_a_key_of_two_sections_is_told_for_both() -> None:
    told = settings_text("diag_shift")
    assert "optimizer.diag_shift\n" in told and "stage.diag_shift\n" in told


def test_a_key_of_several_kinds_is_told_for_each() -> None:
    told = settings_text("ansatz.layers")
    assert told.count("Default") == 2 and "patched_transformer: " in told and "vit: " in told
    assert settings_text("ansatz.init").count("imaginary-time") == 1  # the same for all


def test_nothing_is_left_of_the_marks_of_the_web_page() -> None:
    for section in SECTIONS:
        told = settings_text(section)
        assert "`" not in told and "](" not in told
        assert max(map(len, told.splitlines())) <= 88


def test_an_unknown_name_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="'sampler.powr' is neither.*did you mean 'power'"):
        settings_text("sampler.powr")
    with pytest.raises(ConfigError, match="neither a section nor a key; tnvmc settings lists all$"):
        settings_text("ansatz.qqqqq")
    assert main(["settings", "powr"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["settings", "power"]) == 0
    assert "sampler.power" in capsys.readouterr().out


def test_the_basic_keys_are_twelve() -> None:
    told = basic_text()
    named = [line for line in told.splitlines() if line and not line.startswith(" ")]
    assert named[:-1] == list(BASIC) and len(BASIC) == 12


def test_the_budget_of_a_comparison_is_explained() -> None:
    assert all(f"compare.{key}" in settings_text("compare") for key in Budget.model_fields)


def test_the_section_time_has_the_keys_of_its_rule() -> None:
    told = settings_text("time")
    assert all(f"optimizer.{key}\n" in told for key in ("t", "step", "observables"))
    assert "optimizer.seconds" not in told
