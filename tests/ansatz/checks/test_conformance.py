"""The conformance suite finds what it says it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tnvmc.ansatz.checks.case import Case
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.checks.sweeps import check_distribution
from tnvmc.ansatz.generic import amplitude_sweep
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.protocol import MOVE_KINDS, LogAmplitude, Snapshot, SweepInfo, Walkers
from tnvmc.jacobian.dense import DenseJacobian
from tnvmc.lattice import square


class Sound(PeriodicMPS):
    """What the broken ones below are derived from; its sweep is not its tempered one."""

    def sweep(self, theta: Any, walkers: Any, moves: Any, uniforms: Any) -> Any:
        psi = partial(self.log_amplitude, theta)
        return amplitude_sweep(psi, self.local_dim, walkers, moves, uniforms)


class Unnormalised(Sound):
    def log_amplitude(self, theta: Any, configs: Any) -> LogAmplitude:
        right = super().log_amplitude(theta, configs)
        return LogAmplitude(2 * right.phase, right.log_abs)


class ComplexLog(Sound):
    def log_amplitude(self, theta: Any, configs: Any) -> LogAmplitude:
        right = super().log_amplitude(theta, configs)
        return LogAmplitude(right.phase, right.log_abs + 0j)


class ForgetsBatch(Sound):
    """Amplitudes relative to the largest of the batch."""

    def log_amplitude(self, theta: Any, configs: Any) -> LogAmplitude:
        right = super().log_amplitude(theta, configs)
        return LogAmplitude(right.phase, right.log_abs - right.log_abs.max())


class WrongCount(Sound):
    @property
    def n_params(self) -> int:
        return super().n_params + 1


class ConjugateDerivative(Sound):
    def jacobian(self, theta: Any, configs: Any) -> DenseJacobian:
        return DenseJacobian(super().jacobian(theta, configs).dense().conj())


class SquaredPower(Sound):
    """Never flatter than |psi|^2."""

    def tempered_sweep(
        self, theta: Any, walkers: Any, moves: Any, uniforms: Any, power: Any
    ) -> Any:
        return super().tempered_sweep(theta, walkers, moves, uniforms, 0 * power + 1)


class IgnoresMoves(Sound):
    def tempered_sweep(
        self, theta: Any, walkers: Any, moves: Any, uniforms: Any, power: Any
    ) -> Any:
        return super().tempered_sweep(theta, walkers, {}, uniforms, power)


class DrawsUniformly(Sound):
    """Says that its draws are those of |psi|^2."""

    exact_draws = True

    def drawer(self, theta: Any, chi: Any = None, chi_mpo: Any = None) -> Any:
        def draw(uniforms: Any, guide: Any) -> tuple[Any, Any]:
            return (uniforms < 0.5).astype(np.int8), np.full(len(uniforms), -4 * np.log(2))

        return draw


class MissesSite(Sound):
    def jacobian(self, theta: Any, configs: Any) -> DenseJacobian:
        dense = super().jacobian(theta, configs).dense().copy()
        dense[:, : self.D**2] = 0
        return DenseJacobian(dense)


class PlainTranspose(DenseJacobian):
    def adjoint(self, u: Any) -> Any:
        return self.matrix.T @ u


class WrongAdjoint(Sound):
    def jacobian(self, theta: Any, configs: Any) -> DenseJacobian:
        return PlainTranspose(super().jacobian(theta, configs).dense())


class InverseRatios(Sound):
    def measure(
        self, theta: Any, walkers: Walkers, replacements: Any, *, jacobian: bool = True
    ) -> tuple[Walkers, Snapshot]:
        walkers, right = super().measure(theta, walkers, replacements, jacobian=jacobian)
        ratios = {
            p: np.where(r == 0, 0, 1 / np.where(r == 0, 1, r)) for p, r in right.ratios.items()
        }
        return walkers, replace(right, ratios=ratios)


class FillsPadding(Sound):
    def measure(
        self, theta: Any, walkers: Walkers, replacements: Any, *, jacobian: bool = True
    ) -> tuple[Walkers, Snapshot]:
        walkers, right = super().measure(theta, walkers, replacements, jacobian=jacobian)
        ratios = {p: np.where(r == 0, 1, r) for p, r in right.ratios.items()}
        return walkers, replace(right, ratios=ratios)


class BrokenSweep(Sound):
    """A sweep with hooks to break it."""

    def sweep(
        self, theta: Any, walkers: Walkers, moves: Any, uniforms: Any
    ) -> tuple[Walkers, SweepInfo]:
        return self.broken(super().sweep, theta, walkers, moves, uniforms)

    def broken(self, right: Callable, *arguments: Any) -> tuple[Walkers, SweepInfo]:
        raise NotImplementedError


class StaleAmplitude(BrokenSweep):
    def broken(self, right: Any, theta: Any, walkers: Any, moves: Any, uniforms: Any) -> Any:
        moved, info = right(theta, walkers, moves, uniforms)
        return replace(moved, amplitude=walkers.amplitude), info


class AcceptsAll(BrokenSweep):
    def broken(self, right: Any, theta: Any, walkers: Any, moves: Any, uniforms: Any) -> Any:
        return right(theta, walkers, moves, np.zeros_like(uniforms))


class AcceptsModulus(BrokenSweep):
    """|psi'/psi| in place of its square."""

    def broken(self, right: Any, theta: Any, walkers: Any, moves: Any, uniforms: Any) -> Any:
        return right(theta, walkers, moves, uniforms**2)


class MixesColumns(BrokenSweep):
    def broken(self, right: Any, theta: Any, walkers: Any, moves: Any, uniforms: Any) -> Any:
        return right(theta, walkers, moves, np.roll(uniforms, 1, axis=1))


class InPlace(BrokenSweep):
    def broken(self, right: Any, theta: Any, walkers: Any, moves: Any, uniforms: Any) -> Any:
        moved, info = right(theta, walkers, moves, uniforms)
        walkers.configs[...] = moved.configs
        return moved, info


class StaleEnvironment(BrokenSweep):
    """Every move is judged from where the sweep began."""

    def broken(self, right: Any, theta: Any, walkers: Any, moves: Any, uniforms: Any) -> Any:
        configs = walkers.configs.copy()
        accepted = np.zeros((len(configs), len(MOVE_KINDS)))
        proposed = np.zeros_like(accepted)
        for column, (patch, table) in enumerate(moves.items()):
            alone, info = right(theta, walkers, {patch: table}, uniforms[:, column : column + 1])
            changed = (alone.configs != walkers.configs).any(axis=1)
            configs[np.ix_(changed, patch)] = alone.configs[np.ix_(changed, patch)]
            accepted += info.accepted
            proposed += info.proposed
        return self.start(theta, configs), SweepInfo(proposed, accepted)


BROKEN = {
    Unnormalised: "phase",
    ComplexLog: "be real",
    ForgetsBatch: "alone against batch",
    WrongCount: "n_params",
    ConjugateDerivative: "log-derivative along",
    MissesSite: "log-derivative along",
    WrongAdjoint: "adjoint",
    InverseRatios: "measure: ratios of patch",
    FillsPadding: "measure: ratios of patch",
    StaleAmplitude: "amplitudes after sweep",
    AcceptsAll: "remainder",
    AcceptsModulus: "remainder",
    MixesColumns: "in whatever order",
    InPlace: "in place",
    StaleEnvironment: "in whatever order",
    SquaredPower: "with power 0 accepted",
    IgnoresMoves: "with power 1 leaves other",
    DrawsUniformly: "ln q against",
}


@pytest.mark.whole
@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_finds_what_is_broken(kind: type[PeriodicMPS]) -> None:
    ansatz = kind(square(2, 2), 2, "complex128")
    theta = Sound(square(2, 2), 2, "complex128").random(0, noise=1.0)
    with pytest.raises((AssertionError, TypeError), match=BROKEN[kind]):
        check_ansatz(ansatz, theta)


@pytest.mark.parametrize("kind", [StaleEnvironment, AcceptsModulus, MixesColumns])
def test_distribution_alone_finds_wrong_sweeps(kind: type[PeriodicMPS]) -> None:
    ansatz = kind(square(2, 2), 2, "complex128")
    theta = ansatz.random(0, noise=1.0)
    case = Case(ansatz, theta, None, None, np.random.Generator(np.random.PCG64(0)))
    if kind is MixesColumns:  # harmless for the distribution: the numbers are still uniform
        check_distribution(case)
        return
    with pytest.raises(AssertionError, match="does not keep"):
        check_distribution(case)


@pytest.mark.whole
def test_sound_on_more_sites_than_can_be_enumerated() -> None:
    ansatz = Sound(square(3, 4), 2, "complex128")
    check_ansatz(ansatz, ansatz.random(0))


def test_given_configurations_and_tolerance_are_used() -> None:
    ansatz = Sound(square(2, 2), 2)
    theta = ansatz.random(0)
    check_ansatz(ansatz, theta, configs=np.array([[0, 1, 1, 0]], dtype=np.int8), rtol=1e-9)
    with pytest.raises(AssertionError, match="vanishes on all"):
        check_ansatz(ansatz, np.zeros_like(theta))
