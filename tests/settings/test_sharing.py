"""When a PEPS of a file shares its tensors, where nothing is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tnvmc import PEPS, Operator, j1j2, sharing, square, tfim
from tnvmc.settings.build import build_ansatz, build_theta
from tnvmc.settings.config import Settings, build_operator
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate
from tnvmc.settings.problems import ConfigError

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


def saved_bulk(path: Path, edge: int, period: int = 1) -> str:
    """The path of a state of 6 x 6 sites with a bulk."""
    operator = tfim(square(6, 6), h=2.0)
    peps = PEPS(operator.lattice, 2, sharing=sharing(operator, edge=edge, period=period))
    peps.save(path, np.random.default_rng(0).normal(size=peps.n_params))
    return f"ansatz.init={path}"


def test_an_edge_asks_for_sharing() -> None:
    """Also where nothing is proven, and at a D at which tensors are else not shared."""
    settings = completed(("ansatz.D=2", "ansatz.edge=1"), model="j1j2", J2=0.5)
    assert settings.ansatz.sharing is True
    operator = build_operator(settings)
    assert build_ansatz(settings, operator).sharing == sharing(operator, edge=1)
    for more in (("lattice.shape=[1,8]", "ansatz.kind=mps"), ("ansatz.symmetrise=['spin']",)):
        assert completed(("ansatz.edge=1", *more)).ansatz.sharing is True  # it was left out


def test_a_state_with_a_bulk_goes_on_so_on_other_lattices(tmp_path: Path) -> None:
    init, field = saved_bulk(tmp_path / "bulk.h5", 1), {"model": "tfim", "h": 2.0}
    for changes, edge in (
        (["lattice.shape=[8,8]"], 1),
        (["lattice.shape=[6,6]"], 1),
        (["lattice.shape=[8,8]", "ansatz.edge=2"], 2),
        (["lattice.shape=[8,8]", "ansatz.sharing=true"], 1),
        (["lattice.shape=[6,8]"], 1),  # fewer symmetries, but the reflections that it needs
    ):
        settings = completed((init, *changes), **field)
        assert (settings.ansatz.sharing, settings.ansatz.edge) == (True, edge)
        operator = build_operator(settings)
        state = build_ansatz(settings, operator)
        assert build_theta(settings, operator, state).shape == (state.n_params,)
        again = complete(validate(settings.as_dict()))
        assert again.as_dict() == settings.as_dict()
    assert (
        completed((init, "lattice.shape=[8,8]", "ansatz.sharing=false"), **field).ansatz.edge
        is None
    )


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (["ansatz.edge=1", "ansatz.sharing=false"], "ansatz.edge"),
        (["ansatz.period=2"], "ansatz.period"),
        (["ansatz.edge=0"], "ansatz.edge"),
        (["ansatz.edge=1", "ansatz.init=simple_update"], "ansatz.sharing"),
    ],
)
def test_an_edge_that_goes_with_nothing_is_refused(changes: list[str], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        completed(tuple(changes))
    assert [problem.key for problem in caught.value.problems] == [key]


def test_a_lattice_without_a_bulk_is_refused() -> None:
    data = {
        "lattice": {"kind": "triangular", "shape": [4, 4]},
        "hamiltonian": {"model": "heisenberg"},
    }
    settings = complete(validate({**data, "ansatz": {"D": 2, "edge": 1}}))
    with pytest.raises(ValueError, match="edge"):
        build_ansatz(settings, build_operator(settings))
