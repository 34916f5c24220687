"""What a run or a checkpoint holds and how far it got: ``tnvmc show``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.report.numbers import ten_digits, with_error
from tnvmc.storage import run_files as reading
from tnvmc.storage.hdf5 import StateFileError, opened
from tnvmc.storage.identity import kind_in
from tnvmc.storage.run_files import OBSERVABLES, Run, outdated, read_run
from tnvmc.storage.run_folder import CHECKPOINT, CONFIG, HISTORY, PICTURE, RESULT

_LAST = 3  # steps whose energies are shown
_WIDTH = 13  # of the names on the left


@dataclass(frozen=True)
class Description:
    """What ``tnvmc show`` prints: (name, text) rows, and what is damaged."""

    title: str
    rows: tuple[tuple[str, str], ...]
    damage: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = [*self.rows, *(("DAMAGED", text) for text in self.damage)]
        lines = [f"  {name:<{_WIDTH}} {text}" for name, text in rows]
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
        return Description(str(path), _checkpoint_rows(path))
    return _describe_run(read_run(path))


def _describe_run(run: Run) -> Description:
    checkpoint, damage = _checkpoint(run)
    known: list[tuple[str, str | None]] = [
        ("model", reading.model_text(run)),
        ("lattice", reading.lattice_text(run)),
        ("state", _state(run, checkpoint)),
        ("network", reading.network_text(run)),
        ("contraction", reading.contraction_text(run)),
        ("sampling", reading.sampling_text(run)),
        ("progress", _progress(run, checkpoint)),
        *[("" if number else "last steps", text) for number, text in enumerate(_last_steps(run))],
        *[("" if number else "stages", text) for number, text in enumerate(_stages(run))],
        ("measured", _measured(run)),
        ("compared", _compared(run)),
        ("observables", _observables(run)),
        ("version", _version(run, checkpoint)),
        ("files", _files(run.path)),
    ]
    rows = tuple((name, text) for name, text in known if text is not None)
    return Description(f"{run.path}: {_status(run)}", rows, (*run.damage, *damage))


def _status(run: Run) -> str:
    if reading.is_running(run):
        return "running"
    if reading.is_finished(run):
        return "finished"
    return f"stopped; go on with: tnvmc run --resume {run.path}"


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
            json.loads(file.attrs["identity"]),
            int(file["step"][()]) if "step" in file else None,
            str(theta.dtype),
            int(file["here/configs"].shape[0]) if "here/configs" in file else None,
            str(file.attrs.get("tnvmc_version", "unknown")),
        )


def _checkpoint(run: Run) -> tuple[_Checkpoint | None, list[str]]:
    path = run.path / CHECKPOINT
    if not path.exists():
        return None, ["checkpoint.h5 is missing: the run cannot go on"] if run.history else []
    try:
        return _read_checkpoint(path), []
    except StateFileError as error:
        return None, [str(error).replace(f"{path}:", "checkpoint.h5:")]


def _checkpoint_rows(path: Path) -> tuple[tuple[str, str], ...]:
    found = _read_checkpoint(path)
    about = found.identity
    kind, n_rows, n_columns, boundary = about["lattice"]
    D = [] if about.get("D") is None else [f"D = {about['D']}"]
    rows = [
        ("holds", "a saved state" if found.step is None else "a checkpoint"),
        ("lattice", f"{kind}, {n_rows} x {n_columns} sites, {boundary}"),
        ("state", ", ".join([kind_in(about), *D, found.dtype])),
        ("parameters", f"{about['n_parameters']}"),
    ]
    if "operator" in about:
        rows.insert(1, ("model", f"{about['operator']} (fingerprint {about['fingerprint']})"))
    if found.step is not None:
        rows.append(("progress", f"{found.step} steps done, {found.n_walkers} walkers"))
    rows.append(("version", f"tnvmc {found.version}, written {_date(path)}"))
    rows.append(("size", _size(path)))
    return tuple(rows)


def _state(run: Run, checkpoint: _Checkpoint | None) -> str | None:
    text = reading.state_text(run)
    number = None if checkpoint is None else checkpoint.identity.get("n_parameters")
    number = (run.result or {}).get("n_parameters", number)
    parts = [text, None if number is None else f"{number} parameters"]
    return ", ".join(part for part in parts if part) or None


def _progress(run: Run, checkpoint: _Checkpoint | None) -> str:
    done, asked = reading.steps_done(run), reading.steps_asked(run)
    text = f"{done} steps" if asked is None else f"{done} of {asked} steps"
    seconds = sum(line.get("seconds") or 0.0 for line in run.history)
    if seconds:
        text += f" in {duration(seconds)}"
    if checkpoint is not None and checkpoint.step is not None:
        text += f"; checkpoint after {checkpoint.step}"
    return text


def duration(seconds: float) -> str:
    """Write a time as "31.4 s", "2 min 5 s" or "1 h 3 min"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds) // 60
    if minutes < 60:
        return f"{minutes} min {round(seconds) % 60} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _last_steps(run: Run) -> list[str]:
    if run.n_sites is None:
        return []
    texts = []
    for line in run.history[-_LAST:]:
        energy, error = line.get("energy"), line.get("energy_error")
        shown = "not finite"
        if energy is not None:
            shown = with_error(energy / run.n_sites, _known(error) / run.n_sites)
        note = "".join(f"; {found['code']}" for found in line.get("diagnostics") or ())
        texts.append(f"step {line['step'] + 1}: energy per site {shown}{note}")
    return texts


def _known(error: float | None) -> float:
    return math.inf if error is None else error


def stages(run: Run) -> Sequence[Mapping[str, Any]]:
    """Give the records of the stages that are done: from result.json, else the checkpoint."""
    if run.result is not None and run.result.get("stages"):
        return run.result["stages"]
    try:
        with opened(run.path / CHECKPOINT) as file:
            return json.loads(file.attrs.get("stages", "[]"))
    except StateFileError:
        return []


def _stages(run: Run) -> list[str]:
    texts = []
    for stage in stages(run):
        parts = [f"{stage.get('stage')}: {stage.get('kind')}"]
        parts += [f"D = {stage['D']}"] if stage.get("D") else []
        parts += [f"{stage['steps']} steps"] if stage.get("steps") is not None else []
        if stage.get("energy") is not None and run.n_sites:
            error = stage.get("energy_error") or 0.0
            parts.append(f"E/N {with_error(stage['energy'] / run.n_sites, error / run.n_sites)}")
        texts.append(", ".join(parts))
    return texts


def _measured(run: Run) -> str:
    result = run.result
    if result is None:
        return "not yet"
    if result["energy_per_site"] is None:
        return "not finite"
    energy = with_error(result["energy_per_site"], _known(result["energy_per_site_error"]))
    old = "" if reading.is_finished(run) else f"; after {result.get('steps')} steps, not the last"
    samples = f", {result['n_samples']} samples" if result.get("n_samples") else ""
    return f"energy per site {energy} ({result['units']} units){samples}{old}"


def _compared(run: Run) -> str | None:
    result = run.result or {}
    if result.get("relative_error") is None:
        return None
    known = result["relative_error_error"]
    error = f"{result['relative_error']:.1e} +- {'unknown' if known is None else f'{known:.1e}'}"
    exact = ten_digits(result["exact_energy_per_site"])
    return f"relative error {error}; {result['exact_method']} {exact} ({result['exact_source']})"


def _observables(run: Run) -> str:
    held = run.observables
    if held is None:
        return f"none; measure them with: tnvmc measure {run.path}"
    parts = [f"{len(held['bonds'])} bond energies"] if held.get("bonds") else []
    parts += [f"<{name}> on {len(v['mean'])} sites" for name, v in held.get("sites", {}).items()]
    parts += [f"{name} correlations" for name in held.get("correlations", {})]
    parts += [f"S(q) of {name}" for name in held.get("structure_factor", {})]
    squared = held.get("staggered_magnetisation_squared")
    if squared and squared.get("mean") is not None:
        parts.append(f"M^2 = {with_error(squared['mean'], squared['error'] or 0.0)}")
    parts += ["dimer correlations"] if held.get("dimers") else []
    parts += list(held.get("operators", {}))
    stale = outdated(run)
    return (", ".join(parts) or "none") + (f". {stale}" if stale else "")


def _version(run: Run, checkpoint: _Checkpoint | None) -> str | None:
    version = (run.result or {}).get("version") or (checkpoint.version if checkpoint else None)
    names = (HISTORY, CHECKPOINT, RESULT, CONFIG, OBSERVABLES)
    dates = [_date(run.path / name) for name in names if (run.path / name).exists()]
    return f"tnvmc {version or 'unknown'}, last written {max(dates)}"


def _date(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime).strftime("%Y-%m-%d %H:%M:%S")


def _files(folder: Path) -> str:
    names = (CONFIG, HISTORY, CHECKPOINT, RESULT, OBSERVABLES, PICTURE, "report.html")
    found = [f"{name} {_size(folder / name)}" for name in names if (folder / name).is_file()]
    return ", ".join(found)


def _size(path: Path) -> str:
    size = path.stat().st_size
    if size < 1000:
        return f"{size} B"
    return f"{size / 1e3:.3g} kB" if size < 999_500 else f"{size / 1e6:.3g} MB"


def print_description(path: str) -> int:
    """Print what a path holds; give 1 where something in it is damaged, else 0."""
    description = describe(path)
    print(description)
    return 1 if description.damage else 0
