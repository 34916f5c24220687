"""The place where the trials of reliability.py happen: finished runs, and a copy for each trial."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import tomli_w
from trials import Ended, run

from tnvmc.storage.hdf5 import read_parameters
from tnvmc.storage.seals import read_lines, unsealed_json

BAD = ("silent", "traceback", "untold", "crash", "hang", "worker left")

SETTINGS: dict[str, Any] = {
    "lattice": {"shape": [2, 2]},
    "hamiltonian": {"model": "heisenberg"},
    "ansatz": {"D": 2, "init": "random"},
    "sampler": {"n_walkers": 4, "n_samples": 8, "chunk": 2, "n_thin": 1, "n_burn": 1},
    "optimizer": {"momentum": 0.5},
    "measure": {"n_samples": 16, "n_burn": 1, "chi": 4, "ladder": False},
    "run": {"threads": 1, "checkpoint_every": 2},
    "stage": [{"steps": 3}, {"steps": 4, "D": 3, "evolve": 1}],
}
COMPARED: dict[str, Any] = {
    **{name: SETTINGS[name] for name in ("lattice", "hamiltonian", "run")},
    "sampler": {"n_walkers": 4, "n_samples": 8, "chunk": 2},
    "measure": {"n_samples": 16, "n_burn": 1, "ladder": False},
    "compare": {"steps": 3},
    "ansatz": [
        {"name": "product", "kind": "product"},
        {"name": "peps", "D": 2, "chi": 4, "init": "random"},
    ],
}
TIMES = (
    "seconds", "seconds_per_sample", "wall_time_s", "config", "version", "provenance",
    "seconds_per_step", "compile_seconds", "seconds_per_effective_sample",
)  # fmt: skip


def plain(value: Any) -> Any:
    """A value without times and places."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if key not in TIMES}
    return [plain(each) for each in value] if isinstance(value, list) else value


def outcome(folder: Path) -> Any:
    """All that two equal runs share; raises ValueError where a file was changed."""
    _, theta = read_parameters(folder / "checkpoint.h5")
    lines = read_lines((folder / "history.jsonl").read_bytes())
    result = unsealed_json((folder / "result.json").read_text())
    return theta.tobytes(), plain(list(lines.records)), plain(result)


def table_of(folder: Path) -> Any:
    """What two equal comparisons share."""
    runs = [outcome(path.parent) for path in sorted(folder.glob("*/config.toml"))]
    return runs, plain(unsealed_json((folder / "comparison.json").read_text()))


class Workplace:
    """A folder for trials: finished runs to start from, a copy for each trial.

    whole: measured and converged.  alien: of another coupling, with a state of the same shape.
    twin: with the settings of whole.  pooled: that of two workers.  compared: a comparison.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.logs = path, path / "logs"
        self.logs.mkdir()
        (path / "study.toml").write_text(tomli_w.dumps(SETTINGS))
        (path / "both.toml").write_text(tomli_w.dumps(COMPARED))
        others = {"alien": ["hamiltonian.J=2.0"], "pooled": ["run.threads=2"]}
        for name in ("whole", "twin", *others):
            changes = [word for each in others.get(name, ()) for word in ("--set", each)]
            self.do("run", "study.toml", "--out", name, *changes)
            self.do("measure", name, "--n-samples", "32")
            self.do("converge", name, "--chi", "3", "--n-samples", "16")
        self.do("compare", "both.toml", "--out", "compared")

    def do(self, *arguments: str) -> Ended:
        ended = run(arguments, self.path, self.logs)
        assert ended.kind == "ok", ended
        return ended

    def copy(self, name: str = "whole") -> Path:
        folder = self.path / "trial"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.path / name, folder, symlinks=True)
        return folder
