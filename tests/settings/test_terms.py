"""A Hamiltonian of products in a file, and operators of a file, against Python's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import oracles
from tnvmc.lattice import from_bonds, square
from tnvmc.operators.products import product_matrix
from tnvmc.operators.properties import fingerprint
from tnvmc.operators.term import NonHermitian, Operator
from tnvmc.settings.build import build_ansatz
from tnvmc.settings.config import build_operator
from tnvmc.settings.load import validate
from tnvmc.settings.operator_file import read_operator
from tnvmc.settings.problems import ConfigError

BONDS = [[0, 1], [2, 1], [0, 3], [5, 2], [3, 4], [4, 5]]
DM = "Sx Sy - Sy Sx"
XYZ = "Sx Sx + 0.8 Sy Sy + 0.6 Sz Sz"


def config(*terms: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "lattice": {"kind": "bonds", "shape": [2, 3], "bonds": BONDS},
        "hamiltonian": {"model": "terms", "term": list(terms), **more},
        "ansatz": {"kind": "peps", "D": 2},
    }


def problems(*terms: Any, **more: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        validate(config(*terms, **more))
    return [problem.key for problem in caught.value.problems]


def test_a_file_and_python_build_the_same() -> None:
    settings = validate(
        config(
            {"ops": XYZ, "bonds": "nearest"},
            {"ops": DM, "bonds": "nearest", "coupling": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]},
            {"ops": "Sz", "sites": "all", "coupling": -0.3},
            {"ops": "Sx Sx Sx Sx", "sites": [0, 1, 3, 4], "coupling": 2},
            {"ops": "Sx", "sites": [1, 4], "coupling": [1, -1]},
        )
    )
    bonds = [(i, j) for i, j in BONDS]
    python = Operator.from_products(
        from_bonds((2, 3), bonds),
        [
            (XYZ, bonds),
            (DM, bonds, 0.1 * np.arange(1, 7)),  # in the directions of the file: 2 to 1, 5 to 2
            ("Sz", "all", -0.3),
            ("Sx Sx Sx Sx", [(0, 1, 3, 4)], 2.0),
            ("Sx", [1, 4], [1.0, -1.0]),
        ],
    )
    assert fingerprint(build_operator(settings)) == fingerprint(python)
    again = validate(settings.as_dict())
    assert fingerprint(build_operator(again)) == fingerprint(python)


def test_a_field_is_dense() -> None:
    settings = validate(config({"ops": "Sz", "sites": [5]}))
    expected = np.kron(np.eye(32), product_matrix("Sz"))
    assert np.array_equal(oracles.dense_hamiltonian(build_operator(settings)), expected)


def test_spin_one_has_a_state_of_three() -> None:
    settings = validate(config({"ops": "Sx Sx + Sy Sy + Sz Sz", "bonds": "nearest"}, local_dim=3))
    operator = build_operator(settings)
    assert operator.local_dim == build_ansatz(settings, operator).local_dim == 3


GOOD = {"ops": XYZ, "bonds": "nearest"}


@pytest.mark.parametrize(
    ("term", "keys"),
    [
        ({"op": "Sx"}, ["hamiltonian.term.2.ops", "hamiltonian.term.2.op"]),
        ({**GOOD, "coupling": "a"}, ["hamiltonian.term.2.coupling"]),
        ({**GOOD, "coupling": float("nan")}, ["hamiltonian.term.2.coupling"]),
        ({"ops": "Sx", "sites": "every"}, ["hamiltonian.term.2.sites"]),
        ({"ops": "Sx", "bonds": 3}, ["hamiltonian.term.2.bonds"]),
        (7, ["hamiltonian.term.2"]),
    ],
)
def test_what_is_wrong_with_a_term_names_its_key(term: Any, keys: list[str]) -> None:
    assert problems(GOOD, term) == keys


def test_the_table_itself() -> None:
    assert problems() == ["hamiltonian.term"]
    assert problems(GOOD, J=1.0) == ["hamiltonian.J"]


@pytest.mark.parametrize(
    ("term", "told"),
    [
        ({"ops": "S+ S-", "bonds": "nearest"}, "^hamiltonian: .*not Hermitian"),
        ({"ops": "Sx Sw", "bonds": "nearest"}, r"^hamiltonian\.term\.1: 'Sx Sw', column 4"),
        ({"ops": XYZ}, r"^hamiltonian\.term\.1: give either bonds"),
        ({"ops": XYZ, "bonds": "nearest", "sites": [0, 1]}, "give either bonds"),
        ({"ops": XYZ, "bonds": "all"}, "sites = 'all'"),
        ({"ops": XYZ, "bonds": "neerest"}, "no bonds of kind 'neerest'"),
        ({"ops": XYZ, "bonds": "nearest", "coupling": [1]}, "for 6 bonds"),
        ({"ops": XYZ, "bonds": [[0, 6]]}, r"sites 0\.\.5"),
        ({"ops": XYZ, "bonds": [[0, 1], [1, 0]]}, "same sites"),
    ],
)
def test_what_does_not_fit_the_lattice_is_told_when_it_is_built(term: Any, told: str) -> None:
    settings = validate(config(term))
    with pytest.raises(ValueError, match=told):
        build_operator(settings)


GRID = square(2, 2)
FILE = """
[[term]]
ops = "0.25 S+ S-"
bonds = "nearest"
coupling = 2
[[term]]
ops = "1/4 S- S+"
bonds = "nearest"
coupling = 2
[[term]]
ops = "Sz"
sites = "all"
[[term]]
sites = [1, 0]
ops = "Sz Sx"
coupling = 0.25
"""


def test_an_operator_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(FILE)
    found = read_operator(tmp_path / "mine.toml", GRID)
    products = [("Sx Sx + Sy Sy", "nearest"), ("Sz", "all"), ("Sx Sz", [(0, 1)], 0.25)]
    expected = oracles.dense_hamiltonian(Operator.from_products(GRID, products))
    assert np.abs(oracles.dense_hamiltonian(found) - expected).max() < 1e-15
    assert found.name == "mine"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('ops = "Sx Sw"\nbonds = "nearest"', "term.1: 'Sx Sw', column 4"),
        ("sites = [0]", "ops: missing"),
    ],
)
def test_a_file_that_cannot_be(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "mine.toml").write_text(f"[[term]]\n{text}\n")
    with pytest.raises(ConfigError, match=told):
        read_operator(tmp_path / "mine.toml", GRID)


def test_what_is_not_hermitian_has_two_parts(tmp_path: Path) -> None:
    (tmp_path / "hop.toml").write_text('[[term]]\nops = "S+ S-"\nbonds = [[0, 3]]\n')
    found = read_operator(tmp_path / "hop.toml", GRID).hermitian_parts
    assert [part.name for part in found] == ["real part of hop", "imaginary part of hop"]
    expected = NonHermitian.from_products(GRID, [("S+ S-", [(0, 3)])])
    for part, same in zip(found, (expected.real, expected.imaginary), strict=True):
        assert np.array_equal(oracles.dense_hamiltonian(part), oracles.dense_hamiltonian(same))
    (tmp_path / "current.toml").write_text('[[term]]\nops = "S+ S- - S- S+"\nbonds = [[0, 3]]\n')
    (only,) = read_operator(tmp_path / "current.toml", GRID).hermitian_parts
    assert only.name == "imaginary part of current"


HEXAGON = [[-0.87, 0.5], [0, 1], [0.87, 0.5], [-0.87, -0.5], [0, -1], [0.87, -0.5]]


def test_lists_of_bonds_with_kinds_and_coordinates() -> None:
    """A table of kinds; positions are [x, y]; what was read can be written and read again."""
    kinds = {"x": [[1, 0], [2, 5]], "y": [[1, 2], [4, 3]], "z": [[5, 4], [0, 3]]}
    told = config({"ops": DM, "bonds": "x"}, {"ops": "Sz Sz", "bonds": "z", "coupling": [1, 2]})
    told["lattice"] |= {"bonds": kinds, "coordinates": HEXAGON}
    settings = validate(told)
    for read in (settings, validate(settings.as_dict())):
        operator = build_operator(read)
        lattice = operator.lattice
        assert lattice.directed("x") == ((1, 0), (2, 5)) and lattice.bonds["x"] == ((0, 1), (2, 5))
        assert np.array_equal(lattice.positions(), HEXAGON)
        python = Operator.from_products(
            lattice, [(DM, [(1, 0), (2, 5)]), ("Sz Sz", [(5, 4), (0, 3)], [1.0, 2.0])]
        )
        assert fingerprint(operator) == fingerprint(python)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"boundary": "periodic"}, "boundary"),
        ({"coordinates": HEXAGON[:5]}, "one (x, y) per site"),
        ({"coordinates": [[0, 1, 2]] * 6}, "coordinates"),
        ({"bonds": {"x": [[0]]}}, "bonds"),
        ({"bonds": {"all": [[0, 1]]}}, "means all sites"),
    ],
)
def test_what_a_list_of_bonds_cannot_be(change: dict[str, object], told: str) -> None:
    config_ = config({"ops": "Sz", "sites": "all"})
    config_["lattice"] |= change
    with pytest.raises(ValueError) as caught:
        build_operator(validate(config_))
    assert told in str(caught.value)
