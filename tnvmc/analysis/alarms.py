"""What went wrong on the way to a result: warnings made from the lines of history.jsonl."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tnvmc.report.numbers import short

Json = Mapping[str, Any]

_RELATIVE = 1e-6  # of the energy: what counts as sigma where there is none (enumeration)
_WORSE = 4.0  # errors of both, that the end may lie above the beginning
_FEWEST_STEPS, _UNSTABLE = 8, 0.25  # steps, and the part of them that the guard may hold back
_BEYOND_BOUND = 1.5  # times the largest energy that a state can have: no noise of a mean
_BEYOND_FINAL = 100.0  # times the measured energy, where that bound is not known


def sigma(result: Json) -> float:
    """Give the error of the measured energy (total); 1e-6 of the energy where it has none."""
    return result["energy_error"] or _RELATIVE * abs(result["energy"])


def _beyond(result: Json) -> float:
    """Give the size of an energy that no state can have; inf where nothing tells."""
    if result.get("energy_bound"):
        return _BEYOND_BOUND * result["energy_bound"]
    return _BEYOND_FINAL * abs(result["energy"] or 0.0) or math.inf


def of_last_stage(history: Sequence[Json]) -> list[Json]:
    """Give the lines of the last stage that made steps; all of them in a run without stages."""
    last = history[-1].get("stage") if history else None
    return [line for line in history if line.get("stage") == last]


def exploded(result: Json, history: Sequence[Json]) -> Iterator[str]:
    """Complain of steps whose energy no state can have, and of such a measurement."""
    limit, n = _beyond(result), result["n_sites"]
    found = {f"step {line['step'] + 1}": abs(line.get("energy") or 0.0) for line in history}
    found["the measurement"] = abs(result["energy"] or 0.0)
    found = {where: size for where, size in found.items() if size > limit}
    if found:
        names = list(found)
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        bound = result.get("energy_bound")
        beyond = (
            f"no state has more than {short(bound / n)}"
            if bound
            else (f"over {_BEYOND_FINAL:g} times the measured one")
        )
        yield (
            f"local energies exploded in {', '.join(names[:3])}{more}: up to "
            f"{short(max(found.values()) / n)} per site, {beyond}: psi nearly vanishes on "
            "configurations that were visited; start from another ansatz.init or run.seed"
        )


def made_worse(result: Json, history: Sequence[Json]) -> Iterator[str]:
    """Complain of an energy above that at the beginning, of the run or of its last stage."""
    own = of_last_stage(history)
    for lines, told in ((history, ""), (own, ", the first of the last stage")):
        line = next(iter(lines), None)
        if line is None or line.get("undone") or result["energy_error"] is None:
            continue
        if line.get("energy_error") is None or abs(line["energy"]) > _beyond(result):
            continue
        rise = result["energy"] - line["energy"]
        error = math.hypot(sigma(result), line["energy_error"])
        if rise > _WORSE * error:
            yield (
                f"the energy lies {rise / error:.1f} sigma ({short(rise / result['n_sites'])} per "
                f"site) above that of step {line['step'] + 1}{told}: the steps made it worse; lower "
                "optimizer.learning_rate or raise sampler.n_samples"
            )
            return


def unstable(result: Json, history: Sequence[Json]) -> Iterator[str]:
    """Complain where the guard held back too many steps of the last stage."""
    own = of_last_stage(history)
    held = [
        line
        for line in own
        if line.get("undone")
        or any(found["code"] == "step_shortened" for found in line.get("diagnostics") or ())
    ]
    if len(own) >= _FEWEST_STEPS and len(held) > _UNSTABLE * len(own):
        of_sr = result["config"].get("optimizer", {}).get("kind") == "sr"
        yield (
            f"{len(held)} of {len(own)} steps were undone or shortened: the optimisation is "
            "unstable; lower optimizer.learning_rate, raise sampler.n_samples"
            + (" or optimizer.diag_shift" if of_sr else "")
        )
