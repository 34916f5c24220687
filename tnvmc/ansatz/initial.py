"""Where the parameters of any wave function start: as it starts itself, or in the file of a run."""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.ansatz.files import lattice_in
from tnvmc.ansatz.peps.fermions import fermions_in
from tnvmc.ansatz.peps.sharing import Sharing, sharing_in
from tnvmc.ansatz.peps.starts.initial import AUTO, KINDS
from tnvmc.ansatz.peps.starts.other_sizes import from_other, lacks_bulk_of
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.protocol import Ansatz, require_ansatz
from tnvmc.ansatz.wrappers.symmetrised import inner_description, inner_state
from tnvmc.backend.namespace import array_namespace, to_namespace
from tnvmc.lattice.embedding import embedding
from tnvmc.lattice.lattice import Lattice
from tnvmc.operators.term import Operator, require_operator
from tnvmc.storage.hdf5 import StateFileError, opened, read_parameters
from tnvmc.storage.identity import differences, kind_in, plain
from tnvmc.storage.run_folder import CHECKPOINT

Array = Any
Described = Mapping[str, Any]

WITH_NOISE, START_NOISE = "short_update with noise", 0.1
"""A start that is tried, and its noise: without it a state keeps an exchange parity that it begins
with for twenty steps and more (triangles in a row, 24 sites)."""

_APART = 1  # sets these random numbers apart from those of a random start, which has the seed alone

_TREATMENT = ("marshall", "average", "magnetisation", "init_scale")
"""Of a network, without influence on what its parameters mean: may differ in the file."""


def initial_parameters(
    ansatz: Ansatz, operator: Operator, seed: int = 0, kind: str | None = None
) -> Array:
    """Make parameters theta (P,) to start from, on the host.

    Args:
        kind: one of the `starts` of the state: "simple_update" and, stopped early, "short_update"
            (PEPS and open MPS), "random" (positive for a PEPS), "product" (the ordered product
            state of lowest energy, with a little noise on a PEPS); or the path of a run or a
            checkpoint of the same kind of state on the same lattice, grown or cut where its D is
            another, or of a network of the same architecture.  None or "auto": the first of the
            `starts`.

    Raises:
        ValueError: a start that this wave function does not have.
        StateFileError: a damaged checkpoint, or one of another kind of state.
    """
    require_operator("initial_parameters", "operator", operator)
    require_ansatz("initial_parameters", "ansatz", ansatz)
    kind = None if kind == AUTO else kind
    if kind is None or kind in KINDS:
        return ansatz.initial(operator, seed, kind)
    close = get_close_matches(str(kind), KINDS, 1, 0.7)
    if close and not Path(kind).exists():
        raise StateFileError(f"{kind}: no such file; did you mean {close[0]!r}?")
    return _from_file(inner_state(ansatz), Path(kind), seed)


def starts_to_try(ansatz: Ansatz, operator: Operator, seed: int, first: Array) -> dict[str, Array]:
    """Give theta (P,) of the starts of a PEPS by name, `first` at first.

    Those are simple update, and the short one with `init_noise` = `START_NOISE`; random tensors and
    a product state take more steps than a trial has.  Of shared tensors all, with noise of their
    own.  Nothing of any state but a PEPS.
    """
    if type(inner_state(ansatz)) is not PEPS:
        return {}
    kinds, xp = ansatz.starts, array_namespace(first)
    if kinds[0] == "simple_update":
        short = initial_parameters(ansatz, operator, seed, "short_update")
        others = {WITH_NOISE: noise_on_all(short, START_NOISE, seed)}
    else:
        others = {kind: initial_parameters(ansatz, operator, seed, kind) for kind in kinds[1:]}
    return {kinds[0]: first} | {name: to_namespace(x, xp) for name, x in others.items()}


def noise_on_all(theta: np.ndarray, noise: float, seed: int) -> np.ndarray:
    """Put normal noise on theta (P,), relative to the root mean square of its entries."""
    rng = np.random.Generator(np.random.PCG64([seed, _APART]))
    deviates: Array = rng.normal(size=theta.shape)
    if theta.dtype.kind == "c":
        deviates = (deviates + 1j * rng.normal(size=theta.shape)) / np.sqrt(2)
    scale = noise * np.sqrt(np.mean(np.abs(theta) ** 2))
    noisy: np.ndarray = theta + (scale * deviates).astype(theta.dtype)
    return noisy


def start_described(kind: str) -> Mapping[str, Any] | None:
    """Give what the file of a run or a checkpoint says of its state; None if no file is read."""
    path = Path(kind)
    if kind in KINDS or not path.exists():
        return None
    try:
        described, _ = read_parameters(_file(path))
    except StateFileError:  # reported when the parameters are made
        return None
    return inner_description(described)


def sharing_of_start(kind: str, D: int) -> Sharing | None:
    """Give how a state of D shares its tensors that begins as the one of a run or a checkpoint.

    None if that one shares none or is larger, as a cut leaves none; and if no file is read.
    """
    described = start_described(kind)
    if described is None or (described.get("D") or 0) > D:
        return None
    return sharing_in(described)


def _file(path: Path) -> Path:
    return path / CHECKPOINT if path.is_dir() else path


def _from_file(ansatz: Ansatz, path: Path, seed: int) -> Array:
    """Read parameters; those of another PEPS are cut, grown or repeated where they do not fit."""
    described, theta = read_parameters(_file(path))
    described = inner_description(described)
    try:
        if isinstance(ansatz, PEPS):
            with opened(_file(path)) as file:
                stored = lattice_in(described["lattice"], file)
            found = _of_peps(ansatz, stored, described, theta, seed)
        else:
            found = _of_same_size(ansatz, described, theta)
    except ValueError as error:
        raise StateFileError(f"ansatz.init = '{path}': {error}") from None
    return found


def _of_peps(
    ansatz: PEPS, lattice: Lattice, described: Described, theta: Array, seed: int
) -> Array:
    """Parameters of a PEPS out of those of the PEPS on `lattice` that a file describes."""
    sharing = sharing_in(described)
    _check_real(ansatz, theta)
    if not lacks_bulk_of(ansatz, sharing):
        _check_kind(ansatz, described)
        _check_embedding(ansatz, lattice, described)
        if _same_size(ansatz, described):
            return theta.astype(ansatz.dtype)
        lattice = ansatz.lattice
    elif (lattice.kind, described["local_dim"]) != (ansatz.lattice.kind, ansatz.local_dim):
        raise ValueError(
            f"it is on a {lattice.kind} lattice with local dimension {described['local_dim']}, "
            f"wanted is a {ansatz.lattice.kind} lattice with {ansatz.local_dim}"
        )
    before = PEPS(
        lattice, described["D"], theta.dtype.name, local_dim=ansatz.local_dim,
        bonds=described.get("bonds", "open"), sharing=sharing, fermions=ansatz.fermions,
    )  # fmt: skip
    found: Array = from_other(before, theta, ansatz, seed).astype(ansatz.dtype)
    return found


def _of_same_size(ansatz: Ansatz, described: Described, theta: Array) -> Array:
    """Parameters of any other state, which must be those of the same one."""
    _check_kind(ansatz, described)
    about = ansatz.description()
    stored, wanted = (
        {k: v for k, v in (each.get("architecture") or {}).items() if k not in _TREATMENT}
        for each in (described, about)
    )
    differing = differences(stored, wanted) if "architecture" in about else ()
    if differing:
        raise ValueError(f"it holds a network of another architecture: {', '.join(differing)}")
    _check_real(ansatz, theta)
    if not _same_size(ansatz, described):
        D, n_params = described.get("D"), described["n_parameters"]
        raise ValueError(
            f"it has D = {D}, which cannot be turned into D = {about.get('D')}; only a PEPS or an "
            "open MPS is grown or cut"
            if D
            else f"it has {n_params} parameters, this state {ansatz.n_params}: was it written by "
            "another version of tnvmc? Start anew"
        )
    return theta if ansatz.dtype is None else theta.astype(np.dtype(ansatz.dtype))


def _same_size(ansatz: Ansatz, described: Described) -> bool:
    about = ansatz.description()
    keys = (("D", None), ("bonds", "open"), ("sharing", None))
    same = all(described.get(key, none) == plain(about.get(key, none)) for key, none in keys)
    return same and described["n_parameters"] == ansatz.n_params


def _check_kind(ansatz: Ansatz, described: Described) -> None:
    shape = [int(length) for length in ansatz.lattice.shape]
    found = (kind_in(described), described["lattice"][1:3], described["local_dim"])
    wanted = (kind_in(ansatz.description()), shape, ansatz.local_dim)
    if found == wanted:
        return
    edge = (described.get("sharing") or {}).get("edge")
    bulk = f"; it has ansatz.edge = {edge}: set the same or a larger one to go on elsewhere"
    raise ValueError(
        f"it holds a {found[0]} on {found[1]} with local dimension {found[2]}, wanted is a "
        f"{wanted[0]} on {wanted[1]} with {wanted[2]}{bulk if edge else ''}"
    )


def _check_real(ansatz: Ansatz, theta: Array) -> None:
    dtype = theta.dtype if ansatz.dtype is None else np.dtype(ansatz.dtype)
    if theta.dtype.kind == "c" and dtype.kind != "c":
        raise ValueError(
            f"it is {theta.dtype}, a real state cannot hold it; take ansatz.dtype = 'complex128'"
        )


def _check_embedding(ansatz: PEPS, lattice: Lattice, described: Described) -> None:
    """Raise ValueError if tensors of a PEPS in a file have bonds at other places."""
    bonds = described.get("bonds", "open")
    if fermions_in(described) != ansatz.fermions:
        raise ValueError("it is of other particles (fermions, or spins); begin with another start")
    if bonds != ansatz.bonds and (bonds, ansatz.bonds) != ("open", "periodic"):
        raise ValueError(
            f"it has {bonds} bonds, which one of {ansatz.bonds} bonds cannot hold; "
            + (f"take ansatz.bonds = '{bonds}'" if ansatz.bonds == "open" else "take another start")
        )
    found, wanted = (embedding(each, bonds) for each in (lattice, ansatz.lattice))
    if found != wanted:
        raise ValueError(
            f"its {lattice.kind} lattice has {len(found.places)} sites and {len(found.bonds)} "
            f"bonds of D on the grid, the {ansatz.lattice.kind} lattice here has "
            f"{len(wanted.places)} and {len(wanted.bonds)}, or they lie at other places; a state "
            "can only begin from one whose tensors are joined in the same way"
        )
