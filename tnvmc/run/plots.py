"""The picture of a run: energy with its error and, where the exact value is known, how far off."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# Okabe and Ito's palette, which people with colour-blindness can tell apart.
_BLUE, _VERMILION, _GREY, _GREEN = "#0072B2", "#D55E00", "#555555", "#009E73"


def energy_picture(
    history: Sequence[Mapping[str, Any]],
    n_sites: int,
    *,
    title: str,
    units: str,
    exact_per_site: float | None = None,
    exact_label: str = "exact",
    measured: tuple[float, float] | None = None,
) -> bytes:
    """Draw energy per site with its error against the step and, below, the relative error: a PNG.

    Without an exact value the lower panel shows the variance per site.  `measured` is the final
    energy per site and its error.  Steps that were undone appear as crosses.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 6.0), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True)
    stayed = [line for line in history if not line["undone"] and line["energy"] is not None]
    undone = [line for line in history if line["undone"] and line["energy"] is not None]
    steps = np.array([line["step"] for line in stayed])
    energies = np.array([line["energy"] for line in stayed], dtype=float) / n_sites
    errors = np.array([line["energy_error"] or 0.0 for line in stayed], dtype=float) / n_sites

    above.plot(steps, energies, color=_BLUE, lw=1.3, label="energy at each step")
    above.fill_between(steps, energies - errors, energies + errors, color=_BLUE, alpha=0.25, lw=0)
    if exact_per_site is not None:
        above.axhline(exact_per_site, color=_GREY, ls="--", lw=1.2, label=exact_label)
    end = (steps[-1] + 1) if len(steps) else 0
    if measured is not None:
        above.errorbar(
            end, measured[0], measured[1], color=_VERMILION, fmt="o", ms=5, label="measured"
        )
    _limit(above, energies, errors, exact_per_site)
    if undone:
        _crosses(above, undone, n_sites)
    above.set_ylabel(f"energy per site ({units} units)")
    above.set_title(title)
    above.legend(frameon=False)

    if exact_per_site:
        scale = abs(exact_per_site)
        off, off_error = np.abs(energies - exact_per_site) / scale, errors / scale
        below.plot(steps, off, color=_BLUE, lw=1.3, label="each step")
        below.plot(steps, off_error, color=_GREEN, lw=1, ls=":", label="error bar of one step")
        if measured is not None:
            below.plot(end, abs(measured[0] - exact_per_site) / scale, "o", color=_VERMILION, ms=5)
        below.set_ylabel("relative error")
    else:
        variances = np.array([line["variance"] for line in stayed], dtype=float) / n_sites
        below.plot(steps, variances, color=_BLUE, lw=1.3, label="variance of the local energy")
        below.set_ylabel("variance per site")
    if any((line.get_ydata() > 0).any() for line in below.lines):
        below.set_yscale("log", nonpositive="mask")
    below.set_xlabel("step")
    below.xaxis.get_major_locator().set_params(integer=True)
    below.legend(frameon=False)
    for axes in (above, below):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=150)
    return image.getvalue()


def _limit(axes: Any, energies: np.ndarray, errors: np.ndarray, exact: float | None) -> None:
    """Let the last nine tenths of the run fill the panel; a bad start may leave it at the top."""
    if not len(energies):
        return
    late = slice(len(energies) // 10, None)
    values = np.concatenate(
        [(energies + errors)[late], (energies - errors)[late], [exact] if exact else []]
    )
    low, high = float(values.min()), float(values.max())
    margin = 0.08 * (high - low) or 0.01 * abs(high) or 1.0
    axes.set_ylim(low - margin, high + margin)


def _crosses(axes: Any, undone: Sequence[Mapping[str, Any]], n_sites: int) -> None:
    top = axes.get_ylim()[1]
    axes.plot(
        [line["step"] for line in undone],
        [min(line["energy"] / n_sites, top) for line in undone],
        "x", color=_VERMILION, clip_on=False, label="step undone",
    )  # fmt: skip
