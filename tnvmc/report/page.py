"""One page that tells a run (``tnvmc report``); `templates/` has its places and its look."""

import math
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tnvmc._version import __version__
from tnvmc.report import describe
from tnvmc.report.figures import NAMES, draw, style
from tnvmc.report.numbers import known_energy, per_site
from tnvmc.report.observables import observed, samples_text
from tnvmc.report.plots import check_ours
from tnvmc.shown import duration, fixed, quoted, sentence, short, signed, templates, with_error
from tnvmc.storage.files import read_plain, write_atomically
from tnvmc.storage.run_files import (
    Json,
    Run,
    is_current,
    read_run,
    steps_asked,
    steps_done,
    wall_time,
)
from tnvmc.storage.run_folder import CONFIG, disk_errors
from tnvmc.trust.finished_run import diagnostics_of, verdict

REPORT = "report.html"
MADE_BY = "tnvmc report"
"""What every page says of its origin, in its metadata."""

_DRAWN = {"chains": "Markov chains", "direct": "direct sampling"}

Row = list[str | None]


class ReportError(ValueError):
    """A report that cannot be written where it was asked for."""


def write_report(path: str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a run, RUNDIR/report.html by default, and give its place.

    A report that was made here before is replaced; for other files there is a `PictureError`, for
    places that cannot be written a `ReportError`, for a folder without a run a `FolderError`.
    """
    run = read_run(path)
    place = run.path / REPORT if out is None else Path(out)
    if place.is_dir():
        raise ReportError(f"{place}: is a folder; give --out the name of a file")
    check_ours(place.parent, [place], MADE_BY)
    content = report_html(run).encode()
    with disk_errors(place, ReportError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, content)
    return place


def report_html(run: Run) -> str:
    """Make the page: text, tables and pictures in one file, without scripts or references."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("tnvmc.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=StrictUndefined,
    )  # fmt: skip
    made = draw([run], NAMES)
    figures = {name: style.inline_svg(figure, name) for name, figure in made.figures.items()}
    return templates.get_template("page.html").render(
        page_data(run), figures=figures, left_out=[_capital(line) for line in made.left_out],
        made_by=MADE_BY, version=__version__,
        date=datetime.now().strftime("%Y-%m-%d %H:%M"),
    ).lstrip()  # fmt: skip


def page_data(run: Run) -> dict[str, Any]:
    """Collect what the page shows of a run, all but the pictures; tables are lists of rows."""
    told = describe.facts(run)
    factors = (run.observables or {}).get("structure_factor") or {}
    kept = ", ".join(Path(name).name for name in describe.orthogonal_to(run.config))
    state = told.get("state"), told.get("contraction"), kept and f"orthogonal to {kept}"
    subtitle = *state, f"run {run.name}"
    return {
        "name": run.name,
        "title": _title(told) or run.name,
        "subtitle": " · ".join(filter(None, subtitle)),
        "units": describe.units_of(run),
        "headline": list(_headline(run)),
        "words": _words(run),
        "comparison": _comparison(run),
        "total": per_site(run.result or {}, 1),
        "about": _about(run, told),
        "stages": _stages(run),
        "chi_scan": _chi_scan(run),
        "double_layer": _double_layer(run),
        "observables": [
            (row.name.replace("^2", "²"), row.detail.replace("-", "−"), row.value)
            for row in observed(run.observables or {})
        ],
        "measured": list(_measured(run)),
        "zone": next((factor.get("zone", "square") for factor in factors.values()), "square"),
        "settings": _settings(run),
        "runs_again": bool(run.config),
        "made_with": (run.result or {}).get("version"),
    }


def _title(told: Mapping[str, str]) -> str:
    model, _, couplings = told.get("model", "").partition(", ")
    lattice = told.get("lattice", "").replace(" x ", " × ")
    return ", ".join(filter(None, (templates()["models"].get(model, model), couplings, lattice)))


def _headline(run: Run) -> Iterator[tuple[str, str]]:
    """Values and labels of the boxes."""
    found = describe.energy_per_site(run)
    if found is None:
        return
    energy, error, where = found
    sector = describe.facts(run).get("sector")
    units = ", ".join(filter(None, [f"{describe.units_of(run)} units", sector]))
    yield with_error(energy, error), f"energy per site, {units}, {where}"
    exact, method, known_error = describe.reference(run)
    if exact:
        off = (energy - exact) / abs(exact)
        error = math.hypot(error, known_error) / abs(exact)
        yield signed(off, error, 1.0), f"relative to {method} energy"
    result: Json = run.result or {}
    if variance := _short(result, "variance", run.n_sites):
        yield variance, "variance per site"
    if score := _short(result, "v_score"):
        yield score, "V-score"


def _words(run: Run) -> list[tuple[str, str]]:
    """Status and sentence of the verdict, then of all that is to be known; the worst first."""
    result: Json = run.result or {}
    told = [("warning", describe.damage_text(damage)) for damage in run.damage]
    if not is_current(run):
        asked = steps_asked(run)
        text = f"{steps_done(run)}{'' if asked is None else f' of {asked}'} steps are done"
        if run.result is not None:
            text += f", and the measurement is that after {result.get('steps')}, with its settings"
        told.append(("warning", f"the run is not finished: {text}"))
    found = diagnostics_of(result)
    told += [(str(each.status), sentence(each)) for each in found]
    if run.result is not None and not result.get("convergence"):
        told.append(("open", "convergence in χ was not measured (tnvmc converge)"))
    told.sort(key=lambda line: describe.STATUSES.index(line[0]))
    if run.result is not None:
        told.insert(0, ("verdict", sentence(verdict(found))))
    return [(status, _capital(text)) for status, text in dict.fromkeys(told)]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _comparison(run: Run) -> list[Row]:
    """Energies per site: this run, its extrapolations, the known one."""
    found, (exact, method, known_error) = describe.energy_per_site(run), describe.reference(run)
    if found is None:
        return []
    n, fits = run.n_sites or 1, _convergence(run)
    energies: dict[str, Json] = {
        found[2]: {"energy": n * found[0], "energy_error": n * found[1]},
        "extrapolated to zero variance": fits.get("variance") or {},
        "extrapolated to infinite D": fits.get("bond_dimension") or {},
    }
    rows: list[Row] = []
    for source, held in energies.items():
        if None in (held.get("energy"), held.get("energy_error")):  # as a line through two points
            continue
        relative = in_errors = None
        if exact:
            off = held["energy"] / n - exact
            error = math.hypot(held["energy_error"] / n, known_error)
            relative = signed(off / abs(exact), error / abs(exact), 1.0)
            in_errors = f"{off / error:+.1f}" if error > 0 else None
        rows.append(["this run", source, per_site(held, n), relative, in_errors])
    if exact:
        source = str((run.result or {}).get("exact_source") or "published")
        rows.append([method, source, known_energy(exact, known_error), None, None])
    return rows


def _convergence(run: Run) -> Json:
    return (run.result or {}).get("convergence") or {}


def _short(held: Json, key: str, n_sites: int | None = 1) -> str | None:
    """Write a number with two digits, per site."""
    return None if held.get(key) is None or not n_sites else short(held[key] / n_sites)


def _about(run: Run, told: Mapping[str, str]) -> list[tuple[str, str]]:
    """Facts about the run; what is not known is left out."""
    result: Json = run.result or {}
    asked, done = steps_asked(run), steps_done(run)
    seconds = result.get("wall_time_s") or wall_time(run.history)
    more = {
        "steps": f"{done}" + ("" if asked is None or asked == done else f" of {asked} asked"),
        "χ of measurement": result.get("chi") or run.setting("measure", "chi"),
        "time": duration(seconds) if seconds else None,
        "seed": run.setting("run", "seed"),
        "version": result.get("version") and f"tnvmc {result['version']}",
    }
    keys = ("n_parameters", "n_samples", *describe.DRAWS)
    rows = {**told, **dict(describe.measured_numbers(result, keys)), **more}
    return [(name, str(value)) for name, value in rows.items() if value is not None]


def _stages(run: Run) -> list[Row]:
    """What each stage did and where it ended."""
    keys = ("stage", "stopped", "D", "chi", "n_samples", "steps")
    return [
        [
            *(stage.get(key) and str(stage[key]).replace("_", " ") for key in keys),
            per_site(stage, run.n_sites),
            _short(stage, "variance", run.n_sites),
            _if_known(stage.get("seconds"), duration),
        ]
        for stage in describe.stages_of(run)
    ]


def _if_known(value: Any, text: Callable[[Any], str]) -> str | None:
    return None if value is None else text(value)


def _chi_scan(run: Run) -> list[Row]:
    """Energies at several chi on the same configurations."""
    n, rows = run.n_sites or 1, []
    for point in _convergence(run).get("chi") or []:
        off, error = point.get("difference"), point.get("difference_error") or 0.0
        between: Row = [None, None]
        if off is not None and error > 0:
            moved = signed(off / n, error / n, (point["energy"] or 0.0) / n)
            between = [moved, None if moved == "0" else f"{off / error:+.1f}"]
        spread = _short(point, "closure_spread")
        rows.append([str(point["chi"]), per_site(point, n), *between, spread])
    return rows


def _double_layer(run: Run) -> list[Row]:
    """Energies by the double layer at several chi of its own."""
    n = run.n_sites or 1
    return [
        [
            str(point["chi"]),
            _if_known(point.get("energy"), lambda energy: fixed(energy / n, 10)),
            _short(point, "closure_spread"),
            _if_known(point.get("seconds"), duration),
        ]
        for point in (_convergence(run).get("double_layer") or {}).get("points") or []
    ]


def _measured(run: Run) -> Iterator[str]:
    """How the observables were measured, and what is to be known of that."""
    held = run.observables
    if held is None:
        yield f"None are measured; do so with: tnvmc measure {quoted(run.path)}"
        return
    drawn = _DRAWN.get(str(held.get("drawn")))
    group = f", symmetrised over {', '.join(held['symmetry'])}" if held.get("symmetry") else ""
    yield f"Samples: {samples_text(held)}{f'; {drawn}' if drawn else ''}{group}."
    yield from (_capital(sentence(found)) for found in diagnostics_of(held))
    if stale := describe.outdated_text(run):
        yield stale


def _settings(run: Run) -> str:
    try:
        return read_plain(run.path / CONFIG).decode().strip()
    except (OSError, UnicodeDecodeError):
        return ""
