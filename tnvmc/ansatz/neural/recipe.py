"""How a network was made: its kind and keywords, from which `tnvmc.load_state` makes it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from tnvmc.lattice.lattice import Lattice
from tnvmc.storage.identity import plain

M = TypeVar("M", bound=type)


@dataclass(frozen=True)
class Making:
    """What a network was made with."""

    kind: str  #: in `NETWORKS`
    lattice: Lattice
    keywords: Mapping[str, Any]  #: of its constructor, but the random numbers


# Beside the modules and not in them: what a module holds is part of what JAX compiles for.
_MAKINGS: WeakKeyDictionary[Any, Making] = WeakKeyDictionary()


def noted(kind: str) -> Callable[[M], M]:
    """Let a network take note of how it is made."""

    def decorate(network: M) -> M:
        initialise: Any = network.__init__  # type: ignore[misc]

        @wraps(initialise)
        def __init__(self: Any, lattice: Lattice, **keywords: Any) -> None:
            initialise(self, lattice, **keywords)
            own = {name: value for name, value in keywords.items() if name != "rngs"}
            _MAKINGS[self] = Making(kind, lattice, own)

        network.__init__ = __init__  # type: ignore[misc]
        return network

    return decorate


def making_of(module: Any) -> Making | None:
    """Give how a module was made; None for one of the user's own, and for copies."""
    try:
        found = _MAKINGS.get(module)
        return None if found is None else Making(found.kind, found.lattice, plain(found.keywords))
    except TypeError:  # no weak reference, or keywords that JSON does not know
        return None


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
