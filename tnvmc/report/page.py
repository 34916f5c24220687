"""One page that tells a run: ``tnvmc report``.

`page_data` collects what is shown, `templates/page.html` has its place and `style.css` its look.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tnvmc._version import __version__
from tnvmc.analysis.diagnostics import diagnostics_of
from tnvmc.report import describe
from tnvmc.report.figures import NAMES, draw, style
from tnvmc.report.numbers import duration, short, signed, ten_digits, with_error
from tnvmc.report.observables import observed, samples_text
from tnvmc.report.plots import check_ours
from tnvmc.report.texts import sentence
from tnvmc.storage.files import write_atomically
from tnvmc.storage.run_files import Json, Run, is_finished, read_run, steps_asked, steps_done
from tnvmc.storage.run_folder import CONFIG

REPORT = "report.html"
MADE_BY = "tnvmc report"
"""What every page says of its origin, in its metadata."""

_CAPTIONS = {
    "energy": "Energy per site at each step; the band is one standard error.",
    "relative_error": "Distance to the known energy. Triangles: steps below it.",
    "variance": "Variance of the local energy, zero for an eigenstate.",
    "acceptance": "Share of the proposed moves that were accepted.",
    "closure_spread": "What truncation leaves: ln|ψ| closed at different rows, largest − smallest.",
    "lattice": "Energy of every bond (width and colour) and the local field on the sites.",
    "correlations": "Correlation of the starred site with all others.",
    "structure_factor": "Structure factor on the zone (dashed) and along Γ–X–M–Γ.",
    "chi": "Energy at several χ on the same configurations, and the closure spread.",
    "zero_variance": "Energy against variance; the diamond is the extrapolation to zero variance.",
    "bond_dimension": "Energy against 1/D; the diamond is the extrapolation to infinite D.",
}
_MODELS = {
    "heisenberg": "Heisenberg model",
    "xxz": "XXZ model",
    "j1j2": "J1–J2 model",
    "tfim": "Transverse-field Ising model",
    "rydberg": "Rydberg atoms",
    "shastry_sutherland": "Shastry–Sutherland model",
}
_LABELS = {
    "error": "Error.",
    "warning": "Warning.",
    "open": "Open.",
    "good": "Good.",
    "fact": "Compared.",
}
"""By status, the worst first; "fact" is a statement that is neither good nor bad."""
_DRAWN = {"chains": "Markov chains", "direct": "direct sampling"}

Row = Sequence[str | None]


class ReportError(ValueError):
    """A report that cannot be written where it was asked for."""


def write_report(path: str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a run, RUNDIR/report.html by default, and give its place.

    A report that was made here before is replaced; other files never.

    Raises:
        FolderError: a folder without a run.
        PictureError, ReportError: a file in the way, or a place that cannot be written.
    """
    run = read_run(path)
    place = run.path / REPORT if out is None else Path(out)
    if place.is_dir():
        raise ReportError(f"{place}: is a folder; give --out the name of a file")
    check_ours(place.parent, [place], MADE_BY)
    content = report_html(run).encode()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, content)
    except OSError as error:
        raise ReportError(f"{place}: cannot be written ({error.strerror})") from None
    return place


def report_html(run: Run) -> str:
    """Make the page: text, tables and pictures in one file, without scripts or references."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("tnvmc.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=StrictUndefined,
    )  # fmt: skip
    made = draw([run], NAMES)
    with style.styled():
        figures = {
            name: {"svg": style.inline_svg(figure, name), "caption": _CAPTIONS[name]}
            for name, figure in made.figures.items()
        }
    return templates.get_template("page.html").render(
        page_data(run), figures=figures, left_out=[_capital(line) for line in made.left_out],
        labels=_LABELS, made_by=MADE_BY, version=__version__,
        date=datetime.now().strftime("%Y-%m-%d %H:%M"),
    ).lstrip()  # fmt: skip


def page_data(run: Run) -> dict[str, Any]:
    """Collect what the page shows of a run, all but the pictures: text, lists and tables.

    A table is a dict: "head", "rows" (cells are text, or None), "words" (its first columns, which
    are text; the others are numbers) and "own" (whether its first row stands out); None is no table.
    """
    title = _title(run)
    subtitle = (describe.state_text(run), describe.contraction_text(run), f"run {run.name}")
    return {
        "name": run.name,
        "title": title,
        "subtitle": " · ".join(part for part in subtitle if part),
        "units": describe.units_of(run),
        "headline": list(_headline(run)),
        "words": _words(run),
        "comparison": _comparison(run),
        "total": _energy(1, run.result or {}),
        "about": [(name, value) for name, value in _about(run) if value is not None],
        "stages": _stages(run),
        "chi_scan": _chi_scan(run),
        "extrapolations": _extrapolations(run),
        "observables": _observables(run),
        "measured": list(_measured(run)),
        "bonds": _bonds(run),
        "settings": _settings(run),
        "runs_again": bool(run.config),
        "made_with": (run.result or {}).get("version"),
    }


def _table(
    head: Sequence[str], rows: Sequence[Row], words: int = 1, own: bool = False
) -> dict[str, Any] | None:
    return {"head": head, "rows": rows, "words": words, "own": own} if rows else None


def _title(run: Run) -> str:
    model, _, couplings = (describe.model_text(run) or "").partition(", ")
    lattice = (describe.lattice_text(run) or "").replace(" x ", " × ")
    parts = [_MODELS.get(model, model), couplings, lattice]
    return ", ".join(part for part in parts if part) or run.name


def _headline(run: Run) -> Iterator[tuple[str, str]]:
    """Values and labels of the boxes."""
    found = describe.energy_per_site(run)
    if found is None:
        return
    energy, error, where = found
    yield with_error(energy, error), f"energy per site, {describe.units_of(run)} units, {where}"
    exact, method = describe.reference(run)
    if exact:
        off = (energy - exact) / abs(exact)
        yield signed(off, error / abs(exact)), f"relative to {method} energy"
    result: Json = run.result or {}
    if variance := _short(result, "variance", run.n_sites):
        yield variance, "variance per site"
    if score := _short(result, "v_score"):
        yield score, "V-score"


def _words(run: Run) -> list[tuple[str, str]]:
    """Status and sentence of everything that is to be known of the result; the worst first."""
    result: Json = run.result or {}
    told: list[tuple[str, str]] = [
        ("warning", describe.damage_text(damage)) for damage in run.damage
    ]
    if not is_finished(run):
        asked = steps_asked(run)
        steps = f"{steps_done(run)}{'' if asked is None else f' of {asked}'} steps are done"
        state = ", and the measurement is of an earlier state" if run.result is not None else ""
        told.append(("warning", f"the run is not finished: {steps}{state}"))
    told += [(found.status, sentence(found)) for found in diagnostics_of(result)]
    energy, (exact, method) = describe.energy_per_site(run), describe.reference(run)
    if all(status == "good" for status, _ in told):
        told.append(("good", "no check has raised a warning"))
    if run.result is not None and not result.get("convergence"):
        told.append(("open", "convergence in χ was not measured (tnvmc converge)"))
    if energy is not None and exact:
        off, error = energy[0] - exact, energy[1]
        side = "above" if off >= 0 else "below"
        sigma = f", {abs(off) / error:.1f} error bars" if error else ""
        part = short(abs(off / exact))
        told.append(("fact", f"the energy is {part} {side} the {method} one (relative){sigma}"))
    order = list(_LABELS)
    told.sort(key=lambda line: order.index(line[0]))
    return [(status, _capital(text)) for status, text in dict.fromkeys(told)]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _comparison(run: Run) -> dict[str, Any] | None:
    """Energies per site: this run, its extrapolations, the known one."""
    found, (exact, method) = describe.energy_per_site(run), describe.reference(run)
    if found is None:
        return None
    n = run.n_sites or 1
    energies: list[tuple[str, Json]] = [(found[2], {"energy": found[0], "energy_error": found[1]})]
    for _, towards, fit in _fits(run):
        per_site = {key: fit[key] and fit[key] / n for key in ("energy", "energy_error")}
        energies.append((f"extrapolated to {towards}", per_site))
    rows: list[Row] = []
    for source, held in energies:
        relative = in_errors = None
        if exact and held["energy"] is not None:
            off, error = held["energy"] - exact, held["energy_error"]
            relative = signed(off / abs(exact), (error or 0.0) / abs(exact))
            in_errors = f"{off / error:+.1f}" if error else None
        rows.append(["this run", source, _energy(1, held), relative, in_errors])
    if exact:
        source = str((run.result or {}).get("exact_source") or "published")
        rows.append([method, source, ten_digits(exact), None, None])
    head = ("energy", "from", f"per site ({describe.units_of(run)} units)", "relative difference",
            "error bars")  # fmt: skip
    return _table(head, rows, words=2, own=True)


def _fits(run: Run) -> Iterator[tuple[str, str, Json]]:
    """Key, name and content of each extrapolation."""
    convergence = (run.result or {}).get("convergence") or {}
    for key, towards in (("variance", "zero variance"), ("bond_dimension", "infinite D")):
        if convergence.get(key):
            yield key, towards, convergence[key]


def _energy(n_sites: int | None, held: Json) -> str | None:
    """Write a total energy per site; six places where its error is not known."""
    energy, error = held.get("energy"), held.get("energy_error")
    if energy is None or not n_sites:
        return None
    per_site = energy / n_sites
    return f"{per_site:.6f}" if error is None else with_error(per_site, error / n_sites)


def _short(held: Json, key: str, n_sites: int | None = 1) -> str | None:
    """Write a number with two digits, per site."""
    return None if held.get(key) is None or not n_sites else short(held[key] / n_sites)


def _about(run: Run) -> Iterator[tuple[str, str | None]]:
    result: Json = run.result or {}
    asked, done = steps_asked(run), steps_done(run)
    seconds = result.get("wall_time_s") or sum(line.get("seconds") or 0.0 for line in run.history)

    def number(key: str, form: str = "") -> str | None:
        return None if result.get(key) is None else format(result[key], form)

    yield "model", describe.model_text(run)
    yield "lattice", describe.lattice_text(run)
    yield "state", describe.state_text(run)
    yield "parameters", number("n_parameters")
    yield "network", describe.network_text(run)
    yield "contraction", describe.contraction_text(run)
    yield "sampling", describe.sampling_text(run)
    yield "optimizer", describe.optimizer_text(run)
    yield "steps", f"{done}" + ("" if asked is None or asked == done else f" of {asked} asked")
    yield "samples", number("n_samples")
    yield "χ of measurement", _text(run.setting("measure", "chi"))
    yield "τ (draws)", number("tau", ".2f")
    yield "R-hat", number("r_hat", ".4f")
    yield "acceptance", number("acceptance", ".3f")
    yield "closure spread", (_short(result, "closure_spread") or "").replace("-", "−") or None
    yield "time", duration(seconds) if seconds else None
    yield "seed", _text(run.setting("run", "seed"))
    yield "version", f"tnvmc {result['version']}" if result.get("version") else None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _stages(run: Run) -> dict[str, Any] | None:
    """What each stage did and where it ended."""
    rows = [
        [
            _text(stage.get("stage")),
            str(stage.get("kind", "")).replace("_", " "),
            stage.get("stopped"),
            *(_text(stage.get(key)) for key in ("D", "chi", "n_samples", "steps")),
            _energy(run.n_sites, stage),
            _short(stage, "variance", run.n_sites),
            None if stage.get("seconds") is None else duration(stage["seconds"]),
        ]
        for stage in describe.stages_of(run)
    ]
    head = ("", "stage", "stopped by", "D", "χ", "samples", "steps", "energy per site",
            "variance per site", "time")  # fmt: skip
    return _table(head, rows, words=3)


def _chi_scan(run: Run) -> dict[str, Any] | None:
    """Energies at several chi on the same configurations."""
    n, rows = run.n_sites or 1, []
    for point in ((run.result or {}).get("convergence") or {}).get("chi") or []:
        off, error = point.get("difference"), point.get("difference_error") or 0.0
        between: Row = [None, None]
        if off is not None and error > 0:
            between = [signed(off / n, error / n), f"{off / error:+.1f}"]
        spread = _short(point, "closure_spread")
        rows.append([str(point["chi"]), _energy(n, point), *between, spread])
    head = ("χ", "energy per site", "difference to largest χ", "in its error bars",
            "closure spread")  # fmt: skip
    return _table(head, rows)


def _extrapolations(run: Run) -> dict[str, Any] | None:
    """Points and ends of the lines to zero variance and infinite D."""
    n, rows = run.n_sites, []
    for key, towards, fit in _fits(run):
        for point in fit["points"]:
            label = f"D = {point['D']}" if key == "bond_dimension" else str(point.get("label", ""))
            rows.append([towards, label, _short(point, "variance", n), _energy(n, point)])
        if fit.get("energy") is not None:
            rows.append([towards, "extrapolated", None, _energy(n, fit)])
    head = ("towards", "point", "variance per site", "energy per site")
    return _table(head, rows, words=2)


def _observables(run: Run) -> dict[str, Any] | None:
    rows = [
        [row.name.replace("^2", "²"), row.detail.replace("-", "−"), row.value]
        for row in observed(run.observables or {})
    ]
    return _table(("observable", "", "value"), rows, words=2)


def _measured(run: Run) -> Iterator[str]:
    """How the observables were measured, and what is to be known of that."""
    held = run.observables
    if held is None:
        yield f"None are measured; do so with: tnvmc measure {run.path}"
        return
    drawn = _DRAWN.get(str(held.get("drawn")))
    group = f", symmetrised over {', '.join(held['symmetry'])}" if held.get("symmetry") else ""
    yield f"Samples: {samples_text(held)}{f'; {drawn}' if drawn else ''}{group}."
    for found in diagnostics_of(held):
        yield _capital(sentence(found))
    if stale := describe.outdated_text(run):
        yield stale


def _bonds(run: Run) -> dict[str, Any] | None:
    """All bond energies."""
    rows = [
        [f"{bond['sites'][0]}–{bond['sites'][-1]}", str(bond.get("kind", "")),
         with_error(bond["mean"], bond.get("error") or 0.0)]
        for bond in (run.observables or {}).get("bonds") or []
        if bond["mean"] is not None
    ]  # fmt: skip
    return _table(("sites", "kind", "energy"), rows, words=2)


def _settings(run: Run) -> str:
    try:
        return (run.path / CONFIG).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
