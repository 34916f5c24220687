"""Which states a run was kept orthogonal to, where they lie, and whether a folder still holds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tnvmc.storage.hdf5 import StateFileError, attribute, opened, parameters_in
from tnvmc.storage.identity import parameters_hash
from tnvmc.storage.run_folder import CHECKPOINT, CONFIG, MEASURED, stage_file

ORTHOGONAL = "orthogonal"
"""In settings: the runs; in the identity of a checkpoint: `parameters_hash` of each kept state."""


def moved(
    config: Mapping[str, Any], out: Path, there: Callable[[Path], bool] = lambda place: True
) -> dict[str, Any]:
    """Give the settings of a run as those of another folder, beside which its kept runs lie as they lay beside the first.

    Those of which that is not so, or not `there`, are named as they were.
    """
    run = config.get("run")
    run = run if isinstance(run, Mapping) else {}
    before = Path(str(run.get("out", ""))).parent

    def named(each: Any) -> Any:
        path = Path(str(each.get("run", ""))) if isinstance(each, Mapping) else Path()
        beside = out.parent / path.name
        return {**each, "run": str(beside)} if path.parent == before and there(beside) else each

    content = {**config, "run": {**run, "out": str(out)}}
    if run and isinstance(kept := config.get(ORTHOGONAL), list):
        content[ORTHOGONAL] = [named(each) for each in kept]
    return content


def in_place(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Give the settings of the run in a folder, which may have been moved or copied with its kept runs or without."""
    return moved(config, folder, lambda place: (place / CONFIG).is_file())


def kept_hashes(checkpoint: Path) -> tuple[str, ...]:
    """Give what identifies the states that a checkpoint was kept orthogonal to, in the order of its settings.

    Raises:
        StateFileError: a damaged or foreign file.
    """
    with opened(checkpoint) as file:
        return tuple(attribute(file, "identity").get(ORTHOGONAL) or ())


def has_changed(kept: Path, hashed: str) -> bool:
    """Tell whether a run no longer holds the state that another was kept orthogonal to.

    False where that cannot be told, as from files that cannot be read.
    """
    try:
        return measured_hash(kept) not in (None, hashed)
    except StateFileError:
        return False


def measured_file(folder: Path) -> Path | None:
    """The file of the parameters that a run measured; None where there is none."""
    n_stages = sum(1 for _ in folder.glob(stage_file("*")))
    files = (folder / stage_file(n_stages), folder / MEASURED, folder / CHECKPOINT)
    return next((path for path in files if path.is_file()), None)


def measured_hash(folder: Path) -> str | None:
    """Of the parameters that a run measured; None where no file holds them.

    Raises:
        StateFileError: a damaged or foreign file.
    """
    path = measured_file(folder)
    if path is None:
        return None
    with opened(path) as file:
        return parameters_hash(parameters_in(file)[1])
