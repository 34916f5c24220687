"""The energy at several chi on the same configurations: what truncation does, without noise."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Ansatz, Snapshot, chi_of, with_chi
from tnvmc.backend import progress
from tnvmc.backend.arguments import is_listed, whole
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.observables import local_energy
from tnvmc.estimate.statistics import effective_samples, estimate
from tnvmc.operators.fermions import sector_text
from tnvmc.sampling.configurations import magnetisation_of
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.sampling.workers import measure_configs
from tnvmc.shown import Shown, Table, drawn, fixed, signed, with_error
from tnvmc.storage.identity import kind_in
from tnvmc.trust.finished_run import agreement
from tnvmc.vmc.measurement import Measured
from tnvmc.vmc.results import finite_or_none

Array = Any

FACTORS = (1.0, 1.5, 2.0)
"""Times the chi of the ansatz: the points of a scan where none are named."""

ONE_IN = 4
"""Draws of a measurement: one in so many is measured at the other chi too."""

_FEWEST = 512  # samples of a scan, where there are as many


@dataclass(frozen=True, repr=False)
class ChiScan(Shown):
    """Energies at several chi on the same configurations, smallest chi first."""

    points: "tuple[ChiPoint, ...]"
    drawn_at: int  #: chi of the |psi|^2 that the configurations were drawn from
    n_samples: int
    n_sites: int
    units: str
    seconds: float  #: beyond the sampling
    diagnostics: tuple[Diagnostic, ...] = ()  #: of the state, and whether the two energies agree
    sector: str = ""  #: that was sampled, in words
    double_layer: Any = None  #: a `DoubleLayerScan`, energies without samples, where it was wanted

    def as_dicts(self) -> list[dict[str, Any]]:
        """Give one dict per chi, for strict JSON."""
        shared = {"drawn_at": self.drawn_at, "n_samples": self.n_samples}
        return [finite_or_none(asdict(point) | shared) for point in self.points]

    def with_double_layer(self, layers: Any) -> "ChiScan":
        """Put a `DoubleLayerScan` beside it, where there is one, and whether the energies agree."""
        if layers is None:
            return self
        last = self.points[-1]
        told = agreement(layers.as_dict(), last.energy, last.energy_error, self.n_sites)
        return replace(self, double_layer=layers, diagnostics=(*self.diagnostics, told))

    def plot(self, ax: Any = None) -> Any:
        """Draw how far the energies lie from that at the largest chi; see `tnvmc.plot.chi`."""
        return drawn("chi", self, ax)

    def __repr__(self) -> str:
        last, n, layers = self.points[-1], self.n_sites, self.double_layer
        chis = ", ".join(str(point.chi) for point in self.points)
        double = f", double layer {fixed(layers.energy, 8)}" if layers and layers.points else ""
        return (
            f"<ChiScan: chi {chis}; at {last.chi} energy "
            f"{with_error(last.energy, last.energy_error)}, per site "
            f"{with_error(last.energy / n, last.energy_error / n)} ({self.units} units){double}>"
        )

    def _table(self) -> Table:
        n, last = self.n_sites, self.points[-1]
        gap = f"per site, from chi {last.chi}"
        columns = ("chi", f"energy ({self.units})", "energy per site", gap)
        rows = [
            (
                str(point.chi), with_error(point.energy, point.energy_error),
                with_error(point.energy / n, point.energy_error / n),
                signed(point.difference / n, point.difference_error / n, last.energy / n),
            )
            for point in self.points
        ]  # fmt: skip
        for chi, *row in self.double_layer.rows if self.double_layer else ():
            rows.append((f"{chi} (double layer)", *row[:2], ""))
        sector = f", {self.sector}" if self.sector else ""
        title = f"{self.n_samples} samples drawn at chi {self.drawn_at}{sector}"
        return Table(title, columns, rows, self.diagnostics)

    def __str__(self) -> str:
        return str(self._table())


def default_chis(ansatz: Ansatz) -> tuple[int, ...]:
    """Give 1, 1.5 and 2 times the chi of an ansatz; nothing where it has none."""
    chi = chi_of(ansatz)
    return () if chi is None else tuple(sorted({math.ceil(factor * chi) for factor in FACTORS}))


def checked_chis(ansatz: Ansatz, chis: Sequence[int] | None) -> tuple[int, ...]:
    """Give the chi that were asked for, in order; by default `default_chis`.

    Raises:
        ValueError: an ansatz that is contracted without chi; a chi below 1; fewer than two.
        TypeError: no list.
    """
    if chi_of(ansatz) is None:
        raise ValueError(
            f"converge: {kind_in(ansatz.description())} is contracted without a boundary bond "
            "dimension here, so there is no chi to converge in"
        )
    given = default_chis(ansatz) if chis is None else chis
    if not is_listed(given):
        raise TypeError(f"converge: chis must be a list of whole numbers, got {chis!r}")
    found = tuple(sorted({whole("converge", "each of chis", chi) for chi in given}))
    if len(found) < 2:
        raise ValueError(
            f"converge: chi = {', '.join(map(str, found))}: give two different values at least, "
            "all of them 1 or larger"
        )
    return found


def scan_chi(
    measured: Measured, chis: Sequence[int], threads: int | None = None, one_in: int | None = None
) -> ChiScan:
    """Measure the configurations of a measurement again at other chi; see `trust.chi_scan`.

    The chi of `measured` is one point of the scan, `chis` are the others.  One in so many draws is
    taken; by default 4, or fewer to have 512 samples.

    Cost: one `start` and one measurement per sample taken and chi, no sweep; with the defaults of a
    run about a tenth of the measurement.
    """
    started = perf_counter()
    seen, problem = measured.observation, measured.problem
    snapshot, exact, operator = seen.snapshot, seen.info.exact, problem.operator
    drawn_at = chi_of(problem.ansatz)
    assert drawn_at is not None
    sector, local = magnetisation_of(operator, snapshot.configs), seen.local
    if exact and len(snapshot.configs) < operator.states(sector).dimension:  # one of each orbit
        snapshot = Enumerate(sector, threads, False).draw(problem, seen.point, 0, False)[0]
        local = local_energy(operator, snapshot)
    taken = _taken(snapshot, seen.info.n_walkers, 1 if exact else one_in)
    xp = array_namespace(snapshot.configs)
    places = to_namespace(taken, xp)

    def pick(values: Array) -> Array:
        return xp.take(values, places, axis=0)

    configs, spread = pick(snapshot.configs), snapshot.closure_spread
    log_abs = pick(snapshot.amplitude.log_abs)
    found = {drawn_at: Remeasured(pick(local), log_abs, None if spread is None else pick(spread))}
    progress.begin("chi")
    for chi in progress.in_turn(sorted({*chis} - {drawn_at})):
        other = measure_configs(
            with_chi(problem.ansatz, chi), seen.point.theta, configs, operator.targets,
            threads=threads,
        )  # fmt: skip
        found[chi] = Remeasured(
            local_energy(operator, other), other.amplitude.log_abs, other.closure_spread
        )
    base = None if exact else _log_base(log_abs, snapshot.weight, taken)
    return ChiScan(
        chi_points(found, seen.info.n_walkers, base),
        drawn_at,
        len(taken),
        operator.n_sites,
        operator.units,
        perf_counter() - started,
        measured.measurement.diagnostics,
        sector_text(measured.measurement.magnetisation, measured.measurement.particles),
    )


def _log_base(log_abs: Array, weight: Array | None, taken: np.ndarray) -> np.ndarray:
    """Logarithms that turn |psi_chi|^2 into weights of draws: -2 ln|psi|, and their own weights."""
    base = -2.0 * np.asarray(to_host(log_abs), dtype=np.float64)
    if weight is None:
        return base
    own = np.asarray(to_host(weight))[taken]
    seen = own > 0
    return np.where(seen, base + np.log(np.where(seen, own, 1.0)), -np.inf)


def _taken(snapshot: Snapshot, n_walkers: int, one_in: int | None) -> np.ndarray:
    """Places of one in so many draws of all walkers, the last draw among them."""
    n_samples = int(snapshot.configs.shape[0])
    n_draws = n_samples // n_walkers
    if one_in is None:
        one_in = max(1, min(ONE_IN, n_samples // _FEWEST))
    draws = np.arange((n_draws - 1) % one_in, n_draws, one_in)
    return (draws[:, None] * n_walkers + np.arange(n_walkers)[None, :]).ravel()


@dataclass(frozen=True)
class Remeasured:
    """What one chi makes of M configurations that all chi share."""

    local: Array  #: (M,) local energies
    log_abs: Array  #: (M,) ln|psi|
    closure_spread: Array | None = None  #: (M,)


@dataclass(frozen=True)
class ChiPoint:
    """The energy at one chi, and how far it lies from that at the largest (totals)."""

    chi: int
    energy: float
    energy_error: float
    difference: float  #: to the largest chi, on the same configurations
    difference_error: float
    closure_spread: float | None
    effective_samples: float  #: (sum w)^2 / sum w^2; all of an enumeration


def chi_points(
    measured: Mapping[int, Remeasured], n_walkers: int, log_base: Array | float | None = None
) -> tuple[ChiPoint, ...]:
    """Compare energies at several chi on the same M configurations, smallest chi first.

    Configurations drawn from |psi_0|^2 stand for |psi_chi|^2 with weights w = |psi_chi|^2 /
    |psi_0|^2: E = sum w e / sum w.  What they share cancels in a difference, so its error is that
    of w (e - E) / <w> at one chi minus the same at the other, by binning; the bias of order 1/M
    times the variance of w stays.

    Args:
        measured: chi -> local energies and amplitudes at that chi, samples in draw-major order.
        n_walkers: walkers that the samples come from.
        log_base: -2 ln|psi_0| of the draws, (M,); None for an enumeration, whose weights are
            |psi_chi|^2, without errors.
    """
    exact = log_base is None
    base = 0.0 if log_base is None else _host(log_base)
    series, means, weights = {}, {}, {}
    for chi, found in measured.items():
        weight = _weights(base + 2.0 * _host(found.log_abs))
        local = np.where(weight > 0, np.real(to_host(found.local)), 0.0)
        means[chi] = _mean(local, weight)
        # Its mean is E, its scatter that of E: a sample's pull on the weighted mean.
        series[chi] = means[chi] + weight * (local - means[chi])
        weights[chi] = weight
    largest = max(measured)
    points = []
    for chi in sorted(measured):
        energy, gap, errors = means[chi], means[chi] - means[largest], (0.0, 0.0)
        worth = float(weights[chi].size)
        if not exact:
            here = estimate(series[chi], n_walkers)
            apart = estimate(series[chi] - series[largest], n_walkers)  # what they share cancels
            energy, gap, errors = here.mean, apart.mean, (here.error, apart.error)
            worth = effective_samples(weights[chi])
        spread = measured[chi].closure_spread
        spread = None if spread is None else _mean(_host(spread), weights[chi])
        points.append(ChiPoint(chi, energy, errors[0], gap, errors[1], spread, worth))
    return tuple(points)


def _host(values: Array | float) -> np.ndarray:
    return np.asarray(to_host(values), dtype=np.float64)


def _weights(logs: np.ndarray) -> np.ndarray:
    """exp of logarithms of weights, with mean 1."""
    with np.errstate(under="ignore"):
        weight = np.exp(logs - logs.max())
    return np.asarray(weight / weight.mean())


def _mean(values: np.ndarray, weight: np.ndarray) -> float:
    anchor = float(values[np.argmax(weight)])
    return anchor + float(weight @ (values - anchor)) / weight.size
