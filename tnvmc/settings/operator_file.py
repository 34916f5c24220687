"""Operators of a user, from a TOML file.

name = "plaquette"

[[term]]
ops = "Sx Sx + Sy Sy"  # a sum of products, see operators/products.py
bonds = "nearest"      # or a list of bonds; for products on one site: sites = "all", or a list
coupling = 0.5         # default 1; a list has one number for each bond or site
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from tnvmc.lattice.lattice import Lattice
from tnvmc.limits import Section
from tnvmc.operators.local_term import is_hermitian
from tnvmc.operators.products import fermions_of
from tnvmc.operators.term import NonHermitian, Operator
from tnvmc.settings.load import parse, read_toml
from tnvmc.settings.model_settings import TermSettings, joined_terms
from tnvmc.settings.problems import ConfigError, errors_of


class _File(Section):
    name: Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1)] = ""
    term: Annotated[list[dict[str, Any]], Field(min_length=1)]


def read_operator(path: Path, lattice: Lattice, kind: Any = 2) -> Operator | NonHermitian:
    """Read an operator for `tnvmc measure`; without a name it is called like its file.

    It need not be Hermitian.

    Raises:
        ConfigError: a file that is missing, damaged or does not fit the lattice.
    """
    file, name = parse(_File, read_toml(path), str(path)), str(path)
    tables = enumerate(file.term, 1)
    terms = [parse(TermSettings, table, f"{name}, term {number}") for number, table in tables]
    try:
        sums = joined_terms(terms, lattice, kind, name)
        kind_of_sum = Operator if all(is_hermitian(matrix) for _, matrix in sums) else NonHermitian
        with errors_of(name):
            fermions = fermions_of(kind)
            about: Any = {"fermions": fermions} if fermions else {"local_dim": kind}
            return kind_of_sum.from_terms(lattice, sums, name=file.name or path.stem, **about)
    except ValueError as error:
        raise ConfigError(str(error)) from None
