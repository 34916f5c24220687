"""Several Jacobians of the same samples as one: columns side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate, pairwise
from operator import add
from typing import Any

from tnvmc.backend.namespace import array_namespace, is_complex
from tnvmc.jacobian.base import JacobianBase, Layout
from tnvmc.jacobian.dense import concatenate

Array = Any


@dataclass(frozen=True)
class HStackJacobian(JacobianBase):
    """O = [O_1, O_2, ...] of the same samples, as of the factors of a product of states.

    Each part stays as it is: slices stay slices, and what is on several ranks stays there.
    """

    parts: tuple[JacobianBase, ...]
    units: tuple[float, ...] | None = None
    """Of the parameters of each part: its columns are multiplied by it.  None: 1 for all."""

    @property
    def shape(self) -> tuple[int, int]:
        return self._shapes[0][0], sum(n for _, n in self._shapes)

    @property
    def dtype(self) -> Any:
        """Type of the entries; complex where a part is."""
        return next((part for part in self.parts if is_complex(part)), self.parts[0]).dtype

    def apply(self, v: Array) -> Array:
        bounds = pairwise(accumulate((n for _, n in self._shapes), initial=0))
        parts = zip(self._in_units, bounds, strict=True)
        return reduce(add, (part.apply(unit * v[slice(*own)]) for (part, unit), own in parts))

    def adjoint(self, u: Array) -> Array:
        found = [unit * part.adjoint(u) for part, unit in self._in_units]
        return array_namespace(*found).concat(found)

    def gram(self) -> Array:
        """Compute O O^dagger: (M, M).  Memory: two of these matrices."""
        return reduce(add, (_times(part.gram(), unit**2) for part, unit in self._in_units))

    def squared_norms(self) -> Array:
        return reduce(add, (unit**2 * part.squared_norms() for part, unit in self._in_units))

    def dense(self) -> Array:
        found = [unit * part.dense() for part, unit in self._in_units]
        return array_namespace(*found).concat(found, axis=1)

    def rows(self, start: int, stop: int) -> HStackJacobian:
        return self._each(lambda part: part.rows(start, stop))

    def mapped(self, function: Callable[[Array], Array]) -> HStackJacobian:
        return self._each(lambda part: part.mapped(function))

    def stacked_real(self) -> HStackJacobian:
        """Put Re O above Im O: (M, P) complex -> (2 M, P) real; a real part has zeros below it."""
        return self._each(lambda part: part.stacked_real())

    def about(self) -> HStackLayout:
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


@dataclass(frozen=True)
class HStackLayout(Layout):
    """What is told of Jacobians side by side."""

    parts: tuple[Layout, ...]


def _times(own: Array, factor: float) -> Array:
    """An array that may be changed, changed."""
    if factor != 1:
        own *= factor
    return own
