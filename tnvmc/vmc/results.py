"""What a step and a measurement report."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.statistics import Estimate
from tnvmc.operators.fermions import sector_text
from tnvmc.shown import Result, Table, drawn, with_error
from tnvmc.vmc.orthogonal import Overlap

Array = Any


@dataclass(frozen=True, repr=False)
class StepRecord(Result):
    """What one step reports: one line of history.jsonl.

    `step` counts the steps before, from 0 on; what is shown to people names steps from 1 on.
    `energy` and `variance` are totals of the state that the step found, before its update.
    `diagnostics` tell why a step was undone (codes as `Guard.objection`, sampling_failed,
    direction_not_finite), that it was shortened (step_shortened), that the next steps draw more
    samples (samples_grown) or are contracted with a larger chi (chi_grown).
    """

    step: int
    energy: float
    energy_error: float
    variance: float
    tau: float | None
    r_hat: float | None
    acceptance: float | None
    closure_spread: float | None
    learning_rate: float
    step_norm: float  #: norm of the change of theta, 0 when there was none
    undone: bool
    diagnostics: tuple[Diagnostic, ...]
    optimizer: Mapping[str, Any]  #: what the rule reports of itself
    seconds: float  #: without those of compiling
    effective_samples: float | None = None  #: of draws with weights
    acceptance_by_move: Mapping[str, float] | None = None  #: for each kind (`MOVE_KINDS`)
    power: float | None = None  #: of |psi|^2 that the chains drew from; None where there are none
    overlaps: tuple[Overlap, ...] = ()  #: with states that it is kept orthogonal to
    n_samples: int | None = None  #: that were drawn; None where that failed
    chi: int | None = None  #: boundary bond dimension, of an ansatz that has one
    compile_seconds: float = 0.0  #: beside `seconds`, as a rule of the first step

    def _line(self) -> str:
        text = f"step {self.step + 1}{', undone' if self.undone else ''}: total energy "
        text += f"{with_error(self.energy, self.energy_error)}, variance {self.variance:.2g}"
        return text + ("" if self.acceptance is None else f", acceptance {self.acceptance:.2f}")

    def _table(self) -> Table:
        rows = [
            ("energy", with_error(self.energy, self.energy_error), "total"),
            ("variance", f"{self.variance:.3g}", "total"),
        ]
        more = (
            "n_samples", "chi", "learning_rate", "step_norm", "acceptance", "tau", "r_hat",
            "effective_samples", "closure_spread", "power", "seconds",
            "compile_seconds",
        )  # fmt: skip
        rows += _known(self, more)
        title = f"step {self.step + 1}{', undone' if self.undone else ''}"
        return Table(title, ("", "", ""), rows, self.diagnostics)

    def as_dict(self) -> dict[str, Any]:
        """Give a dict for strict JSON: None where a number is not finite."""
        return _as_dict(self)


@dataclass(frozen=True, repr=False)
class Measurement(Result):
    """The energy of one state, measured with theta at rest.

    `energy` is the total, `energy_per_site` that divided by N.

    `diagnostics` hold what makes the energy less certain than its error bar
    (`trust.energies.judged`), and tell where other parameters than the last ones were measured
    (`measured_iterate.CODES`).
    """

    energy: float  #: total, in the operator's units
    energy_error: float
    variance: float  #: of the local energy
    v_score: float
    tau: float | None  #: integrated autocorrelation time, in draws
    r_hat: float | None
    acceptance: float | None
    closure_spread: float | None
    n_sites: int
    n_parameters: int
    n_samples: int
    seconds: float
    units: str
    diagnostics: tuple[Diagnostic, ...] = ()
    effective_samples: float | None = None  #: of weighted draws, see `sampling.direct`
    acceptance_by_move: Mapping[str, float] | None = None  #: for each kind (`MOVE_KINDS`)
    magnetisation: int | None = None  #: twice the total Sz of the sector; None: all of them
    particles: tuple[int, ...] | None = None  #: fermions of each species
    overlaps: tuple[Overlap, ...] = ()
    """With states that it was kept orthogonal to, from new samples of both."""
    n_independent: int | None = None
    """Parameters less the directions along which the state stays; None where that is not known."""
    chi: int | None = None  #: boundary bond dimension that it was measured with
    off_diagonal_energy: float | None = None
    """Part of `energy` that elements of H between two configurations make; a constant is no part of
    it.
    """
    origin: tuple[Any, ...] = field(default=(), repr=False)
    """Hash of H, sector, group and number of lower states: which level it is of; not in files."""

    @property
    def energy_per_site(self) -> float:
        """Energy / N."""
        return self.energy / self.n_sites

    @property
    def energy_per_site_error(self) -> float:
        """Standard error of `energy_per_site`."""
        return self.energy_error / self.n_sites

    def as_dict(self) -> dict[str, Any]:
        """Give a dict for strict JSON: None where a number is not finite."""
        per_site = {
            "energy_per_site": self.energy_per_site,
            "energy_per_site_error": self.energy_per_site_error,
            "seconds_per_sample": self.seconds / self.n_samples,
        }
        return _as_dict(self) | finite_or_none(per_site)

    def plot(self, ax: Any = None, label: str = "measured") -> Any:
        """Draw the energy per site as a line with a band of its error; see `tnvmc.plot.energy`.

        Into the axes of a history, as in ``measurement.plot(history.plot())``; gives the axes.
        """
        return drawn("energy", self, ax, label=label)

    @property
    def _energies(self) -> tuple[str, str]:
        """Total and energy per site, with as many digits as their errors have."""
        return (
            with_error(self.energy, self.energy_error),
            with_error(self.energy_per_site, self.energy_per_site_error),
        )

    @property
    def _units(self) -> str:
        sector = sector_text(self.magnetisation, self.particles)
        return ", ".join(filter(None, [f"{self.units} units", sector]))

    def _line(self) -> str:
        total, per_site = self._energies
        return (
            f"energy per site {per_site}, total {total} ({self._units}), "
            f"variance per site {self.variance / self.n_sites:.2g}, "
            f"V-score {self.v_score:.2g}, {self.n_samples} samples"
        )

    def _table(self) -> Table:
        total, per_site = self._energies
        rows = [
            ("energy", total, "total"),
            ("energy_per_site", per_site, f"of {self.n_sites} sites"),
            ("variance", f"{self.variance:.3g}", "total"),
            ("variance / n_sites", f"{self.variance / self.n_sites:.2g}", ""),
            ("v_score", f"{self.v_score:.2g}", ""),
            ("n_samples", str(self.n_samples), f"{self.seconds:.1f} s"),
        ]
        more = ("chi", "effective_samples", "tau", "r_hat", "acceptance", "closure_spread")
        rows += _known(self, more)
        title = f"energy, {self._units}"
        return Table(title, ("", "", ""), rows, self.diagnostics)


@dataclass(frozen=True, repr=False)
class Expectation(Estimate):
    """The mean of an operator, which is a total, and what it is per site; see `VMC.expect`."""

    n_sites: int = field(kw_only=True)
    units: str = field(kw_only=True)  #: those of the operator

    @property
    def mean_per_site(self) -> float:
        """Mean / N."""
        return self.mean / self.n_sites

    @property
    def error_per_site(self) -> float:
        """Standard error of `mean_per_site`."""
        return self.error / self.n_sites

    def _line(self) -> str:
        per_site = with_error(self.mean_per_site, self.error_per_site)
        return f"{with_error(self.mean, self.error)}, per site {per_site}{self._units}"

    @property
    def _units(self) -> str:
        return "" if self.units == "custom" else f" ({self.units} units)"

    def _rows(self) -> list[tuple[str, str]]:
        per_site = with_error(self.mean_per_site, self.error_per_site)
        return [*super()._rows(), ("mean_per_site", per_site)]


def _known(record: StepRecord | Measurement, names: Sequence[str]) -> list[tuple[str, str, str]]:
    """Rows of a table for the numbers that are known."""
    values = ((name, getattr(record, name)) for name in names)
    return [(name, f"{value:.4g}", "") for name, value in values if value is not None]


def _as_dict(record: StepRecord | Measurement) -> dict[str, Any]:
    left_out = {"origin"} if record.overlaps else {"origin", "overlaps"}
    values = asdict(record)
    return finite_or_none({name: values[name] for name in values if name not in left_out})


def finite_or_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace numbers that strict JSON does not know (NaN, infinities) by None, at any depth."""

    def clean(value: Any) -> Any:
        if isinstance(value, Mapping):
            return finite_or_none(value)
        if isinstance(value, list | tuple):
            return [clean(item) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return {key: clean(value) for key, value in values.items()}
