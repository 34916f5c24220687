"""Spin matrices, products of them over sites, and the order of sites in a product.

Local state 0 is the highest weight: spin up (Sz = +1/2, sigma^z = +1) for spin-1/2.
"""

from functools import reduce
from typing import Any

import numpy as np

MAX_WIDTH = 1024
"""Largest d^k of a term on k sites: ten spins 1/2, six spins 1.  Its matrix has that many rows."""


def _constant(rows: list[list[complex]]) -> np.ndarray:
    matrix = np.array(rows)
    matrix.setflags(write=False)
    return matrix


SIGMA_X = _constant([[0.0, 1.0], [1.0, 0.0]])
SIGMA_Y = _constant([[0.0, -1.0j], [1.0j, 0.0]])
SIGMA_Z = _constant([[1.0, 0.0], [0.0, -1.0]])
NUMBER = _constant([[0.0, 0.0], [0.0, 1.0]])  #: n = |1><1|


def spin_matrices(local_dim: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give S^x, S^y, S^z of spin S = (d - 1) / 2, each (d, d); ValueError for d below 2."""
    if local_dim < 2:
        raise ValueError(f"spin matrices need a local dimension of 2 or more, got {local_dim}")
    spin = (local_dim - 1) / 2
    m = spin - np.arange(local_dim)
    raising = np.diag(np.sqrt(spin * (spin + 1) - m[1:] * (m[1:] + 1)), k=1)
    return (raising + raising.T) / 2, (raising - raising.T) / 2j, np.diag(m)


def named_matrices(local_dim: int = 2) -> dict[str, np.ndarray]:
    """Give the matrices (d, d) that have a name in products.

    Sx Sy Sz, S+ S- (also Sp, Sm) and I for any spin; b, b^ and n of at most d - 1 bosons, of which
    local state a holds a; X Y Z for d = 2.
    """
    x, y, z = spin_matrices(local_dim)
    raising = (x + 1j * y).real
    ladders = {"S+": raising, "S-": raising.T, "Sp": raising, "Sm": raising.T}
    lower = np.diag(np.sqrt(np.arange(1.0, local_dim)), k=1)
    bosons = {"b": lower, "b^": lower.T, "n": np.diag(np.arange(float(local_dim)))}
    paulis = {"X": SIGMA_X, "Y": SIGMA_Y, "Z": SIGMA_Z} if local_dim == 2 else {}
    return {"Sx": x, "Sy": y, "Sz": z, **ladders, "I": np.eye(local_dim), **bosons, **paulis}


def digits_of(n_digits: int, local_dim: int) -> np.ndarray:
    """Give the base-d digits of 0..d^n - 1, first digit most significant: (d^n, n)."""
    return np.indices((local_dim,) * n_digits).reshape(n_digits, -1).T


def kron(*factors: Any) -> np.ndarray:
    """Give the Kronecker product of any number of matrices, first factor most significant."""
    return reduce(np.kron, [np.asarray(factor) for factor in factors])


def exchange_matrix(local_dim: int = 2) -> np.ndarray:
    """Give S_i . S_j on two sites: real (d^2, d^2)."""
    return np.asarray(np.sum([kron(s, s) for s in spin_matrices(local_dim)], axis=0).real)


def most_sites(local_dim: int) -> int:
    """Give the largest number of sites k of one term: d^k is at most `MAX_WIDTH`."""
    return max(k for k in range(1, MAX_WIDTH.bit_length()) if local_dim**k <= MAX_WIDTH)


def in_site_order(sites: tuple[int, ...], matrix: np.ndarray) -> tuple[tuple[int, ...], np.ndarray]:
    """Give sites in increasing order, and the matrix (d^k, d^k) to match."""
    k = len(sites)
    order = sorted(range(k), key=sites.__getitem__)
    if order == list(range(k)):
        return tuple(sites), matrix
    d = round(len(matrix) ** (1 / k))
    legs = matrix.reshape((d,) * (2 * k)).transpose(order + [k + j for j in order])
    return tuple(sorted(sites)), legs.reshape(matrix.shape)


def real_if_possible(matrix: np.ndarray) -> np.ndarray:
    """Give the real part of a matrix whose imaginary part is 0, others as they are."""
    return matrix if np.any(matrix.imag) else matrix.real
