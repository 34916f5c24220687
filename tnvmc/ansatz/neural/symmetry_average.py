"""Images of configurations under a group, and the average of a network over them; Marshall
signs."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tnvmc.lattice.lattice import Patch
from tnvmc.lattice.permutations import SymmetryGroup
from tnvmc.operators.symmetry import is_symmetric
from tnvmc.operators.term import Operator

Array = Any


class SymmetryAverage:
    """The average of a network over a group of symmetries, with Marshall signs.

    psi(s) = sign(s) sum_g chi(g) network(g s) / |G|.  With `densities` (autoregressive networks)
    |psi(s)|^2 = sum_g |network(g s)|^2 / |G|, which is normalised, and the phase is that of
    sum_g exp(i phase(g s)) (Hibat-Allah et al., Phys. Rev. Research 2, 023358 (2020), app. D).
    `invariances` (n, N) are rearrangements of the sites, a group, that leave the network as it is:
    images that differ by one of them are evaluated once.

    Raises:
        ValueError: signs that are not one 0 or 1 for each site; `densities` with a character -1.
    """

    def __init__(
        self, group: SymmetryGroup | None, signs: Sequence[int] | None, local_dim: int,
        n_sites: int, densities: bool, invariances: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        elements = () if group is None else group.elements
        self.group = group
        self.local_dim, self.densities = local_dim, densities
        self.places = np.array([g.sites for g in elements]).reshape(-1, n_sites)
        self.inverts = np.array([g.inverts for g in elements], dtype=bool)
        self.characters = np.array([float(g.character) for g in elements])
        self.signs = None if signs is None else np.asarray(signs)
        wrong = self.signs is not None and (
            self.signs.shape != (n_sites,) or not np.isin(self.signs, (0, 1)).all()
        )
        if wrong:
            raise ValueError(f"FlaxAnsatz: signs must be 0 or 1 for each of {n_sites} sites")
        if densities and (self.characters < 0).any():
            raise ValueError(
                "FlaxAnsatz: the densities of an autoregressive network are averaged, which has no "
                "characters -1; leave those symmetries out"
            )

        self.distinct = self._distinct(invariances)

    @property
    def n_images(self) -> int:
        """Evaluations of the network for one psi."""
        return max(1, len(self.distinct))

    def _distinct(self, invariances: np.ndarray | None) -> np.ndarray:
        """Indices of elements of which no two differ by an invariance of the network."""
        if invariances is None or self.trivial or (self.characters < 0).any():
            return np.arange(len(self.places))
        own = {row.tobytes() for row in self.places[~self.inverts]}
        shared = [row for row in invariances if row.tobytes() in own]
        known: set[tuple[bytes, bool]] = set()
        chosen = []
        for index, (places, inverts) in enumerate(zip(self.places, self.inverts, strict=True)):
            if (places.tobytes(), inverts) not in known:
                chosen.append(index)
                known |= {(places[row].tobytes(), inverts) for row in shared}
        return np.array(chosen)

    @property
    def trivial(self) -> bool:
        """Whether there is no group, or the identity alone."""
        return len(self.places) < 2

    @property
    def keep_modulus(self) -> bool:
        """Whether psi(g s) = +-psi(s) for all g, one sign a sector: so it is if each g maps the
        sublattice of the signs on itself or on the other one."""
        if self.signs is None:
            return True
        moved = self.signs[np.argsort(self.places, axis=1)]
        return all((row == self.signs).all() or (row != self.signs).all() for row in moved)

    @property
    def kept_by(self) -> tuple[Patch, ...]:
        """See `Abilities.kept_by`: elements that keep the sublattice of the signs."""
        signs = np.zeros(self.places.shape[1]) if self.signs is None else self.signs
        return tuple(
            tuple(map(int, row))
            for row in self.places[~self.inverts]
            if (signs[row] == signs).all()
        )

    def check_sector(self, total: int | None) -> None:
        """Raise ValueError for a sum of the states that an inversion of the spins would change."""
        whole = self.places.shape[1] * (self.local_dim - 1)
        if total is not None and 2 * total != whole and self.inverts.any():
            raise ValueError(
                f"FlaxAnsatz: spin inversion turns the sector of sum {total} into that of sum "
                f"{whole - total}; leave it out of the group, or take magnetisation 0"
            )

    def images(self, configs: Array, which: np.ndarray | None = None) -> Array:
        """g s for every element (or some of them) and configuration (B, N): (|G|, B, N)."""
        chosen = slice(None) if which is None else which
        images = jnp.moveaxis(configs[:, self.places[chosen]], 1, 0)
        turned = (self.local_dim - 1 - images).astype(images.dtype)
        return jnp.where(self.inverts[chosen][:, None, None], turned, images)

    def shuffled(self, configs: Array, uniforms: Array) -> Array:
        """A random image of each configuration, by late binary digits of its first number."""
        digits = uniforms[:, 0] * 2.0**31
        which = jnp.floor((digits - jnp.floor(digits)) * len(self.places)).astype(jnp.int32)
        return self.images(configs)[which, jnp.arange(configs.shape[0])]

    def average(self, network: Callable[[Array], Array], configs: Array) -> tuple[Array, Array]:
        """Signs (B,) and ln of psi without them (B,), real where the network is and psi > 0."""
        n_walkers = configs.shape[0]
        sign = jnp.ones(n_walkers)
        if self.signs is not None:
            down = jnp.sum(configs * self.signs, axis=1)
            sign = 1.0 - 2.0 * (down % 2)
        if self.trivial:
            return sign, network(configs)
        images = self.images(configs, self.distinct)
        logs = network(images.reshape(-1, configs.shape[1])).reshape(-1, n_walkers)
        if self.densities:
            return sign, self._mean_density(logs)
        largest = jax.lax.stop_gradient(jnp.max(jnp.real(logs), axis=0))
        largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
        terms = self.characters[self.distinct, None] * jnp.exp(logs - largest)
        total = jnp.mean(terms, axis=0)
        # What is below the rounding of the sum is zero: cancelled by characters -1.
        zero = jnp.abs(total) <= 16 * np.finfo(total.dtype).eps
        safe = jnp.where(zero, 1.0, total)
        if not jnp.iscomplexobj(safe):
            sign = sign * jnp.sign(safe)
            safe = jnp.abs(safe)
        return sign, jnp.where(zero, -jnp.inf, jnp.log(safe) + largest)

    def _mean_density(self, logs: Array) -> Array:
        sizes = jnp.real(logs)
        zero = jnp.isneginf(sizes)
        nowhere = jnp.all(zero, axis=0)
        safe = jnp.where(nowhere, 0.0, jnp.where(zero, -jnp.inf, sizes))
        log_abs = 0.5 * (jax.nn.logsumexp(2.0 * safe, axis=0) - np.log(len(logs)))
        log_abs = jnp.where(nowhere, -jnp.inf, log_abs)
        if not jnp.iscomplexobj(logs):
            return log_abs
        turns = jnp.where(zero, 0.0, jnp.exp(1j * jnp.where(zero, 0.0, jnp.imag(logs))))
        direction = jnp.sum(turns, axis=0)
        return log_abs + 1j * jnp.angle(direction)


MOST_CONFIGS = 2**18
"""Of a lattice that is listed: 18 spins."""


class Orbits:
    """One representative for every configuration, and psi(s) = sign psi(representative).

    All images of a configuration have the same psi up to characters and signs, so one evaluation of
    each orbit, instead of |G| per configuration, gives them all: with all 256 symmetries of a torus
    of 4 x 4 spins there are 107 orbits.
    """

    def __init__(self, averaging: SymmetryAverage, local_dim: int, n_sites: int) -> None:
        self.averaging, self.local_dim, self.n_sites = averaging, local_dim, n_sites

    @property
    def useful(self) -> bool:
        """Whether there are images, and few enough configurations."""
        return not self.averaging.trivial and self.local_dim**self.n_sites <= MOST_CONFIGS

    def classes(
        self, configs: np.ndarray, operator: Operator
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """One configuration (R, N) of each orbit among `configs` (B, N), and which is whose (B,).

        The local energy and |psi| are the same in all of an orbit.  None where that is not so:
        the operator lacks a symmetry, or a symmetry breaks the sublattices of the signs; and
        where orbits are not `useful`.
        """
        group = self.averaging.group
        if not self.useful or group is None or not self.averaging.keep_modulus:
            return None
        # Signs of an element that exchanges sublattices are alike in one sector alone.
        exchange = len(self.averaging.kept_by) < np.count_nonzero(~self.averaging.inverts)
        if not is_symmetric(operator, group) or exchange > operator.conserves_magnetisation:
            return None
        return self.representatives(configs)[:2]

    def representatives(self, configs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Give the different representatives (R, N), which is whose (B,), and the signs (B,).

        psi(configs) = signs * psi(representatives)[which].
        """
        codes = configs.astype(np.int64) @ self._powers
        first, characters = self._table
        found, which = np.unique(first[codes], return_inverse=True)
        members = self._configs(found)
        signs = characters[codes] * self._marshall(configs) * self._marshall(members)[which]
        return members, which, signs

    @cached_property
    def _powers(self) -> np.ndarray:
        return self.local_dim ** np.arange(self.n_sites - 1, -1, -1)

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        """Code of the smallest image of every configuration, and the character that leads to it."""
        configs = self._configs(np.arange(self.local_dim**self.n_sites))
        smallest = np.full(len(configs), len(configs))
        characters = np.ones(len(configs))
        images = zip(
            self.averaging.places, self.averaging.inverts, self.averaging.characters, strict=True
        )
        for places, inverts, character in images:
            moved = configs[:, places]
            codes = (self.local_dim - 1 - moved if inverts else moved) @ self._powers
            characters = np.where(codes < smallest, character, characters)
            smallest = np.minimum(codes, smallest)
        return smallest, characters

    def _configs(self, codes: np.ndarray) -> Array:
        return (codes[:, None] // self._powers % self.local_dim).astype(np.int8)

    def _marshall(self, configs: np.ndarray) -> Array:
        if self.averaging.signs is None:
            return np.ones(len(configs))
        return 1.0 - 2.0 * (configs @ self.averaging.signs % 2)
