"""Calls that a hurried user writes: each is told what is wrong, with the word to write in it, in two lines."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tnvmc
from tnvmc import (
    MPS,
    PEPS,
    SR,
    SRC,
    VMC,
    Enumerate,
    Operator,
    PeriodicMPS,
    ProductState,
    Sampler,
    Term,
    UnreliableWarning,
    chain,
    exact_ground_state,
    from_bonds,
    heisenberg,
    initial_parameters,
    j1j2,
    known_energy,
    load_run,
    rydberg,
    square,
    tfim,
)
from tnvmc.backend.arguments import shortly
from tnvmc.storage.hdf5 import StateFileError

LATTICE = square(2, 2)
H = heisenberg(LATTICE)
STATE = PEPS(LATTICE, 2)
FEW = Sampler(n_walkers=8, n_samples=16, threads=1)
RUN = VMC(H, STATE, FEW)
SPIN_1 = Operator.from_terms(LATTICE, [((0, 1), np.diag(np.arange(9.0)))], local_dim=3)
SX_SY = Operator.from_products(LATTICE, [("Sx Sy", (0, 1)), ("Sy Sx", (0, 1))])
THETA = np.ones(STATE.n_params)
NAN = float("nan")


class FromElsewhere:
    """A network of another library, as far as its class tells."""


FromElsewhere.__module__ = "torch.nn.modules"
Quimb = type("PEPS", (), {"__module__": "quimb.tensor.tensor_2d"})

# what is called, the error, a word that it must hold
CALLS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    # parts of a VMC in the wrong place
    "no wave function": (lambda: VMC(H, None), TypeError, "PEPS(lattice, D=4)"),
    "swapped": (lambda: VMC(STATE, H), TypeError, "VMC(operator, ansatz"),
    "rule for sampler": (lambda: VMC(H, STATE, SR()), TypeError, "optimizer=SR(...)"),
    "sampler for rule": (lambda: VMC(H, STATE, FEW, FEW), TypeError, "sampler=Sampler(...)"),
    "rate for rule": (lambda: VMC(H, STATE, FEW, 0.1), TypeError, "learning_rate=0.1"),
    "rate for sampler": (lambda: VMC(H, STATE, 0.1), TypeError, "learning_rate=0.1"),
    "class of a rule": (lambda: VMC(H, STATE, FEW, SR), TypeError, "optimizer=SR(...)"),
    "class of a sampler": (lambda: VMC(H, STATE, Sampler), TypeError, "sampler=Sampler(...)"),
    "class of a state": (lambda: VMC(H, PEPS), TypeError, "PEPS(...)"),
    "model, not called": (lambda: VMC(heisenberg, STATE), TypeError, "heisenberg(lattice)"),
    "lattice for operator": (lambda: VMC(LATTICE, STATE), TypeError, "heisenberg(lattice)"),
    "name for operator": (lambda: VMC("heisenberg", STATE), TypeError, "heisenberg(lattice)"),
    "name for state": (lambda: VMC(H, "peps"), TypeError, "PEPS(lattice, D=4)"),
    "quimb": (lambda: VMC(H, Quimb()), TypeError, "from_quimb"),
    "torch": (lambda: VMC(H, FromElsewhere()), TypeError, "GenericAnsatz"),
    "what load gives": (lambda: VMC(H, (STATE, THETA)), TypeError, "theta=theta"),
    "other lattice": (lambda: VMC(H, PEPS(square(2, 3), 2)), ValueError, "2 x 3"),
    "spin 1": (lambda: VMC(SPIN_1, STATE), ValueError, "local_dim=3"),
    "complex in real": (lambda: VMC(SX_SY, PEPS(LATTICE, 2, "float64")), ValueError, "complex128"),
    # names
    "n_samples of VMC": (lambda: VMC(H, STATE, n_samples=9), ValueError, "Sampler(n_samples=512)"),
    "chi of VMC": (lambda: VMC(H, STATE, chi=9), ValueError, "SRC(chi=8)"),
    "tnvmc.peps": (lambda: tnvmc.peps, AttributeError, "'PEPS'"),
    "tnvmc.Heisenberg": (lambda: tnvmc.Heisenberg, AttributeError, "'heisenberg'"),
    # lattices
    "PEPS of a shape": (lambda: PEPS((3, 4), 2), TypeError, "square(3, 4)"),
    "PEPS of a size": (lambda: PEPS(6, 2), TypeError, "chain(6)"),
    "PEPS of an operator": (lambda: PEPS(H, 2), TypeError, ".lattice"),
    "PEPS turned round": (lambda: PEPS(2, LATTICE), TypeError, "PEPS(lattice, D)"),
    "PEPS of a function": (lambda: PEPS(square, 2), TypeError, "square(4, 4)"),
    "MPS of a size": (lambda: MPS(4, 2), TypeError, "chain(4)"),
    "ring of a size": (lambda: PeriodicMPS(4, 2), TypeError, "chain(4)"),
    "product of a shape": (lambda: ProductState((2, 2)), TypeError, "square(2, 2)"),
    "model of a shape": (lambda: heisenberg((4, 4)), TypeError, "square(4, 4)"),
    "atoms of a shape": (lambda: rydberg((4, 4)), TypeError, "square(4, 4)"),
    "operator of a shape": (lambda: Operator.from_terms((2, 2), []), TypeError, "square(2, 2)"),
    "pbc": (lambda: square(4, 4, "pbc"), ValueError, "'periodic'"),
    "bonds of a pair": (lambda: from_bonds((2, 2), (0, 1)), ValueError, "pair"),
    # numbers
    "D of 2.5": (lambda: PEPS(LATTICE, 2.5), ValueError, "whole number, got 2.5"),
    "D of 4.0": (lambda: PEPS(LATTICE, 4.0), ValueError, "write 4"),
    "D of 0": (lambda: PEPS(LATTICE, 0), ValueError, "at least 1, got 0"),
    "D of -1": (lambda: MPS(chain(4), D=-1), ValueError, "MPS: D must be at least 1"),
    "chi of 0": (lambda: SRC(0), ValueError, "at least 1, got 0"),
    "no walkers": (lambda: Sampler(n_walkers=0), ValueError, "at least 1, got 0"),
    "half a sample": (lambda: Sampler(n_samples=1000.5), ValueError, "got 1000.5"),
    "samples of 1e4": (lambda: Sampler(n_samples=1e4), ValueError, "write 10000"),
    "negative rate": (lambda: VMC(H, STATE, learning_rate=-0.1), ValueError, "at least 0"),
    "rates in a list": (
        lambda: VMC(H, STATE, learning_rate=[0.1]),
        ValueError,
        "function of the step",
    ),
    "rate without step": (lambda: VMC(H, STATE, learning_rate=lambda: 0.1), TypeError, "step"),
    "rate that falls below 0": (
        lambda: VMC(H, STATE, FEW, theta=RUN.theta, learning_rate=lambda step: -1.0).run(1),
        ValueError,
        "learning_rate(0)",
    ),
    "steps in quotes": (lambda: RUN.run("40"), ValueError, "write 40"),
    "chi in quotes": (lambda: RUN.measure(chi="16"), ValueError, "write 16"),
    "measure an operator": (lambda: RUN.measure(H), ValueError, "Operator(...)"),
    "complex coupling": (lambda: heisenberg(LATTICE, 1j), ValueError, "real number"),
    "NaN coupling": (lambda: tfim(LATTICE, 1.0, NAN), ValueError, "undefined"),
    "infinite coupling": (lambda: j1j2(LATTICE, 1, np.inf), ValueError, "infinite"),
    "coupling in quotes": (lambda: heisenberg(LATTICE, "1"), ValueError, "real number"),
    "couplings too few": (lambda: heisenberg(LATTICE, [1, 2]), ValueError, "4 bonds"),
    # parameters and files
    "theta too short": (lambda: VMC(H, STATE, theta=np.zeros(5)), ValueError, "(5,)"),
    "theta of tensors": (
        lambda: VMC(H, STATE, theta=STATE.tensors(THETA)),
        TypeError,
        "ansatz.flatten",
    ),
    "theta of integers": (
        lambda: VMC(H, STATE, theta=THETA.astype(int)),
        TypeError,
        "astype(float)",
    ),
    "theta of a path": (lambda: VMC(H, STATE, theta="a.h5"), TypeError, "load_state"),
    "theta of a pair": (lambda: VMC(H, STATE, theta=(STATE, THETA)), TypeError, "load_state"),
    "scheme for dtype": (lambda: PEPS(LATTICE, 2, SRC(8)), TypeError, "scheme=SRC(chi=8"),
    "class of a scheme": (lambda: PEPS(LATTICE, 2, scheme=SRC), ValueError, "SRC(chi=8)"),
    "start": (lambda: initial_parameters(STATE, H, kind="randon"), StateFileError, "'random'"),
    "start, swapped": (lambda: initial_parameters(H, STATE), TypeError, "Operator"),
    "energy of a state": (lambda: known_energy(STATE), TypeError, "Operator"),
    "exact of a lattice": (lambda: exact_ground_state(LATTICE), TypeError, "heisenberg(lattice)"),
    "expect a name": (lambda: RUN.expect("Sz"), TypeError, "Operator"),
    "expect a matrix": (lambda: RUN.expect(np.eye(16)), TypeError, "from_terms"),
    "expect a term": (lambda: RUN.expect(Term((0,), np.eye(2))), TypeError, "from_terms"),
    "run of a number": (lambda: load_run(3), TypeError, "path"),
    "checkpoint of a number": (lambda: RUN.save(3), TypeError, "path"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_told_what_to_write(name: str) -> None:
    call, kind, word = CALLS[name]
    with pytest.raises(kind) as told:
        call()
    letter = str(told.value)
    assert word in letter
    assert len(letter) < 2 * 160, letter
    assert "\n" not in letter


def test_sizes_of_numpy_and_lists_of_parameters_are_taken() -> None:
    assert PEPS(square(np.int64(2), np.int32(3)), np.int64(2)).D == 2
    assert VMC(H, STATE, FEW, theta=THETA.tolist()).theta.shape == THETA.shape


def test_networks_are_told_how_they_are_given() -> None:
    pytest.importorskip("flax")
    from flax import nnx

    from tnvmc.ansatz.neural.flax import FlaxAnsatz
    from tnvmc.ansatz.neural.rbm import RBM

    module = RBM(LATTICE, rngs=nnx.Rngs(0))
    for wrong in (RBM, "rbm", SimpleNamespace()):
        with pytest.raises(TypeError, match="FlaxAnsatz"):
            FlaxAnsatz(LATTICE, wrong)
    with pytest.raises(TypeError, match="FlaxAnsatz"):
        VMC(H, module)
    with pytest.raises(TypeError, match=r"square\(2, 2\)"):
        FlaxAnsatz((2, 2), module)
    assert FlaxAnsatz(LATTICE, module).n_params > 0


def test_warnings_name_the_line_of_the_call() -> None:
    few = VMC(H, STATE, Sampler(n_walkers=2, n_samples=4, threads=1), theta=RUN.theta)
    for call in (lambda: few.run(1), lambda: few.measure(4)):
        with pytest.warns(UnreliableWarning) as seen:
            call()
        assert {each.filename for each in seen} == {__file__}


@pytest.mark.parametrize(
    "value, told",
    [
        (None, "None"),
        (LATTICE, "Lattice(...)"),
        (Enumerate, "the class Enumerate"),
        (square, "the function square"),
        ("x" * 100, "str(...)"),
        (np.float64(2.0), "np.float64(2.0)"),
    ],
)
def test_values_are_written_shortly(value: Any, told: str) -> None:
    assert shortly(value) == told


NINE = square(3, 3)


@cache
def _states() -> dict[str, Any]:
    """States on nine sites and their parameters."""
    peps, hamiltonian = PEPS(NINE, 2), heisenberg(NINE)
    rbm = tnvmc.FlaxAnsatz(NINE, lambda rngs: tnvmc.RBM(NINE, dtype="float64", rngs=rngs))
    states = [
        peps, rbm, PEPS(NINE, 2, dtype="float32"), PEPS(NINE, 2, scheme=tnvmc.ZipUp(4)),
        MPS(NINE, 2), PeriodicMPS(square(3, 3, boundary="periodic"), 2), ProductState(NINE),
        tnvmc.Jastrow(NINE), tnvmc.ProductOfStates(peps, rbm),
        tnvmc.Symmetrised(peps, tnvmc.symmetry_group(hamiltonian, ["point"])),
        tnvmc.FlaxAnsatz(NINE, lambda rngs: tnvmc.CNN(NINE, rngs=rngs)),
        tnvmc.FlaxAnsatz(NINE, lambda rngs: tnvmc.RNN(NINE, rngs=rngs)),
    ]  # fmt: skip
    found = {f"{k} {type(state).__name__}": state for k, state in enumerate(states)}
    slater = tnvmc.Slater(NINE, (1, 1), local_dim=4)
    with_parameters = {
        k: (each, initial_parameters(each, hamiltonian)) for k, each in found.items()
    }
    return with_parameters | {"Slater": (slater, slater.random(0))}


ALTERNATING = np.arange(9)[None, :] % 2


def test_a_network_has_no_amplitude_of_parameters_of_another_length() -> None:
    """A theta that was too long was cut."""
    state, theta = next(each for each in _states().values() if "Flax" in type(each[0]).__name__)
    with pytest.raises(ValueError, match="theta has shape"):
        state.log_amplitude(np.append(theta, 0.1), ALTERNATING)


@pytest.mark.parametrize(
    ("configs", "error"),
    [
        ((1 - 2 * ALTERNATING).astype(np.int8), IndexError),  # spins of NetKet
        (1 - 2 * ALTERNATING, IndexError),
        (4 * ALTERNATING, IndexError),
        (0.5 - ALTERNATING, TypeError),
        (1.0 * ALTERNATING, TypeError),
        (ALTERNATING[:, :8], IndexError),
        (ALTERNATING[0], IndexError),
        (np.ma.masked_equal(ALTERNATING, 1), TypeError),
    ],
)
def test_no_state_has_an_amplitude_of_what_is_no_configuration(
    configs: Any, error: type[Exception]
) -> None:
    """Networks, mean fields and periodic MPS gave numbers for spins +1 and -1."""
    wrong = []
    for name, (state, theta) in _states().items():
        for call in (state.log_amplitude, getattr(state, "jacobian", state.start)):
            try:
                call(theta, configs)
            except error:
                continue
            except Exception as other:  # noqa: BLE001
                wrong.append((name, call.__name__, repr(other)))
            else:
                wrong.append((name, call.__name__, "taken"))
    assert not wrong
