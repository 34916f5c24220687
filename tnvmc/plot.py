"""Level 10: pictures in Python: results in, matplotlib axes in and out.

>>> ax = tnvmc.plot.history({"D = 2": first, "D = 3": second}, against="seconds")  # doctest: +SKIP
>>> ax.figure.savefig("energy.pdf")  # doctest: +SKIP

Every function draws into `ax`, or into axes of a new figure of pyplot, and gives the axes.  A run
is what `load_run` gives, or the path of its folder; observables are a run or the dict of its
observables.json.  What cannot be drawn is a `ValueError` that says what is lacking.  Where files of
a run are damaged or of an earlier step there is an `UnreliableWarning`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.backend.arguments import one_of, real, whole
from tnvmc.estimate.diagnostic import UnreliableWarning
from tnvmc.report.describe import damage_text, outdated_text
from tnvmc.report.figures import extrapolations, maps, momentum, pairs, style
from tnvmc.report.figures import history as histories
from tnvmc.storage.run_files import Run, read_run
from tnvmc.trust.chi_scan import ChiScan
from tnvmc.vmc.history import History
from tnvmc.vmc.results import Measurement

Axes = Any


def history(
    found: Any,
    ax: Axes = None,
    against: str = "step",
    quantity: str = "energy",
    exact_energy: float | None = None,
) -> Axes:
    """Draw what each step of one or several optimisations reported.

    Args:
        found: a `History`, a run, a list of them, or a dict of them by label.
        ax: axes to draw into.
        against: "step" or "seconds".
        quantity: "energy" (per site, with errors), "relative_error", "variance" (per site),
            "acceptance" or "closure_spread".
        exact_energy: a total to compare with; by default that of the run, where it knows one.

    Raises:
        ValueError: nothing to draw, or no such quantity.
        FolderError: a path without a run.
    """
    one_of("plot.history", "against", against, tuple(histories.ABSCISSAS))
    one_of("plot.history", "quantity", quantity, tuple(histories.PANELS))
    panel = histories.PANELS[quantity]
    given = _curves(found, exact_energy)
    known = [curve for curve in given if curve.lines and panel.is_known(curve)]
    if not known:
        lacking = panel.lacking if any(curve.lines for curve in given) else "there are no steps"
        raise ValueError(f"plot.history: {lacking}")

    def draw(axes: Axes) -> None:
        panel.draw(axes, known, against)
        axes.set_xlabel(histories.ABSCISSAS[against])
        axes.set_ylabel(panel.label(known[0]))
        if len(known) == 1:
            histories.mark_stages(axes, known[0], against)

    return _into(ax, draw)


def energy(found: Measurement, ax: Axes = None, label: str = "measured") -> Axes:
    """Draw the energy per site of a measurement as a line with a band of its error.

    Meant for axes that hold a history: ``plot.energy(measurement, history.plot())``.
    """

    def draw(axes: Axes) -> None:
        value, error = found.energy_per_site, found.energy_per_site_error
        axes.axhline(value, color=style.VERMILION, lw=1.1, label=label)
        if np.isfinite(error):
            band = (value - error, value + error)
            axes.axhspan(*band, color=style.VERMILION, alpha=0.22, lw=0)
        if not axes.get_ylabel():
            axes.set_ylabel(f"energy per site ({found.units} units)")
        style.legend(axes)

    return _into(ax, draw)


def correlations(found: Any, ax: Axes = None, site: int | None = None) -> Axes:
    """Draw the size of the correlation of one site with the others against the distance.

    Args:
        found: a run or observables.
        ax: axes to draw into.
        site: by default the central one.

    Raises:
        ValueError: no correlations are measured, no such site, a list of bonds without coordinates.
    """
    measured = _pairs("correlations", found, site)
    return _into(ax, lambda axes: pairs.draw_decay(axes, measured))


def correlation_map(found: Any, ax: Axes = None, site: int | None = None) -> Axes:
    """Draw the correlation of one site with the others on the lattice; else as `correlations`."""
    measured = _pairs("correlation_map", found, site)
    return _into(ax, lambda axes: pairs.draw_correlation_map(axes, measured))


def lattice(found: Any, ax: Axes = None) -> Axes:
    """Draw the energies of the bonds, and <Sz> or <n> on the sites, of a run or observables.

    Raises:
        ValueError: no bond energies are measured, or a list of bonds without coordinates.
    """
    run = _run(found)
    return _into(ax, lambda axes: maps.draw_lattice(axes, run), "lattice")


def structure_factor(found: Any, ax: Axes = None) -> Axes:
    """Draw S(q) of a run or observables over the Brillouin zone; of a chain as a curve.

    Raises:
        ValueError: no structure factor is measured, or a list of bonds without coordinates.
    """
    run = _run(found)
    return _into(ax, lambda axes: momentum.draw_structure_factor(axes, run), "structure_factor")


def chi(found: Any, ax: Axes = None) -> Axes:
    """Draw how far the energy per site lies from that at the largest chi.

    Args:
        found: what `VMC.converge` gives, or a run.
        ax: axes to draw into.

    Raises:
        ValueError: there are no energies at several chi.
    """
    run = _run(found)
    return _into(ax, lambda axes: extrapolations.draw_chi(axes, run), "chi")


def _into(ax: Axes, draw: Callable[[Axes], None], name: str = "") -> Axes:
    """Draw into axes, or into new ones in the common style; what is lacking is an error."""
    made = None
    if ax is None:
        _choose_backend()
    with style.styled() if ax is None else nullcontext():
        if ax is None:
            from matplotlib import pyplot

            made, ax = pyplot.subplots(layout="constrained")
        try:
            draw(ax)
        except style.Lacking as lacking:
            if made is not None:
                pyplot.close(made)
            raise ValueError(f"plot.{name}: {lacking}") from None
    return ax


def _choose_backend() -> None:
    """Let pyplot load what shows pictures, which it does for the first of them only.

    That of notebooks sets "interactive", without which they show no picture; within `styled` this
    would be undone at the end.
    """
    from matplotlib import pyplot

    pyplot.draw_if_interactive()


def _run(found: Any) -> Run:
    """The files of a run that something belongs to, or those that it would be."""
    if isinstance(found, str | Path):
        found = read_run(found)
    found = getattr(found, "files", found)
    if isinstance(found, Run):
        _warn(found)
        return found
    if isinstance(found, ChiScan):
        return Run(Path(), result=_as_result(found))
    if isinstance(found, Mapping):
        return Run(Path(), observables=found)
    raise TypeError(f"plot: takes a run, its folder or its observables, not a {_kind(found)}")


def _warn(run: Run) -> None:
    told = [damage_text(damage) for damage in run.damage]
    for text in [*told, *filter(None, [outdated_text(run)])]:
        warnings.warn(UnreliableWarning(f"{run.path}: {text}"), stacklevel=4)


def _as_result(found: ChiScan) -> dict[str, Any]:
    """What result.json would say of a convergence in chi."""
    double = found.double_layer and found.double_layer.as_dict()
    parts = {"chi": found.as_dicts(), "double_layer": double}
    return {"n_sites": found.n_sites, "units": found.units, "convergence": parts}


def _pairs(name: str, found: Any, site: int | None) -> pairs.PairCorrelations:
    run = _run(found)
    site = None if site is None else whole(f"plot.{name}", "site", site, 0)
    if site is not None and run.shape is not None:
        n_sites = run.shape[0] * run.shape[1]
        if site >= n_sites:
            raise ValueError(f"plot.{name}: site = {site}; there are the sites 0..{n_sites - 1}")
    try:
        return pairs.pair_correlations(run, site)
    except style.Lacking as lacking:
        raise ValueError(f"plot.{name}: {lacking}") from None


def _curves(found: Any, exact_energy: float | None) -> list[histories.History]:
    """The histories to draw, with their labels."""
    if isinstance(found, Mapping):
        named = [replace(_curve(each), label=str(label)) for label, each in found.items()]
    elif isinstance(found, Sequence) and not isinstance(found, History | str):
        made = [_curve(each) for each in found]
        named = [replace(c, label=c.label or f"run {n + 1}") for n, c in enumerate(made)]
    else:
        named = [_curve(found)]
    if exact_energy is None:
        return named
    exact_energy = real("plot.history", "exact_energy", exact_energy)
    return [
        replace(curve, exact=exact_energy / curve.n_sites, exact_label="exact") for curve in named
    ]


def _curve(found: Any) -> histories.History:
    if not isinstance(found, History):
        made = histories.history_of(_run(found))
        if made is None:
            raise ValueError("plot.history: the number of sites is not known: no file tells it")
        return made
    elapsed = np.cumsum([record.seconds for record in found])
    lines = tuple(
        record.as_dict() | dict(found.labels.get(record.step, {})) | {"elapsed": float(so_far)}
        for record, so_far in zip(found, elapsed, strict=True)
        if np.isfinite(record.energy)
    )
    return histories.History("", found.units, lines, found.n_sites)


def _kind(found: Any) -> str:
    return type(found).__name__
