"""Values that symmetries of a state make equal are the mean over those in each sample."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest

from tnvmc import (
    HUBBARD,
    PEPS,
    VMC,
    Enumerate,
    Exact,
    Jastrow,
    Operator,
    ProductOfStates,
    ProductState,
    Sampler,
    heisenberg,
    hubbard,
    j1j2,
    measure_observables,
    sharing,
    square,
    tfim,
    triangular,
)
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised
from tnvmc.estimate.observables import alike, energy_terms, products, site_terms
from tnvmc.operators.spin import spin_matrices
from tnvmc.operators.symmetry import symmetry_group

SAME = 1e-10  # of a sum over all configurations of a state that has the symmetry
SZ = spin_matrices()[2]


def test_terms_that_symmetries_take_to_each_other() -> None:
    operator = heisenberg(square(3, 3))
    moves = sharing(operator).elements
    labels = alike(site_terms(9, SZ), moves)
    corner, edge, centre = labels[0], labels[1], labels[4]
    assert labels.tolist() == [corner, edge, corner, edge, centre, edge, corner, edge, corner]
    assert len({corner, edge, centre}) == 3
    assert len(set(alike(energy_terms(operator), moves))) == 2  # at the rim, and to the centre
    assert len(set(alike(products(9, SZ), moves))) == 11  # 8 kinds of pairs, 3 of sites
    assert len(set(alike(products(9, SZ), moves[:1]))) == 45


def test_terms_that_point_are_alike_in_their_direction_only() -> None:
    """Left-right reflection of three sites takes Sx Sy - Sy Sx to its negative."""
    lattice, mirror = square(1, 3), ((0, 1, 2), (2, 1, 0))
    bonds = [(0, 1), (1, 2)]
    along = Operator.from_products(lattice, [("Sx Sy - Sy Sx", bonds)])
    mirrored = Operator.from_products(lattice, [("Sx Sy - Sy Sx", bonds, [1.0, -1.0])])
    assert len(set(alike(energy_terms(along), mirror))) == 2
    assert len(set(alike(energy_terms(mirrored), mirror))) == 1


def states(name: str) -> tuple[Operator, Ansatz]:
    operator: Operator = {
        "triangles": heisenberg(triangular(2, 4)),
        "tfim": tfim(square(2, 3), h=1.5),
    }.get(name, j1j2(square(2, 4), J2=0.4))
    shared = name in ("shared", "triangles", "tfim", "product")
    peps = PEPS(operator.lattice, 2, scheme=Exact(), sharing=sharing(operator) if shared else None)
    if name == "symmetrised":
        return operator, Symmetrised(peps, symmetry_group(operator, ["point", "spin"]))
    if name == "product":
        return operator, ProductOfStates(peps, Jastrow(operator.lattice), "both")
    if name == "network":
        pytest.importorskip("flax")
        from tnvmc import RBM, FlaxAnsatz

        lattice, signs = operator.lattice, [(site // 4 + site) % 2 for site in range(8)]
        group = symmetry_group(operator, ["point", "spin"])
        network = partial(RBM, lattice, alpha=1)
        return operator, FlaxAnsatz(
            lattice, lambda rngs: network(rngs=rngs), group=group, signs=signs
        )
    return operator, peps


def numbers(held: Any, key: str = "mean") -> list[float]:
    """All means, or errors, at any depth, but those of dimers."""
    if isinstance(held, dict):
        own = [held[key]] if key in held else []
        return numbers(
            [*own, *(v for k, v in held.items() if k not in ("dimers", "mean", "error"))]
        )
    if isinstance(held, list):
        return [number for each in held for number in numbers(each, key)]
    return [held] if isinstance(held, float) else []


@pytest.mark.parametrize(
    "name",
    [
        "shared",
        "triangles",
        pytest.param("tfim", marks=pytest.mark.whole),
        pytest.param("product", marks=pytest.mark.whole),
        pytest.param("symmetrised", marks=pytest.mark.whole),
        pytest.param("network", marks=pytest.mark.whole),
    ],
)
def test_the_mean_over_equivalent_ones_is_the_value_of_each(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without noise: a symmetry that the state lacks would show."""
    operator, ansatz = states(name)
    theta = np.random.default_rng(4).normal(size=ansatz.n_params)
    vmc = VMC(operator, ansatz, Enumerate(threads=1), theta=theta)
    found = measure_observables(vmc)
    group = {"product": 1, "triangles": 2, "network": 2}.get(name, 4)
    assert found["symmetries"] >= group
    monkeypatch.setattr(type(ansatz), "kept_by", (), raising=False)
    plain = measure_observables(vmc)
    orbits = plain.pop("orbits")
    held = found.pop("orbits")
    assert held is None or found["symmetries"] == 1  # the values are means already
    np.testing.assert_allclose(numbers(found), numbers(plain), atol=SAME)
    if name == "shared":
        np.testing.assert_allclose(numbers(orbits["bonds"]), numbers(found["bonds"]), atol=SAME)


def test_orbits_are_means_over_symmetries_of_the_hamiltonian() -> None:
    """Beside the raw values of a state that lacks them; smaller errors, covariances included."""
    operator = heisenberg(square(2, 3))
    ansatz = PEPS(operator.lattice, 2, sharing=None)
    theta = np.random.default_rng(5).normal(size=ansatz.n_params)
    exact = measure_observables(VMC(operator, ansatz, Enumerate(threads=1), theta=theta))
    corners = [0, 2, 3, 5]
    raw, even = (np.array(held["sites"]["Sz"]["mean"]) for held in (exact, exact["orbits"]))
    assert np.ptp(raw[corners]) > 1e-3
    assert even[corners] == pytest.approx([raw[corners].mean()] * 4, abs=SAME)
    bonds = {tuple(bond["sites"]): bond["mean"] for bond in exact["bonds"]}
    alike = [bonds[0, 1], bonds[1, 2], bonds[3, 4], bonds[4, 5]]
    evened = {tuple(bond["sites"]): bond["mean"] for bond in exact["orbits"]["bonds"]}
    assert evened[3, 4] == pytest.approx(np.mean(alike), abs=SAME)
    disordered = heisenberg(operator.lattice, J=[1, 2, 3, 4, 5, 6, 7])
    vmc = VMC(disordered, ansatz, Enumerate(threads=1), theta=theta)
    assert measure_observables(vmc)["orbits"] is None


def test_equivalent_values_are_one_with_the_error_of_their_mean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator, ansatz = states("shared")
    vmc = VMC(operator, ansatz, Sampler(64, 512, threads=1))
    exact = measure_observables(VMC(operator, ansatz, Enumerate(threads=1), theta=vmc.theta))
    even = measure_observables(vmc, n_samples=2048)
    monkeypatch.setattr(PEPS, "kept_by", ())
    plain = measure_observables(vmc, n_samples=2048)
    # Bonds (0, 1) and (6, 7) are alike: an error bar is that of the mean of both in each sample.
    values = [{tuple(b["sites"]): b for b in held["bonds"]} for held in (even, plain, exact)]
    assert values[0][0, 1]["mean"] == values[0][6, 7]["mean"] != values[1][6, 7]["mean"]
    assert values[0][0, 1]["error"] < values[1][0, 1]["error"]
    assert even["structure_factor"]["SzSz"]["mean"] != plain["structure_factor"]["SzSz"]["mean"]
    off = [
        (values[0][bond]["mean"] - values[2][bond]["mean"]) / values[0][bond]["error"]
        for bond in values[0]
    ]
    assert np.abs(off).max() < 4
    # What is a mean over all bonds or sites already stays.
    for kind, mean in plain["averages"]["bonds"].items():
        assert even["averages"]["bonds"][kind] == mean


def test_a_state_without_symmetries_has_none() -> None:
    pytest.importorskip("flax")
    from tnvmc import RBM, FlaxAnsatz

    lattice = square(2, 2)
    network = FlaxAnsatz(lattice, lambda rngs: RBM(lattice, alpha=1, rngs=rngs))
    assert (PEPS(lattice, 2).kept_by, Jastrow(lattice).kept_by, network.kept_by) == ((), (), ())


@pytest.mark.filterwarnings("ignore::tnvmc.UnreliableWarning")
def test_observables_of_fermions() -> None:
    """Density, spin, double occupation and their correlations, against the dense state."""
    lattice = square(2, 2)
    operator = hubbard(lattice, 1.0, 4.0, particles=(2, 1))
    state = ProductState(lattice, local_dim=4)
    theta = 1 + 0.3 * np.random.default_rng(0).normal(size=state.n_params)
    found = measure_observables(VMC(operator, state, Enumerate(), theta=theta))
    states = operator.states(operator.magnetisation)
    amplitude = state.log_amplitude(theta, states.configs(states.codes))
    psi = amplitude.phase * np.exp(amplitude.log_abs)
    psi /= np.linalg.norm(psi)

    def mean(text: str, *sites: int) -> float:
        own = Operator.from_products(lattice, [(text, [sites])], fermions=HUBBARD)
        return float(psi @ (own.sparse(operator.magnetisation) @ psi))

    for name in ("n", "Sz", "nupdn"):
        expected = [mean(name, site) for site in range(4)]
        np.testing.assert_allclose(found["sites"][name]["mean"], expected, atol=1e-12)
    spins = "0.5 S+ S- + 0.5 S- S+ + Sz Sz"
    for name, text, square_of in (
        ("nn", "n n", "n^2"),
        ("SzSz", "Sz Sz", "Sz^2"),
        ("SS", spins, ""),
    ):
        matrix = np.array(found["correlations"][name]["mean"])
        for i, j in itertools.combinations(range(4), 2):
            assert matrix[i, j] == pytest.approx(mean(text, i, j), abs=1e-12)
        if square_of:
            assert matrix[0, 0] == pytest.approx(mean(square_of, 0), abs=1e-12)
    factor, q = (np.array(found["structure_factor"]["nn"][k]) for k in ("mean", "q"))
    np.testing.assert_allclose(
        factor[~q.any(axis=1)], 0, atol=1e-12
    )  # the number is fixed, its mean is taken off
