"""Exchange of rings of tensors with quimb (J. Gray, JOSS 3(29), 819, 2018).

quimb is imported only when a state is handed to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import quimb.tensor as qtn

Array = Any

FEWEST = 3
"""Sites of a ring of tensors: between two there would be two bonds with nothing to tell them apart."""


def ring_to_quimb(tensors: Array) -> qtn.MatrixProductState:
    """Give a cyclic MatrixProductState, with quimb's names of indices, "k{site}".

    Args:
        tensors: (N, d, D, D), spin, left, right.

    Raises:
        ValueError: fewer than three sites.
    """
    import quimb.tensor as qtn

    if len(tensors) < FEWEST:
        raise ValueError(f"to_quimb: a ring of {len(tensors)} sites; at least {FEWEST} are needed")
    return qtn.MatrixProductState([np.asarray(tensor) for tensor in tensors], shape="plr")


def ring_from_quimb(state: qtn.MatrixProductState) -> np.ndarray:
    """Give the tensors (N, d, D, D) of a cyclic MPS; narrow bonds are filled up with zeros.

    A common exponent that quimb has split off is put back.

    Raises:
        TypeError: no cyclic MPS.
        ValueError: fewer than three sites, sites with other than one tensor, unequal dimensions.
    """
    if not getattr(state, "cyclic", False) or not hasattr(state, "site_ind"):
        raise TypeError(
            f"from_quimb: {type(state).__name__} is no periodic MatrixProductState; take "
            "tnvmc.from_quimb, or PEPS.from_quimb for an open one"
        )
    n_sites = int(state.L)
    if n_sites < FEWEST:
        raise ValueError(f"from_quimb: a ring of {n_sites} sites; at least {FEWEST} are needed")
    found = [state.select_tensors(state.site_tag(site)) for site in range(n_sites)]
    if any(len(tensors) != 1 for tensors in found):
        raise ValueError(
            "from_quimb: sites with other than one tensor; contract the network to one tensor per site "
            "first, and keep its site tags"
        )
    tensors = [each[0] for each in found]
    arrays = []
    for site, tensor in enumerate(tensors):
        (left,) = tensor.bonds(tensors[site - 1])
        (right,) = tensor.bonds(tensors[(site + 1) % n_sites])
        arrays.append(np.asarray(tensor.transpose(state.site_ind(site), left, right).data))
    dims = {array.shape[0] for array in arrays}
    if len(dims) > 1:
        raise ValueError(f"from_quimb: sites of dimensions {sorted(dims)}; all must have the same")
    D = max(max(array.shape[1:]) for array in arrays)
    scale = 10.0 ** (float(getattr(state, "exponent", 0.0)) / n_sites)
    found_type = np.result_type(np.float32, *arrays)
    filled = np.zeros((n_sites, dims.pop(), D, D), found_type)
    for place, array in zip(filled, arrays, strict=True):
        place[:, : array.shape[1], : array.shape[2]] = array * scale
    return filled
