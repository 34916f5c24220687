"""Guard of the optimisation: limits on a step, and whether the last one is to be undone."""

import math
from dataclasses import dataclass, replace

import numpy as np

from tnvmc.estimate.diagnostic import Diagnostic

WINDOW = 20
"""Steps whose energies, variances and lengths a step is compared with."""
ENERGY_JUMP = 8.0
"""Robust standard deviations above the median of the last three energies at which it has jumped."""
VARIANCE_JUMP = 10.0
"""Multiple of the largest recent variance from which on it has exploded."""
NORM_JUMP = 4.0
"""Multiple of the median length of recent steps to which one is shortened."""
MAX_RELATIVE_STEP = 0.3
"""Largest length of a step, relative to the norm of theta."""
SHRINK, RECOVER = 0.5, 1.1
"""Factors on the learning rate after a step that was undone, and after one that stays."""
PATIENCE = 6
"""Steps undone in a row, after which the present energy is taken as it is."""


@dataclass(frozen=True)
class Guard:
    """What the guard knows of the accepted steps; part of a checkpoint.

    An energy has jumped when it lies `ENERGY_JUMP` deviations above the median of the last three;
    the deviation is the larger of the typical error and of 1.4826 / sqrt(2) times the median
    absolute change from step to step (the median absolute deviation of noise on a slowly falling
    series).  Falling energies are never a reason to undo.
    """

    energies: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()
    variances: tuple[float, ...] = ()
    norms: tuple[float, ...] = ()  #: of the changes of theta, divided by the learning rate
    scale: float = 1.0  #: factor on the learning rate
    rollbacks: int = 0  #: in a row

    def objection(self, energy: float, variance: float, n_sites: int) -> Diagnostic | None:
        """Say why the state that gave this estimate should be left, or give None.

        Codes: energy_not_finite; energy_jump and variance_jump with values before and after.
        """
        if not math.isfinite(energy) or not math.isfinite(variance):
            return Diagnostic("energy_not_finite", "warning")
        if not self.energies or self.rollbacks >= PATIENCE:
            return None
        centre = float(np.median(self.energies[-3:]))
        changes = np.abs(np.diff(self.energies))
        # One or two changes say little about what is usual; 1e-6 stands for rounding.
        floor = (5e-3 if len(changes) < 4 else 1e-6) * abs(centre)
        # Independent noise of deviation sigma changes by sqrt(2) sigma from step to step.
        typical = 1.4826 / math.sqrt(2) * float(np.median(changes)) if len(changes) else 0.0
        deviation = max(typical, float(np.median(self.errors)), floor)
        if energy - centre > ENERGY_JUMP * deviation:
            return Diagnostic("energy_jump", "warning", {"before": centre, "after": energy})
        largest = max(self.variances)
        # A state close to an eigenstate may double a tiny variance many times and stay good:
        # nothing has exploded before the V-score N var / E^2 is above 1e-3.
        if variance > VARIANCE_JUMP * largest and variance * n_sites > 1e-3 * energy**2:
            return Diagnostic("variance_jump", "warning", {"before": largest, "after": variance})
        return None

    def shortened(self, norm: float, learning_rate: float, size: float) -> float:
        """Give the factor in (0, 1] on a direction of this norm; `size` is the norm of theta."""
        if norm == 0:
            return 1.0
        limits = [1.0]
        if len(self.norms) >= 4:
            limits.append(NORM_JUMP * float(np.median(self.norms)) / norm)
        if size > 0 and learning_rate > 0:
            limits.append(MAX_RELATIVE_STEP * size / (learning_rate * norm))
        return min(limits)

    def accepted(
        self, energy: float, error: float, variance: float, norm: float, retried: bool = False
    ) -> "Guard":
        """Add a step that stays; a learning rate that was reduced grows back a little.

        `retried` says that theta is the one gone back to, so the retry is not over yet.  After
        `PATIENCE` failed retries the window starts anew.
        """
        before = Guard(scale=self.scale) if self.rollbacks >= PATIENCE else self
        known = error if math.isfinite(error) else 0.0  # a single sample has an infinite error
        return Guard(
            energies=(*before.energies, energy)[-WINDOW:],
            errors=(*before.errors, known)[-WINDOW:],
            variances=(*before.variances, variance)[-WINDOW:],
            norms=(*before.norms, norm)[-WINDOW:],
            scale=before.scale if retried else min(1.0, before.scale * RECOVER),
            rollbacks=before.rollbacks if retried else 0,
        )

    def rejected(self) -> "Guard":
        """Note a step that was undone: the next ones are smaller."""
        return replace(self, scale=self.scale * SHRINK, rollbacks=self.rollbacks + 1)
