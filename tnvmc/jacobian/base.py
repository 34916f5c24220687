"""What the Jacobians of this package have in common, on one rank or on many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from tnvmc.backend.ranks import Resident
from tnvmc.jacobian.joint import Call, Failed

Array = Any
T = TypeVar("T")


class Jacobian(Protocol):
    """Log-derivatives O_k(s) = d ln psi(s) / d theta_k of M samples for P parameters."""

    @property
    def shape(self) -> tuple[int, int]:
        """(M, P)."""

    def apply(self, v: Array) -> Array:
        """O v: (P,) -> (M,)."""

    def adjoint(self, u: Array) -> Array:
        """O^dagger u: (M,) -> (P,)."""

    def gram(self) -> Array:
        """O O^dagger: (M, M)."""

    def dense(self) -> Array:
        """All of O: (M, P).  For small systems and tests."""


class StructuredJacobian(Resident):
    """A Jacobian of this package: its parts stay where they are, its results belong to who asked."""

    @property
    def shape(self) -> tuple[int, int]:
        """(M, P)."""
        raise NotImplementedError

    @property
    def dtype(self) -> Any:
        """Type of the entries."""
        raise NotImplementedError

    def apply(self, v: Array) -> Array:
        """O v: (P,) -> (M,)."""
        raise NotImplementedError

    def adjoint(self, u: Array) -> Array:
        """O^dagger u: (M,) -> (P,)."""
        raise NotImplementedError

    def gram(self) -> Array:
        """O O^dagger: (M, M), an array that may be changed."""
        raise NotImplementedError

    def dense(self) -> Array:
        """All of O: (M, P)."""
        raise NotImplementedError

    def about(self) -> About:
        """What is told of it where it is not."""
        raise NotImplementedError

    def rows(self, start: int, stop: int) -> Any:
        """The part that belongs to samples start..stop-1."""
        raise NotImplementedError

    def squares(self) -> Array:
        """|O_s|^2 of each sample: (M,)."""
        raise NotImplementedError

    def jointly(self, task: Callable[[Call], T]) -> T | Failed:
        """Do a task that calls methods of `Joint` on all ranks that have a part of this; on NumPy."""
        raise NotImplementedError

    def real_above_imaginary(self) -> Any:
        """Re O above Im O: (M, P) complex -> (2 M, P) real, a copy."""
        raise NotImplementedError


def coarsest(dtypes: Iterable[Any], xp: Any = np) -> Any:
    """Give the type of least precision: joined, more exact numbers would hide that others were rounded."""
    return max(dtypes, key=lambda dtype: float(xp.finfo(dtype).eps))


@dataclass(frozen=True)
class About:
    """What is told of a Jacobian that is on another rank."""

    shape: tuple[int, int]
    dtype: Any  #: of NumPy
    widths: tuple[int, ...] | None = None  #: of the slices of all sites; None where it is dense
    spins: Array | None = None
    local_dim: int = 2
    xp: Any = np  #: namespace of the entries
    parts: tuple[About, ...] | None = None  #: of those side by side, each told by itself
