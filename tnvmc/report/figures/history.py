"""Pictures of the history of a run, or of several: what each step reported, against the step."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tnvmc.report.describe import reference, units_of
from tnvmc.report.figures import style
from tnvmc.storage.run_files import Run, as_array

ABSCISSAS = {"step": "step", "seconds": "seconds of optimisation"}
"""What histories are drawn against, and how the axis is called."""

NO_STEPS = "no step has been written yet"

GAP = 100.0
"""Of an energy to the others, above which it hides them on a linear axis."""


@dataclass(frozen=True)
class History:
    """The history of one run as arrays of one entry per step; energies are per site.

    Steps whose energy is not finite are left out.
    """

    label: str
    units: str
    lines: tuple[Mapping[str, Any], ...]  #: "elapsed": seconds of all steps so far
    n_sites: int
    exact: float | None = None
    exact_label: str = "exact"
    measured: tuple[float, float] | None = None  #: final energy per site and its error
    seconds: np.ndarray = field(init=False)  #: of optimisation until the end of each step
    kept: np.ndarray = field(init=False)  #: True for the steps that were not undone
    energy: np.ndarray = field(init=False)
    error: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        arrays = {
            "seconds": np.nan_to_num(self.of("elapsed")),
            "kept": np.array([not line.get("undone") for line in self.lines], dtype=bool),
            "energy": self.of("energy") / self.n_sites,
            "error": np.nan_to_num(self.of("energy_error")) / self.n_sites,
        }
        self.__dict__.update(arrays)

    def of(self, key: str) -> np.ndarray:
        """A column of the history, NaN where a line says nothing."""
        return as_array([line.get(key) for line in self.lines])

    @property
    def distance_label(self) -> str:
        """What an axis of `distance` is called."""
        if not self.exact:
            return f"energy per site ({self.units} units)"
        if self.exact_label == "exact":
            return "relative error of the energy"
        return f"relative distance to the {self.exact_label} energy"

    def distance(self, energy: Any) -> Any:
        """Relative distance to the known energy, or the energy per site where none is known."""
        return np.abs(energy / self.exact - 1) if self.exact else energy

    @property
    def end(self) -> tuple[float, Any]:
        """The `distance` that was measured, and its error bar."""
        assert self.measured is not None
        energy, error = self.measured
        y = self.distance(energy)
        return y, style.reach(y, error / abs(self.exact)) if self.exact else error

    @staticmethod
    def resolved(histories: "Sequence[History]") -> float | None:
        """Give a fifth of the smallest distance that is told from 0; what lies below crosses 0."""
        seen = [
            max(each.distance(each.measured[0]), each.measured[1] / abs(each.exact))
            for each in histories
            if each.exact and each.measured is not None
        ]
        return min(seen) / 5 if seen and min(seen) > 0 else None

    def x(self, against: str) -> np.ndarray:
        """Abscissas of the steps, against the "step", from 1 on, or the "seconds"."""
        return self.seconds if against == "seconds" else self.of("step") + 1

    def stages(self, against: str = "step") -> list[tuple[float, str]]:
        """Abscissa of the first step and name of every stage; empty where there is one or none."""
        found: dict[int, tuple[float, str]] = {}
        for line, x in zip(self.lines, self.x(against).tolist(), strict=True):
            if (stage := line.get("stage")) is not None:
                name = f"stage {stage}" if line.get("D") is None else f"D = {line['D']}"
                begin = max(x - (line.get("seconds") or 0.0), 0.0) if against == "seconds" else x
                found.setdefault(stage, (begin, name))
        return list(found.values()) if len(found) > 1 else []


def passed(lines: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Give the time until the end of each step, as if the first took no longer than the median.

    What it takes beyond that is burn-in and what was compiled; a first step that tried several
    starts counts in full.
    """
    seconds = [line.get("seconds") or 0.0 for line in lines]
    told = (lines[0].get("diagnostics") or ()) if lines else ()
    if lines and all(each["code"] != "starts_tried" for each in told):
        seconds[0] = min(seconds[0], float(np.median(seconds)))
    return np.cumsum(seconds)


def history_of(run: Run) -> History | None:
    """Make the history of a run; None where the number of sites is not known."""
    if run.n_sites is None:
        return None
    elapsed = passed(run.history)
    lines = tuple(
        {**line, "elapsed": float(so_far)}
        for line, so_far in zip(run.history, elapsed, strict=True)
        if line.get("energy") is not None
    )
    exact, method, _ = reference(run)
    measured = None
    if run.result is not None and run.result["energy_per_site"] is not None:
        error = run.result.get("energy_per_site_error") or 0.0
        measured = (float(run.result["energy_per_site"]), float(error))
    return History(run.name, units_of(run), lines, run.n_sites, exact, method, measured)


def histories_of(runs: Sequence[Run]) -> list[History]:
    """Make the histories of the runs that have steps."""
    return [found for run in runs if (found := history_of(run)) is not None and found.lines]


@dataclass(frozen=True)
class Curve:
    """How a history is drawn into a panel: its abscissa and its line."""

    history: History
    x: np.ndarray
    line: Mapping[str, Any]  #: "color" and "ls"
    name: str | None  #: None for the only run in the picture

    def final(self, axes: Any, y: float, error: Any) -> None:
        """Draw the measurement at the end, one step after the last."""
        before = self.x[-2] if len(self.x) > 1 else self.x[-1] - 1
        alone = {"color": style.VERMILION, "label": "measured at the end"}
        look = alone if self.name is None else {"color": self.line["color"]}
        axes.errorbar(2 * self.x[-1] - before, y, error, fmt="o", ms=5, capsize=2, **look)

    def column(self, axes: Any, values: np.ndarray) -> None:
        """Draw what the kept steps reported."""
        keep = self.history.kept & np.isfinite(values)
        axes.plot(self.x[keep], values[keep], **self.line, label=self.name)

    def mark_beyond(self, axes: Any, gone: np.ndarray, values: np.ndarray, edge: str) -> None:
        """Mark the steps that are beyond an edge of the panel."""
        colour = self.line["color"]
        style.mark_beyond(axes, self.x[gone], values[gone], colour, self.name, edge)


@dataclass(frozen=True)
class Panel:
    """What is drawn of histories: `fill` draws into axes, `label` names their y axis."""

    fill: Callable[[Any, Sequence[Curve]], None]
    label: Callable[[History], str]
    floor: float | None = None
    """With it the axis is logarithmic, and values up to it are rounding."""
    is_known: Callable[[History], bool] = lambda history: True
    lacking: str = NO_STEPS  #: what is said where it is known of no history
    of_distance: bool = False  #: whether values are distances to a known energy

    def draw(
        self, axes: Any, histories: Sequence[History], against: str = "step", named: bool = True
    ) -> None:
        """Draw histories against the "step" or the "seconds", and mark the stages of one alone."""
        curves = [
            Curve(each, each.x(against), style.line(k), each.label if len(histories) > 1 else None)
            for k, each in enumerate(histories)
        ]
        self.fill(axes, curves)
        style.grid(axes)
        if self.floor is not None:
            # Marks at an edge have other coordinates.
            drawn = [line for line in axes.lines if line.get_transform() == axes.transData]
            values = np.concatenate([np.zeros(0), *(line.get_ydata() for line in drawn)])
            bottom = History.resolved(histories) if self.of_distance else None
            style.logarithmic_or_rounding(axes, values.astype(float), self.floor, bottom)
        style.legend(axes)
        axes.set(xlabel=ABSCISSAS[against], ylabel=self.label(histories[0]))
        axes.xaxis.get_major_locator().set_params(integer=against == "step")
        if len(histories) == 1:
            mark_stages(axes, histories[0], against, named)


def draw_histories(name: str, histories: Sequence[History], against: str | None = None) -> Any:
    """Draw a panel against the step; for several runs a second one against the seconds.

    `against` draws one of the two.
    """
    panel = PANELS[name]
    known = [history for history in histories if panel.is_known(history)]
    if not known:
        raise style.Lacking(panel.lacking if histories else NO_STEPS)
    alone = len(known) == 1
    drawn = (against,) if against else ("step",) if alone else ("step", "seconds")
    figure = style.new_figure(*((5.4, 3.6) if alone else (4.5 * len(drawn), 4.0)))
    panels = np.atleast_1d(figure.subplots(1, len(drawn), sharey=True))
    for axes, each in zip(panels, drawn, strict=True):
        panel.draw(axes, known, each)
        axes.label_outer()
        ends = [history.x(each)[-1] for history in known]
        if max(ends) > _MANY * min(ends) > 0:
            style.logarithmic(axes, "x")
    if alone:
        return figure
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
    for axes in panels:
        axes.get_legend().remove()
    return figure


def mark_stages(axes: Any, history: History, against: str = "step", names: bool = True) -> None:
    """Mark where each stage begins with a line, and name it at the top."""
    for begin, name in history.stages(against):
        axes.axvline(begin, color=style.GREY, lw=0.9, ls=":")
        axes.annotate(
            name if names else "", (begin, 1), xycoords=("data", "axes fraction"), xytext=(3, 1),
            textcoords="offset points", fontsize=8, color=style.GREY, va="bottom",
            annotation_clip=False,
        )  # fmt: skip


def overview(history: History, title: str) -> Any:
    """Draw energy above and relative error, else variance, below: the picture of a run."""
    figure = style.new_figure(7.0, 6.0)
    both = figure.subplots(2, 1, sharex=True)
    names = ("energy", "relative_error" if history.exact else "variance")
    for axes, name in zip(both, names, strict=True):
        if history.lines:
            PANELS[name].draw(axes, [history], named=axes is both[0])
            axes.label_outer()
    both[0].set_title(title, pad=14 if history.stages() else None)
    return figure


def _energy(axes: Any, curves: Sequence[Curve]) -> None:
    """Draw energies with their errors; final ones as points, undone steps as crosses, absurd ones
    as triangles at the edge.
    """
    for curve in curves:
        history, keep = curve.history, curve.history.kept
        x, errors = curve.x[keep], history.error[keep]
        energies = style.without(history.energy[keep], style.absurd(history.energy[keep], GAP))
        axes.plot(x, energies, **curve.line, label=curve.name or "each step")
        axes.fill_between(
            x, energies - errors, energies + errors, color=curve.line["color"], alpha=0.22, lw=0
        )
        if history.measured is not None:
            curve.final(axes, *history.measured)
    histories = [curve.history for curve in curves]
    _known(axes, curves)
    limit(axes, histories)
    high = axes.get_ylim()[1]
    gone = ~histories[0].kept if len(curves) == 1 else np.zeros(0, dtype=bool)
    if gone.any():
        axes.plot(
            curves[0].x[gone], np.minimum(histories[0].energy[gone], high), "x",
            color=style.VERMILION, clip_on=False, label="step undone",
        )  # fmt: skip
    for curve in curves:  # absurd ones are marked where they leave; of a start the line tells
        found = curve.history
        absurd = found.kept & style.absurd(np.where(found.kept, found.energy, 0.0), GAP)
        curve.mark_beyond(axes, absurd & (found.energy > high), found.energy, "top")
        curve.mark_beyond(axes, absurd & (found.energy < high), found.energy, "bottom")


def _known(axes: Any, curves: Sequence[Curve]) -> None:
    """Draw the known energies; several in the colours of their first runs, with all names."""
    of_energy: dict[float, list[Curve]] = {}
    for curve in curves:
        if curve.history.exact is not None:
            of_energy.setdefault(round(curve.history.exact, _DECIMALS), []).append(curve)
    for found in of_energy.values():
        first, several = found[0], len(of_energy) > 1
        of = f" ({', '.join(curve.history.label for curve in found)})" if several else ""
        axes.axhline(
            first.history.exact, color=first.line["color"] if several else style.INK,
            ls="--", lw=1.1,
            label=first.history.exact_label + of,
        )  # fmt: skip


_MANY = 10.0  # ratio of the longest to the shortest history from which the axis is logarithmic

_DECIMALS = 9  # of energies per site: what is beyond is rounding of a diagonalisation


def _running_median(values: np.ndarray) -> np.ndarray:
    """Give the median of each value with its neighbours, in a 25th of all."""
    half = len(values) // 50
    padded = np.pad(values, half, mode="reflect") if half else values
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    return np.median(windows, axis=1)


def limit(axes: Any, histories: Sequence[History]) -> None:
    """Let the last nine tenths of the runs fill the panel; a bad start or step may leave it."""
    values: list[float] = []
    for history in histories:
        energies, errors = history.energy[history.kept], history.error[history.kept]
        energies = style.without(energies, style.absurd(energies, GAP))
        late = slice(len(energies) // 10, None)
        values += [*(energies + errors)[late], *(energies - errors)[late]]
        values += [] if history.exact is None else [history.exact]
        values += [] if history.measured is None else [history.measured[0]]
    if values:
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        margin = 0.08 * (high - low) or 0.01 * abs(high) or 1.0
        axes.set_ylim(low - margin, high + margin)


def _distance(axes: Any, curves: Sequence[Curve]) -> None:
    """Draw |E - E0| / |E0|; steps below the known energy are open triangles."""
    for curve in curves:
        history, colour, keep = curve.history, curve.line["color"], curve.history.kept
        assert history.exact is not None
        x, energy = curve.x[keep], history.energy[keep]
        far = history.distance(energy)
        gone = style.absurd(far)
        off = style.without(far, gone)
        if curve.name is not None:  # a running median before the steps
            axes.plot(x, off, **curve.line, lw=0.8, alpha=0.22)
            middle = history.distance(_running_median(energy))
            off = style.without(middle, style.absurd(middle))
        axes.plot(x, off, **curve.line, label=curve.name or "each step")
        if curve.name is None:
            error = style.without(history.error[keep] / abs(history.exact), gone)
            axes.plot(x, error, color=style.GREEN, lw=1.1, ls=":", label="error bar of one step")
            below = (energy < history.exact) & ~gone
            if below.any():
                axes.plot(
                    x[below], off[below], "v", mfc="none", color=colour, ms=4,
                    label=f"below {history.exact_label}",
                )  # fmt: skip
        style.mark_beyond(axes, x[gone], far[gone], colour, curve.name)
        if history.measured is not None:
            curve.final(axes, *history.end)


def _variance(axes: Any, curves: Sequence[Curve]) -> None:
    """Draw the variance, but for steps of which it is absurd; they are marked at the top."""
    for curve in curves:
        values = curve.history.of("variance") / curve.history.n_sites
        gone = curve.history.kept & style.absurd(np.where(curve.history.kept, values, 0.0))
        curve.column(axes, style.without(values, gone))
        curve.mark_beyond(axes, gone, values, "top")


def column(
    key: str,
    label: str,
    floor: float | None = None,
    limits: tuple[float, float | None] | None = None,
    is_known: Callable[[np.ndarray], Any] = lambda values: np.isfinite(values).any(),
) -> Panel:
    """Make the panel of a column of the history as it is; `is_known` looks at its values."""

    def fill(axes: Any, curves: Sequence[Curve]) -> None:
        for curve in curves:
            curve.column(axes, curve.history.of(key))
        if limits is not None:
            axes.set_ylim(limits[0], limits[1] or 1.1 * axes.dataLim.y1)

    lacking = f"the history holds no {key.replace('_', ' ')}"
    known = lambda history: bool(is_known(history.of(key)[history.kept]))
    return Panel(fill, lambda history: label, floor, known, lacking)


PANELS: Mapping[str, Panel] = {
    "energy": Panel(_energy, lambda history: f"energy per site ({history.units} units)"),
    "relative_error": Panel(
        _distance, lambda history: history.distance_label, style.ROUNDING,
        lambda history: bool(history.exact), "no exact or published energy is known", True,
    ),
    "variance": Panel(
        _variance, lambda history: f"variance per site ({history.units} units squared)",
        style.ROUNDING**2,
    ),
    "acceptance": column("acceptance", "acceptance of proposed moves", limits=(0, 1)),
    "closure_spread": column(
        "closure_spread", r"closure spread of $\ln|\psi|$", style.ROUNDING
    ),
}  # fmt: skip
"""Pictures of histories by name."""
