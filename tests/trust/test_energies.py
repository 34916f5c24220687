"""What Python says of a number that it should not trust."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tnvmc import (
    PEPS,
    SRC,
    VMC,
    DirectSampler,
    Enumerate,
    Exact,
    Jastrow,
    Sampler,
    Symmetrised,
    UnreliableWarning,
    chain,
    from_bonds,
    heisenberg,
    j1j2,
    measure_observables,
    rydberg,
    square,
    symmetry_group,
    tfim,
)
from tnvmc.operators.models import xxz
from tnvmc.trust import reference
from tnvmc.trust.energies import LARGE_V_SCORE, affordable, of_level, of_steps
from tnvmc.trust.reference import DIAGONALISED, Place, lowest_energy
from tnvmc.vmc.trial import LEAST_STEPS

LATTICE = square(3, 2)


def vmc(sampler: Any, operator: Any = None) -> VMC:
    operator = operator or heisenberg(LATTICE)
    return VMC(operator, PEPS(operator.lattice, 2), sampler)


def codes(found: Any) -> list[str]:
    return [each.code for each in found.diagnostics]


@pytest.mark.whole
@pytest.mark.parametrize("sampler", [Sampler(64, 512, threads=1), Enumerate(threads=1)])
def test_healthy_use_is_silent(sampler: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = vmc(sampler)
        state.run(2)
        found = state.measure()
        state.expect(state.operator)
    assert found.diagnostics == ()


def test_an_energy_below_the_exact_one_is_told_first_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Hamiltonian whose known energy is moved up stands for a sampler that is wrong."""
    true = lowest_energy(heisenberg(LATTICE), 0, 100)
    assert true is not None
    raised = replace(true, energy_total=true.energy_total + 5.0)
    monkeypatch.setattr(reference, "lowest_energy", lambda *_: raised)
    state = vmc(Sampler(64, 512, threads=1))
    with pytest.warns(UnreliableWarning, match="VMC.measure: below_reference"):
        found = state.measure()
    assert "below_reference" in codes(found)
    with pytest.warns(UnreliableWarning, match="VMC.run: below_reference"):
        state.run(1)


def test_the_exact_energy_of_a_sector() -> None:
    operator = xxz(LATTICE, Jz=3.0)
    low, high = lowest_energy(operator, 0, 100), lowest_energy(operator, 4, 100)
    assert low is not None and high is not None
    assert low.energy_total < high.energy_total
    assert lowest_energy(operator, 0, 19) is None  # of 20 states
    place = Place(operator, 0, PEPS(LATTICE, 2))
    (told,) = of_level((low.energy_total - 0.5, 0.1), place)
    assert (told.code, told.values["sigmas"]) == ("below_reference", pytest.approx(5.0))
    assert not list(of_level((low.energy_total - 0.3, 0.1), place))


@pytest.mark.parametrize("unit", [1e-12, 1e9])
def test_an_energy_below_the_exact_one_is_told_in_any_units(unit: float) -> None:
    operator = heisenberg(LATTICE, J=unit)
    exact, place = lowest_energy(operator, 0, 100), Place(operator, 0, PEPS(LATTICE, 2))
    assert exact is not None
    for error in (0.1 * unit, 0.0):
        assert list(of_level((exact.energy_total - 0.5 * unit, error), place))
        assert not list(of_level((exact.energy_total * (1 + 1e-14), error), place))


def test_few_walkers_and_their_operators() -> None:
    state = vmc(Sampler(2, 16, threads=1))
    with pytest.warns(UnreliableWarning, match="few_walkers"):
        found = state.measure()
    assert "few_walkers" in codes(found)
    with pytest.warns(UnreliableWarning, match="VMC.expect: few_walkers"):
        assert "few_walkers" in codes(state.expect(state.operator))


def test_one_draw_of_each_chain_shows_no_mixing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Means of 64 stuck chains of one sample were off by four errors without a word."""
    state = vmc(Sampler(64, 64, threads=1))
    for n_samples, told in ((64, True), (128, False)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreliableWarning)
            found = [
                codes(state.measure(n_samples=n_samples)),
                codes(state.expect(state.operator, n_samples=n_samples)),
                {x["code"] for x in measure_observables(state, n_samples=n_samples)["diagnostics"]},
            ]
        assert ["one_draw" in each for each in found] == 3 * [told]
    from tnvmc.vmc import measurement

    with monkeypatch.context() as few, warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableWarning)
        few.setattr(measurement, "_ENTRIES", 1)  # parts of one draw
        assert "one_draw" not in codes(state.expect(state.operator, n_samples=192))
    direct = vmc(DirectSampler(64, threads=1))
    assert "one_draw" not in codes(direct.measure(n_samples=64))


def test_steps_that_were_held_back() -> None:
    state = vmc(Enumerate(threads=1))
    records = [replace(state.step(), undone=step % 2 == 0) for step in range(8)]
    (told,) = of_steps(records, state.problem, state.method.sampler, state.state)
    assert (told.code, told.values["held_back"]) == ("optimisation_unstable", 4)


@pytest.mark.whole
@pytest.mark.parametrize(("scheme", "told"), [(SRC(2), True), (SRC(16), False), (Exact(), False)])
def test_a_sum_over_truncated_amplitudes_is_not_exact(scheme: Any, told: bool) -> None:
    """An enumeration carries the closure spread, and says where it is too large, as chains do."""
    operator = heisenberg(square(3, 4))
    ansatz = PEPS(operator.lattice, 4, scheme=scheme)
    theta = ansatz.initial(operator)
    for by_orbit in (True, False):
        sampler = Enumerate(threads=1, by_orbit=by_orbit)
        state = VMC(operator, ansatz, sampler, theta=theta)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = state.measure()
        assert ("closure_spread_large" in codes(found)) == told
        warned = [str(each.message).split(": ")[:2] for each in caught]
        assert (["VMC.measure", "closure_spread_large"] in warned) == told
        assert found.closure_spread is not None and (found.closure_spread > 1e-3) == told


def test_a_sector_of_one_configuration_is_no_reason_to_doubt() -> None:
    operator = heisenberg(LATTICE)
    state = VMC(operator, PEPS(LATTICE, 2), Sampler(16, 64, n_burn=1, threads=1), magnetisation=6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, other = state.measure(), state.expect(operator)
    assert found.diagnostics == other.diagnostics == ()
    assert found.energy == pytest.approx(7 / 4)  # of its 7 bonds


def test_draws_of_an_enumeration_have_no_number() -> None:
    assert Enumerate().n_samples is None
    assert (Sampler(8, 32).n_samples, DirectSampler(32).n_samples) == (32, 32)


def test_an_energy_far_above_the_exact_one_is_told_in_python() -> None:
    """A product state is at -0.25 a bond; its variance and error bar say nothing of that."""
    state = VMC(heisenberg(LATTICE), PEPS(LATTICE, 1), Enumerate(threads=1))
    with pytest.warns(UnreliableWarning, match="VMC.measure: above_reference.* a larger D"):
        found = state.measure()
    assert codes(found).count("above_reference") == 1
    with pytest.warns(UnreliableWarning, match="measure_observables: above_reference"):
        every = measure_observables(state)
    told = [each["code"] for each in every["diagnostics"]]
    assert told.count("above_reference") == 1
    exact = lowest_energy(heisenberg(LATTICE), 0, 100)
    assert exact is not None
    near = exact.energy_total * (1 - 0.009), exact.energy_total * (1 - 0.011)
    place = Place(heisenberg(LATTICE), 0, PEPS(LATTICE, 1))
    found_at = [list(of_level((energy, 0.0), place)) for energy in near]
    assert [len(each) for each in found_at] == [0, 1]
    sigmas = [
        found.values["sigmas"]
        for error in (0.0, 1e-12, 1e-3)
        for found in of_level((-1.0, error), place)
    ]
    assert sigmas[:2] == [None, None] and 1e2 < sigmas[2] < 1e4  # rounding is no error
    for errors, told in ((4.9, 1), (3.1, 1), (2.9, 0)):
        noisy = abs(exact.energy_total) * 0.011 / errors
        assert len(list(of_level((near[1], noisy), place))) == told
    assert not list(of_level((near[1], 0.0), place, final=False))
    above = near[1] - exact.energy_total
    for variance, higher in (((above / 9) ** 2, False), ((above / 11) ** 2, True)):
        (found_here,) = of_level((near[1], 0.0), place, variance=variance)
        assert found_here.values["higher_level"] == higher


@pytest.mark.parametrize(
    ("state", "lacks"), [("peps", "D"), ("product", "kind"), ("rbm", "ansatz")]
)
def test_what_a_state_lacks(state: str, lacks: str) -> None:
    if state == "rbm":
        pytest.importorskip("flax")
    from tnvmc import RBM, FlaxAnsatz, ProductState

    made: dict[str, Any] = {
        "peps": lambda: PEPS(LATTICE, 1),
        "product": lambda: ProductState(LATTICE),
        "rbm": lambda: FlaxAnsatz(LATTICE, lambda rngs: RBM(LATTICE, rngs=rngs)),
    }
    place = Place(heisenberg(LATTICE), 0, made[state]())
    (told,) = of_level((-1.0, 1e-3), place)
    assert (told.code, told.values["lacks"]) == ("above_reference", lacks)
    raised = (reference_energy(place) - 1.0, 1e-3)
    (told,) = of_level(raised, place)
    assert told.values["raise"][0] == ("contraction.chi" if lacks == "D" else "sampler.n_burn")


def reference_energy(place: Place) -> float:
    found = place.level(DIAGONALISED)
    assert found is not None
    return found.energy_total


def test_diagonalising_takes_a_small_part_of_a_run() -> None:
    operator = tfim(square(4, 4), h=2.0)  # 65,536 states, no published energy
    assert affordable(operator, 0.0) < 2**16 == affordable(operator, 60.0)
    assert affordable(operator, 0.0) > 5000


@pytest.mark.parametrize("sampler", [Sampler(64, 256, threads=1), Enumerate(threads=1)])
@pytest.mark.parametrize(("field", "told"), [(-3.0, True), (3.0, False)])
def test_signs_that_a_state_lacks_are_told(sampler: Any, field: float, told: bool) -> None:
    """psi > 0, and a field of the other sign; the energies are those of theta = 0."""
    operator = tfim(LATTICE, h=field)
    state = Jastrow(LATTICE)
    found = VMC(operator, state, sampler, theta=np.zeros(state.n_params)).measure()
    assert found.off_diagonal_energy == pytest.approx(-6 * field)
    assert ("signs_raise_energy" in codes(found)) == told


def test_signs_of_a_symmetric_or_an_excited_state_are_not_judged() -> None:
    """A state with a character of -1 may lie above any of random signs."""
    operator = tfim(LATTICE, h=-3.0)
    lower = VMC(operator, Jastrow(LATTICE), Enumerate(threads=1), theta=np.ones(15))
    state = Symmetrised(Jastrow(LATTICE), symmetry_group(operator, ["point"]))
    for ansatz, kept in ((state, ()), (Jastrow(LATTICE), lower)):
        theta = np.zeros(state.n_params)
        vmc = VMC(operator, ansatz, Enumerate(threads=1), theta=theta, orthogonal_to=kept)
        assert "signs_raise_energy" not in codes(vmc.measure())


@pytest.mark.parametrize(("J2", "told"), [(1.5, True), (0.0, False)])
def test_a_lower_level_of_other_characters_is_told(J2: float, told: bool) -> None:
    """Characters of +1 on four sites: with strong diagonals the ground state has others."""
    operator = j1j2(square(2, 2), J2=J2)
    state = Symmetrised(PEPS(square(2, 2), 2, sharing=None), symmetry_group(operator, ["point"]))
    found = VMC(operator, state, Enumerate(threads=1)).measure()
    assert ("lower_with_other_characters" in codes(found)) == told


@pytest.mark.parametrize(("steps", "told"), [(0, True), (2, False), (LEAST_STEPS, False)])
def test_signs_are_judged_where_steps_could_have_found_them(steps: int, told: bool) -> None:
    """A positive PEPS raises the energy of an antiferromagnet until it has found its signs."""
    operator, state = heisenberg(square(2, 3)), PEPS(square(2, 3), 2, sharing=None)
    theta = state.initial(operator, 0, "random")
    vmc = VMC(operator, state, Enumerate(threads=1), theta=theta)
    vmc.run(steps)
    assert ("signs_raise_energy" in codes(vmc.measure())) == told


def test_signs_that_no_step_finds_are_told_after_them() -> None:
    operator, state = tfim(LATTICE, h=-3.0), Jastrow(LATTICE)
    vmc = VMC(operator, state, Enumerate(threads=1), theta=np.zeros(state.n_params))
    vmc.run(LEAST_STEPS)
    assert "signs_raise_energy" in codes(vmc.measure())


def test_a_state_far_from_any_eigenstate_is_told() -> None:
    """Bonds at random between 20 sites, D = 2: 10 % above the ground state without a word."""
    rng = np.random.default_rng(3)
    bonds = {(i, i + 1) for i in range(13)}
    while len(bonds) < 24:
        i, j = sorted(map(int, rng.choice(14, 2, replace=False)))
        bonds.add((i, j))
    operator = heisenberg(from_bonds((2, 7), sorted(bonds)))
    vmc = VMC(operator, PEPS(operator.lattice, 1), Sampler(64, 256, threads=1))
    vmc.run(3)
    with pytest.warns(UnreliableWarning, match="variance_large"):
        found = vmc.measure(n_samples=512)
    (told,) = (each for each in found.diagnostics if each.code == "variance_large")
    assert told.values["v_score"] == found.v_score > LARGE_V_SCORE


@pytest.mark.parametrize("constant", [0.0, -5.0])
def test_a_constant_does_not_hide_that_an_energy_is_far_above(constant: float) -> None:
    model = heisenberg(LATTICE)
    operator = model + constant * model.n_sites
    place = Place(operator, 0, Jastrow(LATTICE))
    exact = lowest_energy(operator, 0, DIAGONALISED)
    assert exact is not None
    (told,) = of_level((exact.energy_total + 0.2, 0.01), place)
    assert told.code == "above_reference"


def test_a_large_scale_does_not_hide_it_either() -> None:
    """Of blockaded atoms random states lie at 5 V, and the ground state near -N / 2."""
    operator = rydberg(square(3, 3), V=50.0, delta=1.0, Omega=1.0)
    exact = lowest_energy(operator, None, DIAGONALISED)
    assert exact is not None
    place = Place(operator, None, Jastrow(square(3, 3)))
    (told,) = of_level((0.97 * exact.energy_total, 1e-3), place)
    assert told.code == "above_reference"


def test_a_level_at_zero_has_no_errors_of_rounding() -> None:
    operator = xxz(chain(3), 1.0, 0.0)
    kept = VMC(operator, Jastrow(chain(3)), Enumerate(), magnetisation=1)
    vmc = VMC(operator, Jastrow(chain(3)), Enumerate(), magnetisation=1, orthogonal_to=kept)
    place = Place(operator, 1, Jastrow(chain(3)), vmc.method.orthogonal_to)
    for energy in (-7e-12, 5e-11):
        assert not list(of_level((energy, 0.0), place))


def test_of_one_sample_nothing_is_a_higher_level() -> None:
    place = Place(heisenberg(LATTICE), 0, Jastrow(LATTICE))
    (told,) = of_level((1.0, float("inf")), place, variance=0.0)
    assert not told.values["higher_level"]
