"""Rows of the public table of variational energies, in its units."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.varbench import NotInVarBench, varbench_row

HEISENBERG: dict[str, Any] = {
    "energy": -86.907144 / 4,
    "energy_error": 7.2e-4,
    "variance": 0.36,
    "n_sites": 36,
    "version": "0.1.0",
    "chi": 16,
    "config": {
        "lattice": {"kind": "square", "shape": [6, 6], "boundary": "open"},
        "hamiltonian": {"model": "heisenberg", "J": 1.0},
        "ansatz": {"kind": "peps", "D": 4},
        "measure": {"chi": 16},
    },
}


def changed(result: dict[str, Any] = HEISENBERG, **sections: Any) -> dict[str, Any]:
    return {**result, "config": {**result["config"], **sections}}


def parsed(result: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Name of the file, and the cells by column, read as the dataset's own scripts do."""
    name, empty, header, rule, row = varbench_row(result).splitlines()
    assert empty == ""
    assert "---" in rule
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in (header, row)]
    assert len({len(header), len(rule), len(row)}) == 1
    return name, dict(zip(*cells, strict=True))


def test_the_heisenberg_model_in_pauli_matrices() -> None:
    name, row = parsed(HEISENBERG)
    assert name == "Heisenberg/square_36_O.md"
    assert row == {
        "Energy": "-86.90714",  # exact diagonalisation there: -86.9071441699763
        "Sigma": "0.0029",
        "Energy Variance": "5.76",  # 16 times ours
        "DOF": "36",
        "Einf": "0",
        "Method": "PEPS (D = 4, chi = 16), VMC, tnvmc 0.1.0",
        "Reference": "",
    }


def test_the_first_coupling_is_the_unit() -> None:
    doubled = {**HEISENBERG, "energy": 2 * HEISENBERG["energy"], "energy_error": 1.44e-3,
               "variance": 1.44}  # fmt: skip
    _, row = parsed(changed(doubled, hamiltonian={"model": "heisenberg", "J": 2.0}))
    assert row == parsed(HEISENBERG)[1]


def test_the_ising_model_stays_as_it_is() -> None:
    result = changed(
        {**HEISENBERG, "energy": -457.04, "energy_error": 0.0, "n_sites": 144},
        lattice={"kind": "square", "shape": [12, 12], "boundary": "open"},
        hamiltonian={"model": "tfim", "J": 1.0, "h": 3.0},
    )
    name, row = parsed(result)
    assert name == "TFIsing/square_144_O_3.md"
    assert (row["Energy"], row["Sigma"], row["Energy Variance"]) == ("-457.04", "", "0.36")


@pytest.mark.parametrize(
    ("lattice", "n_sites", "name"),
    [
        ({"kind": "chain", "shape": 20, "boundary": "open"}, 20, "J1J2/chain_20_O_0.5.md"),
        ({"kind": "chain", "shape": 20, "boundary": "periodic"}, 20, "J1J2/chain_20_P_0.5.md"),
        ({"shape": [10, 10], "boundary": "periodic"}, 100, "J1J2/square_100_P_0.5.md"),
        ({"shape": [4, 4], "boundary": "cylinder"}, 16, "J1J2/square_16_PO_0.5.md"),
        ({"shape": [30, 4], "boundary": "cylinder"}, 120, "J1J2/rectangular-4x30_120_PO_0.5.md"),
        ({"shape": [4, 6], "boundary": "periodic"}, 24, "J1J2/rectangular-4x6_24_P_0.5.md"),
    ],
)
def test_lattices_have_the_names_of_the_dataset(
    lattice: dict[str, Any], n_sites: int, name: str
) -> None:
    j1j2 = {"model": "j1j2", "J1": 2.0, "J2": 1.0}
    found, _ = parsed(
        changed({**HEISENBERG, "n_sites": n_sites}, lattice=lattice, hamiltonian=j1j2)
    )
    assert found == name


def test_triangular_lattices_have_files() -> None:
    lattice = {"kind": "triangular", "shape": [12, 12], "boundary": "open"}
    row = varbench_row(changed({**HEISENBERG, "n_sites": 144}, lattice=lattice))
    assert row.splitlines()[0] == "Heisenberg/triangular_144_O.md"


def test_a_lattice_of_bonds_has_a_row_and_no_file() -> None:
    bonds = {"kind": "bonds", "shape": [6, 6], "bonds": [[0, 1]]}
    assert varbench_row(changed(lattice=bonds)).startswith("| Energy ")


def test_the_last_stage_and_other_states_in_the_method() -> None:
    grown = {**HEISENBERG, "stages": [{"D": 2}, {"D": 3}]}
    assert "D = 3" in parsed(grown)[1]["Method"]
    symmetric = changed(measure={"chi": 16, "symmetrise": ["spin", "point"]})
    assert "(D = 4, chi = 16, symmetrised: spin, point)" in parsed(symmetric)[1]["Method"]
    odd = {"symmetrise": ["spin"], "characters": {"spin inversion": -1}}
    summed = changed(ansatz={"kind": "peps", "D": 4, **odd}, measure={"chi": 16})
    told = "(D = 4, chi = 16, symmetrised: spin, spin inversion: -1)"
    assert told in parsed(summed)[1]["Method"]
    ring = changed({**HEISENBERG, "chi": None}, ansatz={"kind": "periodic_mps", "D": 8}, measure={})
    assert parsed(ring)[1]["Method"] == "periodic MPS (D = 8), VMC, tnvmc 0.1.0"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (changed(hamiltonian={"model": "rydberg", "V": 7.0}), "no table for the model 'rydberg'"),
        (changed(hamiltonian={"model": "heisenberg", "J": [1.0, 2.0]}), "J is a list"),
        (changed(hamiltonian={"model": "heisenberg", "J": -1.0}), "J > 0; it is -1.0"),
        (changed(hamiltonian={"model": "xxz", "J": 1.0, "Jz": 0.5}), "no XXZ model"),
        ({**HEISENBERG, "energy": None}, "not finite"),
        (
            changed(
                hamiltonian={"model": "tfim", "J": 1.0, "h": 1.0},
                lattice={"kind": "chain", "shape": 5, "boundary": "periodic"},
            ),
            "periodic lattice of odd length",
        ),
    ],
)
def test_results_that_the_dataset_has_no_place_for(result: dict[str, Any], words: str) -> None:
    with pytest.raises(NotInVarBench, match="VarBench") as raised:
        varbench_row(result)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
