"""The settings of several starts: one state from several seeds, `run.starts` of them.

Every start becomes the completed settings of an ordinary run, and so does the measurement of the lowest with new samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tnvmc.limits import MOST_STARTS, Json
from tnvmc.operators.term import Operator
from tnvmc.settings.build import build_operator
from tnvmc.settings.config import Settings
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate, with_overrides
from tnvmc.settings.named_runs import check_parts
from tnvmc.settings.problems import NOTHING, ConfigError, conflict


@dataclass(frozen=True)
class Starts:
    """Starts of one state, whose runs can be built."""

    data: Json  #: of the file, with what was set on the command line
    out: Path
    runs: Mapping[str, Settings]  #: completed, by the name of the folder
    operator: Operator

    @property
    def settings(self) -> Settings:
        """Completed settings of the first."""
        return next(iter(self.runs.values()))

    def folder_again(self, name: str) -> Path:
        """Where the state of the start of this name is measured again: each has a folder of its own."""
        return self.out / name.replace("start", "again")

    def again(self, name: str, state: Path) -> Settings:
        """Settings that measure the state in a file, of the start of this name, with samples of a seed of its own."""
        run = self.runs[name]
        changes: dict[str, dict[str, Any]] = {
            "run": {"out": str(self.folder_again(name)), "seed": _later(run, MOST_STARTS)},
            "optimizer": {"steps": 0, "plateau": None, "seconds": None},
            "ansatz": {"init": str(state), "init_noise": None},
        }
        return run.model_copy(update={"stage": None}).changed(changes)


def holds_starts(data: Json, overrides: Sequence[str] = ()) -> bool:
    """Tell whether the content of a file, with ``--set`` overrides, asks for several starts; one that is wrong is told later."""
    try:
        run = with_overrides(data, overrides).get("run")
    except ConfigError:
        return False
    asked = run.get("starts") if isinstance(run, Mapping) else None
    return isinstance(asked, int) and asked > 1


def starts(data: Json, overrides: Sequence[str] = (), default_name: str = "starts") -> Starts:
    """Check the content of a file, with ``--set`` overrides, and complete the settings of its runs.

    The runs have the seeds `run.seed`, `run.seed` + 1 and so on, of their starts as of their samples.

    Raises:
        ConfigError: one line for each problem.
    """
    merged = with_overrides(data, overrides)
    shared = validate(merged)
    if shared.run.starts in (None, 1):
        asked = NOTHING if shared.run.starts is None else shared.run.starts
        raise ConfigError(conflict("run.starts", "must be 2 or more for several starts", asked))
    out = Path(shared.run.out or Path("runs") / default_name)
    operator = build_operator(shared)
    runs = {
        f"start-{number}": _as_run(shared, number, out / f"start-{number}")
        for number in range(1, shared.run.starts + 1)
    }
    try:
        check_parts(next(iter(runs.values())), operator)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return Starts(merged, out, runs, operator)


def _as_run(shared: Settings, number: int, out: Path) -> Settings:
    """The settings of one start."""
    own = {"starts": None, "out": str(out), "seed": _later(shared, number - 1)}
    return complete(shared.changed({"run": own}))


def _later(settings: Settings, by: int) -> int:
    """The seed of a run, so many later."""
    return (settings.run.seed + by) % 2**63
