"""Settings become the objects they name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.oracles import all_configs
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.product import ProductState
from tnvmc.ansatz.slater import Slater
from tnvmc.contraction.schemes import SRC, Exact, ZipUp
from tnvmc.operators.symmetry import marshall_character, symmetry_group
from tnvmc.optimize.first_order import Adam, GradientDescent
from tnvmc.optimize.sr import SR
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.settings.build import (
    build_ansatz,
    build_optimizer,
    build_sampler,
    build_schedule,
    build_theta,
)
from tnvmc.settings.config import Settings, build_operator
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate
from tnvmc.settings.model_settings import MODELS, build_lattice, n_sites


def settings(*overrides: str) -> Settings:
    data: dict[str, Any] = {
        "lattice": {"shape": [4, 4]},
        "hamiltonian": {"model": "heisenberg"},
        "ansatz": {"D": 3},
    }
    return complete(validate(data, overrides))


@pytest.mark.parametrize("model", MODELS)
def test_every_model_on_its_lattice(model: str) -> None:
    kind = "shastry_sutherland" if model == "shastry_sutherland" else "square"
    numbers = {"tv": "8", "hubbard": "[8, 8]", "tj": "[6, 6]"}
    particles = [f"sampler.particles={numbers[model]}"] if model in numbers else []
    chosen = settings(f"hamiltonian.model={model}", f"lattice.kind={kind}", *particles)
    operator = build_operator(chosen)
    assert operator.name == model
    assert operator.lattice.shape == (4, 4)
    assert operator.couplings == chosen.hamiltonian.as_couplings()


SQUARE, ROWS = {"shape": [4, 4]}, {"shape": [3, 4], "boundary": "periodic"}


@pytest.mark.parametrize(
    ("lattice", "model", "marshall", "positive"),
    [
        (SQUARE, {"model": "heisenberg"}, True, True),
        (SQUARE, {"model": "j1j2", "J2": 0.5}, True, False),
        (SQUARE, {"model": "j1j2", "J2": 0.0}, True, True),
        (SQUARE, {"model": "tfim"}, False, True),
        (ROWS, {"model": "heisenberg"}, False, False),  # no checkerboard
        ({"kind": "triangular", "shape": [3, 3]}, {"model": "heisenberg"}, False, False),
    ],
)
def test_signs_and_phase_of_a_network_follow_the_hamiltonian(
    lattice: dict[str, Any], model: dict[str, Any], marshall: bool, positive: bool
) -> None:
    def found(kind: str, *overrides: str) -> Any:
        data = {"lattice": lattice, "hamiltonian": model, "ansatz": {"kind": kind}}
        return complete(validate(data, overrides)).ansatz

    phase = "real" if positive else "complex"
    for kind in ("cnn", "vit", "rnn", "patched_transformer"):
        keys = ("ansatz.patch=1",) if kind in ("vit", "patched_transformer") else ()
        assert (found(kind, *keys).marshall, found(kind, *keys).output) == (marshall, phase)
    assert (found("rbm").marshall, found("rbm").dtype) == (
        marshall, "float64" if positive else "complex128",
    )  # fmt: skip
    assert found("rbm").sharing == (positive and lattice == SQUARE)
    for keys, alpha in (((), 4 if found("rbm").sharing else 2), (("ansatz.sharing=false",), 2)):
        assert found("rbm", *keys).alpha == alpha
    # Signs that are asked for are not the exact ones any more, and a state that is not the lowest
    # has nodes.
    changed = found("cnn", f"ansatz.marshall={str(not marshall).lower()}")
    assert (changed.marshall, changed.output) == (not marshall, "complex")
    assert found("cnn", "ansatz.symmetrise=['point']").output == "complex"
    average = found("rbm", "ansatz.average=['spin']")
    assert (average.sharing, average.alpha) == (False, 2)


def test_a_machine_shares_hidden_units_by_symmetries_that_the_hamiltonian_has() -> None:
    def shares(shape: list[int], boundary: str = "open", model: str = "tfim") -> bool:
        lattice = {"shape": shape, "boundary": boundary}
        data = {"lattice": lattice, "hamiltonian": {"model": model}, "ansatz": {"kind": "rbm"}}
        found: bool = complete(validate(data, ())).ansatz.sharing
        return found

    def units(*shape: int) -> float:
        lattice = {"lattice": {"shape": list(shape)}, "hamiltonian": {"model": "heisenberg"}}
        found: float = complete(validate({**lattice, "ansatz": {"kind": "rbm"}}, ())).ansatz.alpha
        return found

    assert (units(6, 6), units(6, 8)) == (4, 2)  # 1000 parameters at most, as S is averaged
    assert shares([2, 3]) and shares([4, 4], model="rydberg")
    assert not shares([4, 4], "periodic")  # 128 symmetries of 16 sites would leave no hidden units
    assert not shares([1, 1])


def test_a_network_that_goes_on_has_the_signs_of_its_start(tmp_path: Any) -> None:
    def asked(*overrides: str) -> Any:
        given = {"hamiltonian": {"model": "heisenberg"}, "ansatz": {"kind": "rbm"}}
        return complete(validate({"lattice": SQUARE, **given}, overrides))

    unsigned = asked("ansatz.marshall=false", "ansatz.dtype='complex128'")
    state = build_ansatz(unsigned, build_operator(unsigned))
    state.save(tmp_path / "rbm.h5", state.random(0))
    ansatz = asked(f"ansatz.init='{tmp_path}/rbm.h5'").ansatz
    assert (ansatz.marshall, ansatz.dtype) == (False, "complex128")
    assert (asked().ansatz.marshall, asked().ansatz.dtype) == (True, "float64")


def slater(**sections: Any) -> Any:
    given = {"lattice": {"shape": [2, 3]}, "ansatz": {"kind": "slater"}, **sections}
    chosen = complete(validate(given))
    operator = build_operator(chosen)
    return build_ansatz(chosen, operator), chosen, operator


def test_a_determinant_has_the_particles_that_are_sampled() -> None:
    hubbard = {"model": "hubbard"}
    state, chosen, operator = slater(hamiltonian=hubbard, sampler={"particles": [2, 1]})
    assert isinstance(state, Slater) and (state.numbers, state.local_dim) == ((2, 1), 4)
    theta = build_theta(chosen, operator, state)
    assert theta.shape == (18,) and theta.dtype == np.float64
    state = slater(
        hamiltonian=hubbard, sampler={"particles": [2, 1]},
        ansatz={"kind": "slater", "dtype": "complex128", "init": "random"},
    )[0]  # fmt: skip
    assert state.dtype == "complex128"


PAIRS = {"ops": "c^ c^ - c c", "bonds": "nearest"}


@pytest.mark.parametrize(
    "hamiltonian",
    [{"model": "heisenberg"}, {"model": "terms", "fermions": "spinless", "term": [PAIRS]}],
)
def test_a_determinant_needs_a_number_of_fermions(hamiltonian: Any) -> None:
    with pytest.raises(ValueError, match="slater"):
        slater(hamiltonian=hamiltonian)


@pytest.mark.parametrize(
    ("overrides", "shape", "n_bonds"),
    [
        (["lattice.kind=chain", "lattice.shape=6"], (1, 6), 5),
        (["lattice.kind=chain", "lattice.shape=[6]", "lattice.boundary=periodic"], (1, 6), 6),
        (["lattice.boundary=cylinder"], (4, 4), 28),
        (["lattice.kind=triangular"], (4, 4), 33),
        (["lattice.kind=honeycomb", "lattice.boundary=cylinder"], (4, 4), 22),
        (["lattice.kind=kagome"], (4, 4), 17),
        (["lattice.kind=kagome", "lattice.shape=[3,5]"], (3, 5), 18),
        (["lattice.kind=checkerboard"], (4, 4), 24),
        (["lattice.kind=bonds", "lattice.shape=3", "lattice.bonds=[[0,1],[1,2],[0,2]]"], (1, 3), 3),
        (["lattice.kind=bonds", "lattice.shape=[2,2]", "lattice.bonds=[[0,3]]"], (2, 2), 1),
        (
            [
                "lattice.kind=bonds",
                "lattice.shape=[2,2]",
                "lattice.bonds=[[0,1]]",
                "lattice.vacant=[3]",
            ],
            (2, 2),
            1,
        ),
    ],
)
def test_lattices(overrides: list[str], shape: tuple[int, int], n_bonds: int) -> None:
    lattice = build_lattice(settings(*overrides).lattice)
    assert lattice.shape == shape
    assert lattice.n_sites == n_sites(settings(*overrides).lattice)
    assert (
        sum(len(bonds) for kind, bonds in lattice.bonds.items() if kind in ("nearest", "dimer"))
        == n_bonds
    )


def test_couplings_of_each_bond() -> None:
    couplings = [0.5 + 0.1 * bond for bond in range(24)]
    operator = build_operator(settings(f"hamiltonian.J={couplings}"))
    assert [term.matrix[0, 0] for term in operator.terms] == pytest.approx(
        [coupling / 4 for coupling in couplings]
    )


@pytest.mark.parametrize(
    ("overrides", "kind"),
    [
        ([], PEPS),
        (["ansatz.kind=mps", "lattice.kind=chain", "lattice.shape=8"], PEPS),
        (["ansatz.kind=periodic_mps"], PeriodicMPS),
    ],
)
def test_states_with_a_bond_dimension(overrides: list[str], kind: type) -> None:
    chosen = settings("ansatz.dtype=complex64", *overrides)
    ansatz: Any = build_ansatz(chosen, build_operator(chosen))
    assert type(ansatz) is kind
    assert (ansatz.D, ansatz.dtype) == (3, "complex64")


def test_a_product_state() -> None:
    chosen = complete(
        validate(
            {
                "lattice": {"shape": [3, 4]},
                "hamiltonian": {"model": "heisenberg"},
                "ansatz": {"kind": "product"},
            }
        )
    )
    assert type(build_ansatz(chosen, build_operator(chosen))) is ProductState


def test_an_open_mps_on_several_rows_is_a_snake() -> None:
    chosen = settings("ansatz.kind=mps")
    state = build_ansatz(chosen, build_operator(chosen))
    assert isinstance(state, PEPS) and (state.bonds, state.scheme) == ("snake", SRC(chi=1))


@pytest.mark.parametrize(
    ("overrides", "scheme"),
    [
        ([], SRC(chi=6)),
        (["contraction.chi=5"], SRC(chi=5)),
        (["contraction.scheme=zipup"], ZipUp(chi=6)),
        (["contraction.scheme=exact"], Exact()),
    ],
)
def test_schemes(overrides: list[str], scheme: object) -> None:
    chosen = settings(*overrides)
    ansatz: Any = build_ansatz(chosen, build_operator(chosen))
    assert ansatz.scheme == scheme


def test_samplers() -> None:
    chosen = settings("sampler.n_walkers=8", "sampler.n_burn=3", "run.threads=2")
    assert build_sampler(chosen, build_operator(chosen)) == Sampler(
        n_walkers=8, n_samples=512, n_burn=3, threads=2, power="auto"
    )
    chosen = settings("sampler.kind=enumerate", "sampler.magnetisation=2", "run.threads=2")
    assert build_sampler(chosen, build_operator(chosen)) == Enumerate(2, 2)


@pytest.mark.parametrize(
    ("overrides", "rule"),
    [
        ([], SR("auto", memory=0.9)),
        (["optimizer.diag_shift=0.1"], SR(0.1, memory=0.9)),
        (["optimizer.diag_shift=0.1", "optimizer.momentum=0.9"], SR(0.1, 0.9)),
        (["optimizer.kind=gradient"], GradientDescent()),
        (["optimizer.kind=adam"], Adam()),
    ],
)
def test_optimizers(overrides: list[str], rule: object) -> None:
    assert build_optimizer(settings(*overrides).optimizer) == rule


@pytest.mark.parametrize(
    ("overrides", "rates"),
    [
        (["learning_rate=0.1", "final_learning_rate=0.1"], [0.1] * 5),
        (["final_learning_rate=0.01"], [0.1, 0.0868, 0.055, 0.0232, 0.01]),
        (["learning_rate=0.1", "final_learning_rate=0.02"],
         [0.1, 0.0883, 0.06, 0.0317, 0.02]),
    ],
)  # fmt: skip
def test_schedules(overrides: list[str], rates: list[float]) -> None:
    chosen = settings("optimizer.steps=5", *(f"optimizer.{text}" for text in overrides))
    schedule = build_schedule(chosen.optimizer)
    found = [schedule(step) if callable(schedule) else schedule for step in range(5)]
    assert found == pytest.approx(rates, rel=1e-3)


def test_a_rate_that_follows_the_steps() -> None:
    names = ["learning_rate=auto", "diag_shift=auto", "memory=0.5"]
    chosen = settings(*(f"optimizer.{text}" for text in names))
    assert chosen.optimizer.learning_rate == "auto"
    assert build_schedule(chosen.optimizer) == "auto"
    assert build_optimizer(chosen.optimizer) == SR("auto", memory=0.5)


@pytest.mark.whole
def test_the_signs_of_marshall_give_their_characters() -> None:
    """psi(g s) = chi psi(s), by the definition and by the rule."""
    sections = {"lattice": {"shape": [2, 3]}, "hamiltonian": {"model": "heisenberg"}}
    names = ["point", "spin"]
    network = {"kind": "rbm", "dtype": "float64", "marshall": True, "average": names}
    chosen = complete(validate({**sections, "ansatz": network}))
    operator = build_operator(chosen)
    ansatz: Any = build_ansatz(chosen, operator)
    theta = 10 * ansatz.random(1)
    configs = np.array(all_configs(6, magnetisation=0), dtype=np.int8)
    here = ansatz.log_amplitude(theta, configs)
    for g in symmetry_group(operator, names).elements:
        moved = configs[:, list(g.sites)]
        there = ansatz.log_amplitude(theta, 1 - moved if g.inverts else moved)
        chi = marshall_character(operator, g, 0)
        assert np.allclose(there.phase, chi * here.phase) and chi is not None
        assert np.allclose(there.log_abs, here.log_abs, atol=1e-10)  # rounding


def test_noise_of_a_start_is_relative_and_of_the_seed() -> None:
    """Normal deviates with a tenth of the root mean square, within three standard errors of 156 parameters, 0.17 of it."""

    def start(*changes: str) -> np.ndarray:
        chosen = settings(*changes)
        operator = build_operator(chosen)
        return np.asarray(build_theta(chosen, operator, build_ansatz(chosen, operator)))

    plain, noisy = start(), start("ansatz.init_noise=0.1")
    scale = np.sqrt(np.mean(plain**2))
    assert np.std(noisy - plain) == pytest.approx(0.1 * scale, rel=0.17)
    assert np.array_equal(noisy, start("ansatz.init_noise=0.1"))
    assert not np.array_equal(noisy, start("ansatz.init_noise=0.1", "run.seed=1"))
    turned = start("ansatz.init_noise=0.1", "ansatz.dtype=complex128")
    assert np.std((turned - start("ansatz.dtype=complex128")).imag) == pytest.approx(
        0.1 * scale / np.sqrt(2), rel=0.17
    )
