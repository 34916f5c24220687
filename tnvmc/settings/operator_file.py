"""Operators of a user, from a TOML file.

name = "plaquette"

[[term]]
ops = "Sx Sx + Sy Sy"  # a sum of products, see operators/products.py
bonds = "nearest"      # or a list of bonds; for products on one site: sites = "all", or a list
coupling = 0.5         # default 1; a list has one number for each bond or site

[[term]]
sites = [0, 1]
product = "Sz Sz"      # one name for each site
coefficient = 0.5

[[term]]
sites = [5]
matrix = [[0, 1], [1, 0]]
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, StrictInt, StrictStr, StringConstraints

from tnvmc.lattice.lattice import Lattice
from tnvmc.limits import Number
from tnvmc.operators.local_term import is_hermitian
from tnvmc.operators.products import Placed, joined
from tnvmc.operators.spin import kron, named_matrices
from tnvmc.operators.term import NonHermitian, Operator, Term
from tnvmc.settings.load import parse, read_toml
from tnvmc.settings.problems import ConfigError
from tnvmc.settings.section import Section
from tnvmc.settings.term_settings import Couplings, Every, Kind, Places, TermSettings


class _Term(Section):
    ops: StrictStr | None = None
    bonds: Kind | Places | None = None
    coupling: Couplings | None = None
    sites: list[StrictInt] | Every | None = None
    matrix: list[list[float]] | None = None
    product: StrictStr | None = None
    coefficient: Number | None = None

    def placed(self, lattice: Lattice, local_dim: int) -> list[Placed]:
        if [self.ops, self.matrix, self.product].count(None) != 2:
            raise ValueError("give one of ops, matrix and product, and not both")
        if self.ops is not None:
            if self.coefficient is not None:
                raise ValueError("coefficient goes with matrix or product; ops take a coupling")
            told = self.model_dump(include={"ops", "bonds", "sites"})
            coupling = 1.0 if self.coupling is None else self.coupling
            return TermSettings(**told, coupling=coupling).placed(lattice, local_dim)
        if self.bonds is not None or self.coupling is not None:
            raise ValueError("bonds and coupling go with ops; give sites and coefficient")
        if not isinstance(self.sites, list):
            raise ValueError("give sites, a list of site indices")  # noqa: TRY004
        if len({len(row) for row in self.matrix or ()}) > 1:
            raise ValueError("matrix must be a list of rows of numbers, all of one length")
        matrix = _product(self, local_dim) if self.product is not None else np.array(self.matrix)
        term = Term(tuple(self.sites), matrix)
        return [(term.sites, (1.0 if self.coefficient is None else self.coefficient) * term.matrix)]


class _File(Section):
    name: Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1)] = ""
    term: Annotated[list[dict[str, Any]], Field(min_length=1)]


def read_operators(path: Path, lattice: Lattice, local_dim: int = 2) -> tuple[Operator, ...]:
    """Read what `tnvmc measure` measures: an operator, or the two Hermitian parts of one that is not.

    They are called "real part of NAME" and "imaginary part of NAME".

    Raises:
        ConfigError: as `read_operator`.
    """
    found = read_operator(path, lattice, local_dim)
    if isinstance(found, NonHermitian):
        return tuple(part for part in (found.real, found.imaginary) if part.terms)
    return (found,)


def read_operator(path: Path, lattice: Lattice, local_dim: int = 2) -> Operator | NonHermitian:
    """Read an operator on a lattice; without a name it is called like its file.

    What ops and products make need not be Hermitian, a matrix must be.

    Raises:
        ConfigError: a file that is missing, damaged or does not fit the lattice.
    """
    file, terms, where = parse(_File, read_toml(path), str(path)), [], str(path)
    try:
        for number, data in enumerate(file.term, 1):
            where = f"{path}, term {number}"
            terms += parse(_Term, data, where).placed(lattice, local_dim)
        where, name = str(path), file.name or path.stem
        sums = joined(terms)
        kind = Operator if all(is_hermitian(matrix) for _, matrix in sums) else NonHermitian
        return kind.from_terms(lattice, sums, local_dim=local_dim, name=name)
    except ConfigError:
        raise
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where}: {error}") from None


def _product(term: _Term, local_dim: int) -> np.ndarray:
    known, words = named_matrices(local_dim), (term.product or "").split()
    n_sites = len(term.sites or ())
    if len(words) != n_sites or not set(words) <= set(known):
        raise ValueError(
            f"product = {term.product!r}: must be one of {', '.join(known)} for each of "
            f"{n_sites} sites, with blanks between"
        )
    matrix = kron(*(known[word] for word in words))
    return matrix if np.any(matrix.imag) else matrix.real
