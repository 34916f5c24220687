"""Independent draws from a PEPS, site by site, from approximate conditionals.

Perfect sampling (Ferris and Vidal, PRB 85, 165146 (2012)) of a PEPS with boundary MPS (Vieijra,
Haegeman, Verstraete and Vanderstraeten, PRB 104, 235141 (2021)): sites are drawn in the order
of their index, each from

    p(s | drawn) = <rows above, this row up to here> . site(s) . conj(site(s)) . <all that follows>

Above lies the boundary MPS of the rows drawn, ket and bra, of its own bond chi; what follows is
traced over in the double-layer boundary of `contraction/double_layer.py`.  Truncation makes the
conditionals approximate, but what is drawn from is known: weights |psi|^2 / q correct it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.backend.linalg import normalise, orthonormal_basis
from tnvmc.backend.namespace import array_namespace, conj, real_part, to_host, to_namespace
from tnvmc.contraction.double_layer import double_boundaries, scaled
from tnvmc.contraction.tensors import BoundaryMPS
from tnvmc.lattice.embedding import Embedding

Array = Any

Guide = Callable[[Array, int], Array]
"""``guide(configs, site)`` gives factors (B, d) >= 0 by which the conditionals of `site` are
multiplied; configurations (B, N) hold the spins of all sites before it."""


FLOOR = 1e-4
"""Smallest conditional that is drawn from, of the largest."""


@dataclass(frozen=True)
class _Column:
    """The shared tensors of one site, laid out for products without transposition."""

    site: Array  #: (d, right * down, up * left)
    below: Array  #: (down * new * down', old): boundary below the row
    whole: Array  #: (left, up * right * up'): boundary that contains the row
    expansion: Array  #: (row ket * old * row bra, new): right of this column
    shape: tuple[int, int, int]  #: d, down, right

    def moved(self, dtype: np.dtype, xp: Any) -> "_Column":
        """The same in a namespace, contiguous and of one dtype."""

        def move(array: Array) -> Array:
            return to_namespace(np.ascontiguousarray(array, dtype=dtype), xp)

        return _Column(
            move(self.site), move(self.below), move(self.whole), move(self.expansion), self.shape
        )


@dataclass(frozen=True)
class Drawer:
    """Draws configurations of one theta.

    A conditional is never taken below `floor` of the largest one, since truncation may make it
    too small or negative where psi does not vanish: this bounds the weights.  Arrays are those of
    the namespace of theta.
    """

    columns: tuple[_Column, ...]  #: by place of the grid
    embedding: Embedding
    chi: int
    floor: float

    @classmethod
    def build(
        cls, tensors: Sequence[Array], embedding: Embedding, chi: int, chi_mpo: int,
        floor: float = FLOOR,
    ) -> "Drawer":  # fmt: skip
        """Contract the double layer of tensors of the sites.

        Cost: see `double_boundaries`; independent of the walkers.
        """
        if chi < 1:
            raise ValueError(f"Drawer: chi must be at least 1, got {chi}")
        xp = array_namespace(*tensors)
        host, shape = [to_host(t) for t in embedding.filled(tensors)], embedding.shape
        boundaries = double_boundaries(host, shape, chi_mpo)
        dtype = host[0].dtype
        columns = []
        for place, tensor in enumerate(host):
            row, c = divmod(place, shape[1])
            whole, below = boundaries[row].tensors[c], boundaries[row + 1].tensors[c]
            expansion = boundaries[row].expansions[c + 1]
            n_spins, up, left, down, right = tensor.shape
            site_layout = scaled(tensor)[0].transpose(0, 4, 3, 1, 2)
            column = _Column(
                site_layout.reshape(n_spins, right * down, up * left),
                below.transpose(1, 3, 2, 0).reshape(-1, below.shape[0]),
                whole.transpose(0, 1, 3, 2).reshape(whole.shape[0], -1),
                expansion.transpose(1, 0, 2, 3).reshape(-1, expansion.shape[3]),
                (n_spins, down, right),
            )
            columns.append(column.moved(dtype, xp))
        return cls(tuple(columns), embedding, chi, floor)

    def __call__(self, uniforms: Array, guide: Guide | None = None) -> tuple[Array, Array]:
        """Draw configurations (B, N), int8, from uniform numbers (B, N); with them ln q (B,).

        Cost per walker and site, with m = chi_mpo: 2 d chi^3 D^3 m + 3 chi^2 D^2 m^2.
        """
        return self._run(uniforms, None, guide)

    def log_prob(self, configs: Array, guide: Guide | None = None) -> Array:
        """ln q (B,) with which a draw gives the configurations (B, N); -inf where it never does."""
        xp = array_namespace(configs)
        return self._run(xp.zeros(configs.shape, dtype=xp.float64), configs, guide)[1]

    def _run(
        self, uniforms: Array, forced: Array | None, guide: Guide | None
    ) -> tuple[Array, Array]:
        xp = array_namespace(uniforms)
        batch, n_sites = uniforms.shape
        configs = xp.zeros((batch, n_sites), dtype=xp.int8)
        log_prob = xp.zeros((batch,), dtype=xp.float64)
        one = xp.ones((batch, 1, 1, 1), dtype=self.columns[0].site.dtype)
        n_cols = self.embedding.shape[1]
        top = BoundaryMPS([one] * n_cols, log_prob)
        for first in range(0, len(self.columns), n_cols):
            strip = _DrawnRow(self.columns[first : first + n_cols], top, self.chi)
            for site in self.embedding.site_at[first : first + n_cols]:
                weight = _positive(strip.conditionals(), self.floor)
                if site == n_sites:  # a vacant place
                    strip.advance(xp.zeros((batch,), dtype=xp.int64))
                    continue
                if guide is not None:
                    weight = weight * xp.astype(guide(configs, site), xp.float64)
                spins = (
                    _picked(weight, uniforms[:, site])
                    if forced is None
                    else xp.astype(forced[:, site], xp.int64)
                )
                log_prob = log_prob + _log_share(weight, spins)
                configs[:, site] = xp.astype(spins, xp.int8)
                strip.advance(spins)
            top = strip.boundary()
        return configs, log_prob


class _DrawnRow:
    """A row that is being drawn: what is left of the present column and what is right of it.

    What is drawn is kept as isometries of a boundary MPS behind, and a carry (B, top, row, kappa).
    `left` (B, kappa, bond, kappa') joins ket and bra of it through the boundary below.
    """

    def __init__(self, columns: Sequence[_Column], top: BoundaryMPS, chi: int) -> None:
        self.columns, self.top, self.chi = columns, top, chi
        xp = array_namespace(top.tensors[0])
        batch = top.tensors[0].shape[0]
        self.carry = self.left = xp.ones((batch, 1, 1, 1), dtype=top.tensors[0].dtype)
        self.rights = self._right_environments()
        self.tensors: list[Array] = []

    def _right_environments(self) -> list[Array]:
        """Spins traced over, (B, top, bond, top') right of each column; the last comes first."""
        xp = array_namespace(self.left)
        env = self.left
        found = [env]
        for c in reversed(range(1, len(self.columns))):
            whole = self.columns[c].whole
            ket, bra = self.top.top_leftward[c], conj(self.top.top_rightward[c])
            batch, left, up, right = ket.shape
            x = xp.matmul(
                xp.reshape(ket, (batch, left * up, right)), xp.reshape(env, (batch, right, -1))
            )
            x = xp.matmul(xp.reshape(x, (batch, -1, right)), xp.reshape(bra, (batch, right, -1)))
            x = xp.reshape(x, (batch, left, whole.shape[1], left))
            env = normalise(xp.matmul(whole, x))[0]
            found.append(env)
        return found

    def conditionals(self) -> Array:
        """p(s | drawn) (B, d) of the present column, up to a factor and to truncation."""
        xp = array_namespace(self.left)
        c = len(self.tensors)
        column = self.columns[c]
        n_spins, down, d_right = column.shape
        right = self.rights.pop()
        batch, t_right = right.shape[:2]
        kappa = self.left.shape[1]
        lead = self.top.top_rightward[c]
        x = xp.matmul(
            xp.reshape(lead, (batch, -1, lead.shape[3])),
            xp.reshape(self.carry, (batch, lead.shape[3], -1)),
        )
        x = xp.reshape(x, (batch, 1, t_right, -1, kappa))
        y = xp.matmul(column.site[None, :, None, :, :], x)  # B, d, top, right * down, kappa
        y = xp.reshape(y, (batch, n_spins, t_right, d_right, down, kappa))
        ket = xp.reshape(
            xp.permute_dims(y, (0, 1, 5, 4, 2, 3)), (batch, n_spins * kappa * down, -1)
        )
        bra = xp.reshape(
            xp.permute_dims(conj(y), (0, 1, 3, 2, 4, 5)),
            (batch, n_spins, d_right * t_right, down * kappa),
        )
        far = xp.reshape(xp.matmul(column.expansion, right), (batch, t_right * d_right, -1))
        seen = xp.reshape(xp.matmul(ket, far), (batch, n_spins, -1, d_right * t_right))
        seen = xp.matmul(seen, bra)  # B, d, kappa * down * bond, down' * kappa'
        self.near = xp.matmul(column.below, self.left)  # B, kappa, down * bond * down', kappa'
        self.ket = xp.reshape(ket, (batch, n_spins, kappa * down, -1))
        self.seen = xp.reshape(seen, (batch, n_spins, kappa * down, -1))
        value = xp.matmul(
            xp.reshape(seen, (batch, n_spins, -1)), xp.reshape(self.near, (batch, -1, 1))
        )[:, :, 0]
        return real_part(value)

    def advance(self, spins: Array) -> None:
        """Fix the spins (B,) of the present column and go on to the next."""
        xp = array_namespace(self.left)
        _, down, d_right = self.columns[len(self.tensors)].shape
        batch, kappa = self.left.shape[:2]
        ket, seen = _chosen(self.ket, spins), _chosen(self.seen, spins)
        near = xp.reshape(self.near, (batch, kappa * down, -1))
        q = self._basis(ket, seen, near)
        rank = q.shape[2]
        turned = xp.permute_dims(xp.reshape(q, (batch, kappa, down, rank)), (0, 2, 1, 3))
        carry = xp.matmul(xp.matrix_transpose(ket), conj(q))
        left = xp.matmul(xp.matrix_transpose(q), near)
        left = xp.matmul(
            xp.reshape(left, (batch, -1, down * kappa)),
            xp.reshape(conj(turned), (batch, down * kappa, rank)),
        )
        self.tensors.append(turned)
        self.carry = normalise(xp.reshape(carry, (batch, -1, d_right, rank)))[0]
        self.left = normalise(xp.reshape(left, (batch, rank, -1, rank)))[0]

    def _basis(self, ket: Array, seen: Array, near: Array) -> Array:
        """Isometry (B, kappa * down, <= chi) onto what matters of the column and all left of it.

        Kept is the range of `seen` (which all that follows looks at), as weighted by `near`.
        """
        xp = array_namespace(ket)
        batch, height, open_bond = ket.shape
        if height <= min(self.chi, open_bond):
            return xp.broadcast_to(xp.eye(height, dtype=ket.dtype), (batch, height, height))
        if open_bond <= self.chi:
            return orthonormal_basis(ket)
        probe = xp.matmul(xp.matrix_transpose(near), _probe(height, self.chi, ket))
        return orthonormal_basis(xp.matmul(seen, probe))

    def boundary(self) -> BoundaryMPS:
        """The drawn row and all above it, as the top of the next row."""
        none = array_namespace(self.left).zeros((self.left.shape[0],))
        return BoundaryMPS(self.tensors, none)


def _probe(height: int, rank: int, like: Array) -> Array:
    """A fixed random matrix (height, rank)."""
    xp = array_namespace(like)
    entries = np.random.Generator(np.random.PCG64(height)).standard_normal((height, rank))
    return xp.astype(to_namespace(entries, xp), like.dtype)


def _chosen(array: Array, spins: Array) -> Array:
    """Entry spins[b] of axis 1 of an array (B, d, ...)."""
    xp = array_namespace(array)
    batch, n_spins = array.shape[:2]
    flat = xp.reshape(array, (batch * n_spins, *array.shape[2:]))
    return xp.take(flat, xp.arange(batch) * n_spins + xp.astype(spins, xp.int64), axis=0)


def _positive(values: Array, floor: float) -> Array:
    """Values (B, d), at least `floor` of the largest of each row; ones where none is positive."""
    xp = array_namespace(values)
    values = xp.astype(values, xp.float64)
    largest = xp.max(values, axis=1, keepdims=True)
    alive = largest > 0
    values = values / xp.where(alive, largest, xp.ones_like(largest))
    return xp.where(alive, xp.maximum(values, xp.asarray(floor)), xp.ones_like(values))


def _picked(weight: Array, uniforms: Array) -> Array:
    """Local states (B,) drawn in proportion to weights (B, d)."""
    xp = array_namespace(weight)
    below = xp.cumulative_sum(weight, axis=1)
    threshold = uniforms[:, None] * below[:, -1:]
    return xp.sum(xp.astype(below[:, :-1] <= threshold, xp.int64), axis=1)


def _log_share(weight: Array, spins: Array) -> Array:
    """ln of the share that weights (B, d) give to `spins`; -inf for none."""
    xp = array_namespace(weight)
    chosen, total = _chosen(weight, spins), xp.sum(weight, axis=1)
    alive = chosen > 0
    safe = xp.where(alive, chosen, xp.ones_like(chosen))
    log = xp.log(safe) - xp.log(xp.where(alive, total, xp.ones_like(total)))
    return xp.where(alive, log, xp.full_like(log, -xp.inf))
