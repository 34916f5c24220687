"""A PEPS in one HDF5 file: what it is, and its parameters.  No pickle.

The file is laid out as a run's checkpoint (`run/checkpoint.py`) with nothing but the parameters:
attributes "format", "format_version", "identity" (JSON), dataset "here/theta".  So a checkpoint
can be loaded as a state, and a saved state can be the start of a run (ansatz.init).
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tnvmc._version import __version__
from tnvmc.backend.namespace import to_host
from tnvmc.contraction import schemes
from tnvmc.lattice import Lattice, chain, from_bonds, shastry_sutherland, square

if TYPE_CHECKING:
    from tnvmc.ansatz.peps.state import PEPS

Array = Any

FORMAT, FORMAT_VERSION = "tnvmc checkpoint", 1
_SCHEMES = {kind.__name__: kind for kind in (schemes.SRC, schemes.ZipUp, schemes.Exact)}
_GRIDS = {"square": square, "shastry_sutherland": shastry_sutherland}


class StateFileError(ValueError):
    """A file that holds no PEPS that can be read, or one that would be overwritten."""


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
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(_encode(peps, to_host(theta)))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _encode(peps: PEPS, theta: np.ndarray) -> bytes:
    import h5py

    lattice = peps.lattice
    identity = {
        "ansatz": "PEPS",
        "lattice": [lattice.kind, *map(int, lattice.shape), str(lattice.boundary)],
        "local_dim": int(peps.local_dim),
        "D": int(peps.D),
        "n_parameters": int(peps.n_params),
    }
    image = io.BytesIO()
    with h5py.File(image, "w") as file:
        file.attrs["format"] = FORMAT
        file.attrs["format_version"] = FORMAT_VERSION
        file.attrs["tnvmc_version"] = __version__
        file.attrs["identity"] = json.dumps(identity)
        if type(peps.scheme).__name__ in _SCHEMES:
            settings = dataclasses.asdict(peps.scheme)  # type: ignore[call-overload]
            file.attrs["scheme"] = json.dumps({"name": type(peps.scheme).__name__, **settings})
        if lattice.kind == "custom":
            bonds = {
                kind: [list(map(int, pair)) for pair in b] for kind, b in lattice.bonds.items()
            }
            file.attrs["bonds"] = json.dumps(bonds)
            file["coordinates"] = lattice.coordinates
        # The checksum lets a damaged file be refused instead of read.
        file.create_dataset("here/theta", data=theta, fletcher32=True)
    return image.getvalue()


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
        identity = json.loads(file.attrs["identity"])
        if identity["ansatz"] != "PEPS":
            raise StateFileError(f"{path}: holds a {identity['ansatz']}, not a PEPS")
        theta = file["here/theta"][()]
        lattice = _lattice(identity["lattice"], file)
        scheme = _scheme(json.loads(file.attrs.get("scheme", "null")))
    peps = PEPS(lattice, identity["D"], theta.dtype.name, scheme, identity["local_dim"])
    if theta.shape != (peps.n_params,):
        raise StateFileError(
            f"{path}: damaged: {theta.size} parameters, but D={peps.D} on {lattice.shape} has "
            f"{peps.n_params}"
        )
    return peps, theta


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a state or checkpoint for reading; every way it is unusable becomes a StateFileError."""
    import h5py

    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise StateFileError(f"{path}: no such file") from None
    except OSError as error:
        raise StateFileError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        file = h5py.File(io.BytesIO(content), "r")
    except OSError:
        raise StateFileError(f"{path}: not a saved state, or damaged (no HDF5 file)") from None
    with file:
        if file.attrs.get("format") != FORMAT:
            raise StateFileError(f"{path}: an HDF5 file of another program, not of tnvmc")
        try:
            version = int(file.attrs["format_version"])
            if version > FORMAT_VERSION:
                raise StateFileError(
                    f"{path}: format version {version} is newer than {FORMAT_VERSION}, the newest "
                    f"that tnvmc {__version__} reads; update tnvmc"
                )
            yield file
        except StateFileError:
            raise
        except (KeyError, OSError, TypeError, ValueError, AttributeError) as error:
            raise StateFileError(f"{path}: damaged ({error})") from None


def _lattice(described: list[Any], file: Any) -> Lattice:
    kind, rows, columns, boundary = described
    if kind == "chain":
        return chain(columns, boundary)
    if kind in _GRIDS:
        return _GRIDS[kind](rows, columns, boundary)
    bonds = json.loads(file.attrs.get("bonds", "{}"))
    coordinates = file["coordinates"][()] if "coordinates" in file else None
    return from_bonds((rows, columns), bonds, coordinates)


def _scheme(described: Mapping[str, Any] | None) -> schemes.Scheme | None:
    if described is None:
        return None
    settings = {key: value for key, value in described.items() if key != "name"}
    return _SCHEMES[described["name"]](**settings)
