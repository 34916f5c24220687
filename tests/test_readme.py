"""The README: its example runs as printed, and the files and commands it names exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.slow
@pytest.mark.ci
def test_the_python_example_runs_and_finds_the_ground_state(capsys: pytest.CaptureFixture) -> None:
    example = EXAMPLES[0]
    names: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), names)  # noqa: S102 - the point of the test
    result, exact = names["result"], -0.5743254416
    assert result.energy_per_site > exact - 4 * result.energy_per_site_error
    assert result.energy_per_site < exact + 0.01
    assert len(capsys.readouterr().out.splitlines()) == 42


def test_the_example_of_a_network_lowers_the_energy() -> None:
    pytest.importorskip("flax")
    names: dict[str, Any] = {}
    exec(compile(EXAMPLES[1], "README.md", "exec"), names)  # noqa: S102 - the point of the test
    first, last = names["history"][0], names["history"][-1]
    assert last.energy < first.energy - 1.0
    assert len(EXAMPLES) == 2


def test_every_file_that_is_named_exists() -> None:
    named = re.findall(r"(?:scripts|benchmarks|tests)/[\w./]+\.(?:py|sh|toml)", README)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
