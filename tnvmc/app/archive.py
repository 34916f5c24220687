"""`tnvmc archive`: a finished run in few bytes, to keep beside a figure that it gave."""

import tomllib
from dataclasses import replace
from pathlib import Path

import tomli_w

from tnvmc.app.stages import measured_point, require_finished, restored
from tnvmc.settings.defaults import load_in_place
from tnvmc.storage.files import read_plain, write_atomically
from tnvmc.storage.run_files import OBSERVABLES, moved
from tnvmc.storage.run_folder import (
    CHECKPOINT,
    CONFIG,
    HISTORY,
    RESULT,
    FolderError,
    check_tied,
    disk_errors,
    refuse_occupied,
)
from tnvmc.storage.seals import in_toml, sealed_json, sealed_toml, unsealed_json
from tnvmc.vmc import checkpoint
from tnvmc.vmc.controllers import MeanOfIterates


def archive_run(path: str | Path, archive: str | Path) -> Path:
    """Write the settings, history, results and measured state of a finished run to another folder.

    All commands take that folder as they take the run, but it cannot be resumed: its checkpoint
    holds the measured parameters and the walkers alone.

    Raises:
        FolderError: no finished run, one that was continued after its measurement, files of several
            runs, an archive that is a run already, no space.
        StateFileError: a damaged checkpoint.
        ConfigError: damaged settings.
    """
    path, archive = Path(path), Path(archive)
    require_finished(path)
    refuse_occupied(archive, "name another folder")
    provenance = check_tied(path)
    run = restored(path, load_in_place(path))
    vmc = run.vmc
    point = measured_point(path, run, provenance)
    state = replace(vmc.state, here=replace(point, optimizer={}), before_update=None)
    state = state.without_controller(MeanOfIterates)
    text = read_plain(path / CONFIG).decode()
    config, sealed = moved(tomllib.loads(text), Path(archive.name)), in_toml(text)
    settings = tomli_w.dumps(config) + (sealed.as_comment() if sealed else "")
    try:
        result = unsealed_json(read_plain(path / RESULT).decode())
        result["config"] = moved(result["config"], Path(archive.name))
    except (AttributeError, ValueError, KeyError, TypeError):
        raise FolderError(f"{path}: {RESULT} is damaged; measure the run again") from None
    with disk_errors(archive):
        archive.mkdir(parents=True, exist_ok=True)
        for name in (HISTORY, OBSERVABLES):
            if (path / name).is_file():
                write_atomically(archive / name, read_plain(path / name))
        write_atomically(archive / CONFIG, sealed_toml(settings))
        write_atomically(archive / RESULT, sealed_json(result, indent=2))
        file = archive / CHECKPOINT
        checkpoint.save(file, state, vmc.method, run.done, provenance, archived=True)
    return archive
