"""Several sectors from their file to the table of gaps: ``tnvmc run`` on a file with [[sector]].

Each sector is an ordinary run in a folder of its own, made by the code of any other run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tnvmc.analysis.levels import sector_references
from tnvmc.analysis.reference import Reference
from tnvmc.analysis.sectors import SectorTable, tabulate_sectors
from tnvmc.app.several import (
    encoded,
    keep,
    make_run,
    make_runs,
    refuse_held,
    refuse_in_use,
    table_before,
    write_settings,
)
from tnvmc.report.figures import style
from tnvmc.report.figures.levels import draw_levels
from tnvmc.report.plots import FOLDER, PictureError, chosen
from tnvmc.report.sectors import headline, markdown, plain_text
from tnvmc.report.tables import terminal_width
from tnvmc.settings.config import Settings
from tnvmc.settings.load import read_toml, with_out
from tnvmc.settings.problems import ConfigError
from tnvmc.settings.sectors import Sectors, holds_sectors, sectors
from tnvmc.storage.run_files import asks_the_same, is_current, read_run, steps_done
from tnvmc.storage.run_folder import (
    CONFIG,
    FolderError,
    check_settings,
)
from tnvmc.storage.seals import sealed_json

SETTINGS, TABLE, PAGE = "sectors.toml", "sectors.json", "sectors.md"

_FORMATS = ("png", "pdf")
_FIXED: Mapping[str, Callable[[Any], Any]] = {
    "magnetisation": lambda run: run["sampler"].get("magnetisation"),
    "symmetrise": lambda run: run["ansatz"].get("symmetrise"),
    "characters": lambda run: run["ansatz"].get("characters"),
    "seed": lambda run: run["run"]["seed"],
    "orthogonal_to": lambda run: [Path(kept["run"]).name for kept in run.get("orthogonal", ())],
    "penalty": lambda run: [kept.get("penalty") for kept in run.get("orthogonal", ())],
}
"""Settings that a run which was begun keeps: with others it would be of another state."""


def is_sector_file(path: str | Path) -> bool:
    """Tell whether a settings file holds [[sector]]; a file that cannot be read is told later."""
    try:
        return holds_sectors(read_toml(Path(path)))
    except ConfigError:
        return False


def is_sectors(folder: str | Path) -> bool:
    """Tell whether a folder holds the runs of several sectors."""
    return (Path(folder) / SETTINGS).is_file()


def sectors_file(
    path: str | Path, out: str | Path | None = None, overrides: Sequence[str] = ()
) -> SectorTable:
    """Run the sectors of a TOML file with [[sector]] as ``tnvmc run`` does, and give their table.

    >>> table = tnvmc.sectors_file("sectors.toml", "runs/sectors")  # doctest: +SKIP
    >>> table.gaps["triplet"].energy, table.gaps["triplet"].error  # doctest: +SKIP

    Args:
        path: of the file.
        out: folder to write; that of the settings by default.
        overrides: settings to change, as ``"sector.2.steps=40"``.

    Returns:
        Energies of all sectors, and gaps above the first.

    Raises:
        ConfigError: settings that cannot run, of any sector; nothing has been started.
        FolderError: `out` holds a run or sectors already.
        DiskError: no space left.
        SeveralInterrupted: Ctrl-C or SIGTERM, with a checkpoint written.
    """
    path = Path(path)
    asked = sectors(read_toml(path), with_out(overrides, out), path.stem)
    refuse_held(asked, SETTINGS, "sectors", "tnvmc run --resume")
    return _make(asked)


def resume_sectors(
    folder: str | Path, overrides: Sequence[str] = (), file: str | Path | None = None
) -> SectorTable:
    """Go on with the sectors in a folder, by its own settings or those of another file.

    Runs that are finished, and whose settings ask for nothing more, are kept.

    Raises:
        FolderError: no sectors there, or another process is at them.
        ConfigError: also other quantum numbers than a run was begun with.
        DiskError, SeveralInterrupted: as `sectors_file`.
    """
    asked = _settings(Path(folder), overrides, file)
    _refuse_others(asked)
    return _make(asked)


def _settings(folder: Path, overrides: Sequence[str] = (), file: Any = None) -> Sectors:
    if not is_sectors(folder):
        raise FolderError(f"{folder}: holds no sectors to resume ({SETTINGS} is missing)")
    check_settings(folder / SETTINGS)
    return sectors(read_toml(Path(file or folder / SETTINGS)), with_out(overrides, folder))


def _refuse_others(asked: Sectors) -> None:
    """Refuse other quantum numbers than those by which a run was begun: its steps would be of another state.

    And more steps of a state that another one has been kept orthogonal to, which was the state as it is.
    """
    begun = {
        name: read_toml(asked.out / name / CONFIG)
        for name in asked.runs
        if (asked.out / name / CONFIG).is_file()
    }
    for name, before in begun.items():
        now, place = asked.runs[name].as_dict(), asked.out / name
        for key, of_run in {**_FIXED, **_of_problem(now)}.items():
            if of_run(before) != of_run(now):
                raise ConfigError(
                    f"sector '{name}': {key} = {_told(of_run(now))}: the run in {place} was begun with "
                    f"{_told(of_run(before))}; choose another --out"
                )
        dependent = [each for each in begun if name in asked.orthogonal_to[each]]
        if dependent and not _asks_no_more(before, now):
            raise ConfigError(
                f"sector '{name}': would go on with other settings, and '{dependent[0]}' is kept orthogonal to its "
                "state as it is; choose another --out, or change settings of that one only (sector.N.steps)"
            )


def _of_problem(now: Mapping[str, Any]) -> dict[str, Callable[[Any], Any]]:
    """Settings of the Hamiltonian and the state by their names, as `_FIXED`."""
    keys = {"lattice": now["lattice"], "hamiltonian": now["hamiltonian"], "ansatz": ("kind", "D")}
    return {
        f"{section}.{key}": partial(_setting, section, key)
        for section, names in keys.items()
        for key in names
    }


def _setting(section: str, key: str, run: Mapping[str, Any]) -> Any:
    return run[section].get(key)


def _told(value: Any) -> str:
    """Write a setting: what is not set is the default."""
    if isinstance(value, list):
        return ", ".join(map(_told, value)) or "none"
    return "the default" if value is None else str(value)


def _asks_no_more(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Tell whether a run with the settings `before` has done what it is asked for `now`, or made more steps."""
    made, asked = before["optimizer"]["steps"], now["optimizer"]["steps"]
    steps = {**now["optimizer"], "steps": made}
    return asked <= made and asks_the_same(before, {**now, "optimizer": steps})


def _make_or_keep(settings: Settings, reference: Reference) -> None:
    """Make a run or go on with it; one that is finished and was asked for more steps by itself stays."""
    folder = Path(settings.run.out or "")
    if (folder / CONFIG).is_file():
        run = read_run(folder)
        if is_current(run) and not run.damage and _asks_no_more(run.config, settings.as_dict()):
            print(f"finished after {steps_done(run)} steps; kept", flush=True)
            return
    make_run(settings, reference)


def _make(asked: Sectors) -> SectorTable:
    """Make every run, then the table and the picture."""
    refuse_in_use(asked)
    write_settings(asked, SETTINGS)
    references = sector_references(asked)

    failed = make_runs(
        asked,
        lambda name: _make_or_keep(asked.runs[name], references[name]),
        "sector",
        f"tnvmc run --resume {asked.out}",
    )
    table = tabulate_sectors(asked, references, failed)
    images = _pictures(table, asked.out / FOLDER, _FORMATS) if table.levels else {}
    keep({**_pages(asked, table), **images})
    drawn = ", ".join(str(place) for place in images)
    print(f"table: {asked.out / PAGE}" + (f"; picture: {drawn}" if drawn else ""), flush=True)
    return table


def _pages(asked: Sectors, table: SectorTable) -> dict[Path, bytes]:
    """The files of the table."""
    return {
        asked.out / TABLE: sealed_json(table.as_dict(), indent=2),
        asked.out / PAGE: markdown(table).encode(),
    }


def _pictures(table: SectorTable, folder: Path, formats: Sequence[str]) -> dict[Path, bytes]:
    """The picture of the levels, in these formats.

    Raises:
        PictureError: a file in the way that was not made here.
    """
    return encoded({"levels": draw_levels(table.levels)}, folder, formats)


def redraw_sectors(
    folder: str | Path, out: str | Path | None = None, formats: str = ",".join(_FORMATS)
) -> tuple[Path, ...]:
    """Draw the picture of sectors again, as ``tnvmc plot`` does, from what their runs hold now.

    Raises:
        FolderError: no sectors there.
        PictureError: an unknown format, a file in the way, nothing to draw.
        ConfigError: settings that cannot be read any more.
    """
    endings = chosen(formats, style.FORMATS, "--format")
    asked, table = held_sectors(Path(folder))
    if not table.levels:
        raise PictureError(f"{folder}: nothing to draw: none of its runs is finished")
    files = _pictures(table, asked.out / FOLDER if out is None else Path(out), endings)
    keep(files)
    return tuple(files)


def retabulate_sectors(folder: str | Path) -> tuple[Path, ...]:
    """Write the table of sectors again, as ``tnvmc report`` does; raises as `redraw_sectors`."""
    files = _pages(*held_sectors(Path(folder)))
    keep(files)
    return tuple(files)


def held_sectors(folder: Path) -> tuple[Sectors, SectorTable]:
    """Give the sectors in a folder, and the table of what their runs hold now.

    What the last table said of runs that failed is kept.

    Raises:
        FolderError: no sectors there.
        ConfigError: settings that cannot be read any more.
    """
    asked = _settings(folder)
    _, failed = table_before(folder, TABLE)
    return asked, tabulate_sectors(asked, sector_references(asked), failed)


def sectors_text(table: SectorTable) -> str:
    """Write what is printed of a table: ``tnvmc run`` and ``tnvmc show``."""
    text = [headline(table)]
    if table.levels or table.left_out:
        text += ["", plain_text(table, terminal_width())]
    return "\n".join(text)
