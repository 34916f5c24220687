"""The rows of earlier steps, kept where the covariance itself is too large to keep.

With B the rows sqrt(W) (O - <O>) of the last steps, weighted by the age of their step, B^dagger B is the
averaged covariance of `optimize.average`, and with F = A^dagger e the force of the present samples

    (B^dagger B + shift)^-1 F = B^dagger (B B^dagger + shift)^-1 y,    B^dagger y = F,

a system as large as there are rows.  Products of old rows with old ones are kept, so a step costs
those of its own rows with all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tnvmc.backend.namespace import array_namespace
from tnvmc.optimize.rule import State

Array = Any

MOST_ROWS = 2048
"""Rows of all steps together."""

MOST_ENTRIES = 2**25
"""Numbers of all rows together: 128 MiB of float32."""

LEAST_SHIFT = 1e-4
"""Least shift, in units of the mean diagonal, above the rounding of single precision: the direction
moves by 1e-6 there, by 1e-2 with 1e-6, and without a shift it is rounding alone."""

LEAST_TRACE = 1e-25
"""Of B B^dagger; products of smaller rows vanish in single precision."""


@dataclass(frozen=True)
class Window:
    """The weighted rows B of several steps, newest first, and B B^dagger."""

    rows: Array  #: (n, P) float32 or complex64, not weighted
    scale: Array  #: (n,) weight of each row
    gram: Array  #: (n, n) of the weighted rows, of their precision
    n_new: int  #: rows of the present step

    def adjoint(self, x: Array) -> Array:
        """B^dagger x: (n,) -> (P,), in single precision, as the rows are."""
        xp = array_namespace(x)
        scaled = xp.astype(self.scale * x, self.rows.dtype)
        conj = xp.conj if xp.isdtype(scaled.dtype, "complex floating") else (lambda v: v)
        product = conj(xp.matrix_transpose(self.rows) @ conj(scaled))
        return xp.astype(product, x.dtype)

    def target(self, e: Array) -> Array:
        """y (n,) with B^dagger y = A^dagger e, for e (rows of the present step,)."""
        xp = array_namespace(e)
        rest = xp.zeros((self.rows.shape[0] - self.n_new,), dtype=e.dtype)
        return xp.concat([e / self.scale[: self.n_new], rest])


def empty(theta: Array) -> State:
    """State before the first step: no rows."""
    xp = array_namespace(theta)
    dtype = xp.complex64 if xp.isdtype(theta.dtype, "complex floating") else xp.float32
    return {
        "rows": xp.zeros((0, theta.shape[0]), dtype=dtype),
        "products": xp.zeros((0, 0), dtype=dtype),
        "age": xp.zeros((0,), dtype=xp.int64),
    }


def room(n_rows: int, n_params: int) -> int:
    """For how many steps of so many rows there is room."""
    return _most(n_params) // max(n_rows, 1)


def _most(n_params: int) -> int:
    return min(MOST_ROWS, MOST_ENTRIES // max(n_params, 1))


def _whole_steps(age: Array, most: int) -> int:
    """Rows of the newest steps that are at most so many: no step is cut."""
    if age.shape[0] <= most:
        return int(age.shape[0])
    xp = array_namespace(age)
    return int(xp.sum(xp.astype(age < age[max(most, 0)], xp.int64)))


def forgotten(state: State) -> State:
    """The state without its rows, as after a step that had no room for those of another."""
    return {
        "rows": state["rows"][:0, :],
        "products": state["products"][:0, :0],
        "age": state["age"][:0],
    }


def add(state: State, rows: Array, memory: float) -> tuple[Window, State]:
    """Put the rows (m, P) of a step before those of earlier ones, which count memory^age.

    The oldest steps are left out where `room` is short; steps may have other numbers of rows.  Cost:
    m n P multiplications in single precision.
    """
    xp = array_namespace(rows)
    n_new = rows.shape[0]
    kept = _whole_steps(state["age"], _most(rows.shape[1]) - n_new)
    old, age = state["rows"][:kept, :], state["age"][:kept] + 1
    together = xp.concat([xp.astype(rows, old.dtype), old], axis=0)
    dagger = xp.matrix_transpose(together)
    if xp.isdtype(dagger.dtype, "complex floating"):
        dagger = xp.conj(dagger)
    new = together[:n_new, :] @ dagger
    below = xp.matrix_transpose(new[:, n_new:])
    if xp.isdtype(below.dtype, "complex floating"):
        below = xp.conj(below)
    products = xp.concat([new, xp.concat([below, state["products"][:kept, :kept]], axis=1)], axis=0)
    age = xp.concat([xp.zeros((n_new,), dtype=age.dtype), age])
    decay = memory ** xp.astype(age, xp.float64)
    steps = int(age[-1]) + 1
    scale = xp.sqrt(decay / sum(memory**k for k in range(steps)))  # each step is one S
    single = xp.astype(scale, xp.float32)
    gram = products * single[:, None]
    gram *= single
    return Window(together, scale, gram, n_new), {
        "rows": together, "products": products, "age": age
    }  # fmt: skip


def steps_in(state: State) -> int:
    """Give the number of steps whose rows are kept."""
    age = state["age"]
    return int(age[-1]) + 1 if age.shape[0] else 0
