"""Fermions in a PEPS: an ordinary network whose site tensors come in a few variants.

Every bond has even and odd states, by turns (0, 2, ... and 1, 3, ...), and a site tensor is even:
an entry is a parameter only where the parities of its spin and of its four legs add to 0.  The
first site, at the upper left, has all entries, so that psi has both parities of particle number.

Modes are ordered by columns, within a column from the bottom row to the top.  Drawn in the plane,
the line of site (r, c) goes down beside column c and crosses the horizontal bonds to its right in
all rows below (Corboz, Orus, Bauer and Vidal, Phys. Rev. B 81, 165104 (2010)).  With P(r, c), the
number of particles above row r in column c: psi(s) is the network of the tensors at s where the
right leg of (r, c) has a factor -1 on its odd states if P(r, c) is odd.

What does not follow the spins at once is right up to signs:

* Rows below a strip that were absorbed before particles moved in and above it.  All signs that
  this changes are, by the parity of the lower right part of the network, a *twist* of legs: the one
  below (r, c) has a factor -1 on its odd states if the number of particles that columns < c gained
  in the rows <= r is odd; and one overall sign, (-1)^(particles below r in all twisted columns).
* Within a strip, a move changes P or the twist of the sites after its own, up to the last of its
  window: its particle number is conserved.

So a site tensor is chosen by (spin, twist, P) in a row, (spin, P) in a column: nothing is absorbed
again, and every other line of the code is that of spins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tnvmc.ansatz.metropolis import local_states
from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.lattice.lattice import Patch
from tnvmc.operators.fermions import Fermions

Array = Any


def leg_parities(shape: Sequence[int]) -> list[np.ndarray]:
    """Parities of the states of each leg, shaped to be added up over (up, left, down, right)."""
    return [
        (np.arange(size) % 2).reshape([-1 if axis == leg else 1 for axis in range(4)])
        for leg, size in enumerate(shape)
    ]


def told_of(fermions: Fermions) -> dict[str, Any]:
    """What a file says of fermions: lists, as JSON gives them back."""
    return {"odd": [*fermions.odd], "numbers": [[*numbers] for numbers in fermions.numbers]}


def fermions_in(identity: Mapping[str, Any]) -> Fermions | None:
    """Read from what a file says of a state which fermions it is of; None for spins."""
    told = identity.get("fermions")
    return told and Fermions(tuple(told["odd"]), tuple(map(tuple, told["numbers"])))


def odd_patches(targets: Mapping[Patch, Array], odd: tuple[int, ...]) -> frozenset[Patch]:
    """Patches some of whose replacements change the parity of all particles.

    A strip cannot serve them: signs would change in every column to the right.
    """
    keys = {patch: (len(patch), to_host(table)) for patch, table in targets.items()}
    return frozenset(
        patch for patch, (n, table) in keys.items()
        if _changes_parity(odd, n, table.shape, table.astype(np.int64).tobytes())
    )  # fmt: skip


@lru_cache(maxsize=256)
def _changes_parity(odd: tuple[int, ...], n_sites: int, shape: Any, table: bytes) -> bool:
    every = np.indices((len(odd),) * n_sites).reshape(n_sites, -1)
    parity, targets = np.array(odd)[every].sum(axis=0) % 2, np.frombuffer(table, np.int64)
    targets = targets.reshape(shape)
    return bool(np.any((parity[targets] != parity[:, None]) & (targets >= 0)))


@dataclass(frozen=True)
class EvenEntries:
    """theta (P,) of even tensors: for each site and spin the entries whose parities add to 0.

    A slice of a spin holds as many numbers as that of every other one of the site; where D is odd,
    the last of some is no entry, and psi does not depend on it.
    """

    shapes: tuple[tuple[int, ...], ...]  #: (d, up, left, down, right) of each site
    odd: tuple[int, ...]  #: parities of the local states

    @cached_property
    def _places(self) -> list[np.ndarray]:
        """For each site and parity of the spin the entries of a slice: (2, n), -1 for none."""
        found = []
        for site, (_, *legs) in enumerate(self.shapes):
            parity = np.sum(np.meshgrid(*(np.arange(n) for n in legs), indexing="ij"), axis=0) % 2
            parity = parity.ravel()
            every = np.arange(parity.size)
            own = [every, every] if site == 0 else [np.flatnonzero(parity == p) for p in (0, 1)]
            width = max(map(len, own))
            found.append(
                np.array([np.pad(x, (0, width - len(x)), constant_values=-1) for x in own])
            )
        return found

    @cached_property
    def widths(self) -> list[int]:
        """Parameters of a slice of each site."""
        return [places.shape[1] for places in self._places]

    @property
    def n_params(self) -> int:
        """Numbers in theta."""
        return len(self.odd) * sum(self.widths)

    @cached_property
    def n_idle(self) -> int:
        """Parameters that psi does not depend on: those that are no entries, and of the first site
        the half that belongs to the other parity of the number of particles."""
        none = [int((places[list(self.odd)] < 0).sum()) for places in self._places]
        return sum(none) + len(self.odd) * self.widths[0] // 2

    def tensors(self, theta: Array) -> list[Array]:
        """Tensors (d, up, left, down, right) of the sites, with zeros."""
        xp, d, begin = array_namespace(theta), len(self.odd), 0
        nothing, found = xp.zeros((1,), dtype=theta.dtype), []
        for shape, places, width in zip(self.shapes, self._places, self.widths, strict=True):
            size = d * width
            entry = np.full((d, prod(shape[1:]) + 1), size)  # one more, for places that are none
            for s, p in enumerate(self.odd):
                entry[s, places[p]] = s * width + np.arange(width)
            part = xp.concat([theta[begin : begin + size], nothing])
            index = to_namespace(entry[:, :-1].ravel(), xp)
            found.append(xp.reshape(xp.take(part, index), shape))
            begin += size
        return found

    def flatten(self, tensors: Sequence[Array]) -> Array:
        """theta (P,) of tensors; entries that are not even are left out."""
        xp, parts = array_namespace(*tensors), []
        for tensor, places in zip(tensors, self._places, strict=True):
            flat = xp.reshape(tensor, (len(self.odd), -1))
            for s, p in enumerate(self.odd):
                chosen = xp.take(flat[s, :], to_namespace(np.maximum(places[p], 0), xp))
                parts.append(chosen * xp.asarray((places[p] >= 0).tolist(), dtype=flat.dtype))
        return xp.concat(parts)

    def derivatives(self, slices: Sequence[Array], parities: Array, above: Array) -> list[Array]:
        """Log-derivatives (B, n) by the parameters of each site from those by its variant.

        `slices` are (B, up * left * down * right) of each site; `parities` (B, N) those of the
        particles on each site, `above` of those above it.
        """
        xp, found = array_namespace(parities), []
        parities, above = (xp.astype(x, xp.int64) for x in (parities, above))
        for site, slice_ in enumerate(slices):
            places, shape = self._places[site], self.shapes[site][1:]
            right = np.broadcast_to(leg_parities(shape)[3], shape).ravel()
            right, none = np.where(places < 0, 0, right[places]), places < 0
            signs = np.stack([np.where(none, 0, 1), np.where(none, 0, 1 - 2 * right)], axis=1)
            rows = xp.arange(slice_.shape[0])[:, None] * slice_.shape[1]
            index = xp.take(to_namespace(np.maximum(places, 0), xp), parities[:, site], axis=0)
            index = index + rows
            variant = 2 * parities[:, site] + above[:, site]
            table = xp.astype(to_namespace(signs.reshape(4, -1), xp), slice_.dtype)
            picked = xp.take(xp.reshape(slice_, (-1,)), xp.reshape(index, (-1,)))
            found.append(xp.reshape(picked, index.shape) * xp.take(table, variant, axis=0))
        return found


@dataclass(frozen=True)
class Variants:
    """Which variant of its tensor stands at every place of a view, by rows or by columns.

    Variant s + d twist + 2 d P in a row, s + d P in a column, for the local state s.  The twist is
    a sign of the lower leg, P of the right one, which is the lower one where columns are rows.
    """

    odd: tuple[int, ...]
    by_columns: bool

    @property
    def of_columns(self) -> "Variants":
        """Those of the view by columns."""
        return Variants(self.odd, True)

    def of_tensors(self, tensors: Sequence[Array]) -> list[Array]:
        """Tensors (variants, up, left, down, right) from those (d, ...) of all places."""
        found = []
        for tensor in tensors:
            xp = array_namespace(tensor)
            _, _, down, right = (
                xp.astype(to_namespace(1.0 - 2 * leg, xp), tensor.dtype)
                for leg in leg_parities(tensor.shape[1:])
            )
            found.append(xp.concat([tensor, tensor * down], axis=0))
            if not self.by_columns:
                found[-1] = xp.concat([found[-1], found[-1] * right], axis=0)
        return found

    def parities(self, configs: Array) -> Array:
        """1 where a local state of (B, n) has an odd number of particles."""
        xp = array_namespace(configs)
        table = to_namespace(np.array(self.odd, np.int8), xp)
        flat = xp.take(table, xp.reshape(xp.astype(configs, xp.int64), (-1,)))
        return xp.reshape(flat, configs.shape)

    def above(self, configs: Array, n_cols: int) -> Array:
        """P (B, rows, columns): parities of the particles above each place of a view by rows."""
        xp = array_namespace(configs)
        rows = xp.reshape(self.parities(configs), (configs.shape[0], -1, n_cols))
        return _sums_before(rows, axis=1)

    def of_row(self, configs: Array, row: int, n_cols: int, twist: Array | None = None) -> Array:
        """The same where only one row is looked at, with legs below it twisted (B, n_cols)."""
        found = StripVariants(self, n_cols, row, 1).at(configs)
        if twist is not None:
            own = slice(row * n_cols, (row + 1) * n_cols)
            found[:, own] += array_namespace(found).astype(len(self.odd) * twist, found.dtype)
        return found

    def of_network(self, configs: Array, n_cols: int) -> Array:
        """Which tensor each place of a view by rows has (B, places), where nothing moves."""
        xp, d = array_namespace(configs), len(self.odd)
        above = xp.reshape(self.above(configs, n_cols), configs.shape)
        return configs + xp.astype(2 * d * above, configs.dtype)


def _sums_before(parities: Array, axis: int) -> Array:
    """Sums modulo 2 of what stands before each place along an axis, int8."""
    xp = array_namespace(parities)
    sums = xp.cumulative_sum(parities, axis=axis, dtype=xp.int8)
    return (sums + parities) % 2


class Reference(NamedTuple):
    """What a boundary below a row was made at, of B walkers."""

    parities: Array  #: (B, n_cols) of the particles down to that row, in each column
    sign: Array | int = 1  #: (B,) by which the boundary is off, over the twists of its legs


@dataclass(frozen=True)
class StripVariants:
    """The variants of one strip, as functions of the configurations (B, places) of its view."""

    variants: Variants
    n_cols: int
    first: int
    n_rows: int
    reference: Reference | None = None  #: of the boundary below; None: nothing has moved

    @property
    def _last(self) -> int:
        return self.first + self.n_rows - 1

    def at(self, configs: Array, walkers: Array | None = None) -> Array:
        """Configurations whose places in the strip hold variants, of walkers (B,), None for all."""
        xp, d, n_cols = array_namespace(configs), len(self.variants.odd), self.n_cols
        begin, end = self.first * n_cols, (self._last + 1) * n_cols
        found = xp.asarray(configs, copy=True)
        if self.variants.by_columns:
            for row in range(self.first, self._last + 1):
                own = slice(row * n_cols, (row + 1) * n_cols)
                here = _sums_before(self.variants.parities(configs[:, own]), axis=1)
                found[:, own] = configs[:, own] + xp.astype(d * here, configs.dtype)
            return found
        above = self.variants.above(configs[:, :end], n_cols)[:, self.first :, :]
        flags = 2 * d * above
        flags[:, -1, :] += d * self._twist(configs, walkers)
        flat = xp.reshape(flags, (configs.shape[0], end - begin))
        found[:, begin:end] = configs[:, begin:end] + xp.astype(flat, configs.dtype)
        return found

    def psi(self, closed: LogAmplitude, configs: Array) -> LogAmplitude:
        """psi (B,) from a closure with these variants."""
        sign = array_namespace(configs).astype(self.sign(configs), closed.phase.dtype)
        return LogAmplitude(closed.phase * sign, closed.log_abs)

    def sign(self, configs: Array) -> Array:
        """The overall sign (B,) by which a closure with these variants differs from psi."""
        if self.reference is None:
            return array_namespace(configs).ones((configs.shape[0],), dtype=configs.dtype)
        twisted = self._twist(configs) * self._below(configs)
        return self.reference.sign * (1 - 2 * (array_namespace(configs).sum(twisted, axis=1) % 2))

    def signed(self, ratios: Array, configs: Array, patch: Patch, table: Array) -> Array:
        """Ratios psi'/psi (B, R) of a patch and its table from those of closures at the strip."""
        signs = self._signs_of_ratios(configs, patch, table)
        if signs is None:
            return ratios
        return ratios * array_namespace(ratios).astype(signs, ratios.dtype)

    def _signs_of_ratios(self, configs: Array, patch: Patch, table: Array) -> Array | None:
        """The same for psi'/psi of a patch and its replacements `table` (d^k, R): (B, R); None: 1.

        Configurations are those at which the boundaries were made.
        """
        d, n_cols, odd = len(self.variants.odd), self.n_cols, np.array(self.variants.odd)
        if self.variants.by_columns:
            return None
        table, n_sites = to_host(table), len(patch)
        states = np.arange(len(table))
        before, after = (
            odd[np.stack([x // d ** (n_sites - 1 - k) % d for k in range(n_sites)])]
            for x in (states[:, None], np.maximum(table, 0))
        )
        gains = (before + after) % 2  # (k, d^k, R)
        if not gains.any():
            return None
        columns = np.array([place % n_cols for place in patch])
        xp, twisted = array_namespace(configs), range(columns.min() + 1, columns.max() + 1)
        own, total = local_states(configs, patch, d), 0
        below = self._below(configs)
        for c in twisted:
            twist = to_namespace(gains[columns < c].sum(axis=0) % 2, xp)
            total = total + xp.take(twist, own, axis=0) * below[:, c, None]
        return None if isinstance(total, int) else 1 - 2 * (total % 2)

    def _below(self, configs: Array) -> Array:
        """Parities (B, n_cols) of the particles below the strip."""
        xp, rest = array_namespace(configs), configs[:, (self._last + 1) * self.n_cols :]
        rows = xp.reshape(self.variants.parities(rest), (configs.shape[0], -1, self.n_cols))
        return xp.sum(rows, axis=1, dtype=xp.int8) % 2

    def _twist(self, configs: Array, walkers: Array | None = None) -> Array:
        """Parities (B, n_cols) of what columns further left gained since the boundary was made."""
        xp, end = array_namespace(configs), (self._last + 1) * self.n_cols
        if self.reference is None:
            return xp.zeros((configs.shape[0], self.n_cols), dtype=xp.int8)
        rows = xp.reshape(
            self.variants.parities(configs[:, :end]), (-1, self._last + 1, self.n_cols)
        )
        now = xp.sum(rows, axis=1, dtype=xp.int8)
        then = self.reference.parities
        then = then if walkers is None else xp.take(then, walkers, axis=0)
        return _sums_before((now + then) % 2, axis=1)
