"""Symmetries that a network has whatever its parameters are, and Hamiltonians that lack them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tnvmc import VMC, Enumerate, Sampler, Symmetrised, TimeEvolution, measure_observables
from tnvmc.lattice import chain, honeycomb, square
from tnvmc.lattice.permutations import NotSymmetric
from tnvmc.operators.models import heisenberg, j1j2, tfim, tv
from tnvmc.operators.symmetry import symmetry_group

pytest.importorskip("flax")

import jax.numpy as jnp
from flax import nnx

from tnvmc.ansatz.neural.cnn import CNN
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.ansatz.neural.rbm import RBM
from tnvmc.ansatz.neural.vit import ViT
from tnvmc.ansatz.peps.starts.initial import product_parameters

RING, TORUS = chain(8, "periodic"), square(4, 4, "periodic")


def of(kind: Any, lattice: Any, signs: Any = None, group: Any = None, **more: Any) -> FlaxAnsatz:
    made = lambda rngs: kind(lattice, rngs=rngs, **more)
    return FlaxAnsatz(lattice, made, signs=signs, group=group)


@pytest.mark.parametrize(
    ("operator", "kind", "more", "lacks"),
    [
        (heisenberg(TORUS), CNN, {}, False),
        (heisenberg(honeycomb(4, 4, "periodic")), CNN, {}, True),
        (tfim(RING, h=[1.0, 0.5] * 4), CNN, {}, True),
        (tfim(RING, h=[1.0, 0.5] * 4), ViT, {"patch": [1, 2]}, False),
        (tfim(RING, h=[1.0, 1.0, 0.5, 0.5] * 2), ViT, {"patch": [1, 2]}, True),
        (tfim(square(2, 3), h=[0.2, 1, 1, 1, 1, 3]), RBM, {"sharing": True}, True),
        (tfim(square(2, 3), h=[0.2, 1, 1, 1, 1, 3]), RBM, {}, False),
        (tfim(square(2, 3)), RBM, {"sharing": True}, False),
        (tv(square(3, 3, "periodic"), particles=4), CNN, {}, True),
        (tv(square(2, 3), particles=3), RBM, {"sharing": True}, True),
        (tv(chain(6, "periodic"), particles=3), CNN, {}, False),  # no sign comes round the ring
        (tv(chain(6, "periodic"), particles=2), CNN, {}, True),
        (tv(chain(6), particles=2), RBM, {"sharing": True}, False),  # -1 for all: a character
        (tv(chain(6), particles=3), RBM, {"sharing": True}, False),
    ],
)
def test_a_hamiltonian_that_lacks_them_is_refused(
    operator: Any, kind: Any, more: Any, lacks: bool
) -> None:
    ansatz = of(kind, operator.lattice, **more)
    sampler = Sampler(n_walkers=16, n_samples=64, threads=1)
    if not lacks:
        VMC(operator, ansatz, sampler)
        return
    with pytest.raises(NotSymmetric):
        VMC(operator, ansatz, sampler)


@pytest.mark.parametrize(
    ("lattice", "J2", "marshall", "told"),
    [
        (square(5, 5, "periodic"), 0.0, False, True),  # odd rings: no rule of signs
        (square(4, 6, "periodic"), 0.0, True, False),
        (square(4, 6, "periodic"), 0.0, False, False),  # 12 down: the rule has +1 for all
        (chain(22, "periodic"), 0.0, False, True),  # 11 down: -1 under a translation by one
        (square(4, 6, "periodic"), 0.5, True, True),
        (square(4, 6), 0.5, True, False),  # of open rows a CNN has none
    ],
)
def test_what_is_not_proven_of_the_ground_state_is_told(
    lattice: Any, J2: float, marshall: bool, told: bool
) -> None:
    rows, columns = np.divmod(np.arange(lattice.n_sites), lattice.shape[1])
    ansatz = of(CNN, lattice, signs=(rows + columns) % 2 if marshall else None)
    operator = j1j2(lattice, J2=J2) if J2 else heisenberg(lattice)
    vmc = VMC(operator, ansatz, Sampler(16, 64, threads=1), magnetisation=lattice.n_sites % 2)
    codes = {each.code: each.status for each in vmc.measure().diagnostics}
    assert codes.get("symmetries_not_proven") == ("open" if told else None)


@pytest.mark.parametrize("averaged", [False, True])
def test_the_next_level_may_lack_them(averaged: bool) -> None:
    operator = heisenberg(RING)
    ansatz = of(CNN, RING)
    if averaged:
        ansatz = of(RBM, RING, group=symmetry_group(operator, "translation"))
    lower = VMC(operator, of(RBM, RING), Enumerate())
    with pytest.raises(ValueError, match="orthogonal_to"):
        VMC(operator, ansatz, Enumerate(), orthogonal_to=[lower])


class WithPlaces(CNN):
    """A CNN with a field of its own on each site, whose class tells translations."""

    def __init__(self, lattice: Any, *, rngs: Any) -> None:
        super().__init__(lattice, rngs=rngs)
        self.field = nnx.Param(0.1 * jnp.arange(lattice.n_sites))

    def __call__(self, configs: Any) -> Any:
        return super().__call__(configs) + configs @ self.field[...]


def test_nothing_is_told_of_what_has_no_level_or_is_summed() -> None:
    lattice = square(4, 6, "periodic")
    operator = j1j2(lattice, J2=0.5)
    summed = Symmetrised(of(CNN, lattice), symmetry_group(operator, "spin"))
    vmc = VMC(operator, summed, Sampler(16, 64, threads=1))
    assert "symmetries_not_proven" in [each.code for each in vmc.measure().diagnostics]
    quench = VMC(
        operator, of(RBM, lattice, sharing=True), Sampler(16, 64, threads=1),
        TimeEvolution(step=0.01),
    )  # fmt: skip
    found = measure_observables(quench, operators=(), pair_samples=0)
    assert "symmetries_not_proven" not in [each["code"] for each in found["diagnostics"]]


def test_invariances_that_a_network_does_not_have_are_refused() -> None:
    with pytest.raises(ValueError, match="invariances"):
        of(WithPlaces, RING)


def test_signs_are_no_part_of_a_product_state() -> None:
    """With Marshall's signs <Sx> was 0 in place of 1/2."""
    bare = {"visible_bias": False, "hidden_bias": False}
    lattice = square(2, 3)
    product_parameters(of(RBM, lattice, **bare), [1, 1])
    with pytest.raises(ValueError, match="product_parameters"):
        product_parameters(of(RBM, lattice, signs=[0, 1, 0, 1, 0, 1], **bare), [1, 1])
