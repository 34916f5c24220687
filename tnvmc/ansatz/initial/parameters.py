"""Where the parameters start: simple update, random numbers, a product state, a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.ansatz.files import lattice_in
from tnvmc.ansatz.initial.evolution import NOISE, evolved_from_product, noisy
from tnvmc.ansatz.initial.repeated import shared_as
from tnvmc.ansatz.initial.settled import cut
from tnvmc.ansatz.initial.shared_starts import with_noise
from tnvmc.ansatz.initial.simple_update import SimpleUpdateInfo, evolved
from tnvmc.ansatz.initial.tensors import grow
from tnvmc.ansatz.peps.files import sharing_in
from tnvmc.ansatz.peps.sharing import Sharing
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.protocol import Ansatz, real_state, require_ansatz
from tnvmc.ansatz.wrappers.symmetrised import inner_description, inner_state
from tnvmc.backend.calls import spelt
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.lattice.embedding import embedding
from tnvmc.operators.required import require_operator
from tnvmc.operators.term import Operator
from tnvmc.storage.hdf5 import StateFileError, opened, read_parameters
from tnvmc.storage.identity import differences, kind_in, plain
from tnvmc.storage.run_folder import CHECKPOINT

Array = Any

KINDS = ("simple_update", "random", "product")


@spelt()
def initial_parameters(
    ansatz: Ansatz, operator: Operator, seed: int = 0, kind: str | None = None
) -> Array:
    """Make parameters (P,) to start from.

    Args:
        ansatz: the wave function.
        operator: the Hamiltonian.
        seed: of random numbers.
        kind: one of the `starts` of the state: "simple_update" (PEPS and open MPS), "random"
            (positive for a PEPS), "product" (the ordered product state of lowest energy, with a
            little noise on a PEPS); or the path of a run or a checkpoint of the same kind of state
            on the same lattice, grown or cut where its D is another, or of a network of the same
            architecture.  None: the first of the `starts`.

    Returns:
        theta (P,), on the host.

    Raises:
        ValueError: a start that this wave function does not have.
        StateFileError: a damaged checkpoint, or one of another kind of state.
    """
    require_operator("initial_parameters", "operator", operator)
    require_ansatz("initial_parameters", "ansatz", ansatz)
    close = get_close_matches(str(kind), KINDS, 1, 0.7)
    if kind is not None and kind not in KINDS and close and not Path(kind).exists():
        raise StateFileError(f"{kind}: no such file; did you mean {close[0]!r}?")
    if kind is not None and kind not in KINDS:
        return _from_checkpoint(ansatz, Path(kind), seed)
    return ansatz.initial(operator, seed, kind)


def from_simple_update(
    ansatz: PEPS, operator: Operator, seed: int = 0, max_steps: int = 200
) -> tuple[Array, SimpleUpdateInfo]:
    """Give parameters (P,) after at most `max_steps` of each time step, and how it went."""
    if operator.is_complex and ansatz.dtype.kind != "c":
        raise real_state(operator, f"dtype = '{ansatz.dtype.name}'")
    here = replace(operator, lattice=ansatz.lattice)
    tensors, info = evolved_from_product(here, ansatz.D, seed, max_steps, ansatz.bonds)
    return ansatz.flatten(tensors), info


def grown(
    tensors: Sequence[Array],
    large: PEPS,
    operator: Operator,
    *,
    evolve: int = 0,
    noise: float = NOISE,
    seed: int = 0,
) -> Array:
    """Give the state of `tensors` as parameters (P,) of `large`.

    New bonds are opened by `evolve` steps of simple update.  Entries that are still zero, all new
    ones without any step, get noise of this deviation relative to the tensor's largest entry.

    Args:
        tensors: (d, up, left, down, right) of each site, as of `PEPS.tensors`.
        large: the PEPS of the larger D.
        operator: the Hamiltonian of simple update.
        evolve: steps of simple update; 0 for none.
        noise: on entries that are zero.
        seed: of the noise.

    Raises:
        ValueError: `large` has the smaller D; simple update of tensors that are shared.
    """
    xp = array_namespace(tensors[0])
    tensors = [to_host(tensor) for tensor in tensors]
    if large.shared:
        return to_namespace(_grown_shared(tensors, large, evolve, noise, seed), xp)
    if evolve:
        rng = np.random.Generator(np.random.PCG64(seed))
        here = replace(operator, lattice=large.lattice)
        wide = evolved(here, tensors, large.D, evolve, bonds=large.bonds)
        wide = [noisy(tensor, rng, noise) for tensor in wide]
    else:
        wide = grow(tensors, large.embedding, large.D, noise, seed, per_entry=True)
    return to_namespace(large.flatten(wide), xp)


def _grown_shared(
    tensors: Sequence[Array], large: PEPS, evolve: int, noise: float, seed: int
) -> Array:
    """The same of a PEPS that shares tensors, and so the noise."""
    if evolve:
        raise ValueError(
            "grown: tensors that are shared cannot be evolved by simple update, after which they would be so no "
            "longer; take evolve = 0, which opens bonds by noise"
        )
    assert large.shared is not None
    theta = large.flatten(grow(tensors, large.embedding, large.D, noise=0))
    return with_noise(large.shared, theta, noise, seed)


def cut_to(tensors: Sequence[Array], small: PEPS, seed: int = 0) -> tuple[Array, float]:
    """Give the state of `tensors` as parameters (P,) of a PEPS of smaller D, and the largest weight that a bond lost.

    Entries that are zero after the cut, of bonds that need less than D, get the noise of a start.

    Args:
        tensors: (d, up, left, down, right) of each site, as of `PEPS.tensors`.
        small: the PEPS of the smaller D, on the same bonds.
        seed: of the noise.

    Raises:
        ValueError: `small` shares tensors: on every bond a cut chooses a basis of its own, so those that were equal are so no
            longer.
    """
    if small.shared:
        raise ValueError(
            "cut: tensors that are shared would be so no longer; make the smaller state without sharing"
        )
    xp, rng = array_namespace(tensors[0]), np.random.Generator(np.random.PCG64(seed))
    kept, lost = cut([to_host(tensor) for tensor in tensors], small.embedding, small.D)
    return to_namespace(small.flatten([noisy(tensor, rng) for tensor in kept]), xp), lost


_TREATMENT = ("marshall", "average", "magnetisation", "init_scale")
"""Of a network, without influence on what its parameters mean: may differ from where they come from."""


def _shaping(architecture: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in architecture.items() if key not in _TREATMENT}


def _from_checkpoint(ansatz: Ansatz, path: Path, seed: int) -> Array:
    """Read parameters; those of a PEPS of another D are cut, or grown with noise on the new bonds."""
    described, theta = read_parameters(path / CHECKPOINT if path.is_dir() else path)
    ansatz, described = inner_state(ansatz), inner_description(described)
    about = ansatz.description()
    dtype = theta.dtype if ansatz.dtype is None else np.dtype(ansatz.dtype)
    shape = [int(length) for length in ansatz.lattice.shape]
    if isinstance(ansatz, PEPS) and _has_edge(described, ansatz):
        return _from_bulk(ansatz, path, described, theta, seed)
    found = (kind_in(described), described["lattice"][1:3], described["local_dim"])
    wanted = (kind_in(about), shape, ansatz.local_dim)
    if found != wanted:
        edge = (described.get("sharing") or {}).get("edge")
        bulk = (
            f"; it has ansatz.edge = {edge}: set the same or a larger one to go on elsewhere"
            if edge
            else ""
        )
        raise StateFileError(
            f"ansatz.init = '{path}': it holds a {found[0]} on {found[1]} with local dimension "
            f"{found[2]}, wanted is a {wanted[0]} on {wanted[1]} with {wanted[2]}{bulk}"
        )
    if "architecture" in about:
        stored = described.get("architecture") or {}
        differing = differences(_shaping(stored), _shaping(about["architecture"]))
        if differing:
            raise StateFileError(
                f"ansatz.init = '{path}': it holds a network of another architecture: "
                f"{', '.join(differing)}"
            )
    if theta.dtype.kind == "c" and dtype.kind != "c":
        raise StateFileError(
            f"ansatz.init = '{path}': it is {theta.dtype}, a real state cannot hold it; take "
            "ansatz.dtype = 'complex128'"
        )
    bonds = described.get("bonds", "open")
    if isinstance(ansatz, PEPS):
        _check_embedding(ansatz, path, described)
    same_size = described["n_parameters"] == ansatz.n_params
    same_bonds = bonds == about.get("bonds", "open")
    same_bonds &= described.get("sharing") == plain(about.get("sharing"))
    if same_size and same_bonds and described.get("D") == about.get("D"):
        return theta.astype(dtype)
    if not isinstance(ansatz, PEPS):
        raise StateFileError(
            f"ansatz.init = '{path}': it has D = {described['D']}, which cannot be turned into "
            f"D = {about.get('D')}; only a PEPS or an open MPS is grown or cut"
        )
    before = PEPS(
        ansatz.lattice, described["D"], theta.dtype.name, local_dim=ansatz.local_dim, bonds=bonds,
        sharing=sharing_in(described),
    )  # fmt: skip
    try:
        return _resized(before, theta, ansatz, seed)
    except ValueError as error:
        raise StateFileError(f"ansatz.init = '{path}': {error}") from None


def _has_edge(described: Mapping[str, Any], ansatz: PEPS) -> bool:
    """Whether a state shares tensors with an edge, and differs from the one wanted in the lattice or in what is shared."""
    stored = described.get("sharing")
    if not stored or stored.get("edge") is None or not ansatz.shared:
        return False
    return bool(stored != plain(ansatz.shared.sharing.told()))


def _from_bulk(
    ansatz: PEPS, path: Path, described: Mapping[str, Any], theta: Array, seed: int
) -> Array:
    """Repeat the tensors of a state with an edge on the lattice wanted, and grow them where D is larger."""
    with opened(path / CHECKPOINT if path.is_dir() else path) as file:
        stored = lattice_in(described["lattice"], file)
    D, local_dim, bonds = described["D"], described["local_dim"], described.get("bonds", "open")
    try:
        if (stored.kind, local_dim) != (ansatz.lattice.kind, ansatz.local_dim):
            raise ValueError(
                f"it is on a {stored.kind} lattice with local dimension {local_dim}, wanted is a {ansatz.lattice.kind} "
                f"lattice with {ansatz.local_dim}"
            )
        dtype = theta.dtype.name
        before = PEPS(
            stored, D, dtype, local_dim=local_dim, bonds=bonds, sharing=sharing_in(described)
        )
        here, found = shared_as(before, theta, ansatz)
        found = _resized(here, found, ansatz, seed) if ansatz.D != D else found
    except ValueError as error:
        raise StateFileError(f"ansatz.init = '{path}': {error}") from None
    if found.dtype.kind == "c" and ansatz.dtype.kind != "c":
        raise StateFileError(
            f"ansatz.init = '{path}': it is {found.dtype}, a real state cannot hold it; take ansatz.dtype = 'complex128'"
        )
    return found.astype(ansatz.dtype)


def _resized(before: PEPS, theta: Array, ansatz: PEPS, seed: int) -> Array:
    """Parameters (P,) of `ansatz` of the state of another PEPS: cut, grown with noise, on other bonds or without sharing."""
    tensors, smaller = before.tensors(theta), before.D > ansatz.D
    if ansatz.shared:
        if smaller:
            raise ValueError("a state that shares tensors is not cut; take ansatz.sharing = false")
        try:
            return _grown_shared(tensors, ansatz, 0, NOISE, seed)
        except ValueError as error:
            needs = "a state that shares tensors begins from one that shares them by the same symmetries"
            raise ValueError(f"{error}; {needs}") from None
    if smaller and before.bonds == ansatz.bonds:
        return cut_to(tensors, ansatz, seed)[0]
    if smaller:  # of open bonds, for rings
        rows = PEPS(ansatz.lattice, ansatz.D, theta.dtype.name, local_dim=ansatz.local_dim)
        tensors = rows.tensors(cut_to(tensors, rows, seed)[0])
    return ansatz.flatten(grow(tensors, ansatz.embedding, ansatz.D, seed=seed))


def start_described(kind: str) -> Mapping[str, Any] | None:
    """What the file of a run or a checkpoint says of its state; None of another start, or where no file is read."""
    path = Path(kind)
    if kind in KINDS or not path.exists():
        return None
    try:
        described, _ = read_parameters(path / CHECKPOINT if path.is_dir() else path)
    except StateFileError:  # told when the parameters are made
        return None
    return inner_description(described)


def sharing_of_start(kind: str, D: int) -> Sharing | None:
    """Give what a state of D shares its tensors by that begins as the one of a run or a checkpoint.

    None where that one shares none or is larger, as a cut leaves none; and where no file is read.
    """
    described = start_described(kind)
    if described is None or (described.get("D") or 0) > D:
        return None
    return sharing_in(described)


def _check_embedding(ansatz: PEPS, path: Path, described: Mapping[str, Any]) -> None:
    """Raise StateFileError where tensors of a PEPS in a file have bonds at other places.

    Lattices of another name may lie on the grid in the same way, as square and triangular ones do.
    """
    bonds = described.get("bonds", "open")
    if (bonds, ansatz.bonds) == ("periodic", "open"):
        raise StateFileError(
            f"ansatz.init = '{path}': it has periodic bonds, which an open state cannot hold; take "
            "ansatz.bonds = 'periodic'"
        )
    with opened(path / CHECKPOINT if path.is_dir() else path) as file:
        stored = lattice_in(described["lattice"], file)
    found, wanted = (embedding(lattice, bonds) for lattice in (stored, ansatz.lattice))
    if found != wanted:
        raise StateFileError(
            f"ansatz.init = '{path}': its {stored.kind} lattice has {len(found.places)} sites and "
            f"{len(found.bonds)} bonds of D on the grid, the {ansatz.lattice.kind} lattice here has "
            f"{len(wanted.places)} and {len(wanted.bonds)}, or they lie at other places; a state can only "
            "begin from one whose tensors are joined in the same way"
        )
