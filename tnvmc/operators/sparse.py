"""The matrix of an operator in a basis, compressed by rows, and its size beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tnvmc.lattice.lattice import Patch
from tnvmc.operators.basis import Basis, count_states

if TYPE_CHECKING:
    from tnvmc.operators.term import Operator, Replacement

CHUNK_ENTRIES = 2**21
"""Matrix slots looked at in one go; bounds the temporary memory to about 100 MB."""


def sparse_matrix(operator: Operator, basis: Basis) -> Any:
    """Build <s|H|s'> over a basis: scipy.sparse.csr_matrix, rows and columns in basis order.

    Vectorised over chunks of basis states; cost and memory are proportional to the number of
    elements, see `count_elements` (12 bytes each, 20 if complex; 4 more beyond 2^31 of them; and
    about as much again while it is put together).

    Raises:
        ValueError: the basis has a fixed magnetisation and an off-diagonal element leaves it.
    """
    from scipy.sparse import csr_matrix

    _check_sector(operator, basis)
    chunks = zip(*_row_chunks(operator, basis), strict=True)
    counts, columns, values = (list(parts) for parts in chunks)
    n_elements = sum(map(len, values))
    index_type = np.int32 if max(n_elements, basis.dimension) < 2**31 else np.int64
    starts = np.zeros(basis.dimension + 1, dtype=index_type)
    np.cumsum(np.concatenate(counts), out=starts[1:])
    matrix = csr_matrix(
        (_joined(values), _joined(columns).astype(index_type, copy=False), starts),
        shape=(basis.dimension, basis.dimension),
    )
    matrix.sum_duplicates()
    return matrix


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenate and let go of the parts at once: they are as large as the matrix."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole


def count_elements(operator: Operator, basis: Basis) -> int:
    """Count the elements that `sparse_matrix` will hold, without building anything.

    Exact where no two patches connect the same pair of states, otherwise slightly too many.
    """
    total = basis.dimension
    for patch, replacement in operator.replacements.items():
        n_others = basis.n_sites - len(patch)
        for state, targets in enumerate(replacement.targets):
            n_targets = int((targets >= 0).sum())
            if not n_targets:
                continue
            if basis.total is None:
                total += n_targets * basis.local_dim**n_others
            else:
                digits = _digits(state, len(patch), basis.local_dim)
                rest = basis.total - int(digits.sum())
                total += n_targets * count_states(n_others, basis.local_dim, rest)
    return total


def _row_chunks(
    operator: Operator, basis: Basis
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Per chunk of rows: elements per row, their columns, their values, row by row."""
    slots = list(_slots(operator.replacements, basis))
    dtype = np.complex128 if operator.is_complex else np.float64
    column_type = np.int32 if basis.dimension < 2**31 else np.int64
    rows_at_once = max(1, CHUNK_ENTRIES // (len(slots) + 1))
    for begin in range(0, basis.dimension, rows_at_once):
        codes = basis.codes[begin : begin + rows_at_once]
        columns = np.empty((len(codes), len(slots) + 1), dtype=column_type)
        values = np.empty(columns.shape, dtype=dtype)
        filled = np.ones(columns.shape, dtype=bool)
        configs = basis.configs(codes)
        columns[:, 0] = np.arange(begin, begin + len(codes))
        values[:, 0] = operator.diagonal(configs)
        for k, (patch, shift, element) in enumerate(slots, start=1):
            state = _local_states(configs, patch, basis.local_dim)
            values[:, k] = element[state]
            filled[:, k] = active = element[state] != 0
            columns[active, k] = basis.positions(codes[active] + shift[state[active]])
        yield filled.sum(axis=1), columns[filled], values[filled]


def _slots(
    replacements: Mapping[Patch, Replacement], basis: Basis
) -> Iterator[tuple[Patch, np.ndarray, np.ndarray]]:
    """Per patch and column of its table: change of the code and element, by local state."""
    for patch, replacement in replacements.items():
        place = np.array([basis.local_dim ** (basis.n_sites - 1 - site) for site in patch])
        n_states = len(replacement.targets)
        digits = np.stack([_digits(a, len(patch), basis.local_dim) for a in range(n_states)])
        for targets, element in zip(replacement.targets.T, replacement.elements.T, strict=True):
            shift = (digits[np.maximum(targets, 0)] - digits) @ place
            yield patch, shift, element


def _local_states(configs: np.ndarray, patch: Patch, local_dim: int) -> np.ndarray:
    state = np.zeros(len(configs), dtype=np.int64)
    for site in patch:
        state = state * local_dim + configs[:, site]
    return state


def _digits(state: int, n_digits: int, local_dim: int) -> np.ndarray:
    powers = local_dim ** np.arange(n_digits - 1, -1, -1)
    return state // powers % local_dim


def _check_sector(operator: Operator, basis: Basis) -> None:
    if basis.magnetisation is not None and not operator.conserves_magnetisation:
        raise ValueError(
            f"sparse matrix of {operator.name}: it does not conserve the magnetisation, so there "
            f"is no sector 2 Sz = {basis.magnetisation}. Leave the magnetisation out for the "
            "full space"
        )
