"""The settings of a comparison: one Hamiltonian, several [[ansatz]], one budget.

Every block becomes the completed settings of an ordinary run; what is wrong in any of them is told
before the first begins.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tnvmc.ansatz.initial.parameters import initial_parameters
from tnvmc.ansatz.neural import NETWORKS
from tnvmc.backend.device import namespace_of
from tnvmc.operators.basis import Basis
from tnvmc.operators.term import Operator
from tnvmc.sampling.workers import available_cores
from tnvmc.settings.build import build_ansatz, build_operator, build_sampler
from tnvmc.settings.checks import check_symmetries
from tnvmc.settings.config import Number, Positive, SamplerSettings, Settings
from tnvmc.settings.load import ConfigError, apply_override, complete, validate

Json = Mapping[str, Any]

MOST_STEPS = 100_000
"""Where the budget is a time and the file does not limit the steps."""

_OWN_SECTIONS = ("sampler", "optimizer")
_OF_CONTRACTION = ("chi", "scheme")
_NAME = re.compile(r"\w[\w .,=+()-]*")  # it becomes a folder
_RESERVED = ("pictures",)


class Budget(BaseModel):
    """What each ansatz may use: one of the three."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)

    steps: Positive | None = None
    samples: Positive | None = None
    seconds: Annotated[Number, Field(gt=0)] | None = None

    def __str__(self) -> str:
        return next(f"{v:g} {k}" for k, v in self.model_dump(exclude_none=True).items())


@dataclass(frozen=True)
class Comparison:
    """A comparison whose runs can all be built."""

    data: Json  #: of the file, with what was set on the command line
    out: Path
    budget: Budget
    runs: Mapping[str, Settings]  #: completed, by the name of the ansatz
    operator: Operator
    n_samples: int  #: every state is measured with so many
    symmetrise: tuple[str, ...]
    magnetisation: int


def comparison(
    data: Json, overrides: Sequence[str] = (), default_name: str = "comparison"
) -> Comparison:
    """Check the content of a file, with ``--set`` overrides, and complete the settings of its runs.

    Raises:
        ConfigError: one line for each problem of any block, with the name of the block.
    """
    merged = copy.deepcopy(dict(data))
    for override in overrides:
        _apply(merged, override)
    shared = {name: part for name, part in merged.items() if name not in ("ansatz", "compare")}
    blocks = _blocks(merged.get("ansatz"))
    budget = budget_of(merged.get("compare"))
    common = _common(shared)
    _check_threads(common.run.threads, budget, blocks)
    out = Path(common.run.out or Path("runs") / default_name)
    operator = build_operator(common)
    common = complete(common)
    n_samples = measured_samples(common, operator)
    runs: dict[str, Settings] = {}
    problems: list[str] = []
    for name, block in blocks.items():
        try:
            own = _as_run(shared, block, common, n_samples, out / name)
            runs[name] = complete(_within(own, budget))
            _check(runs[name], common, n_samples, operator)
        except ConfigError as error:
            problems += [_of_block(name, line) for line in error.lines]
        except ValueError as error:
            problems.append(_of_block(name, str(error)))
    if problems:
        raise ConfigError(*problems)
    return Comparison(
        merged, out, budget, runs, operator, n_samples,
        tuple(common.measure.symmetrise), common.sampler.magnetisation,
    )  # fmt: skip


def samples_per_step(sampler: SamplerSettings) -> int:
    """Give the samples that a step of the optimisation really draws; 0 for an enumeration."""
    return 0 if sampler.kind == "enumerate" else _drawn(sampler.n_samples, sampler)


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


def _apply(data: dict[str, Any], override: str) -> None:
    """Change one setting: ``section.key``, or ``ansatz.2.key`` of the second block."""
    keys = [key.strip() for key in override.partition("=")[0].split(".")]
    if keys[0] != "ansatz":
        apply_override(data, override)
        return
    blocks = data.get("ansatz")
    number = keys[1] if len(keys) == 3 else ""
    if (
        not isinstance(blocks, list)
        or not number.isdecimal()
        or not 1 <= int(number) <= len(blocks)
    ):
        n_blocks = len(blocks) if isinstance(blocks, list) else 0
        raise ConfigError(
            f"--set {override}: must be ansatz.N.key=value with the number of a block, 1 to {n_blocks}"
        )
    wrapped = {"block": blocks[int(number) - 1]}
    apply_override(wrapped, f"block.{override.split('.', 2)[2]}")


def _blocks(blocks: Any) -> dict[str, dict[str, Any]]:
    """Give what stands in each block beside its name."""
    if not isinstance(blocks, list) or not blocks or not all(isinstance(b, dict) for b in blocks):
        raise ConfigError("ansatz: must be several tables, each headed [[ansatz]], with a name")
    named: dict[str, dict[str, Any]] = {}
    problems = []
    for number, block in enumerate(blocks, 1):
        name = block.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name.lower() in _RESERVED:
            told = "missing" if name is None else f"{name!r} cannot be a folder"
            problems.append(f'ansatz.{number}.name: {told}; must be a label such as "PEPS D=4"')
        elif name.lower() in map(str.lower, named):
            problems.append(f"ansatz.{number}.name = '{name}': taken by a block before")
        else:
            named[name] = {key: value for key, value in block.items() if key != "name"}
    if problems:
        raise ConfigError(*problems)
    return named


def budget_of(section: Any) -> Budget:
    """Check the content of [compare].

    Raises:
        ConfigError: not one number of one of the three units.
    """
    known = Budget.model_fields
    if not isinstance(section, dict) or len(section) != 1 or not set(section) <= set(known):
        held = ", ".join(section) if isinstance(section, dict) and section else "nothing"
        raise ConfigError(
            f"[compare]: must hold the budget of each ansatz, one of {', '.join(known)}; "
            f"it holds {held}"
        )
    try:
        return Budget.model_validate(section)
    except ValidationError:
        ((key, value),) = section.items()
        allowed = "a number > 0" if key == "seconds" else "an integer >= 1"
        raise ConfigError(f"compare.{key} = {value!r}: must be {allowed}") from None


def _common(shared: Json) -> Settings:
    """Check what all blocks share, by a state that goes with any of it."""
    if "stage" in shared:
        raise ConfigError("[[stage]]: does not go with a comparison, which has one budget for all")
    return validate({**shared, "ansatz": {"kind": "peps", "D": 1}})


def _check_threads(threads: int | None, budget: Budget, blocks: Mapping[str, Json]) -> None:
    """Refuse what would hold back tensor networks alone: JAX takes all cores."""
    networks = any(block.get("kind") in NETWORKS for block in blocks.values())
    cores = available_cores()
    if budget.seconds is not None and networks and threads is not None and threads < cores:
        raise ConfigError(
            f"run.threads = {threads}: the networks would use all {cores} cores within the same "
            "seconds; leave run.threads away"
        )


def _of_block(name: str, line: str) -> str:
    return f"ansatz '{name}': {line.removeprefix('ansatz.').removeprefix('contraction.')}"


def _as_run(shared: Json, block: Json, common: Settings, n_samples: int, out: Path) -> Settings:
    """Put a block and what it shares with the others into the settings of one run."""
    sections = {name: dict(part) for name, part in shared.items()}
    measure = sections.setdefault("measure", {})
    measure |= {"n_samples": n_samples, "n_thin": common.measure.n_thin}
    if block.get("kind") in NETWORKS:  # what is shared of contractions is not for them
        sections.pop("contraction", None)
        measure.pop("chi", None)
    own = dict(block)
    inline = {name: own.pop(name) for name in _OWN_SECTIONS if name in own}
    inline["contraction"] = {key: own.pop(key) for key in _OF_CONTRACTION if key in own}
    for name, part in inline.items():
        if not isinstance(part, dict):
            raise ConfigError(f"{name} = {part!r}: must be a table, as {name} = {{kind = ...}}")
        sections.setdefault(name, {}).update(part)
    sections.setdefault("run", {})["out"] = str(out)
    return validate({**sections, "ansatz": own})


def _within(settings: Settings, budget: Budget) -> Settings:
    """Give settings whose optimisation ends with the budget."""
    optimizer, given = settings.optimizer, settings.optimizer.model_fields_set
    if "seconds" in given:
        raise ConfigError("optimizer.seconds: the budget is that of [compare]; leave it away")
    if budget.seconds is not None:
        steps = optimizer.steps if "steps" in given else MOST_STEPS
        limits: dict[str, Any] = {"seconds": budget.seconds, "steps": steps}
    elif "steps" in given:
        raise ConfigError("optimizer.steps: the budget is that of [compare]; leave it away")
    else:
        sampler = complete(settings).sampler
        limits = {"steps": budget.steps or _steps_for(budget.samples or 0, sampler)}
    return settings.model_copy(update={"optimizer": optimizer.model_copy(update=limits)})


def _steps_for(samples: int, sampler: SamplerSettings) -> int:
    each = samples_per_step(sampler)
    if not each:
        raise ConfigError(
            f"sampler.kind = 'enumerate': draws no samples that compare.samples = {samples} could "
            "limit; take compare.steps"
        )
    if samples < each:
        raise ConfigError(f"compare.samples = {samples}: fewer than the {each} samples of a step")
    return samples // each


def _check(settings: Settings, common: Settings, n_samples: int, operator: Operator) -> None:
    """Build all that a run is made of, but for the evolution of its start."""
    ours, theirs = settings.sampler.magnetisation, common.sampler.magnetisation
    if operator.conserves_magnetisation and ours != theirs:
        raise ConfigError(
            f"sampler.magnetisation = {ours}: the others are in the sector {theirs}; set it for "
            "all, in [sampler]"
        )
    namespace_of(settings.run.device)
    ansatz = build_ansatz(settings, operator)
    build_sampler(settings, operator)
    check_symmetries(settings, operator)
    found = measured_samples(settings, operator)
    if found != n_samples and settings.sampler.kind == "metropolis":
        raise ConfigError(
            f"sampler.n_walkers = {settings.sampler.n_walkers}: it would be measured with {found} "
            f"samples, the others with {n_samples}; take walkers that divide them"
        )
    if settings.ansatz.init != "simple_update":  # which takes its time, and fits a PEPS or an MPS
        initial_parameters(ansatz, operator, settings.run.seed, settings.ansatz.init)
