"""Where walkers start, and in which sector."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tnvmc.backend.arguments import whole
from tnvmc.backend.namespace import array_namespace, to_host
from tnvmc.operators.basis import check_magnetisation
from tnvmc.operators.term import Operator

Array = Any


def initial_configs(
    operator: Operator, n_walkers: int, seed: int, magnetisation: int | None = None
) -> np.ndarray:
    """Draw starting configurations (W, N), int8, on the host.

    For an operator that conserves the magnetisation they lie in the sector of the given
    `magnetisation` (twice the total Sz; 0 by default), uniformly for d = 2; otherwise every local
    state is independent and uniform.

    Raises:
        ValueError: see `sector_of`.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    n_sites, local_dim = operator.n_sites, operator.local_dim
    sector = sector_of(operator, magnetisation)
    if sector is None:
        return rng.integers(local_dim, size=(n_walkers, n_sites), dtype=np.int8)
    n_steps = n_sites * (local_dim - 1)
    n_down = (n_steps - sector) // 2
    order = rng.permuted(np.tile(np.arange(n_steps), (n_walkers, 1)), axis=1)
    lowered = (order < n_down).reshape(n_walkers, n_sites, local_dim - 1)
    return np.asarray(lowered.sum(axis=2), dtype=np.int8)


def sector_of(operator: Operator, *asked: int | None) -> int | None:
    """Give the magnetisation (twice the total Sz) that is sampled; None where none is conserved.

    Args:
        operator: the Hamiltonian.
        asked: what several places ask for, beside the operator; None where one does not care.  0
            where none does.

    Raises:
        ValueError: two that differ; one that N sites cannot have; any, where the operator does not
            conserve the magnetisation; none, where it is diagonal.
    """
    numbers = [number for number in (*asked, operator.magnetisation) if number is not None]
    given = sorted({whole("VMC", "magnetisation", number, None) for number in numbers})
    if len(given) > 1:
        raise ValueError(
            f"magnetisation: asked for 2 Sz = {given[0]} in one place and {given[1]} in another "
            "(the walkers, the sampler, the Hilbert space of the operator); give it once"
        )
    if not operator.conserves_magnetisation:
        if given:
            raise ValueError(
                f"magnetisation = {given[0]}: {operator.name} does not conserve the magnetisation, "
                "so that there is no such sector; leave it out"
            )
        return None
    if not given and not operator.replacements:
        raise ValueError(
            f"magnetisation: {operator.name} has no off-diagonal elements, so each magnetisation "
            "has a ground state of its own and none is the natural one; give the one that is meant"
        )
    sector = given[0] if given else 0
    check_magnetisation(operator.n_sites, operator.local_dim, sector)
    return sector


def in_sector(operator: Operator, *asked: int | None) -> Operator:
    """Give the operator with the magnetisation that is sampled; see `sector_of`."""
    return replace(operator, magnetisation=sector_of(operator, *asked))


def magnetisation_of(operator: Operator, configs: Array) -> int | None:
    """Twice the total Sz of the first configuration of (W, N); None where it is not conserved."""
    if not operator.conserves_magnetisation:
        return None
    return operator.n_sites * (operator.local_dim - 1) - 2 * int(to_host(configs[:1, :]).sum())


def check_configs(operator: Operator, configs: Array, n_configs: int) -> None:
    """Refuse configurations that walkers cannot start from.

    Raises:
        ValueError: another shape than (n_configs, N); local states outside 0..d-1; several
            magnetisations, where the operator conserves it.
    """
    expected, shape = (n_configs, operator.n_sites), getattr(configs, "shape", ())
    if tuple(shape) != expected:
        raise ValueError(
            f"configs: shape {tuple(shape)}, expected {expected}: a row of local states for each "
            "walker of the sampler"
        )
    xp = array_namespace(configs)
    if not xp.isdtype(configs.dtype, "integral"):
        raise ValueError(f"configs: numbers of type {configs.dtype}; local states are integers")
    least, most = int(xp.min(configs)), int(xp.max(configs))
    if least < 0 or most >= operator.local_dim:
        raise ValueError(
            f"configs: local states from {least} to {most}; those of {operator.name} are "
            f"0..{operator.local_dim - 1} (0 is spin up)"
        )
    if not operator.conserves_magnetisation:
        return
    totals = xp.sum(xp.astype(configs, xp.int64), axis=1)
    least, most = int(xp.min(totals)), int(xp.max(totals))
    if least != most:
        total = operator.n_sites * (operator.local_dim - 1)
        raise ValueError(
            f"configs: walkers with 2 Sz from {total - 2 * most} to {total - 2 * least}; "
            f"{operator.name} conserves it, so that each would stay in its own sector. Give all "
            "of them the same"
        )
