"""Several starts of one state: ``tnvmc run`` on settings with `run.starts`, from the file to the lowest energy.

Each start is an ordinary run in a folder of its own, and so is the measurement of the lowest with new samples: the lowest
of several energies with errors is lower than its state on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tnvmc.analysis.starts import StartTable, tabulate_starts, unlike
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
from tnvmc.report.figures import draw, style
from tnvmc.report.plots import FOLDER, PictureError, chosen
from tnvmc.report.starts import headline, markdown, plain_text
from tnvmc.report.tables import terminal_width
from tnvmc.settings.load import read_toml, with_out
from tnvmc.settings.problems import ConfigError
from tnvmc.settings.starts import Starts, holds_starts, starts
from tnvmc.storage.kept_files import measured_file
from tnvmc.storage.run_files import read_run
from tnvmc.storage.run_folder import CONFIG, FolderError, check_settings, refuse_occupied
from tnvmc.storage.seals import sealed_json

SETTINGS, TABLE, PAGE = "starts.toml", "starts.json", "starts.md"

_FORMATS = ("png", "pdf")
_RESUME = "tnvmc run --resume"


def is_starts_file(path: str | Path, overrides: Sequence[str] = ()) -> bool:
    """Tell whether settings ask for several starts; a file that cannot be read is told later."""
    try:
        return holds_starts(read_toml(Path(path)), overrides)
    except ConfigError:
        return False


def is_starts(folder: str | Path) -> bool:
    """Tell whether a folder holds the runs of several starts."""
    return (Path(folder) / SETTINGS).is_file()


def starts_file(
    path: str | Path, out: str | Path | None = None, overrides: Sequence[str] = ()
) -> StartTable:
    """Run a TOML file from several seeds as ``tnvmc run`` does, and measure the lowest energy again.

    >>> table = tnvmc.starts_file("small.toml", "runs/small", ["run.starts=5"])  # doctest: +SKIP
    >>> table.measured.energy, table.measured.energy_error  # doctest: +SKIP

    Args:
        path: of the file.
        out: folder to write; that of the settings by default.
        overrides: settings to change, as ``"optimizer.steps=40"``.

    Returns:
        Energies of all starts, and that of the lowest with new samples, which is the one to quote.

    Raises:
        ConfigError: settings that cannot run, or that ask for one start; nothing has been started.
        FolderError: `out` holds a run or starts already.
        DiskError: no space left.
        SeveralInterrupted: Ctrl-C or SIGTERM, with a checkpoint written.
    """
    path = Path(path)
    asked = starts(read_toml(path), with_out(overrides, out), path.stem)
    refuse_held(asked, SETTINGS, "several starts", _RESUME)
    for each in sorted(asked.out.glob("again-*")):
        refuse_occupied(each)
    return _make(asked)


def resume_starts(
    folder: str | Path, overrides: Sequence[str] = (), file: str | Path | None = None
) -> StartTable:
    """Go on with the starts in a folder, by its own settings or those of another file; `run.starts` may be larger.

    Raises:
        FolderError: no starts there, or another process is at them.
        ConfigError: also settings other than those that a start was begun with, or fewer starts.
        DiskError, SeveralInterrupted: as `starts_file`.
    """
    asked = _settings(Path(folder), overrides, file)
    _refuse_others(asked)
    return _make(asked)


def _settings(
    folder: Path, overrides: Sequence[str] = (), file: str | Path | None = None
) -> Starts:
    if not is_starts(folder):
        raise FolderError(f"{folder}: holds no starts to resume ({SETTINGS} is missing)")
    check_settings(folder / SETTINGS)
    return starts(read_toml(Path(file or folder / SETTINGS)), with_out(overrides, folder))


def _refuse_others(asked: Starts) -> None:
    """Refuse what would make starts unlike each other, or leave one out: their energies are compared."""
    begun = {file.parent.name for file in asked.out.glob(f"start-*/{CONFIG}")}
    if left := sorted(begun - set(asked.runs)):
        raise ConfigError(
            f"run.starts = {len(asked.runs)}: {asked.out} holds {left[-1]} already; ask for as many at least, or choose "
            "another --out"
        )
    for name in sorted(begun):
        before, now = read_toml(asked.out / name / CONFIG), asked.runs[name].as_dict()
        if apart := unlike(before, now):
            raise ConfigError(
                f"{asked.out / name} was begun with other settings ({', '.join(apart)}), and starts are compared; choose another "
                "--out, or go on with one of them by itself"
            )


def _make(asked: Starts) -> StartTable:
    """Make every run, measure the lowest again, then write the table and the pictures."""
    refuse_in_use(asked)
    write_settings(asked, SETTINGS)
    command = f"{_RESUME} {asked.out}"
    failed = make_runs(asked, lambda name: make_run(asked.runs[name]), "start", command)
    table = tabulate_starts(asked, failed)
    if table.lowest is not None and table.measured is None:
        failed |= _measure_again(asked, table.lowest, command)
        table = tabulate_starts(asked, failed)
    keep(_pages(asked, table))
    images = _pictures(asked, table, asked.out / FOLDER, _FORMATS)
    keep(images)
    drawn = ", ".join(str(place) for place in images)
    print(f"table: {asked.out / PAGE}" + (f"; pictures: {drawn}" if drawn else ""), flush=True)
    return table


def _measure_again(asked: Starts, lowest: str, command: str) -> dict[str, str]:
    """Measure the state of a start with new samples, and give why that failed, by the name of its folder."""
    state = measured_file(asked.out / lowest)
    assert state is not None
    print(f"{lowest} is the lowest; its state is measured again", flush=True)
    settings = asked.again(lowest, state)
    folder = asked.folder_again(lowest)
    again = Starts(asked.data, asked.out, {folder.name: settings}, asked.operator)
    return make_runs(again, lambda _: make_run(settings), "measurement", command)


def _pages(asked: Starts, table: StartTable) -> dict[Path, bytes]:
    """The files of the table."""
    return {
        asked.out / TABLE: sealed_json(table.as_dict(), indent=2),
        asked.out / PAGE: markdown(table).encode(),
    }


def _pictures(
    asked: Starts, table: StartTable, folder: Path, formats: Sequence[str]
) -> dict[Path, bytes]:
    """The energies of all starts on the same axes, in these formats.

    Raises:
        PictureError: a file in the way that was not made here.
    """
    runs = [read_run(asked.out / each.name) for each in table.starts]
    figures = draw(runs, ("energy",), None, "step").figures if runs else {}
    return encoded(figures, folder, formats)


def redraw_starts(
    folder: str | Path, out: str | Path | None = None, formats: str = ",".join(_FORMATS)
) -> tuple[Path, ...]:
    """Draw the picture of several starts again, as ``tnvmc plot`` does, from what their runs hold now.

    Raises:
        FolderError: no starts there.
        PictureError: an unknown format, a file in the way, nothing to draw.
        ConfigError: settings that cannot be read any more.
    """
    endings = chosen(formats, style.FORMATS, "--format")
    asked, table = held_starts(Path(folder))
    files = _pictures(asked, table, asked.out / FOLDER if out is None else Path(out), endings)
    if not files:
        raise PictureError(
            f"{folder}: nothing to draw: none of its runs is finished and has made steps"
        )
    keep(files)
    return tuple(files)


def retabulate_starts(folder: str | Path) -> tuple[Path, ...]:
    """Write the table of several starts again, as ``tnvmc report`` does; raises as `redraw_starts`."""
    files = _pages(*held_starts(Path(folder)))
    keep(files)
    return tuple(files)


def held_starts(folder: Path) -> tuple[Starts, StartTable]:
    """Give the starts in a folder, and the table of what their runs hold now.

    What the last table said of runs that failed is kept.

    Raises:
        FolderError: no starts there.
        ConfigError: settings that cannot be read any more.
    """
    asked = _settings(folder)
    _, failed = table_before(folder, TABLE)
    return asked, tabulate_starts(asked, failed)


def starts_text(table: StartTable) -> str:
    """Write what is printed of a table: ``tnvmc run`` and ``tnvmc show``."""
    text = [headline(table)]
    if table.starts or table.left_out:
        text += ["", plain_text(table, terminal_width())]
    return "\n".join(text)
