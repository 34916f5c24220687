"""Norms and expectation values of a PEPS without sampling, amplitudes without truncation.

Three of the four contractions that one can do with a PEPS:

(a) <psi|psi> exactly: `log_norm(...)`, a vector of D^(2 n_cols) numbers is carried down;
(b) <psi|psi> with boundary MPOs on the double layer: `log_norm(..., chi=chi)`;
(c) psi(s) exactly at fixed spins: `log_amplitude`, a vector of D^n_cols numbers.

The fourth, psi(s) with boundary MPS, is what sampling uses; it lives with the ansatz.  These
three are references, and price the starting states of an optimisation.

Site tensors are (d, up, left, down, right), sites row by row, legs of the rim of size 1.
Boundary tensors are (left, ket, bra, right).  Logarithms are carried along, so that no lattice
is too large for a float.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tnvmc.operators.term import Operator

Array = Any
Grid = list[list[Array]]  # tensors by row and column
OneSite = Mapping[int, Array]  # a product of one-site matrices, by site
Column = tuple[Array, list[Array], list[Array], Array]  # boundary above, kets, bras, boundary below


def log_norm(
    tensors: Sequence[Array], shape: tuple[int, int], *, chi: int | None = None, seed: int = 0
) -> float:
    """Give ln <psi|psi>.

    Exact with `chi=None`: N D^(2 n_cols + 6) operations, D^(2 n_cols + 2) numbers.  Otherwise
    rows are absorbed into a boundary MPO of bond dimension `chi` by successive randomised
    compression (Camano, Epperly and Tropp 2025) with sketches drawn from `seed`:
    chi^3 D^4 + chi^2 D^6 operations a site.
    """
    kets = _grid(tensors, shape)
    bras = _conjugate(kets)
    return (_log_overlap(kets, bras) if chi is None else _log_overlap_mpo(kets, bras, chi, seed))[1]


def expectation(
    tensors: Sequence[Array],
    operator: Operator,
    *,
    chi: int | None = None,
    magnetisation: int | None = None,
    seed: int = 0,
) -> float:
    """Give <psi|H|psi> / <psi|psi>: the total, in the operator's units.

    A term is taken as a sum of products of one-site matrices.  `chi=None` contracts the whole
    double layer once per product (small lattices only); otherwise the h rows that a term touches
    are contracted exactly between boundary MPOs, chi^3 D^(2h + 2) operations a column.

    `magnetisation` (twice the total Sz) projects psi onto that sector first, which is the state
    that exchange moves sample: the overlaps of psi with psi turned about z by N (d - 1) + 1
    angles are summed, so this costs N / 2 times as much, in complex arithmetic.  It needs an
    operator that conserves the magnetisation (not checked).
    """
    kets = _grid(tensors, operator.lattice.shape)
    strings = [
        dict(zip(term.sites, matrices, strict=True))
        for term in operator.terms
        for matrices in _products(np.asarray(term.matrix), operator.local_dim)
    ]
    top = total = norm = 0.0
    for index, (turned, multiplicity) in enumerate(_turns(kets, magnetisation)):
        bras = _conjugate(kets)
        overlap = _log_overlap if chi is None else _log_overlap_mpo
        phase, log_abs = overlap(turned, bras) if chi is None else overlap(turned, bras, chi, seed)
        top = log_abs if index == 0 else top
        weight = multiplicity * phase * math.exp(log_abs - top)
        if abs(weight) < 1e-9:
            continue
        values = _expect(turned, bras, strings, phase, log_abs) if chi is None else _expect_mpo(turned, bras, strings, chi, seed)
        total += (weight * sum(values)).real
        norm += weight.real
    return total / norm
