"""Dense, dumb oracles: slow, short, and independent of the code they judge.

Everything here is meant for a handful of sites and is written for being obviously right.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import opt_einsum


def all_configs(n_sites: int, local_dim: int = 2, magnetisation: int | None = None) -> np.ndarray:
    """Every configuration in lexicographic order, or those with this twice-total-Sz: (n, N)."""
    configs = np.array(list(itertools.product(range(local_dim), repeat=n_sites)), dtype=np.int8)
    if magnetisation is None:
        return configs
    twice_sz = n_sites * (local_dim - 1) - 2 * configs.sum(axis=1, dtype=int)
    return configs[twice_sz == magnetisation]


def config_index(config: Sequence[int], local_dim: int = 2) -> int:
    """Place of a configuration in `all_configs`: its digits, first site most significant."""
    index = 0
    for state in config:
        index = index * local_dim + int(state)
    return index


def embed(matrix: np.ndarray, sites: Sequence[int], n_sites: int, local_dim: int = 2) -> np.ndarray:
    """A matrix on `sites`, in the order named, as a matrix on all N sites."""
    others = [site for site in range(n_sites) if site not in sites]
    order = [*sites, *others]
    big = np.kron(matrix, np.eye(local_dim ** len(others)))
    legs = big.reshape((local_dim,) * (2 * n_sites))
    back = [order.index(site) for site in range(n_sites)]
    legs = legs.transpose(back + [n_sites + axis for axis in back])
    return legs.reshape(local_dim**n_sites, local_dim**n_sites)


def dense_hamiltonian(operator: Any) -> np.ndarray:
    """The matrix of an operator in the full space, term by term: (d^N, d^N)."""
    n_sites, d = operator.lattice.n_sites, operator.local_dim
    total = np.zeros((d**n_sites, d**n_sites), dtype=complex)
    for term in operator.terms:
        total += embed(term.matrix, term.sites, n_sites, d)
    return total if np.any(total.imag) else total.real


def dense_sector(operator: Any, magnetisation: int) -> np.ndarray:
    """The block of `dense_hamiltonian` with this twice-total-Sz, column by column, element by element."""
    d = operator.local_dim
    configs = all_configs(operator.lattice.n_sites, d, magnetisation)
    place = {tuple(config): row for row, config in enumerate(configs.tolist())}
    total = np.zeros((len(configs), len(configs)), dtype=complex)
    for config, column in place.items():
        for term in operator.terms:
            elements = term.matrix[:, config_index([config[site] for site in term.sites], d)]
            for states, element in zip(
                all_configs(len(term.sites), d).tolist(), elements, strict=True
            ):
                changed = list(config)
                for site, state in zip(term.sites, states, strict=True):
                    changed[site] = state
                if tuple(changed) in place:
                    total[place[tuple(changed)], column] += element
    return total if np.any(total.imag) else total.real


def dense_amplitude(
    tensors: Sequence[np.ndarray], shape: tuple[int, int], config: Sequence[int]
) -> complex:
    """Contract a PEPS at one configuration, exactly.

    `tensors`: row by row, legs (d, up, left, down, right).  The last leg of a row or column
    meets the first one, which is nothing but 1 x 1 for open boundaries.
    """
    chosen = [tensor[state] for tensor, state in zip(tensors, config, strict=True)]
    return _contract(chosen, shape)[()]


def dense_state(
    tensors: Sequence[np.ndarray], shape: tuple[int, int], configs: np.ndarray
) -> np.ndarray:
    """Amplitudes of a PEPS at many configurations: (n,).  All at once where that is less work."""
    if len(configs) * 16 > tensors[0].shape[0] ** len(tensors):
        return _contract(tensors, shape)[tuple(np.asarray(configs).T)]
    return np.array([dense_amplitude(tensors, shape, config) for config in configs])


def _contract(tensors: Sequence[np.ndarray], shape: tuple[int, int]) -> np.ndarray:
    """Contract the bonds of a PEPS: (d,) * N, or () for tensors of chosen states."""
    shapes = tuple(tensor.shape for tensor in tensors)
    return np.asarray(_planned(shapes, shape)(*map(np.asarray, tensors)))


@cache
def _planned(shapes: tuple[tuple[int, ...], ...], shape: tuple[int, int]) -> Any:
    """Legs by site: the physical one, the vertical one below, the horizontal one to the right."""
    n_rows, n_cols = shape
    n_sites = n_rows * n_cols
    legs, physical = [], []
    for site, (row, col) in enumerate(itertools.product(range(n_rows), range(n_cols))):
        above = (row - 1) % n_rows * n_cols + col
        before = row * n_cols + (col - 1) % n_cols
        own = [2 * n_sites + site] if len(shapes[site]) == 5 else []
        legs.append([*own, above, n_sites + before, site, n_sites + site])
        physical += own
    name = opt_einsum.get_symbol
    inputs = ",".join("".join(map(name, names)) for names in legs)
    equation = f"{inputs}->{''.join(map(name, physical))}"
    return opt_einsum.contract_expression(equation, *shapes, optimize="greedy")


def dense_local_energy(hamiltonian: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """<s|H|psi> / <s|psi> for every basis state."""
    return (hamiltonian @ psi) / psi


def exact_distribution(psi: np.ndarray) -> np.ndarray:
    """|psi(s)|^2, summing to 1."""
    weight = np.abs(psi) ** 2
    return weight / weight.sum()


def finite_difference(
    function: Callable[[np.ndarray], Any], theta: np.ndarray, step: float = 1e-6
) -> np.ndarray:
    """Central differences of a function of a vector: (..., P) for values of shape (...).

    For a holomorphic function of complex theta the step along the real axis is the derivative.
    """
    columns = []
    for k in range(len(theta)):
        change = np.zeros_like(theta)
        change[k] = step
        ahead, behind = np.asarray(function(theta + change)), np.asarray(function(theta - change))
        columns.append((ahead - behind) / (2 * step))
    return np.stack(columns, axis=-1)


def finite_difference_log(
    amplitude: Callable[[np.ndarray], Any], theta: np.ndarray, step: float = 1e-6
) -> np.ndarray:
    """d ln psi / d theta = psi' / psi, free of branches of the logarithm."""
    derivative = finite_difference(amplitude, theta, step)
    return derivative / np.asarray(amplitude(theta))[..., None]


def mode_places(shape: tuple[int, int], n_species: int) -> list[list[int]]:
    """By site and species: place of its mode. Columns, from the bottom row to the top, up first."""
    n_rows, n_cols = shape
    places = [[0] * n_species for _ in range(n_rows * n_cols)]
    mode = 0
    for column in range(n_cols):
        for row in reversed(range(n_rows)):
            for species in range(n_species):
                places[row * n_cols + column][species] = mode
                mode += 1
    return places


def annihilator(mode: int, n_modes: int) -> Any:
    """c of a mode by Jordan and Wigner, Z on all modes before it: sparse (2^n, 2^n)."""
    from scipy.sparse import csr_matrix, identity, kron

    found = identity(1, format="csr")
    for other in range(n_modes):
        if other < mode:
            factor = np.diag([1.0, -1.0])
        elif other == mode:
            factor = np.array([[0.0, 1.0], [0.0, 0.0]])
        else:
            factor = np.eye(2)
        found = kron(found, csr_matrix(factor), format="csr")
    return found


def annihilators(shape: tuple[int, int], n_species: int) -> list[list[Any]]:
    """c by site and species."""
    n_modes = shape[0] * shape[1] * n_species
    return [[annihilator(m, n_modes) for m in of_site] for of_site in mode_places(shape, n_species)]


def fock_matrix(
    matrix: Any, shape: tuple[int, int], holds: Sequence[Sequence[int]], configs: np.ndarray
) -> np.ndarray:
    """A matrix of all modes between configurations; `holds` are the particles of local states."""
    n_species = len(holds[0])
    n_modes, places = shape[0] * shape[1] * n_species, mode_places(shape, n_species)
    index = []
    for config in configs:
        occupied = [0] * n_modes
        for site, state in enumerate(config):
            for species in range(n_species):
                occupied[places[site][species]] = holds[state][species]
        index.append(config_index(occupied))
    return np.asarray(matrix.tocsr()[index][:, index].toarray())
