"""Simple update: imaginary-time evolution of a PEPS with weights on its bonds.

Jiang, Weng and Xiang, Phys.  Rev.  Lett. 101, 090603 (2008).  The rest of the network enters a gate
only by the weights around it, so a step is cheap, and the result is a start for an optimisation,
not a ground state.

Where the Hamiltonian conserves the magnetisation, the order is started in the plane: sampling a
sector then projects the state onto it, which restores the rotations about z and lowers the energy
far below that of the evolved state.  Projection does not improve a state with order along z.

Products over batches of bonds stay with `numpy.einsum`: opt_einsum has no BLAS for batches.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tnvmc.ansatz.peps.starts.even_form import EvenVidalPEPS
from tnvmc.ansatz.peps.starts.gates import Batch, GatePlan, exponential, mean_fields, plan_gates
from tnvmc.ansatz.peps.starts.tensors import pattern_vectors, start_vectors
from tnvmc.ansatz.peps.starts.vidal_form import VidalPEPS, equilibrate
from tnvmc.backend.arguments import whole
from tnvmc.lattice.embedding import Bonds, Embedding, embedding
from tnvmc.operators.spin import spin_matrices
from tnvmc.operators.term import Operator

Array = Any

_FIELD_INTERVAL = 10  # steps between two updates of the mean fields


TAU = (1.0, 0.3, 0.1)
"""Time steps, one per stage, in units of one over the largest spread of the eigenvalues of a term.
The long first ones form dimers; shorter last ones than 0.1 were not found to help."""

TOLERANCE = 1e-3
"""The last stage ends when no weight changes faster than this per unit of time, earlier ones at
proportionally more."""

COUPLING_FACTOR = 0.9
"""On the coupling of the x components, where the start is "neel x", the grid has two dimensions and
no term goes beyond neighbours.  The environment of a bond is a product of weights, which leaves
fluctuations out, and the evolved state tends to be ordered too much.  An empirical choice; figures
stand in docs/decisions/tried.md."""


def simple_update(
    operator: Operator, D: int, *, max_steps: int = 100, seed: int = 0, bonds: Bonds = "open"
) -> list[Array]:
    """Give tensors (d, up, left, down, right), near the ground state.

    Terms on one site, on neighbours, and on pairs two bonds apart are evolved; longer ones, and
    those on three sites or more, act as fields from the mean of their other sites.  Gates follow
    each other forth and back (second order in the time step).

    The start is the product state ordered in the plane of lowest mean-field energy; a slightly
    random positive one where the magnetisation is not conserved.  Where it is, the mean of 2 Sz is
    kept at `operator.magnetisation` (0 where none is meant) by factors exp(c Sz) on all sites: one
    constant in that sector, and what a bond leaves out is chosen for it.

    At most `max_steps` are made of each of three time steps; 0 gives the start.  Periodic `bonds`
    are for tensors whose rows are rings.

    Returns:
        Real tensors for a real operator, each of norm 1, the bonds in use of size D (filled with
        zeros where the state needs less).

    Raises:
        ValueError: D below 1, a negative `max_steps` or seed.

    Cost per bond and step: d D^5 and an SVD of (d^2 D) x (d^2 D); per pair two steps apart an SVD
    of d^2 D x d^3 D^3.
    """
    D, seed = whole("simple update", "D", D), whole("simple update", "seed", seed, 0)
    max_steps = whole("simple update", "max_steps", max_steps, 0)
    found = embedding(operator.lattice, bonds)
    state, name = _start(operator, found, D, seed)
    plan = _plan(operator, bonds, name)
    sector = (operator.magnetisation or 0) if operator.conserves_magnetisation else None
    for step_time in TAU:
        gates = [exponential(batch.matrices, step_time / 2 / plan.scale) for batch in plan.pairs]
        for step in range(max_steps):
            if step == 0 or (plan.far and step % _FIELD_INTERVAL == 0):
                site_gates = _site_gates(state, plan, step_time)
            weights, densities = state.weights.copy(), state.densities()
            _step(state, plan.pairs, gates, site_gates)
            if sector is not None:
                state.turn_to_sector(operator, sector)
            moved = (
                np.abs(state.weights - weights).max(),
                np.abs(state.densities() - densities).max(),
            )
            if max(moved) / step_time < TOLERANCE * step_time / TAU[-1]:
                break
    return state.to_peps()


def evolved(
    operator: Operator, tensors: Sequence[Array], D: int, n_steps: int, *, bonds: Bonds = "open"
) -> list[Array]:
    """Give a PEPS after a few steps of imaginary time, with bonds of size D, each of norm 1.

    The steps, of the last `TAU`, open new bonds where the Hamiltonian asks for them, which random
    numbers do not.  Before the first one the weights are found by gates of one; without steps it is
    the same state in another gauge.  Open tensors (d, up, left, down, right) may be put into
    periodic `bonds`.

    Raises:
        ValueError: a bond is larger than D already; tensors that do not fit the grid.
    """
    found = embedding(operator.lattice, bonds)
    if operator.fermions:
        about = found, D, operator.is_complex, operator.fermions.odd
        state: VidalPEPS = EvenVidalPEPS.from_even(tensors, *about)
        plan = plan_gates(operator, bonds)
    else:
        state = VidalPEPS.from_peps(tensors, found, D, operator.is_complex)
        plan = _plan(operator, bonds, pattern_vectors(operator)[1])
    equilibrate(state)
    tau = TAU[-1]
    gates = [exponential(batch.matrices, tau / 2 / plan.scale) for batch in plan.pairs]
    for _ in range(n_steps):
        _step(state, plan.pairs, gates, _site_gates(state, plan, tau))
    return state.to_peps()


def _start(operator: Operator, found: Embedding, D: int, seed: int) -> tuple[VidalPEPS, str]:
    """The product state that the evolution begins with, and its name."""
    if operator.fermions:
        return EvenVidalPEPS.product_with_noise(operator, found, D, seed), "occupied sites"
    vectors, name = start_vectors(operator, seed)
    return VidalPEPS.product(found, vectors, D, operator.is_complex), name


def _plan(operator: Operator, bonds: Bonds, start: str) -> GatePlan:
    """The gates, with less coupling of the ordered component, where that is known to help."""
    plan = plan_gates(operator, bonds)
    if start == "neel x" and min(operator.lattice.shape) > 1 and plan.neighbours_only:
        return plan.with_coupling_of(spin_matrices(operator.local_dim)[0].real, COUPLING_FACTOR)
    return plan


def _site_gates(state: VidalPEPS, plan: GatePlan, time: float) -> Array:
    fields = plan.fields + mean_fields(plan.far, state.densities())
    return exponential(fields, time / 2 / plan.scale)


def _step(
    state: VidalPEPS, pairs: Sequence[Batch], gates: Sequence[Array], site_gates: Array
) -> None:
    """Apply all gates forth and back."""
    _apply_on_sites(state, site_gates)
    forth = list(zip(pairs, gates, strict=True))
    for batch, gate in forth + forth[::-1]:
        state.update(batch, gate)
    _apply_on_sites(state, site_gates)


def _apply_on_sites(state: VidalPEPS, gates: Array) -> None:
    n, d = gates.shape[:2]
    x = gates @ state.tensors.reshape(n, d, -1)
    state.tensors[...] = x.reshape(state.tensors.shape)
