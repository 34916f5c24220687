"""Level 2: lowest levels by sparse diagonalisation, as far as the memory goes."""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from tnvmc.backend import host, progress
from tnvmc.backend.arguments import is_whole, whole
from tnvmc.lattice.permutations import SymmetryGroup
from tnvmc.operators.assembly import Blocks, splits, spread
from tnvmc.operators.basis import CODE_BITS, Basis, count_elements, smallest_magnetisation
from tnvmc.operators.fermions import NO_PARTICLES, Strings, sector_text
from tnvmc.operators.foreign import as_operator
from tnvmc.operators.properties import energy_bound, particles_of, rotation_invariant
from tnvmc.operators.symmetry import other_sectors
from tnvmc.operators.term import Operator, require_operator
from tnvmc.shown import Shown, Table

Sector = int | Literal["auto", "full"]

DENSE_DIMENSION = 256
"""Up to here dense diagonalisation is quicker than Lanczos."""

LANCZOS_VECTORS = 24
"""Vectors of the basis's length that Lanczos holds: 20 of ARPACK's and a few of work space."""

TOLERANCE = 3e-10
"""Residual at which Lanczos stops, relative to a bound on the operator's norm (at most three times
that).  The energy is off by its square over the distance to the next level, if that is larger."""

FIRST_LOOK = 3e-4
"""The same, at which blocks of a matrix are compared: one that is higher by more is left out."""

WORST_RESIDUAL = 1e-7
"""Largest residual of what is given, relative to the energy or a typical |H psi|."""

_SAME = 1e-10  # of a bound on the energy: two levels that are one

MEMORY_SHARE = 0.8
"""Share of the available memory that a diagonalisation may plan with."""

MOST_IMAGES = 20_000_000
"""Configurations times elements of the group up to which `symmetric_levels` takes a few seconds."""


class TooLargeError(ValueError):
    """The Hilbert space does not fit into the memory there is."""


@dataclass(frozen=True, repr=False)
class ExactResult(Shown):
    """The ground state of an operator in one sector."""

    energy: float  #: total
    energy_per_site: float
    dimension: int  #: of the sector
    sector: int | None  #: twice the total Sz, or None for the full space
    units: str
    vector: np.ndarray | None = field(default=None, repr=False)  #: (dimension,), basis order
    residual: float = 0.0
    """|(H - E) psi|: some level of the sector is this close to the energy; the lowest is, unless
    levels lie closer together than that."""
    inversion: int | None = None
    """What turning all spins over does to the state, +1 or -1; None where it was not used."""
    particles: tuple[int, ...] | None = None  #: fermions of each species

    @property
    def _sector(self) -> str:
        return sector_text(self.sector, self.particles) or "all sectors"

    def __repr__(self) -> str:
        energies = f"energy {self.energy:.10f}, per site {self.energy_per_site:.10f}"
        where = f"({self.units} units, {self._sector})"
        return f"<ExactResult: {energies} {where}, dimension {self.dimension}>"

    def _table(self) -> Table:
        rows = [
            ("energy", f"{self.energy:.10f}", "total"),
            ("energy_per_site", f"{self.energy_per_site:.10f}", ""),
            ("dimension", str(self.dimension), self._sector),
            ("residual", f"{self.residual:.1e}", "|(H - E) psi|"),
        ]
        return Table(f"exact ground state, {self.units} units", ("", "", ""), rows)


def exact_ground_state(
    operator: Operator, sector: Sector = "auto", *, vector: bool = False
) -> ExactResult:
    """Compute the lowest energy of an operator, to 1e-12 relative unless levels lie very close.

    The residual |(H - E) psi| is checked: at most 1e-9 of the sum of the norms of all terms.  A
    level of the sector lies within it, and the energy is too high by about its square over the
    distance to the next level.  Of levels closer together than the residual the state may be any
    mixture.  Where turning all spins over is a symmetry, even and odd states are computed
    separately, and the lower energy is given.  The same call gives the same bits.

    Args:
        operator: the Hamiltonian.
        sector: "full", twice the total Sz, or "auto": that of the operator, if it has one; else,
            where there are off-diagonal elements and all of them keep the magnetisation, that of
            the lowest energy, of several the one of smallest Sz; else the full space.
        vector: also return the ground state.

    Raises:
        TooLargeError: more than 80 % of the memory that is available; nothing has been allocated.
        ValueError: a sector that the lattice does not have or the operator does not keep.
        RuntimeError: Lanczos did not converge.

    Cost: about 20 bytes per matrix element and 200 per basis state, twice that if complex, half
    where spin inversion is used; 16 s of one core for J1-J2 on 24 sites (2.7 million states).
    "auto" looks at all sectors, for up to six times that, where H does not commute with the total
    spin.  Lattice symmetries are not used.
    """
    operator = as_operator(operator)
    states = _states("exact_ground_state", operator, sector)
    ground = _lowest(operator, states, 1, vector)[0]
    return ExactResult(
        energy=ground.energy,
        energy_per_site=ground.energy / operator.n_sites,
        dimension=states.dimension,
        sector=states.magnetisation,
        units=operator.units,
        vector=spread(ground.vector, ground.sign) if vector else None,
        residual=ground.residual,
        inversion=ground.sign,
        particles=particles_of(operator, states.magnetisation),
    )


def exact_levels(operator: Operator, n_levels: int, sector: Sector = "auto") -> np.ndarray:
    """Compute the lowest energies of a sector, (n_levels,), increasing, with their degeneracies.

    Fewer where the sector has fewer states.  Arguments, errors and the cost, for each level, are
    those of `exact_ground_state`.
    """
    operator = as_operator(operator)
    states = _states("exact_levels", operator, sector)
    n_levels = whole("exact_levels", "n_levels", n_levels)
    found = _lowest(operator, states, min(n_levels, states.dimension), False)
    return np.array([level.energy for level in found])


def symmetric_levels(
    operator: Operator, group: SymmetryGroup, magnetisation: int | None, n_levels: int = 1
) -> np.ndarray:
    """Give the lowest `n_levels` energies of states with psi(g s) = chi(g) psi(s), increasing.

    The operator commutes with the group, whose elements keep the sector; `magnetisation` is twice
    the total Sz, None for all of the space.  Cost: |G| images of every configuration, of which the
    caller allows `MOST_IMAGES`, and the matrix of the sector.

    Raises:
        ValueError: no state of the sector has these characters.
    """
    from scipy.sparse.linalg import aslinearoperator

    states = operator.states(magnetisation)
    symmetric = _symmetric_states(states, group, operator.strings)
    if not symmetric.shape[1]:
        where = "the full space" if magnetisation is None else f"2 Sz = {magnetisation}"
        raise ValueError(f"symmetric_levels: no state of {where} has these characters")
    matrix = symmetric.T @ operator.sparse(magnetisation) @ symmetric
    if _is_dense(matrix.shape[0], n_levels):
        return np.asarray(np.linalg.eigvalsh(matrix.toarray())[:n_levels])
    start = _Level(0.0, np.random.default_rng(0).standard_normal(matrix.shape[0]), None, np.inf)
    found = _search(aslinearoperator(matrix), start, n_levels, 0.0, energy_bound(operator))
    return np.array([level.energy for level in found])


def _symmetric_states(states: Basis, group: SymmetryGroup, strings: Strings | None) -> Any:
    """Orthonormal states sum_g chi(g) |g s>, one for each orbit that has any: sparse (n, K).

    Of fermions each has the sign of its new order.
    """
    from scipy.sparse import coo_matrix, diags

    configs = states.configs(states.codes)
    first = np.arange(states.dimension)
    for places in _images(states, configs, group):
        first = np.minimum(first, places)
    members = np.flatnonzero(first == np.arange(states.dimension))
    rows = np.concatenate(list(_images(states, configs[members], group)))
    columns = np.tile(np.arange(len(members)), len(group))
    signs = np.repeat([float(g.character) for g in group.elements], len(members))
    if strings is not None:
        moved = [strings.of_image(configs[members], g.places) for g in group.elements]
        signs = signs * np.concatenate(moved)
    sums = coo_matrix((signs, (rows, columns)), (states.dimension, len(members))).tocsc()
    lengths = np.sqrt(np.asarray(sums.multiply(sums).sum(axis=0)).ravel())
    alive = np.flatnonzero(lengths > 0.5)  # whole numbers: what characters cancel is exactly 0
    return sums[:, alive] @ diags(1 / lengths[alive])


def _images(states: Basis, configs: np.ndarray, group: SymmetryGroup) -> Iterator[np.ndarray]:
    """Yield where g s stands in the basis, for every element and configurations (n, N)."""
    powers = states.local_dim ** np.arange(states.n_sites - 1, -1, -1, dtype=np.int64)
    for g in group.elements:
        image = configs[:, list(g.sites)].astype(np.int64)
        yield states.positions((states.local_dim - 1 - image if g.inverts else image) @ powers)


def check_size(n_sites: int, local_dim: int = 2) -> None:
    """Raise `TooLargeError` for a lattice that is too large whatever its sectors and terms."""
    if n_sites * math.log2(local_dim) > CODE_BITS:
        raise TooLargeError(
            f"exact diagonalisation of {n_sites} sites: they have {local_dim}^{n_sites} states, "
            f"and at most 2^{CODE_BITS} can be numbered. Try a smaller lattice, or a variational "
            "run"
        )


def estimate_bytes(operator: Operator, states: Basis) -> int:
    """Estimate the peak memory of a diagonalisation in bytes, without building anything."""
    number = 16 if operator.is_complex else 8
    # An element is a value, a column index and a sign; one is there twice while it is put together.
    matrix = count_elements(operator.replacements, states)
    matrix *= 2 * number + (5 if host.available() else 16)  # NumPy has rows and wider columns
    if states.dimension <= DENSE_DIMENSION:
        return matrix + 3 * number * states.dimension**2
    vectors = states.dimension * LANCZOS_VECTORS * number
    if host.available() and splits(operator, states):
        matrix, vectors = matrix // 2, vectors // 2
    return matrix + vectors + states.dimension * 16


def available_bytes() -> int:
    """Give the memory that can be had without swapping, as far as the system tells."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):  # not Linux: physical memory is the best guess
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def smallest_sector(operator: Operator) -> Sector:
    """Give the sector of a run that names none: the operator's own, or that of smallest Sz."""
    if operator.magnetisation is not None:
        return operator.magnetisation
    if not operator.replacements or not operator.conserves_magnetisation:
        return "full"
    if operator.fermions is not None:
        raise ValueError(f"{operator.name}: {NO_PARTICLES}")
    return smallest_magnetisation(operator.n_sites, operator.local_dim)


def _states(where: str, operator: Operator, sector: Sector) -> Basis:
    """The states of a sector whose matrix fits the memory."""
    require_operator(where, "operator", operator)
    asked = smallest_sector(operator) if sector == "auto" else sector
    if asked != "full" and not is_whole(asked):
        given = f"sector is {sector!r}; give 'auto', 'full' or twice the total Sz as an integer"
        raise ValueError(f"{where}: {given}")
    states = operator.states(None if asked == "full" else int(asked))
    needed = estimate_bytes(operator, states)
    allowed = int(MEMORY_SHARE * available_bytes())
    if needed <= allowed:
        return _lowest_sector(operator, states) if sector == "auto" else states
    full = states.magnetisation is None
    particles = particles_of(operator, states.magnetisation)
    part = sector_text(states.magnetisation, particles) or "full space"
    smaller = "name a magnetisation sector, " * (full and operator.conserves_magnetisation)
    raise TooLargeError(
        f"exact diagonalisation of {operator.name} on {operator.n_sites} sites: dimension "
        f"{_count(states.dimension)} ({part}) needs about {_count(needed >> 20)} MiB, "
        f"{_count(allowed >> 20)} may be used. Try {smaller}a smaller lattice, a machine with more "
        "memory, or a variational run"
    )


def _lowest_sector(operator: Operator, smallest: Basis) -> Basis:
    """The states of the sector of the lowest energy, the smallest where no other lies lower."""
    first = smallest.magnetisation
    if first is None or operator.magnetisation is not None or rotation_invariant(operator):
        return smallest
    others = (replace(smallest, magnetisation=m) for m in other_sectors(operator, first))
    every = [smallest, *others]
    for look in (True, False):  # those that may be it to the last digit
        found = (_lowest(operator, states, 1, precise=False, look=look)[0] for states in every)
        seen = [(level.energy, level.residual if look else 0.0) for level in found]
        least = min(map(sum, seen)) + _SAME * energy_bound(operator)
        every = [s for s, (energy, off) in zip(every, seen, strict=True) if energy - off <= least]
        if len(every) == 1:
            break
    return every[0]


def _count(n: int) -> str:
    """Digits in groups, or the order of magnitude of numbers nobody reads (and no float holds)."""
    return f"{n:,}" if n < 10**15 else f"10^{len(str(n)) - 1}"


@dataclass(frozen=True)
class _Level:
    """An eigenvalue of a block with its vector (dimension,), and the length of (H - E) times it."""

    energy: float
    vector: np.ndarray
    sign: int | None
    residual: float


def _lowest(
    operator: Operator, states: Basis, n_levels: int, precise: bool, look: bool = False
) -> list[_Level]:
    """Lowest levels, increasing, of all blocks of the matrix; checked, but for a first `look`."""
    if _is_dense(states.dimension, n_levels):
        matrix = operator.sparse(states.magnetisation).toarray()
        energies, vectors = np.linalg.eigh(matrix)
        levels = [_level(matrix, e, v, None) for e, v in zip(energies, vectors.T, strict=True)]
        return levels[:n_levels]
    from scipy.sparse.linalg import ArpackNoConvergence

    progress.begin("matrix", known=False)
    blocks, bound = Blocks(operator, states), energy_bound(operator)
    start = np.random.default_rng(0).standard_normal(blocks.dimension).astype(blocks.dtype)
    start /= np.linalg.norm(start)
    typical = _length(blocks.operator(blocks.signs[0]).matvec(start))
    found = {sign: _Level(0.0, start, sign, np.inf) for sign in blocks.signs}
    tolerance = 0.0 if precise or n_levels > 1 else TOLERANCE

    def search(level: _Level, n: int, tolerance: float) -> list[_Level]:
        return _search(blocks.operator(level.sign), level, n, tolerance, bound)

    try:
        if n_levels == 1 and len(found) > 1:  # which block it is takes less than its energy
            found = {sign: search(level, 1, FIRST_LOOK)[0] for sign, level in found.items()}
            least = min(level.energy for level in found.values())
            found = {s: x for s, x in found.items() if x.energy - x.residual <= least}
            if look:
                return [min(found.values(), key=lambda level: level.energy)]
        tolerance = FIRST_LOOK if look else tolerance
        searched = (search(level, n_levels, tolerance) for level in found.values())
        levels = [level for of_block in searched for level in of_block]
    except ArpackNoConvergence as error:
        raise RuntimeError(
            f"exact diagonalisation of {operator.name}: Lanczos did not find {n_levels} of the "
            f"levels in dimension {blocks.dimension}. They may lie too close together; ask for "
            "fewer, or name a sector"
        ) from error
    levels.sort(key=lambda level: level.energy)
    for level in [] if look else levels[:n_levels]:
        if not level.residual <= WORST_RESIDUAL * max(abs(level.energy), typical):
            raise RuntimeError(
                f"exact diagonalisation of {operator.name}: (H - E) psi has length "
                f"{level.residual:.3g} at E = {level.energy:.12g}, so this is no eigenvalue. "
                "Couplings of very different sizes may be the cause: try a smaller lattice, or a "
                "variational run"
            )
    return levels[:n_levels]


def _is_dense(dimension: int, n_levels: int) -> bool:
    """Whether all levels at once take less than the lowest ones by Lanczos, one after another."""
    return dimension <= max(DENSE_DIMENSION, 4 * n_levels)


def _search(
    matrix: Any, start: _Level, n_levels: int, tolerance: float, bound: float
) -> list[_Level]:
    """Lowest levels of a matrix by Lanczos, to a residual relative to 2 `bound`, 0 for rounding.

    All are lowered by that, so that what Lanczos stops relative to is never near 0; not those that
    were found.  Each begins with a vector of its own: one has a single copy of a degenerate level.
    """
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    progress.begin({None: "level", 1: "even", -1: "odd"}[start.sign], known=False)
    if bound == 0:
        return [replace(start, residual=0.0)] * n_levels
    few, random = n_levels == 1 and tolerance > 0, np.random.default_rng(1)
    found: list[_Level] = []

    def lowered(x: np.ndarray) -> Any:
        x = x.ravel()
        out = matrix.matvec(x)
        out -= 2 * bound * x
        for level in found:
            out += (2 * bound * np.vdot(level.vector, x)) * level.vector
        return out

    def lowest(first: np.ndarray, ncv: int) -> np.ndarray:
        # One level at a time: Lanczos finds one vector alone of a degenerate level.
        product = LinearOperator(matrix.shape, matvec=lowered, dtype=matrix.dtype)
        return np.asarray(eigsh(product, 1, which="SA", v0=first, ncv=ncv, tol=tolerance)[1][:, 0])

    first, last, more = start.vector, 0.0, n_levels + (n_levels > 2)  # one beyond those asked for
    # Where the last one lies below others, one was passed over: then there may be more.
    while len(found) < more or last < found[n_levels - 1].energy - _SAME * bound:
        try:
            vector = lowest(first, 12 if few else 20)  # fewer vectors take less memory
        except ArpackNoConvergence:
            vector = lowest(first, min(60, matrix.shape[0] - 1))  # levels close together
        found.append(_level(matrix, None, vector, start.sign))
        last = found[-1].energy
        found.sort(key=lambda level: level.energy)
        first = random.normal(size=matrix.shape[0]).astype(matrix.dtype)
    return found[:n_levels]


def _level(matrix: Any, energy: float | None, vector: np.ndarray, sign: int | None) -> _Level:
    """A vector of length 1 as a level; without an energy that of the vector."""
    vector = np.ascontiguousarray(vector)
    image = matrix @ vector
    energy = float(np.vdot(vector, image).real if energy is None else energy)
    return _Level(energy, vector, sign, _length(image - energy * vector))


def _length(vector: np.ndarray) -> float:
    """Euclidean norm, also of numbers whose squares are none."""
    largest = float(np.abs(vector).max())
    return largest * float(np.linalg.norm(vector / largest)) if largest > 0 else 0.0
