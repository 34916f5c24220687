"""Operators of a user, from a TOML file.

name = "plaquette"

[[term]]
sites = [0, 1]
product = "Sz Sz"      # of Sx Sy Sz X Y Z n I, one for each site
coefficient = 0.5      # 1 where it is left away

[[term]]
sites = [5]
matrix = [[0, 1], [1, 0]]
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.lattice.lattice import Lattice
from tnvmc.operators.spin import IDENTITY, NUMBER, SIGMA_X, SIGMA_Y, SIGMA_Z, kron, spin_matrices
from tnvmc.operators.term import Operator, Term
from tnvmc.settings.load import read_toml
from tnvmc.settings.problems import ConfigError

_KEYS = ("sites", "matrix", "product", "coefficient")


def read_operator(path: Path, lattice: Lattice, local_dim: int = 2) -> Operator:
    """Read an operator on a lattice; without a name it is called like its file.

    Raises:
        ConfigError: a file that is missing, damaged or does not fit the lattice.
    """
    data = read_toml(path)
    unknown = set(data) - {"name", "term"}
    if unknown:
        raise ConfigError(
            f"{path}: unknown key '{min(unknown)}'; an operator has name and [[term]]"
        )
    name, terms = data.get("name", path.stem), data.get("term")
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"{path}: name = {name!r}: must be a word or two in quotes")
    if not isinstance(terms, list) or not terms:
        raise ConfigError(f"{path}: holds no operator; give one [[term]] at least")
    found = []
    for number, term in enumerate(terms, 1):
        try:
            found.append(_term(term, local_dim))
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{path}, term {number}: {error}") from None
    try:
        return Operator(lattice, tuple(found), local_dim, name=name.strip())
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def _term(term: Any, local_dim: int) -> Term:
    if not isinstance(term, Mapping):
        raise TypeError("must be a table, headed [[term]]")
    unknown = set(term) - set(_KEYS)
    if unknown:
        raise ValueError(f"unknown key '{min(unknown)}'; known are {', '.join(_KEYS)}")
    sites = term.get("sites")
    if not isinstance(sites, list) or not all(type(site) is int for site in sites):
        raise ValueError("sites must be a list of site indices, e.g. sites = [0, 1]")
    if ("matrix" in term) == ("product" in term):
        raise ValueError("give either matrix or product, and not both")
    coefficient = term.get("coefficient", 1.0)
    if type(coefficient) not in (int, float) or not np.isfinite(coefficient):
        raise ValueError(f"coefficient = {coefficient!r}: must be a number")
    matrix = _matrix(term["matrix"]) if "matrix" in term else _product(term, local_dim)
    return Term(tuple(sites), coefficient * matrix)


def _matrix(rows: Any) -> np.ndarray:
    try:
        return np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("matrix must be a list of rows of numbers, all of one length") from None


def _product(term: Mapping[str, Any], local_dim: int) -> np.ndarray:
    text, n_sites = term["product"], len(term["sites"])
    factors = factor_matrices(local_dim)
    words = text.split() if isinstance(text, str) else []
    if len(words) != n_sites or not set(words) <= set(factors):
        raise ValueError(
            f"product = {text!r}: must be one of {', '.join(factors)} for each of {n_sites} sites, "
            "with blanks between"
        )
    matrix = kron(*(factors[word] for word in words))
    return matrix if np.any(matrix.imag) else matrix.real


def factor_matrices(local_dim: int = 2) -> dict[str, np.ndarray]:
    """The matrices that `product` knows by name."""
    sx, sy, sz = spin_matrices(local_dim)
    spins = {"Sx": sx, "Sy": sy, "Sz": sz, "I": np.eye(local_dim)}
    if local_dim != 2:
        return spins
    return {**spins, "X": SIGMA_X, "Y": SIGMA_Y, "Z": SIGMA_Z, "n": NUMBER, "I": IDENTITY}
