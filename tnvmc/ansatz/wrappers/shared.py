"""By how many symmetries the tensors of a state are shared, and what it would have without."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.ansatz.wrappers.polar import Modulus, Phase
from tnvmc.ansatz.wrappers.product_of_states import ProductOfStates
from tnvmc.ansatz.wrappers.symmetrised import inner_state


@dataclass(frozen=True)
class SharedCounts:
    """Numbers that belong to tensors that are shared."""

    symmetries: int  #: elements of the group, with the identity
    n_unshared: int  #: parameters of the same state without sharing
    bulk: tuple[int, int] | None = None  #: edge and period, where tensors of the bulk are one

    def as_dict(self) -> dict[str, int]:
        """Give a dict for JSON."""
        found = {"symmetries": self.symmetries, "n_unshared": self.n_unshared}
        return found | (dict(zip(("edge", "period"), self.bulk, strict=True)) if self.bulk else {})


def shared_counts(ansatz: Ansatz) -> SharedCounts | None:
    """Count for a PEPS that shares tensors, within a sum over symmetries or a product too; None without."""
    state = inner_state(ansatz)
    if isinstance(state, Modulus | Phase):
        return shared_counts(state.ansatz)
    if isinstance(state, ProductOfStates):
        parts = state.first, state.second
        found = [shared_counts(part) for part in parts]
        held = [counts for counts in found if counts]
        each = (c.n_unshared if c else p.n_params for c, p in zip(found, parts, strict=True))
        return SharedCounts(held[0].symmetries, sum(each), held[0].bulk) if held else None
    if isinstance(state, PEPS) and state.sharing:
        edge = state.sharing.edge
        bulk = None if edge is None else (edge, state.sharing.period)
        return SharedCounts(len(state.sharing), sum(map(prod, state.shapes)), bulk)
    return None
