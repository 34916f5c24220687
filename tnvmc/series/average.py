"""Averages: one file from several seeds, with random couplings that each run has of its own.

The mean scatters by what differs between the runs, disorder and what was reached from the start,
and by the samples of each: the error over runs holds both.
"""

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.backend.random import uniforms
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.mixing import error_of_mean
from tnvmc.estimate.statistics import of_many
from tnvmc.limits import Json
from tnvmc.sampling import streams
from tnvmc.series import kind as base
from tnvmc.series.expansion import check_parts, completed, later_seed, out_of
from tnvmc.series.scan import ScanKind, ScanRow, changed, checked_observables, refuse_others
from tnvmc.settings.config import build_operator
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate
from tnvmc.settings.model_settings import n_places
from tnvmc.settings.problems import ConfigError, conflict
from tnvmc.storage.run_files import Run, relevant
from tnvmc.storage.run_folder import CONFIG
from tnvmc.trust.gaps import SIGNIFICANT


@dataclass(frozen=True, kw_only=True)
class MeanRow(ScanRow):
    """The mean over runs, its error that over runs; of the energy also what samples make of it."""

    sampling_error: float

    @property
    def off(self) -> float | None:
        """Energy less the exact mean of the same runs, in errors by samples alone."""
        known, error = self.exact_energy_per_site, self.sampling_error / self.n_sites
        return None if known is None or not error else (self.per_site[0] - known) / error


@dataclass(frozen=True, repr=False)
class AverageTable(base.SeriesTable):
    """Runs in the order of their seeds, and their mean; None of fewer than two."""

    mean: MeanRow | None = None

    @property
    def every_row(self) -> tuple[Any, ...]:
        """The runs, and their mean."""
        return (*self.rows, *([self.mean] if self.mean else []))

    def as_dict(self) -> dict[str, Any]:
        """Give the content of average.json."""
        return super().as_dict() | {
            "mean": None if self.mean is None else self.mean.as_dict(),
            "diagnostics": [found.as_dict() for found in self.diagnostics],
        }


class AverageKind(ScanKind):
    """One run for each seed, with its own random couplings as lists in its settings."""

    name, title, chained = "average", "an average", False

    def requested(self, data: Json) -> bool:
        return "average" in data

    def expand(self, data: Json, default_name: str) -> base.Series:
        """The runs have the seeds `run.seed`, `run.seed` + 1 and so on."""
        shared = validate(data)
        if (asked := shared.average) is None:
            raise ConfigError(conflict("[average]", "is missing"))
        plain = {name: part for name, part in data.items() if name != "average"}
        refuse_others(shared, "average")
        places = {f"hamiltonian.{key}": n_places(shared, key) for key in asked.random}
        out = out_of(shared, default_name)
        later = [later_seed(shared, k) for k in range(asked.runs)]
        seeds = {f"seed={seed}": seed for seed in later}

        def make(name: str) -> Any:
            own = plain
            for key, n in places.items():
                low, high = asked.random[key.removeprefix("hamiltonian.")]
                own = changed(own, key, (low + (high - low) * _of(seeds[name], key, n)).tolist())
            place = {"out": str(out / name), "seed": seeds[name]}
            return complete(validate(own).changed({"run": place}))

        runs = completed(self, seeds, make)
        operator = build_operator(first := next(iter(runs.values())))
        check_parts(first, operator)
        observables = checked_observables(asked.observables, operator, "average")
        details = ("run.seed", seeds, asked.random)
        return base.Series(self, data, out, runs, operator, details, observables)

    def refuse_changes(self, series: base.Series, before: Json) -> None:
        """Refuse to leave out runs that were made: the mean would go without them unsaid."""
        made = sorted(path.parent.name for path in series.out.glob(f"seed=*/{CONFIG}"))
        if lost := [name for name in made if name not in series.runs]:
            asked = series.data["average"]["runs"], next(iter(series.details[1].values()))
            raise ConfigError(
                f"{series.out}: holds {', '.join(lost)}, which average.runs = {asked[0]} from "
                f"run.seed = {asked[1]} on leaves out; more runs can be asked for, not fewer; "
                "choose another --out"
            )
        super().refuse_changes(series, before)

    def reason_against(self, series: base.Series, run: Run) -> Diagnostic | None:
        """Give also why a run is not one of this file."""
        if apart := base.unlike(run.config, series.runs[run.path.name].as_dict()):
            return Diagnostic("start_unlike", "error", {"settings": apart})
        return super().reason_against(series, run)

    def _fixed(self, run: Json) -> dict[str, Any]:
        """Give all that has an influence on the result: the runs are averaged."""
        return relevant(run)

    def table(self, series: base.Series, rows: Any, left_out: Any, known: Any) -> AverageTable:
        _, seeds, random = series.details
        about = base.about(series)
        for key in random:
            about["hamiltonian"].pop(key, None)
        if random:
            del about["fingerprint"]
        random = {key: list(ends) for key, ends in random.items()}
        about |= {"key": "run.seed", "values": list(seeds.values()), "random": random}
        mean = mean_of(rows) if len(rows) > 1 else None
        told = () if mean is None else tuple(_judged(rows, mean, len(seeds), bool(random)))
        return AverageTable(self, rows, left_out, about, told, mean)

    def headline(self, table: base.SeriesTable) -> str:
        drawn = [f"{k} from {a:g} to {b:g}" for k, (a, b) in table.about["random"].items()]
        text = f"random {', '.join(drawn)}; " if drawn else ""
        return f"{text}{len(table.about['values'])} runs, energies in {table.about['units']} units"


def _of(seed: int, key: str, n: int) -> np.ndarray:
    """Give the uniform numbers (n,) of one coupling, whatever else is random."""
    number = zlib.crc32(key.encode()) // 2
    found: np.ndarray = uniforms(seed, (streams.DISORDER, number), range(1), n)[0]
    return found


def mean_of(rows: Sequence[ScanRow]) -> MeanRow:
    """Average rows; what not all of them have (an exact energy, an observable) has no mean."""
    exact = [row.exact_energy_per_site for row in rows]
    methods = {row.exact_method for row in rows}
    names = [name for name in rows[0].observables if all(name in row.observables for row in rows)]
    energy, error = _over([row.energy for row in rows])
    seen = {name: [row.observables[name]["mean"] for row in rows] for name in names}
    return MeanRow(
        name="mean", value="mean", energy=energy, energy_error=error,
        variance=_over([row.variance for row in rows])[0],
        v_score=_over([row.v_score for row in rows])[0],
        steps=max(row.steps for row in rows), n_samples=sum(row.n_samples for row in rows),
        n_sites=rows[0].n_sites, units=rows[0].units,
        exact_energy_per_site=None if None in exact else _over(exact)[0],
        exact_method=methods.pop() if len(methods) == 1 else None,
        observables={
            name: dict(zip(("mean", "error"), _over(each), strict=True))
            for name, each in seen.items()
        },
        sampling_error=math.hypot(*(row.energy_error for row in rows)) / len(rows),
    )  # fmt: skip


def _over(values: Sequence[Any]) -> tuple[float, float]:
    """Give the mean of independent values, and its error, larger for few (`error_of_mean`)."""
    return float(np.mean(values)), float(error_of_mean(np.subtract(values, np.mean(values))))


def _judged(
    rows: Sequence[ScanRow], mean: MeanRow, asked: int, random: bool
) -> Iterator[Diagnostic]:
    """Yield the mean with both errors, and whether runs of one Hamiltonian scatter too much."""
    value, error = mean.per_site
    yield Diagnostic("averaged", "good", {
        "n_runs": len(rows), "mean": value, "error": error, "units": mean.units,
        "sampling_error": mean.sampling_error / mean.n_sites,
        "scatter": float(np.std([row.energy for row in rows], ddof=1)) / mean.n_sites,
    })  # fmt: skip
    if len(rows) < asked:
        yield Diagnostic("runs_missing", "warning", {"n_runs": len(rows), "asked": asked})
    sampled = [row for row in rows if row.energy_error]  # those of enumerated states are exact
    if random or not sampled:
        return
    off = [abs(row.energy - mean.energy) / row.energy_error for row in sampled]
    if max(off) > (limit := of_many(SIGNIFICANT, len(rows))):
        values = {"largest": max(off), "limit": limit, "name": sampled[off.index(max(off))].name}
        yield Diagnostic("runs_differ", "warning", values)
