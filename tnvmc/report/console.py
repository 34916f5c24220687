"""What a run shows: live progress on a terminal, plain lines elsewhere, and the final table."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tnvmc.ansatz.initial import start_described
from tnvmc.ansatz.peps.starts.gates import plan_gates
from tnvmc.ansatz.peps.starts.initial import AUTO
from tnvmc.backend.device import describe
from tnvmc.backend.process import in_use
from tnvmc.backend.progress import OutputLost
from tnvmc.lattice.embedding import Bonds, embedding
from tnvmc.operators.fermions import sector_text as named_sector
from tnvmc.operators.term import Operator
from tnvmc.report.describe import (
    DRAWS,
    measured_numbers,
    parameters_text,
    sampling_parts,
    sector_text,
    symmetries_text,
)
from tnvmc.report.live import Bar, Output, can_show, console_on, step_note, step_numbers, working
from tnvmc.report.numbers import known_energy, relative_error
from tnvmc.settings.config import Settings
from tnvmc.settings.stages import stages_of
from tnvmc.shown import duration, fixed, line, sentence, told_of, with_error
from tnvmc.trust.finished_run import diagnostics_of, to_heed, verdict
from tnvmc.vmc.measured_iterate import ENOUGH, FEWEST, steps_of_choice
from tnvmc.vmc.results import StepRecord
from tnvmc.vmc.trial import LEAST_STEPS

_PLAIN_LINES = 20


class RunConsole:
    """Shows steps as they come; on a terminal one live line, elsewhere a line every few steps.

    The run ends after `steps`, or once the steps have taken `seconds`.  Every method raises
    `OutputLost` where nothing can be shown any more.
    """

    def __init__(self, steps: int, n_sites: int, seconds: float | None = None) -> None:
        self._output = Output(sys.stdout)
        self.console = console_on(self._output)
        self._steps = steps
        self._n_sites = n_sites
        self._seconds = seconds
        self.used = 0.0  #: of the seconds
        self._exact: float | None = None
        self._bar: Bar | None = None

    @contextmanager
    def live(self, done: int, exact: float | None) -> Iterator[None]:
        """Show the live line inside the block; `exact` is the total energy to compare with."""
        self._exact = exact
        if not can_show(self.console) or done >= self._steps:
            yield
            return
        begin = self.used if self._seconds else done
        with Bar(self.console, self._seconds or self._steps, begin) as self._bar:
            yield
        self._bar = None

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Say that a measurement is made inside the block, and show how far it is."""
        self.say("measuring")
        with working(self.console, begun=True):
            yield

    def expect(self, steps: int) -> None:
        """Change the number of steps that the run is to make."""
        self._steps = steps
        if self._bar is not None and not self._seconds:
            self._bar.expect(steps)

    def say(self, text: str) -> None:
        """Print a line, above the live one where there is one."""
        self.console.print(text, markup=False, soft_wrap=True)
        self._check_output()

    def _check_output(self) -> None:
        if self._output.lost:
            raise OutputLost

    def result(self, result: Mapping[str, Any]) -> None:
        """Print a verdict, the final table, and what is to be heeded, from result.json."""
        found = diagnostics_of(result)
        self.say(sentence(verdict(found)))
        self.console.print(rows_table(result_rows(result)))
        self._check_output()
        for diagnostic in to_heed(found):
            self.say(line(diagnostic))

    def step(self, record: StepRecord) -> None:
        """Show one step; what happened to it, if anything did, gets a line of its own."""
        number, before = record.step + 1, self.used
        if told := step_note(record):
            self.say(f"step {number}: {told}")
        parts = step_numbers(record, self._n_sites, self._exact)
        numbers = " ".join(parts)
        self.used += record.seconds
        if self._bar is not None:
            self._bar.update(self.used if self._seconds else number, *parts)
        elif self._seconds:
            lines = [int(_PLAIN_LINES * used / self._seconds) for used in (before, self.used)]
            if lines[0] < lines[1] or number == 1:
                self.say(f"step {number:>4}  {self.used:.1f}/{self._seconds:g} s  {numbers}")
        elif record.step % max(1, self._steps // _PLAIN_LINES) == 0 or number == self._steps:
            self.say(f"step {number:>4}/{self._steps}  {numbers}  {record.seconds:.2f} s")
        self._check_output()


def embedding_text(operator: Operator, bonds: Bonds = "open") -> str:
    """Say in a line how a lattice lies on the grid of a PEPS; empty on a plain grid.

    Moves of terms "beyond" take contractions of the whole network.
    """
    found = embedding(operator.lattice, bonds)
    n_rows, n_cols = found.shape
    along, beside, far = found.served(term.sites for term in operator.terms)
    if found.complete and not found.rings and not beside and not far:
        return ""
    closing = n_rows if found.rings else 0
    narrow = 2 * n_rows * n_cols - n_rows - n_cols + closing - len(found.bonds)
    counts = {
        "sites": len(found.places), "rows": n_rows, "columns": n_cols, "vacant": found.n_vacant,
        "bonds": len(found.bonds), "closing": closing, "narrow": narrow, "along": along,
        "beside": beside, "far": far, "in_mean": len(plan_gates(operator, bonds).far),
    }  # fmt: skip
    return told_of("lines", "embedding", counts)


def headline(
    settings: Settings, operator: Operator, n_params: int, counted: Mapping[str, int] | None = None
) -> str:
    """Say in a line what a run does, from its completed settings.

    `counted` is "sharing" of result.json, where tensors are shared.
    """
    rows, _ = operator.lattice.shape
    size = f"{operator.n_sites} sites" if rows == 1 else operator.lattice.size
    chosen, stages = settings.ansatz, stages_of(settings)
    sizes = ", ".join(str(D) for D in dict.fromkeys(stage.D for stage in stages) if D)
    factors = [f"{each.kind}{f' D={each.D}' if each.D else ''}" for each in chosen.factors.values()]
    kind = " x ".join(factors) or chosen.kind
    state = " ".join([kind, *([f"D={sizes}"] if sizes else []), str(chosen.dtype or chosen.module)])
    if summed := symmetries_text(chosen.model_dump(), counted):
        state += f", {summed}"
    start, D, before = chosen.init, stages[0].D, (start_described(chosen.init) or {}).get("D")
    if before and D and before != D:
        start += f" ({'cut' if before > D else 'grown'} from D = {before})"
    if start == AUTO:
        tries = chosen.init_noise is None and stages[0].settings.optimizer.steps >= LEAST_STEPS
        start = f"the {'best' if tries else 'first'} of its starts"
    if (product := getattr(settings.optimizer, "product", None)) is not None:
        start = f"the product state of largest {product}"
    if chosen.init_noise is not None:
        start += f" with noise of {chosen.init_noise:g}"
    steps = f"{sum(stage.settings.optimizer.steps for stage in stages)} steps"
    if settings.optimizer.seconds:
        steps = f"{settings.optimizer.seconds:g} s"
    until = f" up to {t:g}" if (t := getattr(settings.optimizer, "t", None)) else ""
    sector = named_sector(None, settings.sampler.particles)
    return (
        f"{operator.name}, {operator.lattice.kind} {size} {operator.lattice.boundary}"
        f"{sector and f', {sector}'}; {state}, "
        f"{n_params} parameters{parameters_text({'sharing': counted})} from {start}; "
        f"{settings.optimizer.kind}{until}, "
        + (f"{steps} in {len(stages)} stages" if settings.stage else steps)
        + "".join(f"; {part}" for part in sampling_parts(settings.sampler.model_dump()))
        + ("" if settings.run.device == "cpu" else f"; {describe(settings.run.device)}")
        + (f"; {in_use().size} ranks" if in_use().size > 1 else "")
    )


def after_steps(settings: Settings) -> list[str]:
    """Say what follows the steps, and how long choosing what is measured takes beside them."""
    own = stages_of(settings)[-1].settings
    sampler, steps = own.sampler, 1.0
    if own.sampler_kind != "metropolis" or not own.optimizer.steps:
        return []
    if own.optimizer.learning_rate == "auto" and own.optimizer.steps >= FEWEST:
        given = ENOUGH if sampler.n_samples == "auto" else sampler.n_samples
        steps = steps_of_choice(sampler.n_walkers, given)
    choice = f"{steps:.0f} steps" if round(steps) > 1 else "1 step"
    more = f"{own.measure.n_samples} samples to measure them"
    return [f"after the steps: the time of {choice} to choose parameters, {more}"]


def nothing_to_do(result: Mapping[str, Any]) -> str:
    """Say why a finished run does not go on."""
    steps, stopped = result["steps"], result.get("stopped")
    if stopped in (None, "steps"):
        return f"nothing to do: all {steps} steps were made"
    return f"nothing to do: the {stopped} ended it after {steps} steps"


def rows_table(rows: Iterable[tuple[str, str]]) -> Any:
    """Make a table of names and values for a terminal."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for row in rows:
        table.add_row(*row)
    return table


def result_rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the rows of the final table; what is not known, but for the reference, is left out."""
    energy, exact = result["energy_per_site"], result["exact_energy_per_site"]
    shown = "not finite"
    if energy is not None:
        error = result["energy_per_site_error"]
        shown = f"{fixed(energy, 8)} +- unknown" if error is None else with_error(energy, error)
        shown += f"  ({result['units']} units)"
    yield "energy per site", shown
    if sector := sector_text(result):
        yield "sector", sector
    for number, each in enumerate(result.get("overlaps", ()), 1):
        yield f"|overlap {number}|^2", with_error(each["squared"], each["error"])
    known = "not known"
    if exact is not None:
        error = (result.get("exact_error") or 0.0) / result["n_sites"]
        known = f"{known_energy(exact, error)}  ({result['exact_source']})"
    yield result["exact_method"] or "exact", known
    if off := relative_error(result):
        yield "relative error", off
    if result["variance"] is not None:
        yield "variance per site", f"{result['variance'] / result['n_sites']:.3e}"
    yield from measured_numbers(result, ("v_score", *DRAWS, "n_samples"))
    yield "walltime", duration(result["wall_time_s"])
