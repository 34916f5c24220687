"""Exchange of states with quimb (J. Gray, JOSS 3(29), 819, 2018).

Legs are matched by the names of quimb's indices, never by their order, so a network that quimb
has permuted comes back right.  quimb is imported only when a state goes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import quimb.tensor as qtn

Array = Any


def to_quimb(tensors: Sequence[Array], shape: tuple[int, int]) -> qtn.PEPS | qtn.MatrixProductState:
    """Give a quimb PEPS, or a MatrixProductState for a grid of one row.

    `tensors` are (d, up, left, down, right), row by row; legs of the rim are dropped.  Physical
    indices carry quimb's default names, "k{row},{column}" and "k{site}".

    Raises:
        ValueError: tensors that do not fit the shape.
    """
    import quimb.tensor as qtn

    n_rows, n_cols = shape
    if len(tensors) != n_rows * n_cols:
        raise ValueError(f"to_quimb: {len(tensors)} tensors for a grid of {shape}")
    arrays = [
        np.asarray(tensor).squeeze(axis=tuple(leg + 1 for leg in _rim(site, shape)))
        for site, tensor in enumerate(tensors)
    ]
    if n_rows == 1:
        letters = ["p" + "".join("lr"[leg // 2] for leg in _inner(s, shape)) for s in range(n_cols)]
        in_order = [_reordered(a, own, "lrp") for a, own in zip(arrays, letters, strict=True)]
        return qtn.MatrixProductState(in_order, shape="lrp")
    # quimb counts rows upwards: its "up" leads to the row with the next higher index
    letters = ["p" + "".join("dlur"[leg] for leg in _inner(s, shape)) for s in range(len(arrays))]
    in_order = [_reordered(a, own, "urdlp") for a, own in zip(arrays, letters, strict=True)]
    rows = [in_order[r * n_cols : (r + 1) * n_cols] for r in range(n_rows)]
    return qtn.PEPS(rows, shape="urdlp")


def from_quimb(state: qtn.PEPS | qtn.MatrixProductState) -> list[Array]:
    """Give tensors (d, up, left, down, right), row by row, from a quimb PEPS or MPS.

    Only open boundaries; bonds that quimb has fused or dropped come back as one leg, of size 1
    where there is none.  A common exponent that quimb has split off is put back.

    Raises:
        ValueError: sites with other than one tensor each, or bonds beyond nearest neighbours.
    """
    shape = (int(state.Lx), int(state.Ly)) if hasattr(state, "Lx") else (1, int(state.L))
    n_cols = shape[1]
    coordinates: list[Any] = [divmod(site, n_cols) for site in range(shape[0] * n_cols)]
    names = coordinates if hasattr(state, "Lx") else list(range(n_cols))
    site_tensors = [_only(state, name) for name in names]
    found = []
    for site, name in enumerate(names):
        tensor = site_tensors[site]
        order = [[state.site_ind(name)]]
        for leg, step in enumerate((-n_cols, -1, n_cols, 1)):
            outside = leg in _rim(site, shape)
            order.append([] if outside else sorted(tensor.bonds(site_tensors[site + step])))
        inds = [ind for group in order for ind in group]
        if set(inds) != set(tensor.inds):
            raise ValueError(
                f"from_quimb: site {name} has the indices {tensor.inds}; beyond its spin and its "
                f"bonds to neighbours on the open grid, {tuple(inds)}, there must be none. "
                "Periodic states are not supported"
            )
        array = tensor.transpose(*inds).data
        sizes = [int(np.prod([tensor.ind_size(ind) for ind in group])) for group in order]
        found.append(np.asarray(array).reshape(sizes))
    scale = 10.0 ** (float(getattr(state, "exponent", 0.0)) / len(found))
    return [array * scale for array in found] if scale != 1.0 else found


def _only(state: Any, name: Any) -> Any:
    tensors = state.select_tensors(state.site_tag(name))
    if len(tensors) != 1:
        raise ValueError(
            f"from_quimb: site {name} has {len(tensors)} tensors; contract the network to one "
            "tensor per site first"
        )
    return tensors[0]


def _rim(site: int, shape: tuple[int, int]) -> list[int]:
    """Legs (0 up, 1 left, 2 down, 3 right) that end at the rim."""
    row, column = divmod(site, shape[1])
    ends = (row == 0, column == 0, row == shape[0] - 1, column == shape[1] - 1)
    return [leg for leg in range(4) if ends[leg]]


def _inner(site: int, shape: tuple[int, int]) -> list[int]:
    return [leg for leg in range(4) if leg not in _rim(site, shape)]


def _reordered(array: Array, letters: str, wanted: str) -> Array:
    return array.transpose([letters.index(letter) for letter in wanted if letter in letters])
