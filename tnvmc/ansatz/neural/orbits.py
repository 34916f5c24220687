"""Configurations that symmetries map on each other, for lattices small enough to list them all."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from tnvmc.ansatz.neural.symmetry_average import SymmetryAverage
from tnvmc.operators.symmetry import is_symmetric
from tnvmc.operators.term import Operator

Array = Any

MOST_CONFIGS = 2**18
"""Of a lattice that is listed: 18 spins."""


class Orbits:
    """One representative for every configuration, and psi(s) = sign psi(representative).

    An average over |G| symmetries costs |G| evaluations per configuration, but all images of one
    have the same psi up to characters and signs: evaluating each orbit once gives them all.  A
    measurement of 4 x 4 spins asks for some ten thousand configurations many times over, and with
    all 256 symmetries of the torus these are 107 orbits.

    Source: as `SymmetryAverage`, which says what G and the signs are.
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
        """One configuration (R, N) of each orbit among `configs`, and how many it stands for (R,).

        The local energy and |psi| are the same in all of an orbit.  None where that is not so:
        the operator lacks a symmetry, or a symmetry breaks the sublattices of the signs; and
        where orbits are not `useful`.
        """
        group = self.averaging.group
        if not self.useful or group is None or not self.averaging.keep_modulus:
            return None
        if not is_symmetric(operator, group):
            return None
        members, which, _ = self.representatives(configs)
        return members, np.bincount(which)

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
