"""One run from settings to result.json: what the command line does, callable from Python."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import numpy as np

from tnvmc._version import __version__
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.operators.term import Operator
from tnvmc.run.build import (
    build_ansatz,
    build_operator,
    build_sampler,
    build_vmc,
)
from tnvmc.run.checkpoint import write_atomically
from tnvmc.run.config import Settings
from tnvmc.run.interrupts import Terminated, uninterrupted
from tnvmc.run.load import load
from tnvmc.run.plots import energy_picture
from tnvmc.run.records import CHECKPOINT, CONFIG, PICTURE, FolderError, RunFolder, refuse_occupied
from tnvmc.run.screen import Screen, result_table, warnings
from tnvmc.run.start import initial_parameters
from tnvmc.run.state import Measurement, StepRecord, finite_or_none
from tnvmc.run.vmc import VMC

DIAGONALISED_AT_ONCE = 200_000
"""Largest sector whose ground state is computed for comparison: a few seconds."""

_SECONDS_BETWEEN_CHECKPOINTS = 60.0


@dataclass(frozen=True)
class Reference:
    """The energy a run is compared with; all None where none is known."""

    energy: float | None = None
    source: str | None = None
    method: str | None = None


class Interrupted(Exception):
    """A run that was stopped from outside, with its checkpoint written."""

    def __init__(self, step: int, folder: Path, exit_status: int) -> None:
        super().__init__(
            f"stopped after {step} steps, checkpoint written; "
            f"continue with: tnvmc run --resume {folder}"
        )
        self.exit_status = exit_status


class DiskError(Exception):
    """The disk refused a write: it is full, or not ours."""


def run_file(
    path: str | Path, out: str | Path | None = None, overrides: Sequence[str] = ()
) -> dict[str, Any]:
    """Run a TOML file as ``tnvmc run`` does, and give the content of result.json.

    Raises:
        ConfigError: settings that cannot run.
        FolderError: `out` holds a run already.
        DiskError: no space left; the last checkpoint is good.
        Interrupted: Ctrl-C or SIGTERM, with a checkpoint written.
    """
    return new_run(load(Path(path), _with_out(overrides, out)))


def new_run(settings: Settings) -> dict[str, Any]:
    """Start a run from completed settings; see `run_file`."""
    started = perf_counter()
    path = Path(settings.run.out or "")
    refuse_occupied(path)
    vmc, screen = _set_up(settings)
    try:
        folder = RunFolder.create(path, settings.as_dict())
    except OSError as error:
        raise DiskError(f"{path}: cannot be written ({error.strerror})") from None
    with folder:
        return _carry_on(vmc, settings, folder, screen, started)


def resume_run(
    path: str | Path, overrides: Sequence[str] = (), file: str | Path | None = None
) -> dict[str, Any]:
    """Go on with the run in a folder, with its own settings or those of another file.

    A finished run whose settings ask for nothing more gives its result again.

    Raises:
        CheckpointError: a damaged checkpoint, or one that does not fit the settings.
        FolderError: no run there, or another process is at it.
        ConfigError, DiskError, Interrupted: as `run_file`.
    """
    started = perf_counter()
    path = Path(path)
    if not (path / CONFIG).is_file():
        raise FolderError(f"{path}: holds no run to resume ({CONFIG} is missing)")
    settings = load(Path(file or path / CONFIG), _with_out(overrides, path))
    checkpoint = path / CHECKPOINT
    vmc, screen = _set_up(settings, blank=checkpoint.exists())
    if checkpoint.exists():
        vmc.restore(checkpoint)
        screen.say(f"going on after step {vmc.state.step}")
    with RunFolder.reopen(path, vmc.state.step) as folder:
        old = folder.read_result()
        if old is not None and _asks_the_same(old.get("config", {}), settings.as_dict()):
            if not (path / PICTURE).exists():
                _draw(folder, old)
            _show(screen, old, folder)
            return old
        folder.write_settings(settings.as_dict())
        return _carry_on(vmc, settings, folder, screen, started)


def _set_up(settings: Settings, blank: bool = False) -> tuple[VMC, Screen]:
    """Make the parts of a run; `blank` parameters are for a checkpoint to fill."""
    operator = build_operator(settings)
    ansatz = build_ansatz(settings, operator)
    sampler = build_sampler(settings, operator)
    screen = Screen(settings.optimizer.steps, operator.n_sites)
    screen.say(_headline(settings, operator, ansatz))
    if blank:
        theta = np.zeros(ansatz.n_params, np.dtype(settings.ansatz.dtype))
    else:
        theta = initial_parameters(ansatz, operator, settings.run.seed, settings.ansatz.init)
    return build_vmc(settings, operator, ansatz, sampler, theta), screen


def _with_out(overrides: Sequence[str], out: str | Path | None) -> list[str]:
    # A JSON string is a TOML string too, whatever quotes and backslashes the path holds.
    return [*overrides, *([f"run.out={json.dumps(str(out))}"] if out is not None else [])]


def _asks_the_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Compare settings but for those that have no influence on the result."""

    def relevant(config: dict[str, Any]) -> dict[str, Any]:
        return {**config, "run": config.get("run", {}).get("seed")}

    return relevant(one) == relevant(other)


class _Keeper:
    """Writes down what happens: every step to the history, now and then a checkpoint."""

    def __init__(self, vmc: VMC, folder: RunFolder, every: int) -> None:
        self._vmc, self._folder, self._every = vmc, folder, every
        self.saved_step: int | None = None
        self._saved_at = 0.0

    def step(self, record: StepRecord) -> None:
        self._folder.append(record)
        due = self._vmc.state.step % self._every == 0
        if due or monotonic() - self._saved_at > _SECONDS_BETWEEN_CHECKPOINTS:
            self.save()

    def save(self) -> None:
        self._folder.sync()
        self._vmc.save(self._folder.path / CHECKPOINT)
        self.saved_step, self._saved_at = self._vmc.state.step, monotonic()


def _carry_on(
    vmc: VMC, settings: Settings, folder: RunFolder, screen: Screen, started: float
) -> dict[str, Any]:
    """Optimise up to the last step, measure, write and show the result."""
    earlier = sum(line["seconds"] for line in folder.history())
    keeper = _Keeper(vmc, folder, settings.run.checkpoint_every)

    def on_step(record: StepRecord) -> None:
        keeper.step(record)
        screen.step(record)

    try:
        keeper.save()
        reference = find_reference(vmc.operator, settings.sampler.magnetisation)
        with screen.live(vmc.state.step, reference.energy):
            vmc.run(settings.optimizer.steps - vmc.state.step, on_step)
        keeper.save()
        screen.say("measuring")
        measured = vmc.measure(
            settings.measure.n_samples,
            settings.measure.chi,
            settings.measure.n_burn,
            settings.measure.n_thin,
        )
        result = _result(vmc, settings, measured, reference)
        result["wall_time_s"] = earlier + perf_counter() - started
        folder.write_result(result)
        _draw(folder, result)
    except KeyboardInterrupt as stop:
        with contextlib.suppress(KeyboardInterrupt), uninterrupted():  # a second Ctrl-C
            keeper.save()
        status = stop.exit_status if isinstance(stop, Terminated) else 128 + signal.SIGINT
        raise Interrupted(vmc.state.step, folder.path, status) from None
    except BrokenPipeError:  # nobody reads what is shown
        keeper.save()
        raise
    except OSError as error:
        raise DiskError(
            f"{folder.path}: cannot be written ({error.strerror or error}); "
            + (
                f"the checkpoint after {keeper.saved_step} steps is good: make room and continue "
                f"with: tnvmc run --resume {folder.path}"
                if keeper.saved_step is not None
                else "make room and start again"
            )
        ) from None
    _show(screen, result, folder)
    return result


def find_reference(operator: Operator, magnetisation: int = 0) -> Reference:
    """Find the exact energy: known, else by diagonalisation where that takes a few seconds.

    Published numbers that are not exact (QMC, other variational states) come last.
    """
    from tnvmc.exact import exact_ground_state
    from tnvmc.operators.basis import Basis
    from tnvmc.operators.reference import known_energy

    sector = magnetisation if operator.conserves_magnetisation else None
    known = known_energy(operator) if not sector else None
    if known is not None and known.method == "exact":
        return Reference(known.energy_total, known.source, known.method)
    if Basis(operator.n_sites, operator.local_dim, sector).dimension <= DIAGONALISED_AT_ONCE:
        # A comparison that fails (memory, convergence) is no reason to give up the run.
        with contextlib.suppress(ValueError, RuntimeError):
            exact = exact_ground_state(operator, "full" if sector is None else sector)
            return Reference(exact.energy, "diagonalisation", "exact")
    if known is not None:
        return Reference(known.energy_total, known.source, known.method)
    return Reference()


def _headline(settings: Settings, operator: Operator, ansatz: Ansatz) -> str:
    rows, columns = operator.lattice.shape
    size = f"{columns} sites" if rows == 1 else f"{rows} x {columns}"
    chosen = settings.ansatz
    state = " ".join([chosen.kind, *([f"D={chosen.D}"] if chosen.D else []), chosen.dtype])
    return (
        f"{operator.name}, {operator.lattice.kind} {size} {operator.lattice.boundary}; {state}, "
        f"{ansatz.n_params} parameters from {chosen.init}; {settings.optimizer.kind}, "
        f"{settings.optimizer.steps} steps"
    )


def _result(
    vmc: VMC, settings: Settings, measured: Measurement, reference: Reference
) -> dict[str, Any]:
    """Put together the content of result.json, all but the walltime."""
    n_sites, exact = measured.n_sites, reference.energy
    signed = error = None
    if exact:
        signed = (measured.energy - exact) / abs(exact)
        error = measured.energy_error / abs(exact)
    values = {
        **measured.as_dict(),
        "exact_energy": exact,
        "exact_energy_per_site": None if exact is None else exact / n_sites,
        "exact_source": reference.source,
        "exact_method": reference.method,
        "relative_error": None if signed is None else abs(signed),
        "relative_error_error": error,
        "signed_error": signed,
        "steps": vmc.state.step,
        "seed": settings.run.seed,
        "version": __version__,
        "config": settings.as_dict(),
    }
    return finite_or_none(values)


def _draw(folder: RunFolder, result: dict[str, Any]) -> None:
    energy, error = result["energy_per_site"], result["energy_per_site_error"]
    settings = result["config"]
    picture = energy_picture(
        folder.history(),
        result["n_sites"],
        title=f"{settings['hamiltonian']['model']}, {settings['ansatz']['kind']}, "
        f"{result['n_sites']} sites, {result['n_parameters']} parameters",
        units=result["units"],
        exact_per_site=result["exact_energy_per_site"],
        exact_label=result["exact_method"] or "exact",
        measured=None if energy is None else (energy, error or 0.0),
    )
    write_atomically(folder.path / PICTURE, picture)


def _show(screen: Screen, result: dict[str, Any], folder: RunFolder) -> None:
    screen.console.print(result_table(result))
    for text in [*([result["note"]] if result["note"] else []), *warnings(result)]:
        screen.say(f"note: {text}")
    screen.say(f"written to {folder.path}")
