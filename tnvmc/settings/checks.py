"""Settings that are allowed one by one, and not together."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tnvmc.ansatz.wrappers.mixed import SINGLE
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.settings.ansatz_settings import (
    AutoregressiveSettings,
    NetworkSettings,
    PEPSSettings,
    PeriodicMPSSettings,
)
from tnvmc.settings.build import build_operator
from tnvmc.settings.config import Settings
from tnvmc.settings.optimizer_settings import OptimiseStage, SRSettings, StageSettings
from tnvmc.settings.problems import ConfigError, ConfigProblem, conflict, named

DECAYING = ("exponential", "cosine")
_NOT_DECAYING = "goes with schedule 'exponential' or 'cosine' only"
_STAGE_KEYS = {"ansatz": ("D",), "contraction": ("chi",), "sampler": ("n_samples",)} | {
    "optimizer": tuple(OptimiseStage.model_fields)
}
"""Keys of sections that a stage may have for itself."""


def conflicts(settings: Settings) -> list[ConfigProblem]:
    """Find what does not go together, in one section or in two."""
    return [
        *_of_samplers(settings),
        *_of_contractions(settings),
        *_of_schedules(settings),
        *_of_stages(settings),
    ]


def _of_samplers(settings: Settings) -> Iterator[ConfigProblem]:
    """Find what needs chains, or sweeps that know another power or precision."""
    sampler, ansatz, kind = settings.sampler, settings.ansatz, settings.sampler_kind
    a_state, passes = named(ansatz.kind), ansatz.kind in ("peps", "mps")
    if kind == "direct" and not passes and not isinstance(ansatz, AutoregressiveSettings):
        why = f"{a_state} cannot be drawn from directly; take 'metropolis'"
        yield conflict("sampler.kind", why, kind)
    for key, usual in (("n_replicas", 1), ("power", 1), ("precision", None)):
        value, where = getattr(sampler, key), f"sampler.{key}"
        if value == usual:
            continue
        if kind != "metropolis":
            yield conflict(where, "goes with sampler.kind = 'metropolis' only", value)
        elif key != "precision" and passes:
            yield conflict(where, f"the sweeps of {a_state} sample |psi|^2 alone; take 1", value)
        elif key == "precision" and not passes and not isinstance(ansatz, NetworkSettings):
            yield conflict(where, f"{a_state} has no such sweeps; leave it out", value)
        elif key == "precision" and ansatz.dtype in SINGLE.values():
            yield conflict(where, f"ansatz.dtype = '{ansatz.dtype}' is so; leave it out", value)
    if sampler.n_replicas > 1 and sampler.power < 1:
        why = "goes with n_replicas = 1 only; replicas have their own"
        yield conflict("sampler.power", why, sampler.power)


def _of_contractions(settings: Settings) -> Iterator[ConfigProblem]:
    """Find settings of contractions, which a network does without."""
    if isinstance(settings.ansatz, NetworkSettings):
        given = [f"contraction.{key}" for key in settings.contraction.model_dump(exclude_none=True)]
        given += ["measure.chi"] if settings.measure.chi is not None else []
        stages = enumerate(settings.stage or (), 1)
        given += [f"stage.{number}.chi" for number, stage in stages if stage.chi is not None]
        for key in given:
            yield conflict(key, f"{named(settings.ansatz.kind)} is not contracted; leave it out")


def _of_schedules(settings: Settings) -> Iterator[ConfigProblem]:
    optimizer = settings.optimizer
    rates, schedule, stages = optimizer.learning_rate, optimizer.schedule, optimizer.stages
    if isinstance(rates, list):
        if schedule not in (None, "stages"):
            why = "a list of learning rates makes 'stages'"
            yield conflict("optimizer.schedule", why, schedule)
        elif stages is not None and len(stages) != len(rates):
            given = f"{len(stages)} lengths for {len(rates)} learning rates"
            yield conflict("optimizer.stages", f"{given}; give one for each")
    elif schedule == "stages" or stages is not None:
        yield conflict("optimizer.learning_rate", "stages need a list, one learning rate for each")
    elif optimizer.final_learning_rate is not None and schedule == "constant":
        yield conflict("optimizer.final_learning_rate", _NOT_DECAYING)


def _of_stages(settings: Settings) -> Iterator[ConfigProblem]:
    if settings.stage is None:
        return
    if not settings.stage:
        what = "one table or more, each headed [[stage]]"
        yield ConfigProblem("stage", "not_allowed", what, [])
        return
    yield from _with_other_sections(settings)
    before: int | None = None
    for number, stage in enumerate(settings.stage, 1):
        D = stage.D or settings.ansatz.D
        yield from _of_sizes(settings, number, stage.D, before)
        grows = before is not None and D is not None and D > before
        yield from _of_one_stage(settings, number, stage, grows)
        before = D or before


def _with_other_sections(settings: Settings) -> Iterator[ConfigProblem]:
    optimizer, ansatz = settings.optimizer, settings.ansatz
    if (
        isinstance(optimizer.learning_rate, list)
        or optimizer.stages
        or optimizer.schedule == "stages"
    ):
        why = "a list of them does not go with [[stage]]; give each stage its own learning_rate"
        yield conflict("optimizer.learning_rate", why)
    if optimizer.seconds is not None:
        yield conflict("optimizer.seconds", "does not go with [[stage]]; give each stage its steps")
    if settings.stage and settings.stage[0].kind == "simple_update":
        if "init" in ansatz.model_fields_set and ansatz.init != "simple_update":
            why = "the first stage starts from simple update; leave one of the two away"
            yield conflict("ansatz.init", why, ansatz.init)
        if ansatz.kind not in ("peps", "mps"):
            why = f"{named(ansatz.kind)} has no such start"
            yield conflict("stage.1.kind", why, "simple_update")


def _of_sizes(
    settings: Settings, number: int, own: int | None, before: int | None
) -> Iterator[ConfigProblem]:
    """Find a D that a stage cannot have after that of the stage before."""
    ansatz, where = settings.ansatz, f"stage.{number}.D"
    D = own or ansatz.D
    if not isinstance(ansatz, PEPSSettings):
        if own not in (None, 1) or own and isinstance(ansatz, NetworkSettings):
            state = "" if isinstance(ansatz, NetworkSettings) else " state"
            why = f"{named(ansatz.kind)}{state} has no bond dimension"
            yield conflict(where, why, own)
    elif D is None:
        yield conflict(where, "missing, and so is ansatz.D; must be an integer >= 1")
    elif before is not None and D < before:
        why = f"smaller than {before}, the D of stage {number - 1}; a state grows, it is not cut"
        yield conflict(where, why, D)
    elif before not in (None, D) and isinstance(ansatz, PeriodicMPSSettings):
        yield conflict(where, f"a periodic_mps cannot grow; keep D = {before}", D)


def _of_one_stage(
    settings: Settings, number: int, stage: StageSettings, grows: bool
) -> Iterator[ConfigProblem]:
    where = f"stage.{number}"
    if not isinstance(stage, OptimiseStage):
        if number > 1:
            yield conflict(f"{where}.kind", "only the first stage can be", stage.kind)
        return
    if stage.diag_shift is not None and not isinstance(settings.optimizer, SRSettings):
        yield conflict(f"{where}.diag_shift", "goes with optimizer.kind = 'sr' only")
    for key in ("evolve", "noise"):
        if not grows and getattr(stage, key) is not None:
            why = "goes with a D larger than that of the stage before only"
            yield conflict(f"{where}.{key}", why)
    schedule = stage.schedule or settings.optimizer.schedule or "cosine"
    if stage.final_learning_rate is not None and schedule not in DECAYING:
        yield conflict(f"{where}.final_learning_rate", _NOT_DECAYING)


def set_by_every_stage(tables: Any, section: str, key: str) -> str | None:
    """Say that changing a key of a section is in vain where all [[stage]] tables have their own."""
    if not isinstance(tables, list) or key not in _STAGE_KEYS.get(section, ()):
        return None
    stages = [table for table in tables if isinstance(table, dict)]
    if section == "optimizer":
        stages = [table for table in stages if table.get("kind") != "simple_update"]
    if not stages or not all(key in table for table in stages):
        return None
    return f"every stage has its own {key}; change stage.{len(tables)}.{key}, or another stage's"


def sector_problems(settings: Settings) -> Iterator[ConfigProblem]:
    """Find magnetisations of the network, the sampler and the average that clash; builds H."""
    ansatz, sampled = settings.ansatz, settings.sampler.magnetisation
    if not isinstance(ansatz, NetworkSettings):
        return
    own = ansatz.magnetisation if isinstance(ansatz, AutoregressiveSettings) else None
    own = None if own is False else own
    inverts = "spin" in ansatz.average
    if own is None and not (inverts and sampled):
        return
    if not conserves_magnetisation(settings):
        if own is not None:
            why = "this Hamiltonian does not conserve it; leave it out"
            yield conflict("ansatz.magnetisation", why, own)
        return
    if inverts and sampled:
        why = f"'spin' takes sampler.magnetisation = {sampled} to {-sampled}; leave it out"
        yield conflict("ansatz.average", why)
    if own not in (None, sampled):
        why = (
            f"psi would vanish where it is sampled, at sampler.magnetisation = {sampled}; give one "
            "of them"
        )
        yield conflict("ansatz.magnetisation", why, own)


def conserves_magnetisation(settings: Settings) -> bool:
    """Tell whether the Hamiltonian does, which is built for that."""
    # Couplings that do not fit the lattice are told when the run builds it.
    with contextlib.suppress(ValueError):
        return build_operator(settings).conserves_magnetisation
    return False


def check_symmetries(settings: Settings, operator: Operator, direct: bool = False) -> None:
    """Refuse what is to be measured where it cannot be symmetrised as the settings ask.

    `direct` says that samples are drawn directly whatever the settings say.

    Raises:
        ValueError: a symmetry that the Hamiltonian lacks.
        ConfigError: samples that a symmetrised state cannot have.
    """
    if not settings.measure.symmetrise:
        return
    symmetry_group(operator, settings.measure.symmetrise)
    drawn = "a symmetrised state cannot be drawn directly; "
    if settings.sampler.kind == "direct":
        why = f"{drawn}take sampler.kind = 'metropolis' (or 'enumerate')"
    elif direct:
        why = f"{drawn}leave out --direct"
    elif settings.sampler.n_replicas > 1:
        why = (
            "a symmetrised state is sampled without tempered chains; take "
            f"sampler.n_replicas = 1 (now {settings.sampler.n_replicas})"
        )
    else:
        return
    raise ConfigError(conflict("measure.symmetrise", why))
