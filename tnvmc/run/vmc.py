"""The optimisation: sample, local energies, estimate, direction, guarded update."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Ansatz, Snapshot
from tnvmc.backend.namespace import array_namespace, to_namespace
from tnvmc.estimate.local import local_energy
from tnvmc.estimate.statistics import Estimate, estimate, v_score
from tnvmc.operators.term import Operator
from tnvmc.optimize.sr import SR
from tnvmc.run.guard import Guard
from tnvmc.run.interrupts import uninterrupted
from tnvmc.run.state import Point, State, StepRecord, finite_or_none
from tnvmc.sampling.chains import Sampler, initial_configs, sample
from tnvmc.sampling.enumerate import enumerate_samples
from tnvmc.sampling.moves import moves_for

Array = Any

_MEASURE_STREAM = 2**31  # steps from here on are never reached by an optimisation


class OptimisationFailed(ArithmeticError):
    """The energy stayed infinite or undefined, whatever was tried."""


@dataclass(frozen=True)
class Enumerate:
    """Visits every configuration with its weight |psi|^2 instead of drawing some: no noise.

    `magnetisation` is twice the total Sz, for an operator that conserves it.
    """

    magnetisation: int = 0
    threads: int | None = None


@dataclass(frozen=True)
class Measurement:
    """The energy of one state, measured with theta at rest."""

    energy: float  #: total, in the operator's units
    energy_error: float
    variance: float  #: of the local energy
    v_score: float
    tau: float | None  #: integrated autocorrelation time, in draws
    r_hat: float | None
    acceptance: float | None
    closure_spread: float | None
    n_sites: int
    n_parameters: int
    n_samples: int
    seconds: float
    units: str
    note: str | None = None

    @property
    def energy_per_site(self) -> float:
        """Energy / N."""
        return self.energy / self.n_sites

    @property
    def energy_per_site_error(self) -> float:
        """Standard error of `energy_per_site`."""
        return self.energy_error / self.n_sites

    def as_dict(self) -> dict[str, Any]:
        """Give a dict for strict JSON: None where a number is not finite."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        per_site = {
            "energy_per_site": self.energy_per_site,
            "energy_per_site_error": self.energy_per_site_error,
            "seconds_per_sample": self.seconds / self.n_samples,
        }
        return finite_or_none(values | per_site)

    def __str__(self) -> str:
        return (
            f"energy per site {self.energy_per_site:.7f} +- {self.energy_per_site_error:.1g} "
            f"({self.units} units), variance per site {self.variance / self.n_sites:.2g}, "
            f"V-score {self.v_score:.2g}, {self.n_samples} samples"
        )


class VMC:
    """Lowers the energy of an ansatz step by step.

    >>> vmc = VMC(heisenberg(square(4, 4)), psi, theta=psi.random(seed=1))  # doctest: +SKIP
    >>> vmc.run(100)  # doctest: +SKIP
    >>> print(vmc.measure(n_samples=8192))  # doctest: +SKIP

    Args:
        operator: the Hamiltonian.
        ansatz: the wave function; see `tnvmc.ansatz.protocol.Ansatz`.
        theta: (P,) initial parameters.
        sampler: `Sampler` (Markov chains) or `Enumerate` (small systems, no noise).
        optimizer: `SR`, `GradientDescent`, `RandomSign` or `Adam`.
        learning_rate: a number, or a schedule: a function of the step.
        seed: key of all random numbers.
        guard: limits on steps; see `Guard`.
        configs: (W, N) where the walkers start; drawn when absent.
        magnetisation: twice the total Sz of drawn configs, where the operator conserves it.

    The whole memory between steps is `state`; `advance` is a function of it, so a run continued
    from a saved state repeats the uninterrupted one bit for bit.

    Raises:
        ValueError: theta of a wrong shape or not finite.
        OptimisationFailed: (from `run`) energies that stay infinite or undefined.
    """

    def __init__(
        self,
        operator: Operator,
        ansatz: Ansatz,
        theta: Array,
        *,
        sampler: Sampler | Enumerate | None = None,
        optimizer: Any = None,
        learning_rate: float | Callable[[int], float] = 0.05,
        seed: int = 0,
        guard: Guard | None = None,
        configs: Array | None = None,
        magnetisation: int = 0,
    ) -> None:
        self.operator = operator
        self.ansatz = ansatz
        self.sampler = Sampler() if sampler is None else sampler
        self.optimizer = SR() if optimizer is None else optimizer
        self.schedule = learning_rate if callable(learning_rate) else lambda _: learning_rate
        self.seed = seed
        self.guard = Guard() if guard is None else guard
        self.moves = moves_for(operator)
        _check_parameters(ansatz, theta)
        if configs is None:
            configs = initial_configs(operator, self._n_walkers, seed, magnetisation)
            configs = to_namespace(configs, array_namespace(theta))
        self.state = State(0, Point(theta, configs, self.optimizer.init(theta)))

    @property
    def theta(self) -> Array:
        """(P,) the present parameters."""
        return self.state.here.theta

    def run(
        self, steps: int, callback: Callable[[StepRecord], None] | None = None
    ) -> list[StepRecord]:
        """Make `steps` more steps and give their records; `callback` sees each as it is made.

        An exception (Ctrl-C too) leaves `state` after the last finished step, whose callback
        has run.
        """
        records = []
        for _ in range(steps):
            state, record = self.advance(self.state)
            with uninterrupted():
                self.state = state
                records.append(record)
                if callback is not None:
                    callback(record)
        return records

    def advance(self, state: State) -> tuple[State, StepRecord]:
        """Make one step: a function of the state and of nothing else."""
        started = perf_counter()
        here, snapshot, acceptance = self._draw(state.here, self.sampler, self.ansatz, state.step)
        local = local_energy(self.operator, snapshot)
        found = self._estimate(local, snapshot)
        objection = self.guard.objection(
            state.recent, found.mean, found.error, found.variance, self.operator.n_sites
        )
        learning_rate = self.schedule(state.step) * state.recent.scale
        report = functools.partial(
            StepRecord,
            **_statistics(found, snapshot, acceptance),
            step=state.step,
            learning_rate=learning_rate,
        )
        finite = math.isfinite(found.mean) and math.isfinite(found.variance)
        if objection is not None and (state.good is not None or not finite):
            back = self._rejected(state, state.good or state.here)
            note = f"{objection}: step undone, next ones {self.guard.shrink:g} times as long"
            return back, report(
                step_norm=0.0, undone=True, note=note, seconds=perf_counter() - started
            )
        with blas_threads(self.sampler.threads):
            direction, optimizer, _ = self.optimizer.direction(
                here.theta, snapshot.jacobian, local, snapshot.weight, here.optimizer,
                (self.seed, state.step),
            )  # fmt: skip
            norm = _norm(direction)
        if not math.isfinite(norm):
            note = "direction not finite: step skipped, next ones shorter"
            return self._rejected(state, here), report(
                step_norm=0.0, undone=True, note=note, seconds=perf_counter() - started
            )
        factor = self.guard.shortened(state.recent, norm, learning_rate, _norm(here.theta))
        theta = here.theta - (learning_rate * factor) * direction
        recent = self.guard.accepted(
            state.recent, found.mean, found.error, found.variance, norm * factor,
            retried=state.good is None and state.recent.rollbacks > 0,
        )  # fmt: skip
        following = State(state.step + 1, Point(theta, here.configs, optimizer), here, recent)
        return following, report(
            step_norm=learning_rate * factor * norm,
            undone=False,
            note=f"step shortened to {factor:.2g} of its length" if factor < 1 else None,
            seconds=perf_counter() - started,
        )

    def _rejected(self, state: State, back: Point) -> State:
        recent = self.guard.rejected(state.recent)
        if recent.rollbacks > self.guard.patience:
            raise OptimisationFailed(
                f"step {state.step}: energy or direction not finite {recent.rollbacks} times in "
                "a row, with ever smaller steps; start from other parameters, raise "
                "contraction.chi or optimizer.diag_shift"
            )
        return State(state.step + 1, back, None, recent)

    def measure(
        self,
        n_samples: int | None = None,
        chi: int | None = None,
        n_burn: int = 10,
        n_thin: int | None = None,
    ) -> Measurement:
        """Measure the energy of the present parameters, which stay as they are.

        Where the last update led astray (by the guard's rule) the parameters before it are
        measured, and `note` says so.  `chi` is the boundary bond dimension of the measurement,
        for an ansatz that has one.  `state` stays as it is.
        """
        result = self._measure_point(self.state.here, n_samples, chi, n_burn, n_thin)
        objection = self.guard.objection(
            self.state.recent, result.energy, result.energy_error, result.variance,
            self.operator.n_sites,
        )  # fmt: skip
        if objection is None or self.state.good is None:
            return result
        before = self._measure_point(self.state.good, n_samples, chi, n_burn, n_thin)
        if math.isfinite(result.energy) and before.energy >= result.energy:
            return result
        return replace(before, note=f"{objection}: measured without the last update")

    def _measure_point(
        self, point: Point, n_samples: int | None, chi: int | None, n_burn: int, n_thin: int | None
    ) -> Measurement:
        started = perf_counter()
        sampler = self.sampler
        if isinstance(sampler, Sampler):
            sampler = replace(
                sampler,
                n_samples=n_samples or sampler.n_samples,
                n_burn=n_burn,
                n_thin=n_thin or sampler.n_thin,
            )
        ansatz = self.ansatz if chi is None else with_chi(self.ansatz, chi)
        step = _MEASURE_STREAM + self.state.step
        _, snapshot, acceptance = self._draw(point, sampler, ansatz, step, jacobian=False)
        found = self._estimate(local_energy(self.operator, snapshot), snapshot)
        statistics = _statistics(found, snapshot, acceptance)
        return Measurement(
            **statistics,
            v_score=_v_score(self.operator, found),
            n_sites=self.operator.n_sites,
            n_parameters=self.ansatz.n_params,
            n_samples=int(snapshot.configs.shape[0]),
            seconds=perf_counter() - started,
            units=self.operator.units,
        )

    def _draw(
        self,
        point: Point,
        sampler: Sampler | Enumerate,
        ansatz: Ansatz,
        step: int,
        jacobian: bool = True,
    ) -> tuple[Point, Snapshot, float | None]:
        """Draw samples (or enumerate them): the point with moved walkers, snapshot, acceptance."""
        if isinstance(sampler, Enumerate):
            snapshot = enumerate_samples(
                ansatz, point.theta, self.operator, jacobian, sampler.magnetisation,
                threads=sampler.threads,
            )  # fmt: skip
            return point, snapshot, None
        configs, snapshot, info = sample(
            sampler, ansatz, point.theta, point.configs, self.operator.targets, self.moves,
            self.seed, step, jacobian=jacobian,
        )  # fmt: skip
        return replace(point, configs=configs), snapshot, float(info.acceptance)

    def _estimate(self, local: Array, snapshot: Snapshot) -> Estimate:
        return estimate(local, self._n_walkers, weight=snapshot.weight)

    @property
    def _n_walkers(self) -> int:
        return 1 if isinstance(self.sampler, Enumerate) else self.sampler.n_walkers

    def save(self, path: str | Path) -> None:
        """Write a checkpoint, atomically; see `tnvmc.run.checkpoint`."""
        from tnvmc.run import checkpoint

        checkpoint.save(Path(path), self.state, checkpoint.identity(self.ansatz, self.operator))

    def restore(self, path: str | Path) -> None:
        """Continue from a checkpoint of the same ansatz and operator."""
        from tnvmc.run import checkpoint

        self.state = checkpoint.load(
            Path(path), checkpoint.identity(self.ansatz, self.operator), self.state.here
        )


def _check_parameters(ansatz: Ansatz, theta: Array) -> None:
    if tuple(theta.shape) != (ansatz.n_params,):
        raise ValueError(
            f"VMC: theta has shape {tuple(theta.shape)}, the ansatz has {ansatz.n_params} "
            "parameters; were they made for another D or lattice?"
        )
    if not math.isfinite(_norm(theta)):
        raise ValueError("VMC: theta holds numbers that are not finite")


def _norm(v: Array) -> float:
    xp = array_namespace(v)
    return math.sqrt(float(xp.sum(xp.abs(v) ** 2)))


def _statistics(found: Estimate, snapshot: Snapshot, acceptance: float | None) -> dict[str, Any]:
    return {
        "energy": float(found.mean),
        "energy_error": float(found.error),
        "variance": float(found.variance),
        "tau": None if snapshot.weight is not None else float(found.tau),
        "r_hat": None if snapshot.weight is not None else float(found.r_hat),
        "acceptance": acceptance,
        "closure_spread": _mean_spread(snapshot),
    }


def _mean_spread(snapshot: Snapshot) -> float | None:
    if snapshot.closure_spread is None:
        return None
    xp = array_namespace(snapshot.closure_spread)
    if snapshot.weight is not None:
        return float(xp.sum(snapshot.closure_spread * snapshot.weight))
    return float(xp.mean(snapshot.closure_spread))


def _v_score(operator: Operator, found: Estimate) -> float:
    """N var / (E - E_inf)^2, with E_inf the mean of the diagonal over all configurations."""
    return v_score(found.mean, found.variance, operator.n_sites, infinite_temperature(operator))


def infinite_temperature(operator: Operator) -> float:
    """Give tr H / dim: the energy at infinite temperature."""
    return float(sum(np.trace(t.matrix).real / t.matrix.shape[0] for t in operator.terms))


def with_chi(ansatz: Ansatz, chi: int) -> Ansatz:
    """Give the same state contracted with another chi, where it is contracted with one."""
    scheme = getattr(ansatz, "scheme", None)
    if not is_dataclass(scheme) or not hasattr(scheme, "chi"):
        return ansatz
    return ansatz.with_scheme(replace(scheme, chi=chi))  # type: ignore[attr-defined, type-var]


@functools.cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def blas_threads(limit: int | None) -> AbstractContextManager[Any]:
    """Limit the threads of BLAS inside a ``with`` block; None leaves them as they are."""
    return _blas().limit(limits=limit, user_api="blas")
