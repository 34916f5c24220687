"""Starts of a PEPS from another one: of other D, grown or cut, or of another lattice, repeated."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tnvmc.ansatz.peps.orbits import Orbit, nearest_alike
from tnvmc.ansatz.peps.sharing import SharedTensors, Sharing
from tnvmc.ansatz.peps.starts.even_form import EvenVidalPEPS
from tnvmc.ansatz.peps.starts.initial import with_noise
from tnvmc.ansatz.peps.starts.simple_update import evolved
from tnvmc.ansatz.peps.starts.tensors import NOISE, grow, noisy
from tnvmc.ansatz.peps.starts.vidal_form import VidalPEPS, cut
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.operators.term import Operator

Array = Any


EVOLVE = 10
"""Steps of simple update that open new bonds.  6x6 Heisenberg from an optimised D = 2 (relative
error 1.5e-2) to D = 3: 1.1e-2 after one step, 8.5e-3 after ten, and the same after 30.  Noise alone
leaves the energy and a variance that optimises badly."""


def grown(
    tensors: Sequence[Array], large: PEPS, operator: Any, noise: float = NOISE, seed: int = 0
) -> Array:
    """Give the state of `tensors`, as of `PEPS.tensors`, as parameters (P,) of `large`.

    New bonds are opened by `EVOLVE` steps of simple update with the operator; those of tensors that
    are shared, which would be so no longer, by noise alone.  Entries that are still zero get noise
    of this deviation relative to the tensor's largest entry.

    Raises:
        ValueError: `large` has the smaller D.
    """
    xp = array_namespace(tensors[0])
    tensors = [to_host(tensor) for tensor in tensors]
    if large.shared:
        theta = large.flatten(grow(tensors, large.embedding, large.D, noise=0))
        return to_namespace(with_noise(large.shared, theta, noise, seed), xp)
    rng = np.random.Generator(np.random.PCG64(seed))
    here = replace(operator, lattice=large.lattice)
    wide = evolved(here, tensors, large.D, EVOLVE, bonds=large.bonds)
    wide = [noisy(tensor, rng, noise) for tensor in wide]
    return to_namespace(large.flatten(large.even_part(wide)), xp)


def of_next_stage(
    ended: tuple[Any, Array], after: Ansatz, operator: Operator, noise: float, seed: int
) -> tuple[Array, float | None]:
    """Give theta of `after` from a state of the same kind and its parameters, of the stage before.

    A PEPS is shared alike, and grown (as `grown` is told) or cut where its D is another; theta of
    others stays.  Second comes the largest share of its squared weights that a bond lost by a cut.
    """
    theta = ended[1]
    if not isinstance(after, PEPS):
        return theta, None
    before, theta = shared_as(*ended, after)
    if after.D == before.D:
        return theta, None
    tensors = before.tensors(theta)
    if after.D < before.D:
        return cut_to(tensors, after, seed)
    return grown(tensors, after, operator, noise, seed), None


def cut_to(tensors: Sequence[Array], small: PEPS, seed: int = 0) -> tuple[Array, float]:
    """Give `tensors` as parameters (P,) of smaller D, and the largest weight that a bond lost.

    `small` has the same bonds.  Entries that are zero after the cut, of bonds that need less than
    D, get the noise of a start.

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
    tensors = [to_host(tensor) for tensor in tensors]
    about = small.embedding, max(max(tensor.shape[1:]) for tensor in tensors), False
    state = VidalPEPS.from_peps(tensors, *about)
    if small.fermions:
        state = EvenVidalPEPS.from_even(tensors, *about, small.fermions.odd)
    kept, lost = cut(state, small.D)
    kept = [noisy(tensor, rng) for tensor in kept]
    return to_namespace(small.flatten(small.even_part(kept)), xp), lost


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
    tensors, smaller = before.tensors(theta), before.D > after.D
    if after.shared:
        if smaller:
            raise ValueError("a state that shares tensors is not cut; take ansatz.sharing = false")
        try:
            return grown(tensors, after, None, seed=seed)
        except ValueError as error:
            raise ValueError(
                f"{error}; a state that shares tensors begins from one that shares them by the "
                "same symmetries"
            ) from None
    if smaller and before.bonds == after.bonds:
        return cut_to(tensors, after, seed)[0]
    if smaller:  # of open bonds, for rings
        rows = PEPS(after.lattice, after.D, theta.dtype.name, local_dim=after.local_dim)
        tensors = rows.tensors(cut_to(tensors, rows, seed)[0])
    return after.flatten(after.even_part(grow(tensors, after.embedding, after.D, seed=seed)))


def repeated(before: PEPS, theta: np.ndarray, after: PEPS) -> np.ndarray:
    """Give theta (P,) of `after` with the tensors of `before`, its bulk repeated to fill `after`.

    On the same lattice it is the same state.  On another one the edges and the bulk are those of
    `before`; nothing is known of how near that is to a ground state.  A rectangle may go on as a
    square, whose rows and columns are alike.

    Args:
        before: a PEPS that shares tensors with an edge (`Sharing.edge`).
        theta: its parameters, on the host.
        after: a PEPS of the same D that shares tensors by the same kinds of symmetries.

    Raises:
        ValueError: other D, signs or sublattices; sizes that do not differ by multiples of twice
            the period; tensors of `before` that differ where those of `after` are one; bonds at
            other places; a smaller edge; a bulk of `before` that is no neighbour of itself.
    """
    small, large = before.shared, after.shared
    if small is None or small.sharing.edge is None or large is None:
        raise ValueError("repeated: only tensors of a PEPS with ansatz.edge are repeated")
    edge = small.sharing.edge
    _check(before, after, small, large, edge)
    given, moved = small.tensors(theta, with_signs=False), _moved(after, small, large)

    def of(site: int) -> Array:
        place = divmod(large.found.places[site], after.lattice.shape[1])
        sizes = zip(place, after.lattice.shape, before.lattice.shape, strict=True)
        row, column = (_alike(x, has, had, edge, small.sharing.period) for x, has, had in sizes)
        column = place[1] % moved if moved else column
        return given[small.found.site_at[row * before.lattice.shape[1] + column]]

    is_square = before.lattice.shape[0] == before.lattice.shape[1]
    parts = []
    for orbit in large.orbits:
        tensor = of(orbit.members[0].site)
        if tensor.shape != orbit.shape:
            raise ValueError(
                f"a tensor of the start has the shape {tensor.shape} and is wanted as "
                f"{orbit.shape}, so it has bonds at other places; take a start on a lattice of the "
                "same kind"
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


def _check_alike(orbit: Orbit, of: Callable[[int], np.ndarray], turned: bool) -> None:
    """Raise ValueError where tensors of the start, `of` sites of an orbit, differ.

    `turned`: whether rows and columns of the start were to be alike too.
    """
    tensor = of(orbit.members[0].site)
    same = [(orbit.members[0].site, legs) for legs in orbit.fixed]
    for site, legs in (*orbit.members, *same):
        exchanges = any(leg % 2 != new % 2 for leg, new in enumerate(legs))  # rows and columns
        if exchanges and not turned:
            continue
        wanted, found = tensor.transpose(0, *(1 + leg for leg in legs)), of(site)
        rounding = _ROUNDING * np.abs(tensor).max()
        if found.shape != wanted.shape or not np.allclose(found, wanted, rtol=0, atol=rounding):
            raise ValueError(
                f"the tensors of the start for sites {orbit.members[0].site} and {site} differ, "
                "and those wanted are one by symmetry: its Hamiltonian has fewer symmetries; take "
                "a start that shares by all of these"
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
                f"{ring or period} these must differ by a multiple of {by}, or its tensors do not "
                "fit together"
            )
        least = 2 * (edge + period + 1)
        if ring is None and had != has and had < least:
            raise ValueError(
                f"the start has {had} rows or columns, an edge of {edge} and a period of {period}, "
                f"so its bulk is no neighbour of itself; take a start with {least} at least, or "
                "one with a smaller edge"
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
