"""Level 2: ground states by sparse diagonalisation, as far as the memory goes."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tnvmc.backend.arguments import whole
from tnvmc.backend.calls import spelt
from tnvmc.operators.basis import CODE_BITS, Basis, smallest_magnetisation
from tnvmc.operators.foreign import as_operator
from tnvmc.operators.required import require_operator
from tnvmc.operators.sparse import count_elements
from tnvmc.operators.term import Operator
from tnvmc.shown import Shown, Table

Sector = int | Literal["auto", "full"]

DENSE_DIMENSION = 256
"""Up to here the whole spectrum by dense diagonalisation is quicker than Lanczos."""

LANCZOS_VECTORS = 24
"""Vectors of the basis's length that Lanczos holds: 20 of ARPACK's and a few of work space."""

MEMORY_SHARE = 0.8
"""Share of the available memory that a diagonalisation may plan with."""


class TooLargeError(ValueError):
    """The Hilbert space does not fit into the memory there is."""


@dataclass(frozen=True, repr=False)
class ExactResult(Shown):
    """The ground state of an operator in one sector."""

    energy: float  #: total
    energy_per_site: float
    gap: float | None  #: to the next level of the same sector, where asked for
    dimension: int  #: of the sector
    sector: int | None  #: twice the total Sz, or None for the full space
    units: str
    vector: np.ndarray | None = field(default=None, repr=False)  #: (dimension,), basis order

    @property
    def _sector(self) -> str:
        return "all sectors" if self.sector is None else f"2 Sz = {self.sector}"

    def __repr__(self) -> str:
        told = f"energy {self.energy:.10f}, per site {self.energy_per_site:.10f}"
        gap = "" if self.gap is None else f", gap {self.gap:.6g}"
        return f"<ExactResult: {told} ({self.units} units, {self._sector}){gap}, dimension {self.dimension}>"

    def _table(self) -> Table:
        rows = [
            ("energy", f"{self.energy:.10f}", "total"),
            ("energy_per_site", f"{self.energy_per_site:.10f}", ""),
            ("dimension", str(self.dimension), self._sector),
        ]
        if self.gap is not None:
            rows.insert(2, ("gap", f"{self.gap:.6g}", "in the sector"))
        return Table(f"exact ground state, {self.units} units", ("", "", ""), rows)


@spelt()
def exact_ground_state(
    operator: Operator,
    sector: Sector = "auto",
    max_bytes: int | None = None,
    *,
    gap: bool = False,
    vector: bool = False,
) -> ExactResult:
    """Compute the lowest energy of an operator to about 1e-12 relative.

    The same call gives the same bits: the start vector of Lanczos is fixed.

    Args:
        operator: the Hamiltonian.
        sector: "full", twice the total Sz, or "auto": that of the operator, if it has one (a Hilbert
            space's total_sz); else, where the operator has off-diagonal elements and all of them keep
            the magnetisation, the sector of smallest Sz (0, or 1/2 for an odd number of spins 1/2);
            else the full space.  The smallest sector holds the ground state of antiferromagnets; not
            so that of an Ising ferromagnet or of a model in a field along z, for which name a sector
            or take "full".  An operator of another library that names no sector: the full space.
        max_bytes: memory that may be used; 80 % of what is available by default.
        gap: also compute the next level.
        vector: also return the ground state.

    Returns:
        Energies, and the vector (dimension,) where asked for.

    Raises:
        TooLargeError: not enough memory; nothing has been allocated.
        ValueError: a sector that the lattice does not have or the operator does not keep.
        RuntimeError: Lanczos did not converge.

    Cost: about 20 bytes per matrix element and 200 per basis state, twice that if complex.

    It does not use lattice symmetries.
    """
    given, operator = operator, as_operator(operator)
    if operator is not given and sector == "auto" and operator.magnetisation is None:
        sector = "full"  # a Hilbert space of another library that names no sector is meant whole
    require_operator("exact_ground_state", "operator", operator)
    states = Basis(operator.n_sites, operator.local_dim, _magnetisation(operator, sector))
    _check_memory(operator, states, max_bytes)
    matrix = operator.sparse(states.magnetisation)
    energies, vectors = _lowest(matrix, 2 if gap and states.dimension > 1 else 1, operator.name)
    energy = float(energies[0])
    return ExactResult(
        energy=energy,
        energy_per_site=energy / operator.n_sites,
        gap=float(energies[1] - energies[0]) if len(energies) > 1 else None,
        dimension=states.dimension,
        sector=states.magnetisation,
        units=operator.units,
        vector=vectors[:, 0] if vector else None,
    )


def check_size(n_sites: int, local_dim: int = 2) -> None:
    """Raise `TooLargeError` for a lattice of which no sector can be diagonalised here.

    At once for any size: before the terms of a large Hamiltonian are built.
    """
    if n_sites * math.log2(local_dim) > CODE_BITS:
        raise TooLargeError(
            f"exact diagonalisation of {n_sites} sites: they have {local_dim}^{n_sites} states, and "
            f"at most 2^{CODE_BITS} can be numbered. Try a smaller lattice, or a variational run"
        )


def estimate_bytes(operator: Operator, states: Basis) -> int:
    """Estimate the peak memory of a diagonalisation, without building anything.

    Args:
        operator: the Hamiltonian.
        states: the basis of its sector.

    Returns:
        Bytes.
    """
    number = 16 if operator.is_complex else 8
    # An element is a value and a column index; while rows are joined, one of the two is twice there.
    matrix = count_elements(operator, states) * (2 * number + 4)
    if states.dimension <= DENSE_DIMENSION:
        return matrix + 3 * number * states.dimension**2
    return matrix + states.dimension * (LANCZOS_VECTORS * number + 16)


def available_bytes() -> int:
    """Give the memory that can be had without swapping, as far as the system tells."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):  # not Linux: physical memory is the best guess
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _magnetisation(operator: Operator, sector: Sector) -> int | None:
    if sector == "full":
        return None
    if sector == "auto":
        if operator.magnetisation is not None:
            return operator.magnetisation
        if not operator.replacements or not operator.conserves_magnetisation:
            return None
        return smallest_magnetisation(operator.n_sites, operator.local_dim)
    try:
        return whole("exact", "sector", sector, None)
    except ValueError:
        raise ValueError(
            f"exact: sector is {sector!r}; give 'auto', 'full' or twice the total Sz as an integer"
        ) from None


def _check_memory(operator: Operator, states: Basis, max_bytes: int | None) -> None:
    needed = estimate_bytes(operator, states)
    allowed = int(MEMORY_SHARE * available_bytes()) if max_bytes is None else max_bytes
    if needed <= allowed:
        return
    where = "full space" if states.magnetisation is None else f"2 Sz = {states.magnetisation}"
    smaller = (
        "name a magnetisation sector, "
        if states.magnetisation is None and operator.conserves_magnetisation
        else ""
    )
    raise TooLargeError(
        f"exact diagonalisation of {operator.name} on {operator.n_sites} sites: dimension "
        f"{_count(states.dimension)} ({where}) needs about {_readable(needed)}, "
        f"{_readable(allowed)} may be used. Try {smaller}a smaller lattice, a machine with more "
        "memory, or a variational run"
    )


def _readable(n_bytes: int) -> str:
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = (max(n_bytes, 1).bit_length() - 1) // 10
    if power >= len(units):
        return f"10^{len(str(n_bytes)) - 1} B"
    return f"{n_bytes / 1024**power:.4g} {units[power]}"


def _count(n: int) -> str:
    """Digits in groups, or the order of magnitude of numbers nobody reads (and no float holds)."""
    return f"{n:,}" if n < 10**15 else f"10^{len(str(n)) - 1}"


def _lowest(matrix: Any, n_levels: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Lowest eigenvalues (increasing) and their vectors."""
    dimension = matrix.shape[0]
    if dimension <= DENSE_DIMENSION:
        energies, vectors = np.linalg.eigh(matrix.toarray())
        return energies[:n_levels], vectors[:, :n_levels]
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    start = np.random.default_rng(0).standard_normal(dimension).astype(matrix.dtype)
    try:
        energies, vectors = eigsh(matrix, k=n_levels, which="SA", v0=start, ncv=20)
    except ArpackNoConvergence as error:
        raise RuntimeError(
            f"exact diagonalisation of {name}: Lanczos found {len(error.eigenvalues)} of "
            f"{n_levels} levels in dimension {dimension}. Levels may lie too close together; "
            "ask for the energy without the gap, or name a sector"
        ) from error
    order = np.argsort(energies)
    return energies[order], vectors[:, order]
