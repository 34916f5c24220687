"""What a measurement leaves in the folder of a run: result.json and energy.png."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tnvmc._version import __version__
from tnvmc.analysis.reference import Reference
from tnvmc.ansatz.peps.sharing import shared_counts
from tnvmc.operators.properties import energy_bound
from tnvmc.report.describe import orthogonal_to
from tnvmc.report.plots import energy_picture
from tnvmc.storage.files import write_atomically
from tnvmc.storage.run_files import Run
from tnvmc.storage.run_folder import PICTURE, RunFolder
from tnvmc.vmc.controllers import GrowingChi, GrowingSamples
from tnvmc.vmc.core import Made, State
from tnvmc.vmc.results import Measurement, finite_or_none


def result_of(
    vmc: Made, config: Mapping[str, Any], measured: Measurement, reference: Reference
) -> dict[str, Any]:
    """Put together the content of result.json, all but the stages, the chi scan and the walltime.

    `config` is what config.toml holds, by which the energy was measured.
    """
    n_sites, exact = measured.n_sites, reference.energy
    signed = error = None
    if exact:
        signed = (measured.energy - exact) / abs(exact)
        error = math.hypot(measured.energy_error, reference.error or 0.0) / abs(exact)
    values = {
        **measured.as_dict(),
        "sharing": shared_counts(vmc.ansatz),
        "energy_bound": energy_bound(vmc.operator),
        "exact_energy": exact,
        "exact_energy_per_site": None if exact is None else exact / n_sites,
        "exact_error": reference.error,
        "exact_source": reference.source,
        "exact_method": reference.method,
        "relative_error": None if signed is None else abs(signed),
        "relative_error_error": error,
        "signed_error": signed,
        "steps": vmc.state.step,
        "seed": vmc.method.problem.seed,
        "version": __version__,
        "config": dict(config),
    }
    return finite_or_none(values)


def growth_of_steps(state: State, history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Give, of what grows in a run or has grown, each step from which it had another value, and
    that value.
    """
    told = {found["code"] for line in history for found in line.get("diagnostics") or ()}
    kinds = (
        ("samples_of_steps", "n_samples", GrowingSamples, "samples_grown"),
        ("chi_of_steps", "chi", GrowingChi, "chi_grown"),
    )
    return {
        name: _changes(history, key)
        for name, key, kind, code in kinds
        if state.controller(kind) is not None or code in told
    }


def _changes(history: Sequence[Mapping[str, Any]], key: str) -> list[dict[str, int]]:
    found: list[dict[str, int]] = []
    for line in history:
        value = line.get(key)
        if value is not None and (not found or found[-1][key] != value):
            found.append({"step": line["step"], key: value})
    return found


def draw_energy(folder: RunFolder, result: Mapping[str, Any]) -> None:
    """Write energy.png."""
    settings = result["config"]
    title = (
        f"{settings['hamiltonian']['model']}, {settings['ansatz']['kind']}, "
        f"{result['n_sites']} sites, {result['n_parameters']} parameters"
    )
    if others := orthogonal_to(settings):
        title += f", orthogonal to {', '.join(Path(each).name for each in others)}"
    picture = energy_picture(Run(folder.path, settings, tuple(folder.history()), result), title)
    write_atomically(folder.path / PICTURE, picture)
