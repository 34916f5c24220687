"""A state goes to a file and comes back: its tensors, lattice and scheme; other files are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.oracles import all_configs, dense_state
from tests.run_files import hdf5_of
from tnvmc import PEPS, SRC, heisenberg, load_state
from tnvmc.ansatz.files import scheme_of
from tnvmc.ansatz.initial import initial_parameters
from tnvmc.ansatz.peps.starts.tensors import grow, random_positive
from tnvmc.contraction.schemes import Exact, ZipUp
from tnvmc.lattice import Lattice, chain, from_bonds, honeycomb, kagome, shastry_sutherland, square
from tnvmc.storage.hdf5 import FORMAT_VERSION, StateFileError, read_parameters

ROUNDING = 1e-12


def state(lattice: Lattice, D: int = 2, dtype: str = "float64", **options):
    peps = PEPS(lattice, D, dtype, **options)
    rng = np.random.default_rng(0)
    theta = rng.normal(size=peps.n_params) + 1j * rng.normal(size=peps.n_params)
    return peps, (theta if dtype.startswith("c") else theta.real).astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
@pytest.mark.parametrize("scheme", [SRC(5, seed=3), SRC(5, sketch="random"), ZipUp(4), Exact()])
def test_what_is_saved_comes_back_to_the_last_bit(tmp_path: Path, dtype, scheme) -> None:
    peps, theta = state(square(3, 2, "cylinder"), 3, dtype, scheme=scheme)
    peps.save(tmp_path / "state.h5", theta)
    found, back = load_state(tmp_path / "state.h5")
    assert (found.D, found.dtype, found.local_dim) == (3, np.dtype(dtype), 2)
    assert found.lattice == peps.lattice
    assert found.scheme == scheme
    assert back.dtype == theta.dtype
    assert back.tobytes() == theta.tobytes()


def test_a_scheme_that_is_not_known_is_refused() -> None:
    assert scheme_of({"name": "SRC", "chi": 4, "seed": 0}) == SRC(4) and scheme_of(None) is None
    with pytest.raises(StateFileError, match="this version has not"):
        scheme_of({"name": "Fixed", "chi": 4})


@pytest.mark.parametrize(
    "lattice",
    [
        chain(5, "periodic"),
        shastry_sutherland(4, 4, "periodic"),
        from_bonds((2, 3), {"nearest": [(0, 1), (5, 1)], "far": [(0, 5)]}, np.eye(6, 2)),
        from_bonds((2, 3), [(1, 0)]),
        kagome(3, 4),
        honeycomb(3, 4, "cylinder"),
        from_bonds((2, 3), [(0, 1), (2, 3), (0, 2), (1, 4), (3, 4)], vacant=[4]),
    ],
)
def test_every_kind_of_lattice_comes_back(tmp_path: Path, lattice: Lattice) -> None:
    peps, theta = state(lattice, local_dim=3)
    peps.save(tmp_path / "state.h5", theta)
    found, _ = load_state(tmp_path / "state.h5")
    assert found.lattice == lattice
    assert found.lattice.kind == lattice.kind
    assert found.lattice.directed("nearest") == lattice.directed("nearest")
    assert found.local_dim == 3


def test_a_saved_state_grows_into_the_start_of_a_run(tmp_path: Path) -> None:
    lattice = square(2, 3)
    small = PEPS(lattice, 2)
    theta = small.flatten(random_positive(lattice, 2, seed=1))
    small.save(tmp_path / "state.h5", theta)
    described, read = read_parameters(tmp_path / "state.h5")
    assert (described["D"], described["n_parameters"]) == (2, small.n_params)
    assert np.array_equal(read, theta)
    large = PEPS(lattice, 3)
    grown = initial_parameters(large, heisenberg(lattice), 4, str(tmp_path / "state.h5"))
    assert np.array_equal(
        grown, large.flatten(grow(small.tensors(theta), large.embedding, 3, seed=4))
    )
    large.save(tmp_path / "large.h5", grown)
    found, back = load_state(tmp_path / "large.h5")
    assert found.D == 3
    configs = all_configs(6)
    assert np.array_equal(
        dense_state(found.tensors(back), (2, 3), configs),
        dense_state(large.tensors(grown), (2, 3), configs),
    )


def test_a_file_is_replaced_only_when_asked(tmp_path: Path) -> None:
    peps, theta = state(square(2, 2))
    path = tmp_path / "state.h5"
    peps.save(path, theta)
    with pytest.raises(StateFileError, match="exists.*overwrite=True"):
        peps.save(path, 2 * theta)
    assert np.array_equal(load_state(path)[1], theta)
    peps.save(path, 2 * theta, overwrite=True)
    assert np.array_equal(load_state(path)[1], 2 * theta)
    with pytest.raises(ValueError, match="another D or lattice"):
        peps.save(path, theta[1:], overwrite=True)
    assert np.array_equal(load_state(path)[1], 2 * theta)
    assert [file.name for file in tmp_path.iterdir()] == ["state.h5"]


def test_files_that_are_refused(tmp_path: Path) -> None:
    peps, theta = state(square(2, 2))
    path = tmp_path / "state.h5"
    with pytest.raises(StateFileError, match="no such file"):
        load_state(path)
    path.write_bytes(b"not HDF5")
    with pytest.raises(StateFileError, match="no HDF5 file"):
        load_state(path)
    peps.save(path, theta, overwrite=True)
    content = path.read_bytes()
    at = content.index(theta.tobytes()[:64])
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    with pytest.raises(StateFileError, match="damaged"):
        load_state(path)
    path.write_bytes(content)
    with hdf5_of(path) as file:
        file.attrs["format_version"] = FORMAT_VERSION + 1
    with pytest.raises(StateFileError, match="is newer than .* update tnvmc"):
        load_state(path)
    with hdf5_of(path) as file:
        file.attrs["format"] = "quimb"
    with pytest.raises(StateFileError, match="another program"):
        load_state(path)


def test_other_states_are_refused(tmp_path: Path) -> None:
    peps, theta = state(square(2, 2))
    path = tmp_path / "state.h5"
    for old, new, complaint in (
        ('"PEPS"', '"ProductState"', "of a ProductState"),
        ('"D": 2', '"D": 3', "32 parameters, but D=3"),
        ('"square"', '"square', "damaged"),
    ):
        peps.save(path, theta, overwrite=True)
        with hdf5_of(path) as file:
            file.attrs["identity"] = file.attrs["identity"].replace(old, new)
        with pytest.raises(StateFileError, match=complaint):
            load_state(path)


def test_quimb_has_the_same_amplitudes() -> None:
    pytest.importorskip("quimb.tensor")
    peps, theta = state(square(2, 3), dtype="complex128")
    dense = peps.to_quimb(theta).to_dense([f"k{r},{c}" for r in range(2) for c in range(3)]).ravel()
    psi = dense_state(peps.tensors(theta), (2, 3), all_configs(6))
    assert np.allclose(dense, psi, atol=ROUNDING * np.abs(psi).max())


@pytest.mark.parametrize("given", [None, SRC(8)])
def test_whether_the_scheme_was_chosen_is_kept(tmp_path: Path, given: SRC | None) -> None:
    peps = PEPS(square(2, 2), 4, scheme=given)
    peps.save(tmp_path / "state.h5", peps.initial(heisenberg(peps.lattice), 0, "random"))
    loaded = load_state(tmp_path / "state.h5")[0]
    assert (loaded.scheme, loaded.scheme_given) == (SRC(8), given is not None)
