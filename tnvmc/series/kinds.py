"""The kinds of several runs; a new one is a file with a `SeriesKind`, and a line here."""

from __future__ import annotations

from tnvmc.series.comparison import ComparisonKind
from tnvmc.series.kind import SeriesKind
from tnvmc.series.scan import ScanKind
from tnvmc.series.several_starts import StartsKind
from tnvmc.series.spin_sectors import SectorsKind

COMPARISON, SECTORS, STARTS, SCAN = ComparisonKind(), SectorsKind(), StartsKind(), ScanKind()

KINDS: tuple[SeriesKind, ...] = (COMPARISON, SCAN, SECTORS, STARTS)
"""In the order in which a file is asked whether it is of a kind."""
