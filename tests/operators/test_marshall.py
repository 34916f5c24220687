"""Marshall's characters against those of dense ground states."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests import oracles
from tnvmc.lattice import chain, square
from tnvmc.operators.marshall import check_characters, has_ground_state, marshall_character
from tnvmc.operators.models import heisenberg, j1j2, tfim, xxz
from tnvmc.operators.symmetry import Symmetry, SymmetryGroup, symmetry_group
from tnvmc.operators.term import Operator

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


@pytest.mark.parametrize(
    ("operator", "proven"),
    [
        (heisenberg(square(2, 4)), True),
        (heisenberg(square(2, 3)), False),  # six spins: odd under inversion
        (j1j2(square(2, 4), J2=-0.3), True),  # ferromagnetic on a sublattice
        (j1j2(square(2, 4), J2=0.3), None),  # both signs: Marshall's rule may fail
        (j1j2(chain(8, "periodic"), J2=1.2), None),
        (heisenberg(square(3, 6, "periodic")), None),  # odd rings
        (tfim(chain(6), h=1.0), True),
        (xxz(square(2, 4), J=1.0, Jz=-0.5), True),
    ],
)
def test_only_what_signs_prove_is_called_the_ground_states(
    operator: Operator, proven: bool | None
) -> None:
    group = symmetry_group(operator, ["spin"], {"spin inversion": 1})
    assert has_ground_state(operator, group, 0) is proven
    if proven is not None and operator.conserves_magnetisation:
        configs, psi = ground_state(operator, 0)
        found = [character(g, configs, psi) for g in group.elements]
        assert np.allclose(found, 1, atol=ROUNDING) is proven
