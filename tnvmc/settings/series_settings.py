"""What a settings file says of several runs: [[sector]], [scan], and [compare]."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictInt, StrictStr

from tnvmc.limits import NonNegative, Number, Positive, PositiveNumber
from tnvmc.settings.ansatz_settings import Characters, Start, Symmetries
from tnvmc.settings.section import Section

Shape = Annotated[list[Positive], Field(description="the shape of a lattice")]
Observed = Literal["Sz", "Sx", "n", "SzSz", "SS", "nn", "staggered_magnetisation_squared"]


class Budget(Section):
    """What each state of a comparison may use: one of the three."""

    steps: Positive | None = None
    samples: Positive | None = None
    seconds: PositiveNumber | None = None

    def __str__(self) -> str:
        return next(f"{v:g} {k}" for k, v in self.model_dump(exclude_none=True).items())


class Range(Section):
    """Equal steps from one number to another."""

    start: Number
    stop: Number
    n: Annotated[StrictInt, Field(ge=2)]

    @property
    def numbers(self) -> list[float]:
        """All values, both ends included, without the rounding of a sum."""
        step = (self.stop - self.start) / (self.n - 1)
        return [float(f"{self.start + k * step:.12g}") for k in range(self.n)]


class ScanSettings(Section):
    """What one number of the Hamiltonian, or the size, runs through."""

    key: StrictStr
    """A coupling or a field, as `hamiltonian.h` (`hamiltonian.term.2.coupling` of the second term),
    or `lattice.shape`."""
    values: (
        list[Number | Shape]
        | Annotated[Range, Field(description="a table { start = 0, stop = 1, n = 6 }")]
    )
    """A list of numbers, or of shapes; `{ start = 0, stop = 1, n = 6 }` for equal steps. In this
    order: each run starts from the state before it."""
    observables: tuple[Observed, ...] = ()
    """What is measured at each value besides the energy: the mean over sites of `Sz`, `Sx` or `n`,
    the largest structure factor of `SzSz`, `SS` or `nn`, or `staggered_magnetisation_squared`."""


class SectorSettings(Section):
    """What one sector has of its own."""

    name: StrictStr | None = None
    """Folder of its run, and label in the table. Default: `sector-1` and so on."""
    magnetisation: StrictInt | None = None
    """Twice its total Sz. Default: `sampler.magnetisation`."""
    symmetrise: tuple[Symmetries, ...] | None = None
    """Its `ansatz.symmetrise`: symmetries over which the state is summed. Default: that of
    `[ansatz]`."""
    characters: Characters | None = None
    """Its `ansatz.characters`, as `{ "spin inversion" = -1 }`. Default: those of `[ansatz]`, if the
    symmetries are too."""
    orthogonal_to: tuple[StrictStr, ...] = ()
    """Names of sectors above it in the file with the same quantum numbers: it is kept orthogonal to
    their states, so it finds level 2 of them, and so on."""
    penalty: PositiveNumber | None = None
    """The `orthogonal.penalty` of these states: larger than the gap. Default: that of
    `[[orthogonal]]`."""
    init: Start | None = None
    """Its `ansatz.init`. A start that has the symmetries of another level may stay with them:
    "random" has none. Default: that of `[ansatz]`."""
    steps: NonNegative | None = None
    """Its `optimizer.steps`. Default: that of `[optimizer]`."""
