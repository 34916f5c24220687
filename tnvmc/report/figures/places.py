"""Where the sites of a run are drawn, and which values are told from 0."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.estimate.statistics import of_many
from tnvmc.lattice import GRIDS, Lattice
from tnvmc.lattice.lattice import grid_coordinates
from tnvmc.report.figures.style import Lacking
from tnvmc.shown import sentence
from tnvmc.storage.run_files import Json, Run, as_array
from tnvmc.trust.finished_run import diagnostics_of

CLEAR = 2.0
"""Errors that a value lies from 0 at least, to be painted as one that does; of many `of_many`."""

LEAST_SCALE = 8.0
"""Errors that a scale of colours spans from its middle at least: noise stays pale."""


@dataclass(frozen=True, eq=False)
class Places:
    """Positions of the sites in a picture."""

    xy: np.ndarray  #: (N, 2), as the coordinates of the files
    shape: tuple[int, int]
    on_grid: bool  #: at the points of a square grid, row 0 on top
    lattice: Lattice | None = None  #: row 0 on top; None for a list of bonds, whose y points up

    @property
    def spacing(self) -> float:
        """The shortest distance of two sites."""
        gaps = np.linalg.norm(self.xy[:, None] - self.xy[None, :], axis=2)
        shortest = float(np.min(gaps[gaps > 0], initial=np.inf))
        return shortest if np.isfinite(shortest) else 1.0

    @property
    def extent(self) -> tuple[float, float]:
        """Width and height in shortest distances, with room for the circles at the rim."""
        width, height = np.ptp(self.xy, axis=0) / self.spacing + 1.4
        return float(width), float(height)

    def unit(self, axes: Any) -> float:
        """The shortest distance in points, where the lattice fills some axes."""
        box, (width, height) = axes.get_window_extent(), self.extent
        return float(72 / axes.figure.dpi * 0.8 * min(box.width / width, box.height / height))

    @property
    def listed(self) -> bool:
        """Whether the sites are those of a list of bonds, whose y points up."""
        return self.lattice is None

    def centre(self) -> int:
        """The site nearest to the middle; of equally near ones on a grid the lower right."""
        if self.on_grid:
            rows, columns = self.shape
            return rows // 2 * columns + columns // 2
        away = np.linalg.norm(self.xy - self.xy.mean(axis=0), axis=1)
        return int(np.argmin(np.round(away, 9)))

    def distances(self, site: int) -> np.ndarray:
        """How far each site lies from one, the shorter way round on a grid: (N,)."""
        if self.lattice is not None:
            return np.asarray(self.lattice.distances()[site])
        return np.asarray(np.linalg.norm(self.xy - self.xy[site], axis=1))

    def show(self, axes: Any) -> None:
        """Set the limits of axes that show the lattice, without ticks."""
        margin = 0.75 * self.spacing
        (left, low), (right, high) = self.xy.min(axis=0) - margin, self.xy.max(axis=0) + margin
        axes.set(aspect="equal", xticks=[], yticks=[], xlim=(left, right))
        axes.set_ylim(*((low, high) if self.listed else (high, low)))
        axes.spines[:].set_visible(False)


def places_of(run: Run) -> Places:
    """Give the places of the sites of a measured run; raises `Lacking` where they are not known."""
    held = run.observables
    if held is None or run.shape is None:
        raise Lacking("no sites are known (tnvmc measure)")
    grid = grid_coordinates(run.shape)[:, ::-1]
    given = held.get("coordinates", grid.tolist())
    if given is None:
        why = "the list of bonds has no coordinates (lattice.coordinates)"
        raise Lacking(f"{why}, so distances are not known")
    xy, boundary = as_array(given), str(held.get("boundary", "open"))
    on_grid = np.array_equal(xy, grid)
    made = GRIDS.get("square" if on_grid else str(held.get("lattice")))
    lattice = None if made is None else made(*run.shape, boundary, held.get("vacant") or ())
    return Places(xy, run.shape, on_grid, lattice)


def clear(mean: Any, error: Any) -> np.ndarray:
    """Tell which values lie beyond `chance` from 0; one without an error does not."""
    known = np.where(np.isfinite(error), error, np.inf)
    return np.abs(np.nan_to_num(mean)) > chance(mean) * known


def chance(mean: Any) -> float:
    """Give the errors that the largest of as many values may lie from 0 by chance."""
    return of_many(CLEAR, np.size(mean))


def unclear_text(mean: Any) -> str:
    """Say what `clear` does not tell from 0: "within 3.0 errors of 0"."""
    return f"within {chance(mean):.1f} errors of 0"


def coloured(mean: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Values for a scale of colours, NaN for those that are not clear."""
    return np.where(clear(mean, error), mean, np.nan)


def largest(values: Any) -> float:
    """The largest size of the values that are known, 0 where none is."""
    known = np.abs(np.asarray(values, float))
    return float(np.max(known[np.isfinite(known)], initial=0.0))


def symmetric(mean: Any, error: Any) -> float:
    """Reach of a scale of colours around 0: the largest value, `LEAST_SCALE` errors at least."""
    return max(largest(mean), LEAST_SCALE * largest(error)) or 1.0


def span(mean: Any, error: Any) -> tuple[float, float]:
    """Ends of a scale of colours from lowest to highest, `LEAST_SCALE` errors wide at least."""
    known = np.asarray(mean, float)
    known = known[np.isfinite(known)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    room = max(0.0, LEAST_SCALE * largest(error) - (high - low)) / 2
    if not room and low == high:
        room = abs(low) or 1.0
    return low - room, high + room


def errors_text(error: Any) -> str:
    """Say how large errors are: "errors up to 0.017"."""
    most = largest(error)
    return f"errors up to {most:.2g}" if most else "without errors"


def left_out(run: Run, observable: str) -> str | None:
    """Say why something was not measured on this lattice, None where nothing is said."""
    held: Json = run.observables or {}
    for found in diagnostics_of(held):
        values: Mapping[str, Any] = found.values
        if found.code == "observable_left_out" and values.get("observable") == observable:
            return sentence(found)
    return None
