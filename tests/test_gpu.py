"""On a GPU: the same chain and the same numbers as on the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.drawing import enumerated, sample
from tnvmc import PEPS, SR, SRC, VMC, Sampler, heisenberg, j1j2, square, tfim
from tnvmc.ansatz.peps.starts.tensors import random_positive
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised
from tnvmc.backend import linalg
from tnvmc.backend.device import DeviceError, namespace_of
from tnvmc.backend.namespace import to_host
from tnvmc.backend.random import uniforms
from tnvmc.contraction import row
from tnvmc.estimate.observables import local_energy
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for
from tnvmc.sampling.workers import chunks, tables_in

pytestmark = pytest.mark.gpu

AMPLITUDE, LOCAL_ENERGY = 1e-12, 1e-9
"""Rounding: of ln|psi| over 64 sites, and of ratios of up to 1e3."""


@pytest.fixture(scope="module")
def cupy() -> Any:
    try:
        return namespace_of("gpu")
    except DeviceError as error:
        pytest.skip(str(error))


def _theta(peps: PEPS, seed: int = 0) -> np.ndarray:
    tensors = random_positive(peps.lattice, peps.D, peps.dtype, seed, 2)
    rng = np.random.default_rng(seed)
    turned = 1 + 0.3 * rng.normal(size=peps.n_params)
    if peps.dtype.kind == "c":
        turned = turned * np.exp(0.2j * rng.normal(size=peps.n_params))
    return (peps.flatten(tensors) * turned).astype(peps.dtype)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(
    ("model", "L", "D", "chi"),
    [(heisenberg, 4, 3, 6), (heisenberg, 8, 4, 8), (j1j2, 4, 3, 7), (tfim, 5, 2, 4)],
)
def test_same_chain_and_same_numbers(
    cupy: Any, model: Any, L: int, D: int, chi: int, dtype: str
) -> None:
    operator = model(square(L, L))
    peps = PEPS(operator.lattice, D, dtype, SRC(chi))
    theta, configs = _theta(peps), initial_configs(operator, 32, 0)
    found = []
    for xp in (np, cupy):
        moves, targets = tables_in(moves_for(operator), xp), tables_in(operator.targets, xp)
        there = xp.asarray(theta), xp.asarray(configs)
        amplitude = peps.log_amplitude(*there)
        numbers = uniforms(5, (0, 0), range(32), len(moves), xp=xp)
        walkers, info = peps.sweep(there[0], peps.start(*there), moves, numbers)
        _, snapshot = peps.measure(there[0], walkers, targets)
        local = local_energy(operator, snapshot)
        arrays = amplitude.log_abs, walkers.configs, info.accepted, local
        found.append([to_host(a) for a in (*arrays, *snapshot.jacobian.slices)])
    host, device = found
    assert np.abs(host[0] - device[0]).max() < AMPLITUDE * L * L
    assert np.array_equal(host[1], device[1])
    assert np.array_equal(host[2], device[2])
    assert np.abs(host[3] - device[3]).max() < LOCAL_ENERGY
    for a, b in zip(host[4:], device[4:], strict=True):
        assert np.abs(a - b).max() < LOCAL_ENERGY * max(1.0, float(np.abs(a).max()))


def _rbm(operator: Any, dtype: str = "float64") -> Any:
    pytest.importorskip("flax")
    from tnvmc.settings.build import build_ansatz
    from tnvmc.settings.defaults import complete
    from tnvmc.settings.load import validate

    data = {
        "lattice": {"shape": list(operator.lattice.shape)},
        "hamiltonian": {"model": "heisenberg"},
        "ansatz": {"kind": "rbm", "marshall": True, "dtype": dtype, "init_scale": 0.1},
    }
    return build_ansatz(complete(validate(data)), operator)


SAMPLERS = [Sampler(48, 96), Sampler(48, 96, power=0.5)]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("sampler", SAMPLERS, ids=["plain", "power"])
def test_a_network_walks_the_same_chain(cupy: Any, sampler: Sampler, dtype: str) -> None:
    operator = heisenberg(square(3, 4))
    ansatz = _rbm(operator, dtype)
    theta, configs = ansatz.random(0), initial_configs(operator, sampler.n_walkers, 0)
    found = []
    for xp in (np, cupy):
        there = xp.asarray(theta), xp.asarray(configs)
        after, snapshot, info = sample(
            sampler, ansatz, there, operator.targets, moves_for(operator)
        )
        assert type(after) is type(there[0])
        local = local_energy(operator, snapshot)
        arrays = after, local, snapshot.amplitude.log_abs, snapshot.jacobian.dense()
        found.append([to_host(a) for a in arrays])
        assert info.acceptance > 0
    host, device = found
    assert np.array_equal(host[0], device[0])
    for a, b in zip(host[1:], device[1:], strict=True):
        assert np.abs(a - b).max() < LOCAL_ENERGY * max(1.0, float(np.abs(a).max()))


def test_a_network_takes_rows_that_begin_anywhere(cupy: Any) -> None:
    operator = heisenberg(square(3, 3))
    ansatz = _rbm(operator)
    theta = cupy.asarray(ansatz.random(0))
    configs = cupy.asarray(initial_configs(operator, 40, 0, magnetisation=1))
    part = ansatz.log_amplitude(theta, configs[1:17, :])
    whole = ansatz.log_amplitude(theta, configs)
    assert np.abs(to_host(part.log_abs - whole.log_abs[1:17])).max() < AMPLITUDE


def test_a_run_with_a_network_is_that_of_the_host(cupy: Any) -> None:
    operator = heisenberg(square(3, 4))
    ansatz = _rbm(operator)
    found = []
    for device in ("cpu", "gpu"):
        vmc = VMC(operator, ansatz, Sampler(32, 64), SR(), theta=ansatz.random(0), device=device)
        found.append([record.energy for record in vmc.run(3)])
    assert np.allclose(*found, rtol=1e-8)


def test_enumeration_by_orbit_on_the_device(cupy: Any) -> None:
    operator = heisenberg(square(2, 4))
    from tnvmc.ansatz.neural.flax import FlaxAnsatz
    from tnvmc.ansatz.neural.rbm import RBM

    group = symmetry_group(operator, ["spin", "point"])
    ansatz = FlaxAnsatz(
        operator.lattice, lambda rngs: RBM(operator.lattice, local_dim=2, rngs=rngs), group=group
    )
    energies = []
    for xp in (np, cupy):
        theta = xp.asarray(ansatz.random(0))
        snapshot = enumerated(ansatz, theta, operator, by_orbit=True)
        energies.append(float(xp.sum(snapshot.weight * local_energy(operator, snapshot).real)))
    assert abs(energies[0] - energies[1]) < LOCAL_ENERGY


def test_a_symmetrised_state_takes_all_walkers_that_fit(cupy: Any) -> None:
    operator = heisenberg(square(4, 4))
    group = symmetry_group(operator, ["spin", "point"])
    state = Symmetrised(PEPS(operator.lattice, 3, scheme=SRC(6)), group)
    assert len(chunks(4096, state, cupy)) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_kernels_compute_what_the_products_do(
    cupy: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    rounding = 1e-4 if dtype in ("float32", "complex64") else 1e-12

    def random(*shape: int) -> Any:
        values = rng.normal(size=shape) + 1j * rng.normal(size=shape)
        return cupy.asarray((values if dtype.startswith("c") else values.real).astype(dtype))

    for rows in (1, 2):
        for D, chi in ((2, 3), (4, 8), (6, 12), (8, 16)):
            env, top = random(5, chi, *[D] * rows, chi), random(5, chi, D, chi)
            sites = [random(5, D, D, D, D) for _ in range(rows)]
            bottom = random(5, D, chi, chi)
            fused = row.transfer(env, top, sites, bottom)
            with monkeypatch.context() as patch:
                patch.setattr(row.kernels, "transfer", lambda *_: None)
                plain = row.transfer(env, top, sites, bottom)
            assert float(abs(fused - plain).max() / abs(plain).max()) < rounding
    matrices = random(7, 40, 12)
    q = linalg.orthonormal_basis(matrices)
    dagger = cupy.conj(cupy.matrix_transpose(q))
    assert float(abs(dagger @ q - cupy.eye(12)).max()) < rounding
    assert float(abs(matrices - q @ (dagger @ matrices)).max()) < rounding * 10


def test_a_run_takes_the_same_steps(cupy: Any, tmp_path: Path) -> None:
    """Three steps of SR, and a checkpoint that moves from the device to the host."""
    operator = heisenberg(square(4, 4))
    peps = PEPS(operator.lattice, 2, scheme=SRC(8))
    sampler = Sampler(n_walkers=64, n_samples=256)
    runs = {
        device: VMC(operator, peps, sampler, SR(), theta=_theta(peps), seed=3, device=device)
        for device in ("cpu", "gpu")
    }
    energies = {device: [r.energy for r in vmc.run(3)] for device, vmc in runs.items()}
    assert isinstance(runs["gpu"].theta, cupy.ndarray)
    assert np.allclose(energies["cpu"], energies["gpu"], rtol=1e-8)
    runs["gpu"].save(tmp_path / "there.h5")
    runs["cpu"].restore(tmp_path / "there.h5")
    assert isinstance(runs["cpu"].theta, np.ndarray)
    assert np.array_equal(runs["cpu"].theta, to_host(runs["gpu"].theta))


def test_no_room_is_a_sentence(cupy: Any) -> None:
    operator = heisenberg(square(8, 8))
    peps = PEPS(operator.lattice, 8, scheme=SRC(32))
    sampler = Sampler(n_walkers=10**6, n_samples=10**6, chunk=10**6)
    vmc = VMC(operator, peps, sampler, theta=_theta(peps), device="gpu")
    with pytest.raises(DeviceError, match=r"lower sampler\.chunk"):
        vmc.run(1)
