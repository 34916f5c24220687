"""Which lines of history.jsonl count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]


def of_last_stage(history: Sequence[Json]) -> list[Json]:
    """Give the lines of the last stage that made steps; all of them in a run without stages."""
    last = history[-1].get("stage") if history else None
    return [line for line in history if line.get("stage") == last]


def good_lines(history: Sequence[Json]) -> list[Json]:
    """Give the steps of the last stage that were not undone and whose energy is finite."""
    known = ("energy", "energy_error", "variance")
    return [
        line
        for line in of_last_stage(history)
        if not line["undone"] and all(line.get(key) is not None for key in known)
    ]
