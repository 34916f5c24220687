"""What a file says of a state that is a part of another one."""

from __future__ import annotations

from typing import Any

from tnvmc.ansatz.files import InFiles
from tnvmc.ansatz.peps.files import told_of_scheme
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.protocol import Ansatz, description_of
from tnvmc.ansatz.wrappers.polar import Modulus, Phase


def rebuild_of(state: Ansatz) -> dict[str, Any] | None:
    """Give kind and settings of a state in plain values; None where only its maker can make it again."""
    found: dict[str, Any] | None = None
    if isinstance(state, Modulus | Phase):
        found = rebuild_of(state.ansatz)
    elif isinstance(state, PEPS):
        found = {"D": state.D, "dtype": state.dtype.name, "bonds": state.bonds}
        found["scheme"] = told_of_scheme(state.scheme if state.scheme_given else None)
        found["sharing"] = state.sharing and state.sharing.told()
    elif isinstance(state, InFiles):
        found = state.rebuild()
    if found is None:
        return None
    if isinstance(state, Modulus | Phase):
        return {"kind": type(state).__name__, "of": found}
    return {"kind": description_of(state)["ansatz"], "of": found}
