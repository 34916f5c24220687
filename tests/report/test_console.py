"""How numbers and results look."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tnvmc import PEPS, heisenberg, kagome, square
from tnvmc.backend.process import Ranks, using_ranks
from tnvmc.report.console import (
    RunConsole,
    after_steps,
    embedding_text,
    headline,
    nothing_to_do,
    result_rows,
    rows_table,
)
from tnvmc.report.describe import stage_line
from tnvmc.report.live import step_note
from tnvmc.settings.config import Settings
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate
from tnvmc.vmc.results import StepRecord
from tnvmc.vmc.trial import LEAST_STEPS

RESULT: dict[str, Any] = {
    "energy_per_site": -0.6035,
    "energy_per_site_error": 2e-5,
    "units": "S.S",
    "exact_energy_per_site": -0.6035218345,
    "exact_source": "somewhere",
    "exact_method": "exact",
    "relative_error": 3.6e-5,
    "relative_error_error": 3.3e-5,
    "signed_error": 3.6e-5,
    "variance": 0.36,
    "n_sites": 36,
    "v_score": 1e-3,
    "tau": 0.7,
    "r_hat": 1.001,
    "acceptance": 0.3,
    "closure_spread": 1e-6,
    "n_samples": 8192,
    "wall_time_s": 75.0,
    "config": {"sampler": {"n_walkers": 64}},
}


def shown(result: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=80)
    console.print(rows_table(result_rows(result)))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_table_has_what_a_reader_needs() -> None:
    text = shown(RESULT)
    for words in (
        "-0.603500(20)", "-0.6035218345  (somewhere)", "+3.6(33)e-5",
        "variance per site   1.000e-02", "V-score", "1.0010", "0.300", "1e-6", "1 min 15 s",
    ):  # fmt: skip
        assert words in text


def test_an_energy_below_the_known_one_has_a_negative_error() -> None:
    assert "-3.6(33)e-5" in shown({**RESULT, "signed_error": -3.6e-5})


def test_what_is_not_known_is_left_out_or_said() -> None:
    unknown = {
        **RESULT,
        **dict.fromkeys(("exact_energy_per_site", "exact_source", "exact_method")),
        **dict.fromkeys(("relative_error", "relative_error_error", "signed_error")),
        **dict.fromkeys(("tau", "r_hat", "acceptance", "closure_spread")),
    }
    text = shown(unknown)
    assert "not known" in text
    assert "R-hat" not in text
    assert "QMC" in shown({**RESULT, "exact_method": "QMC"})


def test_an_error_that_is_not_known() -> None:
    text = shown({**RESULT, "energy_per_site_error": None, "relative_error_error": None})
    assert "-0.60350000 +- unknown" in text
    assert "+3.6e-5 +- unknown" in text


def settings(**sampler: Any) -> Settings:
    return complete(
        validate(
            {
                "lattice": {"shape": [4, 4]},
                "hamiltonian": {"model": "heisenberg"},
                "ansatz": {"kind": "rbm"},
                "sampler": sampler,
            }
        )
    )


def test_the_headline_counts_what_sharing_leaves() -> None:
    operator = heisenberg(square(6, 6))
    given = {
        "lattice": {"shape": [6, 6]},
        "hamiltonian": {"model": "heisenberg"},
        "ansatz": {"D": 3},
    }
    shared = complete(validate(given))
    counted = {"symmetries": 8, "n_unshared": 3528}
    assert (
        "tensors shared by 8 symmetries, 462 parameters (3528 without sharing) from the best of its starts"
        in headline(shared, operator, 462, counted)
    )


@pytest.mark.parametrize(
    ("changed", "steps"),
    [({}, "2 steps"), ({"learning_rate": 0.1}, "1 step"), ({"steps": 4}, "1 step")],
)
def test_the_header_says_what_follows_the_steps(changed: dict[str, Any], steps: str) -> None:
    given = {
        "lattice": {"shape": [4, 4]},
        "hamiltonian": {"model": "heisenberg"},
        "ansatz": {"D": 2},
        "optimizer": changed,
        "measure": {"n_samples": 640},
    }
    (told,) = after_steps(complete(validate(given)))
    assert f" {steps} " in told and " 640 samples" in told
    assert after_steps(complete(validate(given | {"optimizer": {"steps": 0}}))) == []


@pytest.mark.parametrize(
    ("D", "told"), [(1, " (cut from D = 2)"), (2, ""), (3, " (grown from D = 2)")]
)
def test_the_headline_says_of_which_D_the_start_was(tmp_path: Path, D: int, told: str) -> None:
    operator = heisenberg(square(2, 3))
    peps = PEPS(operator.lattice, 2)
    start = str(tmp_path / "start.h5")
    peps.save(start, np.ones(peps.n_params))
    given = {"lattice": {"shape": [2, 3]}, "hamiltonian": {"model": "heisenberg"}}
    chosen = complete(validate({**given, "ansatz": {"D": D, "init": start}}))
    assert f" from {start}{told}; sr" in headline(chosen, operator, 10)


def test_the_headline_says_how_configurations_are_drawn() -> None:
    operator = heisenberg(square(4, 4))
    plain = headline(settings(), operator, 288)
    assert plain == (
        "heisenberg, square 4 x 4 open; rbm float64, hidden units shared by symmetries, "
        "288 parameters from random; sr, 100 steps"
    )
    assert headline(settings(power=0.5), operator, 288) == plain + "; steps drawn from |psi|^1"
    ranks = Ranks()
    ranks.size = 2
    with using_ranks(ranks):
        assert headline(settings(), operator, 288) == plain + "; 2 ranks"


def test_steps_show_what_their_samples_are_worth() -> None:
    console = RunConsole(10, 16)
    console.console = Console(file=io.StringIO(), width=120)
    record = StepRecord(
        step=0, energy=-3.0, energy_error=0.1, variance=0.2, tau=None, r_hat=None, acceptance=0.5,
        closure_spread=None, learning_rate=0.1, step_norm=0.1, undone=False, diagnostics=(),
        optimizer={}, seconds=6.0, n_samples=256,
    )  # fmt: skip
    for worth in (None, 231.0, 137.6):
        console.step(replace(record, effective_samples=worth))
    lines = console.console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert ["worth" in line for line in lines] == [False, False, True]
    assert "acc 0.50 worth 138 of 256" in lines[2]


def test_what_was_compiled_is_told_beside_the_time_of_a_step() -> None:
    record = StepRecord(
        step=0, energy=-3.0, energy_error=0.1, variance=0.2, tau=None, r_hat=None, acceptance=0.5,
        closure_spread=None, learning_rate=0.1, step_norm=0.1, undone=False, diagnostics=(),
        optimizer={}, seconds=6.0,
    )  # fmt: skip
    assert [step_note(replace(record, compile_seconds=s)) for s in (0.0, 0.9)] == ["", ""]
    console = RunConsole(10, 16)
    console.console = Console(file=io.StringIO(), width=120)
    console.step(replace(record, compile_seconds=28.4))
    lines = console.console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert "28.4 s" in lines[0] and "6.00 s" in lines[1] and console.used == 6.0


def test_why_a_run_does_not_go_on() -> None:
    assert nothing_to_do({"steps": 20}) == "nothing to do: all 20 steps were made"
    early = {"steps": 12, "stopped": "plateau"}
    assert nothing_to_do(early) == "nothing to do: the plateau ended it after 12 steps"


def test_how_a_stage_ended() -> None:
    record = {"stage": 2, "D": 3, "stopped": "plateau", "steps": 31, "energy": -21.7, "energy_error": 0.036,
              "variance": 0.72}  # fmt: skip
    assert stage_line(record, 36) == (
        "stage 2 (D = 3) ended on its plateau, after 31 steps: E/N -0.6028(10), var/N 0.02"
    )
    record |= {"stopped": "steps", "energy": None}
    assert stage_line(record, 36) == (
        "stage 2 (D = 3) ended with its last step, after 31 steps: energy not finite"
    )


def test_how_a_lattice_lies_on_its_grid() -> None:
    assert embedding_text(heisenberg(square(3, 4))) == ""
    told = embedding_text(heisenberg(kagome(4, 4)))
    assert told.startswith(
        "network: 12 sites on 4 x 4, 4 vacant; 12 bonds of dimension D, 12 of dimension 1"
    )
    assert "12 on these bonds, 5 across two rows, 0 further apart" in told
    closed = embedding_text(heisenberg(square(4, 4, "cylinder")), "periodic")
    assert "28 bonds of dimension D, 4 of them close rings; terms of H: 28 on these" in closed
    ring = embedding_text(heisenberg(square(4, 4, "periodic")))
    assert "24 on these bonds, 4 across two rows, 4 further" in ring and "vacant" not in ring


@pytest.mark.parametrize(("steps", "which"), [(LEAST_STEPS, "best"), (LEAST_STEPS - 1, "first")])
def test_the_headline_says_whether_starts_are_compared(steps: int, which: str) -> None:
    given = {
        "lattice": {"shape": [2, 3]},
        "hamiltonian": {"model": "heisenberg"},
        "ansatz": {"D": 2},
        "optimizer": {"steps": steps},
    }
    told = headline(complete(validate(given)), heisenberg(square(2, 3)), 64, None)
    assert f"from the {which} of its starts" in told
