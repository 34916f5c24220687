"""The settings of a comparison: one Hamiltonian, several [[ansatz]], one budget.

Every block becomes the completed settings of an ordinary run; what is wrong in any of them is told
before the first begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tnvmc.ansatz.neural import NETWORKS
from tnvmc.backend.process import available_cores
from tnvmc.limits import Json, Positive, PositiveNumber
from tnvmc.operators.basis import Basis
from tnvmc.operators.marshall import has_ground_state
from tnvmc.operators.symmetry import SymmetryGroup
from tnvmc.operators.term import Operator
from tnvmc.settings.build import build_operator
from tnvmc.settings.config import SamplerSettings, Settings
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import parse, validate, with_overrides
from tnvmc.settings.named_runs import check_parts, name_problem
from tnvmc.settings.problems import ConfigError, ConfigProblem, conflict
from tnvmc.settings.section import Section

MOST_STEPS = 100_000
"""Where the budget is a time and the file does not limit the steps."""

_OWN_SECTIONS = ("sampler", "optimizer")
_OF_CONTRACTION = ("chi", "scheme")
_NOT_COMPARED = {"stage": "which has one budget for all", "sector": "which has one sector for all"}


class Budget(Section):
    """What each ansatz may use: one of the three."""

    steps: Positive | None = None
    samples: Positive | None = None
    seconds: PositiveNumber | None = None

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

    @property
    def excited(self) -> bool:
        """Whether all of them are kept orthogonal to other states."""
        return any(settings.orthogonal for settings in self.runs.values())


def comparison(
    data: Json, overrides: Sequence[str] = (), default_name: str = "comparison"
) -> Comparison:
    """Check the content of a file, with ``--set`` overrides, and complete the settings of its runs.

    Raises:
        ConfigError: one line for each problem of any block, with the name of the block.
    """
    merged = with_overrides(data, overrides)
    if "sector" in merged:
        raise ConfigError(
            conflict("[[sector]]", "this file has several sectors, which tnvmc run makes")
        )
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
    problems: list[ConfigProblem] = []
    for name, block in blocks.items():
        try:
            own = _as_run(shared, block, common, n_samples, out / name)
            runs[name] = complete(_within(own, budget))
            _check(runs[name], common, n_samples, operator)
        except ConfigError as error:
            problems += [_of_block(name, problem) for problem in error.problems]
        except ValueError as error:
            problems.append(_of_block(name, conflict("", str(error))))
    if problems:
        raise ConfigError(*problems)
    return Comparison(
        merged, out, budget, runs, operator, n_samples,
        tuple(common.measure.symmetrise), common.sampler.magnetisation or 0,
    )  # fmt: skip


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


def _blocks(blocks: Any) -> dict[str, dict[str, Any]]:
    """Give what stands in each block beside its name."""
    if not isinstance(blocks, list) or not blocks or not all(isinstance(b, dict) for b in blocks):
        told = "several tables, each headed [[ansatz]], with a name"
        raise ConfigError(ConfigProblem("ansatz", "missing", told))
    named: dict[str, dict[str, Any]] = {}
    problems, label = [], 'a label such as "PEPS D=4"'
    for number, block in enumerate(blocks, 1):
        name, where = block.get("name"), f"ansatz.{number}.name"
        if name is None:
            problems.append(ConfigProblem(where, "missing", label))
        elif (problem := name_problem(where, name, named, label)) is not None:
            problems.append(problem)
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
    known, given = Budget.model_fields, section if isinstance(section, dict) else {}
    if len(given) != 1 or not set(given) <= set(known):
        held = ", ".join(given) or "nothing"
        told = f"must hold the budget of each ansatz, one of {', '.join(known)}; it holds {held}"
        raise ConfigError(conflict("[compare]", told))
    return parse(Budget, given, "compare")


def _common(shared: Json) -> Settings:
    """Check what all blocks share, by a state that goes with any of it."""
    for section, why in _NOT_COMPARED.items():
        if section in shared:
            raise ConfigError(conflict(f"[[{section}]]", f"does not go with a comparison, {why}"))
    common = validate({**shared, "ansatz": {"kind": "peps", "D": 1}})
    if (common.run.starts or 1) > 1:
        why = "does not go with a comparison, which has one run of each state"
        raise ConfigError(conflict("run.starts", why, common.run.starts))
    return common


def _check_threads(threads: int | None, budget: Budget, blocks: Mapping[str, Json]) -> None:
    """Refuse what would hold back tensor networks alone: JAX takes all cores."""
    networks = any(kind in NETWORKS for block in blocks.values() for kind in _kinds(block))
    cores = available_cores()
    if budget.seconds is not None and networks and threads is not None and threads < cores:
        told = f"the networks would use all {cores} cores within the same seconds; remove it"
        raise ConfigError(conflict("run.threads", told, threads))


def _kinds(block: Json) -> list[Any]:
    """The kind of a block, of a product those of its states; the first is contracted, if any is."""
    tables = [block.get(key) for key in ("first", "second")]
    return [each.get("kind") for each in tables if isinstance(each, dict)] or [block.get("kind")]


def _of_block(name: str, problem: ConfigProblem) -> ConfigProblem:
    key = problem.key.removeprefix("ansatz.").removeprefix("contraction.")
    return replace(problem, key=f"ansatz '{name}'" + (f": {key}" if key else ""))


def _as_run(shared: Json, block: Json, common: Settings, n_samples: int, out: Path) -> Settings:
    """Put a block and what it shares with the others into the settings of one run."""
    sections = {n: dict(part) if isinstance(part, Mapping) else part for n, part in shared.items()}
    measure = sections.setdefault("measure", {})
    measure |= {"n_samples": n_samples, "n_thin": common.measure.n_thin}
    if _kinds(block)[0] in NETWORKS:  # what is shared of contractions is not for them
        sections.pop("contraction", None)
        measure.pop("chi", None)
    own = dict(block)
    inline = {name: own.pop(name) for name in _OWN_SECTIONS if name in own}
    inline["contraction"] = {key: own.pop(key) for key in _OF_CONTRACTION if key in own}
    for name, part in inline.items():
        if not isinstance(part, dict):
            told = f"a table, as {name} = {{kind = ...}}"
            raise ConfigError(ConfigProblem(name, "not_allowed", told, part))
        sections.setdefault(name, {}).update(part)
    sections.setdefault("run", {})["out"] = str(out)
    return validate({**sections, "ansatz": own})


def _within(settings: Settings, budget: Budget) -> Settings:
    """Give settings whose optimisation ends with the budget."""
    optimizer = settings.optimizer
    if settings.sampler.n_samples == "auto":
        told = "a comparison gives each step of a state the same number of samples; give one"
        raise ConfigError(conflict("sampler.n_samples", told, "auto"))
    timed, given = budget.seconds is not None, optimizer.model_fields_set
    for key in ("seconds",) if timed else ("seconds", "steps"):
        if key in given:
            told = "the budget is that of [compare]; remove it"
            raise ConfigError(conflict(f"optimizer.{key}", told))
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
        told = f"draws no samples that compare.samples = {samples} could limit; take compare.steps"
        raise ConfigError(conflict("sampler.kind", told, "enumerate"))
    if samples < each:
        told = f"fewer than the {each} samples of a step"
        raise ConfigError(conflict("compare.samples", told, samples))
    return samples // each


def _of_ground_state(operator: Operator, group: SymmetryGroup, magnetisation: int) -> bool:
    """Whether a state may be the ground state by its characters; all +1 where nothing is proven."""
    proven = has_ground_state(operator, group, magnetisation)
    return all(g.character == 1 for g in group.elements) if proven is None else proven


def _check(settings: Settings, common: Settings, n_samples: int, operator: Operator) -> None:
    """Build all that a run is made of, but for the evolution of its start."""
    ours, theirs = settings.sampler.magnetisation, common.sampler.magnetisation
    if operator.conserves_magnetisation and ours != theirs:
        told = f"the others are in the sector {theirs}; set it for all, in [sampler]"
        raise ConfigError(conflict("sampler.magnetisation", told, ours))
    ansatz = check_parts(settings, operator)
    if ansatz.group and not _of_ground_state(operator, ansatz.group, ours or 0):
        told = "a comparison is one of ground states, which have others; run this state by itself"
        raise ConfigError(conflict("ansatz.characters", told, settings.ansatz.characters))
    found = measured_samples(settings, operator)
    if found != n_samples and settings.sampler.kind == "metropolis":
        told = (
            f"it would be measured with {found} samples, the others with {n_samples}; take walkers "
            "that divide them"
        )
        raise ConfigError(conflict("sampler.n_walkers", told, settings.sampler.n_walkers))
