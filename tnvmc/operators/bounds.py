"""Bounds on what an operator can give."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from tnvmc.operators.term import Operator


def energy_bound(operator: Operator) -> float:
    """Give a size that no energy exceeds: the spectral norms of all terms together.

    Args:
        operator: its M terms, matrices of d^k x d^k on k sites.  Cost: one SVD of each.

    Returns:
        A number in the units of the operator, at least max |E| over all states.
    """
    return _norms([np.asarray(term.matrix) for term in operator.terms])


def off_diagonal_bound(operator: Operator) -> float:
    """The same for what is not on the diagonal: the size of what moves configurations."""
    matrices = [np.asarray(term.matrix) for term in operator.terms]
    return _norms([matrix - np.diag(np.diag(matrix)) for matrix in matrices])


def _norms(matrices: list[np.ndarray]) -> float:
    """Sum of the spectral norms."""
    alike: dict[tuple[int, ...], list[np.ndarray]] = defaultdict(list)
    for matrix in matrices:
        alike[matrix.shape].append(matrix)
    norms = (np.linalg.norm(np.array(found), 2, axis=(1, 2)) for found in alike.values())
    return float(sum(found.sum() for found in norms))
