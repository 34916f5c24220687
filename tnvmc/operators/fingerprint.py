"""A short hash that tells Hamiltonians apart."""

from __future__ import annotations

import hashlib

import numpy as np

from tnvmc.operators.term import Operator

SMALL = 1e-6
"""Largest element below which 12 decimals tell too little."""


def fingerprint(operator: Operator) -> str:
    """Hash the terms of an operator: equal for equal Hamiltonians, to 12 decimals.

    Of an operator without an element of `SMALL` they are decimals of the largest one.
    """
    digest = hashlib.sha256()
    largest = max((float(np.abs(term.matrix).max()) for term in operator.terms), default=1.0)
    unit = largest if 0 < largest < SMALL else 1.0
    if unit < 1:
        digest.update(f"{unit:.12e}".encode())
    for term in sorted(operator.terms, key=lambda term: term.sites):
        matrix = np.asarray(term.matrix, dtype=complex)
        # Adding zero turns -0.0, which has other bytes, into 0.0.
        digest.update(repr(tuple(map(int, term.sites))).encode())
        digest.update((np.round(matrix / unit, 12) + 0.0).tobytes())
    return digest.hexdigest()[:16]
