"""The last layer of a network: where its weights vanish, ln psi is constant."""

from __future__ import annotations

import numpy as np

from tnvmc.ansatz.neural.functional import Functional

_NAMES = ("readout", "head")
"""Of the groups of parameters of the last layers of the networks here."""


class Readout:
    """What `FlaxAnsatz` says of its last layer."""

    functional: Functional

    @property
    def readout(self) -> np.ndarray:
        """Which parameters belong to the last layer: (P,) bool; all False where no group has such a name."""
        sizes = [piece.size for piece in self.functional.pieces(np.zeros(self.functional.n_params))]
        of_pieces = self.functional.within(_NAMES)
        return np.repeat(np.asarray(of_pieces, dtype=bool), sizes)
