"""A number of samples that grows as noise comes to dominate the steps.

Samples that are more than the gradient needs make steps dear, samples that are fewer make them follow noise: a
run begins with few, and doubles them when its steps say so (sample sizes that follow the gradient: Byrd,
Chin, Nocedal, Wu, Math. Program. 134, 127 (2012)).  What says so is the correlation of new local energies
with the last direction (`optimize.pace`).  Where noise dominates it is negative, and the rate falls with it;
twice as many samples do for the noise what half of the rate does, and keep the length of the steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.problem import Samples

FEWEST = 128
"""First number, of a state with few parameters."""

MOST = 4096
"""Up to so many samples are doubled."""

STEPS = 20
"""Steps whose samples are to be as many as the parameters: so many steps the S of SR is averaged over."""

AGAINST = 2.3
"""Sum of correlations at which samples are doubled: with the gain of `Paced`, 0.3, the rate has halved."""


@dataclass(frozen=True)
class Growth:
    """How many samples a step draws, and what speaks against so few; part of a checkpoint."""

    n_samples: int
    against: float = (
        0.0  #: the largest fall of the sum of correlations since the number last changed
    )

    def after(self, correlation: float | None) -> Growth:
        """Take note of what a step has found (None: nothing); twice the samples where it is enough.

        The sum over steps is one of Page, Biometrika 41, 100 (1954): what speaks for a longer step takes from
        it, and it never falls below 0.
        """
        if correlation is None:
            return self
        against = max(0.0, self.against - correlation)
        if against < AGAINST or 2 * self.n_samples > MOST:
            return Growth(self.n_samples, against)
        return Growth(2 * self.n_samples)

    def applied(self, sampler: Samples) -> Samples:
        """The same chains with the present number of samples; another sampler as it is."""
        return (
            replace(sampler, n_samples=self.n_samples) if isinstance(sampler, Sampler) else sampler
        )

    def told(self, before: Growth) -> tuple[Diagnostic, ...]:
        """Tell that samples have grown; nothing where they have not."""
        if self.n_samples == before.n_samples:
            return ()
        values = {"before": before.n_samples, "n_samples": self.n_samples}
        return (Diagnostic("samples_grown", "open", values),)


def first_number(n_params: int, n_walkers: int) -> int:
    """Samples of the first steps: whole draws, `FEWEST` at least, and in `STEPS` steps as many as parameters."""
    found = -(-FEWEST // n_walkers) * n_walkers
    while found * STEPS < n_params and 2 * found <= MOST:
        found *= 2
    return found


def growing(n_samples: Any, sampler: Samples, n_params: int, follows: bool) -> Growth | None:
    """Give what grows where that is asked for, with "auto"; `follows` is whether the learning rate does.

    Raises:
        ValueError: a number, which is that of the sampler; a fixed rate, beside which no step says what is noise;
            a sampler without chains.
    """
    if n_samples is None:
        return None
    if n_samples != "auto":
        raise ValueError(
            f"VMC: n_samples must be 'auto', got {n_samples!r}; a number is that of the sampler: "
            "Sampler(n_samples=512)"
        )
    if not follows:
        raise ValueError(
            "VMC: n_samples = 'auto' follows the steps as learning_rate = 'auto' does, and this rate is fixed; "
            "leave learning_rate out, or give the sampler a number of samples"
        )
    if not isinstance(sampler, Sampler):
        raise ValueError(  # noqa: TRY004
            f"VMC: n_samples = 'auto' lets Markov chains make more draws, a {type(sampler).__name__} makes "
            "none; leave it out, or take Sampler"
        )
    return Growth(first_number(n_params, sampler.n_walkers))
