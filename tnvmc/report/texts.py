"""Sentences of diagnostics: the one place where a code becomes words.

`TEMPLATES` has a sentence for every code.  A field in braces is one of the values of the
diagnostic, or one of `PHRASES`, which are made of several values; `:short` writes 1.1e-4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from string import Formatter
from typing import Any

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.report.numbers import short, with_error

Values = Mapping[str, Any]

TEMPLATES: Mapping[str, str] = {
    # of the convergence of a result
    "chi_enough": "chi {chi} is enough: going to {largest_chi} moves the energy by {moved}{smaller_chi}",
    "chi_not_enough": (
        "chi {largest_chi} is not shown to be enough: measure at {next_chi} as well{smaller_chi}"
    ),
    "chi_undecided": (
        "chi {chi}: too few samples to tell whether it is enough; going to {largest_chi} moves the "
        "energy by {change}{smaller_chi}"
    ),
    "steps_too_few": "steps: {steps} {are} too few to tell whether the energy has settled",
    "steps_settled": "steps: no change of the energy is seen {last_quarter}: {change}",
    "energy_still_falls": (
        "steps: the energy still falls: by {moved} {last_quarter}; more steps will lower it"
    ),
    "energy_rises": "steps: the energy rises: by {moved} {last_quarter}; lower the learning rate",
    "samples_measured": (
        "samples: {n_samples} give an error of {error_per_site:short} per site"
        "{tau_and_r_hat}{see_warnings}"
    ),
    "bond_dimension_single": (
        "D: D = {D} is the only one here, so its convergence is not known; grow the state in stages"
    ),
    "bond_dimension_not_enough": (
        "D: {D} is not the end: {going} {moved}; a line in 1/D ends at {extrapolated}, which is an "
        "extrapolation and no bound"
    ),
    "bond_dimension_worse": (
        "D: the energy at {D} lies above that at {smaller_D} by {moved}: that stage is not converged"
    ),
    "bond_dimension_undecided": (
        "D: too few samples to tell whether {smaller_D} is enough: {going} "
        "{gain_per_site:.1e} +- {error_per_site:.0e} per site"
    ),
    "bond_dimension_enough": "D: {smaller_D} is enough: {going} {moved}",
    "zero_variance_energy": (
        "variance: a line to zero variance through {points} points ends at {extrapolated}, {below} "
        "the measured energy: an extrapolation and no bound"
    ),
    # of what makes a result less certain than its error bar
    "measured_energy_not_finite": (
        "the measured energy is not finite; lower the learning rate{or_raise}"
    ),
    "energy_without_error": (
        "the energy has no error bar: its samples are too few, one of them carries all the weight, "
        "or local energies overflow; raise measure.n_samples"
    ),
    "below_reference": (
        "the energy lies {sigmas:.1f} error bars below the {reference} ({relative:short} of "
        "it), which is a bias and no better state; raise {keys}"
    ),
    "above_reference": "the energy lies {above}: not converged; take more steps, {larger_state} or another start",
    "local_energies_exploded": (
        "local energies exploded in {where}: up to {largest_per_site:short} per site, {beyond}: psi "
        "nearly vanishes on configurations that were visited; start from another ansatz.init or "
        "run.seed"
    ),
    "worse_than_at_start": (
        "the energy lies {sigmas:.1f} sigma ({per_site:short} per site) above that of {compared_step}: "
        "the steps made it worse; lower optimizer.learning_rate or raise sampler.n_samples"
    ),
    "optimisation_unstable": (
        "{held_back} of {steps} steps were undone or shortened: the optimisation is unstable; lower "
        "optimizer.learning_rate, raise {keys}"
    ),
    "walkers_disagree": (
        "R-hat is {r_hat:.3f}: the walkers disagree, the error bar is too small; raise "
        "sampler.n_burn or measure.n_samples"
    ),
    "chains_too_short": (
        "tau is {tau:.1f} draws and the chains have {draws:.0f}: they are too short to forget their "
        "start for sure; raise measure.n_samples or measure.n_thin"
    ),
    "few_effective_samples": (
        "{n_samples} weighted samples are worth {effective_samples:.0f}: few of them carry the "
        "weight, and the error bar may be too small; raise {keys}"
    ),
    "closure_spread_large": (
        "closure spread is {spread:short}, above {threshold:short}, the root of the relative error: "
        "amplitudes depend on where they are closed by enough to show in the energy; raise "
        "contraction.chi and measure.chi"
    ),
    "measured_chi_too_small": (
        "the energy was measured at chi {chi} and moves by {moved} at {largest_chi}; raise measure.chi"
    ),
    "uneven_weights": (
        "at chi {chi} the {n_samples} configurations drawn at chi {drawn_at} are worth "
        "{effective_samples:.0f}: the amplitudes differ too much for a comparison; raise chi"
    ),
    # of a step, and of a measurement after it
    "energy_not_finite": "energy not finite",
    "energy_jump": "energy jumped from {before:.6g} to {after:.6g}",
    "variance_jump": "variance jumped from {before:.3g} to {after:.3g}",
    "direction_not_finite": "direction not finite",
    "sampling_failed": "{reason}",
    "step_shortened": "step shortened to {factor:.2g} of its length",
    "measured_before_last_update": "{cause}: measured without the last update",
    # of a run in a comparison
    "stopped_on_plateau": "stopped on its plateau after {steps} steps",
    "run_failed": "failed: {reason}",
    "run_unreadable": "{reason}",
    "run_unfinished": "not measured after its last step; go on with tnvmc compare --resume",
    "numbers_not_finite": "its energy, error or variance is not finite",
    "settings_unreadable": "the settings it was measured with cannot be read ({reason})",
    "measured_differently": "measured with another {key}: {this_value}, the others {other_value}",
}


def sentence(found: Diagnostic | Mapping[str, Any]) -> str:
    """Write a diagnostic as a sentence, without capital and full stop.

    One of another version, whose code or values are not known here, is shown as it stands.

    Args:
        found: the diagnostic, or its dict as JSON files hold it.
    """
    diagnostic = found if isinstance(found, Diagnostic) else Diagnostic.from_dict(found)
    fields = _Fields(diagnostic.values, status=diagnostic.status)
    try:
        return _Writer().vformat(TEMPLATES[diagnostic.code], (), fields)
    except (KeyError, TypeError, ValueError):
        return str(diagnostic)


def line(diagnostic: Diagnostic) -> str:
    """Write a diagnostic as a line of output, a warning with "warning: " before it."""
    warns = diagnostic.status in ("warning", "error")
    return f"warning: {sentence(diagnostic)}" if warns else sentence(diagnostic)


def step_sentence(diagnostics: Iterable[Diagnostic | Mapping[str, Any]], undone: bool) -> str:
    """Write what happened to a step; empty where nothing did."""
    told = "; ".join(map(sentence, diagnostics))
    return f"{told}: step undone, next ones shorter" if told and undone else told


class _Writer(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        return short(value) if format_spec == "short" else format(value, format_spec)


class _Fields(dict[str, Any]):
    """The values of a diagnostic, and phrases made of them."""

    def __missing__(self, name: str) -> str:
        return PHRASES[name](self)


def _value(value: Any) -> str:
    return listed(value) if isinstance(value, list) else str(value)


def listed(names: Iterable[str]) -> str:
    """Write names with commas, "none" for none."""
    return ", ".join(names) or "none"


def _moved(v: Values) -> str:
    """Write how far an energy moves: "3.2 sigma (1.1e-4 per site)"."""
    per_site = f"{short(v['per_site'])} per site"
    return per_site if v["sigmas"] is None else f"{v['sigmas']:.1f} sigma ({per_site})"


def _extrapolated(v: Values) -> str:
    energy, error = v["extrapolated_per_site"], v["extrapolated_error_per_site"]
    if error is None:
        return f"{energy:.6f} per site (two points: no error)"
    return f"{with_error(energy, error)} per site"


def _reference(v: Values) -> str:
    return "exact one" if v["method"] == "exact" else f"one of {v['method']}"


def _above(v: Values) -> str:
    part, reference = short(v["relative"]), _reference(v)
    if v["sigmas"] is None:
        return f"{part} (relative) above the {reference}"
    return f"{v['sigmas']:.1f} error bars above the {reference} ({part} of it)"


def _smaller_chi(v: Values) -> str:
    told = "; chi {} is too small: the energy moves by {} at {}"
    return "".join(told.format(p["chi"], _moved(p), v["largest_chi"]) for p in v["too_small"])


def _tau_and_r_hat(v: Values) -> str:
    tau = "" if v["tau"] is None else f", tau {v['tau']:.1f} of {v['draws']:.0f} draws"
    return tau + ("" if v["r_hat"] is None else f", R-hat {v['r_hat']:.3f}")


def _where(v: Values) -> str:
    """Name three steps, or the measurement among them, and count the rest."""
    names = [f"step {step + 1}" for step in v["steps"]]
    names += ["the measurement"] if v["measurement"] else []
    more = v["n_steps"] + v["measurement"] - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")


def _beyond(v: Values) -> str:
    if v["bound_per_site"] is None:
        return f"over {v['factor']:g} times the measured one"
    return f"no state has more than {short(v['bound_per_site'])}"


def _compared_step(v: Values) -> str:
    return f"step {v['step'] + 1}" + (", the first of the last stage" if v["of_last_stage"] else "")


PHRASES: Mapping[str, Callable[[Values], str]] = {
    "above": _above,
    "are": lambda v: "is" if v["steps"] == 1 else "are",
    "below": lambda v: (
        short(abs(v["below_per_site"])) + (" below" if v["below_per_site"] >= 0 else " above")
    ),
    "beyond": _beyond,
    "cause": lambda v: sentence(Diagnostic(v["because"], "open", v)),
    "change": lambda v: f"{v['change_per_site']:+.1e} +- {v['error_per_site']:.0e} per site",
    "compared_step": _compared_step,
    "extrapolated": _extrapolated,
    "going": lambda v: f"going from D = {v['smaller_D']} to {v['D']} lowered the energy by",
    "keys": lambda v: " or ".join(v["raise"]),
    "larger_state": lambda v: {"kind": "another kind of ansatz"}.get(
        v["lacks"], f"a larger {v['lacks']}"
    ),
    "last_quarter": lambda v: f"over the last quarter ({v['steps']} steps)",
    "moved": _moved,
    "or_raise": lambda v: "".join(f" or raise {key}" for key in v["raise"]),
    "other_value": lambda v: _value(v["others"]),
    "this_value": lambda v: _value(v["this"]),
    "reference": _reference,
    "see_warnings": lambda v: "; see the warnings" if v["status"] == "open" else "",
    "smaller_chi": _smaller_chi,
    "tau_and_r_hat": _tau_and_r_hat,
    "where": _where,
}
