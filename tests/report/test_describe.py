"""Settings, damage and references of a run in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.run_files import CONFIG, EXACT, N, history, observables, result
from tnvmc.report import describe
from tnvmc.storage.run_files import Damage, Run

RUN = Run(Path("runs/x"), CONFIG, tuple(history()), result(), observables())
UNFINISHED = replace(RUN, result=None, observables=None)


def changed(**sections: dict[str, Any]) -> Run:
    """A run with other settings."""
    config = {name: CONFIG.get(name, {}) | section for name, section in sections.items()}
    return replace(RUN, config=CONFIG | config)


def test_settings_in_words() -> None:
    assert describe.facts(RUN) == {
        "model": "heisenberg, J = 1",
        "lattice": "square, 4 x 4 sites, open",
        "state": "peps, D = 3, float64",
        "contraction": "src, chi = 6 (measured at 12)",
        "sector": "2 Sz = 0",
        "optimizer": "sr, learning rate 0.1, 256 samples a step",
    }


def test_what_is_out_of_the_ordinary() -> None:
    run = changed(
        sampler={"power": 0.5},
        hamiltonian={"model": "xxz", "J": [1.0, 2.0], "Jz": 1.0, "h": [0.1, 0.2]},
        ansatz={"kind": "vit", "heads": 4, "patch": [2, 2], "marshall": True, "freeze": []},
    )
    found = describe.facts(run)
    assert found["model"] == "xxz, J bond by bond, Jz = 1, h site by site"
    assert found["sampling"] == "steps drawn from |psi|^1"
    assert found["network"] == "heads = 4, patch = 2 2, marshall = true"
    assert "contraction" not in found
    odd = {"characters": {"spin inversion": -1}, "reweight": True}
    run = changed(ansatz={"symmetrise": ["spin", "point"], **odd})
    told = "peps, D = 3, float64, symmetrised over spin, point (spin inversion -1)"
    assert describe.facts(run)["state"] == told


def test_tensors_that_are_shared_are_counted() -> None:
    found = {"symmetries": 8, "n_unshared": 1056}
    run = replace(changed(ansatz={"sharing": True}), result={**result(), "sharing": found})
    assert describe.facts(run)["state"] == "peps, D = 3, float64, tensors shared by 8 symmetries"
    both = {"n_independent": 199, "sharing": found}
    assert describe.parameters_text(both) == " (199 independent, 1056 without sharing)"
    assert describe.parameters_text({"sharing": None}) == ""
    early = replace(run, result=None)  # of a run without a result, or of before it was counted
    assert describe.facts(early)["state"].endswith("tensors shared by symmetries")
    assert describe.facts(early, {"symmetries": 8})["state"].endswith("by 8 symmetries")


def test_terms_are_written_out() -> None:
    terms = [
        {"ops": "Sx Sx", "bonds": "nearest", "coupling": 0.5},
        {"ops": "Z Z", "bonds": [[0, 1], [1, 2]], "coupling": [1.0, 2.0]},
        {"ops": "Sz", "sites": "all", "coupling": -1},
        {"ops": "Sx", "sites": [3]},
    ]
    hamiltonian = {"model": "terms", "local_dim": 3, "term": [*terms, *terms[:2]]}
    run = replace(RUN, config={**CONFIG, "hamiltonian": hamiltonian})
    assert describe.facts(run)["model"] == (
        "terms, 0.5 (Sx Sx) on nearest, bond by bond (Z Z) on 2 bonds, -1 (Sz) on all sites, "
        "1 (Sx) on 1 site, and 2 more, local_dim = 3"
    )


def test_nothing_is_said_where_the_settings_are_lost() -> None:
    run = Run(Path("x"))
    assert describe.facts(run) == {}
    assert describe.units_of(run) == ""
    assert describe.reference(run) == (None, "exact", 0.0)
    assert describe.energy_per_site(run) is None


def test_reference_and_units_are_looked_up_without_a_result() -> None:
    assert describe.reference(UNFINISHED) == (pytest.approx(EXACT / N), "exact", 0.0)
    assert describe.units_of(UNFINISHED) == describe.units_of(RUN) == "S.S"
    in_a_sector = replace(changed(sampler={"magnetisation": 2}), result=None)
    assert describe.reference(in_a_sector) == (None, "exact", 0.0)


def test_a_reference_has_its_error() -> None:
    """Found in a result, and looked up without one."""
    hamiltonian, lattice = {"model": "j1j2", "J2": 0.5}, {"shape": [6, 6]}
    looked_up = Run(Path("x"), {"hamiltonian": hamiltonian, "lattice": lattice})
    energy, method, error = describe.reference(looked_up)
    assert (method, energy) == ("extrapolated", pytest.approx(-17.2474 / 36, abs=1e-5))
    assert 0 < error < 1e-4
    measured = {**RUN.result, "exact_method": "QMC", "exact_error": 0.32}
    assert describe.reference(replace(RUN, result=measured))[1:] == ("QMC", 0.32 / N)


def test_the_energy_is_the_measured_one_else_that_of_the_last_step() -> None:
    assert describe.energy_per_site(RUN) == (-9.18771 / N, 0.00042 / N, "measured at the end")
    last = history()[-1]
    energy, error, where = describe.energy_per_site(UNFINISHED) or (0, 0, "")
    assert (energy, error, where) == (last["energy"] / N, last["energy_error"] / N, "at step 40")


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (Damage("config.toml", "missing"), "config.toml is missing"),
        (Damage("checkpoint.h5", "missing"), "checkpoint.h5 is missing: the run cannot go on"),
        (Damage("a", "unreadable", "why"), "a cannot be read (why)"),
        (Damage("a", "not_text"), "a is damaged: no text"),
        (Damage("a", "bad_content", "why"), "a is damaged: why"),
        (Damage("a", "bad_line", line=3), "a is damaged at line 3, the last one"),
        (Damage("a", "bad_line", "", 3, 2), "a is damaged at line 3; 2 more lines are left out"),
    ],
)
def test_damage_in_words(damage: Damage, text: str) -> None:
    assert describe.damage_text(damage) == text


def test_observables_of_an_earlier_step_in_words() -> None:
    assert describe.outdated_text(RUN) is None
    earlier = replace(RUN, observables=observables() | {"step": 10})
    assert describe.outdated_text(earlier) == (
        "The observables are those after 10 steps, the run has made 40 or restores other "
        "symmetries; again with: tnvmc measure runs/x"
    )


def test_an_operator_made_in_python_is_no_model_of_the_same_name() -> None:
    told = describe.facts(changed(python={"own": ["hamiltonian"]}))["model"]
    assert told.startswith("heisenberg (") and "J" not in told


@pytest.mark.parametrize(("worth", "told"), [(None, ""), (64.0, ""), (21.3, " (worth 21)")])
def test_weighted_samples_are_worth_less(worth: float | None, told: str) -> None:
    found = {"n_samples": 64, "effective_samples": worth}
    assert list(describe.measured_numbers(found, ["n_samples"])) == [("samples", "64" + told)]


@pytest.mark.parametrize(
    "sections",
    [
        {"orthogonal": [{"run": "ground"}]},
        {"ansatz": {"characters": {"spin inversion": -1}}},
        {"optimizer": {"kind": "time"}},
    ],
)
def test_levels_and_times_have_no_reference(sections: dict[str, Any]) -> None:
    run = replace(changed(hamiltonian={"model": "heisenberg"}), result=None)
    assert describe.reference(run)[0] is not None
    config = {**run.config, **sections}
    assert describe.reference(replace(run, config=config))[0] is None


def test_observables_of_other_symmetries_are_outdated() -> None:
    run = replace(RUN, observables={"step": 4, "symmetry": ["spin"]}, history=[{"step": 3}])
    assert describe.outdated_text(run) is not None
