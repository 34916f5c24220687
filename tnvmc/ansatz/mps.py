"""Matrix product states: the periodic one in trace form, and a factory for both boundaries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tnvmc.ansatz.generic import GenericAnsatz, as_log_amplitude
from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.ansatz.quimb import ring_to_quimb
from tnvmc.backend.arguments import numeric_type, set_whole, whole
from tnvmc.backend.linalg import normalise
from tnvmc.backend.namespace import array_namespace, require_states, to_host
from tnvmc.contraction.schemes import SRC
from tnvmc.jacobian.base import Jacobian
from tnvmc.jacobian.slices import SliceJacobian
from tnvmc.lattice.lattice import Lattice, require_lattice

if TYPE_CHECKING:
    import quimb.tensor as qtn

    from tnvmc.ansatz.peps.state import PEPS

Array = Any


@dataclass(frozen=True)
class PeriodicMPS(GenericAnsatz):
    """psi(s) = Tr A_0[s_0] A_1[s_1] ... A_{N-1}[s_{N-1}], sites in the order of their index.

    `theta` is the (N, d, D, D) array of the tensors A (spin, left, right), flattened, real or
    complex.  Nothing is truncated.  Cost per configuration: N D^3 for an amplitude, 3 N D^3 for its
    log-derivatives; sweep and measure are the generic ones, N^2 D^3, without reuse of environments.
    """

    lattice: Lattice
    D: int
    dtype: Any = "float64"
    local_dim: int = 2

    def __post_init__(self) -> None:
        require_lattice("PeriodicMPS", self.lattice)
        set_whole(self, {"D": 1, "local_dim": 2})
        numeric_type("PeriodicMPS", self.dtype)

    def rebuild(self) -> dict[str, Any]:
        return {"D": self.D, "dtype": np.dtype(self.dtype).name}

    @property
    def n_params(self) -> int:
        """P = N d D^2."""
        return self.lattice.n_sites * self.local_dim * self.D**2

    def tensors(self, theta: Array) -> Array:
        """The site tensors (N, d, D, D) in `theta`, leg order (spin, left, right)."""
        shape = (self.lattice.n_sites, self.local_dim, self.D, self.D)
        return array_namespace(theta).reshape(theta, shape)

    def flatten(self, tensors: Array) -> Array:
        """`theta` from site tensors (N, d, D, D)."""
        return array_namespace(tensors).reshape(tensors, (-1,))

    def random(self, seed: int, noise: float = 0.5) -> Array:
        """`theta` near the uniform superposition: identity matrices plus normal noise."""
        rng = np.random.Generator(np.random.PCG64(seed))
        shape = (self.lattice.n_sites, self.local_dim, self.D, self.D)
        tensors = rng.normal(size=shape).astype(self.dtype)
        if np.issubdtype(self.dtype, np.complexfloating):
            tensors = (tensors + 1j * rng.normal(size=shape)).astype(self.dtype) / np.sqrt(2.0)
        tensors = np.eye(self.D, dtype=self.dtype) + noise / np.sqrt(self.D) * tensors
        return self.flatten(tensors).astype(self.dtype)

    def description(self) -> dict[str, Any]:
        """Class and D."""
        return {"ansatz": type(self).__name__, "D": self.D}

    def to_quimb(self, theta: Array) -> qtn.MatrixProductState:
        """Give a cyclic MatrixProductState of quimb: `quimb.ring_to_quimb`."""
        return ring_to_quimb(to_host(self.tensors(theta)))

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """psi(s) for configurations (B, N)."""
        xp = array_namespace(theta)
        sites = self._selected(theta, configs)
        product, log_scale = normalise(next(sites))
        for matrix in sites:
            product, log_size = normalise(product @ matrix)
            log_scale = log_scale + log_size
        trace = xp.sum(product * xp.eye(self.D, dtype=product.dtype), axis=(1, 2))
        return as_log_amplitude(trace, log_scale)

    def log_derivatives(self, theta: Array, configs: Array) -> Array:
        """O_k(s), dense: (B, P)."""
        return self.jacobian(theta, configs).dense()

    def jacobian(self, theta: Array, configs: Array) -> Jacobian:
        """Selected slices E_i^T / Tr(A_i E_i), with E_i the product of all other matrices.

        Each site is divided by its own closure, so that sum(A_i * O_i) = 1 exactly.
        """
        xp = array_namespace(theta)
        sites = list(self._selected(theta, configs))
        ahead = [xp.zeros_like(sites[0]) + xp.eye(self.D, dtype=theta.dtype)]
        for matrix in reversed(sites[1:]):
            ahead.append(normalise(matrix @ ahead[-1])[0])
        slices, behind = [], ahead[0]
        for matrix in sites:
            environment = xp.matrix_transpose(ahead.pop() @ behind)
            closure = xp.sum(matrix * environment, axis=(1, 2))
            zero = closure == 0
            one, none = xp.ones_like(closure), xp.zeros_like(closure)
            weight = xp.where(zero, none, one / xp.where(zero, one, closure))
            slices.append(xp.reshape(environment * weight[:, None, None], (configs.shape[0], -1)))
            behind = normalise(behind @ matrix)[0]
        return SliceJacobian(slices, configs, self.local_dim)

    def _selected(self, theta: Array, configs: Array) -> Any:
        """Yield A_i[s_i] for one site after another: (B, D, D)."""
        xp = array_namespace(theta)
        tensors = self.tensors(theta)
        require_states(configs, self.lattice.n_sites, self.local_dim)
        for site in range(self.lattice.n_sites):
            spins = xp.astype(configs[:, site], xp.int64)
            yield xp.take(tensors[site, ...], spins, axis=0)


def MPS(lattice: Lattice, D: int, dtype: Any = None, local_dim: int = 2) -> PeriodicMPS | PEPS:
    """Make a matrix product state: `PeriodicMPS` on a periodic lattice, else a PEPS whose bonds
    follow the rows and back (`bonds="snake"`): one joins two rows, and chi = 1 is exact.
    """
    require_lattice("MPS", lattice)
    whole("MPS", "D", D)
    if lattice.boundary == "periodic":
        return PeriodicMPS(lattice, D, "float64" if dtype is None else dtype, local_dim)
    from tnvmc.ansatz.peps.state import PEPS

    on_a_row = replace(lattice, kind="custom") if lattice.kind == "graph" else lattice
    snake = lattice.shape[0] > 1
    return PEPS(
        on_a_row, D, dtype, SRC(1) if snake else None, local_dim, "snake" if snake else "open",
        sharing=None,
    )  # fmt: skip
