"""Simple update of fermions: gates with the signs of lines, states that are cut and grown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tnvmc import PEPS, square
from tnvmc.ansatz.peps.starts.even_form import EvenVidalPEPS, occupied
from tnvmc.ansatz.peps.starts.gates import Batch, plan_gates
from tnvmc.ansatz.peps.starts.other_sizes import cut_to, grown
from tnvmc.contraction.schemes import Exact
from tnvmc.lattice.embedding import embedding
from tnvmc.operators.fermions import HUBBARD, SPINLESS
from tnvmc.operators.models import hubbard, tv

ROUNDING = 1e-10  # of amplitudes of six sites, relative to the largest


def amplitudes(tensors, operator, configs) -> np.ndarray:
    D = max(max(tensor.shape[1:]) for tensor in tensors)
    d = operator.local_dim
    peps = PEPS(
        operator.lattice, D, local_dim=d, fermions=operator.fermions, scheme=Exact(), sharing=None
    )
    found = peps.log_amplitude(peps.flatten(tensors), configs)
    return found.phase * np.exp(found.log_abs)


CASES = [
    (tv(square(2, 3)), 2), (tv(square(3, 2)), 3), (hubbard(square(2, 2), U=4.0), (2, 1)),
    (hubbard(square(1, 4), U=4.0), (1, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("hamiltonian", "particles"), CASES)
def test_a_gate_acts_as_its_term(hamiltonian, particles) -> None:
    """One gate on every bond in turn, against the dense matrix with Jordan-Wigner strings."""
    sector = hamiltonian.strings.sector(particles)
    operator = replace(hamiltonian, magnetisation=sector)
    basis = operator.states(sector)
    configs = basis.configs(basis.codes)
    found = embedding(operator.lattice)
    for batch in plan_gates(operator).pairs:
        for sites, matrix in zip(batch.sites, batch.matrices, strict=True):
            state = EvenVidalPEPS.product_with_noise(operator, found, 16, seed=3)
            before = amplitudes(state.to_peps(), operator, configs)
            state.update(Batch(sites[None], batch.legs, None), matrix[None])
            after = amplitudes(state.to_peps(), operator, configs)
            patch = tuple(int(found.site_at[place]) for place in sites)
            term = type(operator).from_terms(
                operator.lattice, [(patch, matrix)], local_dim=operator.local_dim
            )
            dense = replace(term, fermions=operator.fermions).sparse(sector).toarray()
            want = dense @ before
            want, after = want / np.linalg.norm(want), after / np.linalg.norm(after)
            assert abs(abs(want @ after) - 1) < ROUNDING


def test_the_sector_that_is_meant_is_filled() -> None:
    for particles in [(3, 3), (4, 2), (0, 5), (6, 1), (5, 4), (6, 6), (0, 0)]:
        operator = hubbard(square(2, 3), U=4.0)
        operator = replace(operator, magnetisation=operator.strings.sector(particles))
        shares = occupied(operator) ** 2
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        np.testing.assert_allclose(shares.sum(axis=0) @ np.array(HUBBARD.numbers).T, particles)


@pytest.mark.parametrize("n", [2, 3])
def test_a_state_that_fits_is_cut_to_itself(n) -> None:
    """D = 2 in bonds of 4, after a gauge that mixes nothing: cut to 2 again."""
    operator = replace(tv(square(3, 3)), magnetisation=n)
    small = PEPS(operator.lattice, 2, fermions=SPINLESS, scheme=Exact(), sharing=None)
    large = PEPS(operator.lattice, 4, fermions=SPINLESS, scheme=Exact(), sharing=None)
    rng = np.random.default_rng(0)
    theta = rng.normal(size=small.n_params)
    configs = operator.states(n).configs(operator.states(n).codes)
    wide = large.tensors(large.flatten(small.tensors(theta)))
    if n % 2 == 0:  # of both parities the first tensor keeps the larger one
        wide[0] = wide[0] * (np.indices(wide[0].shape).sum(axis=0) % 2 == 0)
    else:
        wide[0] = wide[0] * (np.indices(wide[0].shape).sum(axis=0) % 2 == 1)
    want = amplitudes(wide, operator, configs)
    kept, lost = cut_to(wide, small)
    found = small.log_amplitude(kept, configs)
    psi = found.phase * np.exp(found.log_abs - found.log_abs.max())
    assert lost < ROUNDING
    assert abs(abs(psi @ want) / np.linalg.norm(psi) / np.linalg.norm(want) - 1) < ROUNDING


def test_a_grown_state_has_wider_bonds_and_a_lower_energy() -> None:
    operator = replace(tv(square(2, 3), V=2.0), magnetisation=3)
    configs = operator.states(3).configs(operator.states(3).codes)
    matrix = operator.sparse(3)

    def energy(peps: PEPS, theta: np.ndarray) -> float:
        found = peps.log_amplitude(theta, configs)
        psi = found.phase * np.exp(found.log_abs - found.log_abs.max())
        return float(psi @ (matrix @ psi) / (psi @ psi))

    small, large = (
        PEPS(operator.lattice, D, fermions=SPINLESS, scheme=Exact(), sharing=None) for D in (2, 4)
    )
    theta = small.initial(operator)
    wide = grown(small.tensors(theta), large, operator, noise=0.0)
    assert energy(large, wide) < energy(small, theta) - 0.01
