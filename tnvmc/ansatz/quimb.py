"""Exchange of tensors with quimb (J. Gray, JOSS 3(29), 819, 2018): grids, chains and rings.

Legs are matched by the names of quimb's indices, never by their order, so a network that quimb
has permuted comes back right.  quimb is imported only when a state is handed to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tnvmc.lattice.grids import chain, square
from tnvmc.lattice.lattice import Lattice

if TYPE_CHECKING:
    import quimb.tensor as qtn

Array = Any

_FEWEST = 3
"""Sites of a ring of tensors: between two there would be two bonds with nothing to tell them
apart."""


def grid_to_quimb(
    tensors: Sequence[Array], shape: tuple[int, int]
) -> qtn.PEPS | qtn.MatrixProductState:
    """Give a quimb PEPS, or a MatrixProductState for a grid of one row, with its default indices.

    Tensors (d, up, left, down, right) come row by row; legs of the rim are dropped.
    """
    import quimb.tensor as qtn

    n_rows, n_cols = shape
    # quimb counts rows upwards: its "up" leads to the row with the next higher index
    wanted = "lrp" if n_rows == 1 else "urdlp"
    arrays = []
    for site, tensor in enumerate(tensors):
        rim = _rim(site, shape)
        letters = "p" + "".join("dlur"[leg] for leg in range(4) if leg not in rim)
        array = np.asarray(tensor).squeeze(axis=tuple(leg + 1 for leg in rim))
        arrays.append(array.transpose([letters.index(x) for x in wanted if x in letters]))
    if n_rows == 1:
        return qtn.MatrixProductState(arrays, shape=wanted)
    rows = [arrays[r * n_cols : (r + 1) * n_cols] for r in range(n_rows)]
    return qtn.PEPS(rows, shape=wanted)


def grid_from_quimb(state: qtn.PEPS | qtn.MatrixProductState) -> tuple[Lattice, list[Array]]:
    """Give the grid and the tensors of a quimb PEPS or MPS with open boundaries.

    The grid is an open square lattice (a chain for an MPS), tensors are (d, up, left, down, right),
    row by row.  Bonds that quimb has fused or dropped come back as one leg, of size 1 where there
    is none; a common exponent that it has split off is put back.

    Raises:
        TypeError: no PEPS and no MPS.
        ValueError: sites with other than one tensor each, other indices than those of an open grid,
            unequal physical dimensions.
    """
    shape, found = _read(state, cyclic=False)
    return square(*shape) if hasattr(state, "Lx") else chain(shape[1]), found


def _read(state: Any, cyclic: bool) -> tuple[tuple[int, int], list[Array]]:
    """Shape of the grid, and tensors (d, up, left, down, right) row by row."""
    shape = _shape(state)
    n_cols, n_sites = shape[1], prod(shape)
    names = [divmod(site, n_cols) if hasattr(state, "Lx") else site for site in range(n_sites)]
    site_tensors = [_only(state, name) for name in names]
    scale = 10.0 ** (float(getattr(state, "exponent", 0.0)) / n_sites)
    found: list[Array] = []
    for site, name in enumerate(names):
        tensor, rim = site_tensors[site], (0, 2) if cyclic else _rim(site, shape)
        order = [[state.site_ind(name)]]
        for leg, step in enumerate((-n_cols, -1, n_cols, 1)):
            near = site_tensors[(site + step) % n_sites]
            order.append([] if leg in rim else sorted(tensor.bonds(near)))
        inds = [ind for group in order for ind in group]
        if set(inds) != set(tensor.inds):
            raise ValueError(
                f"from_quimb: site {name} has the indices {tensor.inds}, but its spin and its "
                f"bonds to neighbours on the {'ring' if cyclic else 'open grid'} are "
                f"{tuple(inds)}; other periodic states and operators are not supported"
            )
        sizes = [prod(tensor.ind_size(ind) for ind in group) for group in order]
        array = np.asarray(tensor.transpose(*inds).data).reshape(sizes)
        found.append(array if scale == 1.0 else array * scale)
        if sizes[0] != found[0].shape[0]:
            raise ValueError(
                f"from_quimb: site {name} has the physical dimension {sizes[0]}, site {names[0]} "
                f"{found[0].shape[0]}; all sites must have the same"
            )
    return shape, found


def _shape(state: Any) -> tuple[int, int]:
    """Rows and columns of the grid; TypeError for what is no state of one."""
    if hasattr(state, "site_ind") and not hasattr(state, "Lz"):
        if hasattr(state, "Lx"):
            return int(state.Lx), int(state.Ly)
        if hasattr(state, "L"):
            return 1, int(state.L)
    hint = "give a network with one tensor and one physical index per site of a grid or a chain"
    if hasattr(state, "lower_ind"):
        hint = "an operator is taken as LocalHam1D, LocalHam2D, LocalHamGen, SparseOperatorBuilder"
    what = f"{type(state).__name__} is neither a PEPS nor a MatrixProductState of quimb"
    raise TypeError(f"from_quimb: {what}; {hint}")


def _only(state: Any, name: Any) -> Any:
    tag = state.site_tag(name)
    tensors: Sequence[Any] = state.select_tensors(tag) if tag in state.tag_map else ()
    if len(tensors) != 1:
        raise ValueError(
            f"from_quimb: site {name} has {len(tensors)} tensors with the tag {tag!r}; contract "
            "the network to one tensor per site first, and keep its site tags"
        )
    return tensors[0]


def _rim(site: int, shape: tuple[int, int]) -> list[int]:
    """Legs (0 up, 1 left, 2 down, 3 right) that end at the rim."""
    row, column = divmod(site, shape[1])
    ends = (row == 0, column == 0, row == shape[0] - 1, column == shape[1] - 1)
    return [leg for leg in range(4) if ends[leg]]


def ring_to_quimb(tensors: Array) -> qtn.MatrixProductState:
    """Give a cyclic MatrixProductState of tensors (N, d, D, D): spin, left, right.

    Raises:
        ValueError: fewer than three sites.
    """
    import quimb.tensor as qtn

    if len(tensors) < _FEWEST:
        raise ValueError(f"to_quimb: a ring of {len(tensors)} sites; at least {_FEWEST} are needed")
    return qtn.MatrixProductState([np.asarray(tensor) for tensor in tensors], shape="plr")


def ring_from_quimb(state: qtn.MatrixProductState) -> np.ndarray:
    """Give the tensors (N, d, D, D) of a cyclic MPS; narrow bonds are filled up with zeros.

    A common exponent that quimb has split off is put back.

    Raises:
        TypeError: no state of a chain.
        ValueError: fewer than three sites, sites with other than one tensor, unequal dimensions.
    """
    _shape(state)
    n_sites = int(state.L)
    if n_sites < _FEWEST:
        raise ValueError(f"from_quimb: a ring of {n_sites} sites; at least {_FEWEST} are needed")
    tensors = [tensor[:, 0, :, 0, :] for tensor in _read(state, cyclic=True)[1]]
    D = max(max(tensor.shape[1:]) for tensor in tensors)
    filled = np.zeros((n_sites, len(tensors[0]), D, D), np.result_type(np.float32, *tensors))
    for place, tensor in zip(filled, tensors, strict=True):
        place[:, : tensor.shape[1], : tensor.shape[2]] = tensor
    return filled
