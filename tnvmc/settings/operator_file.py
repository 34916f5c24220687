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

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, StrictInt, StrictStr, StringConstraints

from tnvmc.lattice.lattice import Lattice
from tnvmc.limits import Number
from tnvmc.operators.spin import kron, named_matrices
from tnvmc.operators.term import Operator, Term
from tnvmc.settings.load import parse, read_toml
from tnvmc.settings.problems import ConfigError
from tnvmc.settings.section import Section


class _Term(Section):
    sites: list[StrictInt]
    matrix: list[list[float]] | None = None
    product: StrictStr | None = None
    coefficient: Number = 1.0

    def build(self, local_dim: int) -> Term:
        if (self.matrix is None) == (self.product is None):
            raise ValueError("give either matrix or product, and not both")
        if len({len(row) for row in self.matrix or ()}) > 1:
            raise ValueError("matrix must be a list of rows of numbers, all of one length")
        matrix = _product(self, local_dim) if self.product is not None else np.array(self.matrix)
        return Term(tuple(self.sites), self.coefficient * matrix)


class _File(Section):
    name: Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1)] = ""
    term: Annotated[list[dict[str, Any]], Field(min_length=1)]


def read_operator(path: Path, lattice: Lattice, local_dim: int = 2) -> Operator:
    """Read an operator on a lattice; without a name it is called like its file.

    Raises:
        ConfigError: a file that is missing, damaged or does not fit the lattice.
    """
    file, terms, where = parse(_File, read_toml(path), str(path)), [], str(path)
    try:
        for number, data in enumerate(file.term, 1):
            where = f"{path}, term {number}"
            terms.append(parse(_Term, data, where).build(local_dim))
        where = str(path)
        return Operator(lattice, tuple(terms), local_dim, name=file.name or path.stem)
    except ConfigError:
        raise
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where}: {error}") from None


def _product(term: _Term, local_dim: int) -> np.ndarray:
    known, words = named_matrices(local_dim), (term.product or "").split()
    if len(words) != len(term.sites) or not set(words) <= set(known):
        raise ValueError(
            f"product = {term.product!r}: must be one of {', '.join(known)} for each of "
            f"{len(term.sites)} sites, with blanks between"
        )
    matrix = kron(*(known[word] for word in words))
    return matrix if np.any(matrix.imag) else matrix.real
