"""Checkpoints: what goes in comes out bit for bit, and nothing else is taken for one."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tnvmc import VMC, GenericAnsatz, load_state
from tnvmc.ansatz.files import LISTED_BONDS, listed
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.jacobian.covariance import of_numbers
from tnvmc.lattice import Lattice, from_bonds, square
from tnvmc.operators.models import heisenberg, tfim
from tnvmc.operators.properties import fingerprint
from tnvmc.operators.term import Operator
from tnvmc.optimize import average
from tnvmc.optimize.first_order import GradientDescent
from tnvmc.optimize.rule import Rule
from tnvmc.optimize.sr import SR
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.sampling.problem import Problem
from tnvmc.storage.hdf5 import FORMAT_VERSION, StateFileError, read_parameters, read_stages, seal_of
from tnvmc.vmc import checkpoint
from tnvmc.vmc.controllers import GrowingChi, GrowingSamples, MeanOfIterates
from tnvmc.vmc.core import Iterate, Method, State
from tnvmc.vmc.guard import Guard

OPERATOR = heisenberg(square(2, 3))


def ansatz(lattice: Lattice) -> Any:
    return PEPS(lattice, 2)


def method(operator: Operator, rule: Rule = SR(momentum=0.5)) -> Method:  # noqa: B008
    problem = Problem.of(operator, ansatz(operator.lattice))
    return Method(problem, Sampler(), rule, lambda step: 0.1)


METHOD = method(OPERATOR)


N_PARAMETERS = ansatz(OPERATOR.lattice).n_params


def point(seed: int, dtype: str = "complex128") -> Iterate:
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=N_PARAMETERS).astype(dtype)
    configs = rng.integers(2, size=(4, 6), dtype=np.int8)
    memory = {"momentum": theta / 3, "count": 7, "rate": 0.1 + 0.2, "empty": np.zeros(0)}
    return Iterate(theta, configs, memory)


STATE = State(
    41, point(1), point(2), Guard((-1.1, -1 / 3), (0.1, 0.2), (1.0, 2.0), (0.3, 0.4), 0.7, 2)
)


def same(a: Iterate | None, b: Iterate | None) -> bool:
    if a is None or b is None:
        return a is b
    return (
        bits(a.theta) == bits(b.theta)
        and bits(a.configs) == bits(b.configs)
        and {k: bits(v) for k, v in a.optimizer.items()}
        == {k: bits(v) for k, v in b.optimizer.items()}
    )


def bits(value: Any) -> tuple[Any, ...]:
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    return type(value), value


@pytest.mark.parametrize("good", [None, point(2)])
def test_round_trip(tmp_path: Path, good: Iterate | None) -> None:
    state = State(41, STATE.here, good, STATE.guard)
    checkpoint.save(tmp_path / "c.h5", state, METHOD)
    back = checkpoint.load(tmp_path / "c.h5", METHOD, State(0, point(3)))
    assert (back.step, back.guard) == (state.step, state.guard)
    assert same(back.here, state.here)
    assert same(back.before_update, good)


def test_parameters_can_be_read_alone(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "c.h5", STATE, METHOD)
    described, theta = read_parameters(tmp_path / "c.h5")
    assert described == checkpoint.identity(METHOD)
    assert bits(theta) == bits(STATE.here.theta)


def test_the_stages_behind_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.h5"
    checkpoint.save(path, STATE, METHOD)
    assert read_stages(path) == []
    records = [{"stage": 1, "energy": -1 / 3, "variance": None}]
    checkpoint.save(path, STATE, METHOD, records)
    assert read_stages(path) == records
    assert same(checkpoint.load(path, METHOD, State(0, point(3))).here, STATE.here)


def test_another_problem_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.h5"
    checkpoint.save(path, STATE, METHOD)
    other = method(tfim(OPERATOR.lattice))
    with pytest.raises(StateFileError, match=r"another problem.*heisenberg \(now tfim\)"):
        checkpoint.load(path, other, State(0, point(3)))
    shared = {**checkpoint.identity(METHOD), "sharing": {"elements": []}}
    with monkeypatch.context() as context:
        context.setattr(checkpoint, "identity", lambda _: shared)
        checkpoint.save(tmp_path / "shared.h5", STATE, METHOD)
    with pytest.raises(StateFileError, match=r"another problem: tensors shared"):
        checkpoint.load(tmp_path / "shared.h5", METHOD, State(0, point(3)))
    turned = heisenberg(square(3, 2))
    with pytest.raises(StateFileError, match="lattice"):
        checkpoint.load(path, method(turned), State(0, point(3)))
    with pytest.raises(StateFileError, match="couplings"):
        weaker = method(heisenberg(OPERATOR.lattice, J=0.9))
        checkpoint.load(path, weaker, State(0, point(3)))
    with pytest.raises(StateFileError, match=r"dtype complex128 \(now float32\)"):
        checkpoint.load(path, METHOD, State(0, point(3, "float32")))
    fewer = Iterate(point(3).theta, point(3).configs[:2], point(3).optimizer)
    with pytest.raises(StateFileError, match=r"4 walkers \(now 2\)"):
        checkpoint.load(path, METHOD, State(0, fewer))
    plain = Iterate(point(3).theta, point(3).configs, {})
    with pytest.raises(StateFileError, match="other settings of the optimizer"):
        checkpoint.load(path, METHOD, State(0, plain))


def test_fingerprints_know_the_couplings_and_not_the_rounding() -> None:
    assert fingerprint(heisenberg(square(2, 2), J=0.3)) == fingerprint(
        heisenberg(square(2, 2), J=0.1 + 0.2)
    )
    assert fingerprint(heisenberg(square(2, 2))) != fingerprint(heisenberg(square(2, 2), J=1.001))


def test_damaged_foreign_and_newer_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.h5"

    def refusal() -> str:
        with pytest.raises(StateFileError) as caught:
            checkpoint.load(path, METHOD, State(0, point(3)))
        text = str(caught.value)
        assert text.startswith(str(path))
        assert "\n" not in text
        return text

    assert "no such file" in refusal()
    path.write_text("not a checkpoint")
    assert "not a saved state, or damaged" in refusal()
    with h5py.File(path, "w") as file:
        file["x"] = 1
    assert "another program" in refusal()
    path.write_bytes(path.read_bytes() + seal_of(path.read_bytes()))
    assert "another program" in refusal()
    changed(path, lambda file: file.attrs.__setitem__("format_version", FORMAT_VERSION + 1))
    assert "format version 2 is newer than 1" in refusal()
    for read in (read_parameters, read_stages):
        with pytest.raises(StateFileError, match="update tnvmc"):
            read(path)
    changed(path, lambda file: file.__delitem__("here/theta"))
    assert "damaged" in refusal()


def changed(path: Path, change: Callable[[Any], None], seal: bool = True) -> None:
    """A checkpoint that was changed on purpose, with a checksum that is right, or without one."""
    checkpoint.save(path, STATE, METHOD)
    image = io.BytesIO(path.read_bytes()[: -len(seal_of(b""))])
    with h5py.File(image, "r+") as file:
        change(file)
    path.write_bytes(image.getvalue() + seal_of(image.getvalue()) if seal else image.getvalue())


def test_a_file_without_its_checksum_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.h5"
    changed(path, lambda file: None)
    assert checkpoint.load(path, METHOD, State(0, point(3))).step == STATE.step
    changed(path, lambda file: None, seal=False)
    with pytest.raises(StateFileError, match="without the checksum"):
        checkpoint.load(path, METHOD, State(0, point(3)))
    for read in (read_parameters, read_stages):
        with pytest.raises(StateFileError, match="without the checksum"):
            read(path)


def replaced(name: str, value: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        del file[name]
        kind = "array" if np.ndim(value) else type(value).__name__
        file.create_dataset(name, data=value).attrs["type"] = kind

    return change


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("here/theta", np.full(N_PARAMETERS, np.nan, complex)),
        ("here/theta", np.ones(N_PARAMETERS - 1, complex)),
        ("good/theta", np.full(N_PARAMETERS, np.inf, complex)),
        ("good/theta", np.ones((1, N_PARAMETERS), complex)),
        ("good/configs", np.zeros((3, 6), np.int8)),
        ("here/optimizer/momentum", np.ones(2, complex)),
        ("step", -1),
    ],
)
def test_bad_numbers_are_refused_and_no_older_ones_taken(
    tmp_path: Path, name: str, value: Any
) -> None:
    changed(tmp_path / "c.h5", replaced(name, value))
    with pytest.raises(StateFileError):
        checkpoint.load(tmp_path / "c.h5", METHOD, State(0, point(3)))


def outside(file: Any) -> None:
    del file["here/theta"]
    stored = [("theta.raw", 0, 16 * N_PARAMETERS)]
    data = file.create_dataset("here/theta", (N_PARAMETERS,), complex, external=stored)
    data.attrs["type"] = "array"


def elsewhere(file: Any) -> None:
    del file["here/theta"]
    file["here/theta"] = h5py.ExternalLink("other.h5", "/here/theta")


def twice(file: Any) -> None:
    file["here/again"] = file["here"]


def compressed(file: Any) -> None:
    del file["here/theta"]
    data = file.create_dataset("here/theta", (10**9,), complex, compression="gzip")
    data.attrs["type"] = "array"


@pytest.mark.parametrize("change", [outside, elsewhere, twice, compressed])
def test_all_that_a_file_holds_is_in_it(tmp_path: Path, change: Callable[[Any], None]) -> None:
    checkpoint.save(tmp_path / "other.h5", STATE, METHOD)
    (tmp_path / "theta.raw").write_bytes(STATE.here.theta.tobytes())
    changed(tmp_path / "c.h5", change)
    for read in (read_parameters, read_stages):
        with pytest.raises(StateFileError, match="damaged"):
            read(tmp_path / "c.h5")


def test_nothing_but_files_is_read(tmp_path: Path) -> None:
    """Not what a link in the folder leads to elsewhere, no folder, pipe or device."""
    folder = tmp_path / "run"
    folder.mkdir()
    checkpoint.save(tmp_path / "c.h5", STATE, METHOD)
    checkpoint.save(folder / "kept.h5", STATE, METHOD)
    (folder / "inside.h5").symlink_to("kept.h5")
    assert read_parameters(folder / "inside.h5")[0] == checkpoint.identity(METHOD)
    (folder / "out.h5").symlink_to("../c.h5")
    (folder / "loop.h5").symlink_to("loop.h5")
    (folder / "device.h5").symlink_to("/dev/zero")
    (folder / "folder.h5").mkdir()
    os.mkfifo(folder / "pipe.h5")
    for name in ("out", "loop", "device", "folder", "pipe"):
        with pytest.raises(StateFileError, match="cannot be read"):
            read_parameters(folder / f"{name}.h5")


def test_what_another_rule_carries_is_refused(tmp_path: Path) -> None:
    """Plain SR and gradient descent both carry nothing: the names tell them apart."""
    path, plain = tmp_path / "c.h5", Iterate(point(1).theta, point(1).configs, {})
    for old, new in ((SR(), GradientDescent()), (GradientDescent(), SR())):
        checkpoint.save(path, State(3, plain), method(OPERATOR, old))
        assert checkpoint.load(path, method(OPERATOR, old), State(0, plain)).step == 3
        with pytest.raises(StateFileError, match="another optimizer"):
            checkpoint.load(path, method(OPERATOR, new), State(0, plain))


def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    """Of numbers without a chunk of their own, as the step, too; HDF5 finds no fault with them."""
    path = tmp_path / "c.h5"
    checkpoint.save(path, STATE, METHOD)
    content = path.read_bytes()
    parameters = content.index(STATE.here.theta.tobytes())
    for where in (parameters + 5, *range(0, len(content), 97)):
        damaged = bytearray(content)
        damaged[where] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(StateFileError):
            checkpoint.load(path, METHOD, State(0, point(3)))


@pytest.mark.parametrize("length", [0, 1, 100, 2000])
def test_a_file_cut_short_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "c.h5"
    checkpoint.save(path, STATE, METHOD)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(StateFileError, match="damaged"):
        checkpoint.load(path, METHOD, State(0, point(3)))


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "c.h5"
    checkpoint.save(path, STATE, METHOD)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space"):
        checkpoint.save(path, State(42, point(5)), METHOD)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["c.h5"]


def test_a_list_of_bonds_is_kept_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state can be loaded, and a run with other bonds cannot go on; older files have no list."""
    bonds = [(1, 0), (2, 3), (0, 2), (1, 4), (3, 4)]
    lattice = from_bonds((2, 3), bonds, [(i, i * 0.1) for i in range(5)], vacant=[4])
    operator, peps = heisenberg(lattice), PEPS(lattice, 2)
    theta = np.random.default_rng(0).normal(size=peps.n_params)
    held = State(
        1, Iterate(theta, np.zeros((4, 5), np.int8), {}), None, Guard((), (), (), (), 0.0, 0)
    )
    belongs = method(operator)
    path = tmp_path / "checkpoint.h5"
    checkpoint.save(path, held, belongs)
    found, back = load_state(path)
    assert found.lattice == lattice and np.array_equal(back, theta)
    assert found.lattice.directed("nearest") == lattice.directed("nearest")
    other = from_bonds((2, 3), bonds[:4], vacant=[4])
    about = checkpoint.identity(belongs)
    with monkeypatch.context() as context:
        context.setattr(checkpoint, "identity", lambda _: {**about, LISTED_BONDS: listed(other)})
        with pytest.raises(StateFileError, match="nearest"):
            checkpoint.load(path, belongs, held)
    assert checkpoint.load(path, belongs, held).step == 1


def test_a_rule_that_averages_s_does_not_go_on_from_one_that_did_not(tmp_path: Path) -> None:
    here = Iterate(point(0).theta, point(0).configs, {"rate": 0.1})
    averaged = Iterate(here.theta, here.configs, {**average.empty(here.theta), "rate": 0.2})
    for stored, like in ((here, averaged), (averaged, here)):
        checkpoint.save(tmp_path / "c.h5", State(8, stored), METHOD)
        with pytest.raises(StateFileError, match="other settings of the optimizer"):
            checkpoint.load(tmp_path / "c.h5", METHOD, State(0, like))


def test_a_whole_s_of_a_gpu_is_taken_by_half(tmp_path: Path) -> None:
    theta, n = point(0).theta, N_PARAMETERS
    rows = np.random.default_rng(0).normal(size=(n, n)).astype(np.complex64)
    whole = rows.conj().T @ rows
    former = {**average.empty(theta), "covariance": whole, "counted": 1.5}
    checkpoint.save(tmp_path / "c.h5", State(8, Iterate(theta, point(0).configs, former)), METHOD)
    like = Iterate(theta, point(0).configs, average.empty(theta))
    found = checkpoint.load(tmp_path / "c.h5", METHOD, State(0, like)).here.optimizer
    assert found["counted"] == 1.5
    lower = np.tril_indices(n)
    half = of_numbers(found["covariance"], n).dense()
    np.testing.assert_array_equal(half[lower], whole[lower])
    assert average.in_form_of(found["covariance"], whole).shape == whole.shape  # for a GPU


class Own(GenericAnsatz):
    """Of the user's own: ln psi = factor theta s, up to a constant."""

    factor, constant = 1.0, 0.0

    def random(self, seed: int) -> Any:
        return np.random.default_rng(seed).normal(size=6)

    def log_amplitude(self, theta: Any, configs: Any) -> LogAmplitude:
        values = self.factor * configs @ theta + self.constant
        return LogAmplitude(np.ones(len(configs)), values)


@pytest.mark.parametrize("sampler", [Sampler(n_samples=128), Enumerate()])
def test_an_own_state_that_gives_another_psi_is_refused(
    sampler: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also an enumeration, which has one walker: a constant factor alone makes no difference."""
    vmc = VMC(OPERATOR, Own(OPERATOR.lattice), sampler)
    vmc.save(tmp_path / "c.h5")
    monkeypatch.setattr(Own, "constant", 2.0)
    vmc.restore(tmp_path / "c.h5")
    monkeypatch.setattr(Own, "factor", 1.1)
    with pytest.raises(StateFileError, match="another psi"):
        vmc.restore(tmp_path / "c.h5")


def test_psi_is_asked_for_walkers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of the user's own may raise where its psi is not defined."""
    vmc = VMC(OPERATOR, Own(OPERATOR.lattice), Sampler(n_samples=128))
    walkers = {bytes(row) for row in vmc.state.here.configs}
    whole, asked = Own.log_amplitude, set[bytes]()

    def seen(state: Any, theta: Any, configs: Any) -> LogAmplitude:
        asked.update(bytes(row) for row in configs)
        return whole(state, theta, configs)

    monkeypatch.setattr(Own, "log_amplitude", seen)
    vmc.save(tmp_path / "c.h5")
    assert asked and asked <= walkers


CONTROLLERS = (
    MeanOfIterates(np.zeros(N_PARAMETERS), np.ones(N_PARAMETERS), 7),
    GrowingSamples(256, 1.5),
    GrowingChi(10, 12),
)


def same_controllers(found: State) -> bool:
    mean, *others = found.controllers
    assert isinstance(mean, MeanOfIterates)
    return others == list(CONTROLLERS[1:]) and mean.count == 7 and bool((mean.mean == 1).all())


def test_what_follows_the_steps_goes_on(tmp_path: Path) -> None:
    path, here = tmp_path / "c.h5", point(3)
    checkpoint.save(path, State(4, here, controllers=CONTROLLERS), METHOD)
    begun = MeanOfIterates(np.ones(N_PARAMETERS), np.ones(N_PARAMETERS))
    present = State(0, here, controllers=(begun, GrowingSamples(64), GrowingChi(8, 12)))
    assert same_controllers(checkpoint.load(path, METHOD, present))
    fewer = State(0, here, controllers=(begun, GrowingChi(4, 6)))
    assert checkpoint.load(path, METHOD, fewer).controller(GrowingChi) == GrowingChi(6, 6)
    for archived in (False, True):
        with pytest.raises(StateFileError, match="learning_rate='auto'"):
            checkpoint.load(path, METHOD, State(0, here), archived)


def test_a_file_of_an_earlier_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There controllers stood beside the step: without them others would go on."""
    path, here = tmp_path / "c.h5", point(3)
    state = State(4, here, controllers=CONTROLLERS)
    tree = checkpoint.as_tree(state)
    held = tree.pop("controllers")
    earlier = {"trail": held["mean_of_iterates"], "growth": held["samples"], "chi": 10}
    monkeypatch.setattr(checkpoint, "as_tree", lambda _: tree | earlier)
    checkpoint.save(path, state, METHOD)
    with pytest.raises(StateFileError, match="earlier version, with chi, growth, trail"):
        checkpoint.load(path, METHOD, state)
