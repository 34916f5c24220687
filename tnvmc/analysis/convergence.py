"""Whether an energy is converged in chi, steps, samples and D: the numbers, and where they go."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from tnvmc.analysis.alarms import of_last_stage
from tnvmc.analysis.verdicts import verdicts, warnings
from tnvmc.ansatz.protocol import Ansatz, Snapshot, chi_of, with_chi
from tnvmc.app.stages import Course
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.estimate.line_fit import Line, converging_tail, fit_line
from tnvmc.estimate.local import local_energy
from tnvmc.estimate.reweighting import Remeasured, chi_points
from tnvmc.operators.term import Operator
from tnvmc.sampling.revisit import revisit
from tnvmc.settings.build import build_operator
from tnvmc.settings.load import load
from tnvmc.storage.checkpoint import name_of, read_stages
from tnvmc.storage.run_files import refuse_comparison
from tnvmc.storage.run_folder import (
    CHECKPOINT,
    CONFIG,
    RESULT,
    FolderError,
    RunFolder,
    check_run_folder,
)
from tnvmc.vmc.state import ChiLadder, finite_or_none

Array = Any

LADDER = (1.0, 1.5, 2.0)
"""Times the chi of the ansatz: the rungs where none are named."""

_EVERY = 4  # draws of a measurement: one in so many is measured at the other chi too
_FEWEST = 512  # samples of a ladder, where there are as many


def ladder_chis(ansatz: Ansatz) -> tuple[int, ...]:
    """Give 1, 1.5 and 2 times the chi of an ansatz; nothing where it has none."""
    chi = chi_of(ansatz)
    return () if chi is None else tuple(sorted({math.ceil(factor * chi) for factor in LADDER}))


def checked_chis(ansatz: Ansatz, chis: Sequence[int] | None) -> tuple[int, ...]:
    """Give the rungs that were asked for, in order; by default those of `ladder_chis`.

    Raises:
        ValueError: an ansatz that is contracted without chi; a chi below 1; fewer than two.
    """
    if chi_of(ansatz) is None:
        raise ValueError(
            f"converge: {name_of(ansatz)} is contracted without a boundary bond dimension "
            "here, so there is no chi to converge in"
        )
    found = tuple(sorted(set(chis or ladder_chis(ansatz))))
    if found[0] < 1 or len(found) < 2:
        raise ValueError(
            f"converge: chi = {', '.join(map(str, found))}: give two different values at least, "
            "all of them 1 or larger"
        )
    return found


def climb(
    operator: Operator,
    ansatz: Ansatz,
    theta: Array,
    snapshot: Snapshot,
    local: Array,
    chis: Sequence[int],
    *,
    n_walkers: int,
    threads: int | None = None,
    exact: bool = False,
    every: int | None = None,
) -> ChiLadder:
    """Measure the configurations of a snapshot again at other chi; see `estimate.reweighting`.

    Args:
        snapshot: (M,) samples of `ansatz` at its own chi, in draw-major order.
        local: (M,) their local energies; they are the rung of that chi.
        chis: the other rungs.
        exact: the samples are an enumeration.
        every: one in so many draws is taken; by default 4, or fewer to have 512 samples.

    Cost: one `start` and one measurement per sample taken and rung, no sweep.  With the defaults
    of a run (chi and 1.5 chi below a measurement at 2 chi) about a tenth of that measurement.
    """
    started = perf_counter()
    drawn_at = chi_of(ansatz)
    assert drawn_at is not None
    taken = _taken(snapshot, n_walkers, 1 if exact else every)
    xp = array_namespace(snapshot.configs)
    places = to_namespace(taken, xp)

    def pick(values: Array) -> Array:
        return xp.take(values, places, axis=0)

    configs, spread = pick(snapshot.configs), snapshot.closure_spread
    log_abs = pick(snapshot.amplitude.log_abs)
    looked = {
        drawn_at: Remeasured(pick(local), log_abs, None if spread is None else pick(spread)),
    }
    for chi in sorted({*chis} - {drawn_at}):
        other = revisit(with_chi(ansatz, chi), theta, configs, operator.targets, threads)
        looked[chi] = Remeasured(
            local_energy(operator, other), other.amplitude.log_abs, other.closure_spread
        )
    base = None if exact else _log_base(log_abs, snapshot.weight, taken)
    return ChiLadder(
        chi_points(looked, 1 if exact else n_walkers, base),
        drawn_at,
        len(taken),
        operator.n_sites,
        operator.units,
        perf_counter() - started,
    )


def _log_base(log_abs: Array, weight: Array | None, taken: np.ndarray) -> np.ndarray:
    """Logarithms that turn |psi_chi|^2 into weights of draws: -2 ln|psi|, and their own weights."""
    base = -2.0 * np.asarray(to_host(log_abs), dtype=np.float64)
    if weight is None:
        return base
    own = np.asarray(to_host(weight))[taken]
    seen = own > 0
    return np.where(seen, base + np.log(np.where(seen, own, 1.0)), -np.inf)


def _taken(snapshot: Snapshot, n_walkers: int, every: int | None) -> np.ndarray:
    """Places of one in `every` draws of all walkers, the last draw among them."""
    n_samples = int(snapshot.configs.shape[0])
    n_draws = n_samples // n_walkers
    if every is None:
        every = max(1, min(_EVERY, n_samples // _FEWEST))
    draws = np.arange((n_draws - 1) % every, n_draws, every)
    return (draws[:, None] * n_walkers + np.arange(n_walkers)[None, :]).ravel()


def converge_run(
    path: str | Path, chis: Sequence[int] = (), n_samples: int | None = None
) -> tuple[ChiLadder, dict[str, Any]]:
    """Measure a finished run again at several chi, as ``tnvmc converge`` does.

    The chi of its result is one of the rungs; `chis` are the others, by default 1, 1.5 and 2
    times that of the optimisation.  `n_samples` defaults to a quarter of its measurement.
    "convergence" in its result.json is replaced, nothing else; gives the ladder and what stands
    there now.

    Raises:
        FolderError: no finished run there, another process is at it, or it cannot be written.
        CheckpointError: a damaged checkpoint, or one that does not fit config.toml.
        ValueError: a state without chi; a chi or a number of samples below 1.
    """
    path = Path(path)
    _check_finished(path)
    settings = load(path / CONFIG, [f"run.out={json.dumps(str(path))}"])
    if n_samples is not None and n_samples < 1:
        raise ValueError(f"converge: n_samples is {n_samples}; it must be 1 or larger")
    operator = build_operator(settings)
    course = Course(settings, operator, read_stages(path / CHECKPOINT), blank=True)
    course.restore(path / CHECKPOINT)
    vmc, measure = course.vmc, settings.measure
    asked = {*(chis or ladder_chis(vmc.ansatz)), *([measure.chi] if measure.chi else [])}
    checked_chis(vmc.ansatz, tuple(asked))
    try:
        with RunFolder.reopen(path, sys.maxsize) as folder:
            result = folder.read_result()
            assert result is not None
            ladder = vmc.converge(
                tuple(asked),
                n_samples or max(1, (measure.n_samples or 0) // _EVERY),
                measure.n_burn,
                measure.n_thin,
                measure.symmetrise,
            )
            result["convergence"] = convergence(result, folder.history(), ladder)
            folder.write_result(result)
    except OSError as error:
        raise FolderError(f"{path}: cannot be written ({error.strerror or error})") from None
    return ladder, result["convergence"]


def _check_finished(path: Path) -> None:
    """Raise `FolderError` where no finished run is."""
    refuse_comparison(path)
    check_run_folder(path)
    if not (path / RESULT).is_file():
        raise FolderError(
            f"{path}: this run is not finished ({RESULT} is missing); "
            f"finish it with: tnvmc run --resume {path}"
        )
    try:
        json.loads((path / RESULT).read_text(encoding="utf-8"))["energy"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise FolderError(f"{path / RESULT}: damaged, or no result ({error})") from None


def convergence(
    result: Mapping[str, Any],
    history: Sequence[Mapping[str, Any]],
    ladder: ChiLadder | Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Put together result.json["convergence"]: numbers, verdicts and warnings, for strict JSON.

    Args:
        result: the rest of result.json.
        history: the lines of history.jsonl.
        ladder: energies at several chi, as measured or as they stand in a result.json.

    "variance" extrapolates the energy to zero variance, E = E0 + a Var, through the ends of the
    stages (those with a chi and D of their own, two at least), else through the tail of the
    optimisation (`converging_tail`).  It is an estimate and no bound.  "bond_dimension" goes
    linearly to 1/D = 0 through the last stage of each D.
    """
    chi = ladder.as_dicts() if isinstance(ladder, ChiLadder) else list(ladder or ())
    found: dict[str, Any] = {
        "chi": chi,
        "variance": _variance(result, history),
        "bond_dimension": _bond_dimension(result),
    }
    found = finite_or_none(found)
    return {
        **found,
        "verdicts": verdicts(result, good_lines(history), found),
        "warnings": warnings(result, found, history),
    }


def _variance(
    result: Mapping[str, Any], history: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Extrapolate to zero variance."""
    points = [
        {"label": _label(stage), **_energies(stage)}
        for stage in _optimised(result)
        if _known(stage, "energy", "energy_error", "variance")
    ]
    if len({point["variance"] for point in points}) < 2:
        lines = good_lines(history)
        series = [[line[key] for line in lines] for key in ("energy", "energy_error", "variance")]
        points = [
            {"label": f"steps {lines[b.first]['step'] + 1} to {lines[b.last]['step'] + 1}",
             **_energies(asdict(b))}
            for b in converging_tail(*series)
        ]  # fmt: skip
    return _extrapolated(points, [point["variance"] for point in points])


def _label(stage: Mapping[str, Any]) -> str:
    return f"stage {stage['stage']}" + (f", D = {stage['D']}" if stage["D"] else "")


def _bond_dimension(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """Extrapolate to 1/D = 0 through the last stage of each D."""
    last = {
        stage["D"]: stage
        for stage in _optimised(result)
        if stage["D"] and _known(stage, "energy", "energy_error")
    }
    points = [
        {"D": D, "energy": last[D]["energy"], "energy_error": last[D]["energy_error"]}
        for D in sorted(last)
    ]
    return _extrapolated(points, [1 / point["D"] for point in points])


def _extrapolated(points: list[dict[str, Any]], x: list[float]) -> dict[str, Any] | None:
    if len(set(x)) < 2:
        return None
    line: Line = fit_line(x, [p["energy"] for p in points], [p["energy_error"] for p in points])
    return {
        "points": points,
        "energy": line.intercept,
        "energy_error": line.intercept_error,
        "slope": line.slope,
        "chi2_per_dof": line.chi2_per_dof,
    }


def _optimised(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Stages whose end is a minimum: not those of simple update."""
    return [stage for stage in result.get("stages") or () if stage["kind"] == "optimise"]


def good_lines(history: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Steps of the last stage that were not undone and whose energy is finite."""
    return [
        line
        for line in of_last_stage(history)
        if not line["undone"] and _known(line, "energy", "energy_error", "variance")
    ]


def _known(values: Mapping[str, Any], *keys: str) -> bool:
    return all(values.get(key) is not None for key in keys)


def _energies(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: values[key] for key in ("variance", "energy", "energy_error")}
