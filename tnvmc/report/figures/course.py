"""Pictures of the course of a run, or of several: what each step reported, against the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.report.figures import scales, style
from tnvmc.storage.run_files import Run, as_array

GAP = 100.0
"""Of an energy to the others, above which it hides them on a linear axis."""


@dataclass(frozen=True)
class Course:
    """The history of one run as arrays of one entry per step; energies are per site.

    Steps whose energy is not finite are left out.
    """

    label: str
    units: str
    lines: tuple[Mapping[str, Any], ...]
    n_sites: int
    exact: float | None = None
    exact_label: str = "exact"
    measured: tuple[float, float] | None = None  #: final energy per site and its error

    def of(self, key: str) -> np.ndarray:
        """A column of the history, NaN where a line says nothing."""
        return as_array([line.get(key) for line in self.lines])

    @property
    def steps(self) -> np.ndarray:
        """Number of each step."""
        return self.of("step")

    @property
    def seconds(self) -> np.ndarray:
        """Seconds of optimisation until the end of each step."""
        return np.cumsum(np.nan_to_num(self.of("seconds")))

    @property
    def kept(self) -> np.ndarray:
        """True for the steps that were not undone."""
        return np.array([not line.get("undone") for line in self.lines], dtype=bool)

    @property
    def energy(self) -> np.ndarray:
        """Energy per site."""
        return self.of("energy") / self.n_sites

    @property
    def error(self) -> np.ndarray:
        """Its error."""
        return np.nan_to_num(self.of("energy_error")) / self.n_sites

    @property
    def stages(self) -> list[tuple[int, str]]:
        """First step and name of every stage; empty where there is one stage or none."""
        found: list[tuple[int, str]] = []
        last = None
        for line in self.lines:
            stage = line.get("stage")
            if stage is not None and stage != last:
                D = line.get("D")
                found.append((line["step"], f"stage {stage}" if D is None else f"D = {D}"))
                last = stage
        return found if len(found) > 1 else []


def course_of(run: Run) -> Course | None:
    """Make the course of a run; None where no step has been written, or the lattice is unknown."""
    lines = tuple(line for line in run.history if line.get("energy") is not None)
    if not lines or run.n_sites is None:
        return None
    exact, method = reference(run)
    measured = None
    if run.result is not None and run.result["energy_per_site"] is not None:
        error = run.result.get("energy_per_site_error") or 0.0
        measured = (float(run.result["energy_per_site"]), float(error))
    return Course(run.name, run.units, lines, run.n_sites, exact, method, measured)


def reference(run: Run) -> tuple[float | None, str]:
    """Give the energy per site to compare with and how it was found; looked up, never computed."""
    if run.result is not None:
        exact = run.result.get("exact_energy_per_site")
        return exact, str(run.result.get("exact_method") or "exact")
    from tnvmc.operators.reference import known_energy
    from tnvmc.settings.build import build_operator
    from tnvmc.settings.load import validate

    try:
        operator = build_operator(validate(run.config))
    except ValueError:  # the settings are damaged, or of another version
        return None, "exact"
    known = known_energy(operator) if not run.setting("sampler", "magnetisation") else None
    if known is None:
        return None, "exact"
    return known.energy_total / operator.n_sites, known.method


@dataclass(frozen=True)
class Look:
    """How one course is drawn into one panel."""

    x: np.ndarray  #: abscissa of every step
    colour: str
    dashes: str
    alone: bool  #: the only run in the picture

    @property
    def after(self) -> float:
        """Where the measurement at the end stands: one step after the last."""
        last, before = self.x[-1], self.x[-2] if len(self.x) > 1 else self.x[-1] - 1
        return float(2 * last - before)


Panel = Callable[[Any, Course, Look], None]


def _draw(
    courses: Sequence[Course], panel: Panel, ylabel: str, *, log: bool = False, floor: float = 0.0
) -> Any:
    """One panel against the step; for several runs a second one against the seconds.

    On a log axis values up to `floor` are rounding.
    """
    alone = len(courses) == 1
    figure = style.new_figure(5.4 if alone else 9.0, 3.6)
    panels = [figure.subplots()] if alone else figure.subplots(1, 2, sharey=True)
    for place, axes in enumerate(panels):
        for number, course in enumerate(courses):
            colour = style.CYCLE[number % len(style.CYCLE)]
            dashes = style.DASHES[number // len(style.CYCLE) % len(style.DASHES)]
            x = course.seconds if place else course.steps
            panel(axes, course, Look(x, colour, dashes, alone))
        _finish(axes, log, floor)
        axes.set_xlabel("seconds of optimisation" if place else "step")
    panels[0].set_ylabel(ylabel)
    panels[0].xaxis.get_major_locator().set_params(integer=True)
    if alone:
        mark_stages(panels[0], courses[0])
    return figure


def _finish(axes: Any, log: bool, floor: float = 0.0) -> None:
    style.grid(axes)
    # Marks at an edge have other coordinates.
    drawn = [line for line in axes.lines if line.get_transform() == axes.transData]
    values = np.concatenate([np.zeros(0), *(line.get_ydata() for line in drawn)]).astype(float)
    if log and floor and scales.is_rounding(values, floor):
        scales.show_rounding(axes, floor)
    elif log and (values > 0).any():
        scales.logarithmic(axes, "y")
    if axes.get_legend_handles_labels()[0]:
        axes.legend()


def mark_stages(axes: Any, course: Course) -> None:
    """Mark where each stage begins with a line, and name it at the top."""
    for step, name in course.stages:
        axes.axvline(step, color=style.GREY, lw=0.9, ls=":")
        axes.annotate(
            name, (step, 1), xycoords=("data", "axes fraction"), xytext=(3, 1),
            textcoords="offset points", fontsize=8, color=style.GREY, va="bottom",
            annotation_clip=False,
        )  # fmt: skip


def overview(course: Course, title: str) -> Any:
    """Draw energy above and relative error, else variance, below: the picture of a run."""
    figure = style.new_figure(7.0, 6.0)
    above, below = figure.subplots(2, 1, sharex=True)
    look = Look(course.steps, style.CYCLE[0], "-", alone=True)
    if len(course.lines):
        _energy(above, course, look)
        _relative_error(below, course, look) if course.exact else _variance(below, course, look)
    _around(above, [course])
    _leaving(above, [course])
    _finish(above, log=False)
    _finish(below, log=True, floor=scales.ROUNDING if course.exact else scales.ROUNDING**2)
    above.set_title(title, pad=14 if course.stages else None)
    above.set_ylabel(_energy_label(course))
    below.set_ylabel(_relative_label(course) if course.exact else "variance per site")
    below.set_xlabel("step")
    below.xaxis.get_major_locator().set_params(integer=True)
    mark_stages(above, course)
    return figure


def energy(courses: Sequence[Course]) -> Any:
    """Draw energy per site with its error; final energies as points, undone steps as crosses.

    Steps with absurd energies are triangles at the edge of the panel.
    """
    figure = _draw(courses, _energy, _energy_label(courses[0]))
    for place, axes in enumerate(figure.axes):
        _around(axes, courses)
        _leaving(axes, courses, against_seconds=place == 1)
        axes.legend()
    return figure


def _energy_label(course: Course) -> str:
    return f"energy per site ({course.units} units)"


def _energy(axes: Any, course: Course, look: Look) -> None:
    keep = course.kept
    x, errors = look.x[keep], course.error[keep]
    energies = scales.without(course.energy[keep], scales.absurd(course.energy[keep], GAP))
    label = "each step" if look.alone else course.label
    axes.plot(x, energies, color=look.colour, ls=look.dashes, label=label)
    axes.fill_between(x, energies - errors, energies + errors, color=look.colour, alpha=0.22, lw=0)
    if course.measured is not None:
        axes.errorbar(look.after, *course.measured, **_final(look))


def _final(look: Look) -> dict[str, Any]:
    colour, label = (style.VERMILION, "measured at the end") if look.alone else (look.colour, None)
    return {"color": colour, "label": label, "fmt": "o", "ms": 5, "capsize": 2}


def _around(axes: Any, courses: Sequence[Course]) -> None:
    """Add the exact energies, and the undone steps of a single run, at the limits they need."""
    known = {course.exact: course.exact_label for course in courses if course.exact is not None}
    for value, label in known.items():
        axes.axhline(value, color=style.INK, ls="--", lw=1.1, label=label)
    _limit(axes, courses)
    gone = ~courses[0].kept
    if len(courses) == 1 and gone.any():
        height = np.minimum(courses[0].energy[gone], axes.get_ylim()[1])
        axes.plot(
            courses[0].steps[gone], height, "x", color=style.VERMILION, clip_on=False,
            label="step undone",
        )  # fmt: skip


def _leaving(axes: Any, courses: Sequence[Course], *, against_seconds: bool = False) -> None:
    """Mark steps with absurd energies at the edge where they leave; of a start the line tells."""
    high = axes.get_ylim()[1]
    for number, course in enumerate(courses):
        x = course.seconds if against_seconds else course.steps
        colour = style.CYCLE[number % len(style.CYCLE)]
        name = course.label if len(courses) > 1 else None
        absurd = course.kept & scales.absurd(np.where(course.kept, course.energy, 0.0), GAP)
        for gone, edge in (
            (absurd & (course.energy > high), "top"),
            (absurd & (course.energy < high), "bottom"),
        ):
            scales.mark_beyond(axes, x[gone], course.energy[gone], colour, name, edge)


def _limit(axes: Any, courses: Sequence[Course]) -> None:
    """Let the last nine tenths of the runs fill the panel; a bad start or step may leave it."""
    values: list[float] = []
    for course in courses:
        energies, errors = course.energy[course.kept], course.error[course.kept]
        energies = scales.without(energies, scales.absurd(energies, GAP))
        late = slice(len(energies) // 10, None)
        values += [*(energies + errors)[late], *(energies - errors)[late]]
        values += [] if course.exact is None else [course.exact]
        values += [] if course.measured is None else [course.measured[0]]
    if values:
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        margin = 0.08 * (high - low) or 0.01 * abs(high) or 1.0
        axes.set_ylim(low - margin, high + margin)


def relative_error(courses: Sequence[Course]) -> Any | str:
    """Draw |E - E0| / |E0| on a log axis; steps below the known energy are open triangles."""
    courses = [course for course in courses if course.exact]
    if not courses:
        return "no exact or published energy is known"
    label = _relative_label(courses[0])
    return _draw(courses, _relative_error, label, log=True, floor=scales.ROUNDING)


def _relative_label(course: Course) -> str:
    if course.exact_label == "exact":
        return "relative error of the energy"
    return f"relative distance to the {course.exact_label} energy"


def _relative_error(axes: Any, course: Course, look: Look) -> None:
    assert course.exact is not None
    keep, scale = course.kept, abs(course.exact)
    x, off = look.x[keep], (course.energy[keep] - course.exact) / scale
    label = "each step" if look.alone else course.label
    gone = scales.absurd(off)
    far = np.abs(off[gone])
    off, error = (scales.without(part, gone) for part in (off, course.error[keep] / scale))
    axes.plot(x, np.abs(off), color=look.colour, ls=look.dashes, label=label)
    if look.alone:
        axes.plot(
            x, error, color=style.GREEN, lw=1.1, ls=":",
            label="error bar of one step",
        )  # fmt: skip
        if (off < 0).any():
            axes.plot(
                x[off < 0], -off[off < 0], "v", mfc="none", color=look.colour, ms=4,
                label=f"below {course.exact_label}",
            )  # fmt: skip
    scales.mark_beyond(axes, x[gone], far, look.colour, None if look.alone else course.label)
    if course.measured is not None:
        final = abs(course.measured[0] - course.exact) / scale
        reach = course.measured[1] / scale
        # On a log axis an error bar may not reach down to zero.
        axes.errorbar(look.after, final, [[min(reach, 0.9 * final)], [reach]], **_final(look))


def variance(courses: Sequence[Course]) -> Any:
    """Draw the variance of the local energy per site on a log axis."""
    label = f"variance of the local energy per site\n({courses[0].units} units squared)"
    return _draw(courses, _variance, label, log=True, floor=scales.ROUNDING**2)


def _variance(axes: Any, course: Course, look: Look) -> None:
    """Draw the variance, but for steps of which it is absurd; they are marked at the top."""
    values = course.of("variance") / course.n_sites
    gone = course.kept & scales.absurd(np.where(course.kept, values, 0.0))
    _column(axes, course, look, scales.without(values, gone))
    name = None if look.alone else course.label
    scales.mark_beyond(axes, look.x[gone], values[gone], look.colour, name)


def _column(axes: Any, course: Course, look: Look, values: np.ndarray) -> None:
    keep = course.kept & np.isfinite(values)
    label = None if look.alone else course.label
    axes.plot(look.x[keep], values[keep], color=look.colour, ls=look.dashes, label=label)


def acceptance(courses: Sequence[Course]) -> Any | str:
    """Draw the share of proposed moves that were accepted."""
    made = _from_history(courses, "acceptance", "acceptance of proposed moves", log=False)
    if not isinstance(made, str):
        made.axes[0].set_ylim(0, 1)
    return made


def closure_spread(courses: Sequence[Course]) -> Any | str:
    """Draw the spread of ln|psi| over the rows of closure, on a log axis."""
    label = r"closure spread of $\ln|\psi|$"
    return _from_history(courses, "closure_spread", label, log=True, floor=scales.ROUNDING)


def _from_history(
    courses: Sequence[Course], key: str, label: str, *, log: bool, floor: float = 0.0
) -> Any | str:
    courses = [course for course in courses if np.isfinite(course.of(key)).any()]
    if not courses:
        return f"the history holds no {key.replace('_', ' ')}"

    def panel(axes: Any, course: Course, look: Look) -> None:
        _column(axes, course, look, course.of(key))

    return _draw(courses, panel, label, log=log, floor=floor)
