"""The loop with direct draws: measuring and optimising."""

from __future__ import annotations

import pytest

from tnvmc import PEPS, SR, SRC, VMC, DirectSampler, Enumerate, Sampler, heisenberg, square, tfim
from tnvmc.ansatz.product import ProductState
from tnvmc.exact import exact_ground_state

SIGMAS = 4


def test_measuring_by_direct_draws_agrees_with_enumeration() -> None:
    operator = heisenberg(square(3, 4))
    vmc = VMC(operator, PEPS(operator.lattice, 2, scheme=SRC(8)), Sampler(8, 8, threads=1))
    exact = vmc.measure(sampler=Enumerate(threads=1))
    drawn = vmc.measure(sampler=DirectSampler(1024, threads=1))
    assert drawn.n_samples == 1024 and drawn.effective_samples is not None
    assert 256 < drawn.effective_samples <= 1024
    assert 0 < drawn.energy_error < 0.1
    assert abs(drawn.energy - exact.energy) < SIGMAS * drawn.energy_error
    assert exact.effective_samples is None
    fewer = vmc.measure(n_samples=64, sampler=DirectSampler(1024, threads=1))
    assert fewer.n_samples == 64
    assert fewer.as_dict()["effective_samples"] == fewer.effective_samples


def test_optimising_with_direct_draws() -> None:
    operator = tfim(square(2, 3), h=2.0)
    ansatz = PEPS(operator.lattice, 2)
    sampler = DirectSampler(256, threads=1)
    vmc = VMC(operator, ansatz, sampler, SR(diag_shift=1e-3), learning_rate=0.1, seed=1)
    before = vmc.measure(sampler=Enumerate(threads=1)).energy
    records = vmc.run(15)
    after = vmc.measure(sampler=Enumerate(threads=1)).energy
    exact = exact_ground_state(operator).energy
    assert exact - 1e-9 < after < before
    assert after - exact < 0.2 * (before - exact)
    assert all(record.energy_error > 0 for record in records[:5])


def test_a_state_that_cannot_be_drawn_is_told() -> None:
    operator = heisenberg(square(2, 2))
    vmc = VMC(operator, ProductState(operator.lattice), Sampler(4, 4, threads=1))
    with pytest.raises(ValueError, match="cannot be drawn"):
        vmc.measure(sampler=DirectSampler(4, threads=1))
