"""Energies that measured ones are compared with: known ones, and levels by diagonalisation."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tnvmc.ansatz.protocol import Ansatz
from tnvmc.exact import MOST_IMAGES, exact_ground_state, symmetric_levels
from tnvmc.lattice.permutations import SymmetryGroup
from tnvmc.operators.basis import Basis
from tnvmc.operators.properties import fingerprint
from tnvmc.operators.reference import KnownEnergy, Method, known_energy
from tnvmc.operators.symmetry import has_ground_state
from tnvmc.operators.term import Operator
from tnvmc.trust.excited import excited_level
from tnvmc.vmc.orthogonal import LowerState

DIAGONALISED = 2**16
"""Largest sector that is diagonalised to judge an energy: a second or two, once for an operator."""

DIAGONALISED_AT_ONCE = 400_000
"""Largest sector whose ground state is computed for comparison: a few seconds."""


@dataclass(frozen=True)
class Reference:
    """The energy a run is compared with; all None where none is known."""

    energy: float | None = None
    source: str | None = None
    method: str | None = None
    error: float | None = None  #: of an energy that is not exact, where it is known

    @property
    def bound(self) -> KnownEnergy | None:
        """The energy where it is one that no state lies below; None where it is not."""
        if self.energy is None or self.method not in ("exact", "QMC"):
            return None
        method: Method = "QMC" if self.method == "QMC" else "exact"
        return KnownEnergy(self.energy, self.error, self.source or method, method)


_KNOWN: dict[tuple[Any, ...], KnownEnergy | None] = {}


@dataclass(frozen=True)
class Place:
    """Which level an energy stands for."""

    operator: Operator
    sector: int | None  #: twice the total Sz; None for the full space
    ansatz: Ansatz
    lower: tuple[LowerState, ...] = ()  #: states that it is kept orthogonal to

    def level(self, most: int) -> KnownEnergy | None:
        """Give the energy of the level, exact or by QMC, where a sector of `most` states has it."""
        group = self.ansatz.group
        if self.lower:
            return None if group else excited_level(self.lower, most)
        return lowest_energy(self.operator, self.sector, most, group)

    def floor(self, most: int) -> KnownEnergy | None:
        """Give an energy that no state of the sector lies below, likewise."""
        own = None if self.lower else self.level(most)
        return own or lowest_energy(self.operator, self.sector, most)


def find_reference(
    operator: Operator,
    magnetisation: int | None = None,
    group: SymmetryGroup | None = None,
    kept: Sequence[LowerState] = (),
) -> Reference:
    """Find the exact energy: known, else by diagonalisation where that takes a few seconds.

    Published numbers that are not exact (QMC, other variational states) come last.  Of a state that
    is summed over a `group` the lowest energy of its characters, that of the ground state where it
    is proven to have them (`marshall.has_ground_state`).  Of one beside `kept` states the next
    level (`excited.excited_level`); with a group nothing is known of it.
    """
    if kept:
        level = None if group else excited_level(kept, DIAGONALISED_AT_ONCE)
        return Reference(level.energy_total, level.source, "exact") if level else Reference()
    sector = (magnetisation or 0) if operator.conserves_magnetisation else None
    if group is not None:
        own = lowest_energy(operator, sector, DIAGONALISED_AT_ONCE, group)
        if own is not None and own.method == "exact":
            return Reference(own.energy_total, own.source, own.method)
        if not has_ground_state(operator, group, magnetisation or 0):
            return Reference()
    known = _published(operator, sector)
    if known is None or known.method != "exact":
        known = _diagonalised(operator, sector, DIAGONALISED_AT_ONCE) or known
    if known is None:
        return Reference()
    error = None if known.method == "exact" else known.error
    return Reference(known.energy_total, known.source, known.method, error)


def lowest_energy(
    operator: Operator,
    sector: int | None,
    most: int,
    group: SymmetryGroup | None = None,
) -> KnownEnergy | None:
    """Give the exact or QMC ground-state energy of a sector; None where it is not known.

    Args:
        operator: the Hamiltonian.
        sector: twice the total Sz; None for the full space.
        most: largest sector that is diagonalised.
        group: whose characters the state is to have; None: any.
    """
    if group is not None:
        return _of_characters(operator, sector, most, group)
    known = None if sector else _published(operator, sector)
    if known is not None and known.method in ("exact", "QMC"):
        return known
    return _diagonalised(operator, sector, most)


def _published(operator: Operator, sector: int | None) -> KnownEnergy | None:
    with contextlib.suppress(OverflowError):  # couplings whose squares are no numbers
        return known_energy(operator, sector or 0)
    return None


def _diagonalised(operator: Operator, sector: int | None, most: int) -> KnownEnergy | None:
    if Basis(operator.n_sites, operator.local_dim, sector).dimension > most:
        return None
    key = (fingerprint(operator), sector)
    if key not in _KNOWN:
        _KNOWN[key] = None
        # A comparison that fails (memory, convergence) is no reason to give up the run.
        with contextlib.suppress(ValueError, RuntimeError):
            exact = exact_ground_state(operator, "full" if sector is None else sector)
            _KNOWN[key] = KnownEnergy(exact.energy, 0.0, "diagonalisation")
    return _KNOWN[key]


def _of_characters(
    operator: Operator, sector: int | None, most: int, group: SymmetryGroup
) -> KnownEnergy | None:
    """The lowest energy with given characters; that of the ground state where it is proven to have
    them.
    """
    dimension = Basis(operator.n_sites, operator.local_dim, sector).dimension
    if dimension > most or dimension * len(group) > MOST_IMAGES:
        expected = has_ground_state(operator, group, sector or 0)
        return lowest_energy(operator, sector, most) if expected else None
    key = (fingerprint(operator), sector, group)
    if key not in _KNOWN:
        _KNOWN[key] = None
        with contextlib.suppress(ValueError, RuntimeError):
            level = float(symmetric_levels(operator, group, sector)[0])
            _KNOWN[key] = KnownEnergy(level, 0.0, "diagonalisation")
    return _KNOWN[key]
