"""Transfer along strips of one or more rows between two boundary MPS.

It gives environments, closures and environment tensors.  A strip is the network of a walker around
the rows that are being visited::

    top      o---o---o---o      boundary MPS above, or nothing at the edge
             |   |   |   |
    rows     #---#---#---#      site tensors at the walker's spins
             |   |   |   |
    bottom   o---o---o---o      boundary MPS below, or nothing at the edge
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tnvmc.backend import kernels
from tnvmc.backend.linalg import normalise, split_scale
from tnvmc.backend.namespace import array_namespace
from tnvmc.contraction.tensors import BoundaryMPS

Array = Any

NORMALISE_EVERY = 4
"""Columns between rescalings: site tensors have largest entry 1, so four columns of two rows grow
by less than D**8 chi**8, far inside the range even of float32 for the sizes in use."""


@dataclass(frozen=True)
class Environment:
    """All left (or right) of a column: exp(log_scale) * tensor, (B, top, rows..., bottom).

    That of a ring is (B, carried, top, row, bottom): one for each value of its closing bond.
    """

    tensor: Array
    log_scale: Array  #: (B,)

    def take(self, walkers: Array) -> "Environment":
        """Select walkers by index (n,)."""
        xp = array_namespace(self.tensor)
        return Environment(
            xp.take(self.tensor, walkers, axis=0), xp.take(self.log_scale, walkers, axis=0)
        )


def open_column(env: Array, top: Array | None, sites: Sequence[Array]) -> Array:
    """Absorb the top and the sites of a column, leaving its lower legs open.

    Args:
        env: (B, top, row_1, ..., row_k, bottom), or (B, carried, ...).
        top: (B, out, vertical, in) or None.
        sites: k arrays (B, out, down, up, in), from the upper row to the lower.

    Gives (B, top_out * row_1_out * ... * row_k_out, down * bottom), or (B, carried, ...).  Cost per
    walker: chi^3 D^(k+1) + k chi^2 D^(k+3).
    """
    xp = array_namespace(env)
    batch, shared = env.shape[: -len(sites) - 2], (1,) * (env.ndim - len(sites) - 3)
    fused = kernels.transfer(env, top, sites, None)
    if fused is not None:
        return xp.reshape(fused, (*batch, -1, sites[-1].shape[2] * env.shape[-1]))
    if top is None:
        lead, x = 1, env
    else:
        lead, vertical, inner = top.shape[1:]
        matrix = xp.reshape(top, (-1, *shared, lead * vertical, inner))
        x = xp.matmul(matrix, xp.reshape(env, (*batch, inner, -1)))
    for site in sites:
        out, down, up, inner = site.shape[1:]
        matrix = xp.reshape(site, (-1, *shared, 1, out * down, up * inner))
        x = xp.matmul(matrix, xp.reshape(x, (*batch, lead, up * inner, -1)))
        lead *= out
    return xp.reshape(x, (*batch, lead, -1))


def close_column(x: Array, bottom: Array | None, shape: tuple[int, ...]) -> Array:
    """Absorb the bottom (B or 1, vertical, in, out), or None, into an `open_column`.

    `shape` is that of the result, (B, top, row_1, ..., row_k, bottom), or (B, carried, ...).  Cost
    per walker: chi^3 D^(k+1).
    """
    xp = array_namespace(x)
    if bottom is None:
        return xp.reshape(x, shape)
    vertical, inner, out = bottom.shape[1:]
    if bottom.shape[0] == 1:  # one product for all walkers
        x = xp.matmul(
            xp.reshape(x, (-1, vertical * inner)), xp.reshape(bottom, (vertical * inner, out))
        )
    else:
        shared = (1,) * (x.ndim - 3)
        x = xp.matmul(x, xp.reshape(bottom, (-1, *shared, vertical * inner, out)))
    return xp.reshape(x, shape)


def transfer(env: Array, top: Array | None, sites: Sequence[Array], bottom: Array | None) -> Array:
    """Absorb one column into an environment, in either direction (see the table of layouts).

    Args:
        env: (B, top, row_1, ..., row_k, bottom), or (B, carried, ...), D times the cost; as the
            result.
        top: (B, out, vertical, in) or None.
        sites: k arrays (B, out, down, up, in).
        bottom: (B or 1, vertical, in, out) or None.

    Cost per walker: 2 chi^3 D^(k+1) + k chi^2 D^(k+3).  No array is transposed.
    """
    shape = (
        *env.shape[: -len(sites) - 2],
        1 if top is None else top.shape[1],
        *(site.shape[1] for site in sites),
        1 if bottom is None else bottom.shape[3],
    )
    fused = kernels.transfer(env, top, sites, bottom)
    if fused is not None:
        return array_namespace(env).reshape(fused, shape)
    x = open_column(env, top, sites)
    return close_column(x, bottom, shape)


def edge_of(site: Array, n_rows: int = 1) -> Array:
    """What stands beyond either end of `n_rows` rows, (B, 1, ..., 1), by their first site.

    Of a ring, (B, carried, 1, carried, 1): its first leg to the left is its last to the right.
    """
    xp, carried = array_namespace(site), site.shape[1]
    if carried == 1:
        return xp.ones((site.shape[0],) + (1,) * (n_rows + 2), dtype=site.dtype)
    same = xp.reshape(xp.eye(carried, dtype=site.dtype), (1, carried, 1, carried, 1))
    return xp.broadcast_to(same, (site.shape[0], *same.shape[1:]))


class Strip:
    """Rows of B walkers between the boundary above them and the boundary below.

    `rows` holds the leftward sites of each row, upper first; `advance` is given the rightward
    ones, since a sampler changes spins on its way.
    """

    def __init__(
        self, above: BoundaryMPS | None, rows: Sequence[Sequence[Array]], below: BoundaryMPS | None
    ) -> None:
        self.above, self.rows, self.below = above, rows, below
        self.n_cols = len(rows[0])

    def edge(self) -> Environment:
        """The environment outside the first or the last column, see `edge_of`."""
        site = self.rows[0][0]
        xp = array_namespace(site)
        log_scale = xp.zeros((site.shape[0],), dtype=xp.abs(site[:1, :1, :1, :1, :1]).dtype)
        for boundary in (self.above, self.below):
            if boundary is not None:
                log_scale = log_scale + boundary.log_scale / 2  # each edge carries half
        return Environment(edge_of(site, len(self.rows)), log_scale)

    def right_environments(self) -> list[Environment]:
        """Give the environments right of each column.

        They are n_cols + 1 of (B, top, row_1, ..., row_k, bottom); element c holds the columns c, c
        + 1, ... Cost per walker: n_cols times that of `transfer`.
        """
        stack = [self.edge()]
        for column in reversed(range(self.n_cols)):
            tensor = transfer(
                stack[-1].tensor,
                None if self.above is None else self.above.top_leftward[column],
                [row[column] for row in self.rows],
                None if self.below is None else self.below.bottom_leftward[column],
            )
            stack.append(_rescaled(tensor, stack[-1].log_scale, column))
        return stack[::-1]

    def advance(
        self, left: Environment, column: int, sites: Sequence[Array], walkers: Array | None = None
    ) -> Environment:
        """Absorb a column into a left environment (B, top, row_1, ..., row_k, bottom).

        `sites` are k rightward sites (B, right, down, up, left) at the present spins; `walkers`
        indices of the walkers that `left` and `sites` hold, None for all.
        """

        def chosen(tensors: Sequence[Array]) -> Array:
            tensor = tensors[column]
            return (
                tensor if walkers is None else array_namespace(tensor).take(tensor, walkers, axis=0)
            )

        tensor = transfer(
            left.tensor,
            None if self.above is None else chosen(self.above.top_rightward),
            sites,
            None if self.below is None else chosen(self.below.tensors),
        )
        return _rescaled(tensor, left.log_scale, column)

    def site_environment(self, left: Environment, right: Environment, column: int) -> Array:
        """Give the strip of one row without a site, up to a scale: (B, up, left, down, right).

        Its sum with the site tensor in theta's leg order is the closure.  `left` and `right` are
        environments (B, top, row, bottom) of the columns before and after.  Cost per walker: 2
        chi^3 D^2 + chi^2 D^4.
        """
        xp = array_namespace(left.tensor)
        if left.tensor.ndim > 4:  # of a ring: summed over what is carried

            def of(side: Environment, a: int) -> Environment:
                return Environment(side.tensor[:, a, ...], side.log_scale)

            carried = range(left.tensor.shape[1])
            return sum(self.site_environment(of(left, a), of(right, a), column) for a in carried)
        batch, _, d_left, bottom_in = left.tensor.shape
        _, top_out, d_right, _ = right.tensor.shape
        x, d_up = left.tensor, 1
        if self.above is not None:
            top = self.above.top_rightward[column]
            d_up = top.shape[2]
            x = xp.matmul(  # (top_out up, top_in) x (top_in, left bottom_in)
                xp.reshape(top, (batch, top_out * d_up, -1)),
                xp.reshape(x, (batch, -1, d_left * bottom_in)),
            )
        # (top_out, up left, bottom_in) -> (up left, top_out bottom_in)
        x = xp.reshape(x, (batch, top_out, d_up * d_left, bottom_in))
        x = xp.reshape(
            xp.permute_dims(x, (0, 2, 1, 3)), (batch, d_up * d_left, top_out * bottom_in)
        )
        y, d_down = xp.matrix_transpose(right.tensor), 1  # (B, top, bottom_out, right)
        if self.below is not None:
            bottom = self.below.top_leftward[column]  # (B, left, vertical, right)
            d_down = bottom.shape[2]
            # (bottom_in down, bottom_out) x (top, bottom_out, right), per top
            y = xp.matmul(xp.reshape(bottom, (batch, 1, bottom_in * d_down, -1)), y)
        y = xp.reshape(y, (batch, top_out * bottom_in, d_down * d_right))
        # (up left, top bottom) x (top bottom, down right)
        return xp.reshape(xp.matmul(x, y), (batch, d_up, d_left, d_down, d_right))


def _rescaled(tensor: Array, log_scale: Array, column: int) -> Environment:
    if column % NORMALISE_EVERY != NORMALISE_EVERY - 1:
        return Environment(tensor, log_scale)
    tensor, more = normalise(tensor)
    return Environment(tensor, log_scale + more)


def closure(left: Environment, right: Environment) -> tuple[Array, Array]:
    """Contract a left with a right environment, both (B, top, row_1, ..., row_k, bottom).

    Gives phase (B,) and log modulus (B,), 0 and -inf where it vanishes.  Cost per walker: chi^2
    D^k.
    """
    xp = array_namespace(left.tensor)
    batch = left.tensor.shape[0]
    size = prod(left.tensor.shape[1:])
    value = xp.matmul(
        xp.reshape(left.tensor, (batch, 1, size)), xp.reshape(right.tensor, (batch, size, 1))
    )[:, 0, 0]
    return split_scale(value, left.log_scale + right.log_scale)
