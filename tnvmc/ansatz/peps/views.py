"""One network seen by its rows or by its columns.

Seen by columns, column c is row c, and the legs of a tensor (d, up, left, down, right) are
(d, left, up, right, down): the same passes then treat a vertical bond as two sites of one row.
Without truncation both views give the same psi(s); with it they differ as two closures do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from tnvmc.ansatz.peps.layers import Layers
from tnvmc.ansatz.peps.vacancies import Filling
from tnvmc.backend.namespace import array_namespace
from tnvmc.contraction.schemes import Scheme

Array = Any
T = TypeVar("T")

_ONE_AT_A_TIME = Lock()


@dataclass(frozen=True)
class Views:
    """Both views of one theta; each is laid out when it is first looked at."""

    tensors: Sequence[Array]  #: of all places of the grid
    filling: Filling
    scheme: Scheme

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.filling.shape

    @cached_property
    def rows(self) -> Layers:
        """The network as it is."""
        return Layers.build(self.tensors, self.shape, self.scheme)

    @cached_property
    def columns(self) -> Layers:
        """The network with rows and columns exchanged."""
        return Layers.build(turned(self.tensors, self.shape), self.shape[::-1], self.scheme)

    def layers(self, by_columns: bool) -> Layers:
        """One of the two, made once for all threads."""
        with _ONE_AT_A_TIME:
            return self.columns if by_columns else self.rows

    def seen(self, configs: Array, by_columns: bool) -> Array:
        """Configurations (B, N) on the grid, (B, places) in the order of a view."""
        configs = self.filling.configs(configs)
        return turned_configs(configs, self.shape) if by_columns else configs

    def unseen(self, configs: Array, by_columns: bool) -> Array:
        """Configurations (B, places) of a view in the order of the sites."""
        return self.filling.off(
            turned_configs(configs, self.shape[::-1]) if by_columns else configs
        )


class LatestViews:
    """What was laid out for the theta that was asked for last: all chunks of a step share it."""

    def __init__(self) -> None:
        self._theta: np.ndarray | None = None
        self._views: Any = None
        self._lock = Lock()

    def of(self, theta: Array, make: Callable[[Array], T]) -> T:
        """Views of `theta`, made anew for another one; always on a GPU, where comparing waits."""
        if not isinstance(theta, np.ndarray):
            return make(theta)
        with self._lock:
            if not self._are_of(theta):
                self._theta = theta.copy()  # the caller may write into its own
                self._views = make(self._theta)
            found: T = self._views
            return found

    def _are_of(self, theta: np.ndarray) -> bool:
        latest = self._theta
        alike = latest is not None and latest.dtype == theta.dtype
        return alike and np.array_equal(theta, latest)  # type: ignore[arg-type]

    def __reduce__(self) -> tuple[type[LatestViews], tuple[()]]:
        return LatestViews, ()


def turned(tensors: Sequence[Array], shape: tuple[int, int]) -> list[Array]:
    """Exchange rows and columns of tensors (.., up, left, down, right) of all places."""
    xp = array_namespace(tensors[0])
    n_rows, n_cols = shape
    places = (row * n_cols + column for column in range(n_cols) for row in range(n_rows))
    return [xp.permute_dims(tensors[place], (0, 2, 1, 4, 3)) for place in places]


def turned_configs(configs: Array, shape: tuple[int, int]) -> Array:
    """The same of configurations (B, places)."""
    xp = array_namespace(configs)
    grid = xp.permute_dims(xp.reshape(configs, (-1, *shape)), (0, 2, 1))
    return xp.reshape(grid, (configs.shape[0], -1))
