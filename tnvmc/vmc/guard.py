"""Guards of the optimisation: limits on a step, and whether the last one is to be undone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tnvmc.backend.arguments import one_of, positive, real, set_whole
from tnvmc.backend.calls import spelt
from tnvmc.estimate.diagnostic import Diagnostic


@dataclass(frozen=True)
class Recent:
    """What the guard stores about the accepted steps; part of a checkpoint."""

    energies: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()
    variances: tuple[float, ...] = ()
    norms: tuple[float, ...] = ()  #: of the changes of theta, divided by the learning rate
    scale: float = 1.0  #: factor on the learning rate
    rollbacks: int = 0  #: in a row


@spelt()
@dataclass(frozen=True)
class Guard:
    """Limits on one step of theta, and when to undo it.

    An energy counts as a jump when it lies more than `energy_jump` robust standard deviations
    above the median of the last three accepted ones; the deviation is the larger of the typical
    error bar and of 1.4826 / sqrt(2) times the median absolute change from step to step over the
    last `window` steps (the median absolute deviation of noise on a slowly falling series).
    Falling energies are never a reason to undo.
    A variance counts as exploded above `variance_jump` times the largest recent one.
    The same factor that `shrink`s the learning rate after a jump is won back by `recover`.
    """

    window: int = 20
    energy_jump: float = 8.0
    variance_jump: float = 10.0
    norm_jump: float = 4.0
    max_relative_step: float = 0.3
    shrink: float = 0.5
    recover: float = 1.1
    patience: int = 6
    enabled: bool = True

    def __post_init__(self) -> None:
        set_whole(self, {"window": 1, "patience": 0})
        for name in ("energy_jump", "variance_jump", "norm_jump", "max_relative_step"):
            if getattr(self, name) != math.inf:  # which is a limit that is none
                positive("Guard", name, getattr(self, name))
        if (
            not 0
            < real("Guard", "shrink", self.shrink)
            <= 1
            <= real("Guard", "recover", self.recover)
        ):
            raise ValueError(
                f"Guard: shrink must lie in 0 < shrink <= 1 and recover be 1 or larger, got "
                f"{self.shrink} and {self.recover}"
            )
        one_of("Guard", "enabled", self.enabled, (True, False))

    def objection(
        self, recent: Recent, energy: float, variance: float, n_sites: int
    ) -> Diagnostic | None:
        """Say why the state that gave this estimate should be left, or give None.

        Codes: energy_not_finite; energy_jump and variance_jump with values before and after.
        """
        if not math.isfinite(energy) or not math.isfinite(variance):
            return Diagnostic("energy_not_finite", "warning")
        if not self.enabled or not recent.energies or recent.rollbacks >= self.patience:
            return None
        centre = float(np.median(recent.energies[-3:]))
        if energy - centre > self.energy_jump * self._deviation(recent, centre):
            return Diagnostic("energy_jump", "warning", {"before": centre, "after": energy})
        largest = max(recent.variances)
        # A state close to an eigenstate may double a tiny variance many times and stay good:
        # nothing has exploded before the V-score N var / E^2 is above 1e-3.
        if variance > self.variance_jump * largest and variance * n_sites > 1e-3 * energy**2:
            return Diagnostic("variance_jump", "warning", {"before": largest, "after": variance})
        return None

    def _deviation(self, recent: Recent, centre: float) -> float:
        changes = np.abs(np.diff(recent.energies))
        # One or two changes say little about what is usual; 1e-6 stands for rounding.
        floor = (5e-3 if len(changes) < 4 else 1e-6) * abs(centre)
        # Independent noise of deviation sigma changes by sqrt(2) sigma from step to step.
        typical = 1.4826 / math.sqrt(2) * float(np.median(changes)) if len(changes) else 0.0
        return max(typical, float(np.median(recent.errors)), floor)

    def shortened(self, recent: Recent, norm: float, learning_rate: float, size: float) -> float:
        """Give the factor in (0, 1] by which a direction of this norm is to be multiplied.

        `size` is the norm of theta.
        """
        if not self.enabled or norm == 0:
            return 1.0
        limits = [1.0]
        if len(recent.norms) >= 4:
            limits.append(self.norm_jump * float(np.median(recent.norms)) / norm)
        if size > 0 and learning_rate > 0:
            limits.append(self.max_relative_step * size / (learning_rate * norm))
        return min(limits)

    def accepted(
        self,
        recent: Recent,
        energy: float,
        error: float,
        variance: float,
        norm: float,
        retried: bool = False,
    ) -> Recent:
        """Add a step that stays; a learning rate that was reduced grows back a little.

        `retried` says that theta is the one gone back to, so the retry is not over yet.  After
        `patience` failed retries the recent energies no longer stand for the present state, and
        the window starts anew.
        """
        if recent.rollbacks >= self.patience:
            recent = Recent(scale=recent.scale)
        known = error if math.isfinite(error) else 0.0  # a single sample has an infinite error
        keep = self.window
        return Recent(
            energies=(*recent.energies, energy)[-keep:],
            errors=(*recent.errors, known)[-keep:],
            variances=(*recent.variances, variance)[-keep:],
            norms=(*recent.norms, norm)[-keep:],
            scale=recent.scale if retried else min(1.0, recent.scale * self.recover),
            rollbacks=recent.rollbacks if retried else 0,
        )

    def rejected(self, recent: Recent) -> Recent:
        """Note a step that was undone: the next ones are smaller."""
        return replace(recent, scale=recent.scale * self.shrink, rollbacks=recent.rollbacks + 1)
