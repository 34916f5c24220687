"""Which GPU a rank takes, and that arrays of devices reach others through the host; without a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ranks.test_ranks import SETTINGS, energies, finished, needs_mpiexec
from tnvmc import PEPS, square
from tnvmc.backend.process import Ranks, using_ranks
from tnvmc.sampling import workers

pytest.importorskip("mpi4py")
pytest.importorskip("array_api_strict")
SCRIPT = str(Path(__file__).parent / "devices.py")

ROUNDING = 1e-7
"""Of two steps: sums of one process are not rounded to exact ones, by 1e-14, and SR multiplies that by at
most 1e2 at each step; no decision of a chain was seen to differ."""


def outcome(n_ranks: int, n_devices: int, folder: Path) -> dict[str, Any]:
    file = folder / f"{n_ranks}.json"
    done = finished(n_ranks, SCRIPT, str(n_devices), str(file))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(file.read_text())
    return found


@pytest.mark.whole
@needs_mpiexec
def test_ranks_take_devices_in_turn_and_give_the_numbers_of_one(tmp_path: Path) -> None:
    one, three = outcome(1, 2, tmp_path), outcome(3, 2, tmp_path)
    assert (one.pop("devices"), one.pop("told"), one.pop("known")) == ([None], 0, None)
    assert three.pop("devices") == [0, 1, 0]
    assert three.pop("known") == [[0, "bus 0"], [0, "bus 1"], [0, "bus 0"]]
    assert three.pop("told") == 1  # that two share one
    assert one.keys() == three.keys()
    for name in one:
        np.testing.assert_allclose(three[name], one[name], rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize(
    ("size", "fit", "of_one", "of_all"), [(2, 1000, 1, 2), (2, 30, 4, 4), (3, 1000, 1, 3)]
)
def test_each_rank_has_a_chunk_that_fits_beside_those_of_others(
    size: int, fit: int, of_one: int, of_all: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU with room for `fit` walkers is shared by all ranks."""
    peps, ranks, room = PEPS(square(2, 2), D=2), Ranks(), []

    def walkers_that_fit(n_bytes: int) -> int:
        room.append(n_bytes)
        return fit

    monkeypatch.setattr(workers, "is_gpu", lambda xp: True)
    monkeypatch.setattr(workers, "walkers_that_fit", walkers_that_fit)
    monkeypatch.setattr(workers, "ranks_per_device", lambda ranks, xp: ranks.size)
    alone = len(workers.chunks(96, peps, object()))
    ranks.size = size
    with using_ranks(ranks):
        found = workers.chunks(96, peps, object())
    assert (alone, len(found)) == (of_one, of_all)
    assert room[1] == size * room[0]


@needs_mpiexec
@pytest.mark.gpu
def test_two_ranks_on_one_card_give_the_energies_of_one(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(SETTINGS)
    for n, name in ((1, "a"), (2, "b")):
        out = ("--out", str(tmp_path / name), "--set", "run.device=gpu")
        done = finished(n, "-m", "tnvmc", "run", str(file), *out)
        assert done.returncode == 0, done.stderr
    one, two = energies(tmp_path / "a"), energies(tmp_path / "b")
    np.testing.assert_allclose(one, two, rtol=ROUNDING)
