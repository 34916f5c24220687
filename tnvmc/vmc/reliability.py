"""Whether a measured energy can be trusted: what its samples, psi and the exact energy say against
it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Ansatz
from tnvmc.backend.namespace import to_host
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.reliability import Drawn, changed_part, closure_threshold, doubts
from tnvmc.exact import MOST_IMAGES, exact_ground_state, symmetric_levels
from tnvmc.operators.basis import Basis
from tnvmc.operators.properties import energy_bound, fingerprint
from tnvmc.operators.reference import KnownEnergy, known_energy
from tnvmc.operators.symmetry import SymmetryGroup, has_ground_state
from tnvmc.operators.term import Operator
from tnvmc.sampling.problem import Problem, Samples
from tnvmc.vmc.core import State
from tnvmc.vmc.excited import excited_level
from tnvmc.vmc.observation import Observation
from tnvmc.vmc.orthogonal import LowerState
from tnvmc.vmc.results import Measurement, StepRecord

ABOVE_EXACT, FAR_ABOVE = 5.0, 1e-2
"""Errors, and part of the lowest energy, that a measured one may lie above it before it is called
far.
"""

BELOW_EXACT = 4.0
"""Errors below a known energy that chance does not explain: once in 30 000 runs."""

DIAGONALISED = 2**16
"""Largest sector that is diagonalised to judge an energy: a second or two, once for an operator."""

DIAGONALISED_IN_DOUBT = 200_000
"""The same where something else already speaks against the energy: some seconds."""

FEWEST_STEPS, UNSTABLE = 8, 0.25
"""Steps, and the part of them that the guard may hold back."""


_SIGMA = 1e-6  # of the off-diagonal energy: what counts as the error of an enumeration

_EXACT_ERROR = 1e-9  # of the largest energy there can be: what rounding may make

_KNOWN: dict[tuple[Any, ...], KnownEnergy | None] = {}


def of_energy(
    seen: Observation, problem: Problem, off_diagonal: float, moved: float | None = None
) -> tuple[Diagnostic, ...]:
    """Judge an energy by its samples, the closures of psi and the exact energy where it is known.

    Codes: measured_energy_not_finite, energy_without_error, those of `estimate.reliability.doubts`,
    closure_spread_large, below_reference.

    Args:
        seen: the draw.
        problem: what was drawn from.
        off_diagonal: part of the energy (`estimate.observables.off_diagonal_energy`).
        moved: of `neighbours.widened`.

    Cost: that of diagonalising a sector of at most `DIAGONALISED` states (`DIAGONALISED_IN_DOUBT`
    where another code is found), once for each operator.
    """
    statistics = seen.statistics()
    energy, error = seen.energy.mean, seen.energy.error
    if not math.isfinite(energy):
        return (Diagnostic("measured_energy_not_finite", "error", {"raise": []}),)
    found = []
    if not math.isfinite(error):
        found.append(Diagnostic("energy_without_error", "warning"))
    effective = statistics["effective_samples"]
    if not seen.info.exact:
        walkers = seen.info.n_walkers
        changed = changed_part(np.asarray(to_host(seen.snapshot.configs)), walkers)
        drawn = Drawn.of(seen.energy, walkers, effective, changed)
        found += doubts(replace(drawn, moved=moved))
    # A sum over all configurations has no error, but truncated amplitudes are not exact.
    sigma = _SIGMA * abs(off_diagonal) if seen.info.exact else error
    spread, threshold = statistics["closure_spread"] or 0.0, closure_threshold(off_diagonal, sigma)
    if spread > threshold:
        values = {"spread": spread, "threshold": threshold}
        found.append(Diagnostic("closure_spread_large", "warning", values))
    sector = sector_of(problem.operator, seen.snapshot.configs[0, :])
    most = DIAGONALISED_IN_DOUBT if found else DIAGONALISED
    group = group_of(problem.ansatz)
    return (*found, *below_exact((energy, error), problem.operator, sector, most, group))


def of_steps(
    records: Sequence[StepRecord], problem: Problem, sampler: Samples, state: State
) -> tuple[Diagnostic, ...]:
    """Judge the steps of an optimisation: the last energy, and how many were held back.

    Codes: energy_not_finite, optimisation_unstable, and those of `of_energy`, but that the spread
        of
    closures and heavy tails are left to a measurement.
    """
    last = next((record for record in reversed(records) if not record.undone), None)
    found = list(_unstable(records))
    if last is None:
        return tuple(found)
    if not math.isfinite(last.energy):
        return (*found, Diagnostic("energy_not_finite", "error"))
    if sampler.n_samples is not None and last.n_samples is not None:
        drawn = Drawn(
            last.n_samples, sampler.n_walkers, last.tau, last.r_hat,
            effective_samples=last.effective_samples,
        )  # fmt: skip
        found += doubts(drawn)
    sector = sector_of(problem.operator, state.here.configs[0, :])
    energy = (last.energy, last.energy_error)
    most = DIAGONALISED_IN_DOUBT if found else DIAGONALISED
    group = group_of(problem.ansatz)
    return (*found, *below_exact(energy, problem.operator, sector, most, group))


def sector_of(operator: Operator, config: object) -> int | None:
    """Give twice the total Sz of a configuration where the operator conserves it, else None."""
    if not operator.conserves_magnetisation:
        return None
    return operator.n_sites * (operator.local_dim - 1) - 2 * int(sum(map(int, config)))  # type: ignore[call-overload]


def only_configuration(operator: Operator, config: object) -> bool:
    """Tell whether a configuration is the only one of its sector, so that nothing can change."""
    sector = sector_of(operator, config)
    return Basis(operator.n_sites, operator.local_dim, sector).dimension == 1


def below_exact(
    energy: tuple[float, float],
    operator: Operator,
    sector: int | None,
    most: int,
    group: SymmetryGroup | None = None,
) -> Iterator[Diagnostic]:
    """Compare an energy and its error with the lowest one there is, where that is known or cheap.

    With a `group` the lowest one of its characters; where that is not known, of all.
    """
    known = lowest_energy(operator, sector, most, group) or lowest_energy(operator, sector, most)
    if known is None or not math.isfinite(energy[1]):
        return
    error = math.hypot(energy[1], known.error or 0.0)
    error = max(error, _EXACT_ERROR * energy_bound(operator))
    below = known.energy_total - energy[0]
    if below > BELOW_EXACT * error:
        values = {
            "sigmas": below / error,
            "relative": below / max(abs(known.energy_total), 1e-300),
            "method": known.method,
            "reference": known.energy_total,
            "raise": ["n_burn", "n_samples", "chi"],
        }
        yield Diagnostic("below_reference", "warning", values)


def above_exact(
    energy: tuple[float, float],
    operator: Operator,
    sector: int | None,
    ansatz: Ansatz,
    lower: Sequence[LowerState] = (),
) -> Iterator[Diagnostic]:
    """Warn of an energy far above the lowest one there is, where that is known or cheap.

    Few steps, a small bond dimension or a metastable state leave a good variance and a curve that
    looks flat; nothing else in a measurement shows it.

    Args:
        energy: with its error, totals.
        operator: the Hamiltonian.
        sector: twice the total Sz; None for the full space.
        ansatz: of the state: what is to be raised is its "D", or the "ansatz" itself.
        lower: states that it is kept orthogonal to: it is then compared with the next level.
    """
    if not lower:
        known = lowest_energy(operator, sector, DIAGONALISED, group_of(ansatz))
    else:
        known = None if group_of(ansatz) else excited_level(lower, DIAGONALISED)
    if known is None or not math.isfinite(energy[0]):
        return
    above, size = energy[0] - known.energy_total, max(abs(known.energy_total), 1e-300)
    error = math.hypot(energy[1], known.error or 0.0) if math.isfinite(energy[1]) else 0.0
    if above > FAR_ABOVE * size and above > ABOVE_EXACT * error:
        method = "QMC" if known.method == "QMC" else "exact"
        lacks = "D" if getattr(ansatz, "D", None) else "ansatz"
        # What is left of rounding is no error.
        sigmas = above / error if error > _SIGMA * size else None
        values = {"sigmas": sigmas, "relative": above / size}
        yield Diagnostic("above_reference", "warning", {**values, "method": method, "lacks": lacks})


def compared(found: Measurement, problem: Problem, lower: Sequence[LowerState]) -> Measurement:
    """Add that an energy lies far above the exact one; of a folder the report tells it."""
    if any(each.code == "not_orthogonal" for each in found.diagnostics):
        return found  # a mixture with a lower state is at no level
    energy = found.energy, found.energy_error
    operator, sector, ansatz = problem.operator, problem.magnetisation, problem.ansatz
    far = tuple(above_exact(energy, operator, sector, ansatz, lower))
    return replace(found, diagnostics=(*found.diagnostics, *far)) if far else found


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
    if not sector:
        with contextlib.suppress(OverflowError):  # couplings whose squares are no numbers
            known = known_energy(operator)
            if known is not None and known.method in ("exact", "QMC"):
                return known
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


def group_of(ansatz: Ansatz) -> SymmetryGroup | None:
    """Give the group that a state is summed over, None where it is not."""
    return ansatz.group


def _unstable(records: Sequence[StepRecord]) -> Iterator[Diagnostic]:
    held = sum(
        record.undone or any(found.code == "step_shortened" for found in record.diagnostics)
        for record in records
    )
    if len(records) >= FEWEST_STEPS and held > UNSTABLE * len(records):
        values = {"held_back": held, "steps": len(records), "raise": ["n_samples", "diag_shift"]}
        yield Diagnostic("optimisation_unstable", "warning", values)
