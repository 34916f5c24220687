"""What a file says of a network beside its parameters; `tnvmc.ansatz.load_state` makes it again."""

from __future__ import annotations

from typing import Any

from tnvmc.ansatz.neural.made_with import making_of


def treatment(ansatz: Any) -> dict[str, Any]:
    """Give what is done to a network on its way to psi, in plain values."""
    averaging = ansatz.averaging
    group = () if averaging.group is None else averaging.group.elements
    return {
        "inputs": ansatz.inputs,
        "holomorphic": bool(ansatz.functional.holomorphic),
        "signs": None if averaging.signs is None else averaging.signs.tolist(),
        "group": [
            [list(map(int, g.sites)), bool(g.inverts), int(g.character), str(g.name)] for g in group
        ],
        "freeze": list(ansatz.freeze),
    }


def rebuild_of(ansatz: Any) -> dict[str, Any] | None:
    """Give what makes a network again; None for a module of the user's own."""
    making = making_of(ansatz.functional.made)
    if making is None or making.lattice != ansatz.lattice:
        return None
    return {
        "network": making.kind,
        "keywords": dict(making.keywords),
        "architecture": dict(ansatz.architecture),
        **treatment(ansatz),
    }
