"""Means and errors of thousands of terms from any number of samples, in bounded memory."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tnvmc.backend.namespace import to_host
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.mixing import bins_or_walkers, error_of_mean
from tnvmc.estimate.reliability import LEAST_SCATTER, slowest
from tnvmc.sampling import FEWEST_WALKERS

Array = Any

N_BLOCKS = 64
"""Groups of walkers; an error from the scatter of 64 is 9 % uncertain."""


class Blocks:
    """Weighted sums of T terms, apart for each of some independent blocks of samples.

    Blocks are walkers, which are independent of each other however long their autocorrelation (in
    up to `N_BLOCKS` groups).  With fewer than `FEWEST_WALKERS` every call of `add` makes new
    blocks, one for each walker, which must then be longer than the autocorrelation time.
    Errors are by the jackknife over blocks: for a linear function of the means, such as a structure
    factor, that is the scatter of its values in the blocks, correlations between terms included,
    widened as that of `mixing.error_of_mean`.  Where whole walkers, few as they are, scatter more
    than blocks of their chains allow, the error is theirs.

    `exact` samples enumerate all configurations: errors are 0.  Memory: blocks times T numbers.
    """

    def __init__(self, *, exact: bool = False) -> None:
        self.exact = exact
        self.n_samples = 0
        self._sums: list[np.ndarray] = []  #: per layer of blocks (G, T)
        self._weights: list[np.ndarray] = []  #: per layer (G,)
        self._square = 0.0
        self._squares: np.ndarray | float = 0.0  #: sums of w x^2 (T,)
        self._walkers = 0

    def add(self, values: Array, weight: Array | None = None, n_walkers: int = 1) -> None:
        """Add samples (M, T) in draw-major order, of which real parts count.

        Weights (M,) are on one scale over all calls; `n_walkers` are independent ones among these
        samples: chains, or all direct draws.
        """
        x = np.asarray(to_host(values)).real.astype(np.float64, copy=False)
        n_samples = len(x)
        w = np.ones(n_samples) if weight is None else np.asarray(to_host(weight), np.float64)
        # Values without weight may be anything (psi = 0), and 0 * inf would spoil the sum.
        x = np.where((w > 0)[:, None], x, 0.0)
        few = not self.exact and max(n_walkers, self._walkers) < FEWEST_WALKERS
        n_blocks = 1 if self.exact else n_walkers if few else N_BLOCKS
        block = np.arange(n_samples) % n_walkers % n_blocks
        membership = (block[None, :] == np.arange(n_blocks)[:, None]) * w
        sums, weights = membership @ x, membership.sum(axis=1)
        if few or not self._sums:
            self._sums.append(sums)
            self._weights.append(weights)
        else:
            self._sums[0] += sums
            self._weights[0] += weights
        self._square += float((w**2).sum())
        self._squares = self._squares + w @ x**2
        self._walkers = max(self._walkers, n_walkers)
        self.n_samples += n_samples

    @property
    def effective_samples(self) -> float:
        """(sum w)^2 / sum w^2, the number of samples without weights."""
        total = float(sum(weights.sum() for weights in self._weights))
        return total**2 / self._square if self._square else 0.0

    def mean(self) -> np.ndarray:
        """Means of the terms: (T,); ValueError if all weights are 0."""
        return self._without()[0]

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Tell of blocks that disagree: chains too slow for the term with the longest of them.

        Code walkers_disagree, with the R-hat of that term and its place; for weighted samples the
        disagreement of weights counts too.  Code amplitudes_vanish where values are NaN.
        """
        if np.isnan(self._squares).any():
            return (Diagnostic("amplitudes_vanish", "warning"),)
        if self.exact or self._walkers < 2:
            return ()
        n_draws = self.n_samples / self._walkers
        mean, without = self._without(by_walkers=True)
        n = len(without)
        if n < 2:
            return ()
        weight = sum(float(weights.sum()) for weights in self._weights)
        variance = self._squares / weight - mean**2
        # Values that hardly scatter are right whatever their walkers do.
        seen = variance > LEAST_SCATTER**2 * np.maximum(mean**2, self._squares / weight)
        # Of walker means; groups of walkers have that much less.
        between = (n - 1) * ((without - without.mean(axis=0)) ** 2).sum(axis=0)
        between = between * self._walkers / n
        within = np.maximum(variance - between, _LEAST_WITHIN * variance)
        ratios = np.where(seen, n_draws * between / np.where(seen, within, 1.0), 0.0)
        found = slowest(ratios, n_draws, n)
        return () if found is None else (found,)

    def _without(self, by_walkers: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Means over all blocks (T,), and leaving out each block (G, T); no rows for one block."""
        if by_walkers and not self.exact:
            # Layers of few walkers are their chains one after another.
            sums, weights = (np.sum(parts, axis=0) for parts in (self._sums, self._weights))
        else:
            sums, weights = np.concatenate(self._sums), np.concatenate(self._weights)
        total, weight = sums.sum(axis=0), weights.sum()
        if weight <= 0:
            raise ValueError("Blocks: all weights are 0")
        rest = weight - weights
        usable = (rest > 0) & (weights > 0)  # with fewer walkers than blocks some are empty
        if self.exact or usable.sum() < 2:
            return total / weight, np.empty((0, len(total)))
        return total / weight, (total - sums[usable]) / rest[usable, None]

    def derive(
        self, function: Callable[[np.ndarray], Any] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """A function (T,) -> (K,) of the means, by default the means themselves, and its errors.

        Both (K,), also of a function that gives one number.  The error is inf where there is one
        block only.  The bias of a function that is not linear, of order 1 / samples, is taken off.

        Source: B. Efron, The jackknife, the bootstrap and other resampling plans (1982).
        """

        def apply(means: np.ndarray) -> np.ndarray:
            return means if function is None else np.atleast_1d(function(means))

        mean, without = self._without()
        whole = apply(mean)
        if self.exact:
            return whole, np.zeros(whole.shape)
        n = len(without)
        if n < 2:
            return whole, np.full(whole.shape, np.inf)
        partial = np.array([apply(row) for row in without])
        centre = partial.mean(axis=0)
        blocks = (n - 1) * (partial - centre)
        error = error_of_mean(blocks)
        if len(self._sums) > 1 and self._walkers > 1:
            walkers = np.array([apply(row) for row in self._without(by_walkers=True)[1]])
            pseudo = (len(walkers) - 1) * (walkers - walkers.mean(axis=0))
            error = bins_or_walkers(blocks, pseudo)[1]
        if function is not None:
            whole = n * whole - (n - 1) * centre
        return whole, error


_LEAST_WITHIN = 1e-6  # of the variance, where walkers do not move at all
