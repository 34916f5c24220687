"""What a run or a checkpoint holds and how far it got: ``tnvmc show``."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.filesize import decimal

from tnvmc.report import describe as words
from tnvmc.report.describe import facts
from tnvmc.report.numbers import in_columns, in_markdown, known_energy, per_site, relative_error
from tnvmc.report.observables import observed
from tnvmc.series.kind import SeriesTable
from tnvmc.shown import duration, line, quoted, sentence, step_sentence
from tnvmc.storage import run_files
from tnvmc.storage.hdf5 import StateFileError, opened, parameters_in
from tnvmc.storage.identity import kind_in
from tnvmc.storage.run_files import OBSERVABLES, Damage, Json, Run
from tnvmc.storage.run_folder import CHECKPOINT, CONFIG, HISTORY, PICTURE, RESULT
from tnvmc.trust.finished_run import diagnostics_of, verdict

_LAST = 3  # steps whose energies are shown
_WIDTH = 13  # of the names on the left

Rows = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class Description:
    """What ``tnvmc show`` prints: (name, text) rows, and what is damaged."""

    title: str
    rows: tuple[tuple[str, str], ...]
    damage: tuple[Damage, ...] = ()

    def __str__(self) -> str:
        names = [name for name, _ in self.rows]
        lines = [
            f"  {'' if name == before else name:<{_WIDTH}} {text}"
            for before, (name, text) in zip(["", *names], self.rows, strict=False)
        ]
        lines += [f"  {'DAMAGED':<{_WIDTH}} {words.damage_text(each)}" for each in self.damage]
        return "\n".join([self.title, *lines])


def describe(path: str | Path) -> Description:
    """Describe the folder of a run, a checkpoint or a saved state, as far as it can be read.

    Raises:
        FolderError: no such path, or a folder without a run.
        StateFileError: a file that is no checkpoint, or damaged, or of a newer format.
    """
    path = Path(path)
    if path.is_file():
        return Description(str(path), tuple(_of_checkpoint(path)))
    run = run_files.read_run(path)
    status = f"stopped; go on with: tnvmc run --resume {path}"
    if run_files.is_running(run):
        status = "running"
    elif run_files.is_current(run):
        status = "finished"
    held, damage = None, list(run.damage)
    if any(found.file == CHECKPOINT and found.code != "ahead" for found in damage):
        pass  # of another run
    elif (path / CHECKPOINT).exists():
        try:
            held = _read_checkpoint(path / CHECKPOINT)
        except StateFileError as error:
            why = str(error).removeprefix(f"{path / CHECKPOINT}: ")
            damage.append(Damage(CHECKPOINT, "unreadable", why))
    elif run.history:
        damage.append(Damage(CHECKPOINT, "missing"))
    if run.result and not (path / HISTORY).exists():
        damage.append(Damage(HISTORY, "missing"))
    return Description(f"{path}: {status}", tuple(_of_run(run, held)), tuple(damage))


def _of_run(run: Run, checkpoint: Json | None) -> Rows:
    result, held = run.result or {}, checkpoint or {"identity": {}}
    told = words.facts(run, _shared_in(held["identity"]))
    found = diagnostics_of(result)
    if run.result is not None:
        yield "verdict", sentence(verdict(found))
    number = result.get("n_parameters", held["identity"].get("n_parameters"))
    if number is not None:
        count = f"{number} parameters{words.parameters_text(result)}"
        told["state"] = ", ".join([*filter(None, [told.get("state")]), count])
    yield from told.items()
    yield "progress", _progress(run, held.get("step"))
    for step in run.history[-_LAST:] if run.n_sites else ():
        what = step_sentence(diagnostics_of(step), bool(step.get("undone")))
        text = f"energy per site {per_site(step, run.n_sites) or 'not finite'}"
        yield "last steps", f"step {step['step'] + 1}: {text}{what and f'; {what}'}"
    for stage in words.stages_of(run):
        yield "stages", words.stage_line(stage, run.n_sites)
    yield "measured", _measured(run)
    if off := relative_error(result):
        exact = result["exact_energy_per_site"]
        digits = known_energy(exact, (result.get("exact_error") or 0.0) / result["n_sites"])
        known = f"{result['exact_method']} {digits} ({result['exact_source']})"
        yield "compared", f"relative error {off}; {known}"
    for each in sorted(found, key=lambda each: words.STATUSES.index(each.status)):
        yield each.status, sentence(each)
    for text in _observables(run):
        yield "observables", text
    version = result.get("version") or held.get("version", "unknown")
    names = (CONFIG, HISTORY, CHECKPOINT, RESULT, OBSERVABLES, PICTURE, "report.html")
    files = [run.path / name for name in names if (run.path / name).is_file()]
    yield "version", f"tnvmc {version}, last written {max(map(_date, files[:5]))}"
    yield "files", ", ".join(f"{file.name} {decimal(file.stat().st_size)}" for file in files)


def _read_checkpoint(path: Path) -> Json:
    """Give "identity", "version", "dtype" and, but for a saved state, "step" and "n_walkers"."""
    with opened(path) as file:
        identity, theta = parameters_in(file)
        found: dict[str, Any] = {"identity": identity, "dtype": str(theta.dtype)}
        found["version"] = str(file.attrs.get("tnvmc_version", "unknown"))
        if "step" in file:
            found["step"] = int(file["step"][()])
        if "here/configs" in file:
            found["n_walkers"] = int(file["here/configs"].shape[0])
        return found


def _of_checkpoint(path: Path) -> Rows:
    found = _read_checkpoint(path)
    about, step = found["identity"], found.get("step")
    kind, n_rows, n_columns, boundary, *_ = about["lattice"]
    D = "" if about.get("D") is None else f"D = {about['D']}, "
    yield "holds", "a saved state" if step is None else "a checkpoint"
    if "operator" in about:
        yield "model", f"{about['operator']} (fingerprint {about['fingerprint']})"
    yield "lattice", f"{kind}, {n_rows} x {n_columns} places, {boundary}"
    shares = words.symmetries_text({}, _shared_in(about))
    yield "state", f"{kind_in(about)}, {D}{found['dtype']}{shares and f', {shares}'}"
    yield "parameters", f"{about['n_parameters']}"
    if step is not None:
        yield "progress", f"{step} steps done, {found.get('n_walkers')} walkers"
    yield "version", f"tnvmc {found['version']}, written {_date(path)}"
    yield "size", decimal(path.stat().st_size)


def _shared_in(identity: Json) -> Json | None:
    """What a checkpoint tells of tensors that are shared, as "sharing" of a result does."""
    told = identity.get("sharing")
    bulk = {key: told[key] for key in ("edge", "period") if told and key in told}
    return told and {"symmetries": len(told["elements"]), **bulk}


def _progress(run: Run, saved: int | None) -> str:
    asked = run_files.steps_asked(run)
    seconds = sum(line.get("seconds") or 0.0 for line in run.history)
    text = f"{run_files.steps_done(run)}{'' if asked is None else f' of {asked}'} steps"
    text += f" in {duration(seconds)}" if seconds else ""
    return text + ("" if saved is None else f"; checkpoint after {saved}")


def _measured(run: Run) -> str:
    result, energy = run.result, per_site(run.result or {}, run.n_sites)
    if result is None:
        return "not yet"
    if energy is None:
        return "not finite"
    old = ""
    if not run_files.is_current(run):
        last = run_files.steps_done(run) == result.get("steps")
        why = "with other settings" if last else "not the last"
        old = f"; after {result.get('steps')} steps, {why}"
    samples = f", {result['n_samples']} samples" if result.get("n_samples") else ""
    units = ", ".join(filter(None, [f"{result['units']} units", words.sector_text(result)]))
    return f"energy per site {energy} ({units}){samples}{old}"


def _observables(run: Run) -> Iterator[str]:
    if run.observables is None:
        yield f"none; measure them with: tnvmc measure {quoted(run.path)}"
        return
    for row in observed(run.observables):
        yield f"{row.name}: {row.value} {row.detail}".rstrip()
    if pairs := run.observables.get("correlations"):
        yield f"correlations of {', '.join(pairs)}"
    if outdated := words.outdated_text(run):
        yield outdated


def _date(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime).strftime("%Y-%m-%d %H:%M:%S")


def headline(table: SeriesTable) -> str:
    """Write in a line what the runs are of."""
    shared = {key: table.about[key] for key in ("hamiltonian", "lattice")}
    words = facts(Run(Path(), shared))
    parts = [words[name] for name in ("model", "lattice") if name in words]
    return "; ".join([*parts, table.kind.headline(table)])


def plain_text(table: SeriesTable) -> str:
    """Write headline and table in columns, with what is to be noted below it."""
    lines = in_columns(table.cells()) if table.every_row else []
    below = notes(table)
    return "\n".join([headline(table), *([""] if lines or below else []), *lines, *below])


def markdown(table: SeriesTable) -> str:
    """Write the content of the table's page."""
    lines = in_markdown(table.cells()) if table.every_row else []
    page = [headline(table), "", *lines, "", *(f"- {note}" for note in notes(table))]
    return "\n".join(page).rstrip() + "\n"


def notes(table: SeriesTable) -> list[str]:
    """Write what is left out of a table, and what is to be noted of it."""
    found = [f"not in the table: {name}: {sentence(reason)}" for name, reason in table.left_out]
    found += map(line, table.diagnostics)
    for name, note in table.kind.notes(table):
        text = note if isinstance(note, str) else sentence(note)
        found.append(f"{name}: {text}" if name else text)
    return found
