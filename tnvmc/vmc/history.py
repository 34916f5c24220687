"""The steps of an optimisation: a list of records that gives columns, a table and a picture."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Self, SupportsIndex, overload

import numpy as np

from tnvmc.backend.arguments import whole
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.shown import Shown, Table, data_frame, drawn, fixed, with_error
from tnvmc.vmc.orthogonal import Overlap
from tnvmc.vmc.results import StepRecord

Array = Any

_SHOWN = 10  # steps of a table; of more the first and the last half


class History(list[StepRecord], Shown):
    """Records of steps, as `VMC.run` and `load_run` give them: a list, slices included.

    >>> history = vmc.run(60)  # doctest: +SKIP
    >>> history[-1].energy, history.column("energy_per_site")  # doctest: +SKIP
    >>> ax = history.plot()  # doctest: +SKIP

    Energies of records are totals; the columns "energy_per_site" and "energy_per_site_error" are
    those divided by N.  A history plus a history is one; plus another list it is a list.

    Args:
        records: one per step.
        n_sites, units: of the Hamiltonian.
        labels: what a run with stages says of a step beside its record, by the number of the step.
    """

    def __init__(
        self,
        records: Iterable[StepRecord],
        n_sites: int,
        units: str,
        labels: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__(records)
        self.n_sites = whole("History", "n_sites", n_sites)
        self.units = units
        self.labels = dict(labels or {})

    @classmethod
    def from_lines(cls, lines: Iterable[Mapping[str, Any]], n_sites: int, units: str) -> Self:
        """Read the lines of history.jsonl; null becomes NaN where a record has a number.

        Raises:
            KeyError, TypeError: a line that is no record of a step.
        """
        records, labels = [], {}
        for line in lines:
            records.append(_record(line))
            if more := {key: value for key, value in line.items() if key not in _FIELDS}:
                labels[records[-1].step] = more
        return cls(records, n_sites, units, labels)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """All columns, each of one entry per step: (T,) floats, bools, or objects for what is no
        number.
        """
        names = [*_FIELDS, *dict.fromkeys(key for more in self.labels.values() for key in more)]
        found = {name: self._values(name) for name in names}
        for name in self[0].optimizer if self and "time" in self[0].optimizer else ():
            found[name] = np.array([record.optimizer[name] for record in self], dtype=np.float64)
        per_site = {f"{key.replace('energy', 'energy_per_site')}": key for key in _ENERGIES}
        return found | {name: found[key] / self.n_sites for name, key in per_site.items()}

    def column(self, name: str) -> np.ndarray:
        """Give one column (T,); NaN where a step says nothing.

        Raises:
            KeyError: no column of this name; the error lists them.
        """
        known = self.columns
        if name not in known:
            raise KeyError(f"history: no column {name!r}; there are {', '.join(known)}")
        return known[name]

    def _values(self, name: str) -> np.ndarray:
        values = [
            getattr(record, name) if name in _FIELDS else self.labels.get(record.step, {}).get(name)
            for record in self
        ]
        if name == "undone":
            return np.array(values, dtype=bool)
        if name == "step":
            return np.array(values, dtype=np.int64)
        if all(value is None or isinstance(value, int | float) for value in values):
            return np.array(values, dtype=np.float64)  # None becomes NaN
        found = np.empty(len(values), dtype=object)
        found[:] = values
        return found

    def to_dataframe(self) -> Any:
        """Give a pandas DataFrame, one row per step, of `columns`.

        Raises:
            ImportError: pandas is not installed.
        """
        return data_frame(self.columns)

    def plot(self, ax: Any = None, against: str = "step", quantity: str = "energy") -> Any:
        """Draw the steps into matplotlib axes, and give these; see `tnvmc.plot.history`."""
        return drawn("history", self, ax, against=against, quantity=quantity)

    @overload
    def __getitem__(self, which: SupportsIndex) -> StepRecord: ...
    @overload
    def __getitem__(self, which: slice) -> "History": ...
    def __getitem__(self, which: SupportsIndex | slice) -> "StepRecord | History":
        if isinstance(which, slice):
            return History(super().__getitem__(which), self.n_sites, self.units, self.labels)
        return super().__getitem__(which)

    def __add__(self, other: list[Any]) -> Any:
        if not isinstance(other, History):
            return list(self) + other
        if (self.n_sites, self.units) != (other.n_sites, other.units):
            raise ValueError(
                f"history: of {self.n_sites} sites ({self.units} units) and of {other.n_sites} "
                f"({other.units} units); join those of one Hamiltonian"
            )
        both = [*self, *other]
        return History(both, self.n_sites, self.units, self.labels | other.labels)

    def _per_site(self, record: StepRecord) -> str:
        return with_error(record.energy / self.n_sites, record.energy_error / self.n_sites)

    def __repr__(self) -> str:
        if not self:
            return "<History: no steps>"
        last = next((record for record in reversed(self) if not record.undone), self[-1])
        ends = self._per_site(self[0]), self._per_site(last)
        undone = sum(record.undone for record in self)
        told = f", {undone} undone" if undone else ""
        count = f"{len(self)} step{'s' if len(self) > 1 else ''}{told}"
        return f"<History: {count}, energy per site {ends[0]} -> {ends[1]} ({self.units} units)>"

    def __str__(self) -> str:
        return "\n".join([repr(self), *map(str, self._table().notes)])

    def _table(self) -> Table:
        count, half = len(self), _SHOWN // 2
        rows = [self._row(record) for record in self[: half if count > _SHOWN else count]]
        if count > _SHOWN:
            rows += [("...", *[""] * (len(_COLUMNS) - 1)), *map(self._row, self[-half:])]
        columns = (*_COLUMNS[:1], f"energy ({self.units})", *_COLUMNS[2:])
        of_start = self[0].diagnostics if self and not self[0].step else ()
        notes = [each for each in of_start if each.status != "good"]
        return Table(f"{count} steps, {self.n_sites} sites", columns, rows, notes)

    def _row(self, record: StepRecord) -> tuple[str, ...]:
        acceptance = "" if record.acceptance is None else f"{record.acceptance:.2f}"
        return (
            str(record.step + 1), with_error(record.energy, record.energy_error),
            self._per_site(record), fixed(record.variance / self.n_sites, 5), acceptance,
            f"{record.learning_rate:.3g}", "undone" if record.undone else "",
        )  # fmt: skip


_COLUMNS = (
    "step", "energy", "energy per site", "variance per site", "acceptance", "learning rate", "",
)  # fmt: skip
_FIELDS = [f.name for f in fields(StepRecord)]
_ENERGIES = ("energy", "energy_error")
_NUMBERS = ("energy", "energy_error", "variance", "learning_rate", "step_norm", "seconds")
"""That a record always has; a file has null where they are not finite."""


def _record(line: Mapping[str, Any]) -> StepRecord:
    values = {name: line[name] for name in _FIELDS if name in line}
    for name in _NUMBERS:
        values[name] = float("nan") if values[name] is None else float(values[name])
    found = tuple(Diagnostic.from_dict(each) for each in values["diagnostics"])
    overlaps = tuple(Overlap(**each) for each in values.get("overlaps", ()))
    return StepRecord(**{**values, "diagnostics": found, "overlaps": overlaps})
