"""What an expectation value by the double layer will take, told before it is tried."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tnvmc.contraction.double_terms import View, views
from tnvmc.operators.term import Operator

_RATE = 2.5e10  # multiplications and additions a second, of one core
_PER_CALL = 1e-4  # seconds that a column takes however small


@dataclass(frozen=True)
class Cost:
    """Time of one core, to a factor of three or so, and memory."""

    seconds: float
    n_bytes: float


def estimated_cost(operator: Operator, D: int, chi: int, *, sector: bool = False) -> Cost:
    """Estimate what `boundary_expectation` takes.

    With k = 1 or 2 rows in a strip, an absorbed column costs 2 chi^3 D^(2k + 2) + k chi^2 D^(2k + 6)
    multiplications, and absorbing a site into a boundary twice that at k = 1.  Strips have
    about 2 + 2 d^2 columns for each of theirs, a pair of distant sites d^2 boundaries of its own.
    A sector multiplies this by about sqrt(N) + 2 angles in complex arithmetic.

    Args:
        operator: on the grid of the state.
        D: bond dimension of the state.
        chi: largest bond of the boundaries.
        sector: whether psi is projected on one.

    Raises:
        TermsDoNotFit: terms that the double layer does not serve.
    """
    n = operator.n_sites
    n_angles = min(n * (operator.local_dim - 1) // 2 + 1, 2 + math.isqrt(n)) if sector else 1
    work, n_columns, arrays = 0.0, 0.0, 0.0
    for view in views(operator):
        if view.empty:
            continue
        narrow = min(chi, D**view.largest_bond)
        one, two = _column(narrow, D, 1), _column(narrow, D, 2)
        n_absorbed, copies = _absorbed(view), _most_sources(view)
        work += 2 * one * n_absorbed
        n_columns += 4 * n_absorbed
        for strip in view.strips.values():
            n_transfers = strip.n_transfers(view.shape[1])
            work += n_transfers * (one if strip.n_rows == 1 else two)
            n_columns += n_transfers
        rows = 2 if any(strip.n_rows == 2 for strip in view.strips.values()) else 1
        kept = 2 * n_angles * n * narrow**2 * D**2
        arrays = max(
            arrays,
            kept + copies * (3 * narrow**2 * D ** (2 * rows + 2) + 2 * view.shape[1] * D**8),
        )
    arithmetic = 4 * n_angles if sector else 1
    return Cost(2 * work * arithmetic / _RATE + n_columns * _PER_CALL, 16.0 * arrays)


def _column(chi: int, D: int, n_rows: int) -> float:
    """Multiplications of one transfer."""
    return float(2 * chi**3 * D ** (2 * n_rows + 2) + n_rows * chi**2 * D ** (2 * n_rows + 6))


def _absorbed(view: View) -> int:
    """Sites that are absorbed into boundaries, those of sources too."""
    n_rows, n_cols = view.shape
    found = 2 * n_rows * n_cols
    for row, sources in view.pairs.items():
        lowest = max(r for targets in sources.values() for r in targets)
        found += 3 * len(sources) * (lowest - row) * n_cols
    return found


def _most_sources(view: View) -> int:
    """Copies of the network that are carried at a time, at most."""
    return max((len(sources) for sources in view.pairs.values()), default=1)
