"""Live lines: a bar in a terminal or a notebook; elsewhere nothing, or now and then a line."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Self, cast

from tnvmc.backend.progress import watched
from tnvmc.shown import duration, phase_name, step_sentence, with_error
from tnvmc.vmc.results import StepRecord

_EVEN = 0.9  # effective part of the samples of a step below which it is shown
# Numbers that a narrow terminal has no room for.
_DROPPED_FIRST = ("worth", "rel.err", "acc", "var/N")
_BAR, _TIME = 8, 7  # widths of columns
_BETWEEN_PICTURES = 0.25  # seconds between two of a notebook
_FIRST_LINES, _LAST_LINES = 5.0, 80.0  # seconds between lines of a log, twice the last each time


class Output:
    """Standard output that can be lost: a thread that draws writes to it too, and must not fail."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.lost = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, or note that it is lost."""
        return self._try(self._stream.write, text) or 0

    def flush(self) -> None:
        """Flush, or note that it is lost."""
        self._try(self._stream.flush)

    def _try(self, call: Callable[..., Any], *arguments: Any) -> Any:
        if not self.lost:
            try:
                return call(*arguments)
            except (OSError, ValueError):  # or closed
                self.lost = True
        return None


def console_on(stream: Any) -> Any:
    """Make a console that survives the loss of its stream."""
    from rich.console import Console

    return Console(file=cast(IO[str], stream), highlight=False)


def can_show(console: Any) -> bool:
    """Tell whether a console is a terminal or a notebook."""
    return bool(console.is_terminal or console.is_jupyter)


_in_logs = False  # whether phases are told where nobody looks


@contextmanager
def told_in_logs() -> Iterator[None]:
    """Say on standard output what `working` shows inside the block, wherever it goes."""
    global _in_logs
    before, _in_logs = _in_logs, True
    try:
        yield
    finally:
        _in_logs = before


class Bar:
    """A bar with numbers beside it and the time that is left.

    In a notebook it is one output that is drawn anew, with nothing to install beside the notebook.
    """

    def __init__(self, console: Any, total: float, done: float = 0, *, counts: bool = True) -> None:
        from rich import progress

        self._progress = progress.Progress(
            progress.MofNCompleteColumn() if counts else progress.TimeElapsedColumn(),
            progress.BarColumn(bar_width=_BAR),
            progress.TextColumn("{task.fields[numbers]}"),
            progress.TimeRemainingColumn(compact=True),
            console=console,
            transient=not counts,
        )
        self._task = self._progress.add_task("", total=total, numbers="")
        self._progress.update(self._task, completed=done)
        self._notebook = bool(console.is_jupyter)
        self._console, self._total, self._counts = console, total, counts
        self._handle: Any = None
        self._drawn_at = -float("inf")

    def __enter__(self) -> Self:
        if not self._notebook:
            self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._notebook:
            self._draw()
        else:
            self._progress.stop()

    def begin(self, numbers: str, total: float | None) -> None:
        """Begin from nothing, with a new estimate of the time; without one it moves to and fro."""
        self._progress.reset(self._task, numbers=self._fitting([numbers]))
        self._progress.tasks[0].total = total  # what Rich takes None for is "as before"
        self._draw_now_and_then()

    def update(self, done: float, *numbers: str) -> None:
        """Show how much is done, and of the numbers those for which there is room."""
        self._progress.update(self._task, completed=done, numbers=self._fitting(numbers))
        self._draw_now_and_then()

    def _fitting(self, numbers: Sequence[str]) -> str:
        """Numbers in a line that leaves the other columns room; the first is always shown."""
        count = 2 * len(f"{self._total:.0f}") + 1 if self._counts else _TIME
        room, kept = self._console.width - count - _BAR - _TIME - 3, list(numbers)
        for name in _DROPPED_FIRST:
            if len(" ".join(kept)) > room:
                kept = [each for each in kept if not each.startswith(name)]
        return " ".join(kept)

    def expect(self, total: float) -> None:
        """Change how much is to be done."""
        self._total = total
        self._progress.update(self._task, total=total)

    def _draw_now_and_then(self) -> None:
        if self._notebook and time.monotonic() - self._drawn_at > _BETWEEN_PICTURES:
            self._draw()

    def _draw(self) -> None:
        from IPython.display import display

        self._drawn_at = time.monotonic()
        if self._handle is None:
            self._handle = display(self._progress, display_id=True)
        else:
            self._handle.update(self._progress)


def _lines(console: Any, begun: bool) -> Callable[[str, float | None], None]:
    """Make what says what is computed and how far it is, after longer and longer intervals."""
    interval = _FIRST_LINES
    due = time.monotonic() + interval if begun else -math.inf

    def show(phase: str, share: float | None) -> None:
        nonlocal interval, due
        if (now := time.monotonic()) >= due:
            told = phase_name(phase) + (f"  {share:.0%}" if share else "")
            console.print(told, markup=False, soft_wrap=True)
            due, interval = now + interval, min(2 * interval, _LAST_LINES)

    return show


@contextmanager
def steps(steps: int, n_sites: int) -> Iterator[Callable[[StepRecord], None]]:
    """Show steps inside the block, which tells of each."""
    console = console_on(Output(sys.stdout))
    if not can_show(console) or not steps:
        yield lambda record: None
        return
    done = 0

    def show(record: StepRecord) -> None:
        nonlocal done
        done += 1
        if told := step_note(record):
            console.print(f"step {record.step + 1}: {told}", markup=False, soft_wrap=True)
        bar.update(done, *step_numbers(record, n_sites))

    with Bar(console, steps) as bar:
        yield show


@contextmanager
def working(console: Any = None, *, begun: bool = False) -> Iterator[None]:
    """Show the phases of what a block computes: in a bar, or in logs by a line now and then.

    `console` is standard output where none is given; `begun` is whether a line has said already
    that something is computed.
    """
    console = console or console_on(Output(sys.stdout))
    if not can_show(console):
        with watched(_lines(console, begun) if _in_logs else None):
            yield
        return
    present = ""

    def show(phase: str, share: float | None) -> None:
        nonlocal present
        if phase != present or not share:
            present = phase
            bar.begin(phase_name(phase), None if share is None else 1.0)
        if share is not None:
            bar.update(share, phase_name(phase))

    with Bar(console, 1.0, counts=False) as bar, watched(show):
        yield


def step_note(record: StepRecord) -> str:
    """Say what happened to a step, and what it compiled where that took a second or more."""
    told = [step_sentence(record.diagnostics, record.undone)]
    if record.compile_seconds >= 1:
        times = duration(record.compile_seconds), duration(record.seconds)
        told.append("compiling took {}, the step itself {}".format(*times))
    return "; ".join(filter(None, told))


def step_numbers(record: StepRecord, n_sites: int, exact: float | None = None) -> list[str]:
    """Write what a step shows: energy with its error, variance, acceptance, what its samples are
    worth if less.  Energies are per site; `exact` is the total to compare with.
    """
    n = n_sites
    parts = [
        f"E/N {with_error(record.energy / n, record.energy_error / n)}",
        f"var/N {record.variance / n:.2g}",
    ]
    if (time := record.optimizer.get("time")) is not None:
        known = record.optimizer
        told = [
            f"{k} {with_error(known[k], known[f'{k}_error'])} "
            f"(systematic < {known[f'{k}_bound']:.1g})" for k in known if f"{k}_error" in known
        ]  # fmt: skip
        parts = [f"t {time:.4g}", *parts, *told]
    if exact:
        parts.append(f"rel.err {abs(record.energy / exact - 1):.1e}")
    if record.acceptance is not None:
        parts.append(f"acc {record.acceptance:.2f}")
    if record.overlaps:
        parts.append("overlaps " + ", ".join(f"{x.squared:.3f}" for x in record.overlaps))
    worth, drawn = record.effective_samples, record.n_samples
    if worth is not None and drawn and worth < _EVEN * drawn:
        parts.append(f"worth {worth:.0f} of {drawn}")
    return parts
