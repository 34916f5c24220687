"""The budget of each state of a comparison, and how many samples a run draws."""

from __future__ import annotations

from typing import Any

from tnvmc.operators.basis import Basis
from tnvmc.operators.term import Operator
from tnvmc.settings.config import Budget, SamplerSettings, Settings
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import parse
from tnvmc.settings.problems import ConfigError, conflict

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
