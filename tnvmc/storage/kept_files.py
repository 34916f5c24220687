"""Which states a run was kept orthogonal to, and whether a folder still holds them: by their parameters."""

from __future__ import annotations

from pathlib import Path

from tnvmc.storage.hdf5 import StateFileError, attribute, opened, parameters_in
from tnvmc.storage.identity import parameters_hash
from tnvmc.storage.run_folder import CHECKPOINT, MEASURED, stage_file

ORTHOGONAL = "orthogonal"
"""In the identity of a checkpoint: `parameters_hash` of each kept state."""


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
        return _measured_hash(kept) not in (None, hashed)
    except StateFileError:
        return False


def _measured_hash(folder: Path) -> str | None:
    """Of the parameters that a run measured; None where no file holds them."""
    n_stages = sum(1 for _ in folder.glob(stage_file("*")))
    files = (folder / stage_file(n_stages), folder / MEASURED, folder / CHECKPOINT)
    path = next((path for path in files if path.is_file()), None)
    if path is None:
        return None
    with opened(path) as file:
        return parameters_hash(parameters_in(file)[1])
