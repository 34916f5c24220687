"""Stages that are allowed one by one, and not after each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tnvmc.settings.ansatz_settings import AnsatzSettings, NetworkSettings, PEPSSettings
from tnvmc.settings.config import Settings
from tnvmc.settings.optimizer_settings import OptimiseStage, SRSettings, StageSettings
from tnvmc.settings.problems import named
from tnvmc.settings.rules import (
    DECAYING,
    FOLLOWS,
    GROWS,
    GROWS_IN_CHAINS,
    NOT_DECAYING,
    Rule,
    follows,
)
from tnvmc.settings.stages import SECTION_OF


def of_stages(settings: Settings, stages: tuple[StageSettings, ...]) -> Iterator[Rule]:
    optimizer, ansatz = settings.optimizer, settings.ansatz
    lists = isinstance(optimizer.learning_rate, list) or optimizer.stages
    why = "a list of them does not go with [[stage]]; give each stage its own learning_rate"
    yield lists or optimizer.schedule == "stages", "optimizer.learning_rate", why
    why = "does not go with [[stage]]; give each stage its steps"
    yield optimizer.seconds is not None, "optimizer.seconds", why
    evolved = stages[0].kind == "simple_update"
    why = "the first stage is simple update, which begins from a product state; leave it out"
    yield evolved and ansatz.init_noise is not None, "ansatz.init_noise", why, ansatz.init_noise
    other = "init" in ansatz.model_fields_set and ansatz.init != "simple_update"
    why = "the first stage starts from simple update; remove one of the two"
    yield evolved and other, "ansatz.init", why, ansatz.init
    why = f"{named(ansatz.kind)} has no such start"
    yield evolved and ansatz.kind not in ("peps", "mps"), "stage.1.kind", why, "simple_update"
    before: int | None = None
    for number, stage in enumerate(stages, 1):
        yield from _of_stage(settings, number, stage, before)
        yield from _of_edges(ansatz, number, stage, stages[number - 2] if number > 1 else None)
        before = stage.D or ansatz.D or before


def _of_edges(
    ansatz: AnsatzSettings, number: int, stage: StageSettings, before: StageSettings | None
) -> Iterator[Rule]:
    """Say which edge a stage cannot have."""
    where = f"stage.{number}.edge"
    shares = isinstance(ansatz, PEPSSettings) and ansatz.sharing is not False
    why = "goes with ansatz.sharing = true only; say that too, or leave it out"
    yield stage.edge is not None and not shares, where, why, stage.edge
    if not isinstance(ansatz, PEPSSettings) or not isinstance(before, OptimiseStage):
        return
    had, has = before.edge or ansatz.edge, stage.edge or ansatz.edge
    why = (
        f"smaller than in the stage before ({had or 'all rows have their own'}), and tensors that differ do not become one; "
        "let it grow"
    )
    yield has is not None and (had is None or has < had), where, why, has


def _of_stage(
    settings: Settings, number: int, stage: StageSettings, before: int | None
) -> Iterator[Rule]:
    """Say what one stage cannot have, after a stage with the D `before`."""
    where, optimizer = f"stage.{number}", settings.optimizer
    D = stage.D or settings.ansatz.D
    yield from _of_sizes(settings, f"{where}.D", stage.D, before)
    if not isinstance(stage, OptimiseStage):
        yield number > 1, f"{where}.kind", "only the first stage can be", stage.kind
        return
    grows = (stage.n_samples or settings.sampler.n_samples) == "auto"
    yield grows and not follows(optimizer, stage), f"{where}.n_samples", GROWS, "auto"
    in_chains = settings.sampler_kind == "metropolis"
    own = stage.n_samples == "auto"
    yield own and not in_chains, f"{where}.n_samples", GROWS_IN_CHAINS, "auto"
    shifted = stage.diag_shift is not None and not isinstance(optimizer, SRSettings)
    yield shifted, f"{where}.diag_shift", "goes with optimizer.kind = 'sr' only"
    grows = before is not None and D is not None and D > before
    for key in ("evolve", "noise"):
        broken = not grows and getattr(stage, key) is not None
        yield broken, f"{where}.{key}", "goes with a D larger than that of the stage before only"
    if (stage.learning_rate or optimizer.learning_rate) == "auto":
        yield stage.schedule is not None, f"{where}.schedule", FOLLOWS, stage.schedule
        final = stage.final_learning_rate
        yield final is not None, f"{where}.final_learning_rate", FOLLOWS
        return
    constant = (stage.schedule or optimizer.schedule or "cosine") not in DECAYING
    broken = constant and stage.final_learning_rate is not None
    yield broken, f"{where}.final_learning_rate", NOT_DECAYING


def _of_sizes(
    settings: Settings, where: str, own: int | None, before: int | None
) -> Iterator[Rule]:
    """Say which D a stage cannot have after that of the stage before."""
    ansatz = settings.ansatz
    if not isinstance(ansatz, PEPSSettings):
        network = isinstance(ansatz, NetworkSettings)
        why = f"{named(ansatz.kind)}{'' if network else ' state'} has no bond dimension"
        yield own is not None and (network or own > 1), where, why, own
        return
    D, before = own or ansatz.D, before or 0
    yield D is None, where, "missing, and so is ansatz.D; must be an integer >= 1"
    why = f"a periodic_mps can neither be grown nor cut; keep D = {before}"
    yield D not in (None, before) and before and ansatz.kind == "periodic_mps", where, why, D
    why = (
        f"smaller than {before}, that of the stage before, and a state that shares tensors is not cut; take "
        "ansatz.sharing = false, or cut it in a run of its own (ansatz.init)"
    )
    stages = settings.stage or ()
    shares = bool(ansatz.sharing) or any(each.edge is not None for each in (ansatz, *stages))
    yield D is not None and D < before and shares, where, why, D


def set_by_every_stage(tables: Any, section: str, key: str) -> str | None:
    """Say that changing a key of a section is in vain where all [[stage]] tables have their own."""
    if not isinstance(tables, list) or SECTION_OF.get(key) != section:
        return None
    stages = [table for table in tables if isinstance(table, dict)]
    if section == "optimizer":
        stages = [table for table in stages if table.get("kind") != "simple_update"]
    if not stages or not all(key in table for table in stages):
        return None
    return f"every stage has its own {key}; change stage.{len(tables)}.{key}, or another stage's"
