"""What the files of a run hold, and what is wrong with them, as data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.run_files import CONFIG, RUN, observables, result, write_run, write_toml
from tnvmc.lattice import kagome
from tnvmc.storage.run_files import (
    Damage,
    is_finished,
    is_outdated,
    read_run,
    steps_asked,
    steps_done,
)
from tnvmc.storage.seals import CHECK, RUN_ID, next_check, sealed_json


def test_a_whole_run(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run"))
    assert run.damage == ()
    assert (run.name, run.n_sites, run.shape, run.units) == ("run", 16, (4, 4), "S.S")
    assert run.setting("ansatz", "D") == 3
    assert (steps_done(run), steps_asked(run), is_finished(run)) == (40, 40, True)
    unknown = read_run(write_run(tmp_path / "killed", finished=False, measured=False))
    assert unknown.units is None and unknown.n_sites == 16
    bare = replace(run, result=None, observables=None)
    config = {"lattice": {"kind": "kagome", "shape": [5, 4]}}
    assert replace(bare, config=config).n_sites == kagome(5, 4).n_sites == 16
    assert (steps_done(unknown), is_finished(unknown)) == (12, False)


def line(step: int) -> bytes:
    record = {"step": step, "seconds": 0.5, RUN_ID: RUN}
    return (json.dumps(record | {CHECK: next_check("", record)}) + "\n").encode()


LINE = line(0)


def _without(key: str) -> dict[str, Any]:
    return {name: value for name, value in result().items() if name != key}


@pytest.mark.parametrize(
    ("name", "content", "damage"),
    [
        ("config.toml", b"[lattice", Damage("config.toml", "bad_content")),
        ("config.toml", None, Damage("config.toml", "missing")),
        ("history.jsonl", LINE + b"x\n{}", Damage("history.jsonl", "bad_line", "", 2, 1)),
        ("history.jsonl", b"{}\n", Damage("history.jsonl", "bad_line", "", 1, 0)),
        ("history.jsonl", LINE + b"{}", Damage("history.jsonl", "bad_line", "", 2, 0)),
        ("history.jsonl", LINE + LINE, Damage("history.jsonl", "bad_line", "", 2, 0)),
        (
            "history.jsonl", LINE.replace(b"0.5", b"0.6"),
            Damage("history.jsonl", "bad_line", "", 1, 0),
        ),
        ("result.json", b"\xff\xfe", Damage("result.json", "not_text")),
        ("result.json", b"[]", Damage("result.json", "bad_content")),
        ("result.json", _without("units"), Damage("result.json", "bad_content")),
        ("result.json", result() | {"n_sites": 0}, Damage("result.json", "bad_content")),
        ("observables.json", b"{}", Damage("observables.json", "bad_content")),
    ],
)  # fmt: skip
def test_damage(tmp_path: Path, name: str, content: Any, damage: Damage) -> None:
    folder = write_run(tmp_path / "run")
    (folder / name).unlink()
    if content is not None:
        content = sealed_json(content) if isinstance(content, dict) else content
        (folder / name).write_bytes(content)
    (found,) = read_run(folder).damage
    assert replace(found, detail="") == damage
    told = damage.code == "bad_content" or (damage.code == "bad_line" and content[-1:] == b"\n")
    assert bool(found.detail) == (told or damage.lost > 0)


def test_steps_of_all_stages_count(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", finished=False, measured=False)
    stages = [{"D": 2, "steps": 30}, {"D": 3}]
    write_toml(folder / "config.toml", CONFIG | {"stage": stages})
    assert steps_asked(read_run(folder)) == 70
    timed = CONFIG | {"optimizer": {"kind": "sr", "steps": 40, "seconds": 60}}
    write_toml(folder / "config.toml", timed)
    assert steps_asked(read_run(folder)) is None


@pytest.mark.parametrize(("step", "outdated"), [(10, True), (40, False), (None, False)])
def test_observables_of_an_earlier_step(tmp_path: Path, step: int | None, outdated: bool) -> None:
    run = read_run(write_run(tmp_path / "run"))
    assert is_outdated(replace(run, observables=observables() | {"step": step})) == outdated
