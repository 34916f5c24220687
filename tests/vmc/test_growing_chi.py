"""A chi that grows: when, how it is told, and that it goes on bit for bit."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tnvmc.ansatz.mps import MPS, PeriodicMPS
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.protocol import chi_of
from tnvmc.contraction.schemes import SRC, Exact
from tnvmc.lattice import chain, square
from tnvmc.operators.models import heisenberg, tfim
from tnvmc.operators.term import Operator
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.session.vmc import VMC
from tnvmc.vmc import controllers
from tnvmc.vmc.controllers import MORE_CHI, GrowingChi

OPERATOR = heisenberg(square(4, 4))
ANSATZ = PEPS(OPERATOR.lattice, D=3, scheme=SRC(6))
SAMPLER = Sampler(n_walkers=16, n_samples=64, threads=1)
THRESHOLD = 0.05


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins where truncation is felt at once."""
    monkeypatch.setattr(controllers, "LEAST_CHI", 1)


def study(ansatz: Any = ANSATZ, sampler: Any = SAMPLER, **options: Any) -> VMC:
    return VMC(OPERATOR, ansatz, sampler, seed=1, **options)


def growing(**options: Any) -> VMC:
    return study(PEPS(OPERATOR.lattice, D=2, scheme=SRC(4)), chi="auto", **options)


def chi_at(vmc: VMC) -> int | None:
    """The chi of the next step where it grows."""
    found = vmc.state.controller(GrowingChi)
    return None if found is None else found.chi


def begin_with_one(vmc: VMC) -> None:
    found = vmc.state.controller(GrowingChi)
    assert found is not None
    vmc.state = vmc.state.with_controller(replace(found, chi=1))


@pytest.mark.parametrize(
    ("spread", "more"),
    [
        (0.0, 0),
        (0.99, 0),
        (1.01, MORE_CHI),
        (100.0, MORE_CHI),
        (math.inf, MORE_CHI),
        (math.nan, MORE_CHI),
    ],
)
def test_it_grows_where_the_spread_is_beyond_what_a_step_resolves(spread: float, more: int) -> None:
    assert GrowingChi(5, 12).following(spread * THRESHOLD, THRESHOLD).chi == 5 + more
    assert GrowingChi(12, 12).following(spread * THRESHOLD, THRESHOLD).chi == 12


def test_it_grows_where_nothing_could_be_seen() -> None:
    assert GrowingChi(5, 12).following(None, math.nan).chi == 5 + MORE_CHI
    assert GrowingChi(11, 12).following(0.0, math.nan).chi == 12


def test_a_constant_in_the_operator_changes_nothing() -> None:
    constant = Operator.from_terms(OPERATOR.lattice, [((0,), 9.0 * np.eye(2))])
    found = []
    for operator in (OPERATOR, OPERATOR + constant):
        ansatz = PEPS(OPERATOR.lattice, D=2, scheme=SRC(4))
        theta = ansatz.initial(OPERATOR, seed=1)
        vmc = VMC(operator, ansatz, SAMPLER, theta=theta, seed=1, chi="auto")
        begin_with_one(vmc)
        found.append([record.chi for record in vmc.run(3)])
    assert found[0] == found[1]


def test_growth_is_told_once() -> None:
    assert GrowingChi(4, 12).diagnostics(GrowingChi(4, 12)) == ()
    (found,) = GrowingChi(6, 12).diagnostics(GrowingChi(4, 12))
    assert (found.code, found.values) == ("chi_grown", {"before": 4, "chi": 6})


@pytest.mark.parametrize(
    ("D", "most", "first"), [(2, 4, 4), (3, 9, 8), (6, 12, 8), (6, 5, 5), (9, 18, 9)]
)
def test_it_begins_with_eight_or_D(D: int, most: int, first: int) -> None:
    vmc = study(PEPS(OPERATOR.lattice, D, scheme=SRC(most)), chi="auto")
    assert chi_at(vmc) == chi_of(vmc.problem.ansatz) == first
    assert chi_of(vmc.ansatz) == most


@pytest.mark.usefixtures("soon")
def test_steps_take_a_larger_one_and_tell_of_it() -> None:
    vmc = growing()
    begin_with_one(vmc)
    records = vmc.run(6)
    chis = [record.chi for record in records]
    assert chis[0] == 1 and 1 < chis[-1] <= 4
    changes = [k for k in range(5) if chis[k + 1] != chis[k]]
    told = [k for k in range(6) if "chi_grown" in [d.code for d in records[k].diagnostics]]
    assert told == changes
    for before, after in pairwise(records):
        enough = before.closure_spread <= math.sqrt(before.energy_error / abs(before.energy))
        assert (after.chi == before.chi) is (enough or before.chi == 4)


def test_the_largest_one_changes_nothing() -> None:
    ansatz = PEPS(OPERATOR.lattice, D=3, scheme=SRC(4))
    vmc, plain = study(ansatz, chi="auto"), study(ansatz)
    vmc.run(3), plain.run(3)
    assert np.array_equal(vmc.theta, plain.theta)


def test_a_measurement_tells_its_own() -> None:
    vmc = growing()
    vmc.run(1)
    assert vmc.measure(n_samples=64).chi == 2 * chi_at(vmc)
    assert vmc.measure(n_samples=64, chi=7).chi == 7
    assert [point.chi for point in vmc.converge(n_samples=64, double_layer=False).points] == [
        4,
        6,
        8,
    ]


@pytest.mark.whole
@pytest.mark.usefixtures("soon")
def test_it_goes_on_bit_for_bit(tmp_path: Path) -> None:
    whole, first, second = growing(), growing(), growing()
    for vmc in (whole, first):
        begin_with_one(vmc)
    whole.run(6)
    first.run(2)
    first.save(tmp_path / "state.h5")
    second.restore(tmp_path / "state.h5")
    assert chi_at(second) == chi_at(first)
    second.run(4)
    assert np.array_equal(second.theta, whole.theta) and chi_at(second) == chi_at(whole)
    fixed = study(PEPS(OPERATOR.lattice, D=2, scheme=SRC(3)))
    fixed.restore(tmp_path / "state.h5")
    assert chi_at(fixed) is None and chi_of(fixed.ansatz) == 3
    narrow = study(PEPS(OPERATOR.lattice, D=2, scheme=SRC(2)), chi="auto")
    narrow.restore(tmp_path / "state.h5")
    assert chi_at(narrow) == 2


@pytest.mark.whole
@pytest.mark.usefixtures("soon")
def test_workers_change_nothing() -> None:
    one, two = growing(), growing(sampler=replace(SAMPLER, threads=2))
    for vmc in (one, two):
        begin_with_one(vmc)
        vmc.run(3)
    assert np.array_equal(one.theta, two.theta)


def test_the_ansatz_of_the_steps_stays_the_same_object() -> None:
    vmc = study(ANSATZ.with_scheme(SRC(12)), chi="auto")
    assert chi_of(vmc.problem.ansatz) == 8 and vmc.problem.ansatz is vmc.problem.ansatz


@pytest.mark.parametrize(
    ("D", "scheme", "sampler", "first"),
    [
        (4, None, SAMPLER, None),  # it would not grow
        (5, None, SAMPLER, 8),
        (5, SRC(10), SAMPLER, None),
        (5, None, Enumerate(magnetisation=0), None),
    ],
)
def test_it_grows_by_default_where_a_scheme_is_left_open(
    D: int, scheme: Any, sampler: Any, first: int | None
) -> None:
    ansatz = PEPS(OPERATOR.lattice, D, scheme=scheme)
    assert chi_at(study(ansatz, sampler)) == first
    assert chi_at(study(ansatz._of_type("float32"), sampler)) == first


def test_a_sum_over_all_configurations_takes_the_largest() -> None:
    assert chi_at(study(sampler=Enumerate(magnetisation=0), chi="auto")) is None


def test_a_chain_has_nothing_to_cut() -> None:
    operator = heisenberg(chain(6))
    assert chi_at(VMC(operator, MPS(operator.lattice, D=8), SAMPLER)) is None


PERIODIC = tfim(chain(4, "periodic"), h=1.0)


@pytest.mark.parametrize(
    ("operator", "ansatz", "sampler", "chi"),
    [
        (OPERATOR, ANSATZ, SAMPLER, 8),
        (OPERATOR, ANSATZ, SAMPLER, "largest"),
        (OPERATOR, ANSATZ.with_scheme(Exact()), SAMPLER, "auto"),
        (PERIODIC, PeriodicMPS(PERIODIC.lattice, D=2), SAMPLER, "auto"),
    ],
)
def test_what_has_none_is_refused(operator: Any, ansatz: Any, sampler: Any, chi: Any) -> None:
    with pytest.raises(ValueError, match="VMC: chi"):
        VMC(operator, ansatz, sampler, chi=chi)
