"""What a file says it belongs to, and in what two such descriptions differ."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np

ORTHOGONAL = "orthogonal"
"""In settings: the runs; in the identity of a checkpoint: `parameters_hash` of each kept state."""

_KINDS = ("kind", "network")  # of an architecture: what the other keys mean


def kind_in(described: Mapping[str, Any]) -> str:
    """Give the kind of a network, else the class of the wave function."""
    about = described.get("architecture") or {}
    return str(about.get("kind") or about.get("network") or described["ansatz"])


def plain(value: Any) -> Any:
    """Give a value as JSON would give it back: lists for tuples, all the way down."""
    return json.loads(json.dumps(value))


def parameters_hash(theta: np.ndarray) -> str:
    """Give what identifies parameters (P,), bit for bit."""
    return sha256(theta.tobytes()).hexdigest()[:16]


def differences(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Say in what two descriptions differ, "heads 10 (now 5)" for each key, nested ones too."""
    found: list[str] = []
    for key in dict.fromkeys([*wanted, *stored]):
        old, new = stored.get(key), wanted.get(key)
        if old == new:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new)
        elif key == "fingerprint":
            found.append("other terms or couplings in the Hamiltonian")
        elif key == "sharing":
            found.append(f"tensors {'not ' if old is None else ''}shared (ansatz.sharing)")
        elif key == ORTHOGONAL:
            found.append("other states that it is kept orthogonal to")
        else:
            found.append(f"{key} {_short(old)} (now {_short(new)})")
            if key in _KINDS:
                break
    return found


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        value = next((value[key] for key in _KINDS if key in value), value)
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
