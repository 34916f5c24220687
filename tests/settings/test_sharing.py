"""When a PEPS of a file shares its tensors, where nothing is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tnvmc import PEPS, Operator, j1j2, sharing, square
from tnvmc.settings.build import build_ansatz, build_operator, build_theta
from tnvmc.settings.config import Settings
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate

LATTICE = square(2, 4)


def completed(changes: tuple[str, ...] = (), **hamiltonian: Any) -> Settings:
    """Settings of a small PEPS."""
    data = {
        "lattice": {"shape": [2, 4]},
        "hamiltonian": hamiltonian or {"model": "heisenberg"},
        "ansatz": {"D": 3},
    }
    return complete(validate(data, changes))


@pytest.mark.parametrize(
    ("hamiltonian", "changes", "shares"),
    [
        ({}, [], True),
        ({}, ["ansatz.D=2"], False),
        ({}, ["ansatz.D=2", "ansatz.sharing=true"], True),
        ({}, ["ansatz.D=2", "lattice.shape=[13,13]"], True),  # 5408 parameters without
        ({}, ["ansatz.sharing=false"], False),
        ({}, ["ansatz.init=product"], False),
        ({}, ["ansatz.symmetrise=['spin']"], False),
        ({"model": "tfim", "h": 1.0}, [], True),
        ({"model": "j1j2", "J2": 0.5}, [], False),  # frustrated: nothing is proven
        ({"model": "j1j2", "J1": 0.0, "J2": 1.0}, [], False),  # bonds without terms: no signs
        ({"model": "xxz", "Jz": 2.0}, [], False),  # an easy axis
    ],
)
def test_the_default(hamiltonian: dict[str, Any], changes: list[str], shares: bool) -> None:
    assert completed(tuple(changes), **hamiltonian).ansatz.sharing is shares


@pytest.mark.parametrize(("largest", "shares"), [(2, False), (3, True)])
def test_all_stages_share_or_none(largest: int, shares: bool) -> None:
    data = {
        "lattice": {"shape": [2, 4]},
        "hamiltonian": {"model": "heisenberg"},
        "stage": [{"D": 2, "steps": 2}, {"D": largest, "steps": 2}],
    }
    settings = complete(validate(data))
    assert settings.ansatz.sharing is shares
    assert complete(validate(settings.as_dict())).as_dict() == settings.as_dict()


def saved(path: Path, operator: Operator, shared: bool) -> str:
    """The path of a saved state, of random parameters."""
    peps = PEPS(operator.lattice, 2, sharing=sharing(operator) if shared else None)
    peps.save(path, np.random.default_rng(0).normal(size=peps.n_params))
    return f"ansatz.init={path}"


def test_a_state_that_shares_goes_on_so(tmp_path: Path) -> None:
    """It began a state without sharing, of eight times as many parameters, without a word."""
    frustrated = {"model": "j1j2", "J2": 0.5}
    init = saved(tmp_path / "shared.h5", j1j2(LATTICE, J2=0.4), shared=True)
    for *more, shares in (
        ("ansatz.D=3", True),
        ("ansatz.D=3", "ansatz.sharing=false", False),
        ("ansatz.D=1", False),
    ):
        settings = completed((init, *more), **frustrated)
        assert settings.ansatz.sharing is shares
        operator = build_operator(settings)
        state = build_ansatz(settings, operator)
        assert build_theta(settings, operator, state).shape == (state.n_params,)
        again = complete(validate(settings.as_dict()))
        assert again.as_dict() == settings.as_dict()


def test_other_starts_share_nothing(tmp_path: Path) -> None:
    plain = saved(tmp_path / "plain.h5", j1j2(LATTICE, J2=0.4), shared=False)
    stripes = saved(tmp_path / "stripes.h5", j1j2(LATTICE, J2=2.0), shared=True)
    (tmp_path / "damaged.h5").write_bytes(b"no state")
    damaged, missing = (f"ansatz.init={tmp_path / name}" for name in ("damaged.h5", "none.h5"))
    for init in (plain, stripes, damaged, missing):
        assert completed((init,)).ansatz.sharing is False
