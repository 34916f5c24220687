"""A PEPS in one HDF5 file: what it is, and its parameters.

The file is laid out as a run's checkpoint (`tnvmc.storage.hdf5`) with nothing but the parameters.  So
a checkpoint can be loaded as a state, and a saved state can be the start of a run (ansatz.init).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.ansatz.files import lattice_in, lattice_parts, refuse_existing
from tnvmc.ansatz.peps.sharing import Sharing
from tnvmc.contraction import schemes
from tnvmc.lattice import Lattice
from tnvmc.lattice.embedding import Bonds
from tnvmc.storage.files import write_atomically
from tnvmc.storage.hdf5 import StateFileError, attribute, encoded, opened, parameters_in

_SCHEMES = {kind.__name__: kind for kind in (schemes.SRC, schemes.ZipUp, schemes.Exact)}


@dataclass(frozen=True)
class SavedPEPS:
    """What a file holds."""

    lattice: Lattice
    D: int
    local_dim: int
    scheme: schemes.Scheme | None  #: None: not known, as in a checkpoint
    theta: np.ndarray  #: (P,)
    bonds: Bonds = "open"
    sharing: Sharing | None = None


def write_peps(path: str | Path, state: SavedPEPS, *, overwrite: bool = False) -> None:
    """Write a PEPS and its parameters to an HDF5 file, whole or not at all.

    Raises:
        StateFileError: the file exists and `overwrite` is not set.
        OSError: no space, no permission, no such folder.
    """
    path = Path(path)
    refuse_existing(path, overwrite)
    described, more, coordinates = lattice_parts(state.lattice)
    attributes: dict[str, Any] = {
        "identity": {
            "ansatz": "PEPS",
            "lattice": described,
            "local_dim": int(state.local_dim),
            "D": int(state.D),
            **({} if state.bonds == "open" else {"bonds": state.bonds}),
            **({} if state.sharing is None else {"sharing": state.sharing.told()}),
            "n_parameters": int(state.theta.size),
        },
        **more,
    }
    tree: dict[str, Any] = {"here": {"theta": state.theta}, **coordinates}
    if type(state.scheme).__name__ in _SCHEMES:
        attributes["scheme"] = told_of_scheme(state.scheme)
    write_atomically(path, encoded(tree, attributes))


def read_peps(path: str | Path) -> SavedPEPS:
    """Read a PEPS and its parameters, on the host, from a saved state or a run's checkpoint.

    A checkpoint says nothing of the scheme; and of a lattice from a list of bonds it keeps the grid
    alone.

    Raises:
        StateFileError: no such file; damaged; of another program, of a newer format, or of
            another kind of state.
    """
    path = Path(path)
    with opened(path) as file:
        identity, theta = parameters_in(file)
        if identity["ansatz"] != "PEPS":
            raise StateFileError(f"{path}: holds a {identity['ansatz']}, not a PEPS")
        return SavedPEPS(
            lattice_in(identity["lattice"], file),
            identity["D"],
            identity["local_dim"],
            scheme_of(attribute(file, "scheme")),
            theta,
            identity.get("bonds", "open"),
            sharing_in(identity),
        )


def sharing_in(identity: Mapping[str, Any]) -> Sharing | None:
    """What a file says of tensors that are shared."""
    told = identity.get("sharing")
    return None if told is None else Sharing.of(told)


def told_of_scheme(scheme: Any) -> dict[str, Any] | None:
    """Give what makes a scheme of this package again; None for one of the user's own."""
    if type(scheme).__name__ not in _SCHEMES:
        return None
    return {"name": type(scheme).__name__, **dataclasses.asdict(scheme)}


def scheme_of(described: Mapping[str, Any] | None) -> schemes.Scheme | None:
    """Make a scheme of what a file says of it.

    Raises:
        StateFileError: a scheme of an earlier version.
    """
    if described is None:
        return None
    settings = {key: value for key, value in described.items() if key != "name"}
    if settings.pop("oversample", 0) or described["name"] not in _SCHEMES:
        raise StateFileError(
            f"the scheme {described['name']} of this PEPS is one of an earlier version: fixed "
            "projectors and oversampled sketches were removed"
        )
    return _SCHEMES[described["name"]](**settings)
