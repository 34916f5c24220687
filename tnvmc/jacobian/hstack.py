"""Several Jacobians of the same samples as one: columns side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from tnvmc.backend.namespace import array_namespace
from tnvmc.jacobian.base import JacobianBase, Layout
from tnvmc.jacobian.dense import concatenate

Array = Any


@dataclass(frozen=True)
class HStackJacobian(JacobianBase):
    """O = [O_1, O_2, ...] of the same samples, as of the factors of a product of states.

    ln (psi_a psi_b) = ln psi_a + ln psi_b, so O_k of a product is that of the state which parameter
    k belongs to.  Each part stays as it is: slices stay slices, and what is on several ranks stays
    there.  O v is the sum over the parts, O^dagger u lies side by side, O O^dagger is the sum of
    theirs.
    """

    parts: tuple[JacobianBase, ...]
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
        """Compute O v: (P,) -> (M,)."""
        return _sum(part.apply(unit * own) for part, unit, own in self._with(v))

    def adjoint(self, u: Array) -> Array:
        """Compute O^dagger u: (M,) -> (P,)."""
        found = [unit * part.adjoint(u) for part, unit in self._in_units]
        return array_namespace(*found).concat(found)

    def gram(self) -> Array:
        """Compute O O^dagger: (M, M).  Memory: two of these matrices."""
        return _sum(_times(part.gram(), unit**2) for part, unit in self._in_units)

    def squared_norms(self) -> Array:
        """Compute |O_s|^2 of each sample: (M,)."""
        return _sum(unit**2 * part.squared_norms() for part, unit in self._in_units)

    def dense(self) -> Array:
        """Give all of O: (M, P).  For small systems and tests."""
        found = [unit * part.dense() for part, unit in self._in_units]
        return array_namespace(*found).concat(found, axis=1)

    def rows(self, start: int, stop: int) -> HStackJacobian:
        """Give the part that belongs to samples start..stop-1."""
        return self._each(lambda part: part.rows(start, stop))

    def mapped(self, function: Callable[[Array], Array]) -> HStackJacobian:
        """Apply a function to the entries of all parts."""
        return self._each(lambda part: part.mapped(function))

    def stacked_real(self) -> HStackJacobian:
        """Put Re O above Im O: (M, P) complex -> (2 M, P) real; a real part has zeros below it."""
        return self._each(lambda part: part.stacked_real())

    def about(self) -> HStackLayout:
        """Tell what each part tells."""
        parts = tuple(part.about() for part in self.parts)
        return HStackLayout(self.shape, self.dtype, parts[0].xp, parts)

    @classmethod
    def joined(cls, parts: list[Any]) -> HStackJacobian:
        """Put the samples of several one after another, part by part, and empty the list."""
        by_part = [[*of] for of in zip(*(each.parts for each in parts), strict=True)]
        parts.clear()
        return HStackJacobian(tuple(concatenate(of) for of in by_part))

    def _each(self, change: Callable[[JacobianBase], JacobianBase]) -> HStackJacobian:
        return replace(self, parts=tuple(change(part) for part in self.parts))

    @property
    def _shapes(self) -> list[tuple[int, int]]:
        return [part.shape for part in self.parts]

    @property
    def _in_units(self) -> Iterator[tuple[JacobianBase, float]]:
        return zip(self.parts, self.units or (1.0,) * len(self.parts), strict=True)

    def _with(self, v: Array) -> Iterator[tuple[JacobianBase, float, Array]]:
        """Each part with its unit and what belongs to it of a vector (P,)."""
        bounds = pairwise(accumulate((n for _, n in self._shapes), initial=0))
        for (part, unit), (begin, end) in zip(self._in_units, bounds, strict=True):
            yield part, unit, v[begin:end]


@dataclass(frozen=True)
class HStackLayout(Layout):
    """What is told of Jacobians side by side."""

    parts: tuple[Layout, ...]


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
