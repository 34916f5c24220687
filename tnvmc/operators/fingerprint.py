"""A short hash that tells Hamiltonians apart."""

from __future__ import annotations

import hashlib

import numpy as np

from tnvmc.operators.term import Operator


def fingerprint(operator: Operator) -> str:
    """Hash the terms of an operator (to 12 digits): equal for equal Hamiltonians."""
    digest = hashlib.sha256()
    for term in sorted(operator.terms, key=lambda term: term.sites):
        matrix = np.asarray(term.matrix, dtype=complex)
        # Adding zero turns -0.0, which has other bytes, into 0.0.
        digest.update(repr(tuple(map(int, term.sites))).encode())
        digest.update((np.round(matrix, 12) + 0.0).tobytes())
    return digest.hexdigest()[:16]
