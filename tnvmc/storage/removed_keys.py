"""Keys that earlier versions wrote into config.toml and that settings no longer have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ANY = object()
_REMOVED: Mapping[str, Mapping[str, Any]] = {
    "ansatz": {
        "activation": "gelu", "dense": [], "fields": False, "form": "log_cosh", "head": "sum",
        "init_scale": 0.1, "inner": 0, "kernel": 3, "modulus": "both", "padding": "lattice",
        "pairs": "all", "phase": "both", "pool": 2, "pooling": "none", "residual": False,
        "reweight": True, "stride": 1,
    },
    "measure": {"ladder": _ANY},
    "optimizer": {
        "averaged_up_to": _ANY, "clip": _ANY, "precision": "auto", "solver": "auto", "stages": _ANY,
    },
    "run": {"checkpoint_every": _ANY},
    "sampler": {"n_replicas": 1, "n_thin": 1, "precision": _ANY},
    "stage": dict.fromkeys(("evolve", "final_learning_rate", "schedule"), _ANY),
}  # fmt: skip
"""Keys by section, with the value that every state now has; `_ANY` where no state depends on it."""


def without_removed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Give the content of the config.toml of an earlier version as the present one reads it.

    A key that made another state than there is now stays, and is refused as any unknown one.
    """
    found = {name: part for name, part in config.items() if name != "guard"}
    sampler = found.get("sampler")
    sampled = sampler.get("magnetisation", False) if isinstance(sampler, Mapping) else False
    for section, removed in _REMOVED.items():
        if section in found:
            if section == "ansatz":  # of networks that are drawn from
                removed = {**removed, "magnetisation": sampled}
            found[section] = _cleaned(found[section], removed)
    return found


def _cleaned(part: Any, removed: Mapping[str, Any]) -> Any:
    """Clean a section, each of several tables, and the tables of a product of states."""
    if isinstance(part, list):
        return [_cleaned(table, removed) for table in part]
    if not isinstance(part, Mapping):
        return part
    kept = {k: v for k, v in part.items() if k not in removed or not _same(removed[k], v)}
    return kept | {key: _cleaned(kept[key], removed) for key in ("first", "second") if key in kept}


def _same(known: Any, given: Any) -> bool:
    return known is _ANY or repr(known) == repr(given)  # 0 is not false
