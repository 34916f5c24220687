"""The picture of an optimisation: energy against seconds, and what the steps were worth."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tnvmc.report.figures import style
from tnvmc.report.figures.history import NO_STEPS, PANELS, Curve, History, Panel, column
from tnvmc.shown import with_error
from tnvmc.trust.steps import zero_variance

NAME = "convergence"


def draw_convergence(histories: Sequence[History], against: str | None = None) -> Any:
    """Draw panels that share the seconds, or the "step", as abscissa, where they have data.

    The energy and the line to zero variance; effective samples;
    the power of |psi|^2 they were drawn from; the learning rate.
    """
    if not histories:
        raise style.Lacking(NO_STEPS)
    timed = all(history.seconds[-1] > 0 for history in histories)
    along = against or ("seconds" if timed else "step")
    panels = [panel for panel in _PANELS if any(map(panel.is_known, histories))]
    heights = [2.2, *[1.0] * (len(panels) - 1)]
    figure = style.new_figure(7.0, 1.0 + 1.15 * sum(heights))
    drawn = figure.subplots(
        len(panels), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )[:, 0]
    for number, (axes, panel) in enumerate(zip(drawn, panels, strict=True)):
        panel.draw(axes, histories, along, named=number == 0)
        axes.label_outer()
        if len(histories) > 1 and number and axes.get_legend() is not None:
            axes.get_legend().remove()
    if along == "seconds":
        drawn[0].set_xlim(left=0)
    figure.align_ylabels(drawn)
    return figure


def _energy(axes: Any, curves: Sequence[Curve]) -> None:
    """Draw energies as ever, and where the steps point at zero variance with its error."""
    PANELS["energy"].fill(axes, curves)
    low, high = axes.get_ylim()
    for curve in curves:
        line, n = zero_variance(curve.history.lines), curve.history.n_sites
        if line is None:
            continue
        end, error = line.intercept / n, line.intercept_error / n
        colour = style.GREEN if curve.name is None else curve.line["color"]
        told = with_error(end, error).replace("-", "\N{MINUS SIGN}")
        label = f"steps, at zero variance: {told}" if curve.name is None else None
        axes.axhline(end, color=colour, lw=1.1, ls="-.", label=label)
        axes.axhspan(end - error, end + error, color=colour, alpha=0.15, lw=0)
        margin = 0.05 * (high - low)
        low, high = min(low, end - error - margin), max(high, end + error + margin)
    axes.set_ylim(low, high)


_PANELS = (
    Panel(_energy, PANELS["energy"].label),
    column("effective_samples", "effective\nsamples", limits=(0, None)),
    column(
        "power", r"power of $|\psi|^2$", limits=(0, 1.05),
        is_known=lambda powers: (powers < 1).any(),
    ),
    column(
        "learning_rate", "learning rate", limits=(0, None),
        is_known=lambda rates: len({*rates[np.isfinite(rates)]}) > 1,
    ),
)  # fmt: skip
