"""Basis states of N sites as integer codes, all or of one magnetisation, and matrices over them.

The code of a configuration is sum_i s_i d^(N-1-i): sorted codes are configurations in lexicographic
order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tnvmc.lattice.lattice import Patch
from tnvmc.operators.local_term import Replacement
from tnvmc.operators.spin import digits_of

CODE_BITS = 62
"""Codes are int64; d^N may use this many bits."""

_AT_ONCE = 2**16  # configurations whose diagonal elements are computed together

_TABLE = 2**20  # entries of a table that are always worth their memory


def smallest_magnetisation(n_sites: int, local_dim: int = 2) -> int:
    """Give the smallest twice-total-Sz >= 0: 0, or 1 for an odd number of half-integer spins."""
    return n_sites * (local_dim - 1) % 2


def check_magnetisation(n_sites: int, local_dim: int, magnetisation: int) -> None:
    """Raise ValueError when N sites cannot have this (doubled) total Sz."""
    largest = n_sites * (local_dim - 1)
    if abs(magnetisation) > largest or (largest - magnetisation) % 2:
        parity = "even" if largest % 2 == 0 else "odd"
        # With an odd number of sites the sectors that are even are those of other lattices.
        sites = ", or use an even number of sites" if largest % 2 and magnetisation % 2 == 0 else ""
        raise ValueError(
            f"no configuration of {n_sites} sites with local dimension {local_dim} has 2 Sz = "
            f"{magnetisation}: |2 Sz| is {parity} here and at most {largest}. Take such a "
            f"magnetisation{sites}."
        )


def count_states(n_sites: int, weights: Sequence[int], total: int) -> int:
    """Count the configurations of N sites whose weights sum to `total`, exactly."""
    counts = _counts_by_total(n_sites, tuple(weights))
    return counts[total] if 0 <= total < len(counts) else 0


@lru_cache(maxsize=64)
def _counts_by_total(n_sites: int, weights: tuple[int, ...]) -> tuple[int, ...]:
    counts = [1]
    for _ in range(n_sites):
        longer = [0] * (len(counts) + max(weights))
        for weight in weights:
            for value, count in enumerate(counts):
                longer[value + weight] += count
        counts = longer
    return tuple(counts)


@dataclass(frozen=True)
class Basis:
    """The states of N sites with a given magnetisation (None: all), and where each one stands.

    With `weights` of the local states the number is the sum of these over the sites instead.
    Positions come from two tables, one for each half of the sites: first[head] + rank[tail]; in a
    sector of few states by bisection.  Memory: 8 bytes per state for the codes, 16 d^(N/2) bytes
    for the tables.  Source: H. Q. Lin, Phys. Rev. B 42, 6561 (1990).
    """

    n_sites: int
    local_dim: int
    magnetisation: int | None = None
    weights: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.magnetisation is not None and self.weights is None:
            check_magnetisation(self.n_sites, self.local_dim, self.magnetisation)
        elif not self.dimension:
            raise ValueError(f"no configuration of {self.n_sites} sites in {self.magnetisation}")

    @property
    def digits(self) -> tuple[int, ...]:
        """What each local state adds to `total`: its weight, or itself."""
        return self.weights or tuple(range(self.local_dim))

    @property
    def total(self) -> int | None:
        """Sum of the `digits` of every configuration, sum_i s_i; None for all."""
        if self.magnetisation is None or self.weights is not None:
            return self.magnetisation
        return (self.n_sites * (self.local_dim - 1) - self.magnetisation) // 2

    @cached_property
    def dimension(self) -> int:
        """Number of states, as an exact integer of any size."""
        if self.total is None:
            return int(self.local_dim**self.n_sites)
        return count_states(self.n_sites, self.digits, self.total)

    @cached_property
    def codes(self) -> np.ndarray:
        """All codes in increasing order: int64 (n,)."""
        if self.local_dim**self.n_sites > 2**CODE_BITS:
            raise ValueError(
                f"basis of {self.n_sites} sites with local dimension {self.local_dim}: "
                f"{self.local_dim}^{self.n_sites} states do not fit the {CODE_BITS} bits of a code"
            )
        if self.total is None:
            return np.arange(self.dimension, dtype=np.int64)
        if not self.tabled:
            return self._few_codes()
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
        """Give where codes of the basis stand in `codes`: int64."""
        if self.total is None:
            return codes
        if not self.tabled:
            return np.searchsorted(self.codes, codes)
        head, tail = np.divmod(codes, self._n_tails)
        return np.asarray(self._first[head] + self._rank[tail])

    @property
    def tabled(self) -> bool:
        """Whether there are tables."""
        n_heads = self.local_dim ** (self.n_sites - self._n_tail_sites)
        return bool(n_heads <= max(_TABLE, 4 * self.dimension))

    def _few_codes(self) -> np.ndarray:
        """Codes site by site: beginnings that the digit sum cannot be reached from are left out."""
        states, codes, missing = np.arange(self.local_dim), np.zeros(1, int), np.array([self.total])
        for n_others in reversed(range(self.n_sites)):
            codes = (codes[:, None] * self.local_dim + states).reshape(-1)
            missing = (missing[:, None] - self.digits).reshape(-1)
            counts = _counts_by_total(n_others, self.digits)
            reached = np.isin(missing, [total for total, count in enumerate(counts) if count])
            codes, missing = codes[reached], missing[reached]
        return codes

    @property
    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """`positions` as two tables: first[head] + rank[tail], tail = code % len(rank)."""
        if self.total is None:
            n_heads = self.local_dim ** (self.n_sites - self._n_tail_sites)
            return np.arange(n_heads) * self._n_tails, np.arange(self._n_tails)
        return self._first, self._rank

    @property
    def _n_tail_sites(self) -> int:
        return self.n_sites // 2

    @property
    def _n_tails(self) -> int:
        return int(self.local_dim**self._n_tail_sites)

    @cached_property
    def _missing(self) -> np.ndarray:
        """Digit sum that a tail must add to each head; -1 where no tail can."""
        heads = _digit_sums(self.n_sites - self._n_tail_sites, self.digits)
        missing = np.asarray(self.total) - heads
        most = self._n_tail_sites * max(self.digits)
        return np.where((missing >= 0) & (missing <= most), missing, -1)

    @cached_property
    def _tails(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tails ordered by digit sum then code; where each sum starts; how many it has."""
        sums = _digit_sums(self._n_tail_sites, self.digits)
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


def _digit_sums(n_digits: int, weights: tuple[int, ...]) -> np.ndarray:
    """Sum of the weights of the base-d digits of 0..d^n - 1."""
    sums = np.zeros(1, dtype=np.int64)
    for _ in range(n_digits):
        sums = (np.array(weights)[:, None] + sums[None, :]).reshape(-1)
    return sums


def sparse_matrix(
    replacements: Mapping[Patch, Replacement], diagonal: Callable[[np.ndarray], np.ndarray],
    states: Basis, signs: Callable[..., np.ndarray] | None = None,
) -> Any:  # fmt: skip
    """Build <s|H|s'> over a basis: scipy.sparse.csr_matrix, rows and columns in basis order.

    `replacements` are off-diagonal elements by patch, which stay in the basis, `diagonal` gives
    <s|H|s> (B,) of configurations (B, N), `signs` are `Strings.signs` of fermions.  Memory: 12
    bytes for each of `count_elements`, 20 if complex, 4 more beyond 2^31 of them, and three times
    as much while it is put together.
    """
    from scipy.sparse import coo_matrix

    n, d, codes = states.dimension, states.local_dim, states.codes
    configs, index = states.configs(codes), np.int32 if n < 2**31 else np.int64
    rows, columns = [np.arange(n, dtype=index)], [np.arange(n, dtype=index)]
    values = [diagonal(configs[k : k + _AT_ONCE]) for k in range(0, n, _AT_ONCE)]
    for patch, replacement in replacements.items():
        local = np.zeros(n, dtype=np.int64)
        for site in patch:
            local = local * d + configs[:, site]
        digits = digits_of(len(patch), d)
        place = np.array([d ** (states.n_sites - 1 - site) for site in patch])
        signed = signs and signs(configs, local, patch, replacement.targets)
        columns_of = zip(replacement.targets.T, replacement.elements.T, strict=True)
        for r, (targets, element) in enumerate(columns_of):
            shift = (digits[np.maximum(targets, 0)] - digits) @ place
            active = np.flatnonzero(element[local])
            here = local[active]
            rows.append(active.astype(index))
            columns.append(states.positions(codes[active] + shift[here]).astype(index))
            values.append(element[here] if signed is None else element[here] * signed[active, r])
    places = _joined(rows), _joined(columns)
    return coo_matrix((_joined(values), places), shape=(n, n)).tocsr()


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenate and free the parts at once: they are as large as the matrix."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole


def count_elements(replacements: Mapping[Patch, Replacement], states: Basis) -> int:
    """Count the elements of `sparse_matrix` without building it.

    Exact where no two patches connect the same pair of states, otherwise slightly too many.
    """
    total, d = states.dimension, states.local_dim
    for patch, replacement in replacements.items():
        n_others = states.n_sites - len(patch)
        sums = np.array(states.digits)[digits_of(len(patch), d)].sum(axis=1)
        for digits, n_targets in zip(sums, (replacement.targets >= 0).sum(axis=1), strict=True):
            if states.total is None:
                total += int(n_targets) * d**n_others
            else:
                total += int(n_targets) * count_states(
                    n_others, states.digits, states.total - int(digits)
                )
    return total
