"""One comparison from its file to its table: what ``tnvmc compare`` does, callable from Python.

Each ansatz is an ordinary run in a folder of its own, made by the code of ``tnvmc run``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tnvmc.analysis.comparison import ComparisonTable, tabulate
from tnvmc.analysis.reference import Reference, find_reference
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
from tnvmc.report.comparison import headline, markdown, plain_text
from tnvmc.report.figures import style
from tnvmc.report.figures.comparison import draw_comparison
from tnvmc.report.plots import FOLDER, PictureError, chosen
from tnvmc.report.tables import terminal_width
from tnvmc.settings.comparison import Budget, Comparison, budget_of, comparison
from tnvmc.settings.load import read_toml, with_out
from tnvmc.settings.problems import ConfigError
from tnvmc.storage.run_files import read_run, steps_done
from tnvmc.storage.run_folder import (
    CONFIG,
    FolderError,
    check_settings,
)
from tnvmc.storage.seals import sealed_json

SETTINGS, TABLE, PAGE = "comparison.toml", "comparison.json", "comparison.md"

_FORMATS = ("png", "pdf")


def compare_file(
    path: str | Path, out: str | Path | None = None, overrides: Sequence[str] = ()
) -> ComparisonTable:
    """Run the comparison in a TOML file as ``tnvmc compare`` does, and give its table.

    Raises:
        ConfigError: settings that cannot run, of any block; nothing has been started.
        FolderError: `out` holds a run or a comparison already.
        DiskError: no space left.
        SeveralInterrupted: Ctrl-C or SIGTERM, with a checkpoint written.
    """
    path = Path(path)
    compared = comparison(read_toml(path), with_out(overrides, out), path.stem)
    refuse_held(compared, SETTINGS, "a comparison", "tnvmc compare --resume")
    return _compare(compared)


def resume_comparison(
    folder: str | Path, overrides: Sequence[str] = (), file: str | Path | None = None
) -> ComparisonTable:
    """Go on with the comparison in a folder, by its own settings or those of another file.

    Runs that are finished, and whose settings ask for nothing more, are kept.

    Raises:
        FolderError: no comparison there, or another process is at it.
        ConfigError: also a budget that is smaller, or of another kind, than the one used so far.
        DiskError, SeveralInterrupted: as `compare_file`.
    """
    folder = Path(folder)
    if not (folder / SETTINGS).is_file():
        raise FolderError(f"{folder}: holds no comparison to resume ({SETTINGS} is missing)")
    check_settings(folder / SETTINGS)
    before = read_toml(folder / SETTINGS)
    data = before if file is None else read_toml(Path(file))
    compared = comparison(data, with_out(overrides, folder))
    _refuse_less(compared, budget_of(before.get("compare")))
    return _compare(compared)


def _refuse_less(compared: Comparison, before: Budget) -> None:
    """Refuse limits that runs may have passed already: they would stand beside others unmarked."""
    ((unit, now),) = compared.budget.model_dump(exclude_none=True).items()
    used = getattr(before, unit)
    if used is None or now < used:
        raise ConfigError(
            f"compare.{unit} = {now:g}: the comparison in {compared.out} was begun with {before} for "
            "each ansatz, which can be raised only; choose another --out"
        )
    for name, settings in compared.runs.items():
        folder, most = compared.out / name, settings.optimizer.steps
        made = steps_done(read_run(folder)) if (folder / CONFIG).is_file() else 0
        if made > most:
            raise ConfigError(
                f"ansatz '{name}': may make {most} steps, has made {made} already; choose another "
                "--out"
            )


def _reference(compared: Comparison) -> Reference:
    """The energy that all are compared with; of excited states none, which each run finds by itself."""
    if compared.excited:
        return Reference()
    return find_reference(compared.operator, compared.magnetisation)


def _compare(compared: Comparison) -> ComparisonTable:
    """Make every run, then the table and the pictures."""
    refuse_in_use(compared)
    reference = _reference(compared)
    write_settings(compared, SETTINGS)

    failed = make_runs(
        compared,
        lambda name: make_run(compared.runs[name], reference),
        "ansatz",
        f"tnvmc compare --resume {compared.out}",
    )
    table = tabulate(compared, asdict(reference), failed)
    _write(compared, table)
    return table


def _write(compared: Comparison, table: ComparisonTable) -> None:
    """Write the table as JSON and Markdown, and the pictures of what is in it."""
    images = _pictures(compared, table, compared.out / FOLDER, _FORMATS)
    keep({**_pages(compared, table), **images})


def _pages(compared: Comparison, table: ComparisonTable) -> dict[Path, bytes]:
    """The files of the table."""
    return {
        compared.out / TABLE: sealed_json(table.as_dict(), indent=2),
        compared.out / PAGE: markdown(table).encode(),
    }


def _pictures(
    compared: Comparison, table: ComparisonTable, folder: Path, formats: Sequence[str]
) -> dict[Path, bytes]:
    """The pictures of the rows of a table, each in these formats.

    Raises:
        PictureError: a file in the way that was not made here.
    """
    names = [name for name in compared.runs if name in {row.name for row in table.rows}]
    figures: Mapping[str, Any] = draw_comparison([read_run(compared.out / name) for name in names])
    return encoded(figures, folder, formats)


def is_comparison(folder: str | Path) -> bool:
    """Tell whether a folder holds a comparison."""
    return (Path(folder) / SETTINGS).is_file()


def redraw_comparison(
    folder: str | Path, out: str | Path | None = None, formats: str = ",".join(_FORMATS)
) -> tuple[Path, ...]:
    """Draw the pictures of a comparison again, as ``tnvmc plot`` does, and give their files.

    From what its runs hold now; nothing is computed but what the table needs.  `out` is FOLDER/pictures by
    default.

    Raises:
        FolderError: no comparison there.
        PictureError: an unknown format, a file in the way, nothing to draw.
        ConfigError: settings that cannot be read any more.
    """
    endings = chosen(formats, style.FORMATS, "--format")
    compared, table = _held(Path(folder))
    place = compared.out / FOLDER if out is None else Path(out)
    files = _pictures(compared, table, place, endings)
    if not files:
        raise PictureError(f"{folder}: nothing to draw: none of its runs is finished")
    keep(files)
    return tuple(files)


def retabulate_comparison(folder: str | Path) -> tuple[Path, ...]:
    """Write the table of a comparison again, as ``tnvmc report`` does; raises as `redraw_comparison`."""
    compared, table = _held(Path(folder))
    files = _pages(compared, table)
    keep(files)
    return tuple(files)


def _held(folder: Path) -> tuple[Comparison, ComparisonTable]:
    """The comparison in a folder, and the table of what its runs hold now.

    What the last table said of the reference and of runs that failed is kept.
    """
    if not is_comparison(folder):
        raise FolderError(f"{folder}: holds no comparison ({SETTINGS} is missing)")
    check_settings(folder / SETTINGS)
    compared = comparison(read_toml(folder / SETTINGS), with_out((), folder))
    before, failed = table_before(folder, TABLE)
    reference = before.get("reference")
    if reference is None:
        reference = asdict(_reference(compared))
    return compared, tabulate(compared, reference, failed)


def print_comparison(
    file: str | None, out: str | None, resume: str | None, overrides: Sequence[str]
) -> bool:
    """Run a comparison and print its table: the verb ``tnvmc compare``; True if no run failed."""
    if resume is not None:
        table = resume_comparison(resume, overrides, file)
    else:
        assert file is not None
        table = compare_file(file, out, overrides)
    print(f"\n{headline(table)}\n\n{plain_text(table, terminal_width())}")
    return not any(reason.code == "run_failed" for _, reason in table.left_out)
