"""One [[sector]]: the quantum numbers in which a state is optimised."""

from __future__ import annotations

from pydantic import StrictInt, StrictStr

from tnvmc.limits import NonNegative
from tnvmc.settings.section import Section


class SectorSettings(Section):
    """What one sector has of its own."""

    name: StrictStr | None = None
    """Folder of its run, and label in the table. Default: `sector-1` and so on."""
    magnetisation: StrictInt | None = None
    """Twice its total Sz. Default: `sampler.magnetisation`."""
    steps: NonNegative | None = None
    """Its `optimizer.steps`. Default: that of `[optimizer]`."""
