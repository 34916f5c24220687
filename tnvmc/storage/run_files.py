"""Reading what a run has written, also while it runs, was killed, or lost a file.

Nothing here writes, and nothing needs the run to be complete: what cannot be read is left out and
told in words.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.ansatz.neural import NETWORKS
from tnvmc.report.console import sampling_parts
from tnvmc.settings.config import COUPLINGS, PerBond
from tnvmc.storage.run_folder import CHECKPOINT, CONFIG, HISTORY, RESULT, FolderError

OBSERVABLES = "observables.json"

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """The files of one run, parsed; what is absent or damaged is None or empty."""

    path: Path
    config: Json = field(default_factory=dict)
    history: tuple[Json, ...] = ()
    result: Json | None = None
    observables: Json | None = None
    damage: tuple[str, ...] = ()  #: one sentence for each file that cannot be read

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.path.resolve().name

    def setting(self, section: str, key: str) -> Any:
        """A value of config.toml, None where it says nothing."""
        part = self.config.get(section)
        return part.get(key) if isinstance(part, Mapping) else None

    @property
    def shape(self) -> tuple[int, int] | None:
        """(n_rows, n_cols) of the grid, None where no file tells."""
        if self.observables is not None:
            rows, columns = self.observables["shape"]
            return int(rows), int(columns)
        shape = self.setting("lattice", "shape")
        if isinstance(shape, int):
            return 1, shape
        if isinstance(shape, list) and shape and all(isinstance(n, int) for n in shape):
            rows, columns = [1, *shape][-2:]
            return rows, columns
        return None

    @property
    def n_sites(self) -> int | None:
        """Number of sites, None where no file tells."""
        if self.result is not None:
            return int(self.result["n_sites"])
        return None if self.shape is None else self.shape[0] * self.shape[1]

    @property
    def units(self) -> str:
        """Units of the energies, as "S.S"; empty where no file tells."""
        for source in (self.result, self.observables):
            if source is not None and source.get("units"):
                return str(source["units"])
        return {"tfim": "Pauli", "rydberg": "n = 0, 1"}.get(
            str(self.setting("hamiltonian", "model")), "S.S" if self.config else ""
        )


def read_run(path: str | Path) -> Run:
    """Read the files of a run.

    Raises:
        FolderError: no such folder, or none of a run's files in it.
    """
    path = Path(path)
    if not path.is_dir():
        what = "is a file, not the folder of a run" if path.exists() else "no such folder"
        raise FolderError(f"{path}: {what}")
    names = (CONFIG, HISTORY, RESULT, OBSERVABLES, CHECKPOINT)
    if not any((path / name).exists() for name in names):
        refuse_comparison(path)
        raise FolderError(f"{path}: holds no run ({', '.join(names)} are all missing)")
    damage: list[str] = []
    return Run(
        path,
        _config(path / CONFIG, damage),
        _history(path / HISTORY, damage),
        _json(path / RESULT, _check_result, damage),
        _json(path / OBSERVABLES, _check_observables, damage),
        tuple(damage),
    )


def refuse_comparison(path: Path) -> None:
    """Raise `FolderError`, with the runs that are in it, where a folder holds a comparison."""
    if not (path / "comparison.toml").is_file():
        return
    runs = sorted(str(file.parent) for file in path.glob(f"*/{CONFIG}"))
    tried = f"; try {' or '.join(repr(run) if ' ' in run else run for run in runs)}" if runs else ""
    raise FolderError(f"{path}: holds a comparison{tried}")


def _read(path: Path, damage: list[str]) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        damage.append(f"{path.name} cannot be read ({error.strerror})")
    except UnicodeDecodeError:
        damage.append(f"{path.name} is damaged: no text")
    return None


def _config(path: Path, damage: list[str]) -> Json:
    text = _read(path, damage)
    if text is None:
        if not path.exists():
            damage.append(f"{path.name} is missing")
        return {}
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        damage.append(f"{path.name} is damaged: {error}")
        return {}


def _history(path: Path, damage: list[str]) -> tuple[Json, ...]:
    """All lines up to the first bad one; a torn last line is how a killed run may end."""
    lines = (_read(path, damage) or "").splitlines()
    found: list[Json] = []
    for number, line in enumerate(lines, 1):
        record = _parsed(line)
        if not isinstance(record, dict) or not isinstance(record.get("step"), int):
            left = len(lines) - number
            damage.append(
                f"{path.name} is damaged at line {number}"
                + (f"; {left} more lines are left out" if left else ", the last one")
            )
            break
        found.append(record)
    return tuple(found)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _json(path: Path, check: Any, damage: list[str]) -> Json | None:
    text = _read(path, damage)
    if text is None:
        return None
    content = _parsed(text)
    if not isinstance(content, dict):
        damage.append(f"{path.name} is damaged: not a JSON object")
        return None
    try:
        check(content)
    except KeyError as error:
        damage.append(f"{path.name} is damaged: {error} is missing")
    except (TypeError, ValueError, AttributeError) as error:
        damage.append(f"{path.name} is damaged: {error}")
    else:
        return content
    return None


def _check_result(content: Json) -> None:
    for key in ("energy", "energy_error", "variance", "energy_per_site", "units"):
        content[key]
    content.get("convergence", {"diagnostics": ()})["diagnostics"]
    if not int(content["n_sites"]) >= 1:
        raise ValueError(f"n_sites is {content['n_sites']}")


def _check_observables(content: Json) -> None:
    rows, columns = content["shape"]
    n_sites = int(rows) * int(columns)
    for name, values in content.get("sites", {}).items():
        _check_shape(f"sites.{name}", values, (n_sites,))
    for name, values in content.get("correlations", {}).items():
        _check_shape(f"correlations.{name}", values, (n_sites, n_sites))
    for name, values in content.get("structure_factor", {}).items():
        _check_shape(f"structure_factor.{name}", values, (len(values["q"]),))
    for bond in content.get("bonds", []):
        if not all(0 <= int(site) < n_sites for site in bond["sites"]):
            raise ValueError(f"a bond joins {bond['sites']}, there are {n_sites} sites")
        float(np.float64(bond["mean"])), bond.get("error")


def _check_shape(name: str, values: Json, shape: tuple[int, ...]) -> None:
    for key in ("mean", "error"):
        found = as_array(values[key]).shape
        if found != shape:
            raise ValueError(f"{name}.{key} has shape {found}, not {shape}")


def as_array(values: Any) -> np.ndarray:
    """Give numbers of a JSON file as floats, NaN for null."""
    return np.array(values, dtype=float)


def is_running(run: Run) -> bool:
    """Tell whether a process holds the history of a run open, as `RunFolder` does."""
    try:
        import fcntl

        with open(run.path / HISTORY, "rb") as history:
            fcntl.flock(history, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):  # no locks on this system, or no history
        return False
    return False


def steps_done(run: Run) -> int:
    """Number of steps in the history, or in the result where the history is gone."""
    if run.history:
        return int(run.history[-1]["step"]) + 1
    return int((run.result or {}).get("steps") or 0)


def outdated(run: Run) -> str | None:
    """Say so where the observables are those of an earlier step than the run has reached."""
    measured = None if run.observables is None else run.observables.get("step")
    if measured is None or measured == steps_done(run):
        return None
    return (
        f"The observables are those after {measured} steps, the run has made {steps_done(run)}; "
        f"measure again with: tnvmc measure {run.path}"
    )


def steps_asked(run: Run) -> int | None:
    """Number of steps that the settings ask for, over all stages; None where the clock decides."""
    if run.setting("optimizer", "seconds") is not None:
        return None
    stages = run.config.get("stage")
    if isinstance(stages, list) and stages:
        own = run.setting("optimizer", "steps")
        wanted = [s.get("steps", own) for s in stages if s.get("kind") != "simple_update"]
        return sum(wanted) if all(isinstance(n, int) for n in wanted) else None
    steps = run.setting("optimizer", "steps")
    return steps if isinstance(steps, int) else None


def is_finished(run: Run) -> bool:
    """Tell whether result.json belongs to the last step of the history."""
    return run.result is not None and int(run.result.get("steps") or 0) >= steps_done(run)


def model_text(run: Run) -> str | None:
    """Write the model and its couplings, as "j1j2, J1 = 1, J2 = 0.5"."""
    section = run.config.get("hamiltonian")
    if not isinstance(section, Mapping) or "model" not in section:
        return None
    couplings = [
        f"{name} = {value:g}" if isinstance(value, int | float) else f"{name} {_each(name)}"
        for name, value in section.items()
        if name != "model"
    ]
    return ", ".join([str(section["model"]), *couplings])


def _each(coupling: str) -> str:
    """Say what the numbers of a coupling that is a list belong to."""
    per_bond = coupling in COUPLINGS and COUPLINGS[coupling][0] is PerBond
    return "bond by bond" if per_bond else "site by site"


def sampling_text(run: Run) -> str | None:
    """Write what is out of the ordinary in how configurations are drawn; None for nothing."""
    section = run.config.get("sampler")
    parts = sampling_parts(section) if isinstance(section, Mapping) else []
    return ", ".join(parts) or None


def lattice_text(run: Run) -> str | None:
    """Write the lattice, as "square, 6 x 6 sites, open"."""
    if run.shape is None:
        return None
    rows, columns = run.shape
    size = f"{columns} sites" if rows == 1 else f"{rows} x {columns} sites"
    kind, boundary = (run.setting("lattice", key) for key in ("kind", "boundary"))
    return ", ".join([kind or "square", size, boundary or "open"])


def state_text(run: Run) -> str | None:
    """Write the state, as "peps, D = 4, float64"."""
    kind = run.setting("ansatz", "kind")
    if kind is None:
        return None
    D, dtype = run.setting("ansatz", "D"), run.setting("ansatz", "dtype")
    return ", ".join([kind, *([f"D = {D}"] if D else []), *([dtype] if dtype else [])])


def network_text(run: Run) -> str | None:
    """Write what a network is made of, as "heads = 4, layers = 2"; None for other states."""
    section = run.config.get("ansatz")
    network = NETWORKS.get(str(run.setting("ansatz", "kind")))
    if network is None or not isinstance(section, Mapping):
        return None
    common = ("marshall", "average", "freeze")
    own = [key for key in section if key not in ("kind", "dtype", "init", *common)]
    return ", ".join(
        f"{key} = {_plainly(section[key])}"
        for key in (*own, *common)
        if section.get(key) not in (None, False, [])
    )


def _plainly(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def contraction_text(run: Run) -> str | None:
    """Write how amplitudes are contracted, as "src, chi = 8 (measured at 16)"."""
    scheme, chi = run.setting("contraction", "scheme"), run.setting("contraction", "chi")
    if scheme is None or run.setting("ansatz", "kind") != "peps":
        return None
    measured = run.setting("measure", "chi")
    at_end = f" (measured at {measured})" if measured and measured != chi else ""
    return scheme if chi is None else f"{scheme}, chi = {chi}{at_end}"
