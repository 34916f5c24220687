"""Example settings files: what there is, and copies of them to change."""

import os
from pathlib import Path

from tnvmc.settings.problems import ConfigError
from tnvmc.storage.files import read_plain, write_atomically

_PACKAGE = Path(__file__).parents[1]


def example_files() -> list[Path]:
    """Give the files: `tnvmc/examples` of an installed package, `scripts` of the repository."""
    installed = _PACKAGE / "examples"
    folder = installed if installed.is_dir() else _PACKAGE.parent / "scripts"
    files = sorted(folder.glob("*.toml"))
    if not files:
        raise ConfigError(f"no example files in {folder}; install tnvmc again")
    return files


def description(file: Path) -> str:
    """Give the first line of an example, which says what it computes."""
    return file.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ").rstrip(".")


def copy_examples(folder: str | Path) -> list[Path]:
    """Copy the examples into a folder, which is made if it is missing, and give the new files.

    Files that are there with the same content stay as they are.

    Raises:
        ConfigError: a file of this name with other content is there; then nothing is written.
        OSError: the folder cannot be made or written.
    """
    files = example_files()
    files += sorted(files[0].parent.glob("my_*.py"))  # classes that they name
    places = {Path(folder) / file.name: file.read_bytes() for file in files}
    held = [path for path in places if os.path.lexists(path)]
    if changed := [path for path in held if read_plain(path) != places[path]]:
        raise ConfigError(
            f"{', '.join(map(str, changed))}: differs from the example, and is not "
            "overwritten; nothing was copied. Give another folder: tnvmc examples FOLDER"
        )
    Path(folder).mkdir(parents=True, exist_ok=True)
    missing = [path for path in places if path not in held]
    for path in missing:
        write_atomically(path, places[path])
    return missing
