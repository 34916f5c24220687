"""What a run is: its settings in words, its reference energy and its stages, for every report."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from tnvmc.ansatz.neural import NETWORKS
from tnvmc.operators.fermions import sector_text as named_sector
from tnvmc.operators.reference import known_energy
from tnvmc.operators.term import Operator
from tnvmc.report.numbers import per_site
from tnvmc.settings.config import Settings, build_operator
from tnvmc.settings.model_settings import COUPLINGS, PerBond
from tnvmc.shown import quoted, short, told_of, with_error
from tnvmc.storage.run_files import Damage, Json, Run, is_current, is_outdated, steps_done
from tnvmc.trust.finished_run import of_last_stage

# Keys of [ansatz] that are no part of a network.
_NO_PART = {"kind", "D", "dtype", "init", "symmetrise", "characters", "folder"}

STATUSES = ("error", "warning", "open", "good")
"""Of diagnostics, the worst first."""

_NUMBERS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "n_parameters": ("parameters", str),
    "n_samples": ("samples", str),
    "v_score": ("V-score", "{:.2e}".format),
    "tau": ("tau (draws)", "{:.2f}".format),
    "r_hat": ("R-hat", "{:.4f}".format),
    "acceptance": ("acceptance", "{:.3f}".format),
    "closure_spread": ("closure spread", short),
}
"""How numbers in result.json are called and written."""

DRAWS = ("tau", "r_hat", "acceptance", "closure_spread")
"""Those that tell how the samples were drawn."""


def measured_numbers(result: Json, keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield names and values of numbers in result.json; what is not known is left out."""
    worth, drawn = result.get("effective_samples"), result.get("n_samples") or 0
    kinds = result.get("acceptance_by_move") or {}
    by_move = ", ".join(f"{kind.replace('_', ' ')} {share:.3f}" for kind, share in kinds.items())
    more = {
        "n_parameters": parameters_text(result),
        "acceptance": f" ({by_move})" if len(kinds) > 1 else "",
        "n_samples": f" (worth {worth:.0f})" if worth and worth < 0.999 * drawn else "",
    }
    for key in keys:
        if result.get(key) is not None:
            name, written = _NUMBERS[key]
            yield name, written(result[key]) + more.get(key, "")


def parameters_text(result: Json) -> str:
    """Say how many parameters are independent, and how many there were if no tensors were shared.

    What is not known is left out: " (199 independent, 3528 without sharing)".
    """
    numbers = {
        "independent": result.get("n_independent"),
        "without sharing": (result.get("sharing") or {}).get("n_unshared"),
    }
    told = ", ".join(f"{number} {what}" for what, number in numbers.items() if number is not None)
    return told and f" ({told})"


def sector_text(held: Json) -> str:
    """Name the sector of a result or observables, "2 Sz = 0"; "" where none is conserved."""
    return named_sector(held.get("magnetisation"), held.get("particles"))


def facts(run: Run, counted: Json | None = None) -> dict[str, str]:
    """Write the settings of a run in words; what they say nothing about is absent.

    `counted` is "sharing" of a result, for a run that has none yet.  Keys: "model" ("j1j2, J1 = 1,
    J2 = 0.5"), "lattice", "state" ("peps, D = 4, float64"), "network", "contraction", "sampling"
    (what is out of the ordinary in it), "sector", "orthogonal" and "optimizer".
    """
    ansatz, optimizer, sampler = map(run.section, ("ansatz", "optimizer", "sampler"))
    result, kind = run.result or {}, ansatz.get("kind")
    found: dict[str, list[Any]] = {"model": _model(run), "lattice": _lattice(run)}
    if kind:
        D, shares = ansatz.get("D"), symmetries_text(ansatz, result.get("sharing") or counted)
        found["state"] = [kind, D and f"D = {D}", ansatz.get("dtype"), shares]
    if kind in (*NETWORKS, "flax", "own"):
        parts = {key: value for key, value in ansatz.items() if key not in _NO_PART}
        found["network"] = [
            f"{key} = {' '.join('true' if x is True else str(x) for x in np.ravel(value).tolist())}"
            for key, value in parts.items()
            if value not in (None, False, [], {})
        ]
    if kind == "peps" and (scheme := run.setting("contraction", "scheme")):
        found["contraction"] = [scheme, _chi(run)]
    found["sampling"] = sampling_parts(sampler)
    found["sector"] = [sector_text(sampler)]
    found["orthogonal"] = [
        f"to {name}" + (f": squared overlap {with_error(o['squared'], o['error'])}" if o else "")
        for name, o in zip_longest(orthogonal_to(run.config), result.get("overlaps") or ())
        if name is not None
    ]
    if rule := optimizer.get("kind"):
        rate = optimizer.get("learning_rate")
        rate = None if rate is None else f"learning rate {rate}"
        found["optimizer"] = [rule, rate, _samples(run, sampler.get("n_samples"))]
    texts = {name: ", ".join(part for part in parts if part) for name, parts in found.items()}
    return {name: text for name, text in texts.items() if text}


def _range(values: list[Any]) -> str:
    """Write the least and the largest of numbers: "128 to 1024", or the one there is."""
    return " to ".join(map(str, sorted({min(values), max(values)})))


def _samples(run: Run, given: Any) -> str | None:
    """Write how many samples a step has, which may have grown."""
    if run.setting("sampler", "kind") == "enumerate":
        return "all configurations a step"
    if given == "auto":
        drawn = [line["n_samples"] for line in run.history if line.get("n_samples")]
        given = drawn and _range(drawn)
    return f"{given} samples a step" if given else None


def _chi(run: Run) -> str | None:
    chi = run.setting("contraction", "chi")
    measured = (run.result or {}).get("chi") or run.setting("measure", "chi")
    at_end = f" (measured at {measured})" if measured and measured != chi else ""
    if chi == "auto":
        grown = [line["chi"] for line in of_last_stage(run.history) if line.get("chi")]
        chi = _range(grown) if grown else chi
    return chi and f"chi = {chi}{at_end}"


def orthogonal_to(config: Json) -> list[str]:
    """Name the runs whose states a run is kept orthogonal to, by its settings."""
    return [str(each["run"]) for each in config.get("orthogonal") or ()]


def symmetries_text(ansatz: Json, counted: Json | None = None) -> str:
    """Name what a state is summed over or shares, "symmetrised over spin (spin inversion -1)".

    By how many symmetries tensors are shared stands in `counted`, "sharing" of result.json.
    """
    told = []
    if ansatz.get("sharing") or counted:
        number = f"{counted['symmetries']} " if counted else ""
        bulk = {**ansatz, **(counted or {})}
        edge, period = bulk.get("edge"), bulk.get("period") or 1
        text = f"{'hidden units' if 'alpha' in ansatz else 'tensors'} shared by {number}symmetries"
        if edge is not None:
            several = f", period {period}" if period > 1 else ""
            text += f" and in the bulk (edge {edge}{several})"
        told.append(text)
    if names := ansatz.get("symmetrise"):
        odd = [name for name, chi in (ansatz.get("characters") or {}).items() if chi == -1]
        signs = f" ({', '.join(odd)} -1)" if odd else ""
        told.append(f"symmetrised over {', '.join(names)}{signs}")
    return ", ".join(told)


def _model(run: Run) -> list[str]:
    section = run.section("hamiltonian")
    own = run.section("python").get("own") or []
    if "hamiltonian" in own or "settings" in own:  # what else stands there are defaults
        return [f"{section.get('model', 'operator')} (an operator made in Python)"]
    if terms := section.get("term"):
        more = [f"and {len(terms) - _TOLD} more"] if len(terms) > _TOLD else []
        spin = [f"local_dim = {section['local_dim']}"] if section.get("local_dim", 2) != 2 else []
        return [str(section["model"]), *map(_term, terms[:_TOLD]), *more, *spin]
    couplings = [
        f"{name} {_each(name)}" if np.ndim(value) else f"{name} = {value:g}"
        for name, value in section.items()
        if name != "model"
    ]
    return [str(section["model"]), *couplings] if "model" in section else []


_TOLD = 4
"""Terms that are written out; of more the first ones."""


def _term(term: Json) -> str:
    """Write a term: "0.5 (Sx Sx + Sy Sy) on nearest", "bond by bond (Z Z) on 12 bonds"."""
    what, factor = "bond" if "bonds" in term else "site", term.get("coupling", 1.0)
    where = term.get("bonds", term.get("sites"))
    if where == "all":
        where = "all sites"
    elif isinstance(where, list):
        where = f"{len(where)} {what}{'s' * (len(where) > 1)}"
    factor = f"{what} by {what}" if np.ndim(factor) else f"{factor:g}"
    return f"{factor} ({term.get('ops')}) on {where}"


def _each(coupling: str) -> str:
    """Say what the numbers of a coupling that is a list belong to."""
    per_bond = coupling in COUPLINGS and COUPLINGS[coupling][0] is PerBond
    return "bond by bond" if per_bond else "site by site"


def _lattice(run: Run) -> list[str]:
    if run.shape is None:
        return []
    rows, columns = run.shape
    size = f"{columns} sites" if rows == 1 else f"{rows} x {columns} sites"
    if run.n_sites not in (None, rows * columns):
        size = f"{run.n_sites} sites on {rows} x {columns}"
    kind, boundary = (run.setting("lattice", key) for key in ("kind", "boundary"))
    if kind == "bonds":
        bonds = run.setting("lattice", "bonds") or []
        count = sum(map(len, bonds.values())) if isinstance(bonds, Mapping) else len(bonds)
        return [f"list of {count} bonds", size]
    return [kind or "square", size, boundary or "open"]


def sampling_parts(sampler: Json) -> list[str]:
    """Say what is out of the ordinary in [sampler]: another power."""
    power = sampler.get("power") or 1
    return [] if power in (1, "auto") else [f"steps drawn from |psi|^{2 * power:g}"]


def damage_text(damage: Damage) -> str:
    """Write what is wrong with a file."""
    return told_of("damage", damage.code, vars(damage))


def outdated_text(run: Run) -> str | None:
    """Say so where the observables are not those of the state whose energy stands beside them."""
    if run.observables is None or not is_outdated(run):
        return None
    return (
        f"The observables are those after {run.observables['step']} steps, the run has made "
        f"{steps_done(run)} or restores other symmetries; again with: tnvmc measure "
        f"{quoted(run.path)}"
    )


def _operator(run: Run) -> Operator | None:
    try:
        return build_operator(Settings.model_validate(run.config))
    except ValueError:  # the settings are damaged, or of another version
        return None


def units_of(run: Run) -> str:
    """Give the units of the energies, as "S.S"; empty where no file tells."""
    operator = None if run.units else _operator(run)
    return run.units or ("" if operator is None else operator.units)


def reference(run: Run) -> tuple[float | None, str, float]:
    """Look up the energy per site to compare with, how it was found, and its error."""
    if run.result is not None:
        exact, method = run.result.get("exact_energy_per_site"), run.result.get("exact_method")
        error = (run.result.get("exact_error") or 0.0) / int(run.result["n_sites"])
        return exact, str(method or "exact"), error
    other = run.setting("sampler", "magnetisation") or run.config.get("orthogonal")
    other = other or -1 in (run.setting("ansatz", "characters") or {}).values()
    operator = None if other or run.setting("optimizer", "kind") == "time" else _operator(run)
    known = None if operator is None else known_energy(operator)
    if operator is None or known is None:
        return None, "exact", 0.0
    error = 0.0 if known.method == "exact" else (known.error or 0.0) / operator.n_sites
    return known.energy_total / operator.n_sites, known.method, error


def energy_per_site(run: Run) -> tuple[float, float, str] | None:
    """Energy per site, its error (nan: unknown) and from where: the measurement, or a step."""
    if run.result is not None and run.result["energy_per_site"] is not None:
        error, steps = run.result["energy_per_site_error"], run.result.get("steps")
        where = "measured at the end" if is_current(run) else f"measured after {steps} steps"
        return float(run.result["energy_per_site"]), math.nan if error is None else error, where
    lines = [line for line in run.history if line.get("energy") is not None]
    if not lines or run.n_sites is None:
        return None
    last, error = lines[-1], lines[-1].get("energy_error")
    error = math.nan if error is None else error / run.n_sites
    return last["energy"] / run.n_sites, error, f"at step {last['step'] + 1}"


def stages_of(run: Run) -> Sequence[Json]:
    """Give the records of the stages that are done: from result.json, else the checkpoint."""
    return (run.result or {}).get("stages") or run.stages


def stage_line(record: Json, n_sites: int | None) -> str:
    """Say how a stage ended, from its record in result.json."""
    numbers = "energy not finite"
    if n_sites and (energy := per_site(record, n_sites)):
        numbers = f"E/N {energy}, var/N {record['variance'] / n_sites:.2g}"
    return told_of("lines", "stage", {"lost_weight": None, **record, "numbers": numbers})
