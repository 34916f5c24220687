"""A PEPS in one HDF5 file: what it is, and its parameters.  No pickle.

The layout is that of a checkpoint, see `tnvmc.storage.hdf5`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tnvmc.backend.namespace import to_host
from tnvmc.contraction import schemes
from tnvmc.lattice import Lattice, chain, from_bonds, shastry_sutherland, square
from tnvmc.storage.files import write_atomically
from tnvmc.storage.hdf5 import StateFileError, attribute, encoded, opened

if TYPE_CHECKING:
    from tnvmc.ansatz.peps.state import PEPS

Array = Any

_SCHEMES = {kind.__name__: kind for kind in (schemes.SRC, schemes.ZipUp, schemes.Exact)}
_GRIDS = {"square": square, "shastry_sutherland": shastry_sutherland}


def save_peps(path: str | Path, peps: PEPS, theta: Array, *, overwrite: bool = False) -> None:
    """Write a PEPS and its parameters (P,) to an HDF5 file, whole or not at all.

    Raises:
        StateFileError: the file exists and `overwrite` is not set.
        ValueError: theta has another length than the PEPS has parameters.
        OSError: no space, no permission, no such folder.
    """
    path = Path(path)
    peps.tensors(theta)  # complains of a wrong length
    if path.exists() and not overwrite:
        raise StateFileError(f"{path}: exists; choose another name, or pass overwrite=True")
    write_atomically(path, _encode(peps, to_host(theta)))


def _encode(peps: PEPS, theta: np.ndarray) -> bytes:
    lattice = peps.lattice
    attributes: dict[str, Any] = {
        "identity": {
            "ansatz": "PEPS",
            "lattice": [lattice.kind, *map(int, lattice.shape), str(lattice.boundary)],
            "local_dim": int(peps.local_dim),
            "D": int(peps.D),
            "n_parameters": int(peps.n_params),
        }
    }
    tree: dict[str, Any] = {"here": {"theta": theta}}
    if type(peps.scheme).__name__ in _SCHEMES:
        settings = dataclasses.asdict(peps.scheme)  # type: ignore[call-overload]
        attributes["scheme"] = {"name": type(peps.scheme).__name__, **settings}
    if lattice.kind == "custom":
        attributes["bonds"] = {
            kind: [list(map(int, pair)) for pair in bonds] for kind, bonds in lattice.bonds.items()
        }
        tree["coordinates"] = lattice.coordinates
    return encoded(tree, attributes)


def load_peps(path: str | Path) -> tuple[PEPS, np.ndarray]:
    """Read a PEPS and its parameters (P,), on the host, from a saved state or a run's checkpoint.

    A checkpoint says nothing of the scheme, which is the default one then; and of a lattice from
    a list of bonds it keeps the grid alone.

    Raises:
        StateFileError: no such file; damaged; of another program, of a newer format, or of
            another kind of state.
    """
    from tnvmc.ansatz.peps.state import PEPS

    path = Path(path)
    with opened(path) as file:
        identity = attribute(file, "identity")
        if identity["ansatz"] != "PEPS":
            raise StateFileError(f"{path}: holds a {identity['ansatz']}, not a PEPS")
        theta = file["here/theta"][()]
        lattice = _lattice(identity["lattice"], file)
        scheme = _scheme(attribute(file, "scheme"))
    peps = PEPS(lattice, identity["D"], theta.dtype.name, scheme, identity["local_dim"])
    if theta.shape != (peps.n_params,):
        raise StateFileError(
            f"{path}: damaged: {theta.size} parameters, but D={peps.D} on {lattice.shape} has "
            f"{peps.n_params}"
        )
    return peps, theta


def _lattice(described: list[Any], file: Any) -> Lattice:
    kind, rows, columns, boundary = described
    if kind == "chain":
        return chain(columns, boundary)
    if kind in _GRIDS:
        return _GRIDS[kind](rows, columns, boundary)
    bonds = attribute(file, "bonds", {})
    coordinates = file["coordinates"][()] if "coordinates" in file else None
    return from_bonds((rows, columns), bonds, coordinates)


def _scheme(described: Mapping[str, Any] | None) -> schemes.Scheme | None:
    if described is None:
        return None
    settings = {key: value for key, value in described.items() if key != "name"}
    return _SCHEMES[described["name"]](**settings)
