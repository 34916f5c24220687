"""Two-site replacements at any distance: one source carried down serves every second site.

A *source* is a walker with one spin of row r1 replaced, at site i.  It is absorbed row by row,
beginning with row r1, over the boundary of the unchanged rows above.  At a row r2 further down it
is closed with the unchanged boundary below, and the environment tensor of each site j of
that row, which is the network without j, gives the amplitude for every local state of j::

    ~~~~~~~~~~~~~~~~~  boundary above row r1, as it was
    . . . i . . . . .  row r1, absorbed with the new spin: here the source gets its own boundary
    . . . . . . . . .  rows between, absorbed
    ----- [ j ] -----  row r2, left and right environments: all j at once
    ~~~~~~~~~~~~~~~~~  boundary below row r2, as it was

In its own row a source is carried to the right instead, from site to site.  Amplitudes are divided
by that of the unchanged configuration closed at the same row r2, so that the boundary below, the
scales and most of the truncation error cancel.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tnvmc.ansatz.metropolis import amplitude_ratio
from tnvmc.ansatz.peps.strip_engine import Layers
from tnvmc.ansatz.protocol import LogAmplitude, Targets
from tnvmc.backend.linalg import split_scale
from tnvmc.backend.namespace import array_namespace
from tnvmc.contraction.row import Environment, Strip
from tnvmc.contraction.tensors import BoundaryMPS
from tnvmc.lattice.embedding import Embedding
from tnvmc.lattice.lattice import Patch

Array = Any


@dataclass(frozen=True)
class Environments:
    """A batch of walkers with the boundaries on both sides of every row.

    All patches below are of places of the grid, whose numbers are those of the sites unless some
    are vacant.
    """

    layers: Layers
    configs: Array  #: (B, places)
    above: Sequence[BoundaryMPS | None]  #: per row
    below: Sequence[BoundaryMPS | None]  #: per row
    amplitudes: Sequence[LogAmplitude]  #: per row, of the unchanged configurations closed there

    def chosen(self, row: int, configs: Array, twist: Array | None = None) -> Array:
        """Which tensor each place of a row has at configurations (n, places).

        Of fermions with the legs below twisted (n, n_cols): see `peps.fermions`.
        """
        variants = self.layers.variants
        if variants is None:
            return configs
        return variants.of_row(configs, row, self.layers.n_cols, twist)

    def moved(self, sources: "_Sources") -> Array | None:
        """1 where a source has another parity of particles than its site (S,); None of spins."""
        variants, xp = self.layers.variants, array_namespace(self.configs)
        if variants is None:
            return None
        flat = xp.reshape(self.configs, (-1,))
        before = xp.take(flat, sources.walkers * self.configs.shape[1] + sources.sites)
        return (variants.parities(before) + variants.parities(sources.spins)) % 2


@lru_cache(maxsize=64)
def pairs_by_source(
    patches: tuple[Patch, ...], found: Embedding, D: int, apart: frozenset[Patch] = frozenset()
) -> dict[Patch, Patch]:
    """Choose the two-site patches that are better served by sources than by windows.

    Always those more than two rows high.  Of the others, those that join the same rows go
    together, one way or the other: windows cost the sum of their widths (times D in two rows),
    sources 6 transfers per column (absorbed, then closed everywhere), or 2 in their own row.
    On two rows of rings a window costs 3 transfers per column (absorbed, then closed).
    """
    groups: dict[tuple[int, int], list[Patch]] = {}
    n_cols, placed = found.shape[1], {found.placed(p): p for p in patches if p not in apart}
    for patch in placed:
        if len(patch) == 2:
            groups.setdefault((patch[0] // n_cols, patch[1] // n_cols), []).append(patch)
    chosen: list[Patch] = []
    for (upper, lower), group in groups.items():
        columns = {first % n_cols for first, _ in group}
        windows = sum(abs(j % n_cols - i % n_cols) + 1 for i, j in group)
        if lower == upper:
            by_source = 2 * sum(n_cols - column for column in columns)
        else:
            windows = 3 * n_cols * len(group) if found.rings else windows * D
            by_source = 6 * n_cols * len(columns)
        if lower > upper + 1 or by_source < windows:
            chosen += group
    return {places: placed[places] for places in chosen}


def pair_ratios(around: Environments, pairs: Targets, sources_per_call: int) -> dict[Patch, Array]:
    """psi(s with both sites replaced) / psi(s), (B, R) for every two-site patch of `pairs`.

    Zero where a table says -1, and where psi vanishes.  Nothing truncated: equal to full
    contractions to rounding; else the errors are those of full contractions or a little smaller.

    Cost of the exchange of all pairs, per sample: N sources, each absorbed and closed in half of
    the rows on average, in place of N^2 / 4 full contractions (8x8, D = 4, chi = 8: 29 ms for 570).
    Memory: boundaries of `sources_per_call` walkers, and 2 B d^2 N n_cols numbers.
    """
    by_row: dict[int, dict[Patch, Array]] = {}
    for patch, table in pairs.items():
        by_row.setdefault(patch[0] // around.layers.n_cols, {})[patch] = table
    ratios: dict[Patch, Array] = {}
    for row, tables in by_row.items():
        ratios |= _ratios_from_row(around, row, tables, sources_per_call)
    return ratios


@dataclass(frozen=True)
class _Request:
    """Patches that share a table, and what it asks of every walker."""

    patches: list[Patch]
    targets: Array  #: (B, patches, R), -1 where there is none


@dataclass(frozen=True)
class _Sources:
    """Walkers with the spin of one site replaced, in the order (site, spin, walker)."""

    walkers: Array  #: (S,) places in the batch
    sites: Array  #: (S,)
    spins: Array  #: (S,)

    def __len__(self) -> int:
        return int(self.walkers.shape[0])

    def parts(self, size: int) -> "list[_Sources]":
        """The same sources, at most `size` at a time."""
        pieces = [slice(k, min(k + size, len(self))) for k in range(0, len(self), size)]
        return [_Sources(*(array[piece] for array in vars(self).values())) for piece in pieces]

    def at(self, site: int) -> "_Sources":
        """The sources of one site."""
        xp = array_namespace(self.sites)
        places = xp.nonzero(self.sites == site)[0]
        return _Sources(*(xp.take(array, places, axis=0) for array in vars(self).values()))


def _ratios_from_row(
    around: Environments, row: int, tables: dict[Patch, Array], sources_per_call: int
) -> dict[Patch, Array]:
    """Ratios of the pairs whose first site is in `row`."""
    requests = _requests(around, tables)
    used = _used(around, row, requests)
    sources = _sources(around, row, used)
    n_cols = around.layers.n_cols
    columns: dict[int, list[int]] = {}  # second sites by row
    for site in sorted({second for _, second in tables}):
        columns.setdefault(site // n_cols, []).append(site % n_cols)
    xp, dtype = array_namespace(around.configs), around.layers.tables["down"].numbers.dtype
    if len(sources) == 0:
        found = xp.zeros((0, sum(map(len, columns.values())), around.layers.local_dim), dtype=dtype)
        return _looked_up(around, row, requests, used, found)
    parts = []
    if row in columns:
        parts.append(_along_row(around, row, sources, columns.pop(row), sources_per_call))
    if columns:
        chunks = [_down(around, row, chunk, columns) for chunk in sources.parts(sources_per_call)]
        parts.append(xp.concat(chunks, axis=0))
    return _looked_up(around, row, requests, used, xp.concat(parts, axis=1))


def _requests(around: Environments, tables: dict[Patch, Array]) -> list[_Request]:
    """Group patches by table, so that thousands of pairs are looked up at once."""
    xp, d = array_namespace(around.configs), around.layers.local_dim
    groups: dict[Any, list[Patch]] = {}
    for patch, table in tables.items():
        key = (table.shape, table.tobytes()) if xp is np else id(table)
        groups.setdefault(key, []).append(patch)
    requests = []
    for patches in groups.values():
        first, second = (
            xp.astype(xp.take(around.configs, xp.asarray(sites), axis=1), xp.int64)
            for sites in zip(*patches, strict=True)
        )
        table = xp.asarray(tables[patches[0]])
        targets = xp.take(table, xp.reshape(first * d + second, (-1,)), axis=0)
        requests.append(_Request(patches, xp.reshape(targets, (*first.shape, table.shape[1]))))
    return requests


def _used(around: Environments, row: int, requests: list[_Request]) -> Array:
    """Tell which sources of a row some pair needs: bool (n_cols * d * B,)."""
    xp, d, n_cols = array_namespace(around.configs), around.layers.local_dim, around.layers.n_cols
    batch = around.configs.shape[0]
    used = [xp.zeros((batch,), dtype=xp.int8) > 0 for _ in range(n_cols * d)]
    for request in requests:
        columns = np.array([patch[0] % n_cols for patch in request.patches])
        for column in set(columns.tolist()):
            places = xp.asarray(np.flatnonzero(columns == column).tolist())
            spins = xp.take(request.targets, places, axis=1) // d  # -1 stays -1, which is no spin
            for spin in range(d):
                wanted = xp.any(xp.reshape(spins == spin, (batch, -1)), axis=1)
                used[column * d + spin] = used[column * d + spin] | wanted
    return xp.concat(used)


def _sources(around: Environments, row: int, used: Array) -> _Sources:
    d, batch = around.layers.local_dim, around.configs.shape[0]
    codes = array_namespace(used).nonzero(used)[0]
    sites = codes // (batch * d) + row * around.layers.n_cols
    return _Sources(codes % batch, sites, codes // batch % d)


def _down(
    around: Environments, row: int, sources: _Sources, columns: dict[int, list[int]]
) -> Array:
    """Ratios (S, second sites, d) with second sites in `columns` of rows below the sources."""
    xp = array_namespace(around.configs)
    configs = _replaced(around.configs, sources)
    over = around.above[row]
    boundary = over and over.take(sources.walkers)
    found = []
    left_twist, right_twist = _twists(around, sources)
    for lower in range(row + 1, max(columns) + 1):
        above = around.chosen(lower - 1, configs)
        boundary = around.layers.absorb(boundary, lower - 1, above, "down")
        if lower not in columns:
            continue
        below = around.below[lower]
        chosen = around.chosen(lower, configs, left_twist)
        beyond = around.chosen(lower, configs, right_twist)
        strip = Strip(
            boundary,
            [around.layers.row(lower, beyond, "down").leftward],
            below and below.take(sources.walkers),
        )
        before = around.amplitudes[lower].take(sources.walkers)
        right, left = strip.right_environments(), strip.edge()
        for column in range(max(columns[lower]) + 1):
            if column in columns[lower]:
                environment = _site_environment(strip, left, right[column + 1], column)
                site = lower * around.layers.n_cols + column
                found.append(_closed(around, site, environment, before, chosen[:, site]))
            site = lower * around.layers.n_cols + column
            left = strip.advance(left, column, [_rightward(around, site, chosen[:, site])])
    return xp.stack(found, axis=1)


def _twists(around: Environments, sources: _Sources) -> tuple[Array | None, Array | None]:
    """Legs below a row that are twisted, left of the second site and there, and right of it.

    What a source takes from its column or brings to it is even again beyond the second site.
    """
    moved, n_cols = around.moved(sources), around.layers.n_cols
    if moved is None:
        return None, None
    xp = array_namespace(moved)
    beyond = sources.sites[:, None] % n_cols < xp.arange(n_cols, dtype=sources.sites.dtype)[None, :]
    beyond = xp.astype(beyond, moved.dtype)
    return moved[:, None] * beyond, moved[:, None] * (1 - beyond)


def _along_row(
    around: Environments, row: int, sources: _Sources, columns: list[int], sources_per_call: int
) -> Array:
    """Ratios (S, columns, d) with second sites in the row of the sources.

    Zero at and left of a source: pairs are served from their left site.
    """
    xp, n_cols = array_namespace(around.configs), around.layers.n_cols
    strip, chosen = _strip(around, row, None), around.chosen(row, around.configs)
    right, left = strip.right_environments(), strip.edge()
    pieces = []
    for column in range(n_cols):
        site = row * n_cols + column
        for part in sources.at(site).parts(sources_per_call):
            pieces.append(_to_the_right(around, part, column, columns, left, right))
        left = strip.advance(left, column, [_rightward(around, site, chosen[:, site])])
    return xp.concat(pieces, axis=0)


def _to_the_right(
    around: Environments, sources: _Sources, column: int, columns: list[int], left: Environment,
    right: list[Environment],
) -> Array:  # fmt: skip
    """Ratios (S, columns, d) of sources of one site, carried through the rest of their row."""
    xp, n_cols = array_namespace(around.configs), around.layers.n_cols
    row = int(sources.sites[0]) // n_cols
    strip = _strip(around, row, sources.walkers)
    before = around.amplitudes[row].take(sources.walkers)
    left, own = left.take(sources.walkers), xp.take(around.configs, sources.walkers, axis=0)
    here, twist = around.chosen(row, own), _twists(around, sources)[0]
    after = around.chosen(row, own, twist)
    site = row * n_cols + column
    spins = sources.spins + xp.astype(here[:, site] - own[:, site], sources.spins.dtype)
    nothing = xp.zeros((len(sources), around.layers.local_dim), dtype=left.tensor.dtype)
    found = [nothing for second in columns if second <= column]
    for second in range(column, max(columns) + 1):
        site = row * n_cols + second
        if second > column:
            spins = after[:, site]
            if second in columns:
                beyond = right[second + 1].take(sources.walkers)
                environment = _site_environment(strip, left, beyond, second)
                found.append(_closed(around, site, environment, before, spins))
        left = strip.advance(left, second, [_rightward(around, site, spins)])
    return xp.stack(found, axis=1)


def _looked_up(
    around: Environments, row: int, requests: list[_Request], used: Array, found: Array
) -> dict[Patch, Array]:
    """Pick from ratios (S, second sites, d) what each patch asks for, (B, R)."""
    xp, d, n_cols = array_namespace(found), around.layers.local_dim, around.layers.n_cols
    seconds = sorted({patch[1] for request in requests for patch in request.patches})
    place_of = {site: place for place, site in enumerate(seconds)}
    batch, flat = around.configs.shape[0], xp.reshape(found, (-1,))
    rank = xp.zeros(used.shape, dtype=xp.int64)
    rank[used] = xp.arange(found.shape[0], dtype=xp.int64)
    walkers = xp.arange(batch, dtype=xp.int64)[:, None, None]
    ratios: dict[Patch, Array] = {}
    for request in requests:
        exists = request.targets >= 0
        targets = xp.where(exists, request.targets, xp.zeros_like(request.targets))
        columns, places = (
            xp.asarray(numbers, dtype=xp.int64)[None, :, None]
            for numbers in (
                [first % n_cols for first, _ in request.patches],
                [place_of[second] for _, second in request.patches],
            )
        )
        code = (columns * d + targets // d) * batch + walkers
        source = xp.reshape(xp.take(rank, xp.reshape(code, (-1,)), axis=0), code.shape)
        slots = (source * len(seconds) + places) * d + targets % d
        values = xp.zeros(exists.shape, dtype=found.dtype)
        values[exists] = xp.take(flat, slots[exists], axis=0)
        ratios |= {patch: values[:, place, :] for place, patch in enumerate(request.patches)}
    return ratios


def _site_environment(
    strip: Strip, left: Environment, right: Environment, column: int
) -> tuple[Array, Array]:
    """The environment tensor (S, up * left * down * right) and its log scale (S,)."""
    environment = strip.site_environment(left, right, column)
    flat = array_namespace(environment).reshape(environment, (environment.shape[0], -1))
    return flat, left.log_scale + right.log_scale


def _closed(
    around: Environments, site: int, environment: tuple[Array, Array], before: LogAmplitude,
    chosen: Array,
) -> Array:  # fmt: skip
    """Ratios (S, d) of the amplitudes with every local state at the site to those (S,) before.

    `chosen` (S,) is the tensor of the present state, of whose variant the others are too.
    """
    xp, d = array_namespace(environment[0]), around.layers.local_dim
    table = around.layers.tables["down"].table("right", site)
    states = xp.reshape(xp.permute_dims(table, (0, 3, 4, 2, 1)), (table.shape[0], -1))
    values = xp.matmul(states[None, :, :], environment[0][:, :, None])[:, :, 0]  # one by one: bits
    if table.shape[0] > d:
        first = xp.astype(chosen // d * d, xp.int64) + xp.arange(values.shape[0]) * table.shape[0]
        places = xp.reshape(first[:, None] + xp.arange(d)[None, :], (-1,))
        values = xp.reshape(xp.take(xp.reshape(values, (-1,)), places), (-1, d))
    scale = xp.broadcast_to(environment[1][:, None], values.shape)
    old = LogAmplitude(before.phase[:, None], before.log_abs[:, None])
    return amplitude_ratio(LogAmplitude(*split_scale(values, scale)), old)


def _rightward(around: Environments, site: int, spins: Array) -> Array:
    return around.layers.site("down", "right", site, spins)


def _strip(around: Environments, row: int, walkers: Array | None) -> Strip:
    """One row of the unchanged configurations, of the selected walkers (None: all)."""
    xp, configs = array_namespace(around.configs), around.configs
    if walkers is not None:
        configs = xp.take(configs, walkers, axis=0)
    sides, chosen = (around.above[row], around.below[row]), around.chosen(row, configs)
    above, below = (side and side.take(walkers) for side in sides)
    return Strip(above, [around.layers.row(row, chosen, "down").leftward], below)


def _replaced(configs: Array, sources: _Sources) -> Array:
    """Configurations (S, N) of the sources."""
    xp = array_namespace(configs)
    sites = xp.arange(configs.shape[1], dtype=sources.sites.dtype)
    here = sites[None, :] == sources.sites[:, None]
    spins = xp.astype(sources.spins, configs.dtype)[:, None]
    return xp.where(here, spins, xp.take(configs, sources.walkers, axis=0))
