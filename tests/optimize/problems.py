"""Small random problems with everything dense, shared by the tests of this folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.jacobian.dense import DenseJacobian
from tnvmc.jacobian.slices import SliceJacobian


@dataclass(frozen=True)
class Problem:
    """theta, Jacobian, local energies and weights, with O as a dense matrix beside them."""

    theta: Any
    jacobian: Any
    energy: Any
    weight: Any
    dense: np.ndarray

    @property
    def arguments(self) -> tuple[Any, Any, Any, Any]:
        return self.theta, self.jacobian, self.energy, self.weight

    def least_squares(self) -> tuple[np.ndarray, np.ndarray]:
        """A and e, written down from their definition; stacked for real theta, complex psi."""
        weight = self.weight
        if weight is None:
            weight = np.full(len(self.energy), 1 / len(self.energy))
        root = np.sqrt(weight)
        a = root[:, None] * (self.dense - weight @ self.dense)
        e = root * (self.energy - weight @ self.energy)
        if np.iscomplexobj(self.theta):
            return a, e
        if np.isrealobj(a):
            return a, e.real
        return np.concatenate([a.real, a.imag]), np.concatenate([e.real, e.imag])


def random_numbers(rng: np.random.Generator, shape: Any, complex_: bool) -> np.ndarray:
    real = rng.normal(size=shape)
    return real + 1j * rng.normal(size=shape) if complex_ else real


def random_problem(
    n_samples: int,
    widths: tuple[int, ...],
    theta: str = "real",
    psi: str = "real",
    slices: bool = True,
    weighted: bool = False,
    seed: int = 0,
) -> Problem:
    rng = np.random.default_rng(seed)
    arrays = [random_numbers(rng, (n_samples, n), psi == "complex") for n in widths]
    spins = rng.integers(2, size=(n_samples, len(widths)), dtype=np.int8)
    jacobian: Any = SliceJacobian(arrays, spins)
    dense = jacobian.dense()
    weight = rng.random(n_samples)
    return Problem(
        theta=random_numbers(rng, dense.shape[1], theta == "complex"),
        jacobian=jacobian if slices else DenseJacobian(dense),
        energy=random_numbers(rng, n_samples, psi == "complex"),
        weight=weight / weight.sum() if weighted else None,
        dense=dense,
    )


@dataclass(frozen=True)
class LogLinear:
    """psi = exp(features @ theta) over a whole basis, with a dense Hamiltonian: no noise.

    Complex features make psi complex; theta may be real, or complex (psi is holomorphic).
    """

    features: np.ndarray  #: (n, P)
    hamiltonian: np.ndarray  #: (n, n)

    def psi(self, theta: np.ndarray) -> np.ndarray:
        return np.exp(self.features @ theta)

    def energy(self, theta: np.ndarray) -> float:
        psi = self.psi(theta)
        return float((psi.conj() @ self.hamiltonian @ psi).real / (psi.conj() @ psi).real)

    def snapshot(self, theta: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
        """Jacobian, local energies, weights."""
        psi = self.psi(theta)
        weight = np.abs(psi) ** 2
        local = self.hamiltonian @ psi / psi
        return DenseJacobian(self.features.astype(psi.dtype)), local, weight / weight.sum()

    def parameters_near(self, psi: np.ndarray, noise: float, theta: str) -> np.ndarray:
        """theta with exp(features @ theta) = psi where there are enough parameters, plus noise."""
        log_psi = np.log(psi.astype(complex))
        features = self.features
        if theta == "real":
            features = np.concatenate([features.real, features.imag])
            log_psi = np.concatenate([log_psi.real, log_psi.imag])
        rng = np.random.default_rng(5)
        found = np.linalg.lstsq(features, log_psi, rcond=None)[0]
        return found + noise * random_numbers(rng, found.shape, theta == "complex")


def log_linear(psi: str, n: int = 7, n_params: int = 9, seed: int = 3) -> LogLinear:
    """Random features; with real ones a Hamiltonian whose ground state is positive."""
    rng = np.random.default_rng(seed)
    hamiltonian = random_numbers(rng, (n, n), psi == "complex")
    if psi == "real":
        hamiltonian = -np.abs(hamiltonian)
    features = 0.5 * random_numbers(rng, (n, n_params), psi == "complex")
    return LogLinear(features, hamiltonian + hamiltonian.conj().T)
