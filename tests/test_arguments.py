"""Every public argument is taken as it is meant, or refused in one line: nothing is read as another thing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
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
    Adam,
    Cosine,
    DirectSampler,
    Enumerate,
    Exact,
    History,
    Jastrow,
    NonHermitian,
    Operator,
    PeriodicMPS,
    ProductOfStates,
    ProductState,
    Sampler,
    Slater,
    Symmetrised,
    Term,
    ZipUp,
    chain,
    checkerboard_lattice,
    exact_ground_state,
    exact_levels,
    from_bonds,
    heisenberg,
    honeycomb,
    j1j2,
    kagome,
    measure_observables,
    rydberg,
    sharing,
    shastry_sutherland,
    shastry_sutherland_lattice,
    simple_update,
    square,
    symmetry_group,
    tfim,
    triangular,
    xxz,
)
from tnvmc.ansatz.neural.architectures import RBMConfig, ViTConfig
from tnvmc.operators.basis import Basis
from tnvmc.optimize.solve import Cholesky, Eigen

LATTICE = square(2, 2)
MODEL = heisenberg(LATTICE)
STATE = PEPS(LATTICE, 2)
FEW = Sampler(n_walkers=8, n_samples=64, threads=1)
RUN = VMC(MODEL, STATE, FEW)
CHAIN = chain(4)
STEPS_OF_A_SCHEDULE = {"start": 0.1, "end": 0.01}

NAN, INF = float("nan"), float("inf")
NO_WHOLE = (2.5, 2.0, NAN, INF, True, "2", [2], np.float64(2.0), np.array([2, 3]))
NO_NUMBER = (NAN, INF, -INF, True, "0.5", [0.5], None, 1j)

# what is called, the argument, the least value (None: any), whether None may be given
WHOLE: list[tuple[Callable[..., Any], str, int | None, bool]] = [
    *((Sampler, name, 1, False) for name in ("n_walkers", "n_samples", "n_thin")),
    (Sampler, "n_burn", 0, False),
    *((Sampler, name, 1, True) for name in ("threads", "chunk")),
    (DirectSampler, "n_samples", 1, False),
    (DirectSampler, "n_pilot", 0, False),
    *((DirectSampler, name, 1, True) for name in ("chi", "chi_mpo", "threads", "chunk")),
    (DirectSampler, "magnetisation", None, True),
    (Enumerate, "threads", 1, True),
    (Enumerate, "magnetisation", None, True),
    (partial(VMC, MODEL, STATE, FEW, theta=RUN.theta), "seed", 0, False),
    (partial(VMC, MODEL, STATE, FEW, theta=RUN.theta), "magnetisation", None, True),
    (RUN.run, "steps", 0, False),
    (partial(History, [], units="S.S"), "n_sites", 1, False),
    *((RUN.measure, name, 1, True) for name in ("n_samples", "chi", "n_thin")),
    (RUN.measure, "n_burn", 0, True),
    *((partial(RUN.expect, MODEL), name, 1, True) for name in ("n_samples", "chi")),
    (partial(RUN.expect, MODEL), "n_burn", 0, True),
    *((partial(RUN.converge, [2, 4]), name, 1, True) for name in ("n_samples", "n_thin")),
    (partial(RUN.converge, [2, 4]), "n_burn", 0, True),
    (lambda chi: RUN.converge([8, chi]), "chi", 1, False),
    (partial(PEPS, LATTICE), "D", 1, False),
    (partial(PEPS, LATTICE, 2), "local_dim", 2, False),
    (partial(MPS, CHAIN), "D", 1, False),
    (partial(PeriodicMPS, CHAIN), "D", 1, False),
    (partial(PeriodicMPS, CHAIN, 2), "local_dim", 2, False),
    (partial(ProductState, CHAIN), "local_dim", 2, False),
    (partial(Jastrow, CHAIN), "local_dim", 2, False),
    *((scheme, "chi", 1, False) for scheme in (SRC, ZipUp)),
    (partial(SRC, 4), "seed", 0, False),
    (partial(Cosine, **STEPS_OF_A_SCHEDULE), "steps", 1, False),
    *((partial(measure_observables, RUN), name, 1, True) for name in ("n_samples", "chi")),
    (partial(measure_observables, RUN), "pair_samples", 0, True),
    (partial(simple_update, MODEL, 1), "max_steps", 0, False),
    (partial(simple_update, MODEL, max_steps=1), "D", 1, False),
    (partial(simple_update, MODEL, 1, max_steps=1), "seed", 0, False),
    (chain, "length", 1, False),
    (partial(square, 2), "n_cols", 1, False),
    (partial(triangular, 2), "n_cols", 1, False),
    (partial(honeycomb, 2), "n_cols", 1, False),
    (partial(kagome, 2), "n_cols", 1, False),
    (partial(checkerboard_lattice, 2), "n_cols", 1, False),
    (partial(shastry_sutherland_lattice, 2), "n_cols", 1, False),
    (lambda n: from_bonds((2, n), []), "n", 1, False),
    (lambda site: from_bonds(4, [(3, site)]), "site", 0, False),
    (lambda site: Term((site,), np.eye(2)), "site", 0, False),
    (partial(Operator.from_terms, LATTICE, []), "local_dim", 2, False),
    (partial(Operator.from_products, LATTICE, []), "local_dim", 2, False),
    (partial(NonHermitian.from_products, LATTICE, []), "local_dim", 2, False),
    (partial(exact_ground_state, MODEL), "sector", None, False),
    (partial(exact_levels, MODEL, 2), "sector", None, False),
    (lambda alpha: ViTConfig(heads=alpha, width=24), "alpha", 1, False),
]

# what is called, the argument, the values that are out of range, whether None may be given
NUMBERS: list[tuple[Callable[..., Any], str, tuple[float, ...], bool]] = [
    (Sampler, "power", (0.0, -0.5, 1.5), False),
    (partial(VMC, MODEL, STATE, FEW, theta=RUN.theta), "learning_rate", (-0.1,), True),
    (SR, "diag_shift", (-0.1,), False),
    (SR, "momentum", (-0.1, 1.0), False),
    *((Adam, name, (-0.1, 1.0), False) for name in ("beta1", "beta2")),
    (Adam, "epsilon", (0.0, -1.0), False),
    (Eigen, "cutoff", (-0.1, 1.0), False),
    (partial(Cosine, end=0.01, steps=5), "start", (0.0, -1.0), False),
    (partial(Cosine, 0.5, steps=5), "end", (-1.0,), False),
    (partial(heisenberg, LATTICE), "J", (), False),
    *((partial(xxz, LATTICE), name, (), False) for name in ("J", "Jz")),
    *((partial(j1j2, LATTICE), name, (), False) for name in ("J1", "J2")),
    *((partial(tfim, LATTICE), name, (), False) for name in ("J", "h")),
    *((partial(rydberg, LATTICE), name, (), False) for name in ("V", "delta", "Omega")),
    (partial(shastry_sutherland, shastry_sutherland_lattice(2, 2)), "J", (), False),
    (RBMConfig, "alpha", (0.0, -1.0), False),
]
INFINITE = (
    "energy_jump",
    "variance_jump",
    "norm_jump",
    "max_relative_step",
)  # limits that are none

NAMES: list[tuple[Callable[..., Any], str, Any]] = [
    (Enumerate, "by_orbit", "yes"),
    (DirectSampler, "by_orbit", "yes"),
    (SR, "space", "sample"),
    (SR, "solver", "cholesky"),
    (partial(SRC, 4), "sketch", "enviroment"),
    (partial(PEPS, LATTICE, 2), "dtype", "float16"),
    (partial(PEPS, LATTICE, 2), "sharing", "point"),
    (partial(sharing, MODEL), "names", "colour"),
    (partial(PEPS, LATTICE, 2), "dtype", "int64"),
    (partial(PEPS, LATTICE, 2), "dtype", "no"),
    (partial(PEPS, LATTICE, 2), "scheme", 8),
    (partial(PeriodicMPS, CHAIN, 2), "dtype", "int8"),
    (partial(ProductState, CHAIN), "dtype", 7),
    (partial(Jastrow, CHAIN), "dtype", 7),
    (partial(Slater, CHAIN, 2), "dtype", 7),
    (partial(Slater, CHAIN, 2), "local_dim", 5),
    (partial(Jastrow, CHAIN), "fields", 2),
    (partial(ProductOfStates, STATE), "second", LATTICE),
    (lambda state: ProductOfStates(state, STATE), "first", 4),
    (partial(ProductOfStates, STATE, Jastrow(LATTICE)), "sweeps", "second"),
    (partial(Symmetrised, STATE), "group", ["spin"]),
    (lambda ansatz: Symmetrised(ansatz, symmetry_group(MODEL, ["spin"])), "ansatz", LATTICE),
    (partial(Symmetrised, STATE, symmetry_group(MODEL, ["spin"])), "reweight", "no"),
    (partial(MPS, CHAIN, 2), "dtype", ""),
    (partial(square, 2, 2), "boundary", "Open"),
    (partial(VMC, MODEL, STATE, FEW, theta=RUN.theta), "moves", "exchanges"),
    (partial(VMC, MODEL, STATE, FEW, theta=RUN.theta), "moves", ["swaps"]),
    (partial(VMC, MODEL, STATE, FEW, theta=RUN.theta), "learning_rate", "0.1"),
    (partial(VMC, MODEL, STATE), "sampler", 64),
    (partial(VMC, MODEL, STATE, FEW, theta=RUN.theta), "optimizer", "sr"),
    (partial(VMC, MODEL), "ansatz", MODEL),
    (lambda operator: VMC(operator, STATE), "operator", LATTICE),
    (RUN.measure, "symmetries", ["mirror"]),
    (RUN.measure, "symmetries", "mirror"),
    (RUN.measure, "sampler", 64),
    (RUN.measure, "sampler", Sampler(n_walkers=16)),
    (RUN.converge, "chis", 8),
    (RUN.converge, "chis", "2 4"),
    (RUN.converge, "chis", []),
    (partial(RUN.converge, [2, 4]), "double_layer", 8),
    (partial(RUN.converge, [2, 4]), "double_layer", "yes"),
    (partial(RUN.converge, [2, 4]), "double_layer", []),
    (partial(exact_ground_state, MODEL), "sector", "all"),
    (partial(exact_levels, MODEL), "n_levels", 0),
]


def called(function: Callable[..., Any]) -> str:
    bare = function.func if isinstance(function, partial) else function
    return getattr(bare, "__qualname__", str(bare))


def refused(function: Callable[..., Any], name: str, value: Any) -> None:
    """In one sentence that shows the value, as ValueError or TypeError."""
    with pytest.raises((ValueError, TypeError)) as told:
        give(function, name, value)
    text = str(told.value)
    assert "\n" not in text and text[:1].isalpha() and len(text) > 20, text
    last = told.traceback[-1].path
    assert "tnvmc" in str(last), f"{text!r} was said by {last}"


def give(function: Callable[..., Any], name: str, value: Any) -> Any:
    """By name, or as the only argument of a lambda."""
    if getattr(function, "__name__", "") == "<lambda>":
        return function(value)
    return function(**{name: value})


def ids(case: Any) -> str | None:
    return called(case) if callable(case) else None


@pytest.mark.parametrize(("function", "name", "least", "optional"), WHOLE, ids=ids)
def test_whole_numbers(
    function: Callable[..., Any], name: str, least: int | None, optional: bool
) -> None:
    below = () if least is None else (least - 1, -5, np.int64(least - 1))
    for value in (*NO_WHOLE, *below, *(() if optional else (None,))):
        refused(function, name, value)


@pytest.mark.parametrize(("function", "name", "outside", "optional"), NUMBERS, ids=ids)
def test_numbers(
    function: Callable[..., Any], name: str, outside: tuple[float, ...], optional: bool
) -> None:
    several = isinstance(function, partial) and getattr(function.func, "__module__", "").endswith(
        "models"
    )
    for value in (*NO_NUMBER, *outside):
        if value is None and optional or value == INF and name in INFINITE:
            continue
        if several and isinstance(value, list):  # one number for each bond
            continue
        refused(function, name, value)


@pytest.mark.parametrize(("function", "name", "value"), NAMES, ids=ids)
def test_names_and_parts(function: Callable[..., Any], name: str, value: Any) -> None:
    refused(function, name, value)


def test_scalars_of_numpy_are_numbers() -> None:
    two, half = np.int64(2), np.float64(0.5)
    assert Sampler(two, np.int32(8), n_burn=np.uint8(0)) == Sampler(2, 8, n_burn=0)
    assert type(Sampler(two).n_walkers) is int and type(Sampler(power=half).power) is float
    assert DirectSampler(two, magnetisation=np.int8(0)) == DirectSampler(2, magnetisation=0)
    assert Enumerate(magnetisation=two) == Enumerate(2)
    assert PEPS(LATTICE, two).n_params == PEPS(LATTICE, 2).n_params
    assert type(PEPS(LATTICE, two).D) is int and PEPS(LATTICE, two).scheme == SRC(4)
    assert PeriodicMPS(CHAIN, two) == PeriodicMPS(CHAIN, 2)
    assert SRC(np.int16(4)) == SRC(4) and ZipUp(two) == ZipUp(2)
    assert SR(diag_shift=half, momentum=half).diag_shift == 0.5
    assert Cosine(half, np.float64(0), two)(0) == 0.5
    assert (
        chain(np.int64(4)) == CHAIN and from_bonds(np.int64(4), [(np.int64(0), two)]).n_sites == 4
    )
    assert exact_ground_state(MODEL, np.int64(2)).sector == 2
    vmc = VMC(MODEL, STATE, FEW, learning_rate=half, seed=np.uint32(3), magnetisation=np.int64(0))
    assert vmc.problem.seed == 3 and len(vmc.run(np.int64(1))) == 1
    assert vmc.measure(n_samples=np.int64(16), chi=two, n_burn=np.int64(1)).n_samples == 16
    assert len(vmc.converge(np.array([2, 4]), double_layer=False).points) == 2


def test_a_sampler_of_its_own_says_what_it_must_fit() -> None:
    with pytest.raises(ValueError, match="n_walkers of the optimisation"):
        RUN.measure(sampler=Sampler(n_walkers=16))
    assert RUN.measure(sampler=replace(FEW, n_samples=8)).n_samples == 8


def test_every_class_and_function_is_looked_at() -> None:
    """A new public name gets a row here, or a reason why it needs none."""
    no_numbers = {
        "Exact", "FolderError", "GenericAnsatz", "Lattice", "LoadedRun",
        "LogAmplitude", "Observables", "UnreliableWarning", "__version__", "commutator",
        "from_quimb", "initial_parameters", "GradientDescent", "known_energy", "load_run", "load_state", "plot", "run_file",
        "energy_gap", "series_file", "LanczosStep", "TimeEvolution", "lanczos_step", "order_parameter",
        "overlap", "product_parameters", "renyi2", "HUBBARD", "SPINLESS", "T_J", "hubbard", "tj", "tv",
            "as_log_amplitude", "check_ansatz", "checkerboard", "fit_line", "moves_for", "symmetry_group", "SymmetryGroup",
    }  # fmt: skip
    tables = inspect.getsource(inspect.getmodule(refused) or refused).split("def called", 1)[0]
    body = tables.split("LATTICE =", 1)[1]
    missing = {name for name in tnvmc.__all__ if name not in body} - no_numbers
    assert not missing
    assert Exact() == Exact() and Cholesky() and Basis(2, 2)
