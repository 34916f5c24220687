"""One [[sector]]: the quantum numbers in which a state is optimised, and the states it is kept orthogonal to."""

from __future__ import annotations

from pydantic import StrictInt, StrictStr

from tnvmc.limits import NonNegative, PositiveNumber
from tnvmc.settings.ansatz_settings import Characters, Start, Symmetries
from tnvmc.settings.section import Section


class SectorSettings(Section):
    """What one sector has of its own."""

    name: StrictStr | None = None
    """Folder of its run, and label in the table. Default: `sector-1` and so on."""
    magnetisation: StrictInt | None = None
    """Twice its total Sz. Default: `sampler.magnetisation`."""
    symmetrise: tuple[Symmetries, ...] | None = None
    """Its `ansatz.symmetrise`: symmetries over which the state is summed. Default: that of `[ansatz]`."""
    characters: Characters | None = None
    """Its `ansatz.characters`, as `{ "spin inversion" = -1 }`. Default: those of `[ansatz]`, if the symmetries are too."""
    orthogonal_to: tuple[StrictStr, ...] = ()
    """Names of sectors above it in the file with the same quantum numbers: it is kept orthogonal to their states,
    so it finds level 2 of them, and so on."""
    penalty: PositiveNumber | None = None
    """The `orthogonal.penalty` of these states: larger than the gap. Default: that of `[[orthogonal]]`."""
    init: Start | None = None
    """Its `ansatz.init`. A start that has the symmetries of another level may stay with them: "random" has none.
    Default: that of `[ansatz]`."""
    steps: NonNegative | None = None
    """Its `optimizer.steps`. Default: that of `[optimizer]`."""
