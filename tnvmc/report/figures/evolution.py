"""Picture of a time evolution: observables against time, and how far they can be trusted."""

from typing import Any

import numpy as np

from tnvmc.report.figures import style
from tnvmc.storage.run_files import Run, as_array


def evolution(run: Run, title: str = "") -> Any:
    """Draw means of observables above; energy less that at t = 0, and the error bound, below."""
    about = [line["optimizer"] for line in run.history if "time" in line["optimizer"]]
    if not about:
        raise style.Lacking("no step was one of time")
    t, n = as_array([line["time"] for line in about]), run.n_sites or 1
    names = [key for key in about[0] if f"{key}_error" in about[0]]
    figure = style.new_figure(7.0, 6.0)
    above, middle = figure.subplots(2, 1, sharex=True)
    for k, name in enumerate(names):
        value = as_array([line[name] for line in about])
        mean = rf"$\langle${name}$\rangle$"
        for end, labels in (("_bound", ("", f"largest error of {mean}")), ("_error", (mean, ""))):
            width = as_array([line.get(f"{name}{end}", np.nan) for line in about])
            _band(above, t, value, width, style.line(k), labels)
    energy, error = (
        as_array([line[key] for line in run.history]) / n for key in ("energy", "energy_error")
    )
    drift = "energy per site less that at t = 0"
    _band(middle, t, energy - energy[0], np.hypot(error, error[0]), style.line(0), (drift, ""))
    bound = as_array([line["error_bound"] for line in about])
    middle.plot(t, bound, **style.line(1), label=r"largest distance to the exact $|\psi\rangle$")
    above.set(ylabel="mean over the sites", title=title)
    middle.set(xlabel="time (1 / energy)")
    for axes in (above, middle):
        style.grid(axes)
        style.legend(axes)
    return figure


def _band(axes: Any, x: Any, y: Any, error: Any, line: Any, labels: tuple[str, str]) -> None:
    error = np.nan_to_num(error)
    axes.plot(x, y, **line, label=labels[0])
    axes.fill_between(
        x, y - error, y + error, color=line["color"], alpha=0.22, lw=0, label=labels[1]
    )
