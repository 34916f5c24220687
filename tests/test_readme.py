"""The README: its example runs as printed, and the files and commands it names exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tnvmc import exact_ground_state

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.slow
@pytest.mark.ci
def test_the_examples_run_and_come_close_to_the_ground_states() -> None:
    names: dict[str, Any] = {}
    for example in EXAMPLES:
        exec(compile(example, "README.md", "exec"), names)  # noqa: S102 - the point of the test
    for measured, operator in (("result", "hamiltonian"), ("energy", "mine")):
        found, exact = names[measured], exact_ground_state(names[operator]).energy_per_site
        assert found.energy_per_site > exact - 4 * found.energy_per_site_error
        assert found.energy_per_site < exact + 0.01


def test_every_file_that_is_named_exists() -> None:
    named = re.findall(r"(?:scripts|benchmarks|tests)/[\w./]+\.(?:py|sh|toml)", README)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
