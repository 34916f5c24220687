"""Runs from Python with parts that settings do not describe: what their folder says, and who asks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

OWN_PARTS = "python"
"""Section of config.toml: key `own` names such parts; `n_sites` and `units` are those of the run."""


def own_parts(config: Mapping[str, Any]) -> list[str]:
    """Give the names of such parts; none where settings make the whole run."""
    section = config.get(OWN_PARTS)
    if not isinstance(section, Mapping):
        return []
    return [str(name) for name in section.get("own", [])]


def refusal(path: Path, own: list[str]) -> str:
    """Say what to do where settings do not make the state of a run."""
    names = ", ".join(name.replace("_", " ") for name in own)
    return (
        f"a run from Python, of which settings do not describe: {names}; make the VMC in Python as "
        f"it was, then vmc.restore({str(path.parent / 'checkpoint.h5')!r})"
    )
