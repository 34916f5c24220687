"""Runs that are made for a test, by their settings."""

from __future__ import annotations

from pathlib import Path

from tnvmc.app.run import run_file


def made_run(folder: Path, text: str, *changes: str) -> Path:
    """Write a settings file into a folder, which need not be there, and run it; the folder of the run."""
    folder.mkdir(exist_ok=True)
    (folder / "study.toml").write_text(text)
    run_file(folder / "study.toml", folder / "run", changes)
    return folder / "run"
