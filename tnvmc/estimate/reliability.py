"""Whether an error bar can be trusted: what the samples themselves tell against it."""

import math
from typing import Any

import numpy as np

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.mixing import ENOUGH, MANY, OUTLASTED, r_hat_limit, r_hat_of
from tnvmc.estimate.statistics import BINS_FOR_AN_ERROR, INDEPENDENT_TAU, TAUS_PER_BIN, Estimate
from tnvmc.sampling.problem import SampleInfo

HEAVY_TAIL = 0.85
"""Of the variance, in one of `MANY` samples or more.  Local energies close to an eigenstate have
more than 0.5 in one of 512 samples in 7.5 % of measurements (Heisenberg 3x4, 16 walkers) and more
than 0.8 in 0.5 %, and their error bars, which are widened from 0.2 on, hold."""

LEAST_CHANGED = 0.35
"""Part of the draws that differ from the one before, at least.  XXZ 3x4, Delta = 3, where half of
the measurements of 256 samples miss what matters: 0.13 to 0.33."""

_LEAST_PART, _LEAST_EFFECTIVE = 0.1, 30.0
"""Effective samples of a weighted draw: part of all, and number, at least."""

_FEWEST_ALONE = 4  # walkers whose own scatter is an error, as wide as Student's t has it

_SPREAD_OF_ROUNDING = 1e-9  # of closures: what sums of thousands of products may leave, and more

LARGEST_SPREAD = 0.1
"""Beyond it psi is no function of the configuration, however little the samples resolve."""

LEAST_SCATTER = 1e-5
"""Of the mean: standard deviation of values whose walkers can disagree by what matters.  TFIM 3x3,
h = 30, 30 steps, close to a product state: 2e-6, R-hat 1.27, and the energy is right to 1e-7."""


def doubts(
    estimated: Estimate, n_walkers: int, limits: tuple[str, ...] = ("n_samples",), *,
    effective: float | None = None, changed: float | None = None, moved: float | None = None,
) -> tuple[Diagnostic, ...]:  # fmt: skip
    """Give what makes the error bar of drawn samples less certain than it looks.

    Codes: walkers_disagree (R-hat beyond `mixing.r_hat_limit`, scatter beyond `LEAST_SCATTER`),
    few_walkers (chains of less than 8 walkers, too short to be cut into independent parts; a
    handful of independent samples), heavy_tail (one sample makes nearly all of the variance),
    few_configurations (two draws of three are the configuration before them, and the rest decides
    the error; not told where its neighbours are known to move the mean by less than an error),
    few_effective_samples.

    Args:
        limits: names of what is to be raised where weights are uneven.
        effective: samples that weighted ones are worth.
        changed: see `changed_part`.
        moved: by how many errors the neighbours of few configurations move the mean, where known.
    """
    if not math.isfinite(estimated.tau):
        return ()
    found: list[Diagnostic] = []
    values: dict[str, Any] = {}
    n_samples, r_hat, share = estimated.n_samples, estimated.r_hat, estimated.largest_share
    draws = n_samples / n_walkers
    limit = r_hat_limit(math.ceil(draws), n_walkers)
    if r_hat > limit and math.sqrt(estimated.variance) > LEAST_SCATTER * abs(estimated.mean):
        values = {"r_hat": None if math.isinf(r_hat) else r_hat, "limit": limit}
        found.append(Diagnostic("walkers_disagree", "warning", values))
    tau = max(estimated.tau, INDEPENDENT_TAU)
    if n_walkers < ENOUGH and not _long_enough(n_walkers, draws, tau):
        values = {"n_walkers": n_walkers, "draws": draws, "tau": tau}
        found.append(Diagnostic("few_walkers", "warning", values))
    if n_samples >= MANY and share > HEAVY_TAIL:
        found.append(Diagnostic("heavy_tail", "warning", {"share": share, "n_samples": n_samples}))
    harmless = moved is not None and moved <= 1
    if changed is not None and changed < LEAST_CHANGED and not harmless:
        values = {"changed": changed, "n_samples": n_samples}
        if moved is not None:
            values["by_neighbours"] = moved if math.isfinite(moved) else None
        found.append(Diagnostic("few_configurations", "warning", values))
    if effective is not None and effective < max(
        _LEAST_PART * n_samples, min(_LEAST_EFFECTIVE, 0.5 * n_samples)
    ):
        worth = {"n_samples": n_samples, "effective_samples": effective, "raise": [*limits]}
        found.append(Diagnostic("few_effective_samples", "warning", worth))
    return tuple(found)


def of_chains(info: SampleInfo, n_samples: int) -> tuple[Diagnostic, ...]:
    """one_draw: of each Markov chain, so that how they mix is not seen."""
    if info.acceptance is None or n_samples > info.n_walkers:
        return ()
    return (Diagnostic("one_draw", "warning", {"n_walkers": info.n_walkers}),)


def changed_part(configs: np.ndarray, n_walkers: int) -> float | None:
    """Give the part of the draws (M, N) that differ from the one before them of the same walker.

    Of independent draws the one before is another walker's.  None for a single sample.
    """
    draws = configs.reshape(-1, n_walkers, configs.shape[1])
    if len(draws) == 1:
        draws = draws.reshape(-1, 1, configs.shape[1])
    if len(draws) < 2:
        return None
    return float((draws[1:] != draws[:-1]).any(axis=2).mean())


def _long_enough(n_walkers: int, draws: float, tau: float) -> bool:
    """Whether chains of few walkers can be cut into parts that are independent for sure.

    What is seen of the tau of less than four walkers is too small where chains are short.
    """
    parts = 1 if n_walkers >= _FEWEST_ALONE else BINS_FOR_AN_ERROR / n_walkers
    return draws >= parts * TAUS_PER_BIN * tau


def slowest(ratios: np.ndarray, n_draws: float, n_walkers: int) -> Diagnostic | None:
    """Judge many quantities by how far walkers disagree: the worst one, where it is too far.

    The limit grows with their number: the worst of 500 is farther off by chance than one.  A tau of
    2 draws counts as well mixed for any length.  `ratios` (T,) are n_draws times the variance
    between over that within walkers, 2 tau; halves of the chains are what the limit is made for.
    """
    if not ratios.size or n_walkers < 2 or n_draws < 2:
        return None
    worst = int(np.argmax(ratios))
    n = math.floor(n_draws)
    r_hat = r_hat_of(float(ratios[worst]), n)
    # Whole chains of n draws, to be compared as if they were the halves of twice as long ones.
    limit = r_hat_limit(2 * n, max(2, n_walkers // 2), ratios.size, OUTLASTED)
    if not r_hat > limit:
        return None
    values = {"r_hat": None if math.isinf(r_hat) else r_hat, "limit": limit, "term": worst}
    return Diagnostic("walkers_disagree", "warning", values)


def closure_threshold(off_diagonal: float, error: float) -> float:
    """Give the closure spread above which truncation may show in the energy.

    It is `LARGEST_SPREAD` at most.  Errors of ln|psi(s)| that differ without aim by a spread s
    raise the energy at second order by about s^2 |E'|, with the part E' of the energy that
    off-diagonal elements of H make.  So s^2 is to stay below the error of the energy over that: s <
    sqrt(sigma / |E'|).  It is no bound: errors that go with the sign of an element may do more, and
    so may those of the weights |psi|^2 where H is diagonal.  The scan of chi after a run sees both.
    """
    threshold = math.sqrt(error / max(abs(off_diagonal), 1e-300))
    return min(max(threshold, _SPREAD_OF_ROUNDING), LARGEST_SPREAD)
