"""A run that is written down while it is made: steps, checkpoints, result.json and energy.png."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, Protocol

from tnvmc._version import __version__
from tnvmc.ansatz.peps.sharing import shared_counts
from tnvmc.operators.properties import energy_bound
from tnvmc.report.describe import orthogonal_to
from tnvmc.report.plots import energy_picture
from tnvmc.storage.files import write_atomically
from tnvmc.storage.run_files import Run
from tnvmc.storage.run_folder import CHECKPOINT, MEASURED, PICTURE, RunFolder
from tnvmc.storage.seals import Provenance
from tnvmc.trust.chi_scan import default_chis, scan_chi
from tnvmc.trust.convergence import convergence
from tnvmc.trust.reference import Reference
from tnvmc.vmc import checkpoint
from tnvmc.vmc.controllers import GrowingChi, GrowingSamples
from tnvmc.vmc.core import Iterate, Made, State, controlled
from tnvmc.vmc.measurement import Measured
from tnvmc.vmc.results import Measurement, StepRecord, finite_or_none

EVERY = 10
"""Steps between checkpoints."""

_SECONDS_BETWEEN_CHECKPOINTS = 60.0

_TIMES_ITS_OWN = 30.0  # an averaged S may be a GiB, and take as long as a step


class Recorded(Protocol):
    """A run of which a `Recorder` keeps the files."""

    @property
    def vmc(self) -> Made:
        """What makes the present step."""

    def save(self, path: Path, provenance: Provenance | None = None) -> None:
        """Write a checkpoint, atomically."""

    def outcome(self, folder: Path, measured: Measured, provenance: Provenance) -> dict[str, Any]:
        """Write the measured parameters, and give what result.json says of how the run ended."""


class Recorder:
    """Keeps the files of a run.

    A checkpoint is written after `EVERY` steps, and every minute, or where one takes more than two
    seconds, after thirty times as long.
    """

    def __init__(self, run: Recorded, folder: RunFolder) -> None:
        self._run, self._folder = run, folder
        self.saved_step: int | None = None
        self._saved_at, self._took = 0.0, 0.0

    def step(self, record: StepRecord) -> None:
        """Append a step, and save where it is time."""
        self._folder.append(record.as_dict())
        due = self._run.vmc.state.step % EVERY == 0
        wait = max(_SECONDS_BETWEEN_CHECKPOINTS, _TIMES_ITS_OWN * self._took)
        if due or monotonic() - self._saved_at > wait:
            self.save()

    def save(self) -> None:
        """Write a checkpoint, once the history is on the disk."""
        began = monotonic()
        self._folder.sync()
        self._run.save(self._folder.path / CHECKPOINT, self._folder.provenance)
        self.saved_step, self._saved_at = self._run.vmc.state.step, monotonic()
        self._took = self._saved_at - began

    def finish(
        self,
        config: Mapping[str, Any],
        measured: Measured,
        scan: Sequence[Mapping[str, Any]],
        reference: Reference,
        since: float,
    ) -> dict[str, Any]:
        """Write result.json and energy.png, and give the content of the first.

        Args:
            config: what config.toml holds, by which the energy was measured.
            measured: the energy.
            scan: of `scanned`.
            reference: an energy to compare with.
            since: when the run would have begun, made in one go; by `perf_counter`.
        """
        vmc, folder = self._run.vmc, self._folder
        history = folder.history()
        found = result_of(vmc, config, measured.measurement, reference)
        found |= self._run.outcome(folder.path, measured, folder.provenance)
        found |= growth_of_steps(vmc.state, history)
        found["wall_time_s"] = perf_counter() - since
        found["convergence"] = convergence(found, history, scan)
        folder.write_result(found)
        draw_energy(folder, found)
        return found


def scanned(vmc: Made, measured: Measured) -> list[dict[str, Any]]:
    """Measure part of the samples at other chi, where the state has one."""
    chis = default_chis(controlled(vmc.method, vmc.state).problem.ansatz)
    return scan_chi(measured, chis, vmc.method.sampler.threads).as_dicts() if chis else []


def save_measured(vmc: Made, folder: Path, point: Iterate, provenance: Provenance | None) -> None:
    """Write measured.h5, where other parameters were measured than those of the checkpoint."""
    place = folder / MEASURED
    if point.theta is vmc.state.here.theta:
        place.unlink(missing_ok=True)  # of an earlier measurement
        return
    state = replace(vmc.state, here=point, good=None)
    checkpoint.save(place, state, checkpoint.identity(vmc.method), provenance=provenance)


def result_of(
    vmc: Made, config: Mapping[str, Any], measured: Measurement, reference: Reference
) -> dict[str, Any]:
    """Give what result.json says of an energy, measured by the settings `config`."""
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
    """Give the steps from which the numbers of samples and the chi that grow had other values."""
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
