"""Overlaps of two states from samples of both, by a bridge between them.

With u = ln |b / a| - c, c half of ln <b|b> / <a|a>, the overlap of the normalised states is the
mean of e^(i arg(b / a)) / cosh u over the samples of both in equal parts; c is found from the same
samples, by which the mean of tanh u vanishes.  No sample counts more than 1, however small an
amplitude is, and the relative error of the infidelity stays the same as it vanishes: a product of
two mean ratios has neither.

Source: C. H. Bennett, J. Comput. Phys. 22, 245 (1976); X.-L. Meng and W. H. Wong, Statistica Sinica
6, 831 (1996).
"""

import math
from dataclasses import dataclass

import numpy as np

from tnvmc.ansatz.protocol import LogAmplitude, Snapshot
from tnvmc.backend.namespace import to_host
from tnvmc.estimate.statistics import Estimate, estimate_samples
from tnvmc.sampling.problem import SampleInfo

_FARTHEST = 40.0  # from where on tanh is 1 to the last bit


@dataclass(frozen=True)
class Bridged:
    """The overlap of two normalised states."""

    mean: complex
    along: float  #: standard error of its modulus
    across: float = 0.0  #: the same at a right angle to it; 0 where all amplitudes are real
    effective: float = 0.0  #: samples drawn of a state that are worth something in the other one
    parts: tuple[Estimate, ...] = ()  #: of each state's samples; what is doubtful in them is here

    @property
    def squared(self) -> float:
        """The fidelity, less what noise adds to a square; at times negative where it is near 0."""
        return float(abs(self.mean) ** 2 - self.along**2 - self.across**2)

    @property
    def squared_error(self) -> float:
        """Its standard error, which holds where the modulus is but an error or two, too."""
        noise = math.sqrt(6) * self.along**2, math.sqrt(2) * self.across**2
        return math.hypot(2 * abs(self.mean) * self.along, *noise)


@dataclass(frozen=True)
class Side:
    """Samples (M,) of one state, on the host, with the other one's amplitudes there."""

    phase: np.ndarray  #: of other / own; 0 where one of them is
    gap: np.ndarray  #: ln of its modulus, -inf there
    weight: np.ndarray | None
    info: SampleInfo

    @classmethod
    def of(cls, own: Snapshot, other: LogAmplitude, info: SampleInfo) -> "Side":
        """Compare the amplitudes that two states have at samples of one."""
        one, two = (
            (to_host(x.phase), to_host(x.log_abs).astype(float)) for x in (own.amplitude, other)
        )
        phase = np.conj(one[0]) * two[0]
        gap = np.subtract(two[1], one[1], out=np.full(phase.shape, -np.inf), where=phase != 0)
        return cls(phase, gap, None if own.weight is None else to_host(own.weight), info)


def bridged(one: Side, other: Side) -> Bridged:
    """Estimate <a|b> / sqrt(<a|a> <b|b>) from samples of a (`one`) and of b.

    Where no sample of a state has an amplitude in the other one the error is what may be missed.
    """
    from scipy.optimize import brentq

    sides = one, other
    phases, gaps = (one.phase, np.conj(other.phase)), (one.gap, -other.gap)
    drawn = [len(x.gap) for x in sides if not x.info.exact]
    if not all(np.isfinite(gap).any() for gap in gaps):
        return Bridged(0.0, 1 / min(drawn) if drawn else 0.0)

    def mean(*values: np.ndarray) -> complex:
        parts = zip(values, sides, strict=True)
        return complex(sum(np.average(x, weights=side.weight) for x, side in parts)) / 2

    finite = np.concatenate([gap[np.isfinite(gap)] for gap in gaps])
    centre = brentq(
        lambda at: mean(*(np.tanh(gap - at) for gap in gaps)).real,
        finite.min() - _FARTHEST, finite.max() + _FARTHEST, xtol=1e-14,
    )  # fmt: skip
    bounded = [np.clip(gap - centre, -_FARTHEST, _FARTHEST) for gap in gaps]
    values = [phase / np.cosh(u) for phase, u in zip(phases, bounded, strict=True)]
    steps = [np.tanh(u) for u in bounded]
    overlap, shared = mean(*values), mean(*(np.cosh(u) ** -2 for u in bounded)).real
    # What an error of the centre does to the mean is a part of its noise.
    pull = mean(*(x * t for x, t in zip(values, steps, strict=True))) / shared
    turn = np.conj(overlap) / abs(overlap) if overlap else 1.0
    pulled = [turn * (x + pull * t) for x, t in zip(values, steps, strict=True)]
    along, across = (
        [estimate_samples(part(x), s.weight, s.info) for x, s in zip(pulled, sides, strict=True)]
        for part in (np.real, np.imag)
    )
    errors = [math.hypot(*(each.error for each in found)) / 2 for found in (along, across)]
    return Bridged(overlap, errors[0], errors[1], shared * min(drawn or [0]), tuple(along))
