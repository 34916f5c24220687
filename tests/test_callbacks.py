"""Ready callbacks: lines of JSON, stops on a plateau and on time; and how a run is stopped."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tnvmc import (
    PEPS,
    VMC,
    Enumerate,
    JsonLines,
    Sampler,
    StopAfter,
    StopOnPlateau,
    TensorBoard,
    heisenberg,
    square,
)
from tnvmc.callbacks import SCALARS
from tnvmc.vmc.results import StepRecord

OPERATOR = heisenberg(square(2, 2))
RECORD = StepRecord(
    step=0, energy=-3.0, energy_error=0.1, variance=0.2, tau=None, r_hat=None, acceptance=0.5,
    closure_spread=None, learning_rate=0.1, step_norm=0.1, undone=False, diagnostics=(),
    optimizer={}, seconds=6.0,
)  # fmt: skip


def study() -> VMC:
    return VMC(OPERATOR, PEPS(OPERATOR.lattice, D=2), Enumerate(), learning_rate=0.1)


def records(energies: list[float], **values: Any) -> Iterator[StepRecord]:
    for step, energy in enumerate(energies):
        yield replace(RECORD, step=step, energy=energy, **values)


@pytest.mark.parametrize("true", [True, np.bool_(True)])
def test_true_stops_a_run_after_its_step(true: Any) -> None:
    vmc, seen = study(), []

    def stop(record: StepRecord) -> Any:
        return true if record.step == 2 else None

    found = vmc.run(9, [stop, lambda record: seen.append(record.step)])
    assert [record.step for record in found] == seen == [0, 1, 2]
    assert vmc.state.step == 3
    assert len(vmc.run(2, stop)) == 2


@pytest.mark.whole
@pytest.mark.parametrize("other", [1, "yes", [0], False, None])
def test_all_else_goes_on(other: Any) -> None:
    assert len(study().run(2, lambda record: other)) == 2


def test_what_cannot_be_called_is_refused() -> None:
    vmc = study()
    with pytest.raises(TypeError, match="progress=True"):
        vmc.run(2, True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got 3"):
        vmc.run(2, [print, 3])  # type: ignore[list-item]
    assert vmc.state.step == 0


def test_a_stopped_run_goes_on_as_one_that_was_not(tmp_path: Path) -> None:
    whole, parts, path = study(), study(), tmp_path / "steps.jsonl"
    whole.run(4)
    parts.run(4, [JsonLines(path), lambda record: record.step == 1])
    parts.run(2, JsonLines(path))
    assert np.array_equal(whole.theta, parts.theta)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 1, 2, 3]
    assert {*lines[0]} == {*RECORD.as_dict()}


def test_lines_are_strict_json(tmp_path: Path) -> None:
    write = JsonLines(tmp_path / "steps.jsonl")
    write(replace(RECORD, energy=np.nan))
    assert json.loads(write.path.read_text())["energy"] is None


@pytest.mark.parametrize("text", ['{"step": 7}\n', '{"step": 0}', '{"step": 0, "ener', "no JSON\n"])
def test_lines_of_another_run_are_not_gone_on_with(tmp_path: Path, text: str) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match="another file"):
        JsonLines(path)(replace(RECORD, step=1))
    assert path.read_text() == text


def test_one_writer_for_two_runs_is_refused(tmp_path: Path) -> None:
    write = JsonLines(tmp_path / "steps.jsonl")
    study().run(2, write)
    with pytest.raises(ValueError, match="step 1"):
        study().run(2, write)


def test_a_plateau_stops() -> None:
    falling = [-float(step) for step in range(6)]
    stop = StopOnPlateau(4)
    assert [stop(record) for record in records(falling + [-5.0] * 3, energy_error=0.1)] == [
        False, False, False, False, False, False, False, False, True,
    ]  # fmt: skip


def test_a_plateau_is_of_one_run_and_of_steps_that_count() -> None:
    stop = StopOnPlateau(3)
    assert not any(map(stop, records([-1.0, -1.0])))
    assert not any(map(stop, records([-1.0, -1.0], undone=True)))
    assert [*map(stop, records([np.nan, -1.0, -1.0, -1.0]))] == [False, False, False, True]


def test_time_stops_with_the_step_that_passes_it() -> None:
    stop = StopAfter(15)
    assert [*map(stop, records([-1.0] * 4))] == [False, False, True, True]
    assert stop.used == 24


def test_windows_and_times_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="window must be at least 2"):
        StopOnPlateau(1)
    with pytest.raises(ValueError, match="seconds must be above 0"):
        StopAfter(0)


def events(folder: Path) -> dict[str, dict[int, float]]:
    """Scalars by name and step in the event files of a folder: TFRecords of protobuf messages."""
    from tensorboardX.proto.event_pb2 import Event

    found: dict[str, dict[int, float]] = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns):
        content, place = file.read_bytes(), 0
        while place < len(content):
            (size,) = struct.unpack_from("<Q", content, place)
            event = Event.FromString(content[place + 12 : place + 12 + size])
            place += 16 + size  # length, its checksum, the message, its checksum
            for value in event.summary.value:
                found.setdefault(value.tag, {})[event.step] = value.simple_value
    return found


def test_tensorboard_reads_what_the_steps_reported(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    vmc = VMC(OPERATOR, PEPS(OPERATOR.lattice, D=2), Sampler(8, 32, threads=1), learning_rate=0.1)
    board = TensorBoard(tmp_path / "board", n_sites=vmc.operator.n_sites)
    history = vmc.run(2, board)
    board.close()
    history = history + vmc.run(1, board)
    board.close()
    told = events(tmp_path / "board")
    assert set(told) == set(SCALARS)
    for name in ("energy_per_site", "energy_per_site_error", "acceptance", "learning_rate"):
        assert [*told[name]] == [0, 1, 2]
        single = history.column(name).astype(np.float32)  # as scalars are stored
        assert [*told[name].values()] == [*map(float, single)]
    per_site = history.column("variance") / vmc.operator.n_sites
    assert [*told["variance_per_site"].values()] == [*map(float, per_site.astype(np.float32))]


def test_tensorboard_leaves_out_what_is_not_known(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    board = TensorBoard(tmp_path, n_sites=4)
    board(replace(RECORD, energy=float("nan"), acceptance=None))
    board.close()
    assert {"energy_per_site", "acceptance"}.isdisjoint(events(tmp_path))
    assert "variance_per_site" in events(tmp_path)


def test_tensorboard_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match="'tensorboard'"):
        TensorBoard("board", n_sites=4)
