"""Weights on the bonds of a PEPS that say which states of a bond matter least, and the cut to fewer.

Gates of one change no amplitude; repeated on all bonds they bring a PEPS into the form that imaginary time in
small steps would keep, in which each bond has the weights of a Schmidt decomposition, if the rest of the network is a
tree: Ran, Li, Yan and Su, Phys. Rev. B 86, 134429 (2012).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tnvmc.ansatz.initial.gates import idle_gates
from tnvmc.ansatz.initial.updates import update_neighbours
from tnvmc.ansatz.initial.vidal import VidalPEPS
from tnvmc.lattice.embedding import Embedding

Array = Any

_SWEEPS = 200  # at most; optimised states of 4x4 to 12x12 sites, D = 4 and 5, take 16 to 42
_SETTLED = 1e-8  # change of a weight in one sweep


def settle(state: VidalPEPS) -> None:
    """Bring a state, in place, into the form that gates of one leave as it is; its amplitudes stay.

    Cost per bond and sweep: d D^5 and an SVD of (d^2 D) x (d^2 D); at most 200 sweeps.
    """
    batches = idle_gates(state.found, state.tensors.shape[1])
    for _ in range(_SWEEPS):
        before = state.weights.copy()
        for batch in batches:
            update_neighbours(state, batch, batch.matrices)
        if np.abs(state.weights - before).max() < _SETTLED:
            break


def cut(tensors: Sequence[Array], found: Embedding, D: int) -> tuple[list[Array], float]:
    """Keep the D states of largest weight on every bond.

    Exact where a bond needs no more of them, as on a tree for a bond of rank D.  With loops it is an
    approximation, good enough to begin an optimisation: see `docs/decisions/036-cut-states.md`.

    Args:
        tensors: (d, up, left, down, right) of each site.
        found: the bonds of the network.
        D: largest bond of the result.

    Returns:
        Tensors of norm 1, with the bonds in use of size D; and the largest weight that a bond lost, as a share of the sum of
        squares of its weights.  It is no error of the energy.

    Raises:
        ValueError: tensors that do not fit the grid, are zero or not finite; a state that vanishes.
    """
    for site, tensor in enumerate(tensors):
        if not np.isfinite(tensor).all() or not np.any(tensor):
            raise ValueError(f"cut: the tensor of site {site} is zero or not finite")
    largest = max(D, *(max(tensor.shape[1:]) for tensor in tensors))
    state = VidalPEPS.from_peps(tensors, found, largest, is_complex=False)
    try:
        with np.errstate(divide="ignore", invalid="ignore"):
            settle(state)
    except np.linalg.LinAlgError:  # weights of a state that vanishes are not finite
        raise ValueError("cut: the state vanishes, or its numbers are out of range") from None
    inside = tuple(slice(min(size, D)) for size in state.tensors.shape[2:])
    lost = float((state.weights[:, D:] ** 2).sum(axis=1).max())
    state.tensors = np.ascontiguousarray(state.tensors[(..., *inside)])
    state.weights = state.weights[:, :D]
    return state.to_peps(), lost
