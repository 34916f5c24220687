"""The lowest levels with given characters, against the dense Hamiltonian within the projected space."""

from __future__ import annotations

import numpy as np
import pytest

from tests import oracles
from tnvmc.exact_symmetric import symmetric_levels
from tnvmc.lattice import chain, square
from tnvmc.operators.models import heisenberg, tfim
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.operators.term import Operator

ROUNDING = 1e-10  # of energies of order 10


def projected(
    operator: Operator, names: tuple[str, ...], odd: tuple[str, ...], sector: int | None
) -> np.ndarray:
    """Levels of P H P where P = mean of chi(g) g is 1, by dense matrices of the full space."""
    group = symmetry_group(operator, names, dict.fromkeys(odd, -1))
    configs = oracles.all_configs(operator.n_sites)
    projector = np.zeros((len(configs), len(configs)))
    for g in group.elements:
        image = configs[:, list(g.sites)]
        image = 1 - image if g.inverts else image
        places = [oracles.config_index(config) for config in image]
        projector[places, np.arange(len(configs))] += g.character / len(group)
    if sector is not None:
        projector *= operator.n_sites - 2 * configs.sum(axis=1) == sector
    values, vectors = np.linalg.eigh((projector + projector.T) / 2)
    inside = vectors[:, values > 0.5]
    found: np.ndarray = np.linalg.eigvalsh(
        inside.T @ oracles.dense_hamiltonian(operator).real @ inside
    )
    return found


@pytest.mark.parametrize(
    ("operator", "names", "odd", "sector"),
    [
        (heisenberg(square(2, 3)), ("spin",), (), 0),
        (heisenberg(square(2, 3)), ("spin", "point"), ("left-right reflection",), 0),
        (heisenberg(square(3, 3)), ("point",), ("diagonal reflection",), 1),
        (heisenberg(chain(8, "periodic")), ("translation",), ("translation by (0, 1)",), 0),
        (tfim(square(2, 3), h=0.7), ("spin", "point"), ("spin inversion",), None),
    ],
)
def test_lowest_levels(
    operator: Operator, names: tuple[str, ...], odd: tuple[str, ...], sector: int | None
) -> None:
    group = symmetry_group(operator, names, dict.fromkeys(odd, -1))
    found = symmetric_levels(operator, group, sector, 3)
    assert np.abs(found - projected(operator, names, odd, sector)[:3]).max() < ROUNDING


def test_the_triplet_is_odd_under_inversion() -> None:
    """4 x 4 spins, eight pairs: S = 0 is even, and S = 1 at Sz = 0 has the energy of Sz = 1."""
    operator = heisenberg(square(4, 4))
    group = symmetry_group(operator, ["spin"], {"spin inversion": -1})
    (found,) = symmetric_levels(operator, group, 0)
    assert found == pytest.approx(-8.6869374791, abs=1e-8)  # exact_ground_state(operator, 2)


def test_no_state_has_such_characters() -> None:
    operator = heisenberg(chain(2))
    odd = {"spin inversion": -1, "left-right reflection": 1}
    group = symmetry_group(operator, ["spin", "point"], odd)
    with pytest.raises(ValueError, match="no state of 2 Sz = 0"):
        symmetric_levels(operator, group, 0)
