"""What survives a step, and what a step and a measurement report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from tnvmc.estimate.convergence import Rung
from tnvmc.vmc.guard import Recent

Array = Any


@dataclass(frozen=True)
class Point:
    """A place the optimisation can go on from."""

    theta: Array  #: (P,)
    configs: Array  #: (W, N)
    optimizer: Mapping[str, Any]


@dataclass(frozen=True)
class State:
    """All that survives a step.  Random numbers are keyed by (seed, step), so this is complete."""

    step: int
    here: Point
    good: Point | None = None  #: where to go back to; None when `here` itself was found good
    recent: Recent = field(default_factory=Recent)


@dataclass(frozen=True)
class StepRecord:
    """What one step reports: one line of history.jsonl.

    `energy` and `variance` are totals of the state that the step found, before its update.
    `note` says in words when the step was undone, shortened or skipped.
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
    note: str | None
    optimizer: Mapping[str, Any]  #: what the rule reports of itself
    seconds: float
    effective_samples: float | None = None  #: of draws with weights

    def __str__(self) -> str:
        text = (
            f"step {self.step}: energy {self.energy:.6f} +- {self.energy_error:.1g}, "
            f"variance {self.variance:.2g}"
        )
        if self.acceptance is not None:
            text += f", acceptance {self.acceptance:.2f}"
        return f"{text}; {self.note}" if self.note else text

    def as_dict(self) -> dict[str, Any]:
        """Give a dict for strict JSON: None where a number is not finite."""
        return finite_or_none({f.name: getattr(self, f.name) for f in fields(self)})


@dataclass(frozen=True)
class ChiLadder:
    """Energies at several chi on the same configurations, smallest chi first."""

    rungs: tuple[Rung, ...]
    drawn_at: int  #: chi of the |psi|^2 that the configurations were drawn from
    n_samples: int
    n_sites: int
    units: str
    seconds: float  #: beyond the sampling

    def as_dicts(self) -> list[dict[str, Any]]:
        """Give one dict per chi, for strict JSON."""
        shared = {"drawn_at": self.drawn_at, "n_samples": self.n_samples}
        return [finite_or_none(asdict(rung) | shared) for rung in self.rungs]

    def __str__(self) -> str:
        n = self.n_sites
        lines = [
            f"chi {rung.chi:>4}: energy per site {rung.energy / n:.7f} +- "
            f"{rung.energy_error / n:.1g}, from chi {self.rungs[-1].chi} "
            f"{rung.difference / n:+.1e} +- {rung.difference_error / n:.0e}"
            for rung in self.rungs
        ]
        return "\n".join(
            [*lines, f"{self.units} units, {self.n_samples} samples drawn at chi {self.drawn_at}"]
        )


@dataclass(frozen=True)
class Measurement:
    """The energy of one state, measured with theta at rest."""

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
    note: str | None = None
    effective_samples: float | None = None  #: of weighted draws, see `sampling.direct`
    precision_shift: float | None = None  #: of the energy by the weights of `ansatz.mixed`
    ladder: ChiLadder | None = None  #: the same samples at other chi, where that was asked for

    @property
    def energy_per_site(self) -> float:
        """Energy / N."""
        return self.energy / self.n_sites

    @property
    def energy_per_site_error(self) -> float:
        """Standard error of `energy_per_site`."""
        return self.energy_error / self.n_sites

    def as_dict(self) -> dict[str, Any]:
        """Give a dict for strict JSON, without the ladder: None where a number is not finite."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "ladder"}
        per_site = {
            "energy_per_site": self.energy_per_site,
            "energy_per_site_error": self.energy_per_site_error,
            "seconds_per_sample": self.seconds / self.n_samples,
        }
        return finite_or_none(values | per_site)

    def __str__(self) -> str:
        return (
            f"energy per site {self.energy_per_site:.7f} +- {self.energy_per_site_error:.1g} "
            f"({self.units} units), variance per site {self.variance / self.n_sites:.2g}, "
            f"V-score {self.v_score:.2g}, {self.n_samples} samples"
        )


def finite_or_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace numbers that strict JSON does not know (NaN, infinities) by None, at any depth."""

    def clean(value: Any) -> Any:
        if isinstance(value, Mapping):
            return finite_or_none(value)
        if isinstance(value, list | tuple):
            return [clean(item) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return {key: clean(value) for key, value in values.items()}
