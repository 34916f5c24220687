"""Observables in Python: right, with labels, the same dict as a file holds, and drawn."""

from __future__ import annotations

import sys
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import tnvmc
from tnvmc import (
    PEPS,
    SR,
    VMC,
    DirectSampler,
    Enumerate,
    NonHermitian,
    Observables,
    Operator,
    Sampler,
    exact_ground_state,
    from_bonds,
    heisenberg,
    measure_observables,
    rydberg,
    square,
)
from tnvmc.session.overlaps import VectorState

mpl.use("Agg")

OPERATOR = heisenberg(square(2, 3))
PAIR = Operator.from_products(OPERATOR.lattice, [("Sz Sz", (0, 1))], name="pair")


@pytest.fixture(scope="module")
def vmc() -> VMC:
    """Without noise, near the ground state."""
    made = VMC(OPERATOR, PEPS(OPERATOR.lattice, 2), Enumerate(threads=1), SR(), learning_rate=0.2)
    made.run(15)
    return made


@pytest.fixture(scope="module")
def found(vmc: VMC) -> Observables:
    return measure_observables(vmc, operators=[PAIR])


def dense(vmc: VMC) -> np.ndarray:
    """psi over all configurations of the sector, and those."""
    configs = np.array(np.meshgrid(*[[0, 1]] * 6, indexing="ij")).reshape(6, -1).T
    configs = configs[configs.sum(axis=1) == 3].astype(np.int8)
    psi = vmc.ansatz.log_amplitude(vmc.measured_theta(), configs)
    weight = np.exp(2 * psi.log_abs)
    spins = 0.5 - configs
    return np.einsum("b,bi,bj->ij", weight / weight.sum(), spins, spins)


@pytest.mark.whole
def test_correlations_are_those_of_the_state(vmc: VMC, found: Observables) -> None:
    data = found.to_xarray()
    assert data["correlation"].dims == ("component", "site", "other")
    szsz = data["correlation"].sel(component="SzSz").values
    assert np.allclose(szsz, dense(vmc), atol=1e-10)
    total = sum(
        float(data["correlation"].sel(component="SS", site=i, other=j))
        for i, j in OPERATOR.lattice.bonds["nearest"]
    )
    assert total == pytest.approx(found["energy"]["mean"], abs=1e-10)
    assert found["operators"]["pair"]["mean"] == pytest.approx(szsz[0, 1], abs=1e-10)
    assert found["energy"]["mean"] >= exact_ground_state(OPERATOR).energy - 1e-9


def test_axes_have_names_and_places(found: Observables) -> None:
    data = found.to_xarray()
    assert [*data["component"].values] == ["SzSz", "SS"]
    assert [*data["field"].values] == ["Sz", "Sx"]
    assert data["value_error"].sel(field="Sz").shape == (6,)
    assert data["correlation_error"].shape == (2, 6, 6)
    assert float(data["x"][1]) == 1.0
    assert float(data["other_y"][5]) == 1.0
    assert data["structure_factor"].dims == ("component", "q")
    assert data["qx"].dims == ("q",)
    assert (data.attrs["units"], data.attrs["magnetisation"]) == ("S.S", 0)


def test_it_draws_and_shows_itself(found: Observables) -> None:
    from matplotlib import pyplot

    plot = tnvmc.plot
    for draw in (plot.correlations, plot.correlation_map, plot.lattice, plot.structure_factor):
        assert draw(found).figure is not None
    pyplot.close("all")
    assert "SzSz" in repr(found)
    assert "per site" in repr(found)
    assert "<td>pair</td>" in found._repr_html_()


@pytest.mark.whole
def test_samples_are_its_own_and_the_state_stays() -> None:
    chains = Sampler(n_walkers=16, n_samples=64, threads=1)
    vmc = VMC(OPERATOR, PEPS(OPERATOR.lattice, 2), chains)
    before = vmc.state
    found = measure_observables(vmc, n_samples=128, chi=8, pair_samples=32)
    again = measure_observables(vmc, n_samples=128, chi=8, pair_samples=32)
    assert vmc.state is before
    assert (found["n_samples"], found["pair_samples"], found["chi"]) == (128, 32, 8)
    assert found == again
    assert found["correlations"]["SS"]["error"][0][1] > 0
    assert "SS" not in measure_observables(vmc, 32, pair_samples=0)["correlations"]


@pytest.mark.whole
def test_atoms_have_their_own() -> None:
    atoms = rydberg(square(2, 2))
    found = measure_observables(VMC(atoms, PEPS(atoms.lattice, 2), Enumerate(threads=1)))
    assert [*found.to_xarray()["component"].values] == ["nn"]


@pytest.mark.parametrize(
    "wrong, kind, word",
    [
        ({"vmc": OPERATOR}, TypeError, "VMC"),
        ({"operators": [1.0]}, TypeError, "Operator"),
        ({"operators": ["Sz"]}, ValueError, "neel"),
        ({"operators": [PAIR, PAIR]}, ValueError, "pair"),
        ({"operators": heisenberg(square(2, 2))}, ValueError, "2 x 2"),
        ({"n_samples": 0}, ValueError, "n_samples"),
        ({"pair_samples": -1}, ValueError, "pair_samples"),
        ({"samples": 5}, TypeError, "'samples'"),
    ],
)
def test_wrong_calls(vmc: VMC, wrong: dict[str, Any], kind: type[Exception], word: str) -> None:
    with pytest.raises(kind, match=word):
        measure_observables(**{"vmc": vmc, **wrong})


def test_what_is_missing_is_named(found: Observables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match="'notebook'"):
        found.to_xarray()


def test_a_list_of_bonds_needs_no_coordinates() -> None:
    operator = heisenberg(from_bonds((2, 2), [(0, 1), (1, 3), (2, 3)]))
    data = measure_observables(VMC(operator, PEPS(operator.lattice, 2), Enumerate(threads=1)))
    labelled = data.to_xarray()
    assert "x" not in labelled.coords
    assert "structure_factor" not in labelled
    assert labelled["correlation"].shape == (2, 4, 4)
    assert "observable_left_out" in [each["code"] for each in data["diagnostics"]]


def test_operators_that_are_not_hermitian_are_measured_by_their_parts(vmc: VMC) -> None:
    hop = NonHermitian.from_products(OPERATOR.lattice, [("S+ S-", [(0, 1)])], name="hop")
    found = measure_observables(vmc, operators=hop)["operators"]
    assert set(found) == {"real part of hop", "imaginary part of hop"}
    expected = vmc.expect(hop).real.mean
    assert found["real part of hop"]["mean"] == pytest.approx(expected, abs=1e-10)


def test_operators_of_other_states_a_site_are_refused(vmc: VMC) -> None:
    three = Operator.from_products(OPERATOR.lattice, [("Sz Sz", "nearest")], local_dim=3)
    with pytest.raises(ValueError, match="local_dim=2"):
        measure_observables(vmc, operators=three)


def test_a_pair_that_two_kinds_of_bonds_join_is_of_both() -> None:
    """Its energy is that of both, and belongs into the mean of neither."""
    lattice = from_bonds(4, {"x": [(0, 1), (2, 3)], "z": [(1, 2), (0, 1)]})
    terms = [("X X", "x", -1.0), ("Z Z", "z", -0.5), ("X", "all", -0.3)]
    vmc = VMC(Operator.from_products(lattice, terms), PEPS(lattice, 2), Enumerate(threads=1))
    found = measure_observables(vmc)
    kinds = {tuple(bond["sites"]): bond["kind"] for bond in found["bonds"]}
    assert kinds == {(0, 1): "x, z", (1, 2): "z", (2, 3): "x"}
    (other,) = (bond["mean"] for bond in found["bonds"] if bond["kind"] == "z")
    assert found["averages"]["bonds"]["z"]["mean"] == other


def test_order_parameters_by_name(vmc: VMC) -> None:
    """Without noise they are the expectation of their operator, also of products of far bonds."""
    names = ["neel", "stripe_z", "dimer_columnar", "chirality"]
    held = measure_observables(vmc, operators=names)["operators"]
    for name in names:
        exact = vmc.expect(tnvmc.order_parameter(name, OPERATOR.lattice)).mean
        assert held[name]["mean"] == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"operators": "neal"}, "neel"),
        ({"operators": ["three_sublattice"]}, "triangular"),
        ({"operators": ["neel", "neel"]}, "neel"),
        ({"operators": ["neel"], "pair_samples": 0}, "pair_samples"),
    ],
)
def test_order_parameters_that_cannot_be(vmc: VMC, asked: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        measure_observables(vmc, **asked)


def test_an_order_that_leads_to_psi_0_is_left_out() -> None:
    """Of a Neel state dimers make configurations that are never drawn: 0.064, and 0.016 without."""
    states = OPERATOR.states(0)
    neel = np.isin(states.codes, states.codes[states.dimension // 3]).astype(float)
    made = VMC(OPERATOR, VectorState(OPERATOR, states, neel), Enumerate(0, threads=1), theta=neel)
    with pytest.warns(tnvmc.UnreliableWarning, match="amplitudes_vanish"):
        found = measure_observables(made, operators="dimer_columnar")
    assert "dimer_columnar" not in found["operators"]


def test_a_state_that_vanishes_by_symmetry_takes_products() -> None:
    """The square of M psi where psi = 0 is no part of samples, the product M M on psi is."""
    ansatz = tnvmc.Jastrow(OPERATOR.lattice)
    group = tnvmc.symmetry_group(OPERATOR, "point", {"left-right reflection": -1})
    odd = tnvmc.Symmetrised(ansatz, group)
    theta = np.random.default_rng(3).normal(size=odd.n_params)
    made = VMC(OPERATOR, odd, Enumerate(0, threads=1), theta=theta)
    held = measure_observables(made, operators="dimer_columnar")["operators"]["dimer_columnar"]
    exact = made.expect(tnvmc.order_parameter("dimer_columnar", OPERATOR.lattice)).mean
    assert held["mean"] == pytest.approx(exact, abs=1e-10)


def test_densities_less_their_mean_where_the_vmc_has_the_sector() -> None:
    hamiltonian = tnvmc.tv(square(2, 3), V=1.0)
    state = tnvmc.Slater(hamiltonian.lattice, 3)
    vmc = VMC(hamiltonian, state, Enumerate(), magnetisation=3, theta=state.random(1))
    factor = measure_observables(vmc)["structure_factor"]["nn"]
    at_zero = [m for q, m in zip(factor["q"], factor["mean"], strict=True) if not any(q)]
    np.testing.assert_allclose(at_zero, 0, atol=1e-12)


def test_all_configurations_of_an_enumeration_in_parts_are_counted() -> None:
    hamiltonian = tnvmc.tfim(square(4, 4), h=1.0)
    state = tnvmc.ProductState(hamiltonian.lattice)
    vmc = VMC(hamiltonian, state, Enumerate(), theta=state.random(1))
    field = Operator.from_products(hamiltonian.lattice, [("Sz", "all", 1.0)])
    assert vmc.expect(field).n_samples == 2**16


def test_a_last_part_of_two_draws() -> None:
    """1025 draws of pairs in parts of 1023: blocks of the rest have another size."""
    model = heisenberg(square(8, 8))
    vmc = VMC(model, PEPS(model.lattice, 1, sharing=None), DirectSampler(n_samples=1025))
    assert measure_observables(vmc, n_samples=1025, operators=())["structure_factor"]
