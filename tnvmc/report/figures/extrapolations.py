"""Pictures of what an energy would be at another chi, at zero variance, at infinite D."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tnvmc.report.describe import reference, units_of
from tnvmc.report.figures import style
from tnvmc.storage.run_files import Json, Run, as_array

_MOST_LABELS = 5  # of points of an extrapolation


def _part(run: Run, name: str) -> Any:
    return ((run.result or {}).get("convergence") or {}).get(name)


_CHI = r"boundary bond dimension $\chi$"


def chi(run: Run) -> Any:
    """Draw the energy less that at the largest chi, and the closure spread, against chi."""
    chis, spread = _columns(_part(run, "chi") or (), "chi", "closure_spread")
    has_spread = bool((spread > 0).any())
    figure = style.new_figure(5.4, 4.6 if has_spread else 3.5)
    axes = np.atleast_1d(figure.subplots(1 + has_spread, 1, sharex=True))
    draw_chi(axes[0], run)
    if has_spread:
        axes[1].plot(chis, spread, "s-", color=style.VERMILION, ms=5)
        style.logarithmic_or_rounding(axes[1], spread)
        axes[1].set_ylabel(r"closure spread of $\ln|\psi|$")
        style.grid(axes[1])
        axes[0].set_xlabel("")
        axes[1].set_xlabel(_CHI)
    return figure


def draw_chi(axes: Any, run: Run) -> None:
    """Draw the energy's distance to that at the largest chi into axes."""
    points: Sequence[Json] = _part(run, "chi") or ()
    if len(points) < 2:
        raise style.Lacking("no energies at several chi (result.json: convergence.chi)")
    chis, energy_error, off, error = _columns(
        points, "chi", "energy_error", "difference", "difference_error"
    )
    n_sites = run.n_sites or 1
    band = np.nanmax(energy_error) / n_sites
    axes.axhspan(-band, band, color=style.GREY, alpha=0.18, lw=0, label="error bar of the energy")
    axes.axhline(0, color=style.INK, lw=0.8)
    axes.errorbar(
        chis, off / n_sites, np.nan_to_num(error) / n_sites, fmt="o-", color=style.BLUE, ms=5,
        capsize=2, label="same configurations",
    )  # fmt: skip
    by_layers, sampled = (_part(run, "double_layer") or {}).get("energy"), points[-1].get("energy")
    if by_layers is not None and sampled is not None:
        look = {"color": style.VERMILION, "lw": 1.1, "ls": "--"}
        axes.axhline((by_layers - sampled) / n_sites, label="double layer, no samples", **look)
    label = rf"[$E(\chi) - E({int(np.nanmax(chis))})$] per site"
    axes.set_ylabel(f"{label}\n({units_of(run)} units)")
    axes.ticklabel_format(axis="y", scilimits=(-2, 2))
    axes.legend()
    style.grid(axes)
    axes.set_xticks(chis, [f"{value:g}" for value in chis])
    axes.set_xlabel(_CHI)


def _columns(points: Sequence[Json], *keys: str) -> tuple[np.ndarray, ...]:
    return tuple(as_array([point.get(key) for point in points]) for key in keys)


def extrapolation(key: str, run: Run) -> Any:
    """Draw energy against variance ("variance") or 1/D ("bond_dimension"), and its line to 0."""
    fit: Json | None = _part(run, key)
    if not fit:
        along = "1/D" if key == "bond_dimension" else "the variance"
        raise style.Lacking(f"no extrapolation in {along} (result.json: convergence.{key})")
    n, points, units = run.n_sites or 1, fit["points"], units_of(run)
    x, y, error = (each / n for each in _columns(points, "variance", "energy", "energy_error"))
    error = np.nan_to_num(error)
    labels = [str(point.get("label", "")) for point in points]
    xlabel = f"variance of the local energy per site ({units} units squared)"
    if key == "bond_dimension":
        x = 1 / _columns(points, "D")[0]
        labels, xlabel = [f"D = {point['D']:g}" for point in points], "1/D"
    figure = style.new_figure()
    axes = figure.subplots()
    style.grid(axes)
    axes.errorbar(x, y, error, fmt="o", color=style.BLUE, ms=5, capsize=2)
    # Where they are too many to read, the first and the last have labels.
    count = len(labels)
    shown = range(count) if count <= _MOST_LABELS else (0, count - 1)
    for place, point in enumerate(sorted(shown, key=lambda point: x[point])):
        side = 1 if place % 2 else -1  # neighbours may be close
        axes.annotate(
            labels[point], (x[point], y[point] + side * error[point]), xytext=(0, 3 * side),
            textcoords="offset points", fontsize=8, ha="center", va="bottom" if side > 0 else "top",
        )  # fmt: skip
    if fit.get("energy") is not None:
        end, end_error = fit["energy"] / n, (fit.get("energy_error") or 0.0) / n
        slope = fit["slope"] / (n if key == "bond_dimension" else 1)
        axes.plot([0, x.max()], [end, end + slope * x.max()], color=style.BLUE, lw=1.1, ls="--")
        axes.errorbar(
            0, end, end_error, fmt="D", ms=6, capsize=3, color=style.VERMILION,
            label="extrapolated", clip_on=False, zorder=3,
        )  # fmt: skip
    exact, method, of_exact = reference(run)
    if exact is not None:
        axes.axhspan(exact - of_exact, exact + of_exact, color=style.INK, alpha=0.15, lw=0)
        axes.axhline(exact, color=style.INK, lw=1.1, ls=":", label=method)
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlim(-0.04 * x.max(), 1.15 * x.max())
    axes.margins(y=0.1)
    axes.set(xlabel=xlabel, ylabel=f"energy per site ({units} units)")
    style.legend(axes, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    return figure
