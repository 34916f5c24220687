"""Parameters of any wave function in one HDF5 file, with what tells whether they fit.

Laid out as a run's checkpoint (`tnvmc.storage.hdf5`) with nothing but the parameters, so a saved
state can be the start of a run (ansatz.init).  Beside them stand ln psi of a few configurations: a
wave function whose code or settings have changed meanwhile is not given parameters that mean
something else there.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Ansatz
from tnvmc.backend.arguments import as_path
from tnvmc.backend.namespace import to_host
from tnvmc.contraction import schemes
from tnvmc.lattice import GRIDS, Lattice, chain, from_bonds
from tnvmc.storage.files import write_atomically
from tnvmc.storage.hdf5 import StateFileError, attribute, encoded, opened, parameters_in
from tnvmc.storage.identity import differences, plain

_PROBES = 16
"""Configurations whose ln psi is kept."""

_SAME = 1e-5
"""Largest change of ln psi and of the phase that is taken for rounding: between processors and
libraries some 1e-12 in double precision, 1e-6 in single."""

LISTED_BONDS = "list of bonds"
"""In the identity of a checkpoint: bonds, vacant places and coordinates of a lattice without a
name."""

_SCHEMES = {kind.__name__: kind for kind in (schemes.SRC, schemes.ZipUp, schemes.Exact)}

REBUILD = "rebuild"
"""Attribute with what makes the wave function again; absent where only its maker can."""


def lattice_parts(lattice: Lattice) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """Give what a file says of a lattice: in its identity, in other attributes, in datasets."""
    described = [lattice.kind, *map(int, lattice.shape), str(lattice.boundary)]
    if lattice.kind == "chain":
        return described, {}, {}
    if lattice.kind in GRIDS:
        own = GRIDS[lattice.kind](*lattice.shape, lattice.boundary).vacant
        more_empty = [] if lattice.vacant == own else [list(map(int, lattice.vacant))]
        return [*described, *more_empty], {}, {}
    given = lattice.directions or lattice.bonds
    bonds = {k: [list(map(int, pair)) for pair in pairs] for k, pairs in given.items()}
    more: dict[str, Any] = {"bonds": bonds}
    if lattice.vacant:
        more["vacant"] = list(map(int, lattice.vacant))
    # Without coordinates there is no such dataset.
    return described, more, {"coordinates": lattice.coordinates}


def listed(lattice: Lattice) -> dict[str, Any] | None:
    """Give a list of bonds in plain values, for an identity; None for a lattice with a name."""
    _, more, coordinates = lattice_parts(lattice)
    if not more:
        return None
    places = coordinates["coordinates"]
    coordinates_ = None if places is None else places[:, ::-1].tolist()
    found: dict[str, Any] = plain({**more, "coordinates": coordinates_})
    return found


def lattice_in(described: list[Any], file: Any) -> Lattice:
    """Read the lattice of an open file; old checkpoints keep the grid of a list of bonds alone."""
    kind, rows, columns, boundary, *empty = described
    if kind == "chain":
        return chain(columns, boundary)
    if kind in GRIDS:
        return GRIDS[kind](rows, columns, boundary, *empty)
    told = attribute(file, "identity").get(LISTED_BONDS) or {}
    bonds = attribute(file, "bonds", told.get("bonds", {}))
    vacant = attribute(file, "vacant", told.get("vacant", ()))
    coordinates = told.get("coordinates")
    if "coordinates" in file:
        coordinates = file["coordinates"][()][:, ::-1]
    # Without a grid it was made from a number of sites.
    grid = columns if kind == "graph" else (rows, columns)
    return from_bonds(grid, bonds, coordinates, vacant)


def part_in_file(state: Ansatz) -> dict[str, Any] | None:
    """Give kind and settings of a state within another one; None if only its maker can make it."""
    found = state.rebuild()
    return None if found is None else {"kind": state.description()["ansatz"], "of": found}


def write_state(
    path: str | Path, ansatz: Ansatz, theta: np.ndarray, more: Mapping[str, Any],
    tree: Mapping[str, Any], overwrite: bool,
) -> None:  # fmt: skip
    """Write theta (P,), what it belongs to, and more attributes and arrays, whole or not at all."""
    path = as_path("save", path)
    if path.exists() and not overwrite:
        raise StateFileError(f"{path}: exists; choose another name, or pass overwrite=True")
    _, attributes, coordinates = lattice_parts(ansatz.lattice)
    attributes = {"identity": _identity(ansatz), **attributes, **more}
    content = {"here": {"theta": theta}, **tree, **coordinates}
    write_atomically(path, encoded(content, attributes))


def _identity(ansatz: Ansatz) -> dict[str, Any]:
    about = plain(ansatz.description())
    return {
        "ansatz": about.pop("ansatz"),
        "lattice": lattice_parts(ansatz.lattice)[0],
        "local_dim": int(ansatz.local_dim),
        **about,
        "n_parameters": int(ansatz.n_params),
    }


def scheme_in_file(scheme: Any) -> dict[str, Any]:
    """Give what makes a scheme of this package again; of one of the user's own its name."""
    kind = type(scheme)
    if kind is not _SCHEMES.get(kind.__name__):
        return {"name": f"{kind.__module__}.{kind.__name__}"}
    return {"name": kind.__name__, **asdict(scheme)}


def scheme_of(described: Mapping[str, Any] | None) -> schemes.Scheme | None:
    """Make a scheme of what a file says of it, None for the default one.

    Raises:
        StateFileError: a scheme that this version has not.
    """
    if not described:
        return None
    settings = dict(described)
    if (name := settings.pop("name")) not in _SCHEMES:
        raise StateFileError(
            f"this state was contracted by {name}, which this version has not; a run takes its "
            "parameters as ansatz.init"
        )
    return _SCHEMES[name](**settings)


def probe_configs(ansatz: Ansatz, walkers: Any = ()) -> np.ndarray:
    """Give configurations (K, N): walkers, or rearrangements of one or of a pattern."""
    rng = np.random.Generator(np.random.PCG64(0))
    pattern = np.arange(ansatz.lattice.n_sites) % ansatz.local_dim
    rows = [*to_host(walkers[:_PROBES])] or [pattern]
    if len({row.tobytes() for row in rows}) < 2:  # psi is compared up to a factor
        rows += [rng.permutation(rows[0]) for _ in range(_PROBES - 1)]
    return np.array(rows, dtype=np.int8)


def probe_of(ansatz: Ansatz, theta: Any, walkers: Any = ()) -> dict[str, np.ndarray]:
    """Give ln psi of `probe_configs`, which a file keeps: `compare` tells where theta means
    another psi now.
    """
    configs = probe_configs(ansatz, walkers)
    found = ansatz.log_amplitude(theta, configs)
    return {
        "configs": configs, "phase": to_host(found.phase), "log_abs": to_host(found.log_abs)
    }  # fmt: skip


def compare(path: Path, probe: Any, ansatz: Ansatz, theta: Any) -> None:
    """Raise StateFileError where parameters mean another psi now, but for a constant factor.

    `probe` is what an open file holds of `probe_of`.
    """
    found = ansatz.log_amplitude(theta, probe["configs"][()])
    old, new = probe["log_abs"][()], to_host(found.log_abs)
    before, after = probe["phase"][()], to_host(found.phase)
    seen = np.isfinite(old)
    same = bool((seen == np.isfinite(new)).all())
    if same and seen.any():
        old, new, before, after = old[seen], new[seen], before[seen], after[seen]
        scale = _SAME * (1 + np.abs(old).max())
        turned = after / before
        same = bool(np.ptp(new - old) <= scale and np.abs(turned - turned[0]).max() <= _SAME)
    if not same:
        raise StateFileError(
            f"{path}: this {type(ansatz).__name__} gives another psi with these parameters than "
            "the one that was saved: its code, signs, symmetries or inputs differ"
        )


class InFiles(Ansatz):
    """Base of wave functions whose parameters go to files and come back."""

    def save(self, path: str | Path, theta: Any, *, overwrite: bool = False) -> None:
        """Write parameters (P,) to an HDF5 file that `load_theta` and ansatz.init read.

        The file is written whole or not at all.  `tnvmc.load_state` makes the wave functions of
        this package again from it.  Ln psi of a few configurations is kept too, so that code which
        changes is noticed.

        Raises:
            StateFileError: the file exists and `overwrite` is not set.
            ValueError: another number of parameters, or some that are not finite.
            OSError: no space, no permission, no such folder.
        """
        host = to_host(theta)
        if host.shape != (self.n_params,):
            raise ValueError(
                f"save: theta has shape {host.shape}, the {type(self).__name__} has "
                f"{self.n_params} parameters"
            )
        if not np.isfinite(host).all():
            raise ValueError("save: theta holds numbers that are not finite")
        rebuild = self.rebuild()
        more = {} if rebuild is None else {REBUILD: plain(rebuild)}
        write_state(path, self, host, more, {"probe": probe_of(self, host)}, overwrite)

    def load_theta(self, path: str | Path) -> np.ndarray:
        """Read parameters (P,), on the host, that `save` wrote of the same wave function.

        Raises:
            StateFileError: no such file; damaged; of another kind, lattice or number of parameters;
                of a wave function that gives another psi with them.
        """
        path = as_path("load_theta", path)
        with opened(path) as file:
            stored, theta = parameters_in(file)
            wanted = _identity(self)
            differing = differences({key: stored.get(key) for key in wanted}, wanted)
            if differing:
                raise StateFileError(f"{path}: holds another state: {', '.join(differing)}")
            if "probe" in file:
                compare(path, file["probe"], self, theta)
        return theta
