"""Is a measured energy converged, and is it less certain than its error bar looks?

"Sigma" is the error of the measured energy, the number a reader quotes; what moves the energy by
less does not matter.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.line_fit import change_over_last_quarter, cost
from tnvmc.shown import ROUNDING
from tnvmc.trust.steps import SIGNIFICANT, good_lines, of_last_stage, unstable
from tnvmc.vmc.results import finite_or_none

Json = Mapping[str, Any]

DOUBTS = {"walkers_disagree", "few_walkers", "one_draw", "heavy_tail", "few_effective_samples"}
"""Codes of a measurement whose samples may be worth less than they look."""

APART = 4.0
"""Errors of both, that a sampled energy may lie off: chance does it once in 16 000 times."""

_RELATIVE = 1e-6  # of the energy: what counts as sigma where there is none (enumeration)
_EVEN_WEIGHTS = 0.5  # effective part of the samples of a chi scan, at least
_WORSE = 4.0  # errors of both, that the end may lie above the beginning
_HIDDEN = 3.0  # sigma that a change of the steps, its error added, may be and count as none
_BEYOND_BOUND = 1.5  # times the largest energy that a state can have: no noise of a mean
_NAMED = 3  # steps of a diagnostic that are named one by one


def diagnose(result: Json, history: Sequence[Json], found: Json) -> list[Diagnostic]:
    """Judge chi, steps, samples and D, then give what makes the result less trustworthy.

    The measured energy was judged when it was measured (`energies.judged`).  `found` is
    result.json["convergence"], with "chi", "double_layer", "variance" and "bond_dimension".
    """
    if None in (result["energy"], result["energy_error"]):
        return [*_exploded(result, history), *unstable(history)]
    double_layer = []
    if (layers := found.get("double_layer")) is not None:
        energy = result["energy"], result["energy_error"]
        double_layer = [agreement(layers, *energy, result["n_sites"])]
    return [
        *_chi(result, found["chi"]),
        *double_layer,
        *_steps(result, history),
        *_samples(result),
        *_bond_dimension(result, found["bond_dimension"]),
        *_zero_variance(result, found["variance"]),
        *_exploded(result, history),
        *_made_worse(result, history),
        *_unmoved(history),
        *unstable(history),
        *_scanned(result, found["chi"]),
    ]


def diagnostics_of(result: Json) -> list[Diagnostic]:
    """Give all that stands in a result.json: of the measurement, then of its convergence."""
    later = (result.get("convergence") or {}).get("diagnostics") or ()
    return [Diagnostic.from_dict(found) for found in (*(result.get("diagnostics") or ()), *later)]


_CHECKS = {
    "chi": ("chi_",),
    "samples": ("samples_measured",),
    "steps": ("steps_", "energy_rises", "energy_still_falls"),
    "D": ("bond_dimension_",),
}
_UNCHECKED = {"bond_dimension_single", "steps_too_few"}
_UNDECIDED = {"bond_dimension_cut", "bond_dimension_undecided", "chi_undecided", "steps_undecided"}
_ASIDE = _UNCHECKED | {"double_layer_left_out"}


def verdict(found: Sequence[Diagnostic]) -> Diagnostic:
    """Sum up diagnostics (code verdict): in what a result is converged and in what not, of "chi",
    "samples", "steps" and "D", and how many warnings and errors stand.
    """
    keys = ("converged", "short", "undecided", "unchecked")
    lists: dict[str, list[str]] = {key: [] for key in keys}
    for axis, codes in _CHECKS.items():
        for each in found:
            if each.code.startswith(codes):
                key = "converged" if each.status == "good" else "short"
                key = "unchecked" if each.code in _UNCHECKED else key
                lists["undecided" if each.code in _UNDECIDED else key].append(axis)
    if any(each.code == "above_reference" for each in found):  # one of both is short
        for axis in [x for x in ("steps", "D") if x in lists["converged"]]:
            lists["converged"].remove(axis)
            lists["undecided"].append(axis)
    told = [each.status for each in found]
    counts = {"warnings": told.count("warning"), "errors": told.count("error")}
    worst = next(s for s in ("error", "warning", "open", "good") if s in (*told, "good"))
    return Diagnostic("verdict", worst, lists | counts)


def to_heed(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Give those beside a verdict that are not good, but for what it has told in full."""
    return [each for each in found if each.status != "good" and each.code not in _ASIDE]


def sigma(result: Json) -> float:
    """Give the error of the measured energy (total); 1e-6 of the energy where it has none."""
    return result["energy_error"] or _RELATIVE * _size(result)


def final_D(result: Json) -> int | None:
    """Give the bond dimension of the state that was measured; None where it has none."""
    stages = result.get("stages") or [{}]
    return stages[-1].get("D") or result["config"]["ansatz"].get("D")


def _moved(result: Json, change: float) -> dict[str, float | None]:
    """Give the size of a change of the total energy, 0 for rounding; no "sigmas" without an error
    (enumeration).
    """
    known, change = result["energy_error"], abs(_beyond_rounding(result, change))
    sigmas = change / known if known else None
    return {"per_site": change / result["n_sites"], "sigmas": sigmas}


def _beyond_rounding(result: Json, change: float) -> float:
    return change if abs(change) > ROUNDING * _size(result) else 0.0


def _size(result: Json) -> float:
    """Give that of the energy, or a thousandth of the largest one there can be."""
    return max(abs(result["energy"]), 1e-3 * (result.get("energy_bound") or 0.0))


def _seen(result: Json, change: float, error: float) -> bool:
    """Tell whether a change is larger than its own noise and than the error of the energy."""
    return abs(change) > max(sigma(result), SIGNIFICANT * error)


def _chi(result: Json, points: Sequence[Json]) -> Iterator[Diagnostic]:
    """Give the first chi that is enough, and those below that are too small."""
    if len(points) < 2 or any(point["difference"] is None for point in points):
        return
    largest, n = points[-1]["chi"], result["n_sites"]
    too_small: list[Json] = []
    for point in points[:-1]:
        change, error = point["difference"], point["difference_error"] or 0.0
        here = {"chi": point["chi"], **_moved(result, change)}
        values = {**here, "largest_chi": largest, "too_small": too_small}
        if error <= sigma(result) and _seen(result, change, error):
            too_small.append(here)
        elif error <= sigma(result) and abs(change) <= sigma(result):
            yield Diagnostic("chi_enough", "good", values)
            return
        else:
            change = -_beyond_rounding(result, change)
            values |= {"change_per_site": change / n, "error_per_site": error / n}
            yield Diagnostic("chi_undecided", "open", values)
            return
    values = {"largest_chi": largest, "next_chi": math.ceil(1.5 * largest), "too_small": too_small}
    yield Diagnostic("chi_not_enough", "open", values)


def _steps(result: Json, history: Sequence[Json]) -> Iterator[Diagnostic]:
    """Judge whether no change matters, or can hide in noise, in the last quarter of good steps."""
    lines = good_lines(history)
    steps = [cost(line) for line in lines], [line["energy_error"] for line in lines]
    seen, longer = change_over_last_quarter(*steps), change_over_last_quarter(*steps, quarters=2)
    if seen is None or longer is None:
        if lines:
            yield Diagnostic("steps_too_few", "open", {"steps": len(lines)})
        return
    (change, error), n = seen, result["n_sites"]
    values = {
        "steps": len(lines) // 4,
        "change_per_site": _beyond_rounding(result, change) / n,
        "error_per_site": _beyond_rounding(result, error) / n,
        **_moved(result, change),
    }
    hidden = min(abs(_beyond_rounding(result, moved)) + noise for moved, noise in (seen, longer))
    if _seen(result, change, error) and change < 0:
        yield Diagnostic("energy_still_falls", "open", values)
    elif _seen(result, change, error):
        yield Diagnostic("energy_rises", "open", values)
    elif hidden > _HIDDEN * sigma(result):
        yield Diagnostic("steps_undecided", "open", values)
    else:
        yield Diagnostic("steps_settled", "good", values)


def _samples(result: Json) -> Iterator[Diagnostic]:
    """Give what the samples are worth."""
    if result["energy_error"]:
        told = {each["code"] for each in result.get("diagnostics") or ()}
        n_samples, sampler = result["n_samples"], result["config"]["sampler"]
        values = {
            "n_samples": n_samples,
            "draws": 1.0 if sampler.get("kind") == "direct" else n_samples / sampler["n_walkers"],
            "tau": result["tau"],
            "r_hat": result["r_hat"],
            "error_per_site": result["energy_error"] / result["n_sites"],
        }
        yield Diagnostic("samples_measured", "open" if told & DOUBTS else "good", values)


def _bond_dimension(result: Json, fit: Json | None) -> Iterator[Diagnostic]:
    """Compare the last two D of a run in stages, or the last one with what it was cut from."""
    if fit is None:
        if D := final_D(result):
            yield Diagnostic("bond_dimension_single", "open", {"D": D})
        return
    before, last = fit["points"][-2:]
    if (final := final_D(result)) is not None and final < last["D"]:
        error = math.hypot(sigma(result), last["energy_error"] or 0.0) / result["n_sites"]
        lower = (result["energy"] - last["energy"]) / result["n_sites"]
        values = {"D": final, "larger_D": last["D"]}
        values |= {"lower_per_site": lower, "error_per_site": error}
        yield Diagnostic("bond_dimension_cut", "open", values)
        return
    gain, n = before["energy"] - last["energy"], result["n_sites"]
    error = math.hypot(before["energy_error"] or 0.0, last["energy_error"] or 0.0)
    values = {
        "D": last["D"],
        "smaller_D": before["D"],
        "gain_per_site": gain / n,
        "error_per_site": error / n,
        **_moved(result, gain),
        **_extrapolated(result, fit),
    }
    if gain > 0 and _seen(result, gain, error):
        yield Diagnostic("bond_dimension_not_enough", "open", values)
    elif gain < -SIGNIFICANT * error:
        yield Diagnostic("bond_dimension_worse", "open", values)
    elif abs(gain) > sigma(result):
        yield Diagnostic("bond_dimension_undecided", "open", values)
    else:
        yield Diagnostic("bond_dimension_enough", "good", values | _moved(result, max(gain, 0.0)))


def _extrapolated(result: Json, fit: Json) -> dict[str, float | None]:
    n, error = result["n_sites"], fit["energy_error"]
    return {
        "extrapolated_per_site": fit["energy"] / n,
        "extrapolated_error_per_site": None if error is None else error / n,
    }


def _zero_variance(result: Json, fit: Json | None) -> Iterator[Diagnostic]:
    if fit is not None:
        values = {
            "points": len(fit["points"]),
            "below_per_site": (result["energy"] - fit["energy"]) / result["n_sites"],
            **_extrapolated(result, fit),
        }
        exact, error = result.get("exact_energy"), fit["energy_error"]
        if result.get("exact_method") == "variational":
            exact = None  # a bound, below which the line may well end
        if exact is not None and error and exact - fit["energy"] > SIGNIFICANT * error:
            values |= {"method": result["exact_method"], "sigmas": (exact - fit["energy"]) / error}
            yield Diagnostic("zero_variance_below_reference", "open", values)
        else:
            yield Diagnostic("zero_variance_energy", "good", values)


def _exploded(result: Json, history: Sequence[Json]) -> Iterator[Diagnostic]:
    """Warn of steps whose energy no state can have, and of such a measurement."""
    n, limit, measured = result["n_sites"], _beyond(result), abs(result["energy"] or 0.0)
    found = [line for line in history if abs(line.get("energy") or 0.0) > limit]
    if found or measured > limit:
        largest = max(measured, *(abs(line["energy"]) for line in found), 0.0)
        values = {
            "steps": [line["step"] for line in found[:_NAMED]],
            "n_steps": len(found),
            "measurement": measured > limit,
            "largest_per_site": largest / n,
            "bound_per_site": result["energy_bound"] / n,
        }
        yield Diagnostic("local_energies_exploded", "warning", values)


def _beyond(result: Json) -> float:
    """Give the size of an energy that no state can have."""
    return _BEYOND_BOUND * (result["energy_bound"] or math.inf)


def _made_worse(result: Json, history: Sequence[Json]) -> Iterator[Diagnostic]:
    """Warn of an energy above that at the beginning, of the run or of its last stage, but for steps
    of a larger D than that of the measured state, which was cut."""
    most = final_D(result) or math.inf
    comparable = [line for line in history if (line.get("D") or 0) <= most]
    for lines, of_last in ((comparable, False), (of_last_stage(history), True)):
        line = next(iter(lines), None)
        if line is None or line.get("undone") or result["energy_error"] is None:
            continue
        # With a penalty the energy may well rise: what falls is their sum.
        if line.get("energy_error") is None or abs(line["energy"]) > _beyond(result):
            continue
        rise = cost(result) - cost(line)
        error = math.hypot(sigma(result), line["energy_error"])
        if rise > _WORSE * error:
            values = {"step": line["step"], "of_last_stage": of_last, "sigmas": rise / error}
            values["per_site"] = rise / result["n_sites"]
            yield Diagnostic("worse_than_at_start", "warning", values)
            return


def _unmoved(history: Sequence[Json]) -> Iterator[Diagnostic]:
    """Warn of steps none of which changed a parameter: one sample has no direction."""
    if history and all(line.get("step_norm") == 0 for line in history):
        values = {"steps": len(history), "raise": ["sampler.n_samples"]}
        yield Diagnostic("parameters_unchanged", "warning", values)


def _share(result: Json) -> float:
    """Effective part of the measured samples, whose weights may be uneven at their own chi."""
    worth, n_samples = result.get("effective_samples"), result.get("n_samples")
    return float(worth / n_samples) if worth and n_samples else 1.0


def _scanned(result: Json, points: Sequence[Json]) -> Iterator[Diagnostic]:
    """Warn of a change with chi beyond sigma, and of weights far from even."""
    for point in points:
        if point["difference"] is None:
            continue
        seen = _seen(result, point["difference"], point["difference_error"] or 0.0)
        if point["chi"] == result["chi"] and seen:
            values = {"chi": point["chi"], "largest_chi": points[-1]["chi"]}
            values |= _moved(result, point["difference"])
            yield Diagnostic("measured_chi_too_small", "warning", values)
        n_samples = point.get("n_samples")
        even = _EVEN_WEIGHTS * _share(result)
        if n_samples and point["effective_samples"] < even * n_samples:
            keys = ("chi", "drawn_at", "n_samples", "effective_samples")
            yield Diagnostic("uneven_weights", "warning", {key: point[key] for key in keys})


def agreement(double_layer: Json, energy: float, error: float | None, n_sites: int) -> Diagnostic:
    """Tell whether a sampled energy (total) and that of a `DoubleLayerScan.as_dict` agree.

    Gives double_layer_agrees, double_layer_disagrees, double_layer_undecided where truncation is
    larger than the sampled error or not known, or double_layer_left_out.
    """
    if double_layer["left_out"] is not None:
        return Diagnostic("double_layer_left_out", "open", double_layer["left_out"])
    other, truncation = double_layer["energy"], double_layer["truncation"]
    sigma = error or _RELATIVE * abs(energy)
    known = other is not None and math.isfinite(energy) and math.isfinite(sigma)
    sigmas = abs(energy - other) / (math.hypot(sigma, truncation or 0.0) or 1.0) if known else None
    values = finite_or_none(
        {
            "energy_per_site": None if other is None else other / n_sites,
            "truncation_per_site": None if truncation is None else truncation / n_sites,
            "sampled_per_site": energy / n_sites,
            "sampled_error_per_site": None if error is None else error / n_sites,
            "sigmas": sigmas,
            "chi": [point["chi"] for point in double_layer["points"]],
            "seconds": double_layer["seconds"],
            "magnetisation": double_layer["magnetisation"],
            "sector_weight": double_layer["sector_weight"],
        }
    )
    if sigmas is not None and sigmas > APART:
        return Diagnostic("double_layer_disagrees", "warning", values)
    if sigmas is None or truncation is None or truncation > sigma:
        return Diagnostic("double_layer_undecided", "open", values)
    return Diagnostic("double_layer_agrees", "good", values)
