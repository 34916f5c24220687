"""Overlaps and fidelities of two states of one lattice, whatever they are made of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from tnvmc.ansatz.generic import GenericAnsatz
from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.backend import progress as phases
from tnvmc.backend.arguments import refuse, whole
from tnvmc.backend.process import one_blas_thread
from tnvmc.contraction.double_expectation import EmptySector, boundary_overlap
from tnvmc.estimate.bridge import Side, bridged
from tnvmc.estimate.diagnostic import Diagnostic, warn_of
from tnvmc.estimate.reliability import doubts, of_chains
from tnvmc.operators.basis import Basis
from tnvmc.operators.fermions import sector_text
from tnvmc.operators.properties import particles_of
from tnvmc.operators.term import Operator
from tnvmc.sampling import streams
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.configurations import sector_of
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.session.vmc import VMC
from tnvmc.shown import Result, with_error
from tnvmc.trust.double_layer import MAX_SECONDS, growing_chis, layers_of
from tnvmc.vmc.core import controlled
from tnvmc.vmc.measured_iterate import measured_iterate
from tnvmc.vmc.measurement import MeasurementPlan
from tnvmc.vmc.orthogonal import SampledState, everywhere

Array = Any

FEWEST_SHARED = 30.0  # samples of a state that are worth something in the other one

_SETTLED = 1e-7  # change of an overlap by doubling chi that ends its growth

_ENUMERATED = 2**14  # amplitudes of a vector that are all visited; of a longer one some are drawn


@dataclass(frozen=True, repr=False)
class StateOverlap(Result):
    """The overlap of two normalised states a and b; made by `overlap`."""

    fidelity: float  #: |<a|b>|^2 / (<a|a> <b|b>), free of bias: below 0 at times where it is near 0
    error: float  #: its standard error
    overlap: complex  #: <a|b> / sqrt(<a|a> <b|b>)
    overlap_error: float  #: standard error of its modulus
    effective_samples: float  #: of a state that are worth something in the other one
    diagnostics: tuple[Diagnostic, ...] = ()

    def _line(self) -> str:
        size = with_error(abs(self.overlap), self.overlap_error)
        phase = f", phase {np.angle(self.overlap):.4f}" if np.imag(self.overlap) else ""
        return f"fidelity {with_error(self.fidelity, self.error)}, |overlap| {size}{phase}"


class VectorState(GenericAnsatz):
    """A state by all its amplitudes, in the order of a basis."""

    def __init__(self, operator: Operator, basis: Basis, vector: Array) -> None:
        super().__init__(operator.lattice, operator.local_dim)
        self.basis, self.vector = basis, vector

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """Look psi(s) up; configurations are those of the basis."""
        place = self.local_dim ** np.arange(self.basis.n_sites - 1, -1, -1)
        found = theta[self.basis.positions(np.asarray(configs, dtype=np.int64) @ place)]
        size = np.where(found == 0, 1.0, np.abs(found))
        return LogAmplitude(found / size, np.where(found == 0, -np.inf, np.log(size)))

    def random(self, seed: int) -> Array:
        """Give the vector itself."""
        return self.vector


def overlap(
    a: Any,
    b: Any,
    n_samples: int | None = None,
    chi: int | None = None,
    operator: Operator | None = None,
    double_layer: bool = False,
) -> StateOverlap:
    """Estimate the overlap and the fidelity of two states from samples of both.

    >>> tnvmc.overlap(vmc, "runs/first", n_samples=4096).fidelity  # doctest: +SKIP

    Args:
        a, b: each a `VMC`, whose `measured_theta` counts; what `load_run` gives, or its folder; a
            pair (ansatz, theta); or a vector in the order of `operator.states`, as that of
            `exact_ground_state`.  Runs whose file has `measure.symmetrise` count with that sum.
        n_samples: of each state; by default those of its optimisation.
        chi: boundary bond dimension of both; by default as in `VMC.measure`.
        operator: in whose sector pairs and vectors are; by default that of the other state.
        double_layer: contract two PEPS without samples at `chi`, or at a chi that doubles until
            the overlap moves by 1e-7 or `MAX_SECONDS` are near.  The error is what the last
            doubling changed: 0 where nothing is cut, inf for a given chi below D^2.

    In different sectors the overlap is exactly 0.

    Raises:
        LeftOut, EmptySector: a double layer of fermions, rings and others; of a rare sector.
        ValueError: states of different lattices or kinds of sites; no operator.
    """
    given = [_opened(each) for each in (a, b)]
    for each, _ in given:
        if operator is None and hasattr(each, "method"):
            operator = replace(each.operator, magnetisation=each.problem.magnetisation)
    pair = [as_vmc("overlap", each, operator)[0] for each, _ in given]
    _check_alike(*(each.operator for each in pair))
    sectors = [each.problem.magnetisation for each in pair]
    if None not in sectors and sectors[0] != sectors[1]:
        names = [sector_text(s, particles_of(pair[0].operator, s)) for s in sectors]
        told = Diagnostic("different_sectors", "good", {"one": names[0], "other": names[1]})
        return StateOverlap(0.0, 0.0, 0.0, 0.0, 0.0, (told,))
    if double_layer:
        summed = [*given[0][1], *given[1][1]]
        if summed or n_samples is not None or sectors[0] != sectors[1]:
            raise ValueError(
                "overlap: double_layer is of two PEPS in one sector without n_samples; here 2 Sz "
                f"{sectors}, n_samples {n_samples}, symmetrise {summed}; leave double_layer out"
            )
        return _by_double_layer(pair, chi)
    states = (
        sampled(x, n_samples, chi, streams.OVERLAP + k, given[k][1]) for k, x in enumerate(pair)
    )
    found = _between(*states)
    warn_of(found.diagnostics, "overlap")
    return found


def _between(one: SampledState, other: SampledState) -> StateOverlap:
    there, here = one.amplitudes(other.snapshot.configs), other.amplitudes(one.snapshot.configs)
    sides = Side.of(one.snapshot, here, one.info), Side.of(other.snapshot, there, other.info)
    found, told = bridged(*sides), list[Diagnostic]()
    drawn = [len(x.gap) for x in sides if not x.info.exact]
    if drawn and found.effective < FEWEST_SHARED:
        values = {"n_samples": min(drawn), "shared": found.effective}
        told.append(Diagnostic("few_shared", "warning", values))
    for part, side in zip(found.parts, sides, strict=False):
        if not side.info.exact:
            told += doubts(part, side.info.n_walkers) + of_chains(side.info, part.n_samples)
    squared = found.squared, found.squared_error
    return StateOverlap(*squared, found.mean, found.along, found.effective, tuple(told))


def _by_double_layer(pair: Sequence[VMC], chi: int | None) -> StateOverlap:
    """Contract both at chi and about half of it, or at growing chi."""
    (one, bra), (other, ket) = (layers_of(x.ansatz, x.measured_theta()) for x in pair)
    operator, sector = pair[0].operator, pair[0].problem.magnetisation
    total = None if sector is None else (operator.n_sites * (operator.local_dim - 1) - sector) // 2
    chis = growing_chis(max(one.D, other.D))
    if chi is not None:  # below D^2 changes with chi tell little of errors
        chis = [*[each for each in chis if 2 * each <= whole("overlap", "chi", chi)][-1:], chi]
    phases.begin("double_layer")
    began, found, change = perf_counter(), math.inf + 0j, math.inf
    for each in chis:
        before = found
        try:
            with one_blas_thread():
                found, exact = boundary_overlap(bra, ket, one.embedding.shape, each, total)
        except EmptySector:  # a larger chi may see it
            if each == chis[-1]:
                raise
            continue
        change = 0.0 if exact else abs(found - before)
        too_long = 8 * (perf_counter() - began) > MAX_SECONDS and change < math.inf
        if exact or chi is None and (change < _SETTLED or too_long):
            break
    size = abs(found)
    return StateOverlap(size**2, (2 * size + change) * change, found, change, math.inf)


def sampled(
    vmc: VMC, n_samples: int | None, chi: int | None, stream: int, symmetries: Sequence[str] = ()
) -> SampledState:
    """Draw samples of what a VMC would measure, with amplitudes and nothing else."""
    method = controlled(vmc.method, vmc.state)
    point, _ = measured_iterate(method, vmc.state)
    method = MeasurementPlan(n_samples, chi, symmetries=symmetries).applied(
        method, point, vmc.state.step
    )
    problem, sampler = replace(method.problem, targets={}), everywhere(method.sampler)
    phases.begin("overlaps")
    snapshot, _, info = sampler.draw(problem, point, stream, jacobian=False)
    sector = problem.magnetisation
    held = None if sector is None else (problem.operator, sector)
    return SampledState(problem.ansatz, point.theta, snapshot, info, sampler.threads, held)


def _opened(given: Any) -> tuple[Any, Sequence[str]]:
    """Give the VMC of a run or its folder, else what is given; and over what its file sums."""
    if isinstance(given, str | PathLike):
        from tnvmc import load_run  # of a higher level: it makes such states of files

        given = load_run(Path(given))
    settings = getattr(given, "settings", None)
    return getattr(given, "vmc", given), settings.measure.symmetrise if settings else ()


def as_vmc(where: str, given: Any, operator: Operator | None) -> tuple[VMC, Sequence[str]]:
    """Give the VMC of a state, and the symmetries over which its file sums in measurements.

    A pair and a vector are in the sector of an operator.
    """
    given, symmetries = _opened(given)
    if hasattr(given, "method"):
        return given, symmetries
    pair = isinstance(given, tuple) and len(given) == 2 and hasattr(given[0], "log_amplitude")
    if not pair and getattr(given, "ndim", None) != 1:
        raise refuse(where, "a state", given, "a VMC, a run, a pair (ansatz, theta) or a vector")
    if operator is None:
        raise ValueError(f"{where}: (ansatz, theta) or a vector has no sector; give operator=")
    if pair:
        return VMC(operator, given[0], theta=given[1]), ()
    basis = operator.states(sector_of(operator))
    if len(given) != basis.dimension:
        raise ValueError(
            f"{where}: a vector of {len(given)} amplitudes, and {basis.dimension} configurations "
            f"of {operator.name} with magnetisation = {basis.magnetisation}; give operator= with "
            "the magnetisation of the vector"
        )
    sampler = Enumerate() if basis.dimension <= _ENUMERATED else Sampler()
    return VMC(operator, VectorState(operator, basis, given), sampler, theta=given), ()


def _check_alike(one: Operator, other: Operator) -> None:
    """Refuse states whose configurations are not those of the same sites."""
    first, second = (
        (x.lattice.size, x.lattice.vacant, x.n_sites, x.local_dim, x.strings) for x in (one, other)
    )
    if first != second:
        told = (f"{x.lattice.kind} {x.lattice.size}, d = {x.local_dim}" for x in (one, other))
        raise ValueError(f"overlap: states of different sites, {' and '.join(told)}")
