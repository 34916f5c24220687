"""Settings with every default that depends on others: of a file, of a folder, or of a dict."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from tnvmc.ansatz.initial import sharing_of_start, start_described
from tnvmc.ansatz.peps.sharing import Sharing
from tnvmc.ansatz.peps.starts.initial import AUTO
from tnvmc.ansatz.peps.symmetries import default_sharing, sharing
from tnvmc.contraction.schemes import default_chi
from tnvmc.limits import Section
from tnvmc.operators.symmetry import known_signs, symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.settings.config import DEFAULT_SAMPLES, Settings, default_dtype, measured_chi
from tnvmc.settings.load import read_toml, validate, with_out
from tnvmc.settings.problems import ConfigError, ConfigProblem, conflict
from tnvmc.settings.rules import hamiltonian, hamiltonian_problems
from tnvmc.settings.stages import MEASURED, as_run, default_stages, from_sections
from tnvmc.storage.run_files import in_place, only_in_python, own_parts
from tnvmc.storage.run_folder import CONFIG
from tnvmc.vmc.controllers import first_chi

NOISE = 0.01
"""On entries of new bonds that are zero, of the tensor's largest, where a stage sets none."""

FIXED_RATE = 0.1
"""Learning rate that falls to a given one, where none is set."""

MEMORY = 0.9
"""Decay of the average of the SR matrix where none is set; see docs/decisions."""


def load(path: Path, overrides: Sequence[str] = ()) -> Settings:
    """Read, check and complete the settings of a TOML file.

    Raises:
        ConfigError: with all problems that were found.
    """
    return complete(_one_run(validate(_of_one_run(path), overrides)), default_name=path.stem)


def load_in_place(folder: Path, overrides: Sequence[str] = ()) -> Settings:
    """Read, check and complete the settings of the run in a folder; raises as `load`."""
    data = in_place(_of_one_run(folder / CONFIG), folder)
    return complete(_one_run(validate(data, with_out(overrides, folder))))


def _one_run(settings: Settings) -> Settings:
    """Refuse settings that ask for several starts."""
    if (settings.run.starts or 1) > 1:
        why = "makes several runs; use tnvmc run FILE with its own folder, or tnvmc.series_file"
        raise ConfigError(conflict("run.starts", why, settings.run.starts))
    return settings


def _of_one_run(path: Path) -> dict[str, Any]:
    """Read a file, refusing that of several runs, or of one that only Python can make."""
    data = read_toml(path)
    several = "asks for several runs; use tnvmc run FILE, or tnvmc.series_file in Python"
    if isinstance(data.get("ansatz"), list):
        why = f"a comparison (it has [[ansatz]]); use tnvmc compare {path}"
    elif held := [name for name in ("sector", "scan", "average") if name in data]:
        why = f"{'[[sector]]' if held[0] == 'sector' else f'[{held[0]}]'} {several}"
    elif own := own_parts(data):
        why = only_in_python(path.parent, own)
    else:
        return data
    raise ConfigError(ConfigProblem(str(path), "file", why))


def complete(settings: Settings, default_name: str = "run") -> Settings:
    """Fill in every default that depends on other settings or on the machine.

    Raises:
        ConfigError: no D for an ansatz that needs one; a magnetisation that does not go with
            another, or with the Hamiltonian.
    """
    if problems := [*hamiltonian_problems(settings)]:
        raise ConfigError(*problems)
    settings, operator = _with_sharing(settings), hamiltonian(settings)
    if (stages := default_stages(settings, operator)) is not None:
        samples = {"n_samples": settings.measure.n_samples or MEASURED}
        settings = settings.model_copy(update={"stage": stages}).changed({"measure": samples})
    if settings.stage:
        settings = _with_stages(settings)
    ansatz, sampler, chi = settings.ansatz, settings.sampler, _chi(settings)
    for key, state in ansatz.single_states.items():
        if state.has_bonds and state.D is None:
            what = "the bond dimension, an integer >= 1"
            raise ConfigError(ConfigProblem(f"{key}.D", "missing", what))
    n_samples = DEFAULT_SAMPLES if sampler.n_samples == "auto" else sampler.n_samples
    sector = None
    spins = None if operator is None or operator.fermions else operator
    if spins is not None and spins.conserves_magnetisation and spins.replacements:
        sector = sampler.magnetisation or 0
    chains = settings.sampler_kind == "metropolis"
    defaults: dict[str, dict[str, Any]] = {
        "ansatz": _of_ansatz(settings, operator),
        "contraction": {"scheme": "src", "chi": chi} if ansatz.is_contracted else {},
        "sampler": {
            "kind": settings.sampler_kind, "magnetisation": sector,
            "power": "auto" if chains else 1.0,
        },
        "optimizer": _of_optimizer(settings.optimizer, settings.sampler_kind != "enumerate"),
        "measure": {
            "n_samples": 8 * n_samples, "chi": None if chi == "auto" else measured_chi(chi),
        },
        # threads stay unset: a run that is resumed elsewhere has other cores
        "run": {"out": os.path.join("runs", default_name)},
    }  # fmt: skip
    return settings.changed(
        {name: _unset(getattr(settings, name), keys) for name, keys in defaults.items()}
    )


def _with_sharing(settings: Settings) -> Settings:
    """Decide whether a PEPS shares tensors, where nothing is said of it."""
    state, stages = settings.ansatz, settings.stage or ()
    if not state.has_bonds or state.sharing is False:
        return settings
    sizes = [each.D or state.D or 1 for each in stages or (state,)]
    if any(each.edge is not None for each in (state, *stages)):
        return settings.changed({"ansatz": {"sharing": True}})
    named, before = state.init != AUTO, None
    if named:
        before = sharing_of_start(state.init, sizes[0])
    shares, bulk = state.sharing, {}
    if shares is None:
        shares = (before is not None or not named) and _shares(settings, sizes, before)
    if shares and before and before.edge:
        bulk = {"edge": before.edge, "period": before.period}
    return settings.changed({"ansatz": {"sharing": shares, **bulk}})


def _shares(settings: Settings, sizes: list[int], before: Sharing | None) -> bool:
    """Tell whether a PEPS shares its tensors by default (`default_sharing`), as nothing else is
    asked for.
    """
    state, operator = settings.ansatz, hamiltonian(settings)
    if sizes != sorted(sizes) or state.symmetrise or settings.orthogonal or state.kind != "peps":
        return False
    quenched = getattr(settings.optimizer, "product", None) is not None
    if quenched or operator is None or operator.fermions is not None:
        return False
    if before is None:
        return default_sharing(operator, max(state.D or 1, *sizes), state.bonds) is not None
    try:
        return before.goes_on_as(sharing(operator, bonds=state.bonds))
    except ValueError:  # no symmetry
        return False


def _unset(section: Section, defaults: dict[str, Any]) -> dict[str, Any]:
    """Keep the defaults of keys that a section leaves out."""
    inner = getattr(section, "factors", {})
    return {k: v for k, v in defaults.items() if k in inner or getattr(section, k, 0) is None}


def _of_ansatz(settings: Settings, operator: Operator | None) -> dict[str, Any]:
    """Give the defaults of [ansatz], for a product with the tables of both states."""
    ansatz = settings.ansatz
    if ansatz.is_own:
        return {}
    if ansatz.is_network:
        return _of_network(settings, operator)
    values: dict[str, Any] = {} if operator is None else {"dtype": default_dtype(operator)}
    dtype = ansatz.dtype or values.get("dtype")
    for key, state in ansatz.factors.items():
        alone = _of_module(state, False, state.is_autoregressive)
        own = {} if state.is_own else _unset(state, alone if state.is_network else {"dtype": dtype})
        own |= {"init": "simple_update"} if state.init == AUTO else {}  # nothing is tried of a part
        values[key] = state.model_copy(update=own)
    return values


def _of_network(settings: Settings, operator: Operator | None) -> dict[str, Any]:
    """Give signs, phase and sharing of a network: those of its start, or of the ground state."""
    state = settings.ansatz
    before = (start_described(state.init) or {}).get("architecture") or {}
    marshall, exact = (False, False) if operator is None else known_signs(operator)
    exact &= state.marshall in (None, marshall) and settings.optimizer.kind != "time"
    exact &= not (settings.orthogonal or state.symmetrise)
    alone = exact and not state.average
    values = _of_module(state, marshall, exact, _shared_units(operator) if alone else 0.0)
    return {key: before.get(key, value) for key, value in values.items()}


def _of_module(state: Any, marshall: bool, positive: bool, units: float = 0.0) -> dict[str, Any]:
    shares = units > 0 if getattr(state, "sharing", None) is None else state.sharing
    output, dtype = ("real", "float64") if positive else ("complex", "complex128")
    alone = {"marshall": marshall, "output": output, "dtype": dtype}
    return {**alone, "sharing": shares, "alpha": (shares and units) or 2.0}


def _shared_units(operator: Any) -> float:
    """Hidden units per site that share weights, for a thousand parameters; 0 where none do."""
    with contextlib.suppress(ValueError):
        if 1 < len(symmetry_group(operator, ("point", "translation"))) <= operator.n_sites:
            return 4.0 if operator.n_sites <= 36 else 2.0
    return 0.0


def _chi(settings: Settings) -> int | Literal["auto"] | None:
    """Give the chi of a state, None where it is contracted without one."""
    state, contraction = settings.ansatz.leading, settings.contraction
    if contraction.chi or state.kind != "peps" or contraction.scheme == "exact":
        return contraction.chi
    most = default_chi(state.D or 1)
    grows = first_chi(state.D or 1) < most and settings.sampler_kind != "enumerate"
    grows = grows and settings.optimizer.kind != "time"
    return "auto" if grows else most


def _of_optimizer(optimizer: Any, draws: bool) -> dict[str, Any]:
    """Give the defaults of [optimizer]: a rate that follows, or one that falls."""
    if optimizer.kind == "time":
        return {}
    falls = optimizer.final_learning_rate is not None
    values: dict[str, Any] = {"learning_rate": FIXED_RATE if falls else "auto"}
    if optimizer.kind == "sr":
        values["memory"] = MEMORY if draws and not optimizer.momentum else 0.0
    return values


def _with_stages(settings: Settings) -> Settings:
    """Write out every stage, and put the last one into the other sections."""
    stages: list[Any] = []
    plain = settings.model_copy(update={"stage": None})
    for stage in settings.stage or ():
        filled = stage.model_copy(update=_unset(stage, from_sections(plain, stage)))
        run = complete(as_run(plain, filled))
        own = from_sections(run, filled)
        own["plateau"] = own["plateau"] or 0
        grows = bool(stages) and (run.ansatz.D or 0) > (stages[-1].D or 0)
        own |= {"noise": NOISE} if grows else {}
        stages.append(filled.model_copy(update=_unset(filled, own)))
    last = as_run(settings.model_copy(update={"stage": tuple(stages)}), stages[-1])
    rates = ("learning_rate", "final_learning_rate")
    return last.changed({"optimizer": {key: getattr(settings.optimizer, key) for key in rates}})
