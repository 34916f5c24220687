"""What is drawn of several runs, as data; `report/figures/series.py` draws it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Histories:
    """The steps of several runs on the same axes."""

    folders: Sequence[Path]
    final: bool = False  #: with what was measured at the end, variances and V-scores


@dataclass(frozen=True)
class Level:
    """One energy above another one."""

    labels: tuple[str, ...]  #: lines of text below it
    height: float
    error: float
    exact: float | None = None


@dataclass(frozen=True)
class Levels:
    """Energies side by side, each before an exact one."""

    levels: Sequence[Level]
    axis: str  #: label of the energies
    exact: str = "exact"  #: label of the exact ones


@dataclass(frozen=True)
class Curve:
    """Measured points with errors, and the exact values where they are known."""

    axis: str  #: label of the values
    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float]
    exact: Sequence[float | None] = ()


@dataclass(frozen=True)
class Curves:
    """Curves below each other over the same axis."""

    curves: Sequence[Curve]
    axis: str
    name: str = "scan"  #: of the file


Picture = Histories | Levels | Curves
