"""Gates on pairs of sites of a PEPS in Vidal's form, many disjoint pairs at once.

Jiang, Weng and Xiang, Phys. Rev. Lett. 101, 090603 (2008); a QR of both tensors first, as in
Corboz, Orus, Bauer and Vidal, Phys. Rev. B 81, 165104 (2010).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tnvmc.ansatz.initial.gates import Batch
from tnvmc.ansatz.initial.vidal import VidalPEPS

Array = Any

_ABSENT = 1e-10  # weight, relative to the largest of the bond, below which a state is dropped


def update_neighbours(state: VidalPEPS, batch: Batch, gates: Array) -> float:
    """Apply gates (K, d^2, d^2) to neighbours, in place; gives the largest discarded weight."""
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


def update_path(state: VidalPEPS, batch: Batch, gates: Array) -> float:
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
