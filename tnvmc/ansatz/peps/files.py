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

from tnvmc.contraction import schemes
from tnvmc.lattice import Lattice, chain, from_bonds, shastry_sutherland, square
from tnvmc.storage.files import write_atomically
from tnvmc.storage.hdf5 import StateFileError, attribute, encoded, opened, parameters_in

_SCHEMES = {kind.__name__: kind for kind in (schemes.SRC, schemes.ZipUp, schemes.Exact)}
_GRIDS = {"square": square, "shastry_sutherland": shastry_sutherland}


@dataclass(frozen=True)
class SavedPEPS:
    """What a file holds."""

    lattice: Lattice
    D: int
    local_dim: int
    scheme: schemes.Scheme | None  #: None: not known, as in a checkpoint
    theta: np.ndarray  #: (P,)


def write_peps(path: str | Path, state: SavedPEPS, *, overwrite: bool = False) -> None:
    """Write a PEPS and its parameters to an HDF5 file, whole or not at all.

    Raises:
        StateFileError: the file exists and `overwrite` is not set.
        OSError: no space, no permission, no such folder.
    """
    path = Path(path)
    if path.exists() and not overwrite:
        raise StateFileError(f"{path}: exists; choose another name, or pass overwrite=True")
    lattice = state.lattice
    attributes: dict[str, Any] = {
        "identity": {
            "ansatz": "PEPS",
            "lattice": [lattice.kind, *map(int, lattice.shape), str(lattice.boundary)],
            "local_dim": int(state.local_dim),
            "D": int(state.D),
            "n_parameters": int(state.theta.size),
        }
    }
    tree: dict[str, Any] = {"here": {"theta": state.theta}}
    if type(state.scheme).__name__ in _SCHEMES:
        settings = dataclasses.asdict(state.scheme)  # type: ignore[call-overload]
        attributes["scheme"] = {"name": type(state.scheme).__name__, **settings}
    if lattice.kind in ("custom", "graph"):
        attributes["bonds"] = {
            kind: [list(map(int, pair)) for pair in bonds]
            for kind, bonds in (lattice.directions or lattice.bonds).items()
        }
        if lattice.coordinates is not None:
            tree["coordinates"] = lattice.coordinates
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
            _lattice(identity["lattice"], file),
            identity["D"],
            identity["local_dim"],
            _scheme(attribute(file, "scheme")),
            theta,
        )


def _lattice(described: list[Any], file: Any) -> Lattice:
    kind, rows, columns, boundary = described
    if kind == "chain":
        return chain(columns, boundary)
    if kind in _GRIDS:
        return _GRIDS[kind](rows, columns, boundary)
    bonds = attribute(file, "bonds", {})
    coordinates = file["coordinates"][()][:, ::-1] if "coordinates" in file else None
    return from_bonds((rows, columns), bonds, coordinates)


def _scheme(described: Mapping[str, Any] | None) -> schemes.Scheme | None:
    if described is None:
        return None
    settings = {key: value for key, value in described.items() if key != "name"}
    return _SCHEMES[described["name"]](**settings)
