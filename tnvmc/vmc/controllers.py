"""Settings that follow the steps: the number of samples, chi, and the mean of the iterates.

Not here, as they have another place in a step: the learning rate multiplies the direction that the
same samples have given (`optimize.pace`, a rule around a rule; its first value is chosen here);
the power of |psi|^2 belongs to the walkers that draw from it (`sampling.chains`); the average of S
belongs to the rule that solves with it (`optimize.average`).  Stages by default are chosen before a
run begins (`settings.stages`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tnvmc.ansatz.protocol import Ansatz, chi_of, with_chi
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.reliability import closure_threshold
from tnvmc.operators.properties import energy_bound, off_diagonal_bound
from tnvmc.operators.term import Operator
from tnvmc.optimize.pace import Paced
from tnvmc.optimize.rule import Rule
from tnvmc.vmc.core import Controller, Method
from tnvmc.vmc.observation import Observation

Array = Any
Info = Mapping[str, Any]

FEWEST_SAMPLES = 128
"""First number of samples, of a state with few parameters."""

MOST_SAMPLES = 4096
"""Up to so many samples are doubled."""

STEPS = 20
"""Steps whose samples are to be as many as the parameters: so many steps the S of SR is averaged
over."""

AGAINST = 2.3
"""Sum of correlations at which samples are doubled: with the gain of `Paced`, 0.3, the rate has
halved."""


@dataclass(frozen=True)
class GrowingSamples:
    """A number of samples that is doubled as noise comes to dominate the steps.

    What shows noise (Byrd, Chin, Nocedal, Wu, Math. Program. 134, 127 (2012)) is the correlation
    of new local energies with the last direction (`optimize.pace`): where noise dominates it is
    negative, and the rate falls with it; twice as many samples do for the noise what half of the
    rate does, and keep the length of the steps.  The sum over steps is one of Page, Biometrika 41,
    100 (1954): what speaks for a longer step takes from it, and it never falls below 0.
    """

    name: ClassVar[str] = "samples"

    n_samples: int
    against: float = 0.0  #: largest fall of the sum of correlations since the number last changed

    def applied(self, method: Method) -> Method:
        """The same sampler with the present number of samples; an enumeration as it is."""
        sampler: Any = method.sampler
        if sampler.n_samples is None:
            return method
        return replace(method, sampler=replace(sampler, n_samples=self.n_samples))

    def after(self, seen: Observation | None, info: Info | None) -> GrowingSamples:
        """Add a correlation, and double the samples where the sum is large enough."""
        if (correlation := (info or {}).get("correlation")) is None:
            return self
        against = max(0.0, self.against - correlation)
        if against < AGAINST or 2 * self.n_samples > MOST_SAMPLES:
            return GrowingSamples(self.n_samples, against)
        return GrowingSamples(2 * self.n_samples)

    def diagnostics(self, before: GrowingSamples) -> tuple[Diagnostic, ...]:
        """Tell that samples have grown (samples_grown)."""
        if self.n_samples == before.n_samples:
            return ()
        values = {"before": before.n_samples, "n_samples": self.n_samples}
        return (Diagnostic("samples_grown", "open", values),)

    def restored(self, fields: Info | None) -> GrowingSamples:
        """The number of the checkpoint, the present one where it has none."""
        return self if fields is None else GrowingSamples(**fields)


def first_n_samples(n_params: int, n_walkers: int) -> int:
    """Give the samples of the first steps.

    Whole draws, `FEWEST_SAMPLES` at least, and in `STEPS` steps as many as parameters.
    """
    found = -(-FEWEST_SAMPLES // n_walkers) * n_walkers
    while found * STEPS < n_params and 2 * found <= MOST_SAMPLES:
        found *= 2
    return found


LEAST_CHI = 8
"""First chi of a state with D up to 8; of another one D.  Up to D = 4 a smaller one saves little
and cost Rydberg atoms accuracy (decision 40)."""

MORE_CHI = 2
"""Added at once, which divides the closure spread by about four: kernels take an even number in
about the time of the odd one below it."""


@dataclass(frozen=True)
class GrowingChi:
    """A boundary bond dimension that grows as truncation comes to be felt in the steps.

    Errors of ln psi of a size s, which the closure spread measures, raise the energy by about s^2
    of its off-diagonal part (`closure_threshold`).  While that is less than what the samples of a
    step resolve, a larger chi makes a step slower and no better.
    """

    name: ClassVar[str] = "chi"

    chi: int
    largest: int  #: the chi of the ansatz

    def applied(self, method: Method) -> Method:
        """The ansatz with the present chi; measurements take twice as much."""
        ansatz = _contracted(method.problem.ansatz, self.chi)
        problem = replace(method.problem, ansatz=ansatz)
        return replace(method, problem=problem, measured_chi=2 * self.chi)

    def after(self, seen: Observation | None, info: Info | None) -> GrowingChi:
        """A larger chi where the spread is beyond what the samples resolve, or nothing was seen."""
        if seen is None:
            return self.following(None, math.nan)
        threshold = closure_threshold(seen.off_diagonal_energy, seen.energy.error)
        return self.following(seen.closure_spread, threshold)

    def following(self, spread: float | None, threshold: float) -> GrowingChi:
        """Give the chi that follows a mean closure spread, None where amplitudes could not be had.

        `threshold` is `closure_threshold` of the same samples; NaN where it is not known.
        """
        if spread is not None and spread <= threshold:
            return self
        return replace(self, chi=min(self.largest, self.chi + MORE_CHI))

    def diagnostics(self, before: GrowingChi) -> tuple[Diagnostic, ...]:
        """Tell that chi has grown (chi_grown)."""
        if self.chi == before.chi:
            return ()
        return (Diagnostic("chi_grown", "open", {"before": before.chi, "chi": self.chi}),)

    def restored(self, fields: Info | None) -> GrowingChi:
        """The chi of the checkpoint, at most that of the ansatz here."""
        return self if fields is None else replace(self, chi=min(int(fields["chi"]), self.largest))


def first_chi(D: int | None) -> int:
    """Give the chi that a state begins with, whatever its limit."""
    return max(LEAST_CHI, D or 1)


class _Contracted:
    """A wave function with another chi; the same object, with its layout, as long as both stay."""

    def __init__(self) -> None:
        self._last: tuple[Ansatz, Ansatz] | None = None

    def __call__(self, ansatz: Ansatz, chi: int) -> Ansatz:
        if chi == chi_of(ansatz):
            return ansatz
        if self._last is None or self._last[0] is not ansatz or chi_of(self._last[1]) != chi:
            self._last = ansatz, with_chi(ansatz, chi)
        return self._last[1]


_contracted = _Contracted()

POWER = 3
"""Iterate k counts about k^3: four fifths of the weight lie on the last third of them."""


@dataclass(frozen=True)
class MeanOfIterates(Controller):
    """The first parameters and the mean of all that were found good: they may be measured.

    Iterates of a noisy optimisation wander about the minimum; their mean lies closer to it (Polyak
    and Juditsky, SIAM J. Control Optim. 30, 838 (1992)).  The weights are those of polynomial decay
    (Shamir and Zhang, ICML 2013, eq. 4), so that the mean forgets the way down.
    """

    name: ClassVar[str] = "mean_of_iterates"

    first: Array  #: (P,) before the first step
    mean: Array  #: (P,)
    count: int = 0  #: iterates in the mean

    def after(self, seen: Observation | None, info: Info | None) -> MeanOfIterates:
        """Add the parameters that a step has found good."""
        if seen is None or info is None:
            return self
        share = (POWER + 1) / (self.count + POWER + 1)
        mean = self.mean + share * (seen.point.theta - self.mean)
        return MeanOfIterates(self.first, mean, self.count + 1)

    def restored(self, fields: Info | None) -> MeanOfIterates | None:
        """That of the checkpoint: an archive has none, and its only parameters are measured."""
        return None if fields is None else MeanOfIterates(**fields)


FIRST_RATE = 0.06
"""Of "auto", over the size of the off-diagonal terms per site, which sets the time in which a state
changes: 0.08 for the Heisenberg model with J = 1 on 4x4 sites, 0.12 for Rydberg atoms with Omega =
1."""


def paced(rule: Rule, operator: Operator) -> Paced:
    """Let the rate of a rule follow the steps; the first one fits the off-diagonal terms."""
    per_site = (off_diagonal_bound(operator) or energy_bound(operator)) / operator.n_sites
    return Paced(rule, rate=FIRST_RATE / per_site if per_site > 0 else FIRST_RATE)
