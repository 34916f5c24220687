"""Images of configurations under a group: where patches lie in them, and sums over them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import LogAmplitude, Snapshot, Targets
from tnvmc.backend.namespace import array_namespace, is_complex, to_namespace
from tnvmc.lattice.lattice import Patch
from tnvmc.lattice.permutations import Symmetry

Array = Any


def moved_patch(patch: Patch, symmetry: Symmetry) -> Patch:
    """Where the sites of a patch are in g s, in increasing order."""
    return tuple(sorted(symmetry.places[site] for site in patch))


def moved_table(table: Array, patch: Patch, symmetry: Symmetry, local_dim: int) -> Array:
    """Replacements (d^k, R) of a patch of s, as those of the same sites in g s.

    Columns stay where they are, so column r of both leads to the same configuration.
    """
    xp = array_namespace(table)
    places = [symmetry.places[site] for site in patch]
    order = tuple(sorted(range(len(patch)), key=places.__getitem__))
    there, back = _relabelled(order, symmetry.inverts, local_dim)
    rows = xp.take(table, to_namespace(back, xp), axis=0)
    safe = xp.where(rows < 0, xp.zeros_like(rows), rows)
    moved = xp.take(to_namespace(there, xp), xp.reshape(safe, (-1,)), axis=0)
    return xp.where(rows < 0, rows, xp.astype(xp.reshape(moved, rows.shape), rows.dtype))


@lru_cache(maxsize=256)
def _relabelled(
    order: tuple[int, ...], inverts: bool, local_dim: int
) -> tuple[np.ndarray, np.ndarray]:
    """New local state of every old one when digit j comes from digit order[j]; and the inverse."""
    digits = np.indices((local_dim,) * len(order)).reshape(len(order), -1)
    digits = digits[list(order)]
    if inverts:
        digits = local_dim - 1 - digits
    there = np.array(np.ravel_multi_index(tuple(digits), (local_dim,) * len(order)), dtype=np.int64)
    return there, np.argsort(there).astype(np.int64)


DERIVATIVES, RATIOS = "log-derivatives", "ratios"


class Sums:
    """sum_g chi(g) psi(g s) x_g for rows x_g (B, ...) of every image, one image after the other.

    They are kept relative to the largest |psi(g s)| so far, so that none overflows and no image is
    kept.
    """

    def __init__(self) -> None:
        self.parts: list[Snapshot] = []  #: without ratios and log-derivatives
        self._scale: Array = None  #: (B,) ln of the largest |psi(g s)|
        self._rows: dict[str, Array] = {}

    def add(self, character: float, part: Snapshot, rows: Mapping[str, Array]) -> None:
        """Add what an image shows."""
        amplitude = part.amplitude
        xp = array_namespace(amplitude.phase)
        log_abs = amplitude.log_abs
        least = xp.full_like(log_abs, float(xp.finfo(log_abs.dtype).min) / 4)  # of psi = 0
        log_abs = xp.where(xp.isfinite(log_abs), log_abs, least)
        before = least if self._scale is None else self._scale
        self._scale = xp.maximum(before, log_abs)
        kept = xp.exp(before - self._scale)
        factor = character * amplitude.phase * xp.exp(log_abs - self._scale)
        for key, row in rows.items():
            term = _times(factor, row)
            self._rows[key] = (
                term if key not in self._rows else _times(kept, self._rows[key]) + term
            )
        self.parts.append(replace(part, ratios={}, jacobian=None))

    def over(self, amplitude: LogAmplitude, key: str) -> Array:
        """The sum of one kind of rows over psi_sym, 0 where that is 0."""
        xp = array_namespace(amplitude.phase)
        phase = amplitude.phase
        log_abs = xp.where(phase == 0, self._scale, amplitude.log_abs)
        if is_complex(phase):
            phase = xp.conj(phase)  # 1 / phase, of modulus 1
        return _times(phase * xp.exp(self._scale - log_abs), self._rows[key])

    def ratios(self, amplitude: LogAmplitude, replacements: Targets) -> dict[Patch, Array]:
        """psi_sym(s') / psi_sym(s) by patch, (B, R)."""
        if not replacements:
            return {}
        together = self.over(amplitude, RATIOS)
        ends = pairwise(accumulate((t.shape[1] for t in replacements.values()), initial=0))
        return {patch: together[:, a:b] for patch, (a, b) in zip(replacements, ends, strict=True)}

    def spread(self, shares: list[Array]) -> Array | None:
        """sum_g |w_g| times the spread of ln|psi(g s)|, which is rounding at least: (B,)."""
        if self.parts[0].closure_spread is None:
            return None
        total: Any = 0.0
        for share, part in zip(shares, self.parts, strict=True):
            xp = array_namespace(share)
            own: Array = part.closure_spread
            least = xp.full_like(own, float(xp.finfo(own.dtype).eps))
            total = total + xp.abs(share) * xp.maximum(own, least)
        return total


def _times(factor: Array, rows: Array) -> Array:
    """Rows (B, ...) times a factor (B,), complex if one of both is."""
    xp = array_namespace(factor)
    factor = factor[:, None]
    if is_complex(factor) != is_complex(rows):
        dtype = factor.dtype if is_complex(factor) else rows.dtype
        factor, rows = xp.astype(factor, dtype), xp.astype(rows, dtype)
    return factor * rows
