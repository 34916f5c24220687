"""Where an optimisation has been: what may be measured in place of its last point.

Iterates of a noisy optimisation wander about the minimum; their mean lies closer to it
(Polyak and Juditsky, SIAM J. Control Optim. 30, 838 (1992)).  The weights here are those of
polynomial decay (Shamir and Zhang, ICML 2013, eq. 4), so that the mean forgets the way down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Array = Any

POWER = 3
"""Iterate k counts about k^3: four fifths of the weight lie on the last third of them."""

FEWEST = 8
"""Iterates below which their mean is not looked at."""


@dataclass(frozen=True)
class Trail:
    """The first parameters and the mean of all that were found good; part of a checkpoint."""

    first: Array  #: (P,) before the first step
    mean: Array  #: (P,)
    count: int = 0  #: iterates in the mean

    def after(self, theta: Array) -> Trail:
        """Add the parameters (P,) that a step has found good."""
        share = (POWER + 1) / (self.count + POWER + 1)
        return Trail(self.first, self.mean + share * (theta - self.mean), self.count + 1)
