"""Starts of a PEPS from another one: of other D, grown or cut, or of another lattice, repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from tnvmc.ansatz.peps.orbits import Orbit, nearest_alike
from tnvmc.ansatz.peps.sharing import SharedTensors, Sharing
from tnvmc.ansatz.peps.starts.initial import with_noise
from tnvmc.ansatz.peps.starts.simple_update import evolved
from tnvmc.ansatz.peps.starts.tensors import NOISE, grow, noisy
from tnvmc.ansatz.peps.starts.vidal_form import cut
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.operators.term import Operator

Array = Any


def grown(
    tensors: Sequence[Array],
    large: PEPS,
    operator: Operator,
    *,
    evolve: int = 0,
    noise: float = NOISE,
    seed: int = 0,
) -> Array:
    """Give the state of `tensors` as parameters (P,) of `large`.

    New bonds are opened by `evolve` steps of simple update.  Entries that are still zero, all new
    ones without any step, get noise of this deviation relative to the tensor's largest entry.

    Args:
        tensors: (d, up, left, down, right) of each site, as of `PEPS.tensors`.
        large: the PEPS of the larger D.
        operator: the Hamiltonian of simple update.
        evolve: steps of simple update; 0 for none.
        noise: on entries that are zero.
        seed: of the noise.

    Raises:
        ValueError: `large` has the smaller D; simple update of tensors that are shared.
    """
    xp = array_namespace(tensors[0])
    tensors = [to_host(tensor) for tensor in tensors]
    if large.shared:
        return to_namespace(_grown_shared(tensors, large, evolve, noise, seed), xp)
    if evolve:
        rng = np.random.Generator(np.random.PCG64(seed))
        here = replace(operator, lattice=large.lattice)
        wide = evolved(here, tensors, large.D, evolve, bonds=large.bonds)
        wide = [noisy(tensor, rng, noise) for tensor in wide]
    else:
        wide = grow(tensors, large.embedding, large.D, noise, seed, per_entry=True)
    return to_namespace(large.flatten(wide), xp)


def _grown_shared(
    tensors: Sequence[Array], large: PEPS, evolve: int, noise: float, seed: int
) -> Array:
    """The same of a PEPS that shares tensors, and so the noise."""
    if evolve:
        raise ValueError(
            "grown: tensors that are shared cannot be evolved by simple update, after which they "
            "would be so no longer; take evolve = 0, which opens bonds by noise"
        )
    assert large.shared is not None
    theta = large.flatten(grow(tensors, large.embedding, large.D, noise=0))
    return with_noise(large.shared, theta, noise, seed)


def of_next_stage(
    ended: tuple[Ansatz, Array],
    after: Ansatz,
    operator: Operator,
    *,
    evolve: int,
    noise: float,
    seed: int,
) -> tuple[Array, float | None]:
    """Give theta of a state from that of another one of the same kind, of the stage before.

    A PEPS is shared alike, and grown or cut where its D is another; theta of others stays.

    Args:
        ended: the state before, and its parameters.
        after: the state that they are for.
        operator: the Hamiltonian.
        evolve, noise, seed: as `grown` takes them.

    Returns:
        theta, and the largest share of its squared weights that a bond lost by a cut.
    """
    before, theta = ended
    if not (isinstance(before, PEPS) and isinstance(after, PEPS)):
        return theta, None
    before, theta = shared_as(before, theta, after)
    if after.D == before.D:
        return theta, None
    tensors = before.tensors(theta)
    if after.D < before.D:
        return cut_to(tensors, after, seed)
    return grown(tensors, after, operator, evolve=evolve, noise=noise, seed=seed), None


def cut_to(tensors: Sequence[Array], small: PEPS, seed: int = 0) -> tuple[Array, float]:
    """Give `tensors` as parameters (P,) of smaller D, and the largest weight that a bond lost.

    Entries that are zero after the cut, of bonds that need less than D, get the noise of a start.

    Args:
        tensors: (d, up, left, down, right) of each site, as of `PEPS.tensors`.
        small: the PEPS of the smaller D, on the same bonds.
        seed: of the noise.

    Raises:
        ValueError: `small` shares tensors: on every bond a cut chooses a basis of its own, so those
            that were equal are so no longer.
    """
    if small.shared:
        raise ValueError(
            "cut: tensors that are shared would be so no longer; make the smaller state without "
            "sharing"
        )
    xp, rng = array_namespace(tensors[0]), np.random.Generator(np.random.PCG64(seed))
    kept, lost = cut([to_host(tensor) for tensor in tensors], small.embedding, small.D)
    return to_namespace(small.flatten([noisy(tensor, rng) for tensor in kept]), xp), lost


def lacks_bulk_of(after: PEPS, sharing: Sharing | None) -> bool:
    """Tell whether tensors with an edge are to be shared in another way, or on another lattice."""
    has_edge = sharing is not None and sharing.edge is not None
    return has_edge and after.shared is not None and sharing != after.sharing


def from_other(before: PEPS, theta: Array, after: PEPS, seed: int) -> Array:
    """Give theta (P,) of `after` from another PEPS: repeated, cut or grown with noise.

    Raises:
        ValueError: see `repeated`; a state that shares tensors, to be cut.
    """
    if lacks_bulk_of(after, before.sharing):
        before, theta = shared_as(before, theta, after)
        if before.D == after.D:
            return theta
    return _resized(before, theta, after, seed)


def _resized(before: PEPS, theta: Array, ansatz: PEPS, seed: int) -> Array:
    """Parameters (P,) of the state with other D or bonds, or without sharing."""
    tensors, smaller = before.tensors(theta), before.D > ansatz.D
    if ansatz.shared:
        if smaller:
            raise ValueError("a state that shares tensors is not cut; take ansatz.sharing = false")
        try:
            return _grown_shared(tensors, ansatz, 0, NOISE, seed)
        except ValueError as error:
            raise ValueError(
                f"{error}; a state that shares tensors begins from one that shares them by the "
                "same symmetries"
            ) from None
    if smaller and before.bonds == ansatz.bonds:
        return cut_to(tensors, ansatz, seed)[0]
    if smaller:  # of open bonds, for rings
        rows = PEPS(ansatz.lattice, ansatz.D, theta.dtype.name, local_dim=ansatz.local_dim)
        tensors = rows.tensors(cut_to(tensors, rows, seed)[0])
    return ansatz.flatten(grow(tensors, ansatz.embedding, ansatz.D, seed=seed))


def repeated(before: PEPS, theta: np.ndarray, after: PEPS) -> np.ndarray:
    """Give theta (P,) of `after` with the tensors of `before`, its bulk repeated to fill `after`.

    On the same lattice it is the same state.  On another one the edges and the bulk are those of
    `before`; nothing is known of how near that is to a ground state, and nothing of it is checked.
    A rectangle may go on as a square, whose rows and columns are alike.

    Args:
        before: a PEPS that shares tensors with an edge (`Sharing.edge`).
        theta: its parameters, on the host.
        after: a PEPS of the same D that shares tensors by the same kinds of symmetries.

    Raises:
        ValueError: other D, signs or sublattices; numbers of rows or columns that do not differ by
            twice the period or a multiple; tensors of `before` that differ where those of `after`
            are one; bonds at other places; an edge of `after` below that of `before`; a lattice of
            `before` so small that tensors of its bulk are no neighbours of each other.
    """
    small, large = before.shared, after.shared
    if small is None or small.sharing.edge is None or large is None:
        raise ValueError("repeated: only tensors of a PEPS with ansatz.edge are repeated")
    edge = small.sharing.edge
    _check(before, after, small, large, edge)
    given = _raw_tensors(small, theta)
    site_at = {place: site for site, place in enumerate(small.found.places)}

    moved = _moved(after, small, large)

    def of(site: int) -> np.ndarray:
        place = divmod(large.found.places[site], after.lattice.shape[1])
        sizes = zip(place, after.lattice.shape, before.lattice.shape, strict=True)
        row, column = (_alike(x, has, had, edge, small.sharing.period) for x, has, had in sizes)
        column = place[1] % moved if moved else column
        return given[site_at[row * before.lattice.shape[1] + column]]

    is_square = before.lattice.shape[0] == before.lattice.shape[1]
    parts = []
    for orbit in large.orbits:
        tensor = of(orbit.members[0].site)
        if tensor.shape != orbit.shape:
            raise ValueError(
                f"a tensor of the start has the shape {tensor.shape} and is wanted as "
                f"{orbit.shape}, so it has bonds at other "
                "places; take a start on a lattice of the same kind"
            )
        _check_alike(orbit, of, is_square or before.lattice.shape == after.lattice.shape)
        parts.append(tensor.ravel()[orbit.free])
    return np.concatenate(parts)


def _alike(x: int, has: int, had: int, edge: int, period: int) -> int:
    """The row or column, of `had`, of the start whose tensors those in x, of `has`, are."""
    if 2 * x + 1 == has:
        return (had - 1) // 2
    if 2 * x + 1 > has:
        return had - 1 - _alike(has - 1 - x, has, had, edge, period)
    return nearest_alike(x, edge, period)


def shared_as(before: PEPS, theta: Array, after: PEPS) -> tuple[PEPS, Array]:
    """Give a state with a bulk as a PEPS of its own D with the lattice and sharing of `after`.

    Raises:
        ValueError: see `repeated`.
    """
    if before.lattice == after.lattice and before.sharing == after.sharing:
        return before, theta
    here = PEPS(
        after.lattice, before.D, before.dtype.name, local_dim=before.local_dim, bonds=after.bonds,
        sharing=after.sharing,
    )  # fmt: skip
    found = repeated(before, np.asarray(to_host(theta)), here)
    return here, to_namespace(found, array_namespace(theta))


def _raw_tensors(shared: SharedTensors, theta: np.ndarray) -> list[np.ndarray]:
    """Tensors of all sites without the signs of their place."""
    found: list[np.ndarray] = [np.empty(0)] * len(shared.shapes)
    ends = np.cumsum([0, *(orbit.n_free for orbit in shared.orbits)])
    for orbit, (begin, end) in zip(shared.orbits, pairwise(ends), strict=True):
        tensor = np.asarray(theta)[begin:end][orbit.entry].reshape(orbit.shape)
        for site, legs in orbit.members:
            found[site] = tensor.transpose(0, *(1 + leg for leg in legs))
    return found


def _check_alike(orbit: Orbit, of: Callable[[int], np.ndarray], turned: bool) -> None:
    """Raise ValueError where tensors of the start differ that are to be one.

    Args:
        orbit: sites that share a tensor.
        of: gives the tensor of the start for a site.
        turned: whether rows and columns of the start were to be alike too.
    """
    tensor = of(orbit.members[0].site)
    same = [(orbit.members[0].site, legs) for legs in orbit.fixed]
    for site, legs in (*orbit.members, *same):
        exchanges = any(leg % 2 != new % 2 for leg, new in enumerate(legs))  # rows and columns
        if exchanges and not turned:
            continue
        wanted, found = tensor.transpose(0, *(1 + leg for leg in legs)), of(site)
        if found.shape != wanted.shape or not np.allclose(
            found, wanted, rtol=0, atol=_ROUNDING * np.abs(tensor).max()
        ):
            raise ValueError(
                f"the tensors of the start for sites {orbit.members[0].site} and {site} differ, "
                "and those wanted are one by symmetry: "
                "its Hamiltonian has fewer symmetries; take a start that shares by all of these"
            )


_ROUNDING = 1e-9  # of entries that symmetries of the start made equal


def _pattern(shared: SharedTensors, shape: Sequence[int]) -> tuple[bool | None, ...]:
    """Tell which neighbours of the first site are on its sublattice; None: there is no site."""
    colour = dict(zip(shared.found.places, shared.sharing.colours, strict=True))
    near = [0, 1, shape[1], shape[1] + 1] if min(shape) > 1 else [0, 1]
    found = [colour.get(place) for place in near]
    return tuple(None if None in (each, found[0]) else each == found[0] for each in found)


def _moved(after: PEPS, *shared: SharedTensors) -> int | None:
    """Give columns after which tensors repeat along the rings of both; None: unknown."""
    found = [set(_translations(each)) for each in shared] if after.rings else [set()]
    return min(set.intersection(*found), default=None)


def _translations(shared: SharedTensors) -> Iterator[int]:
    """Columns that an element moves all sites by."""
    columns = shared.found.shape[1]
    places = np.array(shared.found.places)
    for element in shared.sharing.elements:
        here, there = np.divmod(places, columns), np.divmod(places[list(element)], columns)
        by = int(there[1][0] - here[1][0]) % columns
        if by and np.all(here[0] == there[0]) and np.all((here[1] + by) % columns == there[1]):
            yield by


def _signs(shared: SharedTensors) -> set[tuple[bool, tuple[int, ...]]]:
    """The signs that bonds along rows carry, and those along columns."""
    rows = [place // shared.found.shape[1] for place in shared.found.places]
    return {(rows[i] == rows[j], values) for (i, j), values in shared.sharing.signs}


def _check(
    before: PEPS, after: PEPS, small: SharedTensors, large: SharedTensors, edge: int
) -> None:
    if (before.D, before.bonds) != (after.D, after.bonds):
        raise ValueError(
            f"the start has D = {before.D} and {before.bonds} bonds, wanted D = {after.D} and "
            f"{after.bonds}"
        )
    wider, period = large.sharing.edge, small.sharing.period
    if wider is not None and (wider < edge or large.sharing.period % period):
        raise ValueError(
            f"ansatz.edge = {wider} and period = {large.sharing.period}, the start has an edge of "
            f"{edge} and a period of {period}: its tensors differ where those wanted are one; take "
            f"edge = {edge} or more, and {period} times a whole number"
        )
    rings = (None, _moved(after, small, large))
    for had, has, ring in zip(before.lattice.shape, after.lattice.shape, rings, strict=True):
        by = ring or 2 * period
        if (had - has) % by:
            raise ValueError(
                f"{had} rows or columns of the start, {has} wanted: with a period of "
                f"{ring or period} these must differ by a "
                f"multiple of {by}, or its tensors do not fit together"
            )
        least = 2 * (edge + period + 1)
        if ring is None and had != has and had < least:
            raise ValueError(
                f"the start has {had} rows or columns, an edge of {edge} and a period of {period}, "
                "so its bulk is no neighbour of "
                f"itself; take a start with {least} at least, or one with a smaller edge"
            )
    if _pattern(small, before.lattice.shape) != _pattern(large, after.lattice.shape):
        raise ValueError(
            "the start has Marshall's signs on other sublattices, so it is of another Hamiltonian; "
            "take one of the same"
        )
    if _signs(small) != _signs(large):
        raise ValueError(
            "the start has other signs on the bonds that are reversed, so it is of another "
            "Hamiltonian; take one of the same"
        )
