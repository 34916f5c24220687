"""The budget of each state of a comparison, and how many samples a run draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tnvmc.limits import Json
from tnvmc.operators.basis import Basis
from tnvmc.operators.term import Operator
from tnvmc.settings.config import Budget, SamplerSettings, Settings
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import parse
from tnvmc.settings.problems import ConfigError, conflict
from tnvmc.storage.run_files import Run, as_array

MOST_STEPS = 100_000
"""Where the budget is a time and the file does not limit the steps."""


def budget_of(section: Any) -> Budget:
    """Check the content of [compare].

    Raises:
        ConfigError: not one number of one of the three units.
    """
    known, given = Budget.model_fields, section if isinstance(section, dict) else {}
    if len(given) != 1 or not set(given) <= set(known):
        held = ", ".join(given) or "nothing"
        text = f"must hold the budget of each ansatz, one of {', '.join(known)}; it holds {held}"
        raise ConfigError(conflict("[compare]", text))
    return parse(Budget, given, "compare")


def within(settings: Settings, budget: Budget) -> Settings:
    """Give settings whose optimisation ends with the budget."""
    optimizer = settings.optimizer
    if settings.sampler.n_samples == "auto":
        text = "a comparison gives each step of a state the same number of samples; give one"
        raise ConfigError(conflict("sampler.n_samples", text, "auto"))
    timed, given = budget.seconds is not None, optimizer.model_fields_set
    for key in ("seconds",) if timed else ("seconds", "steps"):
        if key in given:
            text = "the budget is that of [compare]; remove it"
            raise ConfigError(conflict(f"optimizer.{key}", text))
    limits: dict[str, Any] = {"steps": budget.steps}
    if timed:
        steps = optimizer.steps if "steps" in given else MOST_STEPS
        limits = {"seconds": budget.seconds, "steps": steps}
    elif budget.samples is not None:
        one_stage = settings.changed({"optimizer": {"steps": 1}})  # not those of a large state
        limits = {"steps": _steps_for(budget.samples, complete(one_stage).sampler)}
    return settings.changed({"optimizer": limits})


def _steps_for(samples: int, sampler: SamplerSettings) -> int:
    each = samples_per_step(sampler)
    if not each:
        text = f"draws no samples that compare.samples = {samples} could limit; take compare.steps"
        raise ConfigError(conflict("sampler.kind", text, "enumerate"))
    if samples < each:
        text = f"fewer than the {each} samples of a step"
        raise ConfigError(conflict("compare.samples", text, samples))
    return samples // each


def samples_per_step(sampler: SamplerSettings) -> int:
    """Give the samples that a step of the optimisation really draws; 0 for an enumeration."""
    if sampler.kind == "enumerate":
        return 0
    assert sampler.n_samples != "auto"
    return _drawn(sampler.n_samples, sampler)


def measured_samples(settings: Settings, operator: Operator) -> int:
    """Give the samples that the final measurement of completed settings really takes."""
    if settings.sampler.kind == "enumerate":
        sector = settings.sampler.magnetisation if operator.conserves_magnetisation else None
        return Basis(operator.n_sites, operator.local_dim, sector).dimension
    assert settings.measure.n_samples is not None
    return _drawn(settings.measure.n_samples, settings.sampler)


def _drawn(n_samples: int, sampler: SamplerSettings) -> int:
    walkers = sampler.n_walkers if sampler.kind == "metropolis" else 1
    return -(-n_samples // walkers) * walkers


INDEPENDENT = 0.5
"""Autocorrelation time of independent draws, and so the smallest there is."""


def seconds_per_effective_sample(run: Run, settings: Settings) -> float | None:
    """Give the median over the steps of what a sample costs that is worth an independent one.

    A step of M samples has M / (2 tau) of them.  tau is the larger of the step's own, which cannot
    exceed half its draws per walker, and that of the final measurement, which has more of them; at
    least 1/2.  The bias of chains that have not come to equilibrium is not in it.  Samples with
    weights are worth less by their share of effective ones: that of the step, and for direct draws
    that of the final measurement.  None under enumeration, or where no tau is known.
    """
    n = samples_per_step(settings.sampler)
    if not n or run.result is None:
        return None
    seconds = as_array([line.get("seconds") for line in run.history])
    if settings.sampler.kind == "direct":
        effective, measured = run.result.get("effective_samples"), run.result["n_samples"]
        return median(seconds / (n * (effective or measured) / measured))
    own = as_array([line.get("tau") for line in run.history])
    tau = np.fmax(np.maximum(own, INDEPENDENT), _measured_tau(run.result, settings))
    effective = as_array([line.get("effective_samples") for line in run.history])
    return median(seconds * 2 * tau / np.where(np.isnan(effective), n, effective))


def _measured_tau(result: Json, settings: Settings) -> float:
    """Give the autocorrelation time of the measurement in draws of a step; NaN where it has none.

    Correlations are taken to fall as rho^t, so that tau = (1 + rho) / (2 (1 - rho)).
    """
    tau = result.get("tau")
    if tau is None:
        return math.nan
    rho = max(0.0, (tau - INDEPENDENT) / (tau + INDEPENDENT))
    rho **= 1 / settings.measure.n_thin
    return (1 + rho) / (2 * (1 - rho))


def median(values: np.ndarray) -> float | None:
    """Give the median of the finite values; None where there are none."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else None
