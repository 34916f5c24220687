"""Operators of a user, from a TOML file.

name = "plaquette"

[[term]]
ops = "Sx Sx + Sy Sy"  # a sum of products, see operators/products.py
bonds = "nearest"      # or a list of bonds; for products on one site: sites = "all", or a list
coupling = 0.5         # default 1; a list has one number for each bond or site

[[term]]
sites = [5]
matrix = [[0, 1], [1, 0]]
coupling = 0.5
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, StrictInt, StringConstraints

from tnvmc.lattice.lattice import Lattice
from tnvmc.limits import Number, Section
from tnvmc.operators.local_term import is_hermitian
from tnvmc.operators.products import Placed, joined
from tnvmc.operators.term import NonHermitian, Operator, Term
from tnvmc.settings.load import parse, read_toml
from tnvmc.settings.model_settings import TermSettings
from tnvmc.settings.problems import ConfigError


class _MatrixTerm(Section):
    sites: list[StrictInt]
    matrix: list[list[float]]
    coupling: Number = 1.0

    def placed(self, lattice: Lattice, local_dim: int) -> list[Placed]:
        if len({len(row) for row in self.matrix}) > 1:
            raise ValueError("matrix must be a list of rows of numbers, all of one length")
        term = Term(tuple(self.sites), np.array(self.matrix))
        return [(term.sites, self.coupling * term.matrix)]


class _File(Section):
    name: Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1)] = ""
    term: Annotated[list[dict[str, Any]], Field(min_length=1)]


def read_operator(path: Path, lattice: Lattice, local_dim: int = 2) -> Operator | NonHermitian:
    """Read an operator for `tnvmc measure`; without a name it is called like its file.

    What ops make need not be Hermitian, a matrix must be.

    Raises:
        ConfigError: a file that is missing, damaged or does not fit the lattice.
    """
    file, terms, where = parse(_File, read_toml(path), str(path)), [], str(path)
    try:
        for number, data in enumerate(file.term, 1):
            where = f"{path}, term {number}"
            kind: Any = _MatrixTerm if "matrix" in data else TermSettings
            terms += parse(kind, data, where).placed(lattice, local_dim)
        where, name = str(path), file.name or path.stem
        sums = joined(terms)
        kind_of_sum = Operator if all(is_hermitian(matrix) for _, matrix in sums) else NonHermitian
        return kind_of_sum.from_terms(lattice, sums, local_dim=local_dim, name=name)
    except ConfigError:
        raise
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where}: {error}") from None
