"""Contraction by projectors that theta alone fixes, so that psi is one function of s whatever chi is.

A scheme that compresses each boundary at the spins of its walker makes a wave function that depends on where
it is closed; energies of it are not bound by the ground state's.  Here every cut of a bond has one pair of
projectors for all spins (tensor network functions: Liu, Zhai, Peng, Gu, Chan, PRL 133, 260404 (2024)).
Rows are absorbed from above and from below up to the middle::

    boundary (a, u, b)     o---      x -<|- a, l    left projector (x, l, a)
                           |         b, r -|>- y    right projector (b, r, y)
    site (l, u, d, r)   ---#---

As projectors do not depend on s, what is absorbed in a column depends on the spins of that column alone: psi(s) is
a product of one matrix a column, of (chi, chi) legs, and a changed spin changes one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tnvmc.backend.arguments import set_whole
from tnvmc.backend.calls import spelt
from tnvmc.backend.linalg import triangular_factor
from tnvmc.backend.namespace import array_namespace

Array = Any

SMALLEST = 1e-12
"""Singular values of a cut below this share of the largest are left out: rounding, whose inverse square root a
projector would hold."""


@spelt()
@dataclass(frozen=True)
class Fixed:
    """Absorb rows by projectors made from theta alone: energies are variational at every chi.

    Args:
        chi: largest bond of a boundary of two rows or more (columns, of a grid that is higher than wide); the first
            row from each edge stays as it is.
        n_drawn: random superpositions of the local states that stand for the rest of the network when
            projectors are made.
        seed: of these superpositions.

    Raises:
        ValueError: chi or n_drawn below 1.

    Cost per walker and column: 2 chi^3 D multiplications, no decomposition; columns are absorbed once for each of
    their configurations, up to 2^8 in either half, with 2 chi^3 D^2 + chi^2 D^4 multiplications a site.  Log-derivatives
    are those at fixed projectors: how projectors follow theta is not differentiated.
    """

    chi: int
    n_drawn: int = 128
    seed: int = 0

    def __post_init__(self) -> None:
        set_whole(self, {"chi": 1, "n_drawn": 1, "seed": 0})


@dataclass(frozen=True)
class FixedSite:
    """A site with the projectors of the cuts on both its sides, absorbed from above.

    From below, "up" and "down" are exchanged.  The first row has no projectors.
    """

    table: Array  #: (d, left, up, down, right), for each local state
    left: Array | None = None  #: (new left, left, boundary left)
    right: Array | None = None  #: (boundary right, right, new right)

    def absorb(self, boundary: Array | None, spins: Array) -> Array:
        """Absorb the site at spins (B,) into the boundary (B, left, up, right) over it.

        Returns:
            (B, new left, down, new right).
        """
        xp = array_namespace(spins)
        site = xp.take(self.table, spins, axis=0)
        batch, d_left, d_up, d_down, d_right = site.shape
        if self.left is None or self.right is None or boundary is None:
            return xp.reshape(site, (batch, d_left, d_down, d_right))
        x = self._from_left(boundary)
        n_left, bond = x.shape[1:3]
        # (new left, boundary right, left up) x (left up, down right)
        x = xp.matmul(
            xp.reshape(x, (batch, n_left * bond, d_left * d_up)),
            xp.reshape(site, (batch, d_left * d_up, d_down * d_right)),
        )
        x = xp.permute_dims(xp.reshape(x, (batch, n_left, bond, d_down, d_right)), (0, 1, 3, 2, 4))
        x = xp.reshape(x, (batch, n_left * d_down, bond * d_right))
        x = xp.matmul(x, xp.reshape(self.right, (bond * d_right, -1)))
        return xp.reshape(x, (batch, n_left, d_down, -1))

    def _from_left(self, boundary: Array) -> Array:
        """(B, new left, boundary right, left, up): the left projector on a boundary."""
        xp = array_namespace(boundary)
        batch, bond_left, d_up, bond = boundary.shape
        n_left, d_left, _ = self.left.shape  # type: ignore[union-attr]
        x = xp.matmul(
            xp.reshape(self.left, (n_left * d_left, bond_left)),
            xp.reshape(boundary, (batch, bond_left, d_up * bond)),
        )
        x = xp.reshape(x, (batch, n_left, d_left, d_up, bond))
        return xp.permute_dims(x, (0, 1, 4, 2, 3))

    def adjoint(
        self, boundary: Array | None, spins: Array, outer: Array
    ) -> tuple[Array | None, Array]:
        """Derivatives of sum(outer * absorb(boundary, spins)).

        Args:
            boundary: (B, left, up, right), what `absorb` got.
            spins: (B,).
            outer: (B, new left, down, new right).

        Returns:
            That by the boundary, and that by the site (B, left, up, down, right).
        """
        xp = array_namespace(outer)
        batch, n_left, d_down, n_right = outer.shape
        d_left, d_up, _, d_right = self.table.shape[1:]
        if self.left is None or self.right is None or boundary is None:
            return None, xp.reshape(outer, (batch, d_left, d_up, d_down, d_right))
        bond = boundary.shape[3]
        z = xp.matmul(
            xp.reshape(outer, (batch, n_left * d_down, n_right)),
            xp.matrix_transpose(xp.reshape(self.right, (bond * d_right, n_right))),
        )
        z = xp.permute_dims(xp.reshape(z, (batch, n_left, d_down, bond, d_right)), (0, 1, 3, 2, 4))
        z = xp.reshape(z, (batch, n_left * bond, d_down * d_right))
        x = xp.reshape(self._from_left(boundary), (batch, n_left * bond, d_left * d_up))
        derivative = xp.matmul(xp.matrix_transpose(x), z)
        site = xp.reshape(xp.take(self.table, spins, axis=0), (batch, d_left * d_up, -1))
        y = xp.matmul(z, xp.matrix_transpose(site))
        y = xp.permute_dims(xp.reshape(y, (batch, n_left, bond, d_left, d_up)), (0, 1, 3, 4, 2))
        y = xp.matmul(
            xp.matrix_transpose(xp.reshape(self.left, (n_left * d_left, -1))),
            xp.reshape(y, (batch, n_left * d_left, d_up * bond)),
        )
        inner = xp.reshape(y, boundary.shape)
        return inner, xp.reshape(derivative, (batch, d_left, d_up, d_down, d_right))


def advance(left: Array, top: Array, bottom: Array) -> Array:
    """Absorb a column into a left environment.

    Args:
        left: (B, top, bottom) of the columns before.
        top: (B, left, vertical, right), the boundary of the rows above the middle.
        bottom: (B, left, vertical, right), that of the rows below it.

    Returns:
        (B, top, bottom) one column further.  Cost per walker: 2 chi^3 D.
    """
    xp = array_namespace(left)
    batch, bond, d_vertical, out = top.shape
    x = xp.matmul(xp.matrix_transpose(left), xp.reshape(top, (batch, bond, d_vertical * out)))
    x = xp.reshape(x, (batch, -1, out))  # (bottom vertical, top out)
    return xp.matmul(
        xp.matrix_transpose(x), xp.reshape(bottom, (batch, x.shape[1], bottom.shape[3]))
    )


def projectors(lefts: Array, rights: Array, chi: int) -> tuple[Array, Array]:
    """Cut a bond for the best: P Q of rank chi such that left (P Q) right is close to left right.

    Args:
        lefts: (K, n, g), parts of the network left of the cut: n its legs, g others that are closed.
        rights: (K, n, h), parts right of it, with random superpositions of other draws.
        chi: largest rank.

    Returns:
        P (n, rank) and Q (rank, n).

    Cost: singular values of (n, n), and two QR of (K g, n).  Source: Corboz, Rice, Troyer, PRL 113, 046402
    (2014), for the projectors of a corner; here sides are samples of both halves.
    """
    xp = array_namespace(lefts)
    size = lefts.shape[1]
    if size <= chi:
        eye = xp.eye(size, dtype=lefts.dtype)
        return eye, eye
    upper = [
        triangular_factor(xp.reshape(xp.permute_dims(_of_norm_one(part), (0, 2, 1)), (-1, size)))
        for part in (lefts, rights)
    ]
    u, s, v = xp.linalg.svd(xp.matmul(upper[0], xp.matrix_transpose(upper[1])), full_matrices=False)
    kept = max(1, min(chi, int(xp.sum(xp.astype(s > SMALLEST * s[0], xp.int64)))))
    root = 1 / xp.sqrt(xp.where(s[:kept] > 0, s[:kept], xp.ones_like(s[:kept])))
    right_vectors = xp.conj(xp.matrix_transpose(v[:kept, :]))
    p = xp.matmul(xp.matrix_transpose(upper[1]), right_vectors) * root[None, :]
    q = root[:, None] * xp.matmul(xp.conj(xp.matrix_transpose(u[:, :kept])), upper[0])
    return p, q


def _of_norm_one(parts: Array) -> Array:
    """Each of K parts divided by its norm: the superpositions differ by orders of magnitude."""
    xp = array_namespace(parts)
    norms = xp.sqrt(xp.sum(xp.abs(parts) ** 2, axis=(1, 2), keepdims=True))
    return parts / xp.where(norms == 0, xp.ones_like(norms), norms)
