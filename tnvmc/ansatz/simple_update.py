"""Simple update: imaginary-time evolution of a PEPS with weights on its bonds.

Jiang, Weng and Xiang, Phys. Rev. Lett. 101, 090603 (2008).  The state is a tensor per site and
a vector of non-negative weights per bond; a gate on a bond sees the rest of the network only
through the weights around it.  Energies are not variational bounds of anything here: this is a
start for an optimisation, good to a fraction of a percent.

All sites share one padded shape (bonds of the rim are padded to D with zero weights), so that
all bonds of a colour are updated by one batched QR and one batched SVD.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any

UP, LEFT, DOWN, RIGHT = range(4)
_CUT = 1e-10  # relative weight below which a bond state counts as absent


@dataclass(frozen=True)
class SimpleUpdateInfo:
    n_steps: int
    weight_change: float
    truncation: float
    converged: bool
    skipped: tuple[str, ...]


class _Network:
    def __init__(self, shape, local_dim, D, dtype):
        self.shape = shape
        self.D = D
        n_rows, n_cols = shape
        n = n_rows * n_cols
        self.tensors = np.zeros((n, local_dim, D, D, D, D), dtype)
        bond_at = np.full((n, 4), -1)
        k = 0
        for r in range(n_rows):
            for c in range(n_cols):
                s = r * n_cols + c
                if c + 1 < n_cols:
                    bond_at[s, RIGHT] = bond_at[s + 1, LEFT] = k
                    k += 1
                if r + 1 < n_rows:
                    bond_at[s, DOWN] = bond_at[s + n_cols, UP] = k
                    k += 1
        self.bond_at = bond_at
        self.weights = np.zeros((k + 1, D))
        self.weights[:, 0] = 1

    def surround(self, sites, legs):
        """product of weights on all legs but `legs`: (K, D^m)"""
        e = np.ones((len(sites), 1))
        for leg in range(4):
            if leg not in legs:
                w = self.weights[self.bond_at[sites, leg]]
                e = (e[:, :, None] * w[:, None, :]).reshape(len(sites), -1)
        return e

    def split(self, sites, legs):
        """T (weighted) = Q R; R (K, q, d, D...)."""
        others = [leg for leg in range(4) if leg not in legs]
        perm = [0] + [2 + leg for leg in others] + [1] + [2 + leg for leg in legs]
        x = self.tensors[sites].transpose(perm)
        K = len(sites)
        e = self.surround(sites, legs)
        tail = x.shape[1 + len(others) :]
        x = x.reshape(K, e.shape[1], -1) * e[:, :, None]
        q, r = np.linalg.qr(x)
        inv = np.divide(1.0, e, out=np.zeros_like(e), where=e > 0)
        return q * inv[:, :, None], r.reshape(K, r.shape[1], *tail)

    def join(self, sites, legs, q, r):
        others = [leg for leg in range(4) if leg not in legs]
        perm = [0] + [2 + leg for leg in others] + [1] + [2 + leg for leg in legs]
        K = len(sites)
        x = (q @ r.reshape(K, r.shape[1], -1)).reshape(
            K, *[self.D] * len(others), *r.shape[2:]
        )
        x = x.transpose(np.argsort(perm))
        x = x / np.abs(x).max(axis=(1, 2, 3, 4, 5), keepdims=True)
        self.tensors[sites] = x


def _cut(s, D, keep_multiplets=0.0):
    """number kept -> mask (K, D)"""
    k = min(D, s.shape[1])
    w = s[:, :D].copy()
    w[w < _CUT * w[:, :1]] = 0
    if keep_multiplets and s.shape[1] > D:
        nxt = s[:, 1 : D + 1]
        gap = (s[:, :D] - nxt) > keep_multiplets * s[:, :D]
        keep = np.where(gap.any(1), D - np.argmax(gap[:, ::-1], axis=1), D)
        w[np.arange(D)[None, :] >= keep[:, None]] = 0
    norm2 = (s**2).sum(1)
    lost = 1 - (w**2).sum(1) / norm2
    w = w / np.sqrt((w**2).sum(1, keepdims=True))
    if k < D:
        w = np.pad(w, ((0, 0), (0, D - k)))
    return w, lost


def _pad(x, axis, D):
    if x.shape[axis] >= D:
        return np.take(x, range(D), axis)
    p = [(0, 0)] * x.ndim
    p[axis] = (0, D - x.shape[axis])
    return np.pad(x, p)


def _bond_update(net, a, leg_a, b, leg_b, gates, mult):
    D = net.D
    bond = net.bond_at[a, leg_a]
    w = net.weights[bond]
    qa, ra = net.split(a, (leg_a,))
    qb, rb = net.split(b, (leg_b,))
    K, na, d, _ = ra.shape
    nb = rb.shape[1]
    x = (ra * w[:, None, None, :]).reshape(K, na * d, D) @ rb.reshape(K, nb * d, D).swapaxes(1, 2)
    x = x.reshape(K, na, d, nb, d).transpose(0, 1, 3, 2, 4).reshape(K, na * nb, d * d)
    x = x @ gates.swapaxes(1, 2)
    x = x.reshape(K, na, nb, d, d).transpose(0, 1, 3, 2, 4).reshape(K, na * d, nb * d)
    u, s, v = np.linalg.svd(x, full_matrices=False)
    wn, lost = _cut(s, D, mult)
    live = (wn > 0)[:, None, :]
    u = np.where(live, _pad(u, 2, D), 0)
    v = np.where(live, _pad(v.swapaxes(1, 2), 2, D), 0)
    net.join(a, (leg_a,), qa, u.reshape(K, na, d, D))
    net.join(b, (leg_b,), qb, v.reshape(K, nb, d, D))
    net.weights[bond] = wn
    return lost.max()


def _gates(h, tau):
    e, v = np.linalg.eigh(h)
    return (v * np.exp(-tau * e)[:, None, :]) @ v.conj().swapaxes(1, 2)


def absorb(net):
    out = []
    n_rows, n_cols = net.shape
    for s in range(len(net.tensors)):
        t = net.tensors[s]
        for leg in range(4):
            w = np.sqrt(net.weights[net.bond_at[s, leg]])
            t = t * w.reshape([-1 if i == leg + 1 else 1 for i in range(5)])
        r, c = divmod(s, n_cols)
        t = t[:, : 1 if r == 0 else None, : 1 if c == 0 else None,
              : 1 if r == n_rows - 1 else None, : 1 if c == n_cols - 1 else None]
        out.append(t / np.linalg.norm(t))
    return out
