"""States in HDF5: nested dicts of arrays and numbers, under one format.  No pickle.

A saved state and the checkpoint of a run are laid out alike: attributes "format",
"format_version", "tnvmc_version", "identity" (JSON) and others, dataset "here/theta".  So each can
be loaded as a state, and be the start of a run (ansatz.init).
"""

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
from tnvmc.storage.files import read_plain
from tnvmc.storage.seals import PROVENANCE, Provenance

FORMAT, FORMAT_VERSION = "tnvmc checkpoint", 1
_NUMBERS = {"int": int, "float": float, "bool": bool}
_SEAL = b"\ntnvmc sha256 "  # and the hash of all before it end a file
_SEAL_SIZE = len(_SEAL) + hashlib.sha256().digest_size
_HDF5 = b"\x89HDF\r\n\x1a\n"


class StateFileError(ValueError):
    """A file that is damaged, of another program or version, or of another problem."""


def encoded(tree: Mapping[str, Any], attributes: Mapping[str, Any]) -> memoryview:
    """Give the content of a file: a tree of arrays, numbers and None, and attributes as JSON.

    Made in memory, where no second copy of it is made: an averaged S alone may be a GiB.
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
    seal = seal_of(image.getbuffer())
    image.seek(0, io.SEEK_END)
    image.write(seal)
    return image.getbuffer()


def _write(group: Any, tree: Mapping[str, Any]) -> None:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            _write(group.create_group(name), value)
        elif value is not None:
            kind = type(value).__name__
            host = value if kind in _NUMBERS or isinstance(value, tuple) else to_host(value)
            dataset = group.create_dataset(name, data=np.asarray(host))
            dataset.attrs["type"] = kind if kind in _NUMBERS else "array"


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
    """Open a state or checkpoint for reading; every way it is unusable becomes a StateFileError.

    HDF5 sees no byte before the checksum was found right: damaged headers can crash it.
    """
    import h5py

    try:
        content = read_plain(path)
    except FileNotFoundError:
        raise StateFileError(f"{path}: no such file") from None
    except OSError as error:
        raise StateFileError(f"{path}: cannot be read ({error.strerror})") from None
    image = _unsealed(path, content)
    try:
        with h5py.File(io.BytesIO(image), "r") as file:
            if file.attrs.get("format") != FORMAT:
                raise StateFileError(f"{path}: an HDF5 file of another program, not of tnvmc")
            version = int(file.attrs["format_version"])
            if version > FORMAT_VERSION:
                told = f"format version {version} is newer than {FORMAT_VERSION} of this tnvmc"
                raise StateFileError(f"{path}: {told}; update tnvmc")
            _check_whole(file)
            yield file
    except StateFileError:
        raise
    except (KeyError, OSError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise StateFileError(f"{path}: damaged ({error})") from None


def seal_of(image: bytes | memoryview) -> bytes:
    """Give what stands behind an HDF5 image in a file: its checksum."""
    return _SEAL + hashlib.sha256(image).digest()


def _unsealed(path: Path, content: bytes) -> memoryview:
    """Give the HDF5 image in the content of a file, of which no bit has changed."""
    whole = memoryview(content)
    image, end = whole[:-_SEAL_SIZE], content[-_SEAL_SIZE:]
    if end == seal_of(image):
        return image
    if end.startswith(_SEAL):
        raise StateFileError(f"{path}: damaged (its checksum is another one)")
    if not content.startswith(_HDF5):
        raise StateFileError(f"{path}: not a saved state, or damaged (no HDF5 file)")
    raise StateFileError(f"{path}: without the checksum of tnvmc: damaged, or of another program")


def _check_whole(group: Any) -> None:
    """Raise ValueError unless all that a file holds is in it, once, as plain numbers."""
    import h5py

    for name in group:
        if group.get(name, getlink=True).__class__ is not h5py.HardLink:
            raise ValueError(f"{name} is a link to another place or file")
        item = group[name]
        if h5py.h5o.get_info(item.id).rc != 1:
            raise ValueError(f"{name} stands in several places")
        if isinstance(item, h5py.Group):
            _check_whole(item)
        elif not isinstance(item, h5py.Dataset) or item.dtype.kind not in "biufc":
            raise ValueError(f"{name} holds no numbers")
        elif item.external or item.is_virtual or item.id.get_storage_size() != item.nbytes:
            raise ValueError(f"{name} is not stored in the file as it is")


def read_parameters(path: Path) -> tuple[dict[str, Any], np.ndarray]:
    """Give what a state belongs to and its parameters (P,) on the host."""
    with opened(path) as file:
        return parameters_in(file)


def parameters_in(file: Any) -> tuple[dict[str, Any], np.ndarray]:
    """Give what an open file belongs to and its parameters (P,); ValueError where they are bad."""
    described, theta = attribute(file, "identity"), file["here/theta"][()]
    check_parameters("here", theta, (described["n_parameters"],))
    return described, theta


def check_parameters(where: str, theta: Any, shape: tuple[int, ...]) -> None:
    """Raise ValueError where parameters have another shape or are not finite."""
    if tuple(theta.shape) != tuple(shape):
        raise ValueError(f"theta of '{where}' has the shape {tuple(theta.shape)}, not {shape}")
    bad = int(np.sum(~np.isfinite(to_host(theta))))
    if bad:
        raise ValueError(f"theta of '{where}': {bad} of {theta.size} parameters are not finite")


def read_provenance(path: Path) -> Provenance | None:
    """Give the run and the step that a checkpoint belongs to; None for a state of no run."""
    with opened(path) as file:
        return Provenance.of(attribute(file, PROVENANCE))


def read_stages(path: Path) -> list[dict[str, Any]]:
    """Give the records of the stages before a checkpoint."""
    with opened(path) as file:
        return attribute(file, "stages", [])  # type: ignore[no-any-return]
