"""Example settings files: what there is, and copies of them to change."""

from __future__ import annotations

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
    """Copy the examples into a folder, which is made if it is missing.

    Files that are there with the same content stay as they are.

    Args:
        folder: to write into.

    Returns:
        The files that were written, in order of their names.

    Raises:
        ConfigError: a file of this name with other content is there; then nothing is written.
        OSError: the folder cannot be made or written.
    """
    target, examples = Path(folder), {file.name: file.read_bytes() for file in example_files()}
    missing, changed = [], []
    for name, content in examples.items():
        path = target / name
        if not path.exists() and not path.is_symlink():
            missing.append(name)
        elif read_plain(path) != content:
            changed.append(name)
    if changed:
        others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise ConfigError(
            f"{target / changed[0]}{others}: differs from the example, and is not overwritten; "
            "nothing was copied. Give another folder: tnvmc examples FOLDER"
        )
    target.mkdir(parents=True, exist_ok=True)
    for name in missing:
        write_atomically(target / name, examples[name])
    return [target / name for name in missing]
