"""Simple update: imaginary-time evolution of a PEPS with weights on its bonds.

Jiang, Weng and Xiang, Phys. Rev. Lett. 101, 090603 (2008).  A gate sees the rest of the network
only through the weights around it, so a step costs next to nothing and the result is a start for
an optimisation, not its end.

What makes it a good start is the direction of its order.  The evolution settles in a state that
breaks the spin symmetry.  Where the Hamiltonian conserves the magnetisation, the order is started
in the plane: sampling a sector of fixed magnetisation then projects the state onto it, which
restores the rotations about z and lowers the energy far below that of the evolved state itself
(Heisenberg 4x4, D=4: from 2e-2 above the ground state to 8e-4).  Order along z gains nothing.

All sites share one padded shape: the legs of the rim are padded to D with weight zero, so that a
whole batch of disjoint bonds is updated by one stacked QR and one stacked SVD.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from tnvmc.operators.term import Operator, Term

Array = Any

UP, LEFT, DOWN, RIGHT = range(4)  # a leg's opposite is (leg + 2) % 4
_ABSENT = 1e-10  # weight, relative to the largest of the bond, below which a state is dropped
_FIELD_INTERVAL = 10  # steps between two updates of the mean fields


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
    seed: int = 0,
    start: str | Sequence[Array] = "auto",
    tau: Sequence[float] = (1.0, 0.3, 0.1),
    max_steps: int = 100,
    tolerance: float = 1e-3,
) -> tuple[list[Array], SimpleUpdateInfo]:
    """Give tensors (d, up, left, down, right), near the ground state, and how they came about.

    Terms on one site, on neighbours, and on pairs two bonds apart are evolved; longer ones, and
    those on three sites or more, act as fields from the mean of their other sites.  Gates follow
    each other forth and back (second order in tau).

    Args:
        operator: the Hamiltonian; its lattice gives the grid of the network.
        D: bond dimension.
        seed: of the noise on the start where the magnetisation is not conserved.
        start: "auto" (lowest mean-field energy of ordered product states; a slightly random
            positive one where the magnetisation is not conserved), a name of `product_starts`, or
            one vector (d,) per site.
        tau: imaginary time steps, one per stage, in units of one over the largest spread of the
            eigenvalues of a term.  The long first ones form dimers; shorter last ones than
            0.1 were not found to help.
        max_steps: limit of the steps of each stage.
        tolerance: the last stage ends when no weight changes faster than this per unit of time,
            earlier ones at proportionally more.

    Returns real tensors for a real operator, each of norm 1, inner bonds of size D (filled with
    zeros where the state needs less).  Cost per bond and step: d D^5 and an SVD of (d^2 D) x
    (d^2 D); per pair two steps apart an SVD of d^2 D x d^3 D^3.

    Does not bound the energy from above, and does not look at loops of the lattice.

    Raises:
        ValueError: D below 1, no positive time step, an unknown start.
    """
    if D < 1 or not tau or min(tau) <= 0:
        raise ValueError(
            f"simple update: D = {D} and tau = {tuple(tau)}; D must be 1 or larger and every "
            "time step positive"
        )
    vectors, name = _start_vectors(operator, start, seed)
    plan = _plan(operator)
    state = _product(operator.lattice.shape, vectors, D, operator.is_complex)
    n_steps, change, lost = 0, np.inf, 0.0
    for step_time in tau:
        gates = [_exponential(batch.matrices, step_time / 2 / plan.scale) for batch in plan.pairs]
        for step in range(max_steps):
            if step == 0 or (plan.far and step % _FIELD_INTERVAL == 0):
                fields = plan.fields + _mean_fields(plan.far, _site_densities(state))
                site_gates = _exponential(fields, step_time / 2 / plan.scale)
            weights, densities = state.weights.copy(), _site_densities(state)
            lost = _step(state, plan.pairs, gates, site_gates)
            moved = (
                np.abs(state.weights - weights).max(),
                np.abs(_site_densities(state) - densities).max(),
            )
            change = float(max(moved)) / step_time
            n_steps += 1
            if change < tolerance * step_time / tau[-1]:
                break
    info = SimpleUpdateInfo(n_steps, name, change < tolerance, change, lost, plan.notes)
    return _absorb_weights(state, operator.lattice.shape), info


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


# --- the Hamiltonian, sorted into gates ------------------------------------------------------


@dataclass(frozen=True)
class _Batch:
    """Pair terms on disjoint sites, all in the same position: neighbours or ends of a path."""

    sites: Array  # (K, 2) neighbours, or (K, 3) in the order of the path
    legs: tuple[int, ...]  # along which the path goes: one or two
    matrices: Array  # (K, d^2, d^2)


@dataclass(frozen=True)
class _Plan:
    fields: Array  # (N, d, d) one-site terms
    pairs: tuple[_Batch, ...]
    far: tuple[Term, ...]  # treated in mean field
    scale: float  # largest spread of eigenvalues of a term
    notes: tuple[str, ...]


def _plan(operator: Operator) -> _Plan:
    n_cols, d = operator.lattice.shape[1], operator.local_dim
    fields = np.zeros((operator.n_sites, d, d), complex if operator.is_complex else float)
    placed: dict[tuple[int, ...], list[tuple[tuple[int, ...], Array]]] = defaultdict(list)
    far: list[Term] = []
    spread = 0.0
    for term in operator.terms:
        matrix = term.matrix if operator.is_complex else term.matrix.real
        levels = np.linalg.eigvalsh(matrix)
        spread = max(spread, float(levels[-1] - levels[0]))
        path = _path(term.sites, n_cols)
        if len(term.sites) == 1:
            fields[term.sites[0]] += matrix
        elif path is None:
            far.append(term)
        else:
            legs, sites = path
            placed[legs].append((sites, matrix))
    pairs = tuple(b for legs, terms in sorted(placed.items()) for b in _batches(legs, terms))
    notes = tuple(
        f"{n} terms on {k} sites that no path of two bonds joins were taken in mean field"
        for k, n in sorted(_counts(len(term.sites) for term in far).items())
    )
    return _Plan(fields, pairs, tuple(far), spread or 1.0, notes)


def _path(sites: tuple[int, ...], n_cols: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Legs followed and sites visited from one of two sites to the other, by two bonds at most.

    Between the ends of a diagonal only one of the two corners is used: with half a gate through
    each of them, dimers on diagonals never form (Shastry-Sutherland), and J1-J2 gains nothing.
    """
    (r0, c0), (r1, c1) = divmod(sites[0], n_cols), divmod(sites[-1], n_cols)
    down, right = r1 - r0, c1 - c0
    if len(sites) != 2 or down + abs(right) > 2:
        return None
    legs = sorted([DOWN] * down + [RIGHT if right > 0 else LEFT] * abs(right))
    moves = {DOWN: n_cols, RIGHT: 1, LEFT: -1}
    return tuple(legs), tuple(itertools.accumulate((moves[leg] for leg in legs), initial=sites[0]))


def _batches(legs: tuple[int, ...], terms: list[tuple[tuple[int, ...], Array]]) -> Iterable[_Batch]:
    """Distribute terms over batches in which no site occurs twice."""
    batches: list[list[tuple[tuple[int, ...], Array]]] = []
    for sites, matrix in terms:
        for batch in batches:
            if not any(set(sites) & set(other) for other, _ in batch):
                batch.append((sites, matrix))
                break
        else:
            batches.append([(sites, matrix)])
    for batch in batches:
        yield _Batch(np.array([s for s, _ in batch]), legs, np.array([m for _, m in batch]))


def _counts(items: Iterable[int]) -> dict[int, int]:
    counts: dict[int, int] = defaultdict(int)
    for item in items:
        counts[item] += 1
    return counts


def _exponential(matrices: Array, time: float) -> Array:
    """exp(-time h) of stacked Hermitian matrices."""
    levels, states = np.linalg.eigh(matrices)
    levels = levels - levels[:, :1]  # a factor that drops out, and cannot overflow
    return (states * np.exp(-time * levels)[:, None, :]) @ states.conj().swapaxes(1, 2)


def _site_densities(state: _State) -> Array:
    """One-site density matrices (N, d, d) with the weights for an environment."""
    sites = np.arange(len(state.tensors))
    x = state.tensors.reshape(*state.tensors.shape[:2], -1)
    x = x * state.surroundings(sites, ())[:, None, :]
    density = x @ x.conj().swapaxes(1, 2)
    return density / np.trace(density, axis1=1, axis2=2)[:, None, None]


def _mean_fields(terms: Iterable[Term], densities: Array) -> Array:
    """What each term is for one of its sites when the others are averaged over: (N, d, d)."""
    fields = np.zeros_like(densities)
    d = densities.shape[1]
    for term in terms:
        k = len(term.sites)
        for own in range(k):
            legs = term.matrix.reshape((d,) * (2 * k))
            operands: list[Any] = [legs, list(range(2 * k))]
            for other in set(range(k)) - {own}:
                operands += [densities[term.sites[other]], [k + other, other]]
            field = np.einsum(*operands, [own, k + own])
            fields[term.sites[own]] += field if np.iscomplexobj(fields) else field.real
    return fields


# --- one step ------------------------------------------------------------------------------


def _step(
    state: _State, pairs: Sequence[_Batch], gates: Sequence[Array], site_gates: Array
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


def _update_neighbours(state: _State, batch: _Batch, gates: Array) -> float:
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


def _update_path(state: _State, batch: _Batch, gates: Array) -> float:
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


# --- where it starts -----------------------------------------------------------------------


def product_starts(shape: tuple[int, int], local_dim: int = 2) -> dict[str, Array]:
    """Give ordered product states by name, each as one vector per site (N, d).

    Orders "neel", "row stripes", "column stripes" and "uniform", with the spins in the plane
    (along +-x), and the first three along z: "neel x", "neel z", ...
    """
    rows, columns = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    patterns = {
        "neel": (rows + columns) % 2,
        "row stripes": rows % 2,
        "column stripes": columns % 2,
        "uniform": 0 * rows,
    }
    d = local_dim
    coherent = np.sqrt([comb(d - 1, s) / 2 ** (d - 1) for s in range(d)])
    signs = (-1.0) ** np.arange(d)
    in_plane = np.stack([coherent, coherent * signs])
    along_z = np.eye(d)[[0, d - 1]]
    starts = {f"{name} x": in_plane[pattern] for name, pattern in patterns.items()}
    starts |= {f"{n} z": along_z[pattern] for n, pattern in patterns.items() if n != "uniform"}
    return starts


def _start_vectors(
    operator: Operator, start: str | Sequence[Array], seed: int
) -> tuple[Array, str]:
    shape, d = operator.lattice.shape, operator.local_dim
    if not isinstance(start, str):
        vectors = np.asarray(start)
        if vectors.shape != (operator.n_sites, d):
            raise ValueError(
                f"simple update: start has shape {vectors.shape}; a product state is one vector "
                f"per site, ({operator.n_sites}, {d})"
            )
        return vectors, "given"
    starts = product_starts(shape, d)
    if start == "auto" and not operator.conserves_magnetisation:
        rng = np.random.Generator(np.random.PCG64(seed))
        return 1.0 + 0.1 * rng.uniform(size=(operator.n_sites, d)), "positive"
    if start == "auto":
        # rounding must not decide between directions that symmetry makes equal: x comes first
        energies = {name: round(_mean_energy(operator, v), 9) for name, v in starts.items()}
        start = min(energies, key=energies.__getitem__)
    if start not in starts:
        raise ValueError(
            f"simple update: start {start!r} is not known; choose one of auto, {', '.join(starts)}"
        )
    return starts[start], start


def _mean_energy(operator: Operator, vectors: Array) -> float:
    energy = 0.0
    for term in operator.terms:
        state = np.ones(1)
        for site in term.sites:
            state = np.kron(state, vectors[site])
        energy += float(np.real(state.conj() @ term.matrix @ state))
    return energy
