"""From one settings file to the settings of several runs: names, budgets and problems."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.ansatz.neural import NETWORKS
from tnvmc.ansatz.peps.starts.initial import AUTO
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.backend.device import namespace_of
from tnvmc.backend.process import available_cores
from tnvmc.limits import Json
from tnvmc.operators.symmetry import has_ground_state
from tnvmc.operators.term import Operator
from tnvmc.sampling.configurations import sector_of
from tnvmc.series.kind import SeriesKind
from tnvmc.settings.build import build_ansatz, build_sampler, build_theta
from tnvmc.settings.config import Budget, SamplerSettings, Settings
from tnvmc.settings.load import parse
from tnvmc.settings.problems import ConfigError, ConfigProblem, conflict
from tnvmc.settings.rules import check_symmetries
from tnvmc.storage.run_files import Run, as_array

_NAME = re.compile(r"\w[\w .,=+()-]*")
_CONTRACTED = (None, "peps", "mps")
"""Kinds of which amplitudes are contracted; the one of a block that names none is a PEPS."""


def named(section: str, names: Sequence[Any], label: str) -> list[str]:
    """Check the names of the tables of a section, which are those of folders.

    `label` is what a name should be, with an example.  Raises `ConfigError` for names that are
    missing, cannot be folders, or stand twice.
    """
    problems, taken = [], set()
    for number, name in enumerate(names, 1):
        where = f"{section}.{number}.name"
        if name is None:
            problems.append(ConfigProblem(where, "missing", label))
        elif not isinstance(name, str) or not _NAME.fullmatch(name) or name.lower() == "pictures":
            text = f"{label}; this cannot be a folder"
            problems.append(ConfigProblem(where, "not_allowed", text, name))
        elif name.lower() in taken:
            problems.append(conflict(where, "taken by a block before", name))
        else:
            taken.add(name.lower())
    if problems:
        raise ConfigError(*problems)
    return list(names)


def completed(
    kind: SeriesKind, names: Iterable[str], make: Callable[[str], Settings]
) -> dict[str, Settings]:
    """Make the settings of every run; `ConfigError` tells all problems, with the names of runs."""
    runs: dict[str, Settings] = {}
    problems: list[ConfigProblem] = []
    for name in names:
        try:
            runs[name] = make(name)
        except ConfigError as error:
            problems += [of_run(kind, name, problem) for problem in error.problems]
        except ValueError as error:
            problems.append(of_run(kind, name, conflict("", str(error))))
    if problems:
        raise ConfigError(*problems)
    return runs


def of_run(kind: SeriesKind, name: str, problem: ConfigProblem) -> ConfigProblem:
    """Give a problem of one run with its name, and the key as it stands in the file."""
    key = problem.key
    for long, short in kind.own_keys.items():
        if key == long or (long.endswith(".") and key.startswith(long)):
            key = short + key.removeprefix(long)
    return replace(problem, key=f"{kind.run} '{name}'" + (f": {key}" if key else ""))


def given(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Give the keys that are set."""
    return {key: value for key, value in keys.items() if value is not None}


def out_of(settings: Settings, default_name: str) -> Path:
    """Give the folder of all runs."""
    return Path(settings.run.out or Path("runs") / default_name)


def later_seed(settings: Settings, by: int) -> int:
    """Give a seed that is larger by a number, within the limit of seeds."""
    return (settings.run.seed + by) % 2**63


def check_parts(settings: Settings, operator: Operator, with_start: bool = True) -> Ansatz:
    """Build all that a run is made of, and give its wave function.

    The start is left out where it takes its time (simple update, which fits a PEPS or an MPS), and
    where it is not there yet (not `with_start`).  Raises `ValueError` where parts do not fit.
    """
    namespace_of(settings.run.device)
    ansatz = build_ansatz(settings, operator)
    build_sampler(settings, operator)
    check_symmetries(settings, operator)
    if with_start and settings.ansatz.leading.init not in (AUTO, "simple_update"):
        build_theta(settings, operator, ansatz)
    return ansatz


def ansatz_blocks(blocks: Any) -> dict[str, dict[str, Any]]:
    """Give what stands in each block besides its name."""
    if not isinstance(blocks, list) or not blocks or not all(isinstance(b, dict) for b in blocks):
        text = "several tables, each headed [[ansatz]], with a name"
        raise ConfigError(ConfigProblem("ansatz", "missing", text))
    names = named("ansatz", [b.get("name") for b in blocks], 'a label such as "PEPS D=4"')
    own = [{key: value for key, value in block.items() if key != "name"} for block in blocks]
    return dict(zip(names, own, strict=True))


def sections_of(shared: Json, block: Json, measured: Json) -> dict[str, Any]:
    """Put a block and what it shares with the others into the sections of one run."""
    sections = {n: dict(part) if isinstance(part, Mapping) else part for n, part in shared.items()}
    measure = sections.setdefault("measure", {})
    measure.update(measured)
    if _kinds(block)[0] not in _CONTRACTED:  # what is shared of contractions is not for them
        sections.pop("contraction", None)
        measure.pop("chi", None)
    own = dict(block)
    inline: dict[str, Any] = {key: own.pop(key) for key in ("sampler", "optimizer") if key in own}
    inline["contraction"] = {key: own.pop(key) for key in ("chi", "scheme") if key in own}
    for name, part in inline.items():
        if not isinstance(part, dict):
            text = f"a table, as {name} = {{kind = ...}}"
            raise ConfigError(ConfigProblem(name, "not_allowed", text, part))
        sections.setdefault(name, {}).update(part)
    return {**sections, "ansatz": own}


def check_threads(threads: int | None, budget: Budget, blocks: Mapping[str, Json]) -> None:
    """Refuse what would hold back tensor networks alone: JAX takes all cores."""
    kinds = {kind for block in blocks.values() for kind in _kinds(block)}
    networks = not kinds.isdisjoint({*NETWORKS, "flax"})
    cores = available_cores()
    if budget.seconds is not None and networks and threads is not None and threads < cores:
        text = f"the networks would use all {cores} cores within the same seconds; remove it"
        raise ConfigError(conflict("run.threads", text, threads))


def _kinds(block: Json) -> list[Any]:
    """Give the kind of a block; of a product those of its states, the contracted one first."""
    tables = [block.get(key) for key in ("first", "second")]
    return [each.get("kind") for each in tables if isinstance(each, dict)] or [block.get("kind")]


def check_alike(settings: Settings, operator: Operator, n_samples: int, sector: int | None) -> None:
    """Build all that a run is made of, and refuse another sector, level or number of samples."""
    own = settings.sampler.magnetisation
    if sector is not None and (own or 0) != sector:
        text = f"the others are in the sector {sector}; set it for all, in [sampler]"
        raise ConfigError(conflict("sampler.magnetisation", text, own))
    ansatz = check_parts(settings, operator)
    if ansatz.group:
        proven = has_ground_state(operator, ansatz.group, own or 0)
        positive = all(each.character == 1 for each in ansatz.group.elements)
        if not (positive if proven is None else proven):
            text = "a comparison is one of ground states, which have others; run it by itself"
            raise ConfigError(conflict("ansatz.characters", text, settings.ansatz.characters))
    drawn = measured_samples(settings, operator)
    if drawn != n_samples and settings.sampler.kind == "metropolis":
        text = (
            f"it would be measured with {drawn} samples, the others with {n_samples}; take "
            "walkers that divide them"
        )
        raise ConfigError(conflict("sampler.n_walkers", text, settings.sampler.n_walkers))


MOST_STEPS = 100_000
"""Where the budget is a time and the file does not limit the steps."""


def budget_of(section: Any) -> Budget:
    """Check the content of [compare]: one number of one of the two units, and `seeds`."""
    given = section if isinstance(section, dict) else {}
    units = set(given) - {"seeds"}
    if len(units) != 1 or not units <= {"steps", "seconds"}:
        held = ", ".join(given) or "nothing"
        text = f"must hold the budget of each ansatz, one of steps, seconds; it holds {held}"
        raise ConfigError(conflict("[compare]", text))
    return parse(Budget, given, "compare")


def by_seed(names: Iterable[str], common: Settings, n: int) -> dict[str, dict[str, int]]:
    """Give the names of the runs of each state, with their seeds; the first has its own name."""
    later = [later_seed(common, k) for k in range(n)]
    runs = {
        name: {name if not k else f"{name}, seed={seed}": seed for k, seed in enumerate(later)}
        for name in names
    }
    named("ansatz", [name for each in runs.values() for name in each], "a name of its own")
    return runs


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
    return settings.changed({"optimizer": limits})


def samples_per_step(sampler: SamplerSettings) -> int:
    """Give the samples that a step of the optimisation really draws; 0 for an enumeration."""
    if sampler.kind == "enumerate":
        return 0
    assert sampler.n_samples != "auto"
    return _drawn(sampler.n_samples, sampler)


def measured_samples(settings: Settings, operator: Operator) -> int:
    """Give the samples that the final measurement of completed settings really takes."""
    if settings.sampler.kind == "enumerate":
        return operator.states(sector_of(operator, settings.sampler.magnetisation)).dimension
    assert settings.measure.n_samples is not None
    return _drawn(settings.measure.n_samples, settings.sampler)


def _drawn(n_samples: int, sampler: SamplerSettings) -> int:
    walkers = sampler.n_walkers if sampler.kind == "metropolis" else 1
    return -(-n_samples // walkers) * walkers


INDEPENDENT = 0.5
"""Autocorrelation time of independent draws, and so the smallest there is."""


def seconds_per_effective_sample(run: Run, settings: Settings) -> float | None:
    """Give the median over the steps of what a sample costs that is worth an independent one.

    A step of M samples has M / (2 tau) of them, with the larger tau of the step's own and that of
    the final measurement, at least 1/2.  Samples with weights are worth less by their share of
    effective ones: that of the step, for direct draws that of the final measurement.  None under
    enumeration, or where no tau is known.
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
    """Give the autocorrelation time of the measurement in draws of a step, NaN where it has none:
    of correlations that fall as rho^t, so that tau = (1 + rho) / (2 (1 - rho))."""
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
