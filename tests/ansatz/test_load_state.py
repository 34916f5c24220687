"""States without a tensor network in files: saved, made again, and refused where psi is another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tnvmc import (
    PEPS,
    SRC,
    VMC,
    Enumerate,
    GenericAnsatz,
    LogAmplitude,
    PeriodicMPS,
    ProductState,
    Sampler,
    chain,
    from_bonds,
    heisenberg,
    initial_parameters,
    load_state,
    square,
)
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.storage.hdf5 import StateFileError

GRAPH = from_bonds((2, 2), [(0, 1), (1, 2), (2, 3)], [(0, 0), (0, 2), (1, 0), (1, 2)])
STATES: dict[str, GenericAnsatz] = {
    "ring": PeriodicMPS(chain(4, "periodic"), 3, "complex128"),
    "spin 1": PeriodicMPS(chain(4), 2, local_dim=3),
    "product": ProductState(GRAPH, dtype="complex128"),
}


class Jastrow(GenericAnsatz):
    """An ansatz of one's own."""

    factor = 1.0

    def random(self, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).normal(size=self.lattice.n_sites)

    def log_amplitude(self, theta: Any, configs: Any) -> LogAmplitude:
        logs = self.factor * ((1.0 - 2.0 * configs) @ theta)
        return LogAmplitude(np.ones(len(configs)), logs)


def amplitudes(ansatz: Ansatz, theta: Any) -> np.ndarray:
    configs = np.random.default_rng(1).integers(0, ansatz.local_dim, (6, ansatz.lattice.n_sites))
    found = ansatz.log_amplitude(theta, configs.astype(np.int8))
    return np.asarray(found.phase * np.exp(found.log_abs))


@pytest.mark.parametrize("name", STATES)
def test_what_is_saved_is_made_again(tmp_path: Path, name: str) -> None:
    state = STATES[name]
    theta = state.random(3)
    state.save(tmp_path / "state.h5", theta)
    again, found = load_state(tmp_path / "state.h5")
    assert type(again) is type(state)
    assert again.lattice == state.lattice
    assert found.dtype == theta.dtype
    assert np.array_equal(found, theta)
    assert np.array_equal(amplitudes(again, found), amplitudes(state, theta))
    assert np.array_equal(state.load_theta(tmp_path / "state.h5"), theta)


def test_a_peps_comes_back_too(tmp_path: Path) -> None:
    peps = PEPS(square(2, 2), 2)
    theta = np.arange(1.0, peps.n_params + 1)
    peps.save(tmp_path / "state.h5", theta)
    again, found = load_state(tmp_path / "state.h5")
    assert isinstance(again, PEPS)
    assert np.array_equal(found, theta)


def test_a_saved_state_begins_a_run(tmp_path: Path) -> None:
    operator = heisenberg(square(2, 2))
    state = ProductState(operator.lattice)
    theta = state.random(0)
    state.save(tmp_path / "state.h5", theta)
    assert np.array_equal(
        initial_parameters(state, operator, kind=str(tmp_path / "state.h5")), theta
    )


def test_parameters_of_ones_own_ansatz_are_read_by_it_alone(tmp_path: Path) -> None:
    path, state = tmp_path / "state.h5", Jastrow(square(2, 2))
    theta = state.random(1)
    state.save(path, theta)
    assert np.array_equal(Jastrow(square(2, 2)).load_theta(path), theta)
    with pytest.raises(StateFileError, match="load_theta"):
        load_state(path)
    with pytest.raises(StateFileError, match="exists"):
        state.save(path, theta)
    state.save(path, 2 * theta, overwrite=True)
    assert np.array_equal(state.load_theta(path), 2 * theta)
    with pytest.raises(ValueError, match="3 parameters|has shape"):
        state.save(tmp_path / "other.h5", theta[1:])
    with pytest.raises(ValueError, match="not finite"):
        state.save(tmp_path / "other.h5", np.nan * theta)
    assert not (tmp_path / "other.h5").exists()


def test_a_file_of_another_psi_is_refused(tmp_path: Path) -> None:
    path, state = tmp_path / "state.h5", Jastrow(square(2, 2))
    state.save(path, state.random(1))
    changed = Jastrow(square(2, 2))
    changed.factor = 1.5
    with pytest.raises(StateFileError, match="another psi"):
        changed.load_theta(path)
    with pytest.raises(StateFileError, match="lattice"):
        Jastrow(square(1, 4)).load_theta(path)
    with pytest.raises(StateFileError, match="ansatz Jastrow"):
        ProductState(square(2, 2)).load_theta(path)
    path.write_bytes(path.read_bytes()[:-40] + b"x" + path.read_bytes()[-39:])
    with pytest.raises(StateFileError, match="damaged|checksum"):
        state.load_theta(path)


def test_settings_of_another_version_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, state = tmp_path / "state.h5", STATES["ring"]
    monkeypatch.setattr(PeriodicMPS, "rebuild", lambda self: {"D": 3, "gauge": "left"})
    state.save(path, state.random(1))
    with pytest.raises(StateFileError, match="gauge"):
        load_state(path)


def test_a_checkpoint_gives_its_parameters(tmp_path: Path) -> None:
    operator = heisenberg(square(2, 2))
    vmc = VMC(operator, Jastrow(operator.lattice), Enumerate(threads=1), learning_rate=0.1)
    vmc.run(1)
    vmc.save(tmp_path / "c.h5")
    found = Jastrow(operator.lattice).load_theta(tmp_path / "c.h5")
    assert np.array_equal(found, vmc.theta)


NETWORKS: dict[str, dict[str, Any]] = {
    "rbm": {"alpha": 2, "dtype": "complex128"},
    "cnn": {"features": (3,), "kernel": 2},
    "rnn": {"hidden": 3, "order": "snake", "magnetisation": 0},
    "patched_transformer": {"width": 4, "heads": 2, "layers": 1, "magnetisation": 0},
    "vit": {"width": 4, "heads": 2, "layers": 1},
}


@pytest.mark.whole
@pytest.mark.parametrize("kind", NETWORKS)
def test_networks_are_made_again(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("flax")
    from tnvmc.ansatz.neural import NETWORKS as KNOWN
    from tnvmc.ansatz.neural.flax import FlaxAnsatz
    from tnvmc.operators.symmetry import symmetry_group

    operator, keywords = heisenberg(square(2, 2)), NETWORKS[kind]
    lattice, network = operator.lattice, KNOWN[kind].load()
    treated = {} if KNOWN[kind].autoregressive else {"group": symmetry_group(operator, ["point"])}
    state = FlaxAnsatz(
        lattice,
        lambda rngs: network(lattice, **keywords, rngs=rngs),
        holomorphic=kind == "rbm",
        signs=[0, 1, 1, 0],
        **treated,
    )
    theta = state.random(2)
    state.save(tmp_path / "state.h5", theta)
    again, found = load_state(tmp_path / "state.h5")
    assert type(again) is type(state)
    assert np.array_equal(found, theta)
    assert np.array_equal(amplitudes(again, found), amplitudes(state, theta))
    plain = FlaxAnsatz(
        lattice, lambda rngs: network(lattice, **keywords, rngs=rngs), holomorphic=kind == "rbm"
    )
    with pytest.raises(StateFileError, match="another psi"):
        plain.load_theta(tmp_path / "state.h5")


@pytest.mark.whole
def test_a_module_of_ones_own_keeps_its_parameters(tmp_path: Path) -> None:
    pytest.importorskip("flax")
    import jax.numpy as jnp
    from flax import linen

    from tnvmc.ansatz.neural.flax import FlaxAnsatz

    class Net(linen.Module):
        width: int = 3

        @linen.compact
        def __call__(self, x: Any) -> Any:
            return linen.Dense(self.width, param_dtype=jnp.float64)(x).sum(axis=-1)

    state = FlaxAnsatz(square(2, 2), Net(), inputs="spins")
    theta = state.random(1)
    state.save(tmp_path / "state.h5", theta)
    same = FlaxAnsatz(square(2, 2), Net(), inputs="spins")
    assert np.array_equal(same.load_theta(tmp_path / "state.h5"), theta)
    with pytest.raises(StateFileError, match="shapes|kernel"):
        FlaxAnsatz(square(2, 2), Net(4), inputs="spins").load_theta(tmp_path / "state.h5")
    with pytest.raises(StateFileError, match="load_theta"):
        load_state(tmp_path / "state.h5")


def test_vacant_places_of_a_grid_are_in_the_file(tmp_path: Path) -> None:
    lattice = square(2, 3, vacant=[5])
    peps = PEPS(lattice, 2)
    theta = np.random.default_rng(1).normal(size=peps.n_params)
    peps.save(tmp_path / "state.h5", theta)
    VMC(heisenberg(lattice), peps, Sampler(16, 16), theta=theta, magnetisation=1).save(
        tmp_path / "checkpoint.h5"
    )
    for name in ("state.h5", "checkpoint.h5"):
        state, found = load_state(tmp_path / name)
        assert state.lattice == lattice
        assert np.array_equal(found, theta)


class OwnScheme(SRC):
    """A scheme that no file makes again."""


def test_a_scheme_of_ones_own_is_not_replaced_by_another(tmp_path: Path) -> None:
    peps = PEPS(square(2, 3), 2, scheme=OwnScheme(2), sharing=None)
    peps.save(tmp_path / "own.h5", np.ones(peps.n_params))
    with pytest.raises(StateFileError, match="OwnScheme"):
        load_state(tmp_path / "own.h5")
