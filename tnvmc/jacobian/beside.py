"""Log-derivatives of several states side by side: those of a product of states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from tnvmc.backend.namespace import array_namespace
from tnvmc.jacobian.base import About, StructuredJacobian

Array = Any


@dataclass(frozen=True)
class BesideJacobian(StructuredJacobian):
    """Columns of the first part, then those of the next, of the same samples.

    ln (psi_a psi_b) = ln psi_a + ln psi_b, so O_k of a product is that of the state whose parameter k is.
    Each part stays as it is: slices stay slices, and what is on several ranks stays there.  O v is the sum
    over the parts, O^dagger u lies side by side, O O^dagger is the sum of theirs.
    """

    parts: tuple[StructuredJacobian, ...]
    units: tuple[float, ...] | None = None
    """Of the parameters of each part: its columns are multiplied by it.  None: 1 for all."""

    @property
    def shape(self) -> tuple[int, int]:
        """(M, P)."""
        return self._shapes[0][0], sum(n for _, n in self._shapes)

    @property
    def dtype(self) -> Any:
        """Type of the entries; complex where a part is."""
        dtypes = [part.dtype for part in self.parts]
        return next((dtype for dtype in dtypes if "complex" in str(dtype)), dtypes[0])

    def apply(self, v: Array) -> Array:
        """O v: (P,) -> (M,)."""
        return _sum(part.apply(unit * own) for part, unit, own in self._with(v))

    def adjoint(self, u: Array) -> Array:
        """O^dagger u: (M,) -> (P,)."""
        found = [unit * part.adjoint(u) for part, unit in self._in_units]
        return array_namespace(*found).concat(found)

    def gram(self) -> Array:
        """O O^dagger: (M, M).  Memory: two of these matrices."""
        return _sum(_times(part.gram(), unit**2) for part, unit in self._in_units)

    def squares(self) -> Array:
        """|O_s|^2 of each sample: (M,)."""
        return _sum(unit**2 * part.squares() for part, unit in self._in_units)

    def dense(self) -> Array:
        """All of O: (M, P).  For small systems and tests."""
        found = [unit * part.dense() for part, unit in self._in_units]
        return array_namespace(*found).concat(found, axis=1)

    def rows(self, start: int, stop: int) -> BesideJacobian:
        """The part that belongs to samples start..stop-1."""
        return replace(self, parts=tuple(part.rows(start, stop) for part in self.parts))

    def real_above_imaginary(self) -> BesideJacobian:
        """(M, P) complex -> (2 M, P) real; a real part has zeros below it."""
        return replace(self, parts=tuple(part.real_above_imaginary() for part in self.parts))

    def about(self) -> About:
        """What is told of each part."""
        return About(self.shape, self.dtype, parts=tuple(part.about() for part in self.parts))

    @property
    def _shapes(self) -> list[tuple[int, int]]:
        return [part.shape for part in self.parts]

    @property
    def _in_units(self) -> Iterator[tuple[StructuredJacobian, float]]:
        return zip(self.parts, self.units or (1.0,) * len(self.parts), strict=True)

    def _with(self, v: Array) -> Iterator[tuple[StructuredJacobian, float, Array]]:
        """Each part with its unit and what belongs to it of a vector (P,)."""
        bounds = pairwise(accumulate((n for _, n in self._shapes), initial=0))
        for (part, unit), (begin, end) in zip(self._in_units, bounds, strict=True):
            yield part, unit, v[begin:end]


def _times(own: Array, factor: float) -> Array:
    """An array that may be changed, changed."""
    if factor != 1:
        own *= factor
    return own


def _sum(terms: Iterable[Array]) -> Array:
    total = None
    for term in terms:
        total = term if total is None else total + term
    return total
