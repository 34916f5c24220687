"""Simple update: imaginary-time evolution of a PEPS with weights on its bonds.

Jiang, Weng and Xiang, Phys. Rev. Lett. 101, 090603 (2008).  The rest of the network enters a gate
only by the weights around it, so a step costs next to nothing and the result is a start for
an optimisation, not its end.

What makes it a good start is the direction of its order.  The evolution settles in a state that
breaks the spin symmetry.  Where the Hamiltonian conserves the magnetisation, the order is started
in the plane: sampling a sector of fixed magnetisation then projects the state onto it, which
restores the rotations about z and lowers the energy far below that of the evolved state itself
(Heisenberg 4x4, D=4: from 2e-2 above the ground state to 8e-4).  Order along z gains nothing.

The coupling of the component that is ordered is eased by a tenth while it evolves (`easing`).
The environment of a bond is a product of weights here, which leaves fluctuations out, and the
evolved state tends to be ordered too much: M^2 of Heisenberg 4x4 is 0.2331 in the ground state,
0.2378 in the state of D = 4 and 0.2364 in the eased one.  That is an empirical choice and no more:
at D = 3 the order comes out too weak without easing, and easing still lowers the energy.
Relative errors of the start, projected (4x4 exactly, the others sampled):

    Heisenberg  4x4 D=2  4x4 D=3  4x4 D=4  6x6 D=2    6x6 D=3    6x6 D=4    8x8 D=4
    as it is    1.46e-2  5.7e-3   8.2e-4   1.91(5)e-2 1.05(4)e-2 4.0(2)e-3  4.7(2)e-3
    eased       1.21e-2  4.9e-3   4.1e-4   1.78(5)e-2 0.86(3)e-2 1.7(1)e-3  2.7(1)e-3

(XXZ on 4x4, D = 4: 1.0(1)e-3 and 5.4(1.1)e-4 at Jz = J/2, no difference at Jz = 0.)

All sites share one padded shape: the legs of the rim are padded to D with weight zero, so that a
whole batch of disjoint bonds is updated by one stacked QR and one stacked SVD.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.ansatz.initial.gates import (
    DOWN,
    LEFT,
    RIGHT,
    UP,
    Batch,
    GatePlan,
    exponential,
    mean_fields,
    plan_gates,
)
from tnvmc.ansatz.initial.product_starts import start_vectors
from tnvmc.operators.spin import spin_matrices
from tnvmc.operators.term import Operator

Array = Any

_ABSENT = 1e-10  # weight, relative to the largest of the bond, below which a state is dropped
_FIELD_INTERVAL = 10  # steps between two updates of the mean fields
_GAUGE_STEPS = 20  # after which weights of optimised states no longer matter to the energy


@dataclass(frozen=True)
class ImaginaryTime:
    """How a state is evolved in imaginary time, and when that ends.

    Args:
        tau: time steps, one per stage, in units of one over the largest spread of the eigenvalues
            of a term.  The long first ones form dimers; shorter last ones than 0.1 were not found
            to help.
        max_steps: limit of the steps of each stage.
        tolerance: the last stage ends when no weight changes faster than this per unit of time,
            earlier ones at proportionally more.
        easing: factor on the coupling of the x components, where the start is "neel x", the grid
            has two dimensions and no term goes beyond neighbours; 1 evolves with the operator
            itself.

    Raises:
        ValueError: no positive time step.
    """

    tau: tuple[float, ...] = (1.0, 0.3, 0.1)
    max_steps: int = 100
    tolerance: float = 1e-3
    easing: float = 0.9

    def __post_init__(self) -> None:
        if not self.tau or min(self.tau) <= 0:
            raise ValueError(f"ImaginaryTime: tau = {self.tau}; every time step must be positive")


@dataclass(frozen=True)
class SimpleUpdateInfo:
    """How the evolution went."""

    n_steps: int
    start: str  #: which product state it began from
    converged: bool  #: whether the last stage met the tolerance before its last step
    weight_change: float  #: largest change of a bond weight per unit of (scaled) imaginary time
    truncation: float  #: largest discarded weight of the last step, sum of squares, relative
    notes: tuple[str, ...]  #: terms that were not evolved exactly, one line per kind


def simple_update(
    operator: Operator,
    D: int,
    *,
    time: ImaginaryTime = ImaginaryTime(),
    start: str | Sequence[Array] = "auto",
    seed: int = 0,
) -> tuple[list[Array], SimpleUpdateInfo]:
    """Give tensors (d, up, left, down, right), near the ground state, and how they came about.

    Terms on one site, on neighbours, and on pairs two bonds apart are evolved; longer ones, and
    those on three sites or more, act as fields from the mean of their other sites.  Gates follow
    each other forth and back (second order in tau).

    Args:
        operator: the Hamiltonian; its lattice gives the grid of the network.
        D: bond dimension.
        time: the time steps, and when to stop.
        start: "auto" (lowest mean-field energy of product states ordered in the plane; a slightly
            random positive one where the magnetisation is not conserved), a name of
            `product_starts`, or one vector (d,) per site.
        seed: of the noise on the start where the magnetisation is not conserved.

    Returns:
        Real tensors for a real operator, each of norm 1, inner bonds of size D (filled with zeros
        where the state needs less), and how the evolution went.

    Raises:
        ValueError: D below 1, an unknown start.

    Cost per bond and step: d D^5 and an SVD of (d^2 D) x (d^2 D); per pair two steps apart an SVD
    of d^2 D x d^3 D^3.

    Does not bound the energy from above, and leaves loops of the lattice out.
    """
    if D < 1:
        raise ValueError(f"simple update: D = {D}; it must be 1 or larger")
    tau = time.tau
    vectors, name = start_vectors(operator, start, seed)
    plan = _eased(plan_gates(operator), operator, name, time.easing)
    state = _product(operator.lattice.shape, vectors, D, operator.is_complex)
    n_steps, change, lost = 0, np.inf, 0.0
    for step_time in tau:
        gates = [exponential(batch.matrices, step_time / 2 / plan.scale) for batch in plan.pairs]
        for step in range(time.max_steps):
            if step == 0 or (plan.far and step % _FIELD_INTERVAL == 0):
                site_gates = _site_gates(state, plan, step_time)
            weights, densities = state.weights.copy(), _site_densities(state)
            lost = _step(state, plan.pairs, gates, site_gates)
            moved = (
                np.abs(state.weights - weights).max(),
                np.abs(_site_densities(state) - densities).max(),
            )
            change = float(max(moved)) / step_time
            n_steps += 1
            if change < time.tolerance * step_time / tau[-1]:
                break
    converged = change < time.tolerance
    info = SimpleUpdateInfo(n_steps, name, converged, change, lost, plan.notes)
    return _absorb_weights(state, operator.lattice.shape), info


def evolved(
    operator: Operator,
    tensors: Sequence[Array],
    D: int,
    n_steps: int,
    *,
    tau: float = 0.1,
    easing: float = 0.9,
) -> list[Array]:
    """Give a PEPS after a few steps of imaginary time, with bonds of size D, each of norm 1.

    The steps open new bonds where the Hamiltonian asks for them, which random numbers do not.
    Before the first one the weights are found by steps that change nothing (gates of one).

    Args:
        operator: the Hamiltonian.
        tensors: (d, up, left, down, right), row by row.
        D: bond dimension of the result.
        n_steps: steps to take; after none the state is the same in another gauge.
        tau: time step, as in `ImaginaryTime`.
        easing: as in `ImaginaryTime`, where "auto" would start from "neel x".

    Returns:
        Tensors as those of `simple_update`, at its cost per step.

    Raises:
        ValueError: a bond is larger than D already; tensors that do not fit the grid.
    """
    plan = _eased(plan_gates(operator), operator, start_vectors(operator, "auto", 0)[1], easing)
    state = _with_weights(tensors, operator.lattice.shape, D, operator.is_complex)
    idle = [np.broadcast_to(np.eye(b.matrices.shape[1]), b.matrices.shape) for b in plan.pairs]
    idle_sites = np.broadcast_to(np.eye(operator.local_dim), plan.fields.shape)
    for _ in range(_GAUGE_STEPS):
        _step(state, plan.pairs, idle, idle_sites)
    gates = [exponential(batch.matrices, tau / 2 / plan.scale) for batch in plan.pairs]
    for _ in range(n_steps):
        _step(state, plan.pairs, gates, _site_gates(state, plan, tau))
    return _absorb_weights(state, operator.lattice.shape)


def _eased(plan: GatePlan, operator: Operator, start: str, easing: float) -> GatePlan:
    """Ease the coupling of the ordered component, where that is known to help."""
    if start == "neel x" and min(operator.lattice.shape) > 1 and plan.neighbours_only:
        return plan.with_coupling_of(spin_matrices(operator.local_dim)[0].real, easing)
    return plan


def _site_gates(state: _State, plan: GatePlan, time: float) -> Array:
    fields = plan.fields + mean_fields(plan.far, _site_densities(state))
    return exponential(fields, time / 2 / plan.scale)


# --- the network ---------------------------------------------------------------------------


@dataclass
class _State:
    """Tensors and weights in Vidal's form, changed in place."""

    tensors: Array  # (N, d, D, D, D, D); no vertical legs (size 1) in one row, or the reverse
    weights: Array  # (n_bonds + 1, D), norm 1 each; the last one stands for all legs of the rim
    bond_at: Array  # (N, 4) index into weights

    def surroundings(self, sites: Array, legs: Sequence[int]) -> Array:
        """Products of the weights on the other legs: (K, D^m)."""
        product = np.ones((len(sites), 1))
        for leg in _others(legs):
            weight = self.weights[self.bond_at[sites, leg], : self.tensors.shape[leg + 2]]
            product = (product[:, :, None] * weight[:, None, :]).reshape(len(sites), -1)
        return product

    def split(self, sites: Array, legs: tuple[int, ...]) -> tuple[Array, Array]:
        """QR of the weighted tensors: Q (K, D^m, q) without the weights, R (K, q, d, D, ...)."""
        x = self.tensors[sites].transpose(_axes(legs))
        kept = x.shape[5 - len(legs) :]
        around = self.surroundings(sites, legs)
        q, r = np.linalg.qr(x.reshape(*around.shape, -1) * around[:, :, None])
        inverse = np.divide(1.0, around, out=np.zeros_like(around), where=around > 0)
        return q * inverse[:, :, None], r.reshape(*r.shape[:2], *kept)

    def join(self, sites: Array, legs: tuple[int, ...], q: Array, r: Array) -> None:
        """Put Q R back, scaled to largest entry 1."""
        sizes = [self.tensors.shape[leg + 2] for leg in _others(legs)]
        x = (q @ r.reshape(*r.shape[:2], -1)).reshape(-1, *sizes, *r.shape[2:])
        x = x.transpose(np.argsort(_axes(legs)))
        self.tensors[sites] = x / np.abs(x).max(axis=(1, 2, 3, 4, 5), keepdims=True)


def _others(legs: Sequence[int]) -> list[int]:
    return [leg for leg in range(4) if leg not in legs]


def _axes(legs: Sequence[int]) -> list[int]:
    """Order of the axes of stacked tensors: other legs, spin, `legs`."""
    return [0, *(leg + 2 for leg in _others(legs)), 1, *(leg + 2 for leg in legs)]


def _product(shape: tuple[int, int], vectors: Array, D: int, is_complex: bool) -> _State:
    n_sites, d = vectors.shape
    n_rows, n_cols = shape
    sites = np.arange(n_sites).reshape(shape)
    bond_at = np.full((n_sites, 4), -1)
    bond_at[sites[:, :-1], RIGHT] = bond_at[sites[:, 1:], LEFT] = np.arange(
        n_rows * (n_cols - 1)
    ).reshape(n_rows, -1)
    bond_at[sites[:-1], DOWN] = bond_at[sites[1:], UP] = n_rows * (n_cols - 1) + np.arange(
        (n_rows - 1) * n_cols
    ).reshape(-1, n_cols)
    weights = np.zeros((bond_at.max() + 2, D))
    weights[:, 0] = 1.0
    vertical, horizontal = D if n_rows > 1 else 1, D if n_cols > 1 else 1
    sizes = (n_sites, d, vertical, horizontal, vertical, horizontal)
    tensors = np.zeros(sizes, complex if is_complex else float)
    tensors[:, :, 0, 0, 0, 0] = vectors
    return _State(tensors, weights, bond_at)


def _with_weights(
    tensors: Sequence[Array], shape: tuple[int, int], D: int, is_complex: bool
) -> _State:
    """Put a PEPS into padded tensors with even weights on its bonds."""
    largest = max(max(tensor.shape[1:]) for tensor in tensors)
    if len(tensors) != shape[0] * shape[1] or largest > D:
        raise ValueError(
            f"simple update: {len(tensors)} tensors with bonds up to {largest} for a grid of "
            f"{shape} and D = {D}; a state grows, it is not cut"
        )
    is_complex = is_complex or any(np.iscomplexobj(tensor) for tensor in tensors)
    state = _product(shape, np.zeros((len(tensors), tensors[0].shape[0])), D, is_complex)
    for site, tensor in enumerate(tensors):
        inside = tuple(slice(0, size) for size in tensor.shape)
        state.tensors[(site, *inside)] = tensor / np.abs(tensor).max()
        for bond, size in zip(state.bond_at[site], tensor.shape[1:], strict=True):
            state.weights[bond, :size] = 1 / np.sqrt(size)
    return state


def _absorb_weights(state: _State, shape: tuple[int, int]) -> list[Array]:
    """Share the weights evenly between both ends of a bond; cut the padding of the rim."""
    tensors = []
    for site, tensor in enumerate(state.tensors):
        for leg in range(4):
            bond = state.bond_at[site, leg]
            root = np.sqrt(state.weights[bond, : tensor.shape[leg + 1]])
            tensor = np.moveaxis(np.moveaxis(tensor, leg + 1, -1) * root, -1, leg + 1)
            if bond == -1:
                tensor = tensor.take([0], axis=leg + 1)
        tensors.append(tensor / np.linalg.norm(tensor))
    return tensors


def _site_densities(state: _State) -> Array:
    """One-site density matrices (N, d, d) with the weights for an environment."""
    sites = np.arange(len(state.tensors))
    x = state.tensors.reshape(*state.tensors.shape[:2], -1)
    x = x * state.surroundings(sites, ())[:, None, :]
    density = x @ x.conj().swapaxes(1, 2)
    return density / np.trace(density, axis1=1, axis2=2)[:, None, None]


# --- one step ------------------------------------------------------------------------------


def _step(
    state: _State, pairs: Sequence[Batch], gates: Sequence[Array], site_gates: Array
) -> float:
    """Apply all gates forth and back; gives the largest discarded weight."""
    lost = 0.0
    _apply_on_sites(state, site_gates)
    for batch, gate in [
        *zip(pairs, gates, strict=True),
        *zip(pairs[::-1], gates[::-1], strict=True),
    ]:
        update = _update_neighbours if len(batch.legs) == 1 else _update_path
        lost = max(lost, update(state, batch, gate))
    _apply_on_sites(state, site_gates)
    return lost


def _apply_on_sites(state: _State, gates: Array) -> None:
    n, d = gates.shape[:2]
    x = gates @ state.tensors.reshape(n, d, -1)
    state.tensors[...] = x.reshape(state.tensors.shape)


def _update_neighbours(state: _State, batch: Batch, gates: Array) -> float:
    a, b = batch.sites.T
    legs_a, legs_b = (batch.legs[0],), ((batch.legs[0] + 2) % 4,)
    bond = state.bond_at[a, legs_a[0]]
    q_a, r_a = state.split(a, legs_a)
    q_b, r_b = state.split(b, legs_b)
    pair = np.einsum("kasi,kbti->kabst", r_a * _beside(state.weights[bond], 4), r_b, optimize=True)
    pair = _gated(pair, gates)  # k a b s t
    left, weights, right, lost = _cut_svd(pair.transpose(0, 1, 3, 2, 4), 2, state.weights.shape[1])
    state.join(a, legs_a, q_a, left)
    state.join(b, legs_b, q_b, np.moveaxis(right, 1, -1))
    state.weights[bond] = weights
    return lost


def _update_path(state: _State, batch: Batch, gates: Array) -> float:
    """Gate on the ends of a path of two bonds, with the site between them carried along."""
    a, m, b = batch.sites.T
    first, second = batch.legs
    legs_a, legs_m, legs_b = (first,), ((first + 2) % 4, second), ((second + 2) % 4,)
    bond_am, bond_mb = state.bond_at[a, first], state.bond_at[m, second]
    D = state.weights.shape[1]
    q_a, r_a = state.split(a, legs_a)
    q_m, r_m = state.split(m, legs_m)  # k c u i j
    q_b, r_b = state.split(b, legs_b)
    r_a = r_a * _beside(state.weights[bond_am], 4)
    r_b = r_b * _beside(state.weights[bond_mb], 4)
    three = np.einsum("kasi,kcuij,kbtj->kacubst", r_a, r_m, r_b, optimize=True)
    three = _gated(three, gates).transpose(0, 1, 5, 2, 3, 4, 6)  # k a s c u b t
    left, weights_am, rest, lost = _cut_svd(three, 2, D)
    rest = rest * weights_am.reshape(-1, D, 1, 1, 1, 1)  # k i c u b t
    middle, weights_mb, right, lost_too = _cut_svd(rest, 3, D)  # k i c u j
    inverse = np.divide(1.0, weights_am, out=np.zeros_like(weights_am), where=weights_am > 0)
    middle = middle * inverse.reshape(-1, D, 1, 1, 1)
    state.join(a, legs_a, q_a, left)
    state.join(m, legs_m, q_m, middle.transpose(0, 2, 3, 1, 4))
    state.join(b, legs_b, q_b, np.moveaxis(right, 1, -1))
    state.weights[bond_am], state.weights[bond_mb] = weights_am, weights_mb
    return max(lost, lost_too)


def _beside(weights: Array, ndim: int) -> Array:
    """Weights (K, D) shaped to multiply the last axis."""
    return weights.reshape(len(weights), *[1] * (ndim - 2), -1)


def _gated(x: Array, gates: Array) -> Array:
    """Apply gates (K, d^2, d^2) to the last two axes."""
    flat = x.reshape(len(x), -1, gates.shape[1])
    return (flat @ gates.swapaxes(1, 2)).reshape(x.shape)


def _cut_svd(x: Array, n_left: int, D: int) -> tuple[Array, Array, Array, float]:
    """SVD between the first `n_left` axes (after the batch) and the rest, cut or padded to D.

    Gives left (K, ..., D), weights (K, D) of norm 1, right (K, D, ...) and the discarded weight.
    """
    n_batch, rows, columns = len(x), x.shape[1 : 1 + n_left], x.shape[1 + n_left :]
    u, s, v = np.linalg.svd(x.reshape(n_batch, int(np.prod(rows)), -1), full_matrices=False)
    kept = np.where(s[:, :D] > _ABSENT * s[:, :1], s[:, :D], 0.0)
    total, remaining = (s**2).sum(axis=1), (kept**2).sum(axis=1)
    lost = float((1.0 - remaining / total).max())
    k, present = kept.shape[1], kept > 0
    left = np.zeros((*u.shape[:2], D), u.dtype)
    right = np.zeros((n_batch, D, v.shape[2]), v.dtype)
    weights = np.zeros((n_batch, D))
    left[:, :, :k] = u[:, :, :k] * present[:, None, :]
    right[:, :k] = v[:, :k] * present[:, :, None]
    weights[:, :k] = kept / np.sqrt(remaining)[:, None]
    return left.reshape(n_batch, *rows, D), weights, right.reshape(n_batch, D, *columns), lost
