"""Schemes that absorb a row into a boundary MPS: one frozen dataclass each, with one verb.

`Exact` keeps every bond.  `ZipUp` truncates by singular values.  `SRC`, the default, finds the
range that matters with a sketch and needs only products and one thin QR per site.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tnvmc.backend.arguments import one_of, set_whole
from tnvmc.backend.linalg import leading_basis, normalise, orthonormal_basis
from tnvmc.backend.namespace import array_namespace, conj
from tnvmc.contraction.compiled import absorb_row, row_for_kernels
from tnvmc.contraction.row import NORMALISE_EVERY, edge_of, open_column, transfer
from tnvmc.contraction.tensors import BoundaryMPS, Row, Sketch, TableRow, opened_row

Array = Any


def default_chi(D: int) -> int:
    """Give the boundary bond dimension used where none is set: 2 D, at least 4."""
    return max(4, 2 * D)


@runtime_checkable
class Scheme(Protocol):
    """How a row is absorbed into the boundary MPS of the rows before it."""

    def absorb(
        self, boundary: BoundaryMPS | None, row: Row | TableRow, sketch: Sketch | None
    ) -> BoundaryMPS:
        """Give the boundary MPS that also contains a row.

        Args:
            boundary: the rows before, with legs (B, vertical, left, right); None at the edge.
            row: the row at the spins of B walkers.
            sketch: an MPS of bond chi on the open legs of the row, for `SRC` alone.
        """


@dataclass(frozen=True)
class Exact:
    """Absorb without truncation: bonds multiply row by row, for small systems and for tests."""

    def absorb(
        self, boundary: BoundaryMPS | None, row: Row | TableRow, sketch: Sketch | None
    ) -> BoundaryMPS:
        """Multiply boundary and row: chi grows by D, at (chi D)^2 D^2 per walker and site."""
        xp = array_namespace(row.rightward[0])
        tensors = []
        for column, site in enumerate(opened_row(row.rightward)):
            batch, right, down, up, left = site.shape
            top = xp.ones((batch, 1, 1, 1), dtype=site.dtype)
            if boundary is not None:
                top = boundary.top_rightward[column]
            out, _, inner = top.shape[1:]
            # (out, up, inner) x (right down left, up) -> (down, inner left, out right)
            turned = xp.reshape(xp.permute_dims(site, (0, 3, 2, 4, 1)), (batch, up, -1))
            lead = xp.reshape(xp.permute_dims(top, (0, 3, 1, 2)), (batch, inner * out, up))
            product = xp.reshape(xp.matmul(lead, turned), (batch, inner, out, down, left, right))
            product = xp.permute_dims(product, (0, 3, 1, 4, 2, 5))
            tensors.append(xp.reshape(product, (batch, down, inner * left, out * right)))
        return _rescaled_boundary(tensors, boundary)


@dataclass(frozen=True)
class ZipUp:
    """Zip-up compression with singular values (Stoudenmire and White, NJP 12, 055026 (2010)).

    The boundary is brought to right-canonical form first.

    Args:
        chi: largest bond of the boundary.

    Raises:
        ValueError: chi below 1.

    Cost per walker and site: a stacked SVD of (D chi, D chi) matrices, which `SRC` avoids.
    """

    chi: int

    def __post_init__(self) -> None:
        set_whole(self, {"chi": 1})

    def absorb(
        self, boundary: BoundaryMPS | None, row: Row | TableRow, sketch: Sketch | None
    ) -> BoundaryMPS:
        """Absorb a row, keeping the `chi` largest singular values of each carried column."""
        if boundary is not None:
            boundary = _right_canonical(boundary)

        def basis(y: Array, column: int) -> Array:
            return leading_basis(array_namespace(y).matrix_transpose(y), self.chi)

        return _sweep(boundary, row, self.chi, basis)


@dataclass(frozen=True)
class SRC:
    """Successive randomised compression, with a sketch built from the rows on the other side.

    Camano, Epperly and Tropp (2025) close the uncut row with random product vectors.  Here it is
    closed with an MPS: by default the boundary of the rows on the *other* side, at random
    superpositions of the local states, so that the range that is kept is the one that enters the
    final contraction.  The sketch depends on theta and `seed` only, so psi(s) stays a function
    of s.

    Args:
        chi: largest bond of the boundary.
        seed: of the superpositions, or of the random MPS.
        sketch: "environment", or "random" for a random MPS.

    Raises:
        ValueError: chi below 1; another sketch.

    Cost per walker and site: 5 chi^3 D^2 + 2 chi^2 D^4 multiplications, and one (D chi, chi) QR.
    """

    chi: int
    seed: int = 0
    sketch: str = "environment"

    def __post_init__(self) -> None:
        set_whole(self, {"chi": 1, "seed": 0})
        one_of("SRC", "sketch", self.sketch, ("environment", "random"))

    def absorb(
        self, boundary: BoundaryMPS | None, row: Row | TableRow, sketch: Sketch | None
    ) -> BoundaryMPS:
        """Absorb a row, keeping for each bond the range that the sketch to its right selects.

        Raises:
            ValueError: no sketch.
        """
        if sketch is None:
            raise ValueError("SRC.absorb: needs a sketch of the row's open legs (`random_sketch`)")
        if row.tables is not None and row.tables.compiled:
            prepared = row_for_kernels(boundary, row, sketch, self.chi)
            return absorb_row(boundary, row, prepared, self.chi)
        rights = _sketched_environments(boundary, row, sketch)

        def from_the_right(y: Array, column: int) -> Array:
            return orthonormal_basis(_closed(y, rights[column + 1]))

        return _sweep(boundary, row, self.chi, from_the_right)


def _sketched_environments(
    boundary: BoundaryMPS | None, row: Row | TableRow, sketch: Sketch
) -> list[Array | None]:
    """Right environments of boundary and row, closed with the sketch: c -> (B, top, row, rank)."""
    n_cols = len(row.leftward)
    found: list[Array | None] = [None] * (n_cols + 1)
    env = edge_of(row.leftward[0])
    for column in range(n_cols - 1, 0, -1):
        top = None if boundary is None else boundary.top_leftward[column]
        env = transfer(env, top, [row.leftward[column]], sketch[column])
        if column % NORMALISE_EVERY == 0:
            env, _ = normalise(env)
        found[column] = env
    return found


def _closed(y: Array, environment: Array) -> Array:
    """y (B, top * row, down * kappa) closed with (B, top, row, rank): (B, down * kappa, rank)."""
    xp = array_namespace(y)
    environment = xp.reshape(environment, (y.shape[0], y.shape[1], -1))
    return xp.matmul(xp.matrix_transpose(y), environment)


def _sweep(
    boundary: BoundaryMPS | None, row: Row | TableRow, chi: int,
    basis: Callable[[Array, int], Array],
) -> BoundaryMPS:  # fmt: skip
    """Carry the part that is not yet decomposed along the row, leaving isometries behind.

    ``basis(y, column)`` gives an orthonormal basis q (B, down * kappa, <= chi) for the carried
    matrix y (B, top * row, down * kappa): top and row are the legs ahead, kappa is the new
    bond behind.  The carry of the next column is y conj(q), (B, top, row, new bond).  Of a ring,
    its closing bond is a third leg ahead, before top and row.
    """
    sites, tops = row.rightward, None if boundary is None else boundary.top_rightward
    xp = array_namespace(sites[0])
    n_cols, batch = len(sites), sites[0].shape[0]
    carry = edge_of(row.leftward[0])
    walkers = carry.shape[:-3]  # and of a ring the value of its closing bond
    carried = row.leftward[0].shape[1]
    tensors, logs = [], []
    for column, site in enumerate(sites):
        top = None if tops is None else tops[column]
        kappa, down = carry.shape[-1], site.shape[2]
        open_bond = carried * (1 if top is None else top.shape[1]) * site.shape[1]
        y = xp.reshape(open_column(carry, top, [site]), (batch, open_bond, down * kappa))
        if column == n_cols - 1:
            ends = (y[:, a * (carried + 1), :] for a in range(carried))  # where a ring closes
            q, log = normalise(xp.reshape(sum(ends), (batch, down * kappa, 1)))
            logs.append(log)
            tensors.append(xp.reshape(q, (batch, down, kappa, 1)))
            break
        if down * kappa <= min(chi, open_bond):  # the bond is not cut: keep every row of y
            eye = xp.eye(down * kappa, dtype=y.dtype)[None, :, :]
            q, carry = xp.broadcast_to(eye, (batch, *eye.shape[1:])), y
        else:
            fits = open_bond <= chi
            q = orthonormal_basis(xp.matrix_transpose(y)) if fits else basis(y, column)
            carry = xp.matmul(y, conj(q))
        tensors.append(xp.reshape(q, (batch, down, kappa, q.shape[-1])))
        if column % NORMALISE_EVERY == NORMALISE_EVERY - 1:
            carry, log = normalise(carry)
            logs.append(log)
        carry = xp.reshape(carry, (*walkers, -1, site.shape[1], q.shape[-1]))
    return _with_scales(tensors, logs, boundary)


def _right_canonical(boundary: BoundaryMPS) -> BoundaryMPS:
    """Sweep QR from the right, so that all tensors but the first are isometries to the left."""
    xp = array_namespace(boundary.tensors[0])
    tensors = list(boundary.tensors)
    for column in range(len(tensors) - 1, 0, -1):
        batch, vertical, left, right = tensors[column].shape
        # (vertical, left, right) -> (vertical right, left)
        # = q (vertical right, rank) r (rank, left)
        matrix = xp.reshape(xp.permute_dims(tensors[column], (0, 1, 3, 2)), (batch, -1, left))
        q, r = xp.linalg.qr(matrix, mode="reduced")
        rank = q.shape[-1]
        q = xp.reshape(q, (batch, vertical, right, rank))
        tensors[column] = xp.permute_dims(q, (0, 1, 3, 2))
        r = xp.reshape(xp.matrix_transpose(r), (batch, 1, left, rank))
        tensors[column - 1] = xp.matmul(tensors[column - 1], r)
    return _rescaled_boundary(tensors, boundary)


def _rescaled_boundary(tensors: list[Array], before: BoundaryMPS | None) -> BoundaryMPS:
    """Scale every tensor to largest entry 1; scales go with that of `before`."""
    scaled, logs = zip(*map(normalise, tensors), strict=True)
    return _with_scales(list(scaled), logs, before)


def _with_scales(
    tensors: list[Array], logs: Sequence[Array], before: BoundaryMPS | None
) -> BoundaryMPS:
    log_scale = sum(logs)
    return BoundaryMPS(tensors, log_scale if before is None else log_scale + before.log_scale)
