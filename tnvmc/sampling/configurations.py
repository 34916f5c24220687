"""Where walkers start."""

from __future__ import annotations

import numpy as np

from tnvmc.operators.term import Operator


def initial_configs(
    operator: Operator, n_walkers: int, seed: int, magnetisation: int = 0
) -> np.ndarray:
    """Draw starting configurations (W, N), int8, on the host.

    For an operator that conserves the magnetisation they lie in the sector of the given
    `magnetisation` (twice the total Sz), uniformly for d = 2; otherwise every local state is
    independent and uniform.  Raises ValueError for a magnetisation that N sites cannot have.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    n_sites, local_dim = operator.n_sites, operator.local_dim
    if not operator.conserves_magnetisation:
        return rng.integers(local_dim, size=(n_walkers, n_sites), dtype=np.int8)
    n_steps = n_sites * (local_dim - 1)
    check_magnetisation(n_sites, local_dim, magnetisation)
    n_down = (n_steps - magnetisation) // 2
    order = rng.permuted(np.tile(np.arange(n_steps), (n_walkers, 1)), axis=1)
    lowered = (order < n_down).reshape(n_walkers, n_sites, local_dim - 1)
    return np.asarray(lowered.sum(axis=2), dtype=np.int8)


def check_magnetisation(n_sites: int, local_dim: int, magnetisation: int) -> None:
    """Raise ValueError when N sites cannot have this (doubled) total Sz."""
    largest = n_sites * (local_dim - 1)
    if abs(magnetisation) > largest or (largest - magnetisation) % 2:
        raise ValueError(
            f"no configuration of {n_sites} sites with local dimension {local_dim} has 2 Sz = "
            f"{magnetisation}: |2 Sz| is at most {largest} and "
            f"{'even' if largest % 2 == 0 else 'odd'} here. Use an even number of sites, or "
            "another magnetisation."
        )
