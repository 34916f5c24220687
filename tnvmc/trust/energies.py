"""Whether a measured energy can be trusted: what samples, psi and exact energies say against it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tnvmc.ansatz.protocol import Ansatz, chi_of
from tnvmc.backend.namespace import array_namespace, to_host
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.exchange import fixed_exchanges
from tnvmc.estimate.observables import off_diagonal_values
from tnvmc.estimate.reliability import changed_part, closure_threshold, doubts, of_chains
from tnvmc.estimate.statistics import Estimate, estimate_samples
from tnvmc.lattice.permutations import Symmetry
from tnvmc.operators.properties import energy_bound, infinite_temperature_energy
from tnvmc.operators.reference import KnownEnergy
from tnvmc.operators.symmetry import known_signs, marshall_character
from tnvmc.operators.term import Operator
from tnvmc.sampling.configurations import magnetisation_of
from tnvmc.sampling.problem import Problem, Samples
from tnvmc.storage.identity import kind_in
from tnvmc.trust.reference import BELOW_EXACT, DIAGONALISED, Place, elsewhere, of_excited
from tnvmc.trust.steps import off_in_time, unstable
from tnvmc.vmc.core import State
from tnvmc.vmc.measurement import Measured
from tnvmc.vmc.orthogonal import LowerState
from tnvmc.vmc.results import StepRecord
from tnvmc.vmc.trial import LEAST_STEPS

ABOVE_EXACT, FAR_ABOVE = 3.0, 1e-2
"""Errors, and part of the lowest energy, that a measured one may lie above it, at least one."""

HIGHER_LEVEL = 10.0
"""Roots of the variance that a state of the lowest level may lie above it, at most."""

DIAGONALISED_IN_DOUBT = 200_000
"""Largest sector that is diagonalised, in some seconds, where something else already speaks against
the energy."""

_SHARE_OF_A_RUN, _AT_ONCE = 0.1, 0.05
"""Of its seconds, and seconds, that diagonalising may take after a run."""

_SECONDS = 2e-7  # of diagonalising, for each state and term: twice that of up to 65,536 states

_SIGMA = 1e-6  # of the off-diagonal energy: what counts as the error of an enumeration

LARGE_V_SCORE = 0.08
"""V-score above which a state is far from the ground state: of some hundred runs on small systems
those within 1e-2 of the energy had 0.044 at most, those off by more 0.08 to 1.4."""

_FAR_FROM_AN_EIGENSTATE = 3e-3
"""V-score above which an energy is in doubt: J1-J2 4x4 of D = 3 has 1e-3 at a relative error of as
much, random bonds between 20 sites 1e-1 at 7e-2."""

_NO_EIGENSTATE = 1e-5
"""V-score above which a state is no eigenstate.  Those have exchange parities by right: dimers."""

_EXACT_ERROR = 1e-9  # of the largest energy there can be: what rounding may make


def judged(
    found: Measured, lower: Sequence[LowerState], known: KnownEnergy | None = None, *,
    final: bool = True,
) -> Measured:  # fmt: skip
    """Judge a measured energy: by its samples, the closures of psi, exact energies, other sectors.

    Codes: those that the measurement has, of `of_samples`, `of_signs`, `of_variance`, `of_excited`,
    `of_level` and `elsewhere`.

    Args:
        found: the measurement.
        lower: states that psi is kept orthogonal to.
        known: the energy that no state lies below, where it has been looked up; else it is found
            where a sector of `DIAGONALISED` states (`DIAGONALISED_IN_DOUBT` where another code is
            found, or the V-score is large) has it.
        final: whether an energy far above the exact one, a large variance and missing signs are
            told; signs not while steps may still find them.

    Cost: that of diagonalising, once for each operator.
    """
    measured, problem = found.measurement, found.problem
    energy, overlaps = (measured.energy, measured.energy_error), measured.overlaps
    told = [*measured.diagnostics, *of_samples(found)]
    if not found.is_level:
        return replace(found, measurement=replace(measured, diagnostics=tuple(told)))
    told += of_signs(found) if final and not lower and not 0 < found.steps < LEAST_STEPS else ()
    told += of_variance(found) if final and not lower else ()
    in_doubt = len(told) > len(measured.diagnostics) or measured.v_score > _FAR_FROM_AN_EIGENSTATE
    most = DIAGONALISED_IN_DOUBT if in_doubt else DIAGONALISED
    told += of_excited(energy, lower, overlaps, DIAGONALISED)
    mixed = any(each.code == "not_orthogonal" for each in told)  # at no level then
    if math.isfinite(measured.energy) and not mixed:
        place = Place(problem.operator, measured.magnetisation, problem.ansatz, tuple(lower))
        told += of_level(energy, place, most, known, final=final, variance=measured.variance)
    return replace(found, measurement=replace(measured, diagnostics=tuple(told)))


def of_samples(found: Measured) -> Iterator[Diagnostic]:
    """Judge an energy by its samples and by the closures of psi.

    Codes: measured_energy_not_finite, energy_without_error, those of `estimate.reliability.doubts`,
    exchange_fixed, closure_spread_large.
    """
    seen, measured = found.observation, found.measurement
    chi = chi_of(found.problem.ansatz)
    if not math.isfinite(measured.energy):
        raised = [] if chi is None else ["contraction.chi"]
        yield Diagnostic("measured_energy_not_finite", "error", {"raise": raised})
        return
    if not math.isfinite(measured.energy_error):
        yield Diagnostic("energy_without_error", "warning")
    if not seen.info.exact:
        changed = changed_part(np.asarray(to_host(seen.snapshot.configs)), seen.info.n_walkers)
        keys = ("measure.n_samples", *([] if chi is None else ["measure.chi"]))
        known = {"effective": measured.effective_samples, "moved": found.neighbours_move_by}
        yield from doubts(seen.energy, seen.info.n_walkers, keys, changed=changed, **known)
        yield from of_chains(seen.info, seen.energy.n_samples)
    fixed = fixed_exchanges(found.problem.operator, seen.snapshot)
    if fixed and measured.v_score > _NO_EIGENSTATE:
        pairs = [{"sites": list(pair), "parity": parity} for pair, parity in fixed.items()]
        yield Diagnostic("exchange_fixed", "warning", {"pairs": pairs})
    # A sum over all configurations has no error, but truncated amplitudes are not exact.
    part = seen.off_diagonal_energy
    sigma = _SIGMA * abs(part) if seen.info.exact else measured.energy_error
    spread, threshold = measured.closure_spread or 0.0, closure_threshold(part, sigma)
    if spread > threshold:
        values = {"spread": spread, "threshold": threshold}
        yield Diagnostic("closure_spread_large", "warning", values)


def of_variance(found: Measured) -> Iterator[Diagnostic]:
    """Tell variance_large: the state is far from any eigenstate, by V-score and by deviation.

    The deviation of local energies counts too, as a V-score says nothing near infinite temperature.
    """
    measured, problem = found.measurement, found.problem
    deviation = math.sqrt(max(measured.variance, 0.0))
    far = measured.v_score > LARGE_V_SCORE
    if far and FAR_ABOVE * energy_bound(problem.operator) < deviation < math.inf:
        values = {"v_score": measured.v_score, "most": LARGE_V_SCORE}
        yield Diagnostic("variance_large", "warning", values | {"lacks": _lacks(problem.ansatz)})


def of_signs(found: Measured) -> Iterator[Diagnostic]:
    """Tell signs_raise_energy: matrix elements of H between configurations raise the energy.

    With signs of psi drawn at random they add 0 on average, so that some signs of the same |psi|
    give less.  A sum over symmetries has no such choice.
    """
    seen, operator = found.observation, found.problem.operator
    if found.problem.ansatz.group is not None:
        return
    values = off_diagonal_values(operator, seen.snapshot, seen.local)
    part = estimate_samples(values, seen.snapshot.weight, seen.info)
    never_lower = bool(array_namespace(values).all(values >= 0))
    error = _EXACT_ERROR * energy_bound(operator) + (0 if never_lower else BELOW_EXACT * part.error)
    if part.mean > error:
        yield Diagnostic("signs_raise_energy", "warning", {"part": part.mean})


def of_level(
    energy: tuple[float, float], place: Place, most: int = DIAGONALISED,
    known: KnownEnergy | None = None, *, final: bool = True, variance: float = math.inf,
) -> Iterator[Diagnostic]:  # fmt: skip
    """Compare an energy and its error (totals) with the level of its place, and with other sectors.

    Codes: below_reference; above_reference, since few steps, a small bond dimension or a metastable
    state leave a good variance and a curve that looks flat (told of `final` ones); those of
    `elsewhere`; lower_with_other_characters, of a sum over symmetries; symmetries_not_proven, of a
    network that has some.  Sectors of `most` states are diagonalised where no level is `known`.
    """
    if final and place.ansatz.group:  # a level of others may be the ground state
        most = max(most, place.at_once)
    if known is None and final:
        known = place.level(most)
    floor = place.floor(most) if known is None or place.lower else known
    if floor is not None:
        yield from below_exact(energy, place.operator, floor, chi_of(place.ansatz))
    if known is not None and final:
        yield from above_exact(energy, known, place, variance)
    if not place.lower:  # of an excited state other sectors say nothing
        yield from elsewhere(energy, place.operator, place.sector, most)
        least = place.ansatz.group and place.lowest(most)
        slack = _EXACT_ERROR * energy_bound(place.operator)
        if least and known and least.energy_total < known.energy_total - slack:
            values = {"energy_per_site": least.energy_total / place.operator.n_sites}
            yield Diagnostic("lower_with_other_characters", "open", values)
        if final and known is None and not _proven(place):
            values = {"n_symmetries": len(place.ansatz.built_in)}
            yield Diagnostic("symmetries_not_proven", "open", values)


def _proven(place: Place) -> bool:
    """Whether the ground state is known to have all symmetries that are built in, as psi does."""
    (marshall, exact), signed = known_signs(place.operator), place.ansatz.signed
    elements = [Symmetry("", sites) for sites in place.ansatz.built_in]
    if signed or len(elements) < 2:
        return len(elements) < 2 or (marshall and exact)
    ruled = (marshall_character(place.operator, g, place.sector or 0) for g in elements)
    return signed is False and exact and (not marshall or all(sign == 1 for sign in ruled))


def below_exact(
    energy: tuple[float, float], operator: Operator, known: KnownEnergy, chi: int | None
) -> Iterator[Diagnostic]:
    """Tell that an energy lies below one that no state lies below."""
    if not math.isfinite(energy[1]):
        return
    error = max(math.hypot(energy[1], known.error or 0.0), _EXACT_ERROR * energy_bound(operator))
    below = known.energy_total - energy[0]
    if below > BELOW_EXACT * error:
        keys = ["contraction.chi", "measure.chi"]
        if chi is None:
            keys = ["sampler.n_burn", "measure.n_thin", "measure.n_samples"]
        values = {
            "sigmas": below / error,
            "relative": below / max(abs(known.energy_total), 1e-300),
            "method": known.method,
            "reference": known.energy_total,
            "raise": keys,
        }
        yield Diagnostic("below_reference", "warning", values)


def above_exact(
    energy: tuple[float, float], known: KnownEnergy, place: Place, variance: float = math.inf
) -> Iterator[Diagnostic]:
    """Tell that an energy lies far above the one that it stands for.

    Far is of its size or of its distance to infinite temperature, which a constant in H leaves as
    it is.  Some level lies within the root of the variance: one much nearer is of a higher one.
    """
    exact, operator = known.energy_total, place.operator
    above, e_inf = energy[0] - exact, infinite_temperature_energy(operator, place.sector)
    size = min(abs(exact), abs(exact - e_inf))
    size = max(size, _EXACT_ERROR * energy_bound(operator) / FAR_ABOVE)
    error = math.hypot(energy[1], known.error or 0.0) if math.isfinite(energy[1]) else 0.0
    if above > FAR_ABOVE * size and above > ABOVE_EXACT * error:
        values = {
            # What is left of rounding is no error.
            "sigmas": above / error if error > _SIGMA * size else None,
            "relative": above / (abs(exact) or size),
            "method": "QMC" if known.method == "QMC" else "exact",
            "lacks": _lacks(place.ansatz),
            "higher_level": math.isfinite(energy[1])
            and above > HIGHER_LEVEL * math.sqrt(max(variance, 0.0)),
        }
        yield Diagnostic("above_reference", "warning", values)


def _lacks(ansatz: Ansatz) -> str:
    """Give what has more parameters than a state: a larger "D" or "ansatz", or another "kind"."""
    if kind_in(ansatz.description()) == "ProductState":
        return "kind"
    return "D" if getattr(ansatz, "D", None) else "ansatz"


def of_steps(
    records: Sequence[StepRecord], problem: Problem, sampler: Samples, state: State
) -> tuple[Diagnostic, ...]:
    """Judge the steps of an optimisation: the last energy, and how many were held back.

    Codes: energy_not_finite, optimisation_unstable, doubts of the samples, below_reference, and
    those of `elsewhere`.  Exact energies that are not known are found by diagonalisation only
    where that is expected to take less than a tenth of the seconds of the steps.
    """
    if records and "time" in records[-1].optimizer:  # a state on its way is no level
        return tuple(off_in_time(records[-1].optimizer))
    last = next((record for record in reversed(records) if not record.undone), None)
    lines = [
        {**vars(record), "diagnostics": [each.as_dict() for each in record.diagnostics]}
        for record in records
    ]
    found = list(unstable(lines))
    if last is None:
        return tuple(found)
    if not math.isfinite(last.energy):
        return (*found, Diagnostic("energy_not_finite", "error"))
    if sampler.n_samples is not None and last.n_samples is not None and last.tau is not None:
        r_hat = math.nan if last.r_hat is None else last.r_hat
        mean = Estimate(
            last.energy, last.energy_error, last.variance, last.tau, r_hat, last.n_samples
        )
        worth, keys = last.effective_samples, ("sampler.n_samples",)
        found += doubts(mean, sampler.n_walkers, keys, effective=worth)
    if last.overlaps:
        return tuple(found)
    operator = problem.operator
    most = affordable(operator, sum(record.seconds for record in records))
    place = Place(operator, magnetisation_of(operator, state.here.configs), problem.ansatz)
    return (*found, *of_level((last.energy, last.energy_error), place, most, final=False))


def affordable(operator: Operator, seconds: float) -> int:
    """Give the largest sector that is diagonalised in a small part of a run of so many seconds."""
    least = max(_SHARE_OF_A_RUN * seconds, _AT_ONCE)
    return min(DIAGONALISED, int(least / (_SECONDS * (len(operator.terms) + 1))))
