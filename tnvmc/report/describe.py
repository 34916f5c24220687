"""What a run is: its settings in words, its reference energy and its stages, for every report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tnvmc.ansatz.neural import NETWORKS
from tnvmc.operators.reference import known_energy
from tnvmc.operators.term import Operator
from tnvmc.report.console import sampling_parts
from tnvmc.settings.build import build_operator
from tnvmc.settings.config import COUPLINGS, PerBond
from tnvmc.settings.load import validate
from tnvmc.storage.hdf5 import StateFileError, read_stages
from tnvmc.storage.run_files import Damage, Json, Run, is_outdated, steps_done
from tnvmc.storage.run_folder import CHECKPOINT

_NO_PART = ("kind", "D", "dtype", "init")  # of [ansatz]: no part of a network


def model_text(run: Run) -> str | None:
    """Write the model and its couplings, as "j1j2, J1 = 1, J2 = 0.5"."""
    section = run.config.get("hamiltonian")
    if not isinstance(section, Mapping) or "model" not in section:
        return None
    couplings = [
        f"{name} = {value:g}" if isinstance(value, int | float) else f"{name} {_each(name)}"
        for name, value in section.items()
        if name != "model"
    ]
    return ", ".join([str(section["model"]), *couplings])


def _each(coupling: str) -> str:
    """Say what the numbers of a coupling that is a list belong to."""
    per_bond = coupling in COUPLINGS and COUPLINGS[coupling][0] is PerBond
    return "bond by bond" if per_bond else "site by site"


def lattice_text(run: Run) -> str | None:
    """Write the lattice, as "square, 6 x 6 sites, open"."""
    if run.shape is None:
        return None
    rows, columns = run.shape
    size = f"{columns} sites" if rows == 1 else f"{rows} x {columns} sites"
    kind, boundary = (run.setting("lattice", key) for key in ("kind", "boundary"))
    return ", ".join([kind or "square", size, boundary or "open"])


def state_text(run: Run) -> str | None:
    """Write the state, as "peps, D = 4, float64"."""
    kind, D, dtype = (run.setting("ansatz", key) for key in ("kind", "D", "dtype"))
    return _listed(kind, D and f"D = {D}", dtype) if kind else None


def network_text(run: Run) -> str | None:
    """Write what a network is made of, as "heads = 4, layers = 2"; None for other states."""
    section = run.config.get("ansatz")
    if not isinstance(section, Mapping) or section.get("kind") not in NETWORKS:
        return None
    parts = {key: value for key, value in section.items() if key not in _NO_PART}
    return _listed(
        *(f"{key} = {_plainly(v)}" for key, v in parts.items() if v not in (None, False, []))
    )


def _plainly(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def contraction_text(run: Run) -> str | None:
    """Write how amplitudes are contracted, as "src, chi = 8 (measured at 16)"."""
    scheme, chi = run.setting("contraction", "scheme"), run.setting("contraction", "chi")
    if scheme is None or run.setting("ansatz", "kind") != "peps":
        return None
    measured = run.setting("measure", "chi")
    at_end = f" (measured at {measured})" if measured and measured != chi else ""
    return scheme if chi is None else f"{scheme}, chi = {chi}{at_end}"


def sampling_text(run: Run) -> str | None:
    """Write what is out of the ordinary in how configurations are drawn; None for nothing."""
    section = run.config.get("sampler")
    return _listed(*sampling_parts(section)) if isinstance(section, Mapping) else None


def optimizer_text(run: Run) -> str | None:
    """Write the optimizer, as "sr, learning rate 0.1, 256 samples a step"."""
    kind, rate = run.setting("optimizer", "kind"), run.setting("optimizer", "learning_rate")
    samples = run.setting("sampler", "n_samples")
    rate = None if rate is None else f"learning rate {rate}"
    return _listed(kind, rate, samples and f"{samples} samples a step") if kind else None


def _listed(*parts: str | None) -> str | None:
    return ", ".join(part for part in parts if part) or None


def damage_text(damage: Damage) -> str:
    """Write what is wrong with a file."""
    name, detail = damage.file, damage.detail
    if damage.code == "missing":
        return f"{name} is missing" + (": the run cannot go on" if name == CHECKPOINT else "")
    if damage.code == "unreadable":
        return f"{name} cannot be read ({detail})"
    if damage.code == "bad_line":
        rest = f"; {damage.lost} more lines are left out" if damage.lost else ", the last one"
        return f"{name} is damaged at line {damage.line}{rest}"
    return f"{name} is damaged: {detail or 'no text'}"


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
        return build_operator(validate(run.config))
    except ValueError:  # the settings are damaged, or of another version
        return None


def units_of(run: Run) -> str:
    """Give the units of the energies, as "S.S"; empty where no file tells."""
    operator = None if run.units else _operator(run)
    return run.units or ("" if operator is None else operator.units)


def reference(run: Run) -> tuple[float | None, str]:
    """Give the energy per site to compare with and how it was found; looked up, never computed."""
    if run.result is not None:
        exact = run.result.get("exact_energy_per_site")
        return exact, str(run.result.get("exact_method") or "exact")
    operator = None if run.setting("sampler", "magnetisation") else _operator(run)
    known = None if operator is None else known_energy(operator)
    if operator is None or known is None:
        return None, "exact"
    return known.energy_total / operator.n_sites, known.method


def energy_per_site(run: Run) -> tuple[float, float, str] | None:
    """Energy per site, its error and where it comes from: the measurement, else the last step."""
    if run.result is not None and run.result["energy_per_site"] is not None:
        error = float(run.result["energy_per_site_error"] or 0.0)
        return float(run.result["energy_per_site"]), error, "measured at the end"
    lines = [line for line in run.history if line.get("energy") is not None]
    if not lines or run.n_sites is None:
        return None
    last, error = lines[-1], float(lines[-1].get("energy_error") or 0.0)
    return last["energy"] / run.n_sites, error / run.n_sites, f"at step {last['step'] + 1}"


def stages_of(run: Run) -> Sequence[Json]:
    """Give the records of the stages that are done: from result.json, else the checkpoint."""
    if run.result is not None and run.result.get("stages"):
        return run.result["stages"]
    try:
        return read_stages(run.path / CHECKPOINT)
    except StateFileError:
        return []
