"""What a run is: its settings in words, its reference energy and its stages, for every report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from tnvmc.ansatz.neural import NETWORKS
from tnvmc.operators.reference import known_energy
from tnvmc.operators.term import Operator
from tnvmc.settings.config import Settings, build_operator
from tnvmc.settings.model_settings import COUPLINGS, PerBond
from tnvmc.shown import short, with_error
from tnvmc.storage.run_files import Damage, Json, Run, is_current, is_outdated, steps_done
from tnvmc.storage.run_folder import CHECKPOINT, CONFIG, HISTORY
from tnvmc.trust.finished_run import of_last_stage

_NO_PART = (
    "kind",
    "D",
    "dtype",
    "init",
    "symmetrise",
    "characters",
)  # of [ansatz]: no part of a network


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
    for key in keys:
        if result.get(key) is not None:
            name, written = _NUMBERS[key]
            yield name, written(result[key]) + _MORE.get(key, lambda result: "")(result)


def parameters_text(result: Json) -> str:
    """Say how many of the parameters are independent of each other, and how many there were if no
    tensors were shared.

    What is not known is left out: " (199 independent, 3528 without sharing)".
    """
    numbers = {
        "independent": result.get("n_independent"),
        "without sharing": (result.get("sharing") or {}).get("n_unshared"),
    }
    told = ", ".join(f"{number} {what}" for what, number in numbers.items() if number is not None)
    return told and f" ({told})"


def _by_move(result: Json) -> str:
    """Write the acceptance of each kind of move, where there are several."""
    kinds = result.get("acceptance_by_move") or {}
    each = ", ".join(f"{kind.replace('_', ' ')} {share:.3f}" for kind, share in kinds.items())
    return f" ({each})" if len(kinds) > 1 else ""


_MORE: Mapping[str, Callable[[Json], str]] = {
    "n_parameters": parameters_text,
    "acceptance": _by_move,
}
"""What is written behind a number."""


def sector_text(held: Json) -> str:
    """Name the sector of a result or observables, "2 Sz = 0"; "" where Sz is not conserved."""
    sector = held.get("magnetisation")
    return "" if sector is None else f"2 Sz = {sector}"


def facts(run: Run, counted: Json | None = None) -> dict[str, str]:
    """Write the settings of a run in words; what they say nothing about is absent.

    Args:
        run: what its folder holds.
        counted: "sharing" of a result, for a run that has none yet.

    Returns:
        "model" ("j1j2, J1 = 1, J2 = 0.5"), "lattice" ("square, 6 x 6 sites, open"), "state" ("peps,
        D = 4, float64"), "network" (what a network is made of: "heads = 4, layers = 2"),
        "contraction" ("src, chi = 8 (measured at 16)"), "sampling" (what is out of the ordinary in
        it), "sector" ("2 Sz = 0"), "orthogonal" ("to runs/ground: squared overlap 0.0010(13)") and
        "optimizer" ("sr, learning rate 0.1, 256 samples a step").
    """
    ansatz, optimizer, sampler = map(run.section, ("ansatz", "optimizer", "sampler"))
    D, rate, samples = ansatz.get("D"), optimizer.get("learning_rate"), sampler.get("n_samples")
    found: dict[str, list[Any]] = {"model": _model(run), "lattice": _lattice(run)}
    if kind := ansatz.get("kind"):
        found["state"] = [kind, D and f"D = {D}", ansatz.get("dtype")]
        found["state"].append(symmetries_text(ansatz, (run.result or {}).get("sharing") or counted))
    if kind in NETWORKS:
        parts = {key: value for key, value in ansatz.items() if key not in _NO_PART}
        known = {key: v for key, v in parts.items() if v not in (None, False, [])}
        found["network"] = [f"{key} = {_plainly(value)}" for key, value in known.items()]
    if kind == "peps":
        found["contraction"] = _contraction(run)
    found["sampling"] = sampling_parts(sampler)
    found["sector"] = [sector_text(sampler)]
    found["orthogonal"] = list(_orthogonal(run))
    if kind := optimizer.get("kind"):
        rate = None if rate is None else f"learning rate {rate}"
        found["optimizer"] = [kind, rate, _samples(run, samples)]
    texts = {name: ", ".join(part for part in parts if part) for name, parts in found.items()}
    return {name: text for name, text in texts.items() if text}


def _samples(run: Run, given: Any) -> str | None:
    """Write how many samples a step has: "256 samples a step", "128 to 1024 samples a step" where
    they grew.
    """
    if run.setting("sampler", "kind") == "enumerate":
        return "all configurations a step"
    if given != "auto":
        return given and f"{given} samples a step"
    drawn = [line["n_samples"] for line in run.history if line.get("n_samples")]
    if not drawn:
        return None
    return " to ".join(map(str, sorted({min(drawn), max(drawn)}))) + " samples a step"


def orthogonal_to(config: Json) -> list[str]:
    """Name the runs whose states a run is kept orthogonal to, by its settings; empty for the lowest
    state of a sector.
    """
    held = config.get("orthogonal")
    return [str(each.get("run")) for each in held or () if isinstance(each, Mapping)]


def _orthogonal(run: Run) -> Iterator[str]:
    """Name them, with the squared overlaps that were measured."""
    measured = (run.result or {}).get("overlaps") or ()
    for name, found in zip_longest(orthogonal_to(run.config), measured):
        if name is not None:
            told = found and f": squared overlap {with_error(found['squared'], found['error'])}"
            yield f"to {name}{told or ''}"


def symmetries_text(ansatz: Json, counted: Json | None = None) -> str:
    """Name what a state is summed over: "symmetrised over spin (spin inversion -1)", or shares;
    empty without.

    By how many symmetries tensors are shared stands in `counted`, "sharing" of result.json.
    """
    if ansatz.get("sharing") or counted:
        more = symmetries_text({**ansatz, "sharing": False})
        number = f"{counted['symmetries']} " if counted else ""
        return f"tensors shared by {number}symmetries{_bulk({**ansatz, **(counted or {})})}" + (
            more and f", {more}"
        )
    if not ansatz.get("symmetrise"):
        return ""
    odd = [name for name, chi in (ansatz.get("characters") or {}).items() if chi == -1]
    told = f" ({', '.join(odd)} -1)" if odd else ""
    return f"symmetrised over {', '.join(ansatz['symmetrise'])}{told}"


def _bulk(told: Json) -> str:
    """Say where tensors of the bulk are one: " and in the bulk (edge 3, period 2)"."""
    edge, period = told.get("edge"), told.get("period") or 1
    if edge is None:
        return ""
    return f" and in the bulk (edge {edge}{f', period {period}' if period > 1 else ''})"


def _model(run: Run) -> list[str]:
    section = run.section("hamiltonian")
    own = run.section("python").get("own") or []
    if "hamiltonian" in own or "settings" in own:  # what else stands there are defaults
        return [f"{section.get('model', 'operator')} (an operator made in Python)"]
    if isinstance(terms := section.get("term"), list):
        more = [f"and {len(terms) - _TOLD} more"] if len(terms) > _TOLD else []
        spin = [f"local_dim = {section['local_dim']}"] if section.get("local_dim", 2) != 2 else []
        return [str(section["model"]), *map(_term, terms[:_TOLD]), *more, *spin]
    couplings = [
        f"{name} = {value:g}" if isinstance(value, int | float) else f"{name} {_each(name)}"
        for name, value in section.items()
        if name != "model"
    ]
    return [str(section["model"]), *couplings] if "model" in section else []


_TOLD = 4
"""Terms that are written out; of more the first ones."""


def _term(term: Json) -> str:
    """Write a term: "0.5 (Sx Sx + Sy Sy) on nearest", "bond by bond (Z Z) on 12 bonds"."""
    where = term.get("bonds", term.get("sites"))
    what = "bond" if "bonds" in term else "site"
    factor, places = term.get("coupling", 1.0), f"on {where}"
    if isinstance(where, list):
        places = f"on {len(where)} {what}{'s' * (len(where) > 1)}"
    elif where == "all":
        places = "on all sites"
    factor = f"{what} by {what}" if isinstance(factor, list) else f"{factor:g}"
    return f"{factor} ({term.get('ops')}) {places}"


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


def _plainly(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _contraction(run: Run) -> list[str | None]:
    scheme, chi = run.setting("contraction", "scheme"), run.setting("contraction", "chi")
    measured = (run.result or {}).get("chi") or run.setting("measure", "chi")
    at_end = f" (measured at {measured})" if measured and measured != chi else ""
    if chi == "auto":
        grown = [line["chi"] for line in of_last_stage(run.history) if line.get("chi")]
        chi = " to ".join(map(str, sorted({min(grown), max(grown)}))) if grown else chi
    return [scheme, chi and f"chi = {chi}{at_end}"] if scheme else []


def sampling_parts(sampler: Json) -> list[str]:
    """Say what is out of the ordinary in [sampler]: another power."""
    power = sampler.get("power") or 1
    return [] if power in (1, "auto") else [f"steps drawn from |psi|^{2 * power:g}"]


def damage_text(damage: Damage) -> str:
    """Write what is wrong with a file."""
    name, detail = damage.file, damage.detail
    stops = ": the run cannot go on" if name == CHECKPOINT else ""
    rest = f"; {damage.lost} more lines are left out" if damage.lost else ", the last one"
    unused = "put the right one back; it is left out here"
    texts = {
        "missing": f"{name} is missing{stops}",
        "unreadable": f"{name} cannot be read ({detail})",
        "bad_line": f"{name} is damaged at line {damage.line}{rest}",
        "other_run": f"{name} is of another run than {detail} ({unused})",
        "other_model": f"{name} is of another lattice or Hamiltonian than {CONFIG} ({unused})",
        "other_steps": f"{name} was written after other steps than those of {HISTORY}, by a copy "
        f"of this run or before an older checkpoint was put back ({unused})",
        "ahead": f"{name} is of {detail} steps, of which {HISTORY} does not tell all",
    }
    return texts.get(damage.code, f"{name} is damaged: {detail or 'no text'}")


def outdated_text(run: Run) -> str | None:
    """Say so where the observables are those of an earlier step than the run has reached."""
    if run.observables is None or not is_outdated(run):
        return None
    return (
        f"The observables are those after {run.observables['step']} steps, the run has made "
        f"{steps_done(run)}; measure again with: tnvmc measure {run.path}"
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
    """Give the energy per site to compare with, how it was found, and its error; looked up, never
    computed.
    """
    if run.result is not None:
        exact, method = run.result.get("exact_energy_per_site"), run.result.get("exact_method")
        error = (run.result.get("exact_error") or 0.0) / int(run.result["n_sites"])
        return exact, str(method or "exact"), error
    operator = None if run.setting("sampler", "magnetisation") else _operator(run)
    known = None if operator is None else known_energy(operator)
    if operator is None or known is None:
        return None, "exact", 0.0
    error = 0.0 if known.method == "exact" else (known.error or 0.0) / operator.n_sites
    return known.energy_total / operator.n_sites, known.method, error


def energy_per_site(run: Run) -> tuple[float, float, str] | None:
    """Energy per site, its error and where it comes from: the measurement, else the last step."""
    if run.result is not None and run.result["energy_per_site"] is not None:
        error, steps = float(run.result["energy_per_site_error"] or 0.0), run.result.get("steps")
        where = "measured at the end" if is_current(run) else f"measured after {steps} steps"
        return float(run.result["energy_per_site"]), error, where
    lines = [line for line in run.history if line.get("energy") is not None]
    if not lines or run.n_sites is None:
        return None
    last, error = lines[-1], float(lines[-1].get("energy_error") or 0.0)
    return last["energy"] / run.n_sites, error / run.n_sites, f"at step {last['step'] + 1}"


def stages_of(run: Run) -> Sequence[Json]:
    """Give the records of the stages that are done: from result.json, else the checkpoint."""
    if run.result is not None and run.result.get("stages"):
        stages: Sequence[Json] = run.result["stages"]
        return stages
    return run.stages
