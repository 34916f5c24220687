"""Checkpoints: the state of a run in one HDF5 file, replaced as a whole or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc._version import __version__
from tnvmc.ansatz.peps.files import FORMAT, FORMAT_VERSION, StateFileError, opened
from tnvmc.ansatz.protocol import description_of
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.vmc.guard import Recent
from tnvmc.vmc.state import Point, State

Array = Any

_SERIES = ("energies", "errors", "variances", "norms")


class CheckpointError(ValueError):
    """A file that is damaged, of another program or version, or of another problem."""


def name_of(ansatz: Any) -> str:
    """Give the kind of a network, else the class of a wave function."""
    return kind_in(description_of(ansatz))


def kind_in(described: Mapping[str, Any]) -> str:
    """Give the kind of a network, else the class, from what `identity` tells."""
    about = described.get("architecture") or {}
    return str(about.get("kind") or about.get("network") or described["ansatz"])


def identity(ansatz: Any, operator: Any) -> dict[str, Any]:
    """Describe what a checkpoint belongs to: kind, lattice, D and the operator's fingerprint.

    A network is described by its `architecture` as well.
    """
    lattice, about = ansatz.lattice, description_of(ansatz)
    network = {key: about[key] for key in ("architecture",) if key in about}
    return {
        "ansatz": about["ansatz"],
        "lattice": [lattice.kind, *map(int, lattice.shape), str(lattice.boundary)],
        "local_dim": int(ansatz.local_dim),
        "D": about.get("D"),
        **network,
        "n_parameters": int(ansatz.n_params),
        "operator": operator.name,
        "fingerprint": fingerprint(operator),
    }


def plain(value: Any) -> Any:
    """Give a value as JSON would give it back: lists for tuples, all the way down."""
    return json.loads(json.dumps(value))


def differences(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Say in what two descriptions differ, "heads 10 (now 5)" for each key, nested ones too.

    Networks of different kinds differ in their kind and in nothing else.
    """
    found: list[str] = []
    for key in dict.fromkeys([*wanted, *stored]):
        old, new = stored.get(key), wanted.get(key)
        if old == new:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new)
        elif key == "fingerprint":
            found.append("other terms or couplings in the Hamiltonian")
        else:
            found.append(f"{key} {_short(old)} (now {_short(new)})")
            if key in _KINDS:
                break
    return found


_KINDS = ("kind", "network")  # of an architecture: what the other keys mean


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        value = next((value[key] for key in _KINDS if key in value), value)
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def fingerprint(operator: Any) -> str:
    """Hash the terms of an operator (to 12 digits): equal for equal Hamiltonians."""
    digest = hashlib.sha256()
    for term in sorted(operator.terms, key=lambda term: term.sites):
        matrix = np.asarray(term.matrix, dtype=complex)
        # Adding zero turns -0.0, which has other bytes, into 0.0.
        digest.update(repr(tuple(map(int, term.sites))).encode())
        digest.update((np.round(matrix, 12) + 0.0).tobytes())
    return digest.hexdigest()[:16]


def save(
    path: Path,
    state: State,
    belongs_to: Mapping[str, Any],
    stages: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write a state so that at every moment `path` holds the old file or the new one, complete.

    `stages` are the records of the stages that lie behind it, as in result.json.

    Raises:
        OSError: no space, no permission; the old file is then still in place.
    """
    write_atomically(path, _encode(state, belongs_to, stages))


def load(path: Path, belongs_to: Mapping[str, Any], like: Point) -> State:
    """Read a state back, with arrays of the namespace of `like.theta`.

    Raises:
        CheckpointError: see the class; the message says which, and what differs.
    """
    with _open(path) as file:
        stored = json.loads(file.attrs["identity"])
        # The checkpoint may tell more, as one of a later version.
        differing = differences({key: stored.get(key) for key in belongs_to}, belongs_to)
        state = None if differing else _decode(file, like)
    if state is None:
        raise CheckpointError(f"{path}: checkpoint of another problem: {', '.join(differing)}")
    here = state.here
    if here.theta.dtype != like.theta.dtype:
        raise CheckpointError(
            f"{path}: checkpoint of another problem: dtype {here.theta.dtype} "
            f"(now {like.theta.dtype})"
        )
    if here.configs.shape != like.configs.shape:
        raise CheckpointError(
            f"{path}: written with {here.configs.shape[0]} walkers (now {like.configs.shape[0]}); "
            "keep the number, or start a new run with ansatz.init = this file"
        )
    if set(here.optimizer) != set(like.optimizer):
        raise CheckpointError(
            f"{path}: written with another optimizer; keep it, or start a new run with "
            "ansatz.init = this file"
        )
    return state


def read_parameters(path: Path) -> tuple[dict[str, Any], np.ndarray]:
    """Give what a checkpoint belongs to (see `identity`) and its parameters (P,) on the host.

    Raises:
        CheckpointError: a damaged or foreign file.
    """
    with _open(path) as file:
        return json.loads(file.attrs["identity"]), file["here/theta"][()]


def read_stages(path: Path) -> list[dict[str, Any]]:
    """Give the records of the stages that lie behind a checkpoint; see `save`.

    Raises:
        CheckpointError: a damaged or foreign file.
    """
    with _open(path) as file:
        return json.loads(file.attrs.get("stages", "[]"))


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file: temporary file in the same folder, fsync, rename, fsync of the folder."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _encode(
    state: State, belongs_to: Mapping[str, Any], stages: Sequence[Mapping[str, Any]]
) -> bytes:
    # Made in memory: an error of the disk then is an OSError of a plain write, with its errno.
    import h5py

    image = io.BytesIO()
    with h5py.File(image, "w") as file:
        file.attrs["format"] = FORMAT
        file.attrs["format_version"] = FORMAT_VERSION
        file.attrs["tnvmc_version"] = __version__
        file.attrs["identity"] = json.dumps(dict(belongs_to))
        if stages:
            file.attrs["stages"] = json.dumps([dict(stage) for stage in stages])
        file["step"] = state.step
        _encode_point(file.create_group("here"), state.here)
        if state.good is not None:
            _encode_point(file.create_group("good"), state.good)
        recent = file.create_group("recent")
        for name in _SERIES:
            recent[name] = np.asarray(getattr(state.recent, name), dtype=np.float64)
        recent["scale"] = state.recent.scale
        recent["rollbacks"] = state.recent.rollbacks
    return image.getvalue()


def _encode_point(group: Any, point: Point) -> None:
    _write(group, "theta", point.theta)
    _write(group, "configs", point.configs)
    optimizer = group.create_group("optimizer")
    for name, value in point.optimizer.items():
        if value is not None:
            _write(optimizer, name, value)


def _write(group: Any, name: str, value: Any) -> None:
    is_number = isinstance(value, int | float)
    array = np.asarray(value if is_number else to_host(value))
    # The checksum of each chunk lets a damaged file be refused instead of read.
    dataset = group.create_dataset(name, data=array, fletcher32=array.size > 0 and array.ndim > 0)
    dataset.attrs["type"] = type(value).__name__ if is_number else "array"


def _decode(file: Any, like: Point) -> State:
    recent = file["recent"]
    series = {name: tuple(map(float, recent[name][()])) for name in _SERIES}
    return State(
        step=int(file["step"][()]),
        here=_decode_point(file["here"], like),
        good=_decode_point(file["good"], like) if "good" in file else None,
        recent=Recent(
            **series, scale=float(recent["scale"][()]), rollbacks=int(recent["rollbacks"][()])
        ),
    )


def _decode_point(group: Any, like: Point) -> Point:
    xp = array_namespace(like.theta)
    optimizer = {name: _read(item, xp) for name, item in group["optimizer"].items()}
    absent = {name: None for name, value in like.optimizer.items() if value is None}
    return Point(_read(group["theta"], xp), _read(group["configs"], xp), absent | optimizer)


def _read(dataset: Any, xp: Any) -> Any:
    value = dataset[()]
    kinds = {"int": int, "float": float, "bool": bool}
    kind = kinds.get(dataset.attrs["type"])
    return kind(value) if kind else to_namespace(np.asarray(value), xp)


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Open a checkpoint for reading; every way it can be unusable becomes a CheckpointError."""
    try:
        with opened(path) as file:
            yield file
    except StateFileError as error:
        raise CheckpointError(str(error)) from None
