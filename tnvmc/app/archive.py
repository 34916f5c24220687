"""`tnvmc archive`: a finished run in few bytes, to keep beside a figure that it gave."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

from tnvmc.app.stages import StagedRun
from tnvmc.settings.build import build_operator
from tnvmc.settings.load import load
from tnvmc.storage.files import read_plain, write_atomically
from tnvmc.storage.hdf5 import read_stages
from tnvmc.storage.run_files import OBSERVABLES, refuse_comparison
from tnvmc.storage.run_folder import (
    CHECKPOINT,
    CONFIG,
    HISTORY,
    RESULT,
    FolderError,
    check_run_folder,
    check_tied,
    refuse_occupied,
)
from tnvmc.vmc import checkpoint
from tnvmc.vmc.trusted import trusted

_COPIED = (CONFIG, HISTORY, RESULT, OBSERVABLES)


def archive_run(path: str | Path, archive: str | Path) -> Path:
    """Write the settings, history, results and measured state of a finished run to another folder.

    All commands take that folder as they take the run, but it cannot be resumed: its checkpoint holds
    the parameters that were measured, and the walkers, and nothing of what further steps would need.
    Cost: the draws of `vmc.trusted.trusted`, which say again what was measured.

    Raises:
        FolderError: no finished run, files of several runs, an archive that is a run already, no space.
        StateFileError: a damaged checkpoint.
        ConfigError: damaged settings.
    """
    path, archive = Path(path), Path(archive)
    refuse_comparison(path)
    check_run_folder(path)
    for name in (RESULT, CHECKPOINT):
        if not (path / name).is_file():
            raise FolderError(f"{path}: not a finished run ({name} is missing)")
    refuse_occupied(archive)
    provenance = check_tied(path)
    settings = load(path / CONFIG, [f"run.out={json.dumps(str(path))}"])
    done = read_stages(path / CHECKPOINT)
    run = StagedRun(settings, build_operator(settings), done, blank=True)
    run.restore(path / CHECKPOINT, archived=True)
    vmc = run.vmc
    point, _ = trusted(vmc.method, vmc.state)
    state = replace(vmc.state, here=replace(point, optimizer={}), good=None, trail=None)
    belongs_to = {
        **checkpoint.identity(vmc.ansatz, vmc.operator, vmc.optimizer),
        checkpoint.ARCHIVED: True,
    }
    try:
        archive.mkdir(parents=True, exist_ok=True)
        for name in _COPIED:
            if (path / name).is_file():
                write_atomically(archive / name, read_plain(path / name))
        checkpoint.save(archive / CHECKPOINT, state, belongs_to, done, provenance)
    except OSError as error:
        where = os.fspath(archive)
        raise FolderError(f"{where}: cannot be written ({error.strerror or error})") from None
    return archive
