"""Files of a run as data, also while it runs, was killed, or lost a file.

Nothing here writes, and nothing needs the run to be complete: what cannot be read is left out and
listed as damage.  So is what does not belong together.
"""

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.storage.files import read_plain
from tnvmc.storage.hdf5 import (
    StateFileError,
    attribute,
    opened,
    read_parameters,
    read_provenance,
    read_stages,
)
from tnvmc.storage.identity import ORTHOGONAL, parameters_hash
from tnvmc.storage.run_folder import (
    CHECKPOINT,
    CONFIG,
    HISTORY,
    MEASURED,
    RESULT,
    FolderError,
    refuse_series,
    require_folder,
    stage_file,
)
from tnvmc.storage.seals import (
    PROVENANCE,
    Lines,
    Provenance,
    check_toml,
    in_toml,
    mismatch,
    read_lines,
    unsealed_json,
)

OBSERVABLES = "observables.json"
OWN_PARTS = "python"
"""Section of the config.toml of a run from Python: `own` names the parts that settings do not
describe; `n_sites` and `units` are those of the run."""

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Damage:
    """What is wrong with one file of a run.

    `code` is "missing", "unreadable", "not_text", "bad_content" (`detail` says why), "bad_line"
    (without `detail` it was cut short); of what does not belong together "other_run" (than the file
    `detail`), "other_steps" (of a copy of the run), "other_model", or "ahead" (of the
    history, which lacks some of its `detail` steps).
    """

    file: str
    code: str
    detail: str = ""
    line: int = 0  #: number of a bad line, from 1
    lost: int = 0  #: lines after it, which are not read


@dataclass(frozen=True)
class Run:
    """The files of one run, parsed; what is absent or damaged is None or empty."""

    path: Path
    config: Json = field(default_factory=dict)
    history: tuple[Json, ...] = ()
    result: Json | None = None
    observables: Json | None = None
    stages: tuple[Json, ...] = ()  #: before the checkpoint
    damage: tuple[Damage, ...] = ()

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.path.resolve().name

    def section(self, name: str) -> Json:
        """A section of config.toml, empty where there is none."""
        return self.config.get(name) or {}

    def setting(self, section: str, key: str) -> Any:
        """A value of config.toml, None where it says nothing."""
        return self.section(section).get(key)

    @property
    def shape(self) -> tuple[int, int] | None:
        """(n_rows, n_cols) of the grid, None where no file tells."""
        shape = (self.observables or self.section("lattice")).get("shape")
        if shape is None:
            return None
        rows, columns = [1, *np.ravel(shape).tolist()][-2:]
        return rows, columns

    @property
    def n_sites(self) -> int | None:
        """Number of sites, None where no file tells."""
        if self.result is not None:
            return int(self.result["n_sites"])
        lattice = self.observables or self.section("lattice")
        if self.shape is None:
            return None
        (rows, columns), kagome = self.shape, lattice.get("kind") == "kagome"
        holes = (rows // 2) * (columns // 2) if kagome else 0  # one of four places of a cell
        return rows * columns - holes - len(lattice.get("vacant") or ())

    @property
    def units(self) -> str | None:
        """Units of the energies, as "S.S"; None where no result and no observables tell."""
        units = (self.result or {}).get("units") or (self.observables or {}).get("units")
        return None if units is None else str(units)


def read_run(path: str | Path) -> Run:
    """Read the files of a run; `FolderError` where there is no such folder, or none of them."""
    path = Path(path)
    require_folder(path)
    if not any((path / name).exists() for name in _READ):
        refuse_series(path)
        raise FolderError(f"{path}: holds no run ({', '.join(_READ)} are all missing)")
    damage: list[Damage] = []
    readers: dict[str, Callable[[str], _File]] = {
        CONFIG: partial(_config, folder=path), RESULT: _result, OBSERVABLES: _sealed,
    }  # fmt: skip
    found = {name: _parsed(path / name, parse, damage) for name, parse in readers.items()}
    found[CHECKPOINT] = _checkpoint(path / CHECKPOINT)
    # The last: a run that is under way adds lines to it, and takes none away.
    found[HISTORY] = _parsed(path / HISTORY, partial(_history, damage=damage), damage)
    files = {name: found[name] or _File() for name in _READ}
    _tie(files, damage)
    damage.sort(key=lambda each: _READ.index(each.file))
    held = {name: each.content for name, each in files.items()}
    return Run(
        path, held[CONFIG] or {}, held[HISTORY] or (), held[RESULT], held[OBSERVABLES],
        held[CHECKPOINT] or (), tuple(damage),
    )  # fmt: skip


_READ = (CONFIG, HISTORY, RESULT, OBSERVABLES, CHECKPOINT)


@dataclass
class _File:
    """What one file holds, and of which run it says it is; `content` None where it is not used."""

    content: Any = None
    provenance: Provenance | None = None
    lines: Lines | None = None


def _tie(found: Mapping[str, _File], damage: list[Damage]) -> None:
    """Empty the files that are of another run or model than the first of them."""
    lines, settings = found[HISTORY].lines, found[CONFIG].content
    named = [name for name, each in found.items() if each.content or each.provenance]
    first = found[named[0]].provenance if named else None
    run_id = None if first is None else first.run_id
    for name in named:
        file = found[name]
        wrong: str | None = mismatch(file.provenance, run_id, lines)
        if wrong == "ahead":
            steps = file.provenance.step if file.provenance else 0
            if name != CONFIG:  # settings are written before steps are made again
                damage.append(Damage(name, "ahead", str(steps)))
            continue
        measured = name in (RESULT, OBSERVABLES)
        if measured and wrong is None and not _same_model(file.content, settings):
            wrong = "other_model"
        if wrong is not None:
            damage.append(Damage(name, wrong, named[0] if wrong == "other_run" else ""))
            file.content = None


def _same_model(content: Json, settings: Json | None) -> bool:
    """Tell whether what was measured is of the lattice and Hamiltonian of the settings."""
    if settings is None:
        return True
    if (measured := content.get("config")) is not None:  # as result.json has it
        return all(measured.get(name) == settings.get(name) for name in ("lattice", "hamiltonian"))
    return content.get("model") in (None, settings["hamiltonian"]["model"])


def _parsed(path: Path, parse: Callable[[str], _File], damage: list[Damage]) -> _File | None:
    """Give what `parse` makes of the text of a file; None where that fails, as `damage` tells."""
    try:
        return parse(read_plain(path).decode())
    except FileNotFoundError:
        if path.name == CONFIG:
            damage.append(Damage(CONFIG, "missing"))
    except OSError as error:
        damage.append(Damage(path.name, "unreadable", error.strerror or str(error)))
    except UnicodeDecodeError:
        damage.append(Damage(path.name, "not_text"))
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        damage.append(Damage(path.name, "bad_content", why))
    return None


def _config(text: str, folder: Path) -> _File:
    check_toml(text.encode())
    return _File(in_place(tomllib.loads(text), folder), in_toml(text))


def _history(text: str, damage: list[Damage]) -> _File:
    """All lines up to the first bad one; a torn last line is how a killed run may end."""
    lines = read_lines(text.encode())
    if lines.bad is not None:
        detail = "" if lines.torn else lines.why
        damage.append(Damage(HISTORY, "bad_line", detail, lines.bad, lines.lost))
    return _File(lines.records, None if lines.run_id is None else Provenance(lines.run_id), lines)


def _checkpoint(path: Path) -> _File | None:
    """The stages and provenance of a checkpoint; one that is damaged is told by who reads it."""
    try:
        return _File(tuple(read_stages(path)), read_provenance(path))
    except StateFileError:
        return None


def _sealed(text: str) -> _File:
    content = unsealed_json(text)
    return _File(content, Provenance.of(content.pop(PROVENANCE, None)))


def _result(text: str) -> _File:
    file = _sealed(text)
    content = file.content
    for key in ("energy", "energy_error", "variance", "energy_per_site", "units"):
        content[key]
    content.get("convergence", {"diagnostics": ()})["diagnostics"]
    if not int(content["n_sites"]) >= 1:
        raise ValueError(f"n_sites is {content['n_sites']}")
    return file


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


def wall_time(history: Iterable[Json]) -> float:
    """Give the seconds that steps took, with those of compiling."""
    kinds = ("seconds", "compile_seconds")
    return math.fsum(line.get(kind) or 0.0 for line in history for kind in kinds)


def is_outdated(run: Run) -> bool:
    """Tell whether the observables are of an earlier step, or other symmetries, than the energy."""
    held = run.observables or {}
    same = (held.get("symmetry") or []) == (run.setting("measure", "symmetrise") or [])
    return held.get("step") is not None and (held["step"] != steps_done(run) or not same)


def steps_asked(run: Run) -> int | None:
    """Number of steps that the settings ask for, over all stages; None where the clock decides."""
    if run.setting("optimizer", "seconds") is not None:
        return None
    steps: int | None = run.setting("optimizer", "steps")
    stages = run.config.get("stage")
    if steps is not None and stages:
        steps = sum(stage.get("steps", steps) for stage in stages)
    return steps


def is_finished(run: Run) -> bool:
    """Tell whether result.json belongs to the last step of the history."""
    if run.result is None or int(run.result.get("steps") or 0) < steps_done(run):
        return False
    return not any(found.file == RESULT and found.code == "ahead" for found in run.damage)


def is_current(run: Run) -> bool:
    """Tell whether result.json belongs to the last step, and was measured by the settings."""
    by = (run.result or {}).get("config")
    return is_finished(run) and (not by or not run.config or asks_the_same(by, run.config))


def relevant(config: Json) -> dict[str, Any]:
    """Give the settings that have an influence on the result."""
    # They may have been moved with this one; their parameters are compared elsewhere.
    lower = [{**each, "run": Path(each["run"]).name} for each in config.get(ORTHOGONAL) or ()]
    return {**config, "run": {"seed": (config.get("run") or {}).get("seed")}, ORTHOGONAL: lower}


def asks_the_same(one: Any, other: Json) -> bool:
    """Compare settings, if `one` are any, but for those that have no influence on the result."""
    return one is not None and relevant(one) == relevant(other)


def moved(
    config: Mapping[str, Any], out: Path, there: Callable[[Path], bool] = lambda place: True
) -> dict[str, Any]:
    """Give the settings of a run as those of another folder.

    The runs of [[orthogonal]] that lay beside the first lie beside that one, if they are `there`.
    """
    run = config.get("run") or {}
    before = Path(run.get("out", "")).parent

    def named(each: Json) -> Json:
        path = Path(each["run"])
        place = out.parent / path.name
        return {**each, "run": str(place)} if path.parent == before and there(place) else each

    content = {**config, "run": {**run, "out": str(out)}}
    if lower := config.get(ORTHOGONAL):
        content[ORTHOGONAL] = [named(each) for each in lower]
    return content


def in_place(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Give the settings of the run in a folder, which may have been moved or copied."""
    return moved(config, folder, lambda place: (place / CONFIG).is_file())


def orthogonal_hashes(checkpoint: Path) -> tuple[str, ...]:
    """Give the hashes of the states that a checkpoint was kept orthogonal to, in their order."""
    with opened(checkpoint) as file:
        return tuple(attribute(file, "identity").get(ORTHOGONAL) or ())


def measured_file(folder: Path) -> Path | None:
    """The file of the parameters that a run measured; None where there is none."""
    n_stages = sum(1 for _ in folder.glob(stage_file("*")))
    files = (folder / stage_file(n_stages), folder / MEASURED, folder / CHECKPOINT)
    return next((path for path in files if path.is_file()), None)


def measured_hash(folder: Path) -> str | None:
    """Give the hash of the parameters that a run measured; None where no file holds them."""
    path = measured_file(folder)
    return None if path is None else parameters_hash(read_parameters(path)[1])


def has_changed(folder: Path, hashed: str) -> bool:
    """Tell whether a run is known to hold another state than the one with this hash."""
    try:
        return measured_hash(folder) not in (None, hashed)
    except StateFileError:
        return False


def own_parts(config: Json) -> list[str]:
    """Give the names of what only Python can make; none where settings make the whole run."""
    section = config.get(OWN_PARTS)
    return [str(name) for name in section.get("own", [])] if isinstance(section, Mapping) else []


def only_in_python(folder: Path, own: Sequence[str]) -> str:
    """Say what to do where settings do not make the state of a run."""
    names = ", ".join(name.replace("_", " ") for name in own)
    return (
        f"a run from Python, of which settings do not describe: {names}; make the VMC in Python as "
        f"it was, then vmc.restore({str(folder / CHECKPOINT)!r})"
    )
