"""The modulus of a wave function, or its phase, as a state by itself: factors of products."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

from tnvmc.ansatz.files import part_in_file
from tnvmc.ansatz.generic import amplitude_sweep
from tnvmc.ansatz.protocol import (
    Ansatz,
    LogAmplitude,
    Snapshot,
    SweepInfo,
    Targets,
    Walkers,
    require_ansatz,
)
from tnvmc.ansatz.wrappers.base import Wrapper
from tnvmc.backend.namespace import array_namespace
from tnvmc.jacobian.base import Jacobian
from tnvmc.jacobian.beside import BesideJacobian
from tnvmc.jacobian.jacobian import DenseJacobian, SliceJacobian, is_complex, structured

Array = Any


class _Polar(Wrapper):
    """|psi| or psi / |psi| of an inner state with real parameters."""

    def __init__(self, ansatz: Ansatz) -> None:
        name = type(self).__name__
        require_ansatz(name, "ansatz", ansatz)
        if ansatz.dtype is None or "complex" in str(ansatz.dtype):
            found = "unknown" if ansatz.dtype is None else str(ansatz.dtype)
            raise ValueError(
                f"{name}: the parameters of the {type(ansatz).__name__} are of type {found}, and "
                "|psi| is not holomorphic in complex ones; take real parameters (a network with "
                "output = 'complex' has them, and phases), or the whole of psi"
            )
        super().__init__(ansatz)

    def _around(self, ansatz: Ansatz) -> Self:
        """Give the same of another state."""
        return type(self)(ansatz)

    def description(self) -> dict[str, Any]:
        """The class, and the inner state."""
        return {**super().description(), "architecture": self.ansatz.description()}

    def rebuild(self) -> dict[str, Any] | None:
        """Give what makes the inner state again, as a part of a file."""
        return part_in_file(self.ansatz)

    def start(self, theta: Array, configs: Array) -> Walkers:
        """Walkers of the inner state, at `configs`."""
        return self._shown(self.ansatz.start(theta, configs))

    def sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array
    ) -> tuple[Walkers, SweepInfo]:
        """A sweep of |psi|^2 by the inner state."""
        inner, info = self.ansatz.sweep(theta, _inner(walkers), moves, uniforms)
        return self._shown(inner), info

    def measure(
        self, theta: Array, walkers: Walkers, replacements: Targets, *, jacobian: bool = True
    ) -> tuple[Walkers, Snapshot]:
        """What the inner state measures, with ratios and log-derivatives of this part of it."""
        inner, found = self.ansatz.measure(theta, _inner(walkers), replacements, jacobian=jacobian)
        ratios = {patch: self._of_ratio(ratio) for patch, ratio in found.ratios.items()}
        rows = None if found.jacobian is None else _mapped(found.jacobian, self._of_derivative)
        amplitude = self._of_amplitude(found.amplitude)
        return self._shown(inner), replace(found, amplitude=amplitude, ratios=ratios, jacobian=rows)

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """psi(s) for configurations (B, N)."""
        return self._of_amplitude(self.ansatz.log_amplitude(theta, configs))

    def _shown(self, inner: Walkers) -> Walkers:
        return Walkers(inner.configs, self._of_amplitude(inner.amplitude), inner)

    @abstractmethod
    def _of_amplitude(self, amplitude: LogAmplitude) -> LogAmplitude: ...

    @abstractmethod
    def _of_ratio(self, ratio: Array) -> Array: ...

    @abstractmethod
    def _of_derivative(self, rows: Array) -> Array: ...


class Modulus(_Polar):
    """|psi| of a state with real parameters: log-derivatives are Re O.

    Args:
        ansatz: the state psi.

    Sweeps and measurements are those of psi, whose |psi|^2 is the same.

    Raises:
        ValueError: complex parameters, in which |psi| is not holomorphic.
    """

    def _of_amplitude(self, amplitude: LogAmplitude) -> LogAmplitude:
        size = array_namespace(amplitude.phase).abs(amplitude.phase)
        return LogAmplitude(size, amplitude.log_abs)

    def _of_ratio(self, ratio: Array) -> Array:
        return array_namespace(ratio).abs(ratio)

    def _of_derivative(self, rows: Array) -> Array:
        return array_namespace(rows).real(rows) if is_complex(rows) else rows


class Phase(_Polar):
    """psi / |psi| of a state with real parameters, 0 where psi is: log-derivatives are i Im O.

    Args:
        ansatz: the state psi.

    All |psi| are 1, so that sweeps go by full amplitudes, and it makes sense as a factor of
    `ProductOfStates` only.  Where psi is real its log-derivatives are 0: signs do not learn.

    Raises:
        ValueError: complex parameters, in which psi / |psi| is not holomorphic.
    """

    def sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array
    ) -> tuple[Walkers, SweepInfo]:
        """Moves by full amplitudes; the walkers are those of the inner state again after it."""
        plain = Walkers(walkers.configs, walkers.amplitude)
        moved, info = amplitude_sweep(
            lambda configs: self.log_amplitude(theta, configs),
            self.local_dim, plain, moves, uniforms,
        )  # fmt: skip
        return self.start(theta, moved.configs), info

    def _of_amplitude(self, amplitude: LogAmplitude) -> LogAmplitude:
        xp, log_abs = array_namespace(amplitude.log_abs), amplitude.log_abs
        vanishes = amplitude.phase == 0
        return LogAmplitude(amplitude.phase, xp.where(vanishes, log_abs, xp.zeros_like(log_abs)))

    def _of_ratio(self, ratio: Array) -> Array:
        xp = array_namespace(ratio)
        size = xp.abs(ratio)
        return ratio / xp.where(size == 0, xp.ones_like(size), size)

    def _of_derivative(self, rows: Array) -> Array:
        xp = array_namespace(rows)
        return 1j * xp.imag(rows) if is_complex(rows) else xp.zeros_like(rows)


def _inner(walkers: Walkers) -> Walkers:
    if not isinstance(walkers.cache, Walkers):
        raise TypeError("make these walkers with start(theta, configs)")
    return walkers.cache


def _mapped(jacobian: Jacobian, function: Callable[[Array], Array]) -> Jacobian:
    """The same structure with every array of entries mapped."""
    if isinstance(jacobian, SliceJacobian):
        return replace(jacobian, slices=[function(slice_) for slice_ in jacobian.slices])
    if isinstance(jacobian, BesideJacobian):
        return BesideJacobian(tuple(structured(_mapped(part, function)) for part in jacobian.parts))
    return DenseJacobian(function(jacobian.dense()))
