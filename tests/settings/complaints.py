"""What is wrong with settings, as data, for the tests of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate
from tnvmc.settings.problems import NOTHING, ConfigError, ConfigProblem

Found = tuple[Any, ...]


def problems(data: Mapping[str, Any], overrides: Sequence[str] = ()) -> list[ConfigProblem]:
    """All that is wrong with settings."""
    with pytest.raises(ConfigError) as caught:
        complete(validate(data, overrides))
    assert all("\n" not in line for line in caught.value.lines)
    return list(caught.value.problems)


def told(data: Mapping[str, Any], overrides: Sequence[str] = ()) -> list[Found]:
    """All that is wrong: key, code, and the value if one is named."""
    return [
        (found.key, found.code) + (() if found.value is NOTHING else (found.value,))
        for found in problems(data, overrides)
    ]
