"""The README: short, its code runs as printed, what it names exists.

`test_blocks` looks at its commands, files and kinds of blocks.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.test_docs import blocks
from tnvmc import exact_ground_state
from tnvmc.app.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
MOST_WORDS = 900
"""Outside of code; more is for the documentation."""
SMALL = {
    "run": ["--set", "optimizer.steps=2", "--set", "sampler.n_samples=128", "--set", "run.threads=1",
            "--set", "measure.n_samples=256"],
    "measure": ["--n-samples", "128", "--no-pairs", "--set", "run.threads=1"],
}  # fmt: skip
"""What makes the commands small enough for a test."""


@pytest.mark.slow
@pytest.mark.ci
def test_the_examples_run_and_come_close_to_the_ground_states() -> None:
    names: dict[str, Any] = {}
    for block in blocks(ROOT / "README.md"):
        if block.kind == "python":
            exec(compile(block.body, "README.md", "exec"), names)  # noqa: S102 - the point of it
    compared = [("result", "hamiltonian"), ("energy", "mine")]
    assert {name for pair in compared for name in pair} <= set(names)
    for measured, operator in compared:
        found, exact = names[measured], exact_ground_state(names[operator]).energy_per_site
        assert found.energy_per_site > exact - 4 * found.energy_per_site_error
        assert found.energy_per_site < exact + 0.01


@pytest.mark.slow
@pytest.mark.ci
def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    monkeypatch.chdir(tmp_path)
    commands = [
        shlex.split(command, comments=True)
        for block in blocks(ROOT / "README.md") if block.kind == "console"
        for command, _ in block.commands
    ]  # fmt: skip
    for program, *arguments in commands:
        if program == "tnvmc":
            assert main([*arguments, *SMALL.get(arguments[0], [])]) == 0, arguments


def test_it_is_short() -> None:
    text = re.sub(r"^```.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)|[|*#]|--+", " ", text)  # no targets of links, no rules of tables
    assert len(text.split()) < MOST_WORDS


def test_every_file_that_is_named_exists() -> None:
    named = re.findall(r"(?:scripts|benchmarks|tests)/[\w./]+\.(?:py|sh|toml)", README)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_page_and_picture_that_is_linked_exists() -> None:
    linked = [target for target in re.findall(r"\]\(([^)#]+)[^)]*\)", README) if ":" not in target]
    assert linked
    assert [name for name in linked if not (ROOT / name).exists()] == []
