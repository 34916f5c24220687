"""Matrix elements of a sum of local terms, row by row."""

from typing import NamedTuple

import numpy as np

from tnvmc.backend.host.compilation import kernel
from tnvmc.backend.host.vectors import helper


class Terms(NamedTuple):
    """Local terms as tables by local state of a patch: off-diagonal elements, and diagonal."""

    sites: np.ndarray  #: (patches, most sites of one), -1 where there is none
    n_choices: np.ndarray  #: (patches,) off-diagonal elements of a local state, at most
    begin: np.ndarray  #: (patches,) where the tables of a patch begin
    begin_diagonal: np.ndarray  #: (patches,)
    elements: np.ndarray  #: flat (local state, choice); 0 for none
    head_shift: np.ndarray  #: as `elements`: change of the head of the code
    tail_shift: np.ndarray
    diagonal: np.ndarray  #: flat (local state,)
    n_elements: np.ndarray  #: as `diagonal`: how many elements a local state has


class Places(NamedTuple):
    """Where a code (head, tail) stands in a basis: at first[head] + rank[tail]."""

    codes: np.ndarray  #: (n,)
    first: np.ndarray  #: by head
    rank: np.ndarray  #: by tail
    n_sites: int
    local_dim: int


@helper
def _digits(code, places, digits):
    if places.local_dim == 2:  # divisions by what is not known beforehand take a third of the time
        for site in range(places.n_sites - 1, -1, -1):
            digits[site] = code & 1
            code >>= 1
        return
    for site in range(places.n_sites - 1, -1, -1):
        digits[site] = code % places.local_dim
        code //= places.local_dim


@helper
def _state(terms, patch, digits, local_dim):
    state = 0
    for k in range(terms.sites.shape[1]):
        site = terms.sites[patch, k]
        if site >= 0:
            state = state * local_dim + digits[site]
    return state


@kernel()
def count(terms, places, n_rows, starts):
    """Write where each of the first rows begins: its diagonal and all elements that are not 0."""
    digits = np.zeros(places.n_sites, np.int64)
    starts[0] = 0
    for p in range(n_rows):
        _digits(places.codes[p], places, digits)
        n = 1
        for patch in range(terms.sites.shape[0]):
            state = _state(terms, patch, digits, places.local_dim)
            n += terms.n_elements[terms.begin_diagonal[patch] + state]
        starts[p + 1] = starts[p] + n


@kernel()
def fill(terms, places, starts, columns, values):
    """Write columns and values of the rows that `count` was asked for, the diagonal first."""
    digits = np.zeros(places.n_sites, np.int64)
    for p in range(starts.size - 1):
        code = places.codes[p]
        _digits(code, places, digits)
        head, tail = code // places.rank.size, code % places.rank.size
        diagonal, out = 0.0, starts[p] + 1
        for patch in range(terms.sites.shape[0]):
            state = _state(terms, patch, digits, places.local_dim)
            diagonal += terms.diagonal[terms.begin_diagonal[patch] + state]
            choices = terms.n_choices[patch]
            at = terms.begin[patch] + choices * state
            for r in range(at, at + choices):
                if terms.elements[r] != 0:
                    to_head, to_tail = head + terms.head_shift[r], tail + terms.tail_shift[r]
                    columns[out] = places.first[to_head] + places.rank[to_tail]
                    values[out] = terms.elements[r]
                    out += 1
        columns[starts[p]] = p
        values[starts[p]] = diagonal


@kernel()
def multiply(starts, columns, values, x, out):
    """Write the product with a vector; unsigned `starts` and `columns` are faster."""
    for p in range(out.size):
        total = x[0] * 0
        for k in range(starts[p], starts[p + 1]):
            total += values[k] * x[columns[k]]
        out[p] = total
