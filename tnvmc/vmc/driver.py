"""The optimisation: sample, local energies, estimate, direction, guarded update."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from tnvmc.ansatz.initial.parameters import check_lattices, initial_parameters
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.backend.device import DeviceError, namespace_of
from tnvmc.backend.interrupts import uninterrupted
from tnvmc.backend.namespace import array_namespace, to_namespace
from tnvmc.backend.threads import one_blas_thread
from tnvmc.estimate.statistics import Estimate, v_score
from tnvmc.operators.term import Operator
from tnvmc.optimize.rule import NonFiniteError
from tnvmc.optimize.sr import SR
from tnvmc.sampling.chains import Sampler, initial_configs
from tnvmc.sampling.direct import DirectSampler
from tnvmc.sampling.moves import moves_for
from tnvmc.vmc.guard import Guard, Recent
from tnvmc.vmc.look import AnySampler, Enumerate, Look, chi_of, look_at, n_walkers_of, with_chi
from tnvmc.vmc.state import ChiLadder, Measurement, Point, State, StepRecord

Array = Any

_MEASURE_STREAM = 2**31  # steps from here on are never reached by an optimisation


class OptimisationFailed(ArithmeticError):
    """The energy stayed infinite or undefined, whatever was tried."""


@dataclass(frozen=True)
class _Outcome:
    """Where a step leads, and what is told of it."""

    state: State
    step_norm: float = 0.0
    note: str | None = None
    info: Mapping[str, Any] = field(default_factory=dict)


_NOTHING_SEEN: dict[str, Any] = {
    **dict.fromkeys(("energy", "energy_error", "variance"), math.nan),
    **dict.fromkeys(("tau", "r_hat", "acceptance", "closure_spread", "effective_samples")),
}


class VMC:
    """Lowers the energy of an ansatz step by step, and measures it.

    >>> hamiltonian = heisenberg(square(6, 6))  # doctest: +SKIP
    >>> vmc = VMC(hamiltonian, PEPS(hamiltonian.lattice, D=4))  # doctest: +SKIP
    >>> history = vmc.run(60)  # doctest: +SKIP
    >>> print(vmc.measure(n_samples=8192, chi=16))  # doctest: +SKIP

    Args:
        operator: the Hamiltonian.
        ansatz: the wave function; see `tnvmc.ansatz.protocol.Ansatz`.
        sampler: `Sampler` (Markov chains), `DirectSampler` (independent draws, reweighted) or
            `Enumerate` (small systems, no noise).
        optimizer: `SR`, `GradientDescent`, `RandomSign` or `Adam`.
        theta: (P,) initial parameters; by default those of `initial_parameters`.
        learning_rate: a number, or a schedule: a function of the step.
        seed: key of all random numbers.
        guard: limits on steps; see `Guard`.
        configs: (W, N) where the walkers start; drawn when absent.
        magnetisation: twice the total Sz of drawn configs, where the operator conserves it.
        device: "cpu", "gpu" or "auto"; by default where theta lies.  All arrays of the run live
            there; only the records of steps come back.

    The whole memory between steps is `state`; `advance` is a function of it, so a run continued
    from a saved state repeats the uninterrupted one bit for bit.  Not so where the schedule looks
    at the clock, as that of `optimizer.seconds` does.

    Raises:
        ValueError: two lattices; theta of a wrong shape or not finite; see also `initial_configs`, `moves_for`.
        OptimisationFailed: (from `run`) energies that stay infinite or undefined.
    """

    def __init__(
        self,
        operator: Operator,
        ansatz: Ansatz,
        sampler: AnySampler | None = None,
        optimizer: Any = None,
        *,
        theta: Array | None = None,
        learning_rate: float | Callable[[int], float] = 0.1,
        seed: int = 0,
        guard: Guard | None = None,
        configs: Array | None = None,
        magnetisation: int = 0,
        device: str | None = None,
    ) -> None:
        check_lattices(operator, ansatz)
        self.operator = operator
        self.ansatz = ansatz
        self.sampler = Sampler() if sampler is None else sampler
        self.optimizer = SR() if optimizer is None else optimizer
        self.schedule = learning_rate if callable(learning_rate) else lambda _: learning_rate
        self.seed = seed
        self.guard = Guard() if guard is None else guard
        self.moves = moves_for(operator)
        if theta is None:
            theta = initial_parameters(ansatz, operator, seed)
        xp = array_namespace(theta) if device is None else namespace_of(device)
        theta = to_namespace(theta, xp)
        _check_parameters(ansatz, theta)
        if configs is None:
            n_configs = getattr(self.sampler, "n_configs", n_walkers_of(self.sampler))
            configs = initial_configs(operator, n_configs, seed, magnetisation)
        configs = to_namespace(configs, xp)
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
        """Make one step: a function of the state, and of the clock where the schedule reads it."""
        started = perf_counter()
        learning_rate = self.schedule(state.step) * state.recent.scale
        look = None
        try:
            look = self._look(state.here, self.sampler, self.ansatz, state.step)
            objection = self._objection(state.recent, look.found)
        except DeviceError:  # no smaller step makes room
            raise
        except ValueError as error:  # psi vanishes, or a decomposition failed
            if state.good is None:
                raise
            objection = str(error)
        if look is None or objection is not None and self._can_undo(state, look.found):
            outcome = self._undone(state, state.good or state.here, str(objection))
        else:
            outcome = self._moved(state, look, learning_rate)
        record = StepRecord(
            **(_NOTHING_SEEN if look is None else look.statistics()),
            step=state.step,
            learning_rate=learning_rate,
            step_norm=outcome.step_norm,
            undone=outcome.state.good is None,
            note=outcome.note,
            optimizer=outcome.info,
            seconds=perf_counter() - started,
        )
        return outcome.state, record

    def _look(
        self, point: Point, sampler: AnySampler, ansatz: Ansatz, step: int, jacobian: bool = True
    ) -> Look:
        return look_at(point, sampler, ansatz, self.operator, self.moves, self.seed, step, jacobian)

    def _objection(self, recent: Recent, found: Estimate) -> str | None:
        return self.guard.objection(recent, found.mean, found.variance, self.operator.n_sites)

    @staticmethod
    def _can_undo(state: State, found: Estimate) -> bool:
        """Tell whether a retry can differ: elsewhere, or with other samples of what failed here."""
        return state.good is not None or not math.isfinite(found.mean + found.variance)

    def _moved(self, state: State, look: Look, learning_rate: float) -> _Outcome:
        """Change theta."""
        here, found = look.point, look.found
        assert look.snapshot.jacobian is not None
        try:
            # One thread: the same bits for any number of workers, and on a shared machine
            # BLAS threads that wait for each other took 20 times as long.
            with one_blas_thread():
                direction, optimizer, info = self.optimizer.direction(
                    here.theta, look.snapshot.jacobian, look.local, look.snapshot.weight,
                    here.optimizer, (self.seed, state.step),
                )  # fmt: skip
        except NonFiniteError as error:
            return self._undone(state, here, str(error))
        norm = _norm(direction)
        if not math.isfinite(norm):
            return self._undone(state, here, "direction not finite")
        factor = self.guard.shortened(state.recent, norm, learning_rate, _norm(here.theta))
        theta = here.theta - (learning_rate * factor) * direction
        recent = self.guard.accepted(
            state.recent, found.mean, found.error, found.variance, norm * factor,
            retried=state.good is None and state.recent.rollbacks > 0,
        )  # fmt: skip
        return _Outcome(
            State(state.step + 1, Point(theta, here.configs, optimizer), here, recent),
            learning_rate * factor * norm,
            f"step shortened to {factor:.2g} of its length" if factor < 1 else None,
            info,
        )

    def _undone(self, state: State, back: Point, reason: str) -> _Outcome:
        """Go back (or stay) and let the next steps be shorter."""
        recent = self.guard.rejected(state.recent)
        if recent.rollbacks > self.guard.patience:
            chi = "" if chi_of(self.ansatz) is None else "contraction.chi or "
            raise OptimisationFailed(
                f"step {state.step}: {reason}; so it went {recent.rollbacks} times in a row, with "
                f"ever smaller steps. Start from other parameters, raise {chi}optimizer.diag_shift"
            )
        note = f"{reason}: step undone, next ones shorter"
        return _Outcome(State(state.step + 1, back, None, recent), note=note)

    def measure(
        self,
        n_samples: int | None = None,
        chi: int | None = None,
        n_burn: int = 10,
        n_thin: int | None = None,
        chis: Sequence[int] = (),
        symmetries: Sequence[str] = (),
        sampler: AnySampler | None = None,
    ) -> Measurement:
        """Measure the energy of the present parameters, which stay as they are.

        Where the last update led astray (by the guard's rule) the parameters before it are
        measured, and `note` says so.  `chi` is the boundary bond dimension of the measurement,
        for an ansatz that has one.  With `chis` a part of the samples is measured again at each of
        them, see `converge`.  `symmetries` ("spin", "point") are restored in what is measured; see
        `tnvmc.vmc.characters.symmetrised`.  `sampler` takes the place of that of the optimisation,
        with its own number of samples unless `n_samples` is given.  `state` stays as it is.

        Raises:
            NotSymmetric: the Hamiltonian or the state lacks a symmetry.
        """
        return self._measured(
            n_samples, chi, n_burn, n_thin, chis, symmetries=symmetries, sampler=sampler
        )

    def expect(
        self,
        operator: Operator,
        n_samples: int | None = None,
        chi: int | None = None,
        n_burn: int = 10,
    ) -> Estimate:
        """Estimate <operator> in the present state, in new samples of its own.

        Where the Hamiltonian conserves the magnetisation the state is that in the sector of the
        walkers, so <Sx> is 0.  Cost: as `measure`; nothing is shared between calls.

        Raises:
            ValueError: an operator on another lattice.
        """
        from tnvmc.vmc.expect import expect

        return expect(self, operator, n_samples, chi, n_burn)

    def converge(
        self,
        chis: Sequence[int] | None = None,
        n_samples: int | None = None,
        n_burn: int = 10,
        n_thin: int | None = None,
        symmetries: Sequence[str] = (),
    ) -> ChiLadder:
        """Measure the energy at several chi on the same configurations.

        They are drawn from |psi|^2 at the largest chi, where weights (|psi_chi|^2 over that, for
        the others) are closest to even; what they share cancels in the differences.  `chis`
        defaults to 1, 1.5 and 2 times the chi of the ansatz; `symmetries` are those of `measure`.
        Cost: `measure` at the largest chi, and one measurement without a sweep per sample at
        each other chi.

        Raises:
            ValueError: an ansatz that is contracted without chi; a chi below 1; fewer than two;
                and as `measure`.
        """
        from tnvmc.analysis.convergence import checked_chis

        chis = checked_chis(self.ansatz, chis)
        measured = self._measured(n_samples, max(chis), n_burn, n_thin, chis, 1, symmetries)
        assert measured.ladder is not None
        return measured.ladder

    def _measured(
        self,
        n_samples: int | None,
        chi: int | None,
        n_burn: int,
        n_thin: int | None,
        chis: Sequence[int],
        every: int | None = None,
        symmetries: Sequence[str] = (),
        sampler: AnySampler | None = None,
    ) -> Measurement:
        """Measure, at other chi too on one in `every` draws."""
        started = perf_counter()
        ansatz = self.ansatz if chi is None else with_chi(self.ansatz, chi)
        sampler = self.sampler if sampler is None else sampler
        if symmetries:
            from tnvmc.vmc.characters import symmetrised

            ansatz = symmetrised(
                ansatz, self.operator, symmetries, theta=self.theta,
                configs=self.state.here.configs, seed=self.seed, threads=sampler.threads,
            )  # fmt: skip
        if isinstance(sampler, Sampler):
            sampler = replace(
                sampler,
                n_samples=n_samples or sampler.n_samples,
                n_burn=n_burn,
                n_thin=n_thin or sampler.n_thin,
                precision=None if symmetries else sampler.precision,
                power=1.0,
            )
        elif isinstance(sampler, DirectSampler):
            sampler = replace(sampler, n_samples=n_samples or sampler.n_samples)
        step, note = _MEASURE_STREAM + self.state.step, None
        look = self._look(self.state.here, sampler, ansatz, step, jacobian=False)
        objection = self._objection(self.state.recent, look.found)
        if objection is not None and self.state.good is not None:
            note = f"{objection}: measured without the last update"
            started = perf_counter()
            look = self._look(self.state.good, sampler, ansatz, step, jacobian=False)
        found = look.found
        measurement = Measurement(
            **look.statistics(),
            v_score=v_score(
                found.mean, found.variance, self.operator.n_sites,
                self.operator.infinite_temperature_energy,
            ),
            n_sites=self.operator.n_sites,
            n_parameters=self.ansatz.n_params,
            n_samples=int(look.snapshot.configs.shape[0]),
            seconds=perf_counter() - started,
            units=self.operator.units,
            note=note,
            precision_shift=look.precision_shift,
        )  # fmt: skip
        if not chis:
            return measurement
        from tnvmc.analysis.convergence import climb

        ladder = climb(
            self.operator, ansatz, look.point.theta, look.snapshot, look.local, chis,
            n_walkers=n_walkers_of(sampler), threads=sampler.threads,
            exact=isinstance(sampler, Enumerate), every=every,
        )  # fmt: skip
        return replace(measurement, ladder=ladder)

    def save(self, path: str | Path) -> None:
        """Write a checkpoint, atomically; see `tnvmc.storage.checkpoint`."""
        from tnvmc.storage import checkpoint

        checkpoint.save(Path(path), self.state, checkpoint.identity(self.ansatz, self.operator))

    def restore(self, path: str | Path) -> None:
        """Continue from a checkpoint of the same ansatz and operator."""
        from tnvmc.storage import checkpoint

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
