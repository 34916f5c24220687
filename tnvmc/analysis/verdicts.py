"""Sentences about a result: is it converged, and what makes it less certain than it looks.

Every sentence holds the numbers it is made of.  "Sigma" is the error of the measured energy, the
number a reader quotes; what moves the energy by less does not matter to him.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tnvmc.analysis.alarms import exploded, made_worse, sigma, unstable
from tnvmc.estimate.line_fit import change_over_last_quarter
from tnvmc.report.numbers import short, with_error

Json = Mapping[str, Any]

SIGNIFICANT = 3.0
"""Own errors that a change must have to count as seen."""

BELOW_EXACT = 4.0
"""Errors below a known energy that chance does not explain: once in 30 000 runs."""

ABOVE_EXACT, FAR_ABOVE = 5.0, 1e-2
"""Errors above a known energy, and part of it, that are not told as a success."""

_LARGEST_R_HAT = 1.05
_DRAWS_FOR_R_HAT = 16  # with fewer draws of each walker R-hat and tau are mostly noise
_TAUS_PER_CHAIN = 16.0
_LEAST_EFFECTIVE = 0.1  # of the samples
_EVEN_WEIGHTS = 0.5  # effective part of the samples of a ladder, at least
_OPEN = ("too few", "still falls", "rises", "not shown", "not the end", "not converged")


def verdicts(result: Json, lines: Sequence[Json], found: Json) -> list[str]:
    """Say of chi, steps, samples and D whether they are enough.

    Args:
        result: content of result.json.
        lines: of history.jsonl, the good ones of the last stage.
        found: "chi", "variance" and "bond_dimension" of result.json["convergence"].
    """
    if result["energy"] is None:
        return ["the measured energy is not finite: nothing can be said of its convergence"]
    return [
        *_of_chi(result, found["chi"]),
        *_of_steps(result, lines),
        *_of_samples(result),
        *_of_bond_dimension(result, found["bond_dimension"]),
        *_of_variance(result, found["variance"]),
    ]


def warnings(result: Json, found: Json | None = None, history: Sequence[Json] = ()) -> list[str]:
    """Say what makes a result less trustworthy than its error bar looks.

    Args:
        result: content of result.json.
        found: "chi" of result.json["convergence"].
        history: lines of history.jsonl.
    """
    if result["energy"] is None:
        raising = " or raise chi" if _contracted(result) else ""
        text = f"the measured energy is not finite; lower the learning rate{raising}"
        return [text, *exploded(result, history), *unstable(result, history)]
    return [
        *_without_error(result),
        *_below_exact(result),
        *_above_exact(result),
        *exploded(result, history),
        *made_worse(result, history),
        *unstable(result, history),
        *_mixing(result),
        *_few_effective(result),
        *_closures(result),
        *(_measured_too_low(result, found["chi"]) if found else ()),
    ]


def sentences(result: Json) -> list[str]:
    """Give what a reader of a result should be told, verdicts first, one line each."""
    found = result.get("convergence")
    if found is None:
        return [f"warning: {text}" for text in warnings(result)]
    return [*found["verdicts"], *(f"warning: {text}" for text in found["warnings"])]


def leaves_open(verdict: str) -> bool:
    """Tell whether a verdict says that something is not enough, or not known to be."""
    return any(words in verdict for words in _OPEN)


def closure_threshold(result: Json) -> float:
    """Give the closure spread above which truncation may show in the energy.

    Errors eta(s) of ln|psi(s)| that differ from one configuration to the next without aim add
    noise to local energies at first order and raise the energy at second, by sum_ss' psi H psi
    (eta - eta')^2 / 2: a relative bias of about s^2 for a spread s.  So s^2 is to stay below the
    relative error of the energy, s < sqrt(sigma / |E|).  Measured: Heisenberg 4x4, D = 4,
    enumerated, chi = 2, 3, 4: biases of 0.15, 0.04 and 0.25 s^2; 6x6, D = 4, chi = 4: 1.0(7) s^2;
    below a spread of 1e-3 the bias is first order and under 4e-4 s, which no run resolves.
    """
    return math.sqrt(sigma(result) / max(abs(result["energy"]), 1e-300))


def _moves(result: Json, change: float) -> str:
    """Say how far an energy moves: "3.2 sigma (1.1e-4 per site)"."""
    per_site = short(abs(change) / result["n_sites"]) + " per site"
    if not result["energy_error"]:
        return per_site
    return f"{abs(change) / sigma(result):.1f} sigma ({per_site})"


def _too_far(result: Json, rung: Json) -> bool:
    """Tell whether an energy lies further from that at the largest chi than its error."""
    return abs(rung["difference"]) > sigma(result)


def _of_chi(result: Json, ladder: Sequence[Json]) -> Iterator[str]:
    """Name every chi that is too small, and the first that is enough."""
    if len(ladder) < 2 or any(rung["difference"] is None for rung in ladder):
        return
    top, n = ladder[-1]["chi"], result["n_sites"]
    for rung in ladder[:-1]:
        moved, error = _moves(result, rung["difference"]), rung["difference_error"] or 0.0
        unseen = abs(rung["difference"]) < SIGNIFICANT * error
        if error > sigma(result) or unseen and _too_far(result, rung):
            yield (
                f"chi {rung['chi']}: too few samples to tell whether it is enough; going to {top} "
                f"moves the energy by {-rung['difference'] / n:+.1e} +- {error / n:.0e} per site"
            )
            return
        if not _too_far(result, rung):
            yield f"chi {rung['chi']} is enough: going to {top} moves the energy by {moved}"
            return
        yield f"chi {rung['chi']} is too small: the energy moves by {moved} at {top}"
    yield f"chi {top} is not shown to be enough: measure at {math.ceil(1.5 * top)} as well"


def _of_steps(result: Json, lines: Sequence[Json]) -> Iterator[str]:
    series = [[line[key] for line in lines] for key in ("energy", "energy_error")]
    seen = change_over_last_quarter(series[0], series[1])
    if seen is None:
        if lines:
            are = "is" if len(lines) == 1 else "are"
            yield f"steps: {len(lines)} {are} too few to tell whether the energy has settled"
        return
    change, error = seen
    over = f"over the last quarter ({len(lines) // 4} steps)"
    n, moved = result["n_sites"], _moves(result, change)
    if abs(change) <= sigma(result):
        yield f"steps: enough at this learning rate: the energy moves by {moved} {over}"
    elif abs(change) < SIGNIFICANT * error:
        told = f"{change / n:+.1e} +- {error / n:.0e} per site"
        yield f"steps: no change of the energy is seen {over}: {told}"
    elif change < 0:
        yield f"steps: the energy still falls: by {moved} {over}; more steps will lower it"
    else:
        yield f"steps: the energy rises: by {moved} {over}; lower the learning rate"


def _of_samples(result: Json) -> Iterator[str]:
    if not result["energy_error"]:
        return
    n = result["n_sites"]
    told = [f"{result['n_samples']} give an error of {short(result['energy_error'] / n)} per site"]
    if result["tau"] is not None:
        told.append(f"tau {result['tau']:.1f} of {_draws(result):.0f} draws")
    if result["r_hat"] is not None:
        told.append(f"R-hat {result['r_hat']:.3f}")
    doubt = next(iter([*_mixing(result), *_few_effective(result)]), None)
    yield f"samples: {', '.join(told)}" + ("; see the warnings" if doubt else "")


def _of_bond_dimension(result: Json, fit: Json | None) -> Iterator[str]:
    if fit is None:
        D = final_D(result)
        if D:
            yield (
                f"D: D = {D} is the only one here, so its convergence is not known; grow the state "
                "in stages"
            )
        return
    before, last = fit["points"][-2:]
    gain = before["energy"] - last["energy"]
    error = math.hypot(before["energy_error"] or 0.0, last["energy_error"] or 0.0)
    told = f"going from D = {before['D']} to {last['D']} lowered the energy by"
    if abs(gain) > max(SIGNIFICANT * error, sigma(result)) and gain > 0:
        yield (
            f"D: {last['D']} is not the end: {told} {_moves(result, gain)}; a line in 1/D ends at "
            f"{_per_site(result, fit)}, which is an extrapolation and no bound"
        )
    elif gain < -SIGNIFICANT * error:
        yield (
            f"D: the energy at {last['D']} lies above that at {before['D']} by "
            f"{_moves(result, gain)}: that stage is not converged"
        )
    elif abs(gain) > sigma(result):
        n = result["n_sites"]
        yield (
            f"D: too few samples to tell whether {before['D']} is enough: {told} "
            f"{gain / n:.1e} +- {error / n:.0e} per site"
        )
    else:
        yield f"D: {before['D']} is enough: {told} {_moves(result, max(gain, 0.0))}"


def _of_variance(result: Json, fit: Json | None) -> Iterator[str]:
    if fit is None:
        return
    gap = (result["energy"] - fit["energy"]) / result["n_sites"]
    yield (
        f"variance: a line to zero variance through {len(fit['points'])} points ends at "
        f"{_per_site(result, fit)}, {short(abs(gap))} {'below' if gap >= 0 else 'above'} the "
        "measured energy: an extrapolation and no bound"
    )


def final_D(result: Json) -> int | None:
    """Give the bond dimension of the state that was measured; None where it has none."""
    stages = result.get("stages") or [{}]
    return stages[-1].get("D") or result["config"]["ansatz"].get("D")


def _per_site(result: Json, fit: Json) -> str:
    n = result["n_sites"]
    if fit["energy_error"] is None:
        return f"{fit['energy'] / n:.6f} per site (two points: no error)"
    return f"{with_error(fit['energy'] / n, fit['energy_error'] / n)} per site"


def _contracted(result: Json) -> bool:
    """Tell whether amplitudes were contracted with a chi, which a network does without."""
    return bool(result["config"].get("contraction", {}).get("chi"))


def _draws(result: Json) -> float:
    return result["n_samples"] / result["config"]["sampler"]["n_walkers"]


def _reference_name(result: Json) -> str:
    return "exact one" if result["exact_method"] == "exact" else f"one of {result['exact_method']}"


def _comparable(result: Json) -> bool:
    """Tell whether there is a known energy that no state lies below, and an error to count in."""
    known = result["exact_method"] in ("exact", "QMC") and result["signed_error"] is not None
    return known and result["energy_error"] is not None


def _without_error(result: Json) -> Iterator[str]:
    if result["energy_error"] is None:
        yield (
            "the energy has no error bar: its samples are too few, one of them carries all the "
            "weight, or local energies overflow; raise measure.n_samples"
        )


def _below_exact(result: Json) -> Iterator[str]:
    if not _comparable(result):
        return
    below = -result["signed_error"]
    error = result["relative_error_error"] or 1e-9
    if below > BELOW_EXACT * error:
        cause = "sampling is biased; raise sampler.n_burn, measure.n_thin or measure.n_samples"
        if _contracted(result):
            cause = "truncation or sampling is biased; raise contraction.chi and measure.chi"
        yield (
            f"the energy lies {below / error:.1f} error bars below the {_reference_name(result)} "
            f"({short(below)} of it): {cause}"
        )


def _above_exact(result: Json) -> Iterator[str]:
    if not _comparable(result):
        return
    above, error = result["signed_error"], result["relative_error_error"]
    if above <= FAR_ABOVE or error and above <= ABOVE_EXACT * error:
        return
    name, part = _reference_name(result), short(above)
    told = (
        f"{above / error:.1f} error bars above the {name} ({part} of it)"
        if error
        else (f"{part} (relative) above the {name}")
    )
    yield (
        f"the energy lies {told}: not converged; take more steps, {_larger(result)} or another start"
    )


def _larger(result: Json) -> str:
    """Say what has more parameters than the state of a result."""
    if result["config"]["ansatz"].get("kind") in ("product", "dimer"):
        return "another kind of ansatz"
    return "a larger D" if final_D(result) else "a larger network"


def _mixing(result: Json) -> Iterator[str]:
    draws = _draws(result)
    if draws < _DRAWS_FOR_R_HAT or result["tau"] is None:
        return
    if (result["r_hat"] or 1.0) > _LARGEST_R_HAT:
        yield (
            f"R-hat is {result['r_hat']:.3f}: the walkers disagree, the error bar is too small; "
            "raise sampler.n_burn or measure.n_samples"
        )
    if draws < _TAUS_PER_CHAIN * result["tau"]:
        yield (
            f"tau is {result['tau']:.1f} draws and the chains have {draws:.0f}: they are too short "
            "to forget their start for sure; raise measure.n_samples or measure.n_thin"
        )


def _few_effective(result: Json) -> Iterator[str]:
    effective = result.get("effective_samples")
    if effective is not None and effective < _LEAST_EFFECTIVE * result["n_samples"]:
        yield (
            f"{result['n_samples']} weighted samples are worth {effective:.0f}: few of them carry "
            "the weight, and the error bar may be too small; raise measure.n_samples"
            + (" or chi" if _contracted(result) else "")
        )


def _closures(result: Json) -> Iterator[str]:
    spread, threshold = result["closure_spread"] or 0.0, closure_threshold(result)
    if spread > threshold:
        yield (
            f"closure spread is {short(spread)}, above {short(threshold)}, the root of the "
            "relative error: amplitudes depend on where they are closed by enough to show in the "
            "energy; raise contraction.chi and measure.chi"
        )


def _measured_too_low(result: Json, ladder: Sequence[Json]) -> Iterator[str]:
    """Complain of the chi that was measured at, and of weights that are not even."""
    for rung in ladder:
        if rung["difference"] is None:
            continue
        error = rung["difference_error"] or 0.0
        seen = abs(rung["difference"]) > SIGNIFICANT * error and _too_far(result, rung)
        if rung["chi"] == result["config"].get("measure", {}).get("chi") and seen:
            yield (
                f"the energy was measured at chi {rung['chi']} and moves by "
                f"{_moves(result, rung['difference'])} at {ladder[-1]['chi']}; raise measure.chi"
            )
        n_samples = rung.get("n_samples")
        if n_samples and rung["effective_samples"] < _EVEN_WEIGHTS * n_samples:
            yield (
                f"at chi {rung['chi']} the {n_samples} configurations drawn at chi "
                f"{rung['drawn_at']} are worth {rung['effective_samples']:.0f}: the amplitudes "
                "differ too much for a comparison; raise chi"
            )
