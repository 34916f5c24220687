"""What samplers are given and what they give: one interface for chains, direct draws and
enumeration.

A sampler is a frozen set of settings with one verb::

    snapshot, point, info = sampler.draw(problem, point, stream)
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, cast

from tnvmc.ansatz.protocol import Ansatz, Snapshot, Targets
from tnvmc.operators.term import Operator
from tnvmc.sampling.moves import moves_for

Array = Any


@dataclass(frozen=True)
class Problem:
    """What is solved: fixed within one draw (a chi that follows the steps changes the ansatz)."""

    ansatz: Ansatz
    operator: Operator  #: the Hamiltonian; its symmetries say which sector is sampled
    targets: Targets  #: replacements whose ratios are measured
    moves: Targets  #: of Markov chains
    seed: int = 0  #: key of all random numbers
    magnetisation: int | None = None
    """Twice the total Sz of the sector, where the operator conserves it; None: 0 there."""

    @classmethod
    def of(
        cls, operator: Operator, ansatz: Ansatz, seed: int = 0, magnetisation: int | None = None
    ) -> "Problem":
        """Measure the ratios that `operator` needs, with the moves that fit it."""
        moves = moves_for(operator)
        return cls(ansatz, operator, operator.targets, moves, seed, magnetisation)


@dataclass(frozen=True)
class Point:
    """Parameters, and where the walkers stand."""

    theta: Array  #: (P,)
    configs: Array  #: (W, N)
    power: float = field(default=1.0, kw_only=True)  #: of |psi|^2 in chains, where it is "auto"


@dataclass(frozen=True)
class SampleInfo:
    """What sampling reports beside the samples, (n_draws, n_walkers) in draw-major order."""

    n_walkers: int  #: independent of each other: chains, or all samples of direct draws
    n_draws: int  #: of each walker
    seconds: float
    exact: bool = False  #: all configurations, each once, with their weights: no noise
    acceptance: float | None = None
    """Accepted / possible moves of the chains that are measured; 0 if none was possible, None where
    nothing moves."""
    acceptance_by_move: Mapping[str, float] | None = None
    """The same for each kind of move that was possible (`MOVE_KINDS`)."""
    log_norm: float = 0.0
    """ln of the mean weight before weights were made to sum to 1: one scale for several draws.  Of
    direct draws it estimates ln <psi|psi> in the sector."""
    draw_seconds: float = 0.0  #: of direct draws: drawing alone, summed over the chunks
    power: float | None = None  #: p of |psi|^(2 p) that chains drew from

    @property
    def independent(self) -> bool:
        """Whether each sample is a walker by itself, as direct draws are: parts of them add up."""
        return self.acceptance is None and not self.exact


class Drawing(ABC):
    """One draw of samples."""

    threads: int | None
    """Workers side by side; None for all cores.  Results do not depend on it."""

    @abstractmethod
    def draw(
        self, problem: Problem, point: Point, stream: int, jacobian: bool = True
    ) -> tuple[Snapshot, Point, SampleInfo]:
        """Draw samples at a point and measure each.

        Args:
            problem: ansatz, operator, replacements, moves, seed.
            point: theta (P,) and the walkers' configurations, where chains go on from.
            stream: address of the random numbers below the seed: the step, or another number for
                another purpose (`sampling.streams`).
            jacobian: whether log-derivatives are measured.

        Returns:
            snapshot: M samples; weights, if any, sum to 1.
            point: the same theta, and the walkers where they are now.
            info: see `SampleInfo`.
        """


class Samples(Drawing):
    """A sampler, a frozen dataclass: `Sampler` (Markov chains), `DirectSampler` or `Enumerate`."""

    n_walkers: Any
    """Samples of one draw that are independent: chains, or all direct draws.  A run carries as many
    configurations from step to step."""
    n_samples: Any
    """Samples of one draw, before they are made a whole number for each walker; None for an
    enumeration."""
    magnetisation: int | None = None
    """Twice the total Sz of its sector; None: that of the problem."""

    @abstractmethod
    def parts(self, problem: Problem, point: Point, at_once: int) -> Sequence[Drawing]:
        """Draws that together give the same number of samples, about `at_once` each at most.

        Part k is drawn with stream + k, from the point that part k - 1 has left.  For measurements
        whose ratios of all samples would not fit into memory.
        """

    def warn_if_rounded(self, name: str) -> None:
        """Warn, under this name, where more samples are drawn than asked for; here they are not."""

    def for_measurement(
        self,
        n_samples: int | None = None,
        n_burn: int | None = None,
        n_thin: int | None = None,
        n_walkers: int | None = None,
    ) -> Self:
        """The same sampler for a measurement of |psi|^2, with other numbers where they are given.

        Samplers without these settings ignore them.
        """
        asked = {"n_samples": n_samples, "n_burn": n_burn, "n_thin": n_thin, "power": 1.0}
        asked["n_walkers"] = n_walkers
        own: Any = self
        known = {field.name for field in fields(own)}
        given = {k: v for k, v in asked.items() if v is not None and k in known}
        return cast(Self, replace(own, **given))
