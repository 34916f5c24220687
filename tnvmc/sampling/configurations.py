"""Where walkers start, and in which sector."""

from dataclasses import replace
from typing import Any

import numpy as np

from tnvmc.backend.arguments import whole
from tnvmc.backend.namespace import array_namespace, to_host
from tnvmc.operators.fermions import NO_PARTICLES, Strings, sector_text
from tnvmc.operators.properties import particles_of
from tnvmc.operators.term import Operator

Array = Any


def initial_configs(
    operator: Operator, n_walkers: int, seed: int, magnetisation: int | None = None
) -> np.ndarray:
    """Draw starting configurations (W, N), int8, on the host.

    For an operator that conserves the magnetisation they lie in the sector of the given
    `magnetisation` (twice the total Sz; 0 by default), uniformly for d = 2 and for fermions;
    otherwise every local state is independent and uniform.

    Raises:
        ValueError: see `sector_of`.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    n_sites, local_dim = operator.n_sites, operator.local_dim
    sector = sector_of(operator, magnetisation)
    if sector is None:
        return rng.integers(local_dim, size=(n_walkers, n_sites), dtype=np.int8)
    if operator.strings is not None:
        return _placed(rng, operator.strings, sector, n_walkers)
    n_steps = n_sites * (local_dim - 1)
    n_down = (n_steps - sector) // 2
    order = rng.permuted(np.tile(np.arange(n_steps), (n_walkers, 1)), axis=1)
    lowered = (order < n_down).reshape(n_walkers, n_sites, local_dim - 1)
    return np.asarray(lowered.sum(axis=2), dtype=np.int8)


def _placed(rng: Any, strings: Strings, sector: int, n_walkers: int) -> np.ndarray:
    """Fermions at random sites; the species one after another where no site can hold two."""
    held, n_sites = np.array(strings.fermions.numbers), len(strings.order)
    apart = held.sum(axis=0).max() > 1
    occupied: list[np.ndarray] = []
    first, order = 0, np.zeros(0)
    for n in strings.particles(sector):
        if apart or not occupied:
            first, order = 0, rng.permuted(np.tile(np.arange(n_sites), (n_walkers, 1)), axis=1)
        occupied.append((order >= first) & (order < first + n))
        first += n
    fits = (np.array(occupied)[..., None] == held[:, None, None, :]).all(axis=0)
    return np.asarray(fits.argmax(axis=2), dtype=np.int8)


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
            f"magnetisation: asked for {_text(operator, given[0])} in one place and "
            f"{_text(operator, given[1])} in another (the walkers, the sampler, the operator); "
            "give it once"
        )
    if not operator.conserves_magnetisation:
        if given:
            raise ValueError(
                f"magnetisation = {given[0]}: {operator.name} does not conserve the magnetisation, "
                "so that there is no such sector; leave it out"
            )
        return None
    if not given and operator.fermions is not None:
        raise ValueError(f"{operator.name}: {NO_PARTICLES}")
    if not given and not operator.replacements:
        raise ValueError(
            f"magnetisation: {operator.name} has no off-diagonal elements, so each magnetisation "
            "has a ground state of its own and none is the natural one; give the one that is meant"
        )
    sector = given[0] if given else 0
    operator.states(sector)  # ValueError
    return sector


def in_sector(operator: Operator, *asked: int | None) -> Operator:
    """Give the operator with the magnetisation that is sampled; see `sector_of`."""
    return replace(operator, magnetisation=sector_of(operator, *asked))


def magnetisation_of(operator: Operator, configs: Array) -> int | None:
    """Twice the total Sz of the first configuration of (W, N); None where it is not conserved."""
    kept = operator.conserves_magnetisation
    return int(sectors_of(operator, configs[:1, :])[0]) if kept else None


def _text(operator: Operator, sector: int) -> str:
    return sector_text(sector, particles_of(operator, sector))


def sectors_of(operator: Operator, configs: Array) -> np.ndarray:
    """The sector of each configuration (W, N)."""
    states = to_host(configs).astype(np.int64)
    if operator.strings is not None:
        return np.asarray(np.take(operator.weights, states).sum(axis=1))
    return np.asarray(operator.n_sites * (operator.local_dim - 1) - 2 * states.sum(axis=1))


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
    sectors = sectors_of(operator, configs)
    if len(set(sectors.tolist())) > 1:
        one, other = (_text(operator, int(end(sectors))) for end in (np.min, np.max))
        raise ValueError(
            f"configs: walkers with {one}, and some with {other}; {operator.name} conserves it, so "
            "that each would stay in its own sector. Give all of them the same"
        )
