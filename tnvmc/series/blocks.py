"""The ``[[ansatz]]`` of a comparison, and the settings of a run from each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tnvmc.ansatz.neural import NETWORKS
from tnvmc.backend.process import available_cores
from tnvmc.limits import Json
from tnvmc.operators.symmetry import has_ground_state
from tnvmc.operators.term import Operator
from tnvmc.series.budget import measured_samples
from tnvmc.series.expansion import check_parts, named
from tnvmc.settings.config import Budget, Settings
from tnvmc.settings.problems import ConfigError, ConfigProblem, conflict


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
    if _kinds(block)[0] in NETWORKS:  # what is shared of contractions is not for them
        sections.pop("contraction", None)
        measure.pop("chi", None)
    own = dict(block)
    inline: dict[str, Any] = {
        name: own.pop(name) for name in ("sampler", "optimizer") if name in own
    }
    inline["contraction"] = {key: own.pop(key) for key in ("chi", "scheme") if key in own}
    for name, part in inline.items():
        if not isinstance(part, dict):
            text = f"a table, as {name} = {{kind = ...}}"
            raise ConfigError(ConfigProblem(name, "not_allowed", text, part))
        sections.setdefault(name, {}).update(part)
    return {**sections, "ansatz": own}


def check_threads(threads: int | None, budget: Budget, blocks: Mapping[str, Json]) -> None:
    """Refuse what would hold back tensor networks alone: JAX takes all cores."""
    networks = any(kind in NETWORKS for block in blocks.values() for kind in _kinds(block))
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
            text = (
                "a comparison is one of ground states, which have others; run this state by itself"
            )
            raise ConfigError(conflict("ansatz.characters", text, settings.ansatz.characters))
    drawn = measured_samples(settings, operator)
    if drawn != n_samples and settings.sampler.kind == "metropolis":
        text = (
            f"it would be measured with {drawn} samples, the others with {n_samples}; take "
            "walkers that divide them"
        )
        raise ConfigError(conflict("sampler.n_walkers", text, settings.sampler.n_walkers))
