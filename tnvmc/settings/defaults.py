"""Defaults that depend on other settings, all in one place."""

from __future__ import annotations

import os
from typing import Any, Literal

from tnvmc.ansatz.initial import sharing_of_start
from tnvmc.ansatz.peps.sharing import Sharing
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.peps.symmetries import (
    is_easy_plane,
    is_proven,
    sharing,
    signs_are_known,
)
from tnvmc.operators.term import Operator
from tnvmc.optimize.average import MOST_PARAMETERS
from tnvmc.settings.ansatz_settings import (
    AutoregressiveSettings,
    NetworkSettings,
    PEPSSettings,
    factors,
    leading,
)
from tnvmc.settings.build import default_dtype
from tnvmc.settings.checks import hamiltonian, sector_problems, type_problems
from tnvmc.settings.config import DEFAULT_SAMPLES, Settings
from tnvmc.settings.default_stages import MEASURED, default_stages
from tnvmc.settings.optimizer_settings import OptimiseStage, OptimizerSettings, SRSettings
from tnvmc.settings.problems import ConfigError, ConfigProblem
from tnvmc.settings.rules import DECAYING, default_chi, measured_chi
from tnvmc.settings.section import Section
from tnvmc.settings.stages import as_run, from_sections
from tnvmc.vmc.growing_chi import first_chi

EVOLVE = 10
"""Steps of simple update that open new bonds, where a stage sets none.  6x6 Heisenberg from an
optimised D = 2 (relative error 1.5e-2) to D = 3: 1.1e-2 after one step, 8.5e-3 after ten, and the
same after 30.  Noise alone leaves the energy and a variance that optimises badly."""

LEAST_SHARED = 3
"""D from which on tensors are shared by default.  At D = 2 a state without sharing ends as low or lower, most in the same time
(docs/sharing.md), if it has no more parameters than those up to which S is averaged over steps."""

NOISE = 0.01
"""On entries of new bonds that are zero, of the tensor's largest, where a stage sets none."""

FIXED_RATE = 0.1
"""Learning rate beside a schedule, where none is set."""

MEMORY = 0.9
"""Decay of the average of the SR matrix where none is set; see docs/decisions."""


def complete(settings: Settings, default_name: str = "run") -> Settings:
    """Fill in every default that depends on other settings or on the machine.

    Raises:
        ConfigError: no D for an ansatz that needs one; a magnetisation that does not go with
            another, or with the Hamiltonian.
    """
    if problems := [*sector_problems(settings), *type_problems(settings)]:
        raise ConfigError(*problems)
    settings = _with_sharing(settings)
    if (stages := default_stages(settings, hamiltonian(settings))) is not None:
        samples = {"n_samples": settings.measure.n_samples or MEASURED}
        settings = settings.model_copy(update={"stage": stages}).changed({"measure": samples})
    if settings.stage:
        settings = _with_stages(settings)
    ansatz, sampler, chi = settings.ansatz, settings.sampler, _chi(settings)
    for key, state in {"": ansatz, **factors(ansatz)}.items():
        if isinstance(state, PEPSSettings) and state.D is None:
            what = "the bond dimension, an integer >= 1"
            raise ConfigError(ConfigProblem(f"ansatz.{key and key + '.'}D", "missing", what))
    operator = hamiltonian(settings)
    of_ansatz: dict[str, Any] = {}
    sector = None
    if operator is not None:
        of_ansatz = {"dtype": default_dtype(operator)}
        if operator.conserves_magnetisation and operator.replacements:
            sector = sampler.magnetisation or 0
    if factors(ansatz):
        own = (
            {"dtype": ansatz.dtype, **of_ansatz}
            if ansatz.dtype is None
            else {"dtype": ansatz.dtype}
        )
        of_ansatz |= {key: _factor(state, own, sector) for key, state in factors(ansatz).items()}
    if isinstance(ansatz, AutoregressiveSettings) and sector is not None:
        of_ansatz["magnetisation"] = sector
    if ansatz.symmetrise:
        of_ansatz["reweight"] = True
    defaults: dict[str, dict[str, Any]] = {
        "ansatz": of_ansatz,
        "contraction": {"scheme": "src", "chi": chi} if leading(ansatz).kind in ("peps", "mps") else {},
        "sampler": {
            "kind": settings.sampler_kind, "magnetisation": sector, "power": _power(settings),
        },
        "optimizer": _optimizer(settings.optimizer, settings.sampler_kind != "enumerate"),
        "measure": {
            "n_samples": 8 * (DEFAULT_SAMPLES if sampler.n_samples == "auto" else sampler.n_samples), "n_thin": sampler.n_thin, "chi": None if chi == "auto" else measured_chi(chi),
        },
        # threads stay unset: a run that is resumed elsewhere has other cores
        "run": {"out": os.path.join("runs", default_name)},
    }  # fmt: skip
    return settings.changed(
        {name: _unset(getattr(settings, name), keys) for name, keys in defaults.items()}
    )


def _with_sharing(settings: Settings) -> Settings:
    """Decide whether a PEPS shares tensors, where nothing is said of it."""
    state = settings.ansatz
    if not isinstance(state, PEPSSettings):
        return settings
    shares = _shares(settings, state) if state.sharing is None else state.sharing
    named = any(each.edge is not None for each in (state, *(settings.stage or ())))
    before = _start_of(settings, state) if shares and not named else None
    bulk = {"edge": before.edge, "period": before.period} if before and before.edge else {}
    return settings.changed({"ansatz": {"sharing": shares, **bulk}})


def _start_of(settings: Settings, state: PEPSSettings) -> Sharing | None:
    """What the state that `init` names shares its tensors by."""
    sizes = [stage.D or state.D or 1 for stage in settings.stage or ()] or [state.D or 1]
    return sharing_of_start(state.init, sizes[0]) if "init" in state.model_fields_set else None


def _shares(settings: Settings, state: PEPSSettings) -> bool:
    """Tell whether the ground state is proven to have symmetries, and nothing else is asked for.

    A start that is named shares none, as in every run of before this key, but for a state that shares its tensors by the
    symmetries that this Hamiltonian has: it goes on as it is.
    """
    if any(each.edge is not None for each in (state, *(settings.stage or ()))):
        return True
    evolved = any(s.kind == "simple_update" or s.evolve for s in settings.stage or ())
    sizes = [stage.D or state.D or 1 for stage in settings.stage or ()] or [state.D or 1]
    is_cut = sizes != sorted(sizes)
    other_level = bool(state.symmetrise or settings.orthogonal)
    operator = hamiltonian(settings)
    if evolved or is_cut or other_level or state.kind != "peps" or operator is None:
        return False
    before = _start_of(settings, state)
    if "init" in state.model_fields_set and before is None:
        return False
    try:
        found = sharing(operator, bonds=state.bonds)
    except ValueError:  # no symmetry
        return False
    if before is not None:
        return before.goes_on_as(found)
    proven = signs_are_known(operator, found) and is_proven(operator, found)
    return proven and is_easy_plane(operator) and not _small(settings, state, operator)


def _small(settings: Settings, state: PEPSSettings, operator: Operator) -> bool:
    """Tell whether a state is as good without sharing: of a small D, in all stages, and few parameters."""
    D = max([state.D or 1, *(stage.D or 1 for stage in settings.stage or ())])
    return D < LEAST_SHARED and (
        PEPS(operator.lattice, D, local_dim=operator.local_dim, bonds=state.bonds).n_params
        <= MOST_PARAMETERS
    )


def _unset(section: Section, defaults: dict[str, Any]) -> dict[str, Any]:
    """Keep the defaults of keys that a section leaves out."""
    own = {key for key in defaults if getattr(section, key, 0) is None}
    found = {key: value for key, value in defaults.items() if key in own or key in factors(section)}
    if (
        isinstance(section, PEPSSettings)
        and section.sharing
        and "init" not in section.model_fields_set
    ):
        found["init"] = "product"  # tensors that are shared cannot be evolved
    return found


def _factor(state: Any, defaults: dict[str, Any], sector: int | None) -> Any:
    """Complete the table of one state of a product."""
    found = {} if isinstance(state, NetworkSettings) else dict(defaults)
    if isinstance(state, AutoregressiveSettings) and sector is not None:
        found["magnetisation"] = sector
    return state.model_copy(update=_unset(state, found))


def _chi(settings: Settings) -> int | Literal["auto"] | None:
    """Give the chi of a state, None where it is contracted without one."""
    state = leading(settings.ansatz)
    contracted = state.kind == "peps" and settings.contraction.scheme != "exact"
    if settings.contraction.chi or not contracted:
        return settings.contraction.chi
    D, drawn = state.D or 1, settings.sampler_kind != "enumerate"
    if settings.contraction.largest_chi is not None:
        return "auto"
    grows = first_chi(D) < default_chi(D) and drawn
    return "auto" if grows else default_chi(D)


def _power(settings: Settings) -> float | str:
    chains = settings.sampler_kind == "metropolis" and settings.sampler.n_replicas == 1
    return "auto" if chains else 1.0


def _optimizer(optimizer: OptimizerSettings, draws: bool) -> dict[str, Any]:
    """Give the defaults of [optimizer]: a rate that follows, or one that falls along a schedule."""
    rates, steps, schedule = optimizer.learning_rate, optimizer.steps, optimizer.schedule
    found: dict[str, Any] = {}
    if isinstance(optimizer, SRSettings):
        found["memory"] = MEMORY if draws and not optimizer.momentum else 0.0
    if rates is None:
        falls = schedule is not None or optimizer.final_learning_rate is not None
        rates = FIXED_RATE if falls else "auto"
        found["learning_rate"] = rates
    if isinstance(rates, list):
        lengths = [max(1, steps // len(rates))] * len(rates)
        return {**found, "schedule": "stages", "stages": lengths}
    if rates == "auto":
        return found
    schedule = schedule or "cosine"
    final = {"final_learning_rate": rates / 10} if schedule in DECAYING else {}
    return {**found, "schedule": schedule, **final}


def _with_stages(settings: Settings) -> Settings:
    """Write out every stage, and put the last one into the other sections."""
    stages: list[Any] = []
    plain = settings.model_copy(update={"stage": None})
    for stage in settings.stage or ():
        own = from_sections(plain, stage)
        if isinstance(stage, OptimiseStage) and (stage.schedule or own["schedule"]) == "constant":
            own["final_learning_rate"] = None
        filled = stage.model_copy(update=_unset(stage, own))
        run = complete(as_run(plain, filled))
        own = from_sections(run, filled)
        if isinstance(stage, OptimiseStage):
            own["plateau"] = own["plateau"] or 0
            grows = bool(stages) and (run.ansatz.D or 0) > (stages[-1].D or 0)
            evolve = 0 if getattr(run.ansatz, "sharing", False) else EVOLVE
            own |= {"noise": NOISE, "evolve": evolve} if grows else {}
        stages.append(filled.model_copy(update=_unset(filled, own)))
    return as_run(settings.model_copy(update={"stage": tuple(stages)}), stages[-1])
