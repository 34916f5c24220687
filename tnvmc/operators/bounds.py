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
    alike: dict[tuple[int, ...], list[np.ndarray]] = defaultdict(list)
    for term in operator.terms:
        alike[term.matrix.shape].append(term.matrix)
    norms = (np.linalg.norm(np.array(found), 2, axis=(1, 2)) for found in alike.values())
    return float(sum(found.sum() for found in norms))
