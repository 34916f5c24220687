"""Terms of an operator sorted for the double layer: which strip or pair of rows serves each.

A term is written in matrix units |t><s| of its sites, so that terms which begin alike share what
lies left of their ends.  A *string* is what stands in one column of a strip: a unit or None for
each of its rows.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tnvmc.lattice.lattice import Patch
from tnvmc.operators.term import Operator, Term

Unit = tuple[int, int]
"""(t, s) of |t><s|."""

Column = tuple[Unit | None, ...]
"""What stands in one column of a strip, row by row."""

Prefix = tuple[tuple[int, Column], ...]
"""(column, what stands there) for all columns of a string but the last."""

Ends = dict[tuple[int, Column], Any]
"""Coefficient by (last column, what stands there): a number, or one for each of a batch (S,)."""

Source = tuple[int, Unit]
"""(column, unit) of the first site of a pair."""


class TermsDoNotFit(ValueError):
    """Terms that reach too far for the double layer."""

    def __init__(self, unfit: list[Patch], n_terms: int) -> None:
        self.n_unfit, self.n_terms, self.first = len(unfit), n_terms, unfit[0]
        super().__init__(
            f"double layer: {len(unfit)} of {n_terms} terms act on three or four sites over more "
            f"than two rows and two columns (first: {unfit[0]})"
        )


@dataclass(frozen=True)
class StripTerms:
    """Terms that lie in `n_rows` rows from `first` on."""

    first: int
    n_rows: int
    strings: dict[Prefix, Ends] = field(default_factory=lambda: defaultdict(dict))

    @cached_property
    def prefixes(self) -> dict[Prefix, int]:
        """All beginnings of strings, the empty one too, and the last column that needs each."""
        last: dict[Prefix, int] = {(): -1}
        for prefix, ends in self.strings.items():
            stops = [*(c for c, _ in prefix), max(c for c, _ in ends)]
            for k, stop in enumerate(stops):
                last[prefix[:k]] = max(last.get(prefix[:k], -1), stop)
        return last

    def started(self, c: int) -> list[Prefix]:
        """Prefixes whose last column is c."""
        return [prefix for prefix in self.prefixes if prefix and prefix[-1][0] == c]

    def ended(self, c: int) -> dict[Column, list[tuple[Prefix, Any]]]:
        """What stands in column c where strings end, with the rest of each and its coefficient."""
        found: dict[Column, list[tuple[Prefix, Any]]] = defaultdict(list)
        for prefix, ends in self.strings.items():
            for (at, units), coefficient in ends.items():
                if at == c:
                    found[units].append((prefix, coefficient))
        return found

    def n_transfers(self, n_cols: int) -> int:
        """Columns absorbed to close the strip with all of them."""
        ended = sum(len(self.ended(c)) for c in range(n_cols))
        carried = sum(last - prefix[-1][0] for prefix, last in self.prefixes.items() if prefix)
        return 2 * n_cols + ended + carried


@dataclass(frozen=True)
class View:
    """What one pass over the rows (or over the columns, as rows of the reflected grid) serves."""

    shape: tuple[int, int]
    by_columns: bool
    strips: dict[tuple[int, int], StripTerms]
    #: upper row -> first site and unit -> lower row -> ends
    pairs: dict[int, dict[Source, dict[int, Ends]]]

    @property
    def empty(self) -> bool:
        """Whether there is no term at all."""
        return not self.strips and not self.pairs

    @property
    def largest_bond(self) -> int:
        """Exponent k such that no boundary of the double layer has a bond above D^k."""
        n_rows, n_cols = self.shape
        return 2 * min(n_rows - 1, n_cols // 2)


def views(operator: Operator) -> tuple[View, View]:
    """Sort the terms of an operator: what rows serve and what columns serve.

    Terms in one row or one column go to a strip of one row, without truncation in between; others
    to a strip of two rows or columns if they fit; pairs of sites farther apart are carried from row
    to row.

    Raises:
        TermsDoNotFit: terms on three or four sites over more than two rows and two columns.
    """
    n_rows, n_cols = operator.lattice.shape
    rows = View((n_rows, n_cols), False, {}, defaultdict(lambda: defaultdict(dict)))
    columns = View((n_cols, n_rows), True, {}, defaultdict(lambda: defaultdict(dict)))
    left_over = []
    for term in operator.terms:
        heights, widths = zip(*(divmod(site, n_cols) for site in term.sites), strict=True)
        height = max(heights) - min(heights) + 1
        width = max(widths) - min(widths) + 1
        if height == 1 or (height == 2 and width > 1):
            _add_to_strip(rows, term, operator.local_dim)
        elif width <= 2:
            _add_to_strip(columns, _reflected(term, n_rows, n_cols), operator.local_dim)
        elif len(term.sites) == 2:
            _add_pair(rows, term, operator.local_dim)
        else:
            left_over.append(term.sites)
    if rows.empty and columns.empty:  # the norm alone
        rows.strips[0, 1] = StripTerms(0, 1)
    if left_over:
        raise TermsDoNotFit(left_over, len(operator.terms))
    return rows, columns


def _reflected(term: Term, n_rows: int, n_cols: int) -> Term:
    """The term on the grid with rows and columns exchanged."""
    sites = tuple(site % n_cols * n_rows + site // n_cols for site in term.sites)
    return Term(sites, term.matrix).sorted()


def _add_to_strip(view: View, term: Term, d: int) -> None:
    n_cols = view.shape[1]
    first = min(term.sites) // n_cols
    height = max(term.sites) // n_cols - first + 1
    strip = view.strips.setdefault((first, height), StripTerms(first, height))
    order = sorted({site % n_cols for site in term.sites})
    for units, element in _elements(term.matrix, term.sites, d):
        columns: dict[int, list[Unit | None]] = {c: [None] * height for c in order}
        for site, unit in units.items():
            columns[site % n_cols][site // n_cols - first] = unit
        *before, last = ((c, tuple(columns[c])) for c in order)
        ends = strip.strings[tuple(before)]
        ends[last] = ends.get(last, 0) + element


def _add_pair(view: View, term: Term, d: int) -> None:
    n_cols = view.shape[1]
    upper, lower = term.sites
    for units, element in _elements(term.matrix, term.sites, d):
        ends = view.pairs[upper // n_cols][upper % n_cols, units[upper]].setdefault(
            lower // n_cols, {}
        )
        last = lower % n_cols, (units[lower],)
        ends[last] = ends.get(last, 0) + element


def _elements(
    matrix: np.ndarray, sites: Patch, d: int
) -> Iterator[tuple[Mapping[int, Unit], complex]]:
    """Matrix units and coefficients whose sum a matrix (d^k, d^k) is."""
    states = list(itertools.product(range(d), repeat=len(sites)))
    for row, column in zip(*np.nonzero(matrix), strict=True):
        units = zip(states[row], states[column], strict=True)
        yield dict(zip(sites, units, strict=True)), matrix[row, column]
