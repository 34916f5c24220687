"""scripts/slurm.sh: stopped by the signal of the queue it goes back, and goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SETTINGS = """
[lattice]
shape = [2, 3]

[hamiltonian]
model = "heisenberg"

[ansatz]
D = 2

[sampler]
n_walkers = 8
n_samples = 16

[optimizer]
steps = {steps}
"""

COMMANDS = {
    # As srun does for --signal=TERM@120, once the first steps are made.
    "srun": """
"$@" & run=$!
if [ -n "${TOLD-}" ]; then
    until [ -s runs/slurm/history.jsonl ]; do sleep 0.05; done
    kill -TERM $run
fi
wait $run
""",
    "scontrol": 'echo "$@" >> scontrol.txt',
    "tnvmc": f'exec {sys.executable} -m tnvmc "$@"',
}


def job(folder: Path, **environment: str) -> int:
    given = os.environ | {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SLURM_CPUS_PER_TASK": "1",
        "SLURM_JOB_ID": "17",
    }
    command = ["bash", str(ROOT / "scripts/slurm.sh"), "run.toml", "runs/slurm"]
    ended = subprocess.run(
        command, cwd=folder, env=given | environment, capture_output=True, check=False
    )
    return ended.returncode


@pytest.mark.slow
@pytest.mark.ci
def test_a_job_that_is_told_to_stop_goes_back_and_goes_on(tmp_path: Path) -> None:
    for name, body in COMMANDS.items():
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{body}")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "run.toml").write_text(SETTINGS.format(steps=100_000))
    assert job(tmp_path, TOLD="yes") == 143
    assert (tmp_path / "scontrol.txt").read_text() == "requeue 17\n"
    made = len((tmp_path / "runs/slurm/history.jsonl").read_text().splitlines())
    assert made > 0
    assert job(tmp_path, TOLD="yes") == 143  # goes on, and is stopped again
    assert len((tmp_path / "runs/slurm/history.jsonl").read_text().splitlines()) >= made
    assert (tmp_path / "scontrol.txt").read_text() == "requeue 17\n" * 2
