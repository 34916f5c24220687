"""Single numbers of observables.json, by the names that ``scan.observables`` has for them."""

from __future__ import annotations

import math

from tnvmc.limits import Json


def observed_value(held: Json, name: str) -> dict[str, float] | None:
    """Give "mean" and "error" of one observable; None where observables.json does not have it."""
    found = held.get(name)
    if name in ("Sz", "Sx", "n"):
        found = ((held.get("averages") or {}).get("sites") or {}).get(name)
    elif name in ("SzSz", "SS", "nn") and (
        factor := (held.get("structure_factor") or {}).get(name)
    ):
        means = [-math.inf if mean is None else mean for mean in factor["mean"]]
        largest = means.index(max(means))
        found = {key: factor[key][largest] for key in ("mean", "error")}
    if not found or None in (found["mean"], found["error"]):
        return None
    return {key: found[key] for key in ("mean", "error")}
