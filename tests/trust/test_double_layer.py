"""The energy by the double layer beside the sampled one, and what is told of the two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.exact_peps import exact_energy
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.contraction.double_expectation import DoubleLayerValue, boundary_expectation
from tnvmc.contraction.schemes import SRC
from tnvmc.estimate.diagnostic import UnreliableWarning
from tnvmc.lattice import square
from tnvmc.operators.models import heisenberg, tfim, tv, xxz
from tnvmc.operators.term import Operator
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.session.vmc import VMC
from tnvmc.shown import sentence
from tnvmc.trust import double_layer
from tnvmc.trust.double_layer import LeftOut, scan_double_layer
from tnvmc.trust.finished_run import APART, agreement
from tnvmc.vmc.measurement import Measured, MeasurementPlan, measure

ROUNDING = 1e-9
FEW = Sampler(4, 4, threads=1)


def study(operator: Operator, sampler: Any = None, **rest: Any) -> VMC:
    ansatz = PEPS(operator.lattice, D=2, scheme=SRC(8))
    theta = 1.0 + 0.5 * np.random.default_rng(2).normal(size=ansatz.n_params)
    return VMC(operator, ansatz, sampler or Enumerate(threads=1), theta=theta, **rest)


def measured(vmc: VMC, **plan: Any) -> Measured:
    return measure(vmc.method, vmc.state, MeasurementPlan(**plan))


@pytest.mark.whole
@pytest.mark.parametrize("magnetisation", [0, 2])
def test_it_is_the_energy_in_the_sector_that_is_sampled(magnetisation: int) -> None:
    operator = heisenberg(square(3, 4))
    sampler = Sampler(n_walkers=8, n_samples=8, threads=1)
    vmc = study(operator, sampler, magnetisation=magnetisation)
    scan = scan_double_layer(measured(vmc))
    assert scan is not None and scan.energy is not None
    tensors = vmc.ansatz.tensors(vmc.theta)
    exact = exact_energy(tensors, operator, magnetisation=magnetisation)
    assert scan.energy == pytest.approx(exact, rel=1e-6)
    assert {point.magnetisation for point in scan.points} == {magnetisation}
    assert abs(exact_energy(tensors, operator) - exact) > 1e-3 * abs(
        exact
    )  # else nothing was tested


def test_a_single_site_has_one_too() -> None:
    vmc = study(heisenberg(square(1, 1)), magnetisation=1)
    scan = scan_double_layer(measured(vmc))
    assert scan is not None and scan.energy == 0


@pytest.mark.parametrize(("model", "magnetisation"), [(heisenberg, 1), (tfim, None)])
def test_enumeration_and_double_layer_agree_to_truncation(
    model: Any, magnetisation: int | None
) -> None:
    vmc = study(model(square(3, 3)), Enumerate(magnetisation, threads=1))
    found = vmc.converge((4, 8))
    assert found.double_layer is not None and found.double_layer.energy is not None
    assert found.double_layer.points[-1].uncut and found.double_layer.truncation == 0
    assert found.double_layer.energy == pytest.approx(found.points[-1].energy, rel=ROUNDING)
    assert [(each.code, each.status) for each in found.diagnostics] == [
        ("double_layer_agrees", "good")
    ]
    assert sentence(found.diagnostics[0]) in str(found)


def test_a_sampled_energy_agrees_within_its_error() -> None:
    operator = heisenberg(square(3, 4))
    found = study(operator, Sampler(n_walkers=64, n_samples=512, threads=1)).converge((4, 8))
    (told,) = [each for each in found.diagnostics if each.code.startswith("double_layer")]
    assert (told.code, told.status) == ("double_layer_agrees", "good")
    assert told.values["sigmas"] < APART
    assert told.values["chi"] == [point.chi for point in found.double_layer.points]
    # the scan ends where chi no longer matters beside the sampled error
    assert found.double_layer.truncation < 0.1 * found.points[-1].energy_error


def reason(seen: Measured) -> Any:
    """Why the double layer is left out; asked for, that is an error."""
    scan = scan_double_layer(seen)
    assert scan is not None and scan.left_out is not None
    assert (scan.points, scan.energy, str(scan)) == ((), None, "")
    told = agreement(scan.as_dict(), -1.0, 0.1, 4)
    assert (told.code, told.status) == ("double_layer_left_out", "open")
    with pytest.raises(LeftOut):
        scan_double_layer(seen, True)
    return scan.left_out


def test_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = heisenberg(square(3, 3))
    seen = measured(study(operator, FEW, magnetisation=1))
    assert scan_double_layer(seen, False) is None
    network = replace(seen.problem, ansatz=PeriodicMPS(operator.lattice, D=2))
    assert reason(replace(seen, problem=network)) == {"reason": "state", "state": "PeriodicMPS"}
    fermions = measured(VMC(tv(square(2, 3), particles=3), PEPS(square(2, 3), 2), FEW))
    assert reason(fermions) == {"reason": "state", "state": "PEPS of fermions"}
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(8, 8))
    wide = Operator.from_terms(operator.lattice, [((0, 4, 8), matrix + matrix.T)])
    found = reason(replace(seen, problem=replace(seen.problem, operator=wide)))
    assert found == {"reason": "terms", "n_unfit": 1, "n_terms": 1}
    snapshot = seen.observation.snapshot
    configs = snapshot.configs.copy()
    configs[0] = 0
    mixed = replace(seen.observation, snapshot=replace(snapshot, configs=configs))
    assert reason(replace(seen, observation=mixed)) == {"reason": "sectors", "n_sectors": 2}
    down = replace(snapshot, configs=np.ones_like(snapshot.configs))
    product = np.array([1.0, 0.0])  # all up, and samples all down
    theta = np.concatenate(
        [np.multiply.outer(product, np.ones(n)).ravel() for n in (4, 8, 4, 8, 16, 8, 4, 8, 4)]
    )
    moved = replace(seen.observation, snapshot=down)
    elsewhere = replace(seen, observation=moved, point=replace(seen.point, theta=theta))
    assert reason(elsewhere)["reason"] == "empty"
    monkeypatch.setattr(double_layer, "available_bytes", lambda: 1000)
    assert reason(seen)["reason"] == "memory"


def test_time_is_limited_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = measured(study(heisenberg(square(3, 3)), Sampler(4, 4, threads=1), magnetisation=1))
    monkeypatch.setattr(double_layer, "MAX_SECONDS", 0.0)
    scan = scan_double_layer(seen)
    assert scan is not None and scan.left_out is not None
    assert (scan.left_out["reason"], scan.left_out["D"], scan.left_out["chi"]) == ("cost", 2, 4)
    forced = scan_double_layer(seen, True)
    assert forced is not None and forced.energy is not None


LAYERS = {
    "energy": -20.0, "truncation": 1e-6, "magnetisation": 0, "sector_weight": 0.2, "seconds": 1.0,
    "points": [{"chi": 4}, {"chi": 8}], "left_out": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("energy", "error", "changed", "code", "status"),
    [
        (-20.02, 0.01, {}, "agrees", "good"),
        (-20.05, 0.01, {}, "disagrees", "warning"),
        (-19.95, 0.01, {}, "disagrees", "warning"),
        (-20.05, 0.01, {"truncation": 0.02}, "undecided", "open"),
        (-20.5, 0.01, {"truncation": 0.02}, "disagrees", "warning"),
        (-20.0, 0.01, {"truncation": None}, "undecided", "open"),
        (-20.0, 0.01, {"energy": None}, "undecided", "open"),
        (float("nan"), 0.01, {}, "undecided", "open"),
        # an enumeration has no error: a part in 10^6 counts as one
        (-20.00001, 0.0, {}, "agrees", "good"),
        (-20.001, None, {}, "disagrees", "warning"),
    ],
)
def test_verdicts(energy: float, error: Any, changed: Any, code: str, status: str) -> None:
    told = agreement(LAYERS | changed, energy, error, 36)
    assert (told.code, told.status) == (f"double_layer_{code}", status)


def test_python_warns_where_the_double_layer_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """`vmc.converge` used to warn of its samples alone."""
    vmc = study(tfim(square(2, 2)))

    def off(*args: Any, **rest: Any) -> DoubleLayerValue:
        found = boundary_expectation(*args, **rest)
        return replace(found, value=found.value - 1.0)

    monkeypatch.setattr(double_layer, "boundary_expectation", off)
    with pytest.warns(UnreliableWarning, match="double_layer_disagrees"):
        vmc.converge((4, 8))


def test_two_energies_of_zero_agree() -> None:
    model = xxz(square(3, 3), 1.0, 0.0)
    vmc = VMC(model, PEPS(model.lattice, 2), Enumerate(), magnetisation=9)
    assert vmc.converge().double_layer is not None
