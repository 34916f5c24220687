"""Level 10: pictures in Python: results in, matplotlib axes in and out.

>>> ax = tnvmc.plot.history({"D = 2": first, "D = 3": second}, against="seconds")  # doctest: +SKIP
>>> ax.figure.savefig("energy.pdf")  # doctest: +SKIP

Every function draws into `ax`, or into axes of a new figure of pyplot, and gives the axes.  A run
is what `load_run` gives, or the path of its folder; observables are a run or the dict of its
observables.json.  What cannot be drawn is a `ValueError` that says what is lacking.  Where files of
a run are damaged or of an earlier step there is an `UnreliableWarning`.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
    if len(units := {curve.units for curve in given}) > 1:
        raise ValueError(f"plot.history: units {', '.join(sorted(units))}; draw such runs apart")
    known = [curve for curve in given if curve.lines and panel.is_known(curve)]
    if not known:
        lacking = panel.lacking if any(curve.lines for curve in given) else "there are no steps"
        raise ValueError(f"plot.history: {lacking}")
    return _into(ax, lambda axes: panel.draw(axes, known, against))


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

    `found` is a run or observables; `site` by default the central one.

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
    """Draw S(q) of a run or observables over the Brillouin zone; of a chain as a curve."""
    run = _run(found)
    return _into(ax, lambda axes: momentum.draw_structure_factor(axes, run), "structure_factor")


def chi(found: Any, ax: Axes = None) -> Axes:
    """Draw how far the energy per site lies from that at the largest chi.

    `found` is what `VMC.converge` gives, or a run; else as `lattice`.
    """
    run = _run(found)
    return _into(ax, lambda axes: extrapolations.draw_chi(axes, run), "chi")


def entropy(found: Any, ax: Axes = None) -> Axes:
    """Draw the Renyi-2 entropies of several blocks, of `renyi2`, against their size."""

    def draw(axes: Axes) -> None:
        x, y, error = zip(*((len(e.sites), e.entropy, e.error) for e in found), strict=True)
        axes.errorbar(x, y, error, marker="o", ms=4, lw=1.0, capsize=3)
        axes.set(xticks=x, xlabel="sites in the block", ylabel="Rényi-2 entropy $S_2$")

    return _into(ax, draw)


def _into(ax: Axes, draw: Callable[[Axes], None], name: str = "") -> Axes:
    """Draw into axes, or into new ones in the common style; what is lacking is an error."""
    if ax is not None:
        with _lacking(name):
            draw(ax)
        return ax
    from matplotlib import pyplot

    # For its first picture pyplot loads what shows pictures.  That of notebooks sets "interactive",
    # which would be undone at the end of `styled`.
    pyplot.draw_if_interactive()
    with style.styled():
        made, ax = pyplot.subplots(layout="constrained")
        try:
            return _into(ax, draw, name)
        except ValueError:
            pyplot.close(made)
            raise


@contextmanager
def _lacking(name: str) -> Iterator[None]:
    """Name the picture in what is raised of missing data."""
    try:
        yield
    except style.Lacking as lacking:
        raise ValueError(f"plot.{name}: {lacking}") from None


def _run(found: Any) -> Run:
    """The files of a run that something belongs to, or those that it would be."""
    if isinstance(found, str | Path):
        found = read_run(found)
    found = getattr(found, "files", found)
    if isinstance(found, ChiScan):
        parts = {"chi": found.as_dicts(), "double_layer": None}
        if found.double_layer is not None:
            parts["double_layer"] = found.double_layer.as_dict()
        content = {"n_sites": found.n_sites, "units": found.units, "convergence": parts}
        return Run(Path(), result=content)
    if isinstance(found, Mapping):
        return Run(Path(), observables=found)
    if not isinstance(found, Run):
        kind = type(found).__name__
        raise TypeError(f"plot: takes a run, its folder or its observables, not a {kind}")
    for text in (*map(damage_text, found.damage), outdated_text(found)):
        if text:
            warnings.warn(UnreliableWarning(f"{found.path}: {text}"), stacklevel=3)
    return found


def _pairs(name: str, found: Any, site: int | None) -> pairs.PairCorrelations:
    run = _run(found)
    site = None if site is None else whole(f"plot.{name}", "site", site, 0)
    if site is not None and run.n_sites is not None and site >= run.n_sites:
        raise ValueError(f"plot.{name}: site = {site}; there are the sites 0..{run.n_sites - 1}")
    with _lacking(name):
        return pairs.pair_correlations(run, site)


def _curves(found: Any, exact_energy: float | None) -> list[histories.History]:
    """The histories to draw, with their labels."""
    if isinstance(found, Mapping):
        named = [replace(_curve(each), label=str(label)) for label, each in found.items()]
    elif isinstance(found, list | tuple) and not isinstance(found, History):
        made = [_curve(each) for each in found]
        named = [replace(c, label=c.label or f"run {n}") for n, c in enumerate(made, 1)]
    else:
        named = [_curve(found)]
    if exact_energy is None:
        return named
    total = real("plot.history", "exact_energy", exact_energy)
    return [replace(curve, exact=total / curve.n_sites, exact_label="exact") for curve in named]


def _curve(found: Any) -> histories.History:
    if not isinstance(found, History):
        made = histories.history_of(_run(found))
        if made is None:
            raise ValueError("plot.history: the number of sites is not known: no file tells it")
        return made
    elapsed = histories.passed([record.as_dict() for record in found])
    lines = tuple(
        record.as_dict() | dict(found.labels.get(record.step, {})) | {"elapsed": float(so_far)}
        for record, so_far in zip(found, elapsed, strict=True)
        if np.isfinite(record.energy)
    )
    return histories.History("", found.units, lines, found.n_sites)
