"""States in HDF5: nested dicts of arrays and numbers, under one format.  No pickle.

A saved state and the checkpoint of a run are laid out alike: attributes "format",
"format_version", "tnvmc_version", "identity" (JSON) and others, dataset "here/theta".  So a checkpoint
can be loaded as a state, and a saved state can be the start of a run (ansatz.init).
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc._version import __version__
from tnvmc.backend.namespace import to_host, to_namespace

FORMAT, FORMAT_VERSION = "tnvmc checkpoint", 1
_NUMBERS = {"int": int, "float": float, "bool": bool}
_SEAL = b"\ntnvmc sha256 "  # and the hash of all before it end a file; HDF5 does not look there


class StateFileError(ValueError):
    """A file that is damaged, of another program or version, or of another problem."""


def encoded(tree: Mapping[str, Any], attributes: Mapping[str, Any]) -> bytes:
    """Give the content of a file: a tree of arrays, numbers and None, and attributes as JSON.

    Made in memory: an error of the disk is then an OSError of a plain write, with its errno.
    """
    import h5py

    image = io.BytesIO()
    with h5py.File(image, "w") as file:
        file.attrs["format"] = FORMAT
        file.attrs["format_version"] = FORMAT_VERSION
        file.attrs["tnvmc_version"] = __version__
        for name, value in attributes.items():
            file.attrs[name] = json.dumps(value)
        _write(file, tree)
    content = image.getvalue()
    return content + _SEAL + hashlib.sha256(content).digest()


def _write(group: Any, tree: Mapping[str, Any]) -> None:
    for name, value in tree.items():
        if value is None:
            continue
        if isinstance(value, Mapping):
            _write(group.create_group(name), value)
            continue
        is_number = isinstance(value, int | float)
        array = np.asarray(value if is_number or isinstance(value, tuple) else to_host(value))
        dataset = group.create_dataset(name, data=array)
        dataset.attrs["type"] = type(value).__name__ if is_number else "array"


def decoded(group: Any, xp: Any) -> dict[str, Any]:
    """Read a tree back, with arrays of the namespace `xp`; what was None is absent."""
    import h5py

    tree: dict[str, Any] = {}
    for name, item in group.items():
        if isinstance(item, h5py.Group):
            tree[name] = decoded(item, xp)
            continue
        value, kind = item[()], _NUMBERS.get(item.attrs["type"])
        tree[name] = kind(value) if kind else to_namespace(np.asarray(value), xp)
    return tree


def attribute(file: Any, name: str, default: Any = None) -> Any:
    """Read an attribute that was written by `encoded`."""
    return json.loads(file.attrs[name]) if name in file.attrs else default


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
    head, seal, digest = content.rpartition(_SEAL)
    if seal and hashlib.sha256(head).digest() != digest:
        raise StateFileError(f"{path}: damaged (its checksum is another one)")
    try:
        file = h5py.File(io.BytesIO(content), "r")
    except (OSError, RuntimeError):
        raise StateFileError(f"{path}: not a saved state, or damaged (no HDF5 file)") from None
    with file:
        try:
            if file.attrs.get("format") != FORMAT:
                raise StateFileError(f"{path}: an HDF5 file of another program, not of tnvmc")
            version = int(file.attrs["format_version"])
            if version > FORMAT_VERSION:
                raise StateFileError(
                    f"{path}: format version {version} is newer than {FORMAT_VERSION}, the newest "
                    f"that tnvmc {__version__} reads; update tnvmc"
                )
            yield file
        except StateFileError:
            raise
        except (KeyError, OSError, RuntimeError, TypeError, ValueError, AttributeError) as error:
            raise StateFileError(f"{path}: damaged ({error})") from None


def read_parameters(path: Path) -> tuple[dict[str, Any], np.ndarray]:
    """Give what a state belongs to and its parameters (P,) on the host.

    Raises:
        StateFileError: a damaged or foreign file.
    """
    with opened(path) as file:
        return attribute(file, "identity"), file["here/theta"][()]


def read_stages(path: Path) -> list[dict[str, Any]]:
    """Give the records of the stages that lie behind a checkpoint.

    Raises:
        StateFileError: a damaged or foreign file.
    """
    with opened(path) as file:
        stages: list[dict[str, Any]] = attribute(file, "stages", [])
    return stages
