"""Basis states of N sites as integer codes: all of them, or those of one magnetisation.

The code of a configuration is sum_i s_i d^(N-1-i), so sorted codes are configurations in
lexicographic order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

CODE_BITS = 62
"""Codes are int64; d^N may use this many bits."""


def basis(n_sites: int, local_dim: int = 2, magnetisation: int | None = None) -> np.ndarray:
    """Give all configurations, or those of one magnetisation, in lexicographic order.

    `magnetisation` is twice the total Sz, N (d - 1) - 2 sum_i s_i, an integer; None means the
    full space.  Returns int8 (n, N).

    Raises:
        ValueError: no configuration has this magnetisation; d^N beyond 2^62.
    """
    states = Basis(n_sites, local_dim, magnetisation)
    return states.configs(states.codes)


def smallest_magnetisation(n_sites: int, local_dim: int = 2) -> int:
    """Give the smallest twice-total-Sz >= 0 that N sites can have: 0, or 1 for an odd number of
    half-integer spins."""
    return n_sites * (local_dim - 1) % 2


def count_states(n_sites: int, local_dim: int, total: int) -> int:
    """Count the configurations of N sites whose local states sum to `total`, exactly."""
    counts = _counts_by_total(n_sites, local_dim)
    return counts[total] if 0 <= total < len(counts) else 0


@lru_cache(maxsize=64)
def _counts_by_total(n_sites: int, local_dim: int) -> tuple[int, ...]:
    counts = [1]
    for _ in range(n_sites):
        longer = [0] * (len(counts) + local_dim - 1)
        for state in range(local_dim):
            for value, count in enumerate(counts):
                longer[value + state] += count
        counts = longer
    return tuple(counts)


@dataclass(frozen=True)
class Basis:
    """The states of N sites with a given magnetisation (None: all), and where each one stands.

    Positions come from two tables, one for the first and one for the second half of the sites,
    instead of a search: position = first[head] + rank[tail].  Memory: 8 bytes per state for the
    codes and 16 d^(N/2) bytes for the tables.

    Source: H. Q. Lin, Phys. Rev. B 42, 6561 (1990).
    """

    n_sites: int
    local_dim: int
    magnetisation: int | None = None

    def __post_init__(self) -> None:
        if self.magnetisation is None:
            return
        highest = self.n_sites * (self.local_dim - 1)
        if (highest - self.magnetisation) % 2:
            kind = "odd" if highest % 2 else "even"
            raise ValueError(
                f"magnetisation 2 Sz = {self.magnetisation} cannot be reached with "
                f"{self.n_sites} sites of local dimension {self.local_dim}: 2 Sz is always {kind} "
                f"there. Take {smallest_magnetisation(self.n_sites, self.local_dim)}"
                + (", or an even number of sites" if self.magnetisation == 0 else "")
            )
        if abs(self.magnetisation) > highest:
            raise ValueError(
                f"magnetisation 2 Sz = {self.magnetisation} is out of range: {self.n_sites} sites "
                f"of local dimension {self.local_dim} reach -{highest}..{highest}"
            )

    @property
    def total(self) -> int | None:
        """Sum of the local states of every configuration, sum_i s_i; None for all."""
        if self.magnetisation is None:
            return None
        return (self.n_sites * (self.local_dim - 1) - self.magnetisation) // 2

    @cached_property
    def dimension(self) -> int:
        """Number of states, as an exact integer of any size."""
        if self.total is None:
            return int(self.local_dim**self.n_sites)
        return count_states(self.n_sites, self.local_dim, self.total)

    @cached_property
    def codes(self) -> np.ndarray:
        """All codes in increasing order: int64 (n,)."""
        self._check_bits()
        if self.total is None:
            return np.arange(self.dimension, dtype=np.int64)
        tails_by_sum, start, _ = self._tails
        n_tails = self._n_tails_of_head
        place = np.arange(self.dimension) - np.repeat(self._first, n_tails)
        tails = tails_by_sum[np.repeat(start[self._missing], n_tails) + place]
        return np.asarray(np.repeat(np.arange(len(n_tails)) * self._n_tails, n_tails) + tails)

    def configs(self, codes: np.ndarray) -> np.ndarray:
        """Give the configurations of codes (n,): int8 (n, N)."""
        configs = np.empty((len(codes), self.n_sites), dtype=np.int8)
        rest = np.array(codes, dtype=np.int64)
        for site in reversed(range(self.n_sites)):
            rest, configs[:, site] = np.divmod(rest, self.local_dim)
        return configs

    def positions(self, codes: np.ndarray) -> np.ndarray:
        """Give where codes stand in `codes`, for codes that belong to the basis: int64."""
        if self.total is None:
            return codes
        head, tail = np.divmod(codes, self._n_tails)
        return np.asarray(self._first[head] + self._rank[tail])

    @property
    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """`positions` as two tables: first[head] + rank[tail], tail = code % len(rank)."""
        if self.total is None:
            n_heads = self.local_dim ** (self.n_sites - self._n_tail_sites)
            return np.arange(n_heads) * self._n_tails, np.arange(self._n_tails)
        return self._first, self._rank

    def _check_bits(self) -> None:
        if self.local_dim**self.n_sites > 2**CODE_BITS:
            raise ValueError(
                f"basis of {self.n_sites} sites with local dimension {self.local_dim}: "
                f"{self.local_dim}^{self.n_sites} states do not fit the {CODE_BITS} bits of a code"
            )

    @property
    def _n_tail_sites(self) -> int:
        return self.n_sites // 2

    @property
    def _n_tails(self) -> int:
        return int(self.local_dim**self._n_tail_sites)

    @cached_property
    def _missing(self) -> np.ndarray:
        """Digit sum that a tail must add to each head; -1 where no tail can."""
        missing = np.asarray(self.total) - _digit_sums(
            self.n_sites - self._n_tail_sites, self.local_dim
        )
        most = self._n_tail_sites * (self.local_dim - 1)
        return np.where((missing >= 0) & (missing <= most), missing, -1)

    @cached_property
    def _tails(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tails ordered by digit sum then code; where each sum starts; how many it has."""
        sums = _digit_sums(self._n_tail_sites, self.local_dim)
        count = np.bincount(sums)
        return np.argsort(sums, kind="stable"), np.cumsum(count) - count, count

    @cached_property
    def _rank(self) -> np.ndarray:
        """Place of every tail among those with the same digit sum."""
        by_sum, start, count = self._tails
        rank = np.empty(self._n_tails, dtype=np.int64)
        rank[by_sum] = np.arange(self._n_tails) - np.repeat(start, count)
        return rank

    @cached_property
    def _n_tails_of_head(self) -> np.ndarray:
        """Number of states that begin with each head."""
        return np.where(self._missing >= 0, self._tails[2][self._missing], 0)

    @cached_property
    def _first(self) -> np.ndarray:
        """Position of the first state with a given head."""
        return np.asarray(np.cumsum(self._n_tails_of_head) - self._n_tails_of_head)


def _digit_sums(n_digits: int, local_dim: int) -> np.ndarray:
    """Sum of the base-d digits of 0..d^n - 1."""
    sums = np.zeros(1, dtype=np.int64)
    for _ in range(n_digits):
        sums = (np.arange(local_dim)[:, None] + sums[None, :]).reshape(-1)
    return sums
