"""Observables of several measurements of one state, in one observables.json.

A measurement has parts: what every sample is measured for ("samples": energy, bonds, sites, Sz Sz),
S.S of all pairs ("pairs"), and operators of the user.  `measured` in the file says of each part how it
was measured.  A part that is not measured anew stays, where the parameters, the step, the symmetries
and the sector are the same; what is not of the same state, or is better than what takes its place, is
set aside in a file of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.observable_set import ALL_PAIRS

Json = dict[str, Any]

SAME_STATE = ("parameters", "step", "magnetisation", "symmetry")
"""Keys of observables.json that tell states apart."""


@dataclass(frozen=True)
class Merged:
    """What observables.json is to hold, and what becomes of what it held."""

    content: Json
    kept: tuple[Diagnostic, ...] = ()  #: `observables_kept`: parts of earlier measurements
    aside: str | None = None  #: why the earlier file is set aside: see `set_aside`


def merged(fresh: Json, held: Mapping[str, Any] | None) -> Merged:
    """Join a new measurement with what the file holds."""
    if held is None:
        return Merged(fresh)
    if (other := state_differs(fresh, held)) is not None:
        return Merged(fresh, aside=other)
    content, kept = dict(fresh), list[Diagnostic]()
    before, now = held["measured"], fresh["measured"]
    if now["pairs"] is None and before["pairs"] is not None:
        content = _with_pairs(content, held)
        kept.append(_kept(ALL_PAIRS, before["pairs"]))
    for name, record in before["operators"].items():
        if name not in now["operators"]:
            content = _with_operator(content, held, name)
            kept.append(_kept(name, record))
    worse = any(_worse(new, old) for new, old in _both(now, before))
    return Merged(content, tuple(kept), "better" if worse else None)


def state_differs(fresh: Mapping[str, Any], held: Mapping[str, Any]) -> str | None:
    """Tell in what the state of a file differs: "step", "magnetisation", ..., "unknown"; None: in nothing."""
    if "measured" not in held:
        return "unknown"  # an earlier version
    order = ("step", *(key for key in SAME_STATE if key != "step"))
    return next((key for key in order if held.get(key) != fresh[key]), None)


def enough_pairs(fresh: Mapping[str, Any], held: Mapping[str, Any] | None, planned: Json) -> bool:
    """Tell whether a file holds S.S of all pairs of the same state, as good as what is planned."""
    if held is None or state_differs(fresh, held) is not None:
        return False
    record = held["measured"]["pairs"]
    if record is None or record["drawn"] != planned["drawn"]:
        return False
    unweighted = {"effective_samples": None}
    return not _worse(record | unweighted, planned | unweighted)


def free_name(folder: Path, step: int) -> Path:
    """Give the place for a file that is set aside: observables-step-STEP.json, with a number if need be."""
    stem = f"observables-step-{step}"
    names = (f"{stem}.json", *(f"{stem}-{number}.json" for number in range(2, 10**6)))
    return next(folder / name for name in names if not (folder / name).exists())


def _both(now: Json, before: Json) -> Iterator[tuple[Json, Json]]:
    """New and old record of each part that was measured again."""
    for part in ("samples", "pairs"):
        if now[part] is not None and before[part] is not None:
            yield now[part], before[part]
    for name, record in now["operators"].items():
        if name in before["operators"]:
            yield record, before["operators"][name]


def _worse(new: Json, old: Json) -> bool:
    """Tell whether the old one has anything that is lost with it: samples, chi, another operator."""
    if new.get("fingerprint") != old.get("fingerprint"):
        return True
    return _worth(new) < _worth(old) or (new["chi"] or 0) < (old["chi"] or 0)


def _worth(record: Json) -> float:
    """Samples; of an enumeration more than any number of them."""
    if record["drawn"] == "enumerate":
        return float("inf")
    return float(record["effective_samples"] or record["n_samples"])


def _kept(name: str, record: Json) -> Diagnostic:
    values = {key: record[key] for key in ("n_samples", "chi", "seed")}
    return Diagnostic("observables_kept", "good", {"observable": name, **values})


def _with_pairs(content: Json, held: Mapping[str, Any]) -> Json:
    """Take S.S of all pairs, and what is made of it, from the file."""
    joined = {**content, "measured": {**content["measured"], "pairs": held["measured"]["pairs"]}}
    for key in ("pair_samples", "pair_chi", "staggered_magnetisation_squared"):
        joined[key] = held[key]
    for key in ("correlations", "structure_factor"):
        taken = {name: value for name, value in held[key].items() if name == ALL_PAIRS}
        joined[key] = {**content[key], **taken}
    return joined | {"diagnostics": _told(content, held["measured"]["pairs"])}


def _with_operator(content: Json, held: Mapping[str, Any], name: str) -> Json:
    record = held["measured"]["operators"][name]
    operators = {**content["measured"]["operators"], name: record}
    return {
        **content,
        "measured": {**content["measured"], "operators": operators},
        "operators": {**content["operators"], name: held["operators"][name]},
        "diagnostics": _told(content, record),
    }


def _told(content: Json, record: Json) -> list[Json]:
    """The diagnostics of the content, and those of a part that joins it."""
    more = [each for each in record["diagnostics"] if each not in content["diagnostics"]]
    return [*content["diagnostics"], *more]
