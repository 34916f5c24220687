"""Sums over symmetries of fermions, whose order among the modes changes, against dense vectors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.drawing import enumerated
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised
from tnvmc.estimate.observables import local_energy
from tnvmc.exact import _symmetric_states, symmetric_levels
from tnvmc.lattice import square
from tnvmc.lattice.permutations import NotSymmetric
from tnvmc.operators.models import hubbard, tj, tv
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.operators.term import Operator

ROUNDING = 1e-12


@pytest.mark.parametrize("character", [1, -1])
@pytest.mark.parametrize(
    "operator",
    [
        tv(square(2, 3), particles=3),
        hubbard(square(2, 2), particles=(2, 1)),
        tj(square(2, 3), particles=(2, 2)),
    ],
    ids=lambda operator: operator.name,
)
def test_the_sum_has_its_characters(operator: Operator, character: int) -> None:
    """psi is made of symmetric states, whose levels are among those of the sector."""
    sector, names = operator.magnetisation, symmetry_group(operator, "point").names
    group = symmetry_group(operator, "point", {names[1]: character})
    peps = PEPS(operator.lattice, 2, local_dim=operator.local_dim).for_operator(operator)
    walked = Symmetrised(peps, group, reweight=False).for_operator(operator)
    theta = np.random.default_rng(0).normal(size=peps.n_params)
    check_ansatz(walked, theta)

    basis, matrix = operator.states(sector), operator.sparse(sector).toarray()
    symmetric = _symmetric_states(basis, group, operator.strings)
    amplitude = walked.log_amplitude(theta, basis.configs(basis.codes))
    psi = amplitude.phase * np.exp(amplitude.log_abs)
    within = symmetric @ (symmetric.T @ psi)
    np.testing.assert_allclose(within, psi, atol=ROUNDING * np.abs(psi).max())
    levels = np.linalg.eigvalsh(matrix)
    for level in symmetric_levels(operator, group, sector, 3):
        assert np.abs(levels - level).min() < ROUNDING * np.abs(levels).max()

    reweighted = Symmetrised(peps, group).for_operator(operator)
    seen = enumerated(reweighted, theta, operator, magnetisation=sector)
    weight = np.asarray(seen.weight)
    energy = weight @ local_energy(operator, seen) / weight.sum()
    assert abs(energy - psi @ matrix @ psi / (psi @ psi)) < ROUNDING * np.abs(levels).max()


def test_hamiltonians_without_the_symmetry_are_refused() -> None:
    with pytest.raises(NotSymmetric):
        symmetry_group(hubbard(square(2, 2), particles=(1, 1)), "spin")
    unequal = tv(square(2, 2), t=np.array([1.0, 1.0, 1.0, 2.0]), particles=2)
    with pytest.raises(NotSymmetric):
        symmetry_group(unequal, "point")
