"""Averages and signs: Marshall's characters against those of dense ground states, and the refusal."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests import oracles
from tnvmc.lattice import chain, square
from tnvmc.operators.models import heisenberg, j1j2, xxz
from tnvmc.operators.symmetry import Symmetry, SymmetryGroup, symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.settings.build import build_ansatz, build_operator
from tnvmc.settings.load import ConfigError, complete, validate
from tnvmc.settings.network_settings import check_characters, marshall_character

ROUNDING = 1e-10
"""Of eigenvectors of matrices of some tens of rows, with gaps of order 1."""


def ground_state(operator: Operator, magnetisation: int) -> tuple[np.ndarray, np.ndarray]:
    """Configurations (B, N) of a sector and the amplitudes (B,) of its lowest state."""
    configs = np.array(oracles.all_configs(operator.n_sites, magnetisation=magnetisation))
    index = [oracles.config_index(config) for config in configs]
    values, vectors = np.linalg.eigh(oracles.dense_hamiltonian(operator)[np.ix_(index, index)])
    assert values[1] - values[0] > 1e-3
    return configs, vectors[:, 0]


def image(element: Symmetry, configs: np.ndarray) -> np.ndarray:
    moved = configs[:, list(element.sites)]
    return 1 - moved if element.inverts else moved


def character(element: Symmetry, configs: np.ndarray, psi: np.ndarray) -> float:
    """<psi|g|psi>."""
    place = {tuple(config): k for k, config in enumerate(configs)}
    return float(psi @ psi[[place[tuple(config)] for config in image(element, configs)]])


@pytest.mark.parametrize(
    ("operator", "magnetisation", "names"),
    [
        (heisenberg(square(2, 3)), 0, ("point", "spin")),
        (heisenberg(square(2, 3)), 2, ("point",)),
        (j1j2(square(2, 3), J2=0.2), 0, ("point", "spin")),
        (heisenberg(chain(6, "periodic")), 0, ("point", "translation", "spin")),
        (heisenberg(chain(5)), 1, ("point",)),
        (xxz(chain(8, "periodic"), J=1.0, Jz=0.3), 2, ("translation",)),
    ],
)  # fmt: skip
def test_characters_of_ground_states(
    operator: Operator, magnetisation: int, names: tuple[str, ...]
) -> None:
    configs, psi = ground_state(operator, magnetisation)
    group = symmetry_group(operator, names)
    found = [character(g, configs, psi) for g in group.elements]
    told = [marshall_character(operator, g, magnetisation) for g in group.elements]
    assert np.allclose(found, np.array(told, dtype=float), atol=ROUNDING)
    if -1 in told:
        with pytest.raises(ValueError, match=re.escape(group.names[told.index(-1)])):
            check_characters(operator, group, magnetisation)
    else:
        check_characters(operator, group, magnetisation)


def test_no_rule_where_there_is_none() -> None:
    """Ferromagnets, lattices off the checkerboard, elements that mix its sublattices."""
    ring = chain(6, "periodic")
    for operator, magnetisation in (
        (heisenberg(ring, J=-1.0), 0), (xxz(ring, J=-1.0, Jz=1.0), 0),
        (heisenberg(chain(5, "periodic")), 1),
    ):  # fmt: skip
        check_characters(operator, symmetry_group(operator, ["translation"]), magnetisation)
    both = heisenberg(square(4, 4))  # characters are all +1 there
    check_characters(both, symmetry_group(both, ["point", "spin"]), 0)
    mixed = Symmetry("first two", (1, 0, 2, 3, 4, 5))
    assert marshall_character(heisenberg(ring), mixed, 0) is None
    whole = Symmetry("identity", tuple(range(6)))
    check_characters(heisenberg(ring), SymmetryGroup((whole, mixed)), 0)


def built(lattice: dict[str, Any], *overrides: str, kind: str = "rbm") -> Any:
    sections = {"lattice": lattice, "hamiltonian": {"model": "heisenberg"}}
    settings = complete(validate({**sections, "ansatz": {"kind": kind}}, overrides))
    return build_ansatz(settings, build_operator(settings))


OPEN: dict[str, Any] = {"shape": [2, 3]}
RING: dict[str, Any] = {"kind": "chain", "shape": 10, "boundary": "periodic"}


@pytest.mark.parametrize(
    ("lattice", "name", "kind", "element"),
    [
        (OPEN, "point", "rbm", "up-down reflection"),
        (OPEN, "spin", "rnn", "spin inversion"),
        (RING, "translation", "cnn", "translation by (0, 1)"),
    ],
)
def test_an_average_that_loses_the_ground_state_is_refused(
    lattice: dict[str, Any], name: str, kind: str, element: str
) -> None:
    with pytest.raises(ValueError) as caught:
        built(lattice, f"ansatz.average=['{name}']", kind=kind)
    assert str(caught.value) == (
        f"ansatz.average: the ground state of an antiferromagnet has character -1 under {element} "
        "at 2 Sz = 0, and without marshall psi has +1, so it is out of reach; give ansatz.marshall "
        "= true, or leave that symmetry out"
    )


def test_the_signs_of_marshall_give_these_characters() -> None:
    """psi(g s) = chi psi(s), by the definition and by the rule."""
    keys = ["ansatz.marshall=true", "ansatz.average=['point', 'spin']"]
    ansatz = built(OPEN, "ansatz.dtype=float64", *keys)
    operator = heisenberg(square(2, 3))
    theta, group = 10 * ansatz.random(1), symmetry_group(operator, ["point", "spin"])
    configs = np.array(oracles.all_configs(6, magnetisation=0), dtype=np.int8)
    here = ansatz.log_amplitude(theta, configs)
    for g in group.elements:
        there = ansatz.log_amplitude(theta, image(g, configs))
        chi = marshall_character(operator, g, 0)
        assert np.allclose(there.phase, chi * here.phase) and chi is not None
        assert np.allclose(there.log_abs, here.log_abs, atol=ROUNDING)


@pytest.mark.parametrize(
    "overrides", [[], ["ansatz.magnetisation=2"], ["ansatz.magnetisation=false"]]
)
def test_no_draws_from_the_inverted_sector(overrides: list[str]) -> None:
    sector = ["sampler.magnetisation=2", "ansatz.average=['spin']", "ansatz.marshall=true"]
    with pytest.raises(ConfigError) as caught:
        built(OPEN, *sector, *overrides, kind="made")
    (line,) = caught.value.lines
    assert line == "ansatz.average: 'spin' takes sampler.magnetisation = 2 to -2; leave it out"
