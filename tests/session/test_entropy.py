"""Renyi-2 entropies against vectors, and of free fermions against their correlations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tnvmc
from tests.session.test_overlaps import FOUR_SIGMA, PLENTY, STATES, H, made, vector
from tnvmc import PEPS, VMC, Enumerate, Sampler, Slater, hubbard, square, tfim, tv

BLOCK = [0, 1, 4]


def entropy_of(psi: np.ndarray, configs: np.ndarray, sites: Any) -> float:
    """-ln Tr rho^2 by summing over all pairs of configurations."""
    held = {tuple(config): value for config, value in zip(configs.tolist(), psi, strict=True)}
    mask, total = np.isin(np.arange(configs.shape[1]), sites), 0.0
    for one, a in held.items():
        for other, b in held.items():
            first, second = np.where(mask, other, one), np.where(mask, one, other)
            there = held.get(tuple(first), 0) * held.get(tuple(second), 0)
            total += (np.conj(a * b) * there).real
    return float(-np.log(total))


@pytest.mark.whole
@pytest.mark.parametrize("kind", [kind for kind in STATES if kind != "fermions"])
def test_entropies_are_those_of_the_vectors(kind: str) -> None:
    every, drawn = (made(kind, 3, sampler) for sampler in (Enumerate(threads=1), PLENTY))
    basis = every.operator.states(every.problem.magnetisation)
    exact = entropy_of(vector(every), basis.configs(basis.codes), BLOCK)
    assert tnvmc.renyi2(every, BLOCK).entropy == pytest.approx(exact)
    found = tnvmc.renyi2(drawn, BLOCK)
    assert 0 < found.error < 0.3
    assert abs(found.entropy - exact) < FOUR_SIGMA * found.error


@pytest.mark.parametrize(
    ("operator", "ansatz"),
    [
        (tv(square(2, 4), V=0.5, particles=3), Slater(square(2, 4), 3)),
        (hubbard(square(2, 3), U=4.0, particles=[3, 2]), Slater(square(2, 3), (3, 2))),
    ],
    ids=["without spin", "with spin"],
)
@pytest.mark.parametrize("sites", [[0, 1], [0, 4], [1, 2, 5]])
def test_blocks_of_free_fermions_have_the_entropy_of_their_correlations(
    operator: Any, ansatz: Any, sites: list[int]
) -> None:
    """I. Peschel, J. Phys. A 36, L205 (2003): modes with occupation x have -ln(x^2 + (1 - x)^2)."""
    theta = np.random.default_rng(8).normal(size=ansatz.n_params)
    exact = 0.0
    for orbitals in ansatz.orbitals(theta):
        basis = np.linalg.qr(orbitals)[0]
        x = np.linalg.eigvalsh((basis @ basis.T)[np.ix_(sites, sites)])
        exact -= float(np.log(x**2 + (1 - x) ** 2).sum())
    every, drawn = (
        VMC(operator, ansatz, sampler, theta=theta) for sampler in (Enumerate(threads=1), PLENTY)
    )
    assert tnvmc.renyi2(every, sites).entropy == pytest.approx(exact)
    found = tnvmc.renyi2(drawn, sites)
    assert abs(found.entropy - exact) < FOUR_SIGMA * found.error


def test_columns_from_the_left_and_their_picture() -> None:
    found = tnvmc.renyi2(made("PEPS", 3, Enumerate(threads=1)))
    assert [each.sites for each in found] == [(0, 3), (0, 1, 3, 4)]
    assert len(tnvmc.plot.entropy(found).lines) > 0
    product = tnvmc.ProductState(H.lattice)
    flat = VMC(tfim(H.lattice, h=1.0), product, Sampler(8, 64, threads=1), theta=np.ones(12))
    assert [each.entropy for each in tnvmc.renyi2(flat)] == pytest.approx([0, 0], abs=1e-12)


@pytest.mark.parametrize("sites", [[], [0, 6], range(6), 3, ["a"], [0, 0], [0, 1.5]])
def test_a_block_is_some_of_the_sites(sites: Any) -> None:
    with pytest.raises(ValueError, match="sites"):
        tnvmc.renyi2(made("PEPS", 3, PLENTY), sites)


def test_a_purity_that_is_not_resolved_is_told() -> None:
    with pytest.warns(tnvmc.UnreliableWarning):
        found = tnvmc.renyi2(made("PEPS", 3, Sampler(8, 8, threads=1)), BLOCK)
    assert "purity_unresolved" in [each.code for each in found.diagnostics]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["heisenberg", "tfim"])
def test_error_bars_hold_in_repetitions(model: str) -> None:
    operator = H if model == "heisenberg" else tfim(H.lattice, h=3.0)
    vmc = VMC(operator, PEPS(H.lattice, 2), Sampler(64, 256, threads=1))
    vmc.run(10)
    theta, off = np.asarray(vmc.measured_theta()), []
    exact = tnvmc.renyi2(VMC(operator, vmc.ansatz, Enumerate(threads=1), theta=theta), [0, 3])
    for seed in range(200):
        again = VMC(operator, vmc.ansatz, PLENTY, theta=theta, seed=seed)
        found = tnvmc.renyi2(again, [0, 3], n_samples=256)
        off.append(abs(found.entropy - exact.entropy) / found.error)
    assert np.mean(np.array(off) < 1) > 0.58  # 0.68 less three errors of the part
    assert np.mean(np.array(off) < 2) > 0.90
