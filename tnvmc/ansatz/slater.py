"""Slater determinants: fermions in orbitals that are parameters."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise, product
from typing import Any

import numpy as np

from tnvmc.ansatz.generic import GenericAnsatz
from tnvmc.ansatz.protocol import LogAmplitude, real_state
from tnvmc.backend.arguments import numeric_type, one_of
from tnvmc.backend.namespace import array_namespace, require_states, to_namespace
from tnvmc.lattice.lattice import Lattice, require_lattice
from tnvmc.operators.fermions import HUBBARD, SPINLESS, T_J, Strings, mode_order
from tnvmc.operators.term import Operator

Array = Any

_FERMIONS = {2: SPINLESS, 3: T_J, 4: HUBBARD}  # whose states are 1 for an up plus 2 for a down

_TRIES, _ROUNDS, _FIELD = 10, 60, 0.005
"""Of `mean_field`: random fields, of this size relative to the largest interaction.  With 0.05 none
of 20 leads to the lowest minimum of Hubbard 6x6 (U = 8, half filling), with 0.005 a third does."""


@dataclass(frozen=True)
class Slater(GenericAnsatz):
    """psi(s) = +-det U_up(s) det U_down(s): rows of orbitals at the occupied sites.

    Args:
        lattice: the sites.
        particles: number of fermions, 6; with spin those of each species, (5, 5).
        dtype: of theta; psi is holomorphic in a complex one.
        local_dim: 2 without spin, 4 for Hubbard (the defaults), 3 where no site holds two (t-J).

    theta holds the orbitals U (N, n), flattened, one species after the other.  Only the space that
    they span matters, so they need not be orthogonal.  Rows come in the order of the modes
    (`operators.fermions.mode_order`); the sign is -1 for each down that comes before an up, as
    orbitals are filled with all up, then all down.  psi = 0 for other numbers of particles.
    Starts: "product", orbitals in the mean field of the others (`mean_field`), or "random".  Cost
    of an amplitude: n^3 for each species; of log-derivatives the same, and N n^2.

    Raises:
        ValueError: particles that do not fit the sites; an unknown dtype; another local dimension.
    """

    lattice: Lattice
    particles: int | Sequence[int]
    dtype: Any = "float64"
    local_dim: int = 0

    starts = ("product", "random")

    def __post_init__(self) -> None:
        require_lattice("Slater", self.lattice)
        numeric_type("Slater", self.dtype)
        object.__setattr__(self, "local_dim", self.local_dim or 2 * np.size(self.particles))
        one_of("Slater", "local_dim", str(self.local_dim), [*map(str, _FERMIONS)])
        if not sum(self.numbers):  # which may not fit
            raise ValueError("Slater: no particles, so no orbital to optimise; take one at least")

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Number of particles n of each species."""
        return self._modes.particles(self._modes.sector(self.particles))

    @cached_property
    def _modes(self) -> Strings:
        return Strings(_FERMIONS[self.local_dim], mode_order(self.lattice))

    @cached_property
    def _place(self) -> np.ndarray:
        return np.argsort(self._modes.order)  # of each site among the modes

    def description(self) -> dict[str, Any]:
        """Class and numbers of particles."""
        return {"ansatz": type(self).__name__, "architecture": {"particles": list(self.numbers)}}

    def rebuild(self) -> dict[str, Any]:
        return {"particles": list(self.numbers), "dtype": np.dtype(self.dtype).name}

    @property
    def n_params(self) -> int:
        """P = N n, with all particles."""
        return self.lattice.n_sites * sum(self.numbers)

    def orbitals(self, theta: Array) -> list[Array]:
        """Give the orbitals (N, n) of each species."""
        n_sites, reshape = self.lattice.n_sites, array_namespace(theta).reshape
        ends = accumulate((n_sites * n for n in self.numbers), initial=0)
        return [reshape(theta[a:b], (n_sites, (b - a) // n_sites)) for a, b in pairwise(ends)]

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """psi(s) for configurations (B, N)."""
        xp, species = array_namespace(theta), [*self._rows(theta, configs)]
        before = to_namespace(np.less.outer(self._place, self._place).astype(float), xp)
        crossed = xp.sum((species[-1][0] @ before) * species[0][0], axis=1) * (len(species) - 1)
        phase, log_abs = xp.astype(1.0 - 2.0 * (crossed % 2.0), theta.dtype), 0.0
        alive = crossed >= 0.0
        for held, rows, _ in species:
            sign, log_size = xp.linalg.slogdet(rows)
            phase, log_abs = phase * sign, log_abs + log_size
            alive = alive & (sign != 0) & (xp.sum(held, axis=1) == rows.shape[1])
        log_abs = xp.where(alive, log_abs, xp.full_like(log_abs, -xp.inf))
        return LogAmplitude(phase * xp.astype(alive, phase.dtype), log_abs)

    def log_derivatives(self, theta: Array, configs: Array) -> Array:
        """Inverse matrices at the occupied sites: (B, P), zero where psi = 0."""
        xp, columns = array_namespace(theta), []
        dead = (self.log_amplitude(theta, configs).phase == 0)[:, None, None]
        for _, rows, sites in self._rows(theta, configs):
            one = xp.eye(rows.shape[1], dtype=rows.dtype)[None, :, :]
            inverse = xp.linalg.inv(xp.where(dead, one, rows))
            placed = xp.arange(self.lattice.n_sites)[None, :, None] == sites[:, None, :]
            slopes = xp.astype(placed & ~dead, theta.dtype) @ xp.matrix_transpose(inverse)
            columns.append(xp.reshape(slopes, (configs.shape[0], -1)))
        return xp.concat(columns, axis=1)

    def _rows(self, theta: Array, configs: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Yield by species its particles (B, N), their orbitals (B, n, n) and sites (B, n)."""
        xp = array_namespace(theta)
        require_states(configs, self.lattice.n_sites, self.local_dim)
        states, place = xp.astype(configs, xp.int64), to_namespace(self._place, xp)
        for k, orbitals in enumerate(self.orbitals(theta)):
            held, n = states // 2**k % 2, orbitals.shape[1]
            sites = xp.argsort(place - place.shape[0] * held, axis=1)[:, :n]  # occupied first
            rows = xp.take(orbitals, xp.reshape(sites, (-1,)), axis=0)
            yield xp.astype(held, xp.float64), xp.reshape(rows, (*sites.shape, n)), sites

    def random(self, seed: int) -> np.ndarray:
        """Orthonormal orbitals that span a space at random."""
        rng = np.random.Generator(np.random.PCG64(seed))
        parts = [rng.normal(size=(2, self.lattice.n_sites, n)) for n in self.numbers]
        is_complex = np.issubdtype(self.dtype, np.complexfloating)
        return self._flat(np.linalg.qr(a + 1j * b if is_complex else a)[0] for a, b in parts)

    def initial(self, operator: Operator, seed: int = 0, kind: str | None = None) -> Array:
        """Give theta (P,) for an operator; ValueError for one of other particles."""
        if kind not in (None, "product"):
            return super().initial(operator, seed, kind)
        own = self._modes.sector(self.particles)
        if operator.fermions != self._modes.fermions or operator.magnetisation not in (None, own):
            raise ValueError(
                f"Slater: its {self.numbers} particles of local dimension {self.local_dim} are not "
                f"those of {operator.name}; make both of the same fermions, as tv, hubbard or tj"
            )
        if operator.is_complex and not np.issubdtype(self.dtype, np.complexfloating):
            raise real_state(operator, f"dtype = '{np.dtype(self.dtype).name}'")
        return self._flat(mean_field(operator, self.numbers, seed))

    def _flat(self, orbitals: Iterable[np.ndarray]) -> np.ndarray:
        return np.concatenate([each.ravel() for each in orbitals]).astype(self.dtype)


def mean_field(operator: Operator, numbers: Sequence[int], seed: int = 0) -> list[np.ndarray]:
    """Give orbitals (N, n) of each species in the mean field of all others (Hartree-Fock).

    Interactions are those of densities; without any these are the lowest orbitals of one particle,
    which are exact.  Spins stay up or down.  Begins with several random fields, as not every one
    leads to the lowest minimum.  Cost: N^3 a round.
    """
    hopping, cost = elements(operator)
    tries, rounds = (_TRIES, _ROUNDS) if cost.any() else (1, 1)
    rng, found = np.random.Generator(np.random.PCG64(seed)), []
    size, one = _FIELD * np.abs(cost).max(), np.eye(operator.n_sites)
    for _ in range(tries):
        field, rho = size * rng.normal(size=(*cost.shape[:2], 1)) * one, 0.0 * hopping
        for done in range(rounds):
            modes = [np.linalg.eigh(h)[1][:, :n] for h, n in zip(hopping + field, numbers)]
            filled = np.array([each @ each.conj().T for each in modes])
            rho = (rho + filled) / 2 if done else filled
            shifts = np.einsum("kilj,ljj->ki", cost, rho.real)
            field = shifts[:, :, None] * one - np.einsum("kikj,kij->kij", cost, rho)
        energy = np.einsum("kij,kji->", hopping + field / 2, rho).real
        found.append((energy, modes))
    return min(found, key=lambda each: each[0])[1]


def elements(operator: Operator) -> tuple[np.ndarray, np.ndarray]:
    """Give elements between one particle (k, N, N), above none, and what two cost (k, N, k, N)."""
    n, d = operator.n_sites, operator.local_dim
    species = range(1 if d == 2 else 2)
    hopping, cost = np.zeros((len(species), n, n), complex), np.zeros((len(species), n) * 2)
    for patch, matrix in operator.matrices.items():
        levels = np.diag(matrix).real - matrix[0, 0].real
        held = [(k, i, 2**k * d**j) for k in species for j, i in enumerate(reversed(patch))]
        for (k, i, a), (l, j, b) in product(held, held):
            if k == l:
                hopping[k, i, j] += matrix[a, b] - (a == b) * matrix[0, 0]
            if i != j or (k != l and d == 4):
                cost[k, i, l, j] += levels[a + b] - levels[a] - levels[b]
    return hopping if operator.is_complex else hopping.real, cost
