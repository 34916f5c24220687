"""What a run or a checkpoint holds and how far it got: ``tnvmc show``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.analysis.diagnostics import diagnostics_of
from tnvmc.report import describe as words
from tnvmc.report.numbers import duration, ten_digits, with_error
from tnvmc.report.observables import observed
from tnvmc.report.texts import step_sentence
from tnvmc.storage import run_files
from tnvmc.storage.hdf5 import StateFileError, attribute, opened
from tnvmc.storage.identity import kind_in
from tnvmc.storage.run_files import OBSERVABLES, Damage, Run
from tnvmc.storage.run_folder import CHECKPOINT, CONFIG, HISTORY, PICTURE, RESULT

_LAST = 3  # steps whose energies are shown
_WIDTH = 13  # of the names on the left

Rows = Iterator[tuple[str, str | None]]


@dataclass(frozen=True)
class Description:
    """What ``tnvmc show`` prints: (name, text) rows, and what is damaged."""

    title: str
    rows: tuple[tuple[str, str], ...]
    damage: tuple[Damage, ...] = ()

    def __str__(self) -> str:
        damaged = [("DAMAGED", words.damage_text(damage)) for damage in self.damage]
        lines = [f"  {name:<{_WIDTH}} {text}" for name, text in (*self.rows, *damaged)]
        return "\n".join([self.title, *lines])


def describe(path: str | Path) -> Description:
    """Describe the folder of a run, or a single checkpoint or saved state.

    A run that is under way, was killed, or has lost or damaged files is described as far as it
    can be read.

    Raises:
        FolderError: no such path, or a folder without a run.
        StateFileError: a file that is no checkpoint, or damaged, or of a newer format.
    """
    path = Path(path)
    if path.is_file():
        return Description(str(path), _told(_of_checkpoint(path)))
    run = run_files.read_run(path)
    checkpoint, damage = _checkpoint(run)
    status = (
        "finished"
        if run_files.is_finished(run)
        else f"stopped; go on with: tnvmc run --resume {path}"
    )
    status = "running" if run_files.is_running(run) else status
    rows = _told(_of_run(run, checkpoint))
    return Description(f"{path}: {status}", rows, (*run.damage, *damage))


def _told(rows: Rows) -> tuple[tuple[str, str], ...]:
    """Rows that have a text, without the names that repeat."""
    found: list[tuple[str, str]] = []
    last = None
    for name, text in rows:
        if text is not None:
            found.append(("" if name == last else name, text))
            last = name
    return tuple(found)


def _of_run(run: Run, checkpoint: _Checkpoint | None) -> Rows:
    result = run.result or {}
    yield "model", words.model_text(run)
    yield "lattice", words.lattice_text(run)
    number = None if checkpoint is None else checkpoint.identity.get("n_parameters")
    number = result.get("n_parameters", number)
    parts = [words.state_text(run), None if number is None else f"{number} parameters"]
    yield "state", ", ".join(part for part in parts if part) or None
    yield "network", words.network_text(run)
    yield "contraction", words.contraction_text(run)
    yield "sampling", words.sampling_text(run)
    yield "progress", _progress(run, checkpoint)
    if run.n_sites is not None:
        for line in run.history[-_LAST:]:
            text = _energy(line, run.n_sites) or "not finite"
            told = step_sentence(diagnostics_of(line), bool(line.get("undone")))
            told = f"; {told}" if told else ""
            yield "last steps", f"step {line['step'] + 1}: energy per site {text}{told}"
    for stage in words.stages_of(run):
        text = f"{stage.get('stage')}: {stage.get('kind')}"
        text += f", D = {stage['D']}" if stage.get("D") else ""
        text += f", {stage['steps']} steps" if stage.get("steps") is not None else ""
        energy = _energy(stage, run.n_sites) if run.n_sites else None
        yield "stages", text + (f", E/N {energy}" if energy else "")
    yield "measured", _measured(run)
    if result.get("relative_error") is not None:
        error = result["relative_error_error"]
        exact = ten_digits(result["exact_energy_per_site"])
        yield (
            "compared",
            (
                f"relative error {result['relative_error']:.1e} +- "
                f"{'unknown' if error is None else f'{error:.1e}'}; "
                f"{result['exact_method']} {exact} ({result['exact_source']})"
            ),
        )
    for observable in _observables(run):
        yield "observables", observable
    version = result.get("version") or (checkpoint.version if checkpoint else "unknown")
    files = [run.path / name for name in (HISTORY, CHECKPOINT, RESULT, CONFIG, OBSERVABLES)]
    written = max(_date(file) for file in files if file.exists())
    yield "version", f"tnvmc {version}, last written {written}"
    names = (CONFIG, HISTORY, CHECKPOINT, RESULT, OBSERVABLES, PICTURE, "report.html")
    held = [run.path / name for name in names if (run.path / name).is_file()]
    yield "files", ", ".join(f"{file.name} {_size(file)}" for file in held)


@dataclass(frozen=True)
class _Checkpoint:
    identity: Mapping[str, Any]
    step: int | None  #: None for a saved state
    dtype: str
    n_walkers: int | None
    version: str


def _read_checkpoint(path: Path) -> _Checkpoint:
    with opened(path) as file:
        theta = file["here/theta"][()]
        if not np.isfinite(theta).all():
            raise StateFileError(f"{path}: damaged: parameters that are not finite")
        return _Checkpoint(
            attribute(file, "identity"),
            int(file["step"][()]) if "step" in file else None,
            str(theta.dtype),
            int(file["here/configs"].shape[0]) if "here/configs" in file else None,
            str(file.attrs.get("tnvmc_version", "unknown")),
        )


def _checkpoint(run: Run) -> tuple[_Checkpoint | None, list[Damage]]:
    path = run.path / CHECKPOINT
    if not path.exists():
        return None, [Damage(CHECKPOINT, "missing")] if run.history else []
    try:
        return _read_checkpoint(path), []
    except StateFileError as error:
        return None, [Damage(CHECKPOINT, "unreadable", str(error).removeprefix(f"{path}: "))]


def _of_checkpoint(path: Path) -> Rows:
    found = _read_checkpoint(path)
    about = found.identity
    kind, n_rows, n_columns, boundary = about["lattice"]
    D = "" if about.get("D") is None else f"D = {about['D']}, "
    yield "holds", "a saved state" if found.step is None else "a checkpoint"
    if "operator" in about:
        yield "model", f"{about['operator']} (fingerprint {about['fingerprint']})"
    yield "lattice", f"{kind}, {n_rows} x {n_columns} sites, {boundary}"
    yield "state", f"{kind_in(about)}, {D}{found.dtype}"
    yield "parameters", f"{about['n_parameters']}"
    if found.step is not None:
        yield "progress", f"{found.step} steps done, {found.n_walkers} walkers"
    yield "version", f"tnvmc {found.version}, written {_date(path)}"
    yield "size", _size(path)


def _progress(run: Run, checkpoint: _Checkpoint | None) -> str:
    asked = run_files.steps_asked(run)
    text = f"{run_files.steps_done(run)}{'' if asked is None else f' of {asked}'} steps"
    seconds = sum(line.get("seconds") or 0.0 for line in run.history)
    if seconds:
        text += f" in {duration(seconds)}"
    if checkpoint is not None and checkpoint.step is not None:
        text += f"; checkpoint after {checkpoint.step}"
    return text


def _energy(line: Mapping[str, Any], n_sites: int) -> str | None:
    """Write the total energy of a step or a stage per site; None where it is not finite."""
    energy, error = line.get("energy"), line.get("energy_error")
    if energy is None:
        return None
    return with_error(energy / n_sites, math.inf if error is None else error / n_sites)


def _measured(run: Run) -> str:
    result = run.result
    if result is None:
        return "not yet"
    energy = _energy(result, int(result["n_sites"]))
    if energy is None:
        return "not finite"
    old = "" if run_files.is_finished(run) else f"; after {result.get('steps')} steps, not the last"
    samples = f", {result['n_samples']} samples" if result.get("n_samples") else ""
    return f"energy per site {energy} ({result['units']} units){samples}{old}"


def _observables(run: Run) -> Iterator[str | None]:
    if run.observables is None:
        yield f"none; measure them with: tnvmc measure {run.path}"
        return
    for row in observed(run.observables):
        yield f"{row.name}: {row.value} {row.detail}".rstrip()
    if pairs := run.observables.get("correlations"):
        yield f"correlations of {', '.join(pairs)}"
    yield words.outdated_text(run)


def _date(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime).strftime("%Y-%m-%d %H:%M:%S")


def _size(path: Path) -> str:
    size = path.stat().st_size
    if size < 1000:
        return f"{size} B"
    return f"{size / 1e3:.3g} kB" if size < 999_500 else f"{size / 1e6:.3g} MB"
