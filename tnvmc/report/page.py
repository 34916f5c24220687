"""One page that tells a run: ``tnvmc report``."""

from __future__ import annotations

from datetime import datetime
from html import escape
from pathlib import Path

from tnvmc._version import __version__
from tnvmc.analysis.diagnostics import diagnostics_of
from tnvmc.report import page_parts as report_page
from tnvmc.report import tables
from tnvmc.report.description import duration
from tnvmc.report.figures import NAMES, draw, style
from tnvmc.report.figures.course import reference
from tnvmc.report.numbers import short, with_error
from tnvmc.report.page_parts import figure, figures, pairs, paragraph, section, words
from tnvmc.report.plots import check_ours
from tnvmc.report.tables import energy_per_site, minus, with_power
from tnvmc.report.texts import sentence
from tnvmc.storage import run_files as reading
from tnvmc.storage.files import write_atomically
from tnvmc.storage.run_files import Json, Run, read_run
from tnvmc.storage.run_folder import CONFIG

REPORT = "report.html"

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
_KINDS = {"lattice": "large", "correlations": "broad", "structure_factor": "broad"}


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
    check_ours(place.parent, [place], report_page.MADE_BY)
    content = report_html(run).encode()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, content)
    except OSError as error:
        raise ReportError(f"{place}: cannot be written ({error.strerror})") from None
    return place


def report_html(run: Run) -> str:
    """Make the page: text, tables and pictures in one file, without scripts or references."""
    made = draw([run], NAMES)
    with style.styled():
        shown = {
            name: figure(style.inline_svg(drawn, name), _CAPTIONS[name], _KINDS.get(name, ""))
            for name, drawn in made.figures.items()
        }

    def pictures(*names: str) -> str:
        return figures([shown[name] for name in names if name in shown])

    parts = (
        _header(run),
        _headline(run),
        section("In words", words(_words(run))),
        section("Energy beside what is known", tables.comparison(run)),
        section("The run", pairs(_about(run))),
        section("Stages", tables.stage_table(run)),
        section(
            "Convergence", tables.ladder(run), tables.extrapolations(run),
            pictures("chi", "zero_variance", "bond_dimension"),
        ),
        section(
            "Observables", tables.observables(run), pictures(*_KINDS), tables.bond_list(run)
        ),
        section(
            "Course of the optimisation",
            pictures("energy", "relative_error", "variance", "acceptance", "closure_spread"),
        ),
        section("Settings", _settings(run)),
        section("How to reproduce", _commands(run)),
        _footer(run, made.left_out),
    )  # fmt: skip
    return report_page.page(_title(run), "\n".join(part for part in parts if part))


def _title(run: Run) -> str:
    model, _, couplings = (reading.model_text(run) or "").partition(", ")
    lattice = (reading.lattice_text(run) or "").replace(" x ", " × ")
    parts = [_MODELS.get(model, model), couplings, lattice]
    return ", ".join(part for part in parts if part) or run.name


def _header(run: Run) -> str:
    state = [reading.state_text(run), reading.contraction_text(run), f"run {run.name}"]
    line = " · ".join(part for part in state if part)
    return f'<h1>{escape(_title(run))}</h1>\n<p class="soft">{escape(line)}</p>'


def _headline(run: Run) -> str:
    found = energy_per_site(run)
    if found is None:
        return ""
    energy, error, where = found
    boxes = [("first", with_error(energy, error), f"energy per site, {run.units} units, {where}")]
    exact, method = reference(run)
    if exact:
        off = (energy - exact) / abs(exact)
        boxes.append(("", with_power(off, error / abs(exact)), f"relative to {method} energy"))
    if run.result is not None:
        variance = run.result["variance"]
        if variance is not None:
            boxes.append(("", minus(short(variance / run.result["n_sites"])), "variance per site"))
        if run.result.get("v_score") is not None:
            boxes.append(("", short(run.result["v_score"]), "V-score"))
    cells = [
        f'<div class="{kind}"><b>{escape(minus(value))}</b><span>{escape(label)}</span></div>'
        for kind, value, label in boxes
    ]
    return f'<div class="headline">{"".join(cells)}</div>'


def _words(run: Run) -> list[tuple[str, str]]:
    """What the checks found, in words; what went wrong comes first."""
    result = run.result or {}
    wrong = list(run.damage)
    if not reading.is_finished(run):
        asked = reading.steps_asked(run)
        of = "" if asked is None else f" of {asked}"
        wrong.append(
            f"The run is not finished: {reading.steps_done(run)}{of} steps are done"
            + ("." if run.result is None else ", and the measurement is of an earlier state.")
        )
    found = diagnostics_of(result)
    wrong += [sentence(each) for each in found if each.status in ("warning", "error")]
    told = [sentence(each) for each in found if each.status in ("good", "open")]
    lines = [("warning", _sentence(text)) for text in wrong]
    lines += [("verdict", _sentence(text)) for text in told]
    if compared := _compared_in_words(run):
        lines.append(("verdict", compared))
    if not wrong and all(each.status == "good" for each in found):
        lines.append(("good", "No check has raised a warning."))
    if run.result is not None and not result.get("convergence"):
        lines.append(("verdict", "Convergence in χ was not measured (tnvmc converge)."))
    return lines


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _compared_in_words(run: Run) -> str | None:
    found, (exact, method) = energy_per_site(run), reference(run)
    if found is None or not exact:
        return None
    off, error = found[0] - exact, found[1]
    side = "above" if off >= 0 else "below"
    sigma = f", {abs(off) / error:.1f} error bars" if error else ""
    return f"The energy is {short(abs(off / exact))} {side} the {method} one (relative){sigma}."


def _about(run: Run) -> list[tuple[str, str | None]]:
    result: Json = run.result or {}
    asked, done = reading.steps_asked(run), reading.steps_done(run)
    seed = run.setting("run", "seed")
    chi, spread = run.setting("measure", "chi"), result.get("closure_spread")

    def number(key: str, form: str) -> str | None:
        return None if result.get(key) is None else format(result[key], form)

    seconds = result.get("wall_time_s") or sum(line.get("seconds") or 0.0 for line in run.history)
    return [
        ("model", reading.model_text(run)),
        ("lattice", reading.lattice_text(run)),
        ("state", reading.state_text(run)),
        ("parameters", number("n_parameters", "d")),
        ("network", reading.network_text(run)),
        ("contraction", reading.contraction_text(run)),
        ("sampling", reading.sampling_text(run)),
        ("optimizer", _optimizer(run)),
        ("steps", f"{done}" + ("" if asked is None or asked == done else f" of {asked} asked")),
        ("samples", number("n_samples", "d")),
        ("χ of measurement", None if chi is None else str(chi)),
        ("τ (draws)", number("tau", ".2f")),
        ("R-hat", number("r_hat", ".4f")),
        ("acceptance", number("acceptance", ".3f")),
        ("closure spread", None if spread is None else minus(short(spread))),
        ("time", duration(seconds) if seconds else None),
        ("seed", None if seed is None else str(seed)),
        ("version", f"tnvmc {result['version']}" if result.get("version") else None),
    ]


def _optimizer(run: Run) -> str | None:
    kind, rate = run.setting("optimizer", "kind"), run.setting("optimizer", "learning_rate")
    if kind is None:
        return None
    samples = run.setting("sampler", "n_samples")
    parts = [kind, *([f"learning rate {rate}"] if rate is not None else [])]
    return ", ".join(parts + ([f"{samples} samples a step"] if samples else []))


def _settings(run: Run) -> str:
    try:
        text = (run.path / CONFIG).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    return report_page.preformatted(text.strip(), "columns")


def _commands(run: Run) -> str:
    if not run.config:
        return ""
    version = (run.result or {}).get("version")
    lines = [
        f"tnvmc run {CONFIG} --out again    # the settings above, seed included"
        + (f"; tnvmc {version}" if version else ""),
        "tnvmc measure again" if run.observables is not None else "",
        "tnvmc report again",
    ]
    return report_page.preformatted("\n".join(line for line in lines if line))


def _footer(run: Run, left_out: tuple[str, ...]) -> str:
    date = datetime.now().strftime("%Y-%m-%d %H:%M")
    text = f"Written by tnvmc {__version__} on {date} from the files of {run.name}."
    missing = " ".join(_sentence(line) for line in left_out)
    return f"<footer>{paragraph(text)}{paragraph(missing) if missing else ''}</footer>"


def print_report(path: str, out: str | None, varbench: bool) -> None:
    """Write the report and say where it is, or print the VarBench row: the verb ``tnvmc report``.

    Raises:
        ReportError: a VarBench row of a run without a result, or `varbench` together with `out`.
    """
    if not varbench:
        print(f"written to {write_report(path, out)}")
        return
    from tnvmc.analysis.varbench import varbench_row

    if out is not None:
        raise ReportError("--varbench prints a row and writes no file; leave --out away")
    run = read_run(path)
    if run.result is None:
        raise ReportError(f"{run.path}: no result yet (result.json), so no VarBench row")
    print(varbench_row(dict(run.result)))
