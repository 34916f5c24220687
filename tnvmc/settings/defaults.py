"""Defaults that depend on other settings, all in one place."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from tnvmc.settings.ansatz_settings import AutoregressiveSettings, NetworkSettings, PEPSSettings
from tnvmc.settings.checks import DECAYING, conserves_magnetisation, sector_problems
from tnvmc.settings.config import Settings
from tnvmc.settings.optimizer_settings import OptimiseStage, OptimizerSettings, SRSettings
from tnvmc.settings.problems import ConfigError, ConfigProblem
from tnvmc.settings.section import Section
from tnvmc.settings.stages import as_run

S = TypeVar("S", bound=Section)

EVOLVE = 10
"""Steps of simple update that open new bonds, where a stage sets none.  6x6 Heisenberg from an
optimised D = 2 (relative error 1.5e-2) to D = 3: 1.1e-2 after one step, 8.5e-3 after ten, and the
same after 30.  Noise alone leaves the energy and a variance that optimises badly."""

NOISE = 0.01
"""On entries of new bonds that are zero, of the tensor's largest, where a stage sets none."""


def default_chi(D: int) -> int:
    """Give the boundary bond dimension used where none is set: 2 D, at least 4."""
    return max(4, 2 * D)


def complete(settings: Settings, default_name: str = "run") -> Settings:
    """Fill in every default that depends on other settings or on the machine.

    Raises:
        ConfigError: no D for an ansatz that needs one; a magnetisation that does not go with
            another, or with the Hamiltonian.
    """
    if problems := list(sector_problems(settings)):
        raise ConfigError(*problems)
    if settings.stage:
        settings = _with_stages(settings)
    ansatz, sampler = settings.ansatz, settings.sampler
    if isinstance(ansatz, PEPSSettings) and ansatz.D is None:
        raise ConfigError(
            ConfigProblem("ansatz.D", "missing", "the bond dimension, an integer >= 1")
        )
    if isinstance(ansatz, AutoregressiveSettings) and conserves_magnetisation(settings):
        ansatz = _filled(ansatz, magnetisation=sampler.magnetisation)
    scheme = None if isinstance(ansatz, NetworkSettings) else "src"
    contraction = _filled(settings.contraction, scheme=scheme, chi=_chi(settings, ansatz.D))
    measure = _filled(
        settings.measure,
        n_samples=8 * sampler.n_samples,
        n_thin=sampler.n_thin,
        chi=contraction.chi and 2 * contraction.chi,
    )
    return settings.model_copy(
        update={
            "ansatz": ansatz,
            "contraction": contraction,
            "sampler": _filled(sampler, kind=settings.sampler_kind),
            "optimizer": _filled(settings.optimizer, **_schedule(settings.optimizer)),
            "measure": measure,
            # threads stay unset: a run that is resumed elsewhere has other cores
            "run": _filled(settings.run, out=os.path.join("runs", default_name)),
        }
    )


def _filled(section: S, **values: Any) -> S:
    """Put values where a section has none."""
    empty = {key: value for key, value in values.items() if getattr(section, key) is None}
    return section.model_copy(update=empty)


def _chi(settings: Settings, D: int | None) -> int | None:
    """Give the chi of a state of bond dimension D, None where it is contracted without one."""
    contracted = settings.ansatz.kind == "peps" and settings.contraction.scheme != "exact"
    return settings.contraction.chi or (default_chi(D or 1) if contracted else None)


def _schedule(optimizer: OptimizerSettings) -> dict[str, Any]:
    rates, steps = optimizer.learning_rate, optimizer.steps
    if isinstance(rates, list):
        return {"schedule": "stages", "stages": [max(1, steps // len(rates))] * len(rates)}
    schedule = optimizer.schedule or "cosine"
    final = {"final_learning_rate": rates / 10} if schedule in DECAYING else {}
    return {"schedule": schedule, **final}


def _with_stages(settings: Settings) -> Settings:
    """Write out every stage, and put the last one into the other sections."""
    stages: list[Any] = []
    for stage in settings.stage or ():
        D = stage.D or settings.ansatz.D
        filled: dict[str, Any] = {"D": D, "n_samples": settings.sampler.n_samples}
        filled["chi"] = _chi(settings, D)
        if isinstance(stage, OptimiseStage):
            filled |= _rule(stage, settings.optimizer)
            if stages and stages[-1].D != D:
                filled |= {"noise": NOISE, "evolve": EVOLVE}
        stages.append(_filled(stage, **filled))
    return as_run(settings.model_copy(update={"stage": tuple(stages)}), stages[-1])


def _rule(stage: OptimiseStage, optimizer: OptimizerSettings) -> dict[str, Any]:
    rate: Any = stage.learning_rate or optimizer.learning_rate
    filled: dict[str, Any] = {
        "steps": optimizer.steps,
        "learning_rate": rate,
        "schedule": stage.schedule or optimizer.schedule or "cosine",
        "plateau": optimizer.plateau or 0,
    }
    if filled["schedule"] in DECAYING:
        filled["final_learning_rate"] = optimizer.final_learning_rate or rate / 10
    if isinstance(optimizer, SRSettings):
        filled["diag_shift"] = optimizer.diag_shift
    return filled
