"""Several runs of one settings file: comparisons, sectors, starts and scans.

Each run is an ordinary one in a folder of its own, made by the code of ``tnvmc run``.
"""

from collections.abc import Sequence
from pathlib import Path

from tnvmc.app.measure import Asked, measure_run
from tnvmc.app.run import continued_run, new_run
from tnvmc.operators.order import OF_PAIRS, ORDERS
from tnvmc.report.figures import style
from tnvmc.report.figures.series import draw_series
from tnvmc.report.plots import FOLDER, PictureError, check_ours, chosen
from tnvmc.report.show import markdown
from tnvmc.series.kind import Series, SeriesKind, SeriesTable
from tnvmc.series.machine import held_series, kind_of_file, new_series, write_files
from tnvmc.settings.config import Settings
from tnvmc.settings.problems import ConfigError
from tnvmc.storage.run_folder import CONFIG
from tnvmc.storage.seals import sealed_json
from tnvmc.trust.reference import Reference

_FORMATS = ("png", "pdf")
_OF_PAIRS = OF_PAIRS | {"SS", "staggered_magnetisation_squared"}


class Runs:
    """Makes the runs of a series as ``tnvmc run`` and ``tnvmc measure`` do."""

    def make(self, settings: Settings, reference: Reference | None) -> None:
        begun = (Path(settings.run.out or "") / CONFIG).is_file()
        (continued_run if begun else new_run)(settings, reference)

    def measure(self, folder: Path, observables: Sequence[str]) -> None:
        orders = tuple(name for name in observables if name in ORDERS)
        needs_pairs = not _OF_PAIRS.isdisjoint(observables)
        measure_run(folder, Asked(pair_samples=None if needs_pairs else 0, operators=orders))


def series_file(
    path: str | Path, out: str | Path | None = None, overrides: Sequence[str] = ()
) -> SeriesTable:
    """Make the runs of a file with [[sector]], [scan], [[ansatz]] or `run.starts`.

    >>> table = tnvmc.series_file("sectors.toml", "runs/sectors")  # doctest: +SKIP
    >>> table["triplet"].gap.energy, table["triplet"].gap.error  # doctest: +SKIP

    Returns:
        The table that the command prints: `rows`, and `left_out` with the reasons.

    Raises:
        ConfigError: settings that cannot run, or ask for one run; nothing has been started.
        FolderError, DiskError, Interrupted: as `run_file`.
    """
    kind = kind_of_file(Path(path), overrides)
    if kind is None:
        raise ConfigError(f"{path}: asks for one run; use run_file")
    return write_series(*new_series(kind, Path(path), out, overrides, Runs()))


def redraw_series(
    kind: SeriesKind, folder: str | Path, out: str | Path | None, formats: str
) -> tuple[Path, ...]:
    """Draw the pictures of several runs again, as ``tnvmc plot`` does, from what they hold now.

    Raises PictureError for an unknown format, a file in the way, nothing to draw.
    """
    endings = chosen(formats, style.FORMATS, "--format")
    series, table = held_series(kind, Path(folder))
    files = _pictures(series, table, series.out / FOLDER if out is None else Path(out), endings)
    if not files:
        raise PictureError(f"{folder}: nothing to draw: none of its runs is finished")
    write_files(files)
    return tuple(files)


def write_series(series: Series, table: SeriesTable) -> SeriesTable:
    """Write the table and the pictures, and say where they are."""
    pages, images = pages_of(series, table), _pictures(series, table, series.out / FOLDER, _FORMATS)
    write_files({**pages, **images})
    drawn = ", ".join(str(place) for place in images)
    print(f"table: {[*pages][-1]}" + (f"; pictures: {drawn}" if drawn else ""), flush=True)
    return table


def pages_of(series: Series, table: SeriesTable) -> dict[Path, bytes]:
    """Give the files of a table by their places."""
    name = series.kind.name
    return {
        series.out / f"{name}.json": sealed_json(table.as_dict(), indent=2),
        series.out / f"{name}.md": markdown(table).encode(),
    }


def _pictures(
    series: Series, table: SeriesTable, folder: Path, formats: Sequence[str]
) -> dict[Path, bytes]:
    """Give the pictures of a table, each in these formats; PictureError for a file in the way."""
    figures = draw_series(series.kind.picture(series, table)) if table.rows else {}
    places = {
        folder / f"{name}.{ending}": style.encode(figure, ending)
        for name, figure in figures.items()
        for ending in formats
    }
    check_ours(folder, tuple(places), style.MADE_BY)
    return places
