"""The sector is named, and where a lower energy lies in another one, that is told."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from tests.magnets import along_z, bosons, correlated_hopping, dzyaloshinskii_moriya, folded_xxz
from tests.operators.test_properties import field
from tnvmc import PEPS, VMC, Enumerate, UnreliableWarning, chain, heisenberg, kagome, square, tfim
from tnvmc.app.cli import main
from tnvmc.exact import exact_ground_state
from tnvmc.operators.models import tv, xxz
from tnvmc.operators.properties import energy_bound, polarised
from tnvmc.operators.symmetry import mirrors_sectors, other_sectors
from tnvmc.operators.term import Operator
from tnvmc.trust.reference import elsewhere

LATTICE = square(2, 3)
LARGE = square(6, 6)
MAGNET = xxz(LATTICE, J=0.5, Jz=-1.0)
OTHERS = {"lower_in_other_sector", "sector_not_compared"}


def test_ferromagnets_are_told() -> None:
    """Sector 0 of an easy-axis ferromagnet was solved without a word."""
    vmc = VMC(MAGNET, PEPS(LATTICE, 2), Enumerate(threads=1), learning_rate=0.01)
    with pytest.warns(UnreliableWarning, match="VMC.measure: lower_in_other_sector") as told:
        found = vmc.measure()
    assert len([each for each in told if "lower_in_other" in str(each.message)]) == 1
    assert found.magnetisation == 0 and "2 Sz = 0" in str(found)
    assert found.as_dict()["magnetisation"] == 0
    values = next(each.values for each in found.diagnostics if each.code in OTHERS)
    assert values["other"] in (6, -6)
    assert 6 * values["energy_per_site"] == pytest.approx(exact_ground_state(MAGNET, "full").energy)
    with pytest.warns(UnreliableWarning, match="VMC.run: lower_in_other_sector"):
        vmc.run(1)


def test_a_sector_that_was_chosen_is_not_doubted() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # No step was made.
        warnings.filterwarnings("ignore", message=".*(above_reference|variance_large)")
        found = VMC(MAGNET, PEPS(LATTICE, 2), Enumerate(threads=1), magnetisation=2).measure()
    assert found.magnetisation == 2


def test_where_nothing_is_conserved_there_is_no_sector() -> None:
    found = VMC(tfim(LATTICE), PEPS(LATTICE, 2), Enumerate(threads=1)).measure()
    assert found.magnetisation is None and "Sz" not in str(found)


@pytest.mark.parametrize(
    ("operator", "sector", "code"),
    [
        (xxz(LARGE, J=0.5, Jz=-2.0), 0, "lower_in_other_sector"),
        (along_z(LATTICE, 1.0), 0, "lower_in_other_sector"),
        (along_z(LARGE, 8.0), 0, "lower_in_other_sector"),
        (along_z(LARGE, 1.0), 0, "sector_not_compared"),
        (along_z(LARGE, 1.0), 4, None),
        (along_z(LATTICE, 0.1), 0, None),
        (along_z(LARGE, 1.0, staggered=True), 0, None),
        (heisenberg(LARGE), 0, None),
        (heisenberg(LATTICE, J=-1.0), 0, None),
        (heisenberg(square(3, 3)), 1, None),
        (1e-9 * along_z(LATTICE, 1.0), 0, "lower_in_other_sector"),
        (xxz(LATTICE, Jz=3.0), 0, None),
        (xxz(LARGE, Jz=3.0), 0, None),
        (xxz(kagome(6, 6), Jz=3.0), 1, None),
        (dzyaloshinskii_moriya(LARGE), 0, None),
        (folded_xxz(12), 0, "lower_in_other_sector"),
        (correlated_hopping(12), 0, "lower_in_other_sector"),
        (correlated_hopping(36), 0, "sector_not_compared"),
        (bosons(6), 0, "lower_in_other_sector"),
        (folded_xxz(36), 0, "sector_not_compared"),
        (xxz(LATTICE, Jz=-0.9), 0, None),
        (heisenberg(LATTICE) + field(0.2, -0.1), 0, None),
        (xxz(square(3, 3), Jz=2.0), 1, None),
        (xxz(square(3, 3), Jz=2.0), -1, None),
        (tfim(LARGE), None, None),
    ],
)
def test_other_sectors(operator: Operator, sector: int | None, code: str | None) -> None:
    """No false alarm for antiferromagnets, whose energy per site is about -0.5."""
    unit = min(1.0, energy_bound(operator))  # 1, but for a magnet in other units
    found = elsewhere((-0.5 * operator.n_sites * unit, 0.01 * unit), operator, sector)
    assert [each.code for each in found] == ([code] if code else [])


def test_a_bad_energy_of_the_right_sector_is_not_blamed_on_the_sector() -> None:
    operator = xxz(LATTICE, Jz=-0.99)
    polar = min(energy for _, energy in polarised(operator))
    assert exact_ground_state(operator, 0).energy < polar
    assert elsewhere((polar + 0.1, 1e-3), operator, 0) == ()


@pytest.mark.whole
def test_a_sector_that_is_too_large_is_passed_by() -> None:
    """Twenty sites, of which 0 and its neighbours are not diagonalised: nothing was told."""
    found = elsewhere((-11.029, 0.004), correlated_hopping(20), 0)
    assert found[0].values["other"] == -8
    assert 20 * found[0].values["energy_per_site"] == pytest.approx(-11.69952568, abs=1e-7)


def test_a_filling_of_bosons_is_named() -> None:
    (few,), (many,) = (elsewhere((-3.0 * n, 0.01), bosons(n), 0) for n in (6, 24))
    assert (few.values["bosons"], few.values["other"]) == (9, -6)
    assert (many.values["bosons"], many.values["expected"]) == (36, -24)


def test_a_cluster_tells_where_to_look() -> None:
    (found,) = elsewhere((-15.0, 0.01), correlated_hopping(36), 0)
    assert found.values["expected"] == -12


@pytest.mark.parametrize(
    ("operator", "mirrors"),
    [
        (xxz(LATTICE, Jz=2.0), True),
        (dzyaloshinskii_moriya(LATTICE), True),  # with complex conjugation
        (along_z(square(4, 6, "periodic"), 0.5, staggered=True), True),  # with a shift
        (heisenberg(LATTICE) + field(1, 0, 0, 0, 0, -1), True),  # with half a turn
        (Operator.from_products(LATTICE, [("n n", "nearest"), ("n", "all", -1.0)]), False),
        (
            Operator.from_products(chain(6, "periodic"), [("n n", "nearest"), ("n", "all", -1)]),
            True,
        ),
        (along_z(LATTICE, 0.1), False),
        (correlated_hopping(6), False),
        (bosons(4), False),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_sectors_of_both_signs_are_alike(operator: Operator, mirrors: bool) -> None:
    """However H is cut into terms."""
    assert mirrors_sectors(operator) == mirrors
    largest = operator.n_sites * (operator.local_dim - 1)
    every = set(range(-largest, largest + 1, 2)) - {0}
    found = other_sectors(operator, 0)
    assert set(found) == {m for m in every if m > 0 or not mirrors}
    assert found == sorted(found, key=abs)


def test_the_best_sector_of_a_field_is_found() -> None:
    operator = along_z(LATTICE, 1.0)
    found = elsewhere((-3.0, 0.01), operator, 0)
    exact = exact_ground_state(operator, "full").energy
    assert 6 * found[0].values["energy_per_site"] == pytest.approx(exact)


@pytest.mark.whole
def test_the_command_line_names_the_sector(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "xxz.toml"
    file.write_text(
        '[lattice]\nshape = [2, 2]\n[hamiltonian]\nmodel = "xxz"\nJ = 0.5\nJz = -1.0\n'
        '[ansatz]\nkind = "peps"\nD = 2\n[sampler]\nn_walkers = 32\nn_samples = 128\n'
        "[optimizer]\nsteps = 1\n[run]\nthreads = 1\n"
    )
    run = tmp_path / "run"
    assert main(["run", str(file), "--out", str(run)]) == 0
    printed = capsys.readouterr().out
    assert "2 Sz = 0" in printed and "lower energy" in printed
    result = json.loads((run / "result.json").read_text())
    assert result["magnetisation"] == 0
    codes = [found["code"] for found in result["diagnostics"]]
    assert codes.count("lower_in_other_sector") == 1
    for command in ("show", "measure"):
        assert main([command, str(run)]) == 0
        assert "2 Sz = 0" in capsys.readouterr().out
    observables = json.loads((run / "observables.json").read_text())
    assert observables["magnetisation"] == 0
    assert "lower_in_other_sector" in [found["code"] for found in observables["diagnostics"]]
    assert main(["report", str(run)]) == 0
    assert "2 Sz = 0" in (run / "report.html").read_text()


def test_particles_are_no_spins() -> None:
    operator = tv(chain(5))
    assert not list(elsewhere((-1.0, 0.1), operator, 1))
