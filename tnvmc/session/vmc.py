"""VMC: lowers the energy of a wave function step by step, and measures it."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, overload

import numpy as np

from tnvmc.ansatz.initial import initial_parameters, starts_to_try
from tnvmc.ansatz.protocol import Ansatz, Targets
from tnvmc.backend.arguments import as_path, one_of, whole
from tnvmc.backend.device import namespace_of
from tnvmc.backend.mpi import ranks_of
from tnvmc.backend.namespace import array_namespace, read_only, to_namespace
from tnvmc.backend.progress import uninterrupted
from tnvmc.estimate.diagnostic import Diagnostic, warn_of
from tnvmc.estimate.statistics import ComplexEstimate
from tnvmc.operators.foreign import as_operator
from tnvmc.operators.term import NonHermitian, Operator, require_operator
from tnvmc.optimize.rule import Rates, Rule
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.configurations import in_sector, magnetisation_of
from tnvmc.sampling.moves import moves_for
from tnvmc.sampling.problem import Problem, Samples
from tnvmc.session import arguments
from tnvmc.session.calls import collective, steps_shown, work_shown
from tnvmc.trust.chi_scan import ChiScan, checked_chis, scan_chi
from tnvmc.trust.double_layer import scan_double_layer
from tnvmc.trust.energies import judged, of_steps
from tnvmc.vmc import checkpoint, evolution, step
from tnvmc.vmc.controllers import MeanOfIterates, paced
from tnvmc.vmc.core import Given, Iterate, Method, State, controlled
from tnvmc.vmc.history import History
from tnvmc.vmc.measured_iterate import measured_iterate
from tnvmc.vmc.measurement import MeasurementPlan, expect, measure
from tnvmc.vmc.orthogonal import LowerState, everywhere
from tnvmc.vmc.results import Expectation, Measurement, StepRecord
from tnvmc.vmc.trial import LEAST_STEPS, best_start

Array = Any

Callback = Callable[[StepRecord], object]
"""Sees the record of a step; True stops the run after it, all else goes on."""


class VMC:
    """Lowers the energy of an ansatz step by step, and measures it.

    >>> hamiltonian = heisenberg(square(6, 6))  # doctest: +SKIP
    >>> vmc = VMC(hamiltonian, PEPS(hamiltonian.lattice, D=4))  # doctest: +SKIP
    >>> history = vmc.run(60)  # doctest: +SKIP
    >>> print(vmc.measure(n_samples=8192, chi=16))  # doctest: +SKIP

    Args:
        operator: the Hamiltonian; one of quimb is taken as it is (`from_quimb`).
        ansatz: the wave function; see `tnvmc.ansatz.protocol.Ansatz`.
        sampler: `Sampler` (Markov chains), `DirectSampler` (independent draws, reweighted) or
            `Enumerate` (small systems, no noise).
        optimizer: `SR`, `GradientDescent`, `Adam`, or another `Rule`; by default
            SR whose S is averaged over steps (`AUTOMATIC`).
        theta: (P,) initial parameters; by default those of `initial_parameters`.
        learning_rate: a number; a function of the step; or "auto": a rate that follows the steps
            (`Paced`), and a measurement of the mean of the iterates, or of the last or the first
            where they are better (`vmc.measured_iterate`).  By default "auto" with `SR`, else 0.1.
        chi: "auto": a boundary bond dimension that grows with the effect of truncation on a step,
            up to that of the ansatz (`GrowingChi`); measurements take twice as much.  By default
            so for a PEPS with D >= 5 and no `scheme`.
        n_samples: "auto": a number that grows as noise comes to dominate the steps
            (`GrowingSamples`): of Markov chains whatever that of the sampler, of direct draws
            from it on.
        seed: key of all random numbers.
        configs: (W, N) where the walkers start; drawn when absent.
        magnetisation: twice the total Sz of the sector, where the operator conserves it; by default
            that of the sampler, of `configs` or of the operator's Hilbert space, else 0.
        moves: of Markov chains: names out of "flips", "exchanges", "pair_flips", "terms", or a
            table by patch; by default those that fit the operator (`moves_for`).
        orthogonal_to: states that this one is kept orthogonal to, each as the VMC that found it.
        penalty: energy of a full overlap with one of them, above the gap; by default
            `orthogonal.largest_change_by_a_site`.
        device: "cpu", "gpu" or "auto", where all arrays of the run live; by default where theta is.
        comm: of mpi4py, whose ranks share the work; all of them make the same calls, rank 0 leads.

    What is made of the arguments is `method`; all that changes from step to step is `state`, and
    `tnvmc.vmc.step.advance` is a function of the two: a run that goes on repeats the uninterrupted
    one bit for bit, but where the schedule looks at the clock.

    Raises:
        ValueError, TypeError: parts that do not fit each other; see `session.arguments`.
        OptimisationFailed: (from `run`) energies that stay infinite or undefined.
    """

    def __init__(
        self,
        operator: Operator,
        ansatz: Ansatz,
        sampler: Samples | None = None,
        optimizer: Rule | None = None,
        *,
        theta: Array | None = None,
        learning_rate: float | Callable[[int], float] | Literal["auto"] | None = None,
        n_samples: Literal["auto"] | None = None,
        chi: Literal["auto"] | None = None,
        seed: int = 0,
        configs: Array | None = None,
        magnetisation: int | None = None,
        moves: Sequence[str] | Targets | None = None,
        orthogonal_to: "VMC | LowerState | Sequence[VMC | LowerState]" = (),
        penalty: float | None = None,
        device: str | None = None,
        comm: Any = None,
    ) -> None:
        self.ranks = ranks_of(comm)  # first: from here on an error of one rank ends all
        operator = as_operator(operator, getattr(ansatz, "lattice", None))
        arguments.check_parts(operator, ansatz=ansatz, sampler=sampler, optimizer=optimizer)
        arguments.check_sites("VMC", operator, ansatz)
        ansatz = arguments.open_settings(operator, ansatz, theta, orthogonal_to)
        self.operator, self.ansatz = operator, ansatz
        sampler = Sampler() if sampler is None else sampler
        rule = arguments.rule_for(optimizer, ansatz)
        schedule = arguments.rates(learning_rate, rule)
        if schedule is None:
            rule = paced(rule, operator)
        seed = whole("VMC", "seed", seed, 0)
        arguments.check_sampler(sampler, ansatz, self.ranks, moves)
        table = moves_for(operator, moves)
        self.given = Given(theta is not None, configs is not None, moves)
        self._trial: tuple[tuple[Diagnostic, ...], float] = (), 0.0
        if theta is None:
            asked = (magnetisation, getattr(sampler, "magnetisation", None))
            theta = initial_parameters(ansatz, in_sector(operator, *asked), seed)
        theta = arguments.as_parameters(ansatz, theta)
        xp = array_namespace(theta) if device is None else namespace_of(device)
        theta = to_namespace(theta, xp)
        configs = arguments.start_configs(operator, sampler, configs, magnetisation, seed)
        configs = to_namespace(configs, xp)
        arguments.check_state(operator, ansatz, theta, configs)
        n_params, follows = ansatz.n_params, schedule is None
        controllers = (
            MeanOfIterates(theta, theta) if follows else None,
            arguments.growing_samples(n_samples, sampler, n_params, follows),
            arguments.growing_chi(chi, ansatz, sampler),
        )
        here = Iterate(theta, configs, rule.init(theta))
        self.state = State(0, here, controllers=tuple(each for each in controllers if each))
        self.begun, self.made = self.state, list[StepRecord]()  # for a folder that comes later
        sector = magnetisation_of(operator, configs)
        problem = Problem(ansatz, operator, operator.targets, table, seed, sector)
        self.method = Method(problem, sampler, rule, schedule or Rates(1.0))
        lower = arguments.lower_states(orthogonal_to, penalty, self.problem)
        arguments.check_orthogonal(ansatz, lower)
        if lower:
            self.method = replace(self.method, sampler=everywhere(sampler), orthogonal_to=lower)

    def __repr__(self) -> str:
        lattice = self.operator.lattice
        size = f"{lattice.kind} {lattice.size}"
        parts = f"{self.operator.name} on {size}, {self.problem.ansatz!r}, {self.method.sampler!r}"
        return f"<VMC: {parts}, {self.state.step} steps made>"

    @property
    def theta(self) -> Array:
        """(P,) the present parameters, read-only; those that are measured: `measured_theta`."""
        return read_only(self.state.here.theta)

    @collective
    def measured_theta(self) -> Array:
        """Give the parameters (P,) that `measure`, `expect` and `converge` evaluate, read-only.

        `theta`, those before a bad last update, or with learning_rate="auto" the mean of the
        iterates or the first ones (`vmc.measured_iterate`).  Cost: about two steps.
        """
        return read_only(measured_iterate(self.method, self.state)[0].theta)

    @property
    def problem(self) -> Problem:
        """What is solved, the ansatz with the chi of the next step where that grows."""
        return controlled(self.method, self.state).problem

    @collective
    def run(
        self,
        steps: int,
        callback: Callback | Sequence[Callback] | None = None,
        progress: bool = False,
        out: str | PathLike[str] | None = None,
    ) -> History:
        """Make `steps` more steps and give their records: a list with columns and pictures.

        An exception (Ctrl-C too) leaves `state` after the last finished step, whose callbacks
        have run.

        Args:
            steps: how many at most.
            callback: called with the record of each step, or a list of such functions; one that
                gives back True ends the run.
            progress: show a live line, in a terminal or a notebook.
            out: a folder that keeps the run as ``tnvmc run`` does, for all that read one: a new
                one, which gets the steps before too, or the same again.

        Raises:
            FolderError: `out` holds another run, which stays as it is; see `tnvmc.app.recording`.

        Warns:
            UnreliableWarning: at the end, as `tnvmc.trust.energies.of_steps` says.
        """
        steps, n_sites = whole("VMC.run", "steps", steps, 0), self.operator.n_sites
        controlled(self.method, self.state).sampler.warn_if_rounded("n_samples")
        callbacks, stop = arguments.as_callbacks(callback), False
        records = History([], n_sites, self.operator.units)
        recorded: Any = nullcontext(lambda record: None)
        if out is not None:
            recorded = _recording().recorded_steps(self, out, steps)
        if not self.given.theta:
            self.choose_start(steps)
        with recorded as keep, steps_shown(progress, steps, n_sites) as show:

            def observe(record: StepRecord) -> None:
                nonlocal stop
                keep(record)
                answers = [each(record) for each in callbacks]
                # Nothing else that is true: a function in one line gives back anything.
                stop = any(isinstance(each, bool | np.bool_) and each for each in answers)

            for _ in range(steps):
                records.append(self.step(observe))
                show(records[-1])
                if stop:
                    break
        warn_of(of_steps(records, self.problem, self.method.sampler, self.state), "VMC.run")
        return records

    @collective
    def choose_start(self, steps: int = LEAST_STEPS) -> None:
        """Go on from the best of the starts of a PEPS, after a few steps from each of them.

        `run` does so by itself where no theta was given.  The record of the first step says what
        was tried (starts_tried), or that of fewer than 40 `steps` nothing was (start_not_compared).
        Nothing is done after the first step, nor for a state that has one start, or is kept
        orthogonal to others.

        Cost: about that of ten steps; see `tnvmc.vmc.trial`.
        """
        if not steps or self.state.step or self._trial[0] or not self.method.tries_starts:
            return
        began = perf_counter()
        problem, here = self.problem, self.state.here
        thetas = starts_to_try(
            self.ansatz, in_sector(self.operator, problem.magnetisation), problem.seed, here.theta
        )
        if steps < LEAST_STEPS and len(thetas) > 1:
            values = {"start": self.ansatz.starts[0], "least": LEAST_STEPS}
            self._trial = (Diagnostic("start_not_compared", "open", values),), 0.0
        if steps < LEAST_STEPS or len(thetas) < 2:
            return
        theta, found = best_start(self.method, self.state, thetas)
        if theta is not here.theta:
            here = Iterate(theta, here.configs, self.method.rule.init(theta))
            mean = self.state.controller(MeanOfIterates)
            self.state = replace(self.state, here=here)
            if mean is not None:
                self.state = self.state.with_controller(MeanOfIterates(theta, theta))
        self._trial = (found,), perf_counter() - began

    @collective
    def step(self, callback: Callable[[StepRecord], object] | None = None) -> StepRecord:
        """Make one step, and warn of nothing; otherwise as `run`."""
        kind = evolution if self.method.rule.in_time else step
        state, record = kind.advance(self.method, self.state)
        if self._trial[0]:
            (told, seconds), self._trial = self._trial, ((), 0.0)
            diagnostics = (*told, *record.diagnostics)
            record = replace(record, diagnostics=diagnostics, seconds=record.seconds + seconds)
        with uninterrupted():
            self.state = state
            self.made.append(record)
            if callback is not None:
                callback(record)
        return record

    @collective
    def measure(
        self,
        n_samples: int | None = None,
        chi: int | None = None,
        n_burn: int | None = None,
        n_thin: int | None = None,
        symmetries: Sequence[str] = (),
        sampler: Samples | None = None,
        progress: bool = False,
        out: str | PathLike[str] | None = None,
        error: float | None = None,
    ) -> Measurement:
        """Measure the energy of the present parameters; `state` stays as it is.

        The parameters are those of `measured_theta`, and `diagnostics` say why where they are not
        the last ones; `expect` and `converge` do the same.

        Args:
            n_samples: as in the optimisation by default.
            chi: boundary bond dimension, for an ansatz that has one; by default that of the steps,
                and twice that of the next step where it grows.
            n_thin: sweeps between draws.
            n_burn: sweeps before the first draw; by default 50 less the steps made, at least 10,
                and until energies no longer drift (`vmc.measurement.forgotten`).
            symmetries: "spin", "point", "translation", restored by `vmc.characters.symmetrised`.
            sampler: in place of that of the optimisation.
            progress: show how far it is.
            out: the folder that keeps the run: result.json there becomes this measurement.
            error: of the energy per site; `vmc.measurement.enough` draws the samples it takes.

        Raises:
            FolderError: `out` does not hold this state.
            NotSymmetric: the Hamiltonian or the state lacks a symmetry.

        Warns:
            UnreliableWarning: for each of its `diagnostics` that is a warning or an error.
        """
        plan = MeasurementPlan(n_samples, chi, n_burn, n_thin, symmetries, sampler, error)
        recorded: Any = nullcontext(lambda measured: judged(measured, self.method.orthogonal_to))
        if out is not None:
            recorded = _recording().recorded_result(self, out, plan)
        with recorded as keep, work_shown(progress):
            found: Measurement = keep(measure(self.method, self.state, plan)).measurement
        warn_of(found.diagnostics, "VMC.measure")
        return found

    @overload
    def expect(
        self, operator: Operator, n_samples: int | None = None, chi: int | None = None,
        n_burn: int | None = None, progress: bool = False,
    ) -> Expectation: ...  # fmt: skip

    @overload
    def expect(
        self, operator: NonHermitian, n_samples: int | None = None, chi: int | None = None,
        n_burn: int | None = None, progress: bool = False,
    ) -> ComplexEstimate: ...  # fmt: skip

    @collective
    def expect(
        self,
        operator: Operator | NonHermitian,
        n_samples: int | None = None,
        chi: int | None = None,
        n_burn: int | None = None,
        progress: bool = False,
    ) -> Expectation | ComplexEstimate:
        """Estimate <operator>, a total, in the present state, at the cost of `measure`.

        Where the Hamiltonian conserves the magnetisation the state is that in the sector of the
        walkers, so <Sx> is 0.  Of a `NonHermitian` both Hermitian parts are estimated.

        Raises:
            ValueError: an operator on another lattice, or one for another sector.

        Warns:
            UnreliableWarning: as `measure`, but that the exact value is not known.
        """
        operator = as_operator(operator, self.operator.lattice)
        if isinstance(operator, NonHermitian):
            real, imaginary = (
                self.expect(part, n_samples, chi, n_burn, progress)
                for part in (operator.real, operator.imaginary)
            )
            return ComplexEstimate(real, imaginary)
        require_operator("VMC.expect", "operator", operator)
        arguments.check_observable("VMC.expect", operator, self.problem)
        plan = MeasurementPlan(n_samples, chi, n_burn)
        with work_shown(progress):
            found = expect(self.method, self.state, operator, plan)
        warn_of(found.diagnostics, "VMC.expect")
        return found

    @collective
    def converge(
        self,
        chis: Sequence[int] | None = None,
        n_samples: int | None = None,
        n_burn: int | None = None,
        symmetries: Sequence[str] = (),
        double_layer: bool | None = None,
        progress: bool = False,
    ) -> ChiScan:
        """Measure the energy at several chi on the same configurations, and without any.

        Configurations are drawn at the largest chi and reweighted for the others, so that noise
        cancels in the differences.  The double layer of a PEPS gives an energy without noise, in
        the same sector, at a chi of its own.  `diagnostics` say whether the two agree.

        Args:
            chis: 1, 1.5 and 2 times the chi of the next step by default.
            n_samples, n_burn, symmetries, progress: those of `measure`.
            double_layer: None takes it where it is done within `MAX_SECONDS`; True always; False
                never.  Its chi is D^2 / 2, D^2, ... until the energy stays.

        Cost: `measure` at the largest chi, and one measurement without a sweep per sample at
        each other chi; of the double layer that of `estimated_cost`.

        Raises:
            ValueError: an ansatz that is contracted without chi; a chi below 1; fewer than two;
                a double layer that was asked for and cannot be had; and as `measure`.
        """
        plan = MeasurementPlan(n_samples, None, n_burn, None, symmetries)
        with work_shown(progress):
            found = converge(self, plan, chis, double_layer)
        warn_of(found.diagnostics, "VMC.converge")
        return found

    @collective
    def save(self, path: str | Path) -> None:
        """Write a checkpoint, atomically; see `tnvmc.vmc.checkpoint`."""
        checkpoint.save(as_path("VMC.save", path), self.state, self.method)

    def restore(self, path: str | Path, archived: bool = False) -> None:
        """Continue from a checkpoint of the same ansatz, operator and sector.

        With `archived` one of `tnvmc archive` is taken too, whose state can be measured.

        Raises:
            StateFileError: see `checkpoint.load`; one of the two learning rates is "auto".
            ValueError: its walkers have another magnetisation.
        """
        path = as_path("VMC.restore", path)
        found = checkpoint.load(path, self.method, self.state, archived)
        arguments.check_restored(path, self.operator, found, self.state)
        self.state, self.made, self._trial = found, [], ((), 0.0)


def _recording() -> Any:
    from tnvmc.app import recording  # it loads the settings of files, which takes time

    return recording


def converge(
    vmc: VMC, plan: MeasurementPlan, chis: Sequence[int] | None, double_layer: bool | None
) -> ChiScan:
    """Carry out `VMC.converge`, by a plan whose chi is left open; warn of nothing."""
    chis = checked_chis(vmc.problem.ansatz, chis)
    one_of("converge", "double_layer", double_layer, (None, True, False))
    measured = measure(vmc.method, vmc.state, replace(plan, chi=max(chis)))
    measured = judged(measured, vmc.method.orthogonal_to, final=False)
    samples = scan_chi(measured, chis, vmc.method.sampler.threads, one_in=1)
    return samples.with_double_layer(scan_double_layer(measured, double_layer))
