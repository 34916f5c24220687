"""Pictures of convergence: energy against chi, variance and 1/D."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tnvmc.report.figures import scales, style
from tnvmc.report.figures.course import reference
from tnvmc.storage.run_files import Json, Run, as_array

_MOST_LABELS = 5  # of points of an extrapolation


def _part(run: Run, name: str) -> Any:
    return ((run.result or {}).get("convergence") or {}).get(name)


def chi(run: Run) -> Any | str:
    """Draw the energy's distance to that at the largest chi, and the closure spread, against chi.

    Both are from the same configurations; the band is the error bar of the energy itself.
    """
    ladder: Sequence[Json] = _part(run, "chi") or ()
    if run.result is None or len(ladder) < 2:
        return "no energies at several chi (result.json: convergence.chi)"
    n_sites = int(run.result["n_sites"])
    column = {
        key: as_array([rung.get(key) for rung in ladder])
        for key in ("chi", "energy_error", "difference", "difference_error", "closure_spread")
    }
    has_spread = bool((column["closure_spread"] > 0).any())
    figure = style.new_figure(5.4, 4.6 if has_spread else 3.5)
    axes = np.atleast_1d(figure.subplots(1 + has_spread, 1, sharex=True))
    band = np.nanmax(column["energy_error"]) / n_sites
    top = axes[0]
    top.axhspan(-band, band, color=style.GREY, alpha=0.18, lw=0, label="error bar of the energy")
    top.axhline(0, color=style.INK, lw=0.8)
    top.errorbar(
        column["chi"], column["difference"] / n_sites,
        np.nan_to_num(column["difference_error"]) / n_sites,
        fmt="o-", color=style.BLUE, ms=5, capsize=2, label="same configurations",
    )  # fmt: skip
    largest = int(np.nanmax(column["chi"]))
    top.set_ylabel(rf"[$E(\chi) - E({largest})$] per site" + f"\n({run.units} units)")
    top.ticklabel_format(axis="y", scilimits=(-2, 2))
    top.legend()
    if has_spread:
        axes[1].plot(column["chi"], column["closure_spread"], "s-", color=style.VERMILION, ms=5)
        if scales.is_rounding(column["closure_spread"]):
            scales.show_rounding(axes[1])
        else:
            scales.logarithmic(axes[1], "y")
        axes[1].set_ylabel(r"closure spread of $\ln|\psi|$")
    for panel in axes:
        style.grid(panel)
    axes[-1].set_xticks(column["chi"], [f"{value:g}" for value in column["chi"]])
    axes[-1].set_xlabel(r"boundary bond dimension $\chi$")
    return figure


def zero_variance(run: Run) -> Any | str:
    """Draw energy against variance with the line to zero variance."""
    fit: Json | None = _part(run, "variance")
    if run.result is None or not fit:
        return "no extrapolation in the variance (result.json: convergence.variance)"
    n_sites = int(run.result["n_sites"])
    x = as_array([point["variance"] for point in fit["points"]]) / n_sites
    labels = [str(point.get("label", "")) for point in fit["points"]]
    xlabel = f"variance of the local energy per site ({run.units} units squared)"
    return _extrapolation(run, fit, x, labels, xlabel)


def bond_dimension(run: Run) -> Any | str:
    """Draw energy against 1/D with the line to infinite D."""
    fit: Json | None = _part(run, "bond_dimension")
    if run.result is None or not fit:
        return "no extrapolation in 1/D (result.json: convergence.bond_dimension)"
    D = as_array([point["D"] for point in fit["points"]])
    labels = [f"D = {value:g}" for value in D]
    return _extrapolation(run, fit, 1 / D, labels, "1/D")


def _labelled(count: int) -> Sequence[int]:
    """Which points have labels: all, or the first and the last where there are too many to read."""
    return range(count) if count <= _MOST_LABELS else (0, count - 1)


def _extrapolation(run: Run, fit: Json, x: np.ndarray, labels: Sequence[str], xlabel: str) -> Any:
    """Points, the line through the extrapolated energy that fits them best, and its end at 0."""
    assert run.result is not None
    n_sites = int(run.result["n_sites"])
    y = as_array([point["energy"] for point in fit["points"]]) / n_sites
    error = as_array([point["energy_error"] for point in fit["points"]]) / n_sites
    figure = style.new_figure()
    axes = figure.subplots()
    style.grid(axes)
    axes.errorbar(x, y, np.nan_to_num(error), fmt="o", color=style.BLUE, ms=5, capsize=2)
    for point in _labelled(len(labels)):
        axes.annotate(
            labels[point], (x[point], y[point]), xytext=(6, -4), textcoords="offset points",
            fontsize=8, va="top",
        )  # fmt: skip
    if fit.get("energy") is not None:
        end = float(fit["energy"]) / n_sites
        weight = 1 / np.maximum(np.nan_to_num(error), 1e-15) ** 2
        slope = float((weight * x * (y - end)).sum() / (weight * x * x).sum())
        axes.plot([0, x.max()], [end, end + slope * x.max()], color=style.BLUE, lw=1.1, ls="--")
        axes.errorbar(
            0, end, float(fit.get("energy_error") or 0.0) / n_sites, fmt="D", ms=6, capsize=3,
            color=style.VERMILION, label="extrapolated", clip_on=False, zorder=3,
        )  # fmt: skip
    exact, method = reference(run)
    if exact is not None:
        axes.axhline(exact, color=style.INK, lw=1.1, ls=":", label=method)
    axes.locator_params(axis="x", nbins=6)
    room = 0.08 + 0.016 * max(map(len, labels))  # for the label of the last point
    axes.set_xlim(-0.04 * x.max(), (1 + room) * x.max())
    axes.set_xlabel(xlabel)
    axes.set_ylabel(f"energy per site ({run.units} units)")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left")
    return figure
