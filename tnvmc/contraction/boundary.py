"""Boundary MPS and rows at fixed spins, laid out for products without transposition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tnvmc.backend.namespace import array_namespace

Array = Any


def _permuted(tensors: Sequence[Array], axes: tuple[int, ...]) -> list[Array]:
    """Contiguous copies; small next to one transfer, and every product after it is copy-free."""
    xp = array_namespace(*tensors)
    copies = []
    for tensor in tensors:
        turned = xp.permute_dims(tensor, axes)
        flat = xp.reshape(turned, (tensor.shape[0], -1))  # merging axes is what makes the copy
        copies.append(xp.reshape(flat, turned.shape))
    return copies


@dataclass(frozen=True)
class BoundaryMPS:
    """All rows on one side of a cut, contracted at fixed spins into a matrix product state.

    The state is exp(log_scale) times the product of `tensors`, each (B, vertical, left, right).
    What truncation did to it is not booked here: schemes without singular values cannot tell.
    The measure is the spread between the closures of one configuration (`Snapshot.closure_spread`).
    """

    tensors: Sequence[Array]
    log_scale: Array  #: (B,)

    @cached_property
    def top_rightward(self) -> list[Array]:
        """Tensors (B, right, vertical, left)."""
        return _permuted(self.tensors, (0, 3, 1, 2))

    @cached_property
    def top_leftward(self) -> list[Array]:
        """Tensors (B, left, vertical, right)."""
        return _permuted(self.tensors, (0, 2, 1, 3))

    @cached_property
    def bottom_leftward(self) -> list[Array]:
        """Tensors (B, vertical, right, left); rightward they are `tensors` themselves."""
        return _permuted(self.tensors, (0, 1, 3, 2))


@dataclass(frozen=True)
class Row:
    """One row of site tensors at fixed spins, for B walkers.

    `rightward[c]` is (B, right, down, up, left) and `leftward[c]` (B, left, down, up, right); with
    up and down exchanged in both, the same row is absorbed from below.
    """

    rightward: Sequence[Array]
    leftward: Sequence[Array]
