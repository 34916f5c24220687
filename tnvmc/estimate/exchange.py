"""Pairs of neighbours whose exchange parity a state holds fixed, which H does not conserve."""

import math
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Snapshot
from tnvmc.backend.namespace import to_host
from tnvmc.lattice.lattice import Patch
from tnvmc.lattice.permutations import Symmetry
from tnvmc.operators.symmetry import which_commute
from tnvmc.operators.term import Operator

Array = Any

_CLOSE = 1e-2
"""Largest distance of a ratio from +-1 that counts as none."""

_FEWEST = 16
"""Samples with two different local states on the pair, below which nothing is said."""


def fixed_exchanges(operator: Operator, snapshot: Snapshot) -> dict[Patch, int]:
    """Give pairs (i, j) with psi(exchanged) = +psi or -psi in all samples, and which of the two.

    Only pairs on which H has an off-diagonal element that exchanges them, whose ratios a snapshot
    has, and only where H does not commute with the exchange: a gradient leaves such a parity as it
    is, and the ground state has it by accident at most.  A pair that is never unlike, or all of
    whose samples are, is one of +1 or -1 as well, if there are enough of them.

    Cost: a look at all ratios of pairs, and a commutator for each pair that is found.
    """
    configs = np.asarray(to_host(snapshot.configs))
    if snapshot.weight is None:
        counted = np.ones(len(configs), bool)
    else:  # where psi is 0 it has no ratios
        counted = np.asarray(to_host(snapshot.weight)) > 0
    found: dict[Patch, int] = {}
    for patch, replacement in operator.replacements.items():
        if len(patch) != 2 or patch not in snapshot.ratios:
            continue
        every = np.asarray(to_host(snapshot.ratios[patch]))[counted]
        ratios = _exchanged(configs[counted][:, list(patch)], every, replacement.targets)
        if ratios is None or len(ratios) < _FEWEST:
            continue
        for parity in (1, -1):
            if np.abs(ratios - parity).max() < _CLOSE:
                found[patch] = parity
    elements = [Symmetry("exchange", _swapped(pair, operator.n_sites)) for pair in found]
    conserved = which_commute(operator, elements)
    return {pair: found[pair] for pair, kept in zip(found, conserved, strict=True) if not kept}


def _exchanged(pairs: np.ndarray, ratios: np.ndarray, targets: np.ndarray) -> Array:
    """psi(exchanged) / psi of the samples (M, 2) that are unlike; None where one is missing."""
    d = math.isqrt(len(targets))
    unlike = pairs[:, 0] != pairs[:, 1]
    here = pairs[unlike].astype(np.int64)
    hit = targets[here @ [d, 1]] == (here @ [1, d])[:, None]
    if not hit.any(axis=1).all():
        return None
    return ratios[unlike][np.arange(len(here)), hit.argmax(axis=1)]


def _swapped(pair: Patch, n_sites: int) -> tuple[int, ...]:
    order = list(range(n_sites))
    order[pair[0]], order[pair[1]] = pair[1], pair[0]
    return tuple(order)
