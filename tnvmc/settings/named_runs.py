"""Several runs of one file: names that can be folders, and whether each can be built."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tnvmc.ansatz.protocol import Ansatz
from tnvmc.backend.device import namespace_of
from tnvmc.operators.term import Operator
from tnvmc.settings.ansatz_settings import leading
from tnvmc.settings.build import build_ansatz, build_sampler, build_theta
from tnvmc.settings.checks import check_symmetries
from tnvmc.settings.config import Settings
from tnvmc.settings.problems import ConfigProblem, conflict

_NAME = re.compile(r"\w[\w .,=+()-]*")
_RESERVED = ("pictures",)


def name_problem(where: str, name: Any, taken: Iterable[str], label: str) -> ConfigProblem | None:
    """Find why something cannot be the name of a run and of its folder; None where it can.

    Args:
        where: its key.
        name: it.
        taken: names of the runs before.
        label: what it should be, with an example.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.lower() in _RESERVED:
        return ConfigProblem(where, "not_allowed", f"{label}; this cannot be a folder", name)
    if name.lower() in map(str.lower, taken):
        return conflict(where, "taken by a block before", name)
    return None


def check_parts(settings: Settings, operator: Operator) -> Ansatz:
    """Build all that a run is made of, but for the evolution of its start, and give its wave function.

    Raises:
        ValueError: parts that do not fit together.
    """
    namespace_of(settings.run.device)
    ansatz = build_ansatz(settings, operator)
    build_sampler(settings, operator)
    check_symmetries(settings, operator)
    if (
        leading(settings.ansatz).init != "simple_update"
    ):  # which takes its time, and fits a PEPS or an MPS
        build_theta(settings, operator, ansatz)
    return ansatz
