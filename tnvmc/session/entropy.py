"""Renyi-2 entropies of blocks of sites, by exchanging a block between two copies of a state.

For samples s, s' of the copies, t, t' with the block exchanged, the purity Tr rho^2 of the block is
the overlap of psi psi with psi psi exchanged: the mean of cos(arg z) / cosh(ln |z|) with z =
psi(t) psi(t') / (psi(s) psi(s')), see `estimate.bridge`.  The mean of z itself (M. B. Hastings, I.
Gonzalez, A. B. Kallin and R. G. Melko, PRL 104, 157201 (2010)) is the same with a relative variance
1 / P^2 for a purity P, instead of 1 / P at most where psi has no signs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.backend.arguments import shortly
from tnvmc.backend.namespace import to_host
from tnvmc.estimate.diagnostic import Diagnostic, warn_of
from tnvmc.estimate.reliability import doubts, of_chains
from tnvmc.estimate.statistics import estimate_samples
from tnvmc.operators.fermions import Strings
from tnvmc.operators.term import Operator
from tnvmc.sampling import streams
from tnvmc.session.overlaps import as_vmc, sampled
from tnvmc.shown import Result, with_error
from tnvmc.vmc.orthogonal import SampledState

LARGEST_ERROR = 0.3
"""Of the purity, relative, up to which its logarithm has an error bar that holds."""


@dataclass(frozen=True, repr=False)
class Entropy(Result):
    """The Renyi-2 entropy S2 = -ln Tr rho^2 of a block; made by `renyi2`."""

    entropy: float  #: inf where the purity is not above 0
    error: float  #: its standard error
    purity: float  #: Tr rho^2
    purity_error: float
    sites: tuple[int, ...]  #: of the block
    diagnostics: tuple[Diagnostic, ...] = ()

    def _line(self) -> str:
        return f"S2 of {len(self.sites)} sites {with_error(self.entropy, self.error)}"


def renyi2(
    state: Any,
    sites: Sequence[int] | None = None,
    n_samples: int | None = None,
    chi: int | None = None,
    operator: Operator | None = None,
) -> Any:
    """Estimate the Renyi-2 entropy of a block of sites, or of the columns from the left.

    >>> tnvmc.renyi2(vmc, [0, 1, 4, 5], n_samples=4096).entropy  # doctest: +SKIP

    Args:
        state, chi, operator: as of `overlap`.
        sites: the block; None: one column, two columns, ... from the left.
        n_samples: pairs of samples; by default the samples of a step.

    Of fermions it is that of the modes of the block.  An enumeration has no noise.

    Returns:
        `Entropy`, or a list of them where `sites` is None.

    Cost: two samples a pair, and for each block the amplitudes of two more configurations.
    """
    vmc, symmetries = as_vmc("renyi2", state, operator)
    lattice = vmc.operator.lattice
    columns = np.asarray(lattice.places) % lattice.n_cols
    masks = [columns < n for n in range(1, lattice.n_cols)]
    masks = masks if sites is None else [_mask(sites, lattice.n_sites)]
    one = sampled(vmc, n_samples, chi, streams.OVERLAP, symmetries)
    other = one
    if not one.info.exact:
        other = sampled(vmc, n_samples, chi, streams.OVERLAP + 1, symmetries)
    found = [_entropy(one, other, mask, vmc.operator.strings) for mask in masks]
    warn_of((told for each in found for told in each.diagnostics), "renyi2")
    return found if sites is None else found[0]


def _mask(sites: Any, n_sites: int) -> np.ndarray:
    """Mark the sites of a block."""
    try:
        given = [*map(float, sites)]
    except (TypeError, ValueError):
        given = []
    inside = np.isin(np.arange(n_sites), given)
    if inside.sum() != len(given) or inside.all() or not given:
        raise ValueError(
            f"renyi2: sites = {shortly(sites)}; a block is some of the sites 0..{n_sites - 1}, as "
            "[0, 1, 4, 5], each once, and not all of them"
        )
    return inside


def _entropy(
    one: SampledState, other: SampledState, mask: np.ndarray, strings: Strings | None
) -> Entropy:
    told: tuple[Diagnostic, ...] = ()
    sites = tuple(np.flatnonzero(mask).tolist())
    if one.info.exact:
        purity, error = _exact_purity(one, mask, strings), 0.0
    else:
        found = estimate_samples(*_exchanged(one, other, mask, strings), one.info)
        purity, error = found.mean, found.error
        told = (*doubts(found, one.info.n_walkers), *of_chains(one.info, found.n_samples))
        if not purity > 0 or error > LARGEST_ERROR * purity:
            values = {"sites": len(sites), "purity": purity, "error": error}
            told = (*told, Diagnostic("purity_unresolved", "warning", values))
    if not purity > 0:
        return Entropy(math.inf, math.inf, purity, error, sites, told)
    return Entropy(0.0 - math.log(purity), error / purity, purity, error, sites, told)


def _exchanged(
    one: SampledState, other: SampledState, mask: np.ndarray, strings: Strings | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Values (M,) whose mean is the purity, and their weights."""
    n = one.info.n_walkers  # each with another one: two that began at one place are no pair
    roll = np.roll(np.arange(len(one.snapshot.configs)).reshape(-1, n), n // 2, axis=1).ravel()
    s, t = to_host(one.snapshot.configs), to_host(other.snapshot.configs)[roll]
    weights = [x.snapshot.weight for x in (one, other)]
    weight = None if weights[0] is None else to_host(weights[0]) * to_host(weights[1])[roll]
    differ = (s != t)[:, mask].any(axis=1) & (s != t)[:, ~mask].any(axis=1)
    values, s, t = np.ones(len(s)), s[differ], t[differ]  # 1 where nothing changes
    if not len(s):
        return values, weight
    phase: Any = 1.0
    log_abs: Any = 0.0
    for state, rows in ((one, differ), (other, roll[differ])):
        own = state.snapshot.amplitude
        phase = phase * np.conj(to_host(own.phase)[rows])
        log_abs = log_abs - to_host(own.log_abs)[rows]
    exchanged = np.where(mask, t, s), np.where(mask, s, t)
    for configs in exchanged:
        found = one.amplitudes(configs)
        with np.errstate(invalid="ignore"):  # psi = 0 there or here: the phase says so
            phase, log_abs = phase * to_host(found.phase), log_abs + to_host(found.log_abs)
    if strings is not None:
        phase = phase * np.prod([_signs(strings, mask, x) for x in (s, t, *exchanged)], axis=0)
    gap = np.where(phase == 0, 0.0, log_abs).clip(-300, 300)
    values[differ] = np.real(phase) / np.cosh(gap)
    return values, weight


def _signs(strings: Strings, mask: np.ndarray, configs: np.ndarray) -> np.ndarray:
    """Give +-1 (M,) for putting the modes of a block before the others."""
    order = list(strings.order)
    odd, inside = np.array(strings.fermions.odd)[configs.astype(int)][:, order], mask[order]
    crossed = (odd * inside * np.cumsum(odd * ~inside, axis=1)).sum(axis=1)
    return np.asarray(1.0 - 2.0 * (crossed % 2))


def _exact_purity(state: SampledState, mask: np.ndarray, strings: Strings | None) -> float:
    """The purity from the amplitudes of all configurations."""
    configs, weight = to_host(state.snapshot.configs), to_host(state.snapshot.weight)
    psi = to_host(state.snapshot.amplitude.phase) * np.sqrt(weight)
    psi = psi if strings is None else psi * _signs(strings, mask, configs)
    rows, columns = (
        np.unique(configs[:, part], axis=0, return_inverse=True)[1].ravel()
        for part in (mask, ~mask)
    )
    matrix = np.zeros((rows.max() + 1, columns.max() + 1), dtype=psi.dtype)
    matrix[rows, columns] = psi
    matrix = matrix if len(matrix) <= matrix.shape[1] else matrix.T
    return float((np.abs(matrix @ matrix.conj().T) ** 2).sum())
