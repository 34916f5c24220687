"""Pictures as files: the one of every run, and ``tnvmc plot``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tnvmc.report.describe import damage_text, units_of
from tnvmc.report.figures import COMPARED, HISTORIES, NAMES, draw, style
from tnvmc.report.figures.evolution import evolution
from tnvmc.report.figures.history import history_of, overview
from tnvmc.settings.problems import nearest
from tnvmc.storage.files import read_plain, write_atomically
from tnvmc.storage.run_files import Run, read_run
from tnvmc.storage.run_folder import disk_errors

FOLDER = "pictures"


class PictureError(ValueError):
    """A picture that is not known, or that would replace a file of somebody else."""


def energy_picture(run: Run, title: str) -> bytes:
    """Draw energies with errors and, below, the relative error, else the variance: a PNG.

    Of time evolution `figures.evolution` instead.  Steps that were undone appear as crosses.  The
    number of sites must be known to the run.
    """
    history = history_of(run)
    assert history is not None
    with style.styled():
        if history.lines and "time" in history.lines[0]["optimizer"]:
            return style.encode(evolution(run, title), "png")
        return style.encode(overview(history, title), "png")


@dataclass(frozen=True)
class Written:
    """What ``tnvmc plot`` has written, and one line for each picture that has no data."""

    files: tuple[Path, ...]
    left_out: tuple[str, ...]


def plot_runs(
    paths: Sequence[str | Path], out: str | Path | None = None, formats: str = "png,pdf",
    what: str | None = None, site: int | None = None, against: str | None = None,
) -> Written:  # fmt: skip
    """Write pictures of one run, or of several on the same axes, as ``tnvmc plot`` does.

    `out` is RUNDIR/pictures by default; several runs go to that of the first, with ``compared_`` in
    front of the names.  `formats` and `what` are lists with commas; by default everything that the
    files of the run tell.  `against` is what histories are drawn against, "step" or "seconds";
    None: convergence against seconds, the rest against steps, several runs against both.  A picture
    that was made here before is replaced; other files never.

    Raises:
        FolderError: a folder without a run.
        PictureError: an unknown picture or format, a site that does not exist, a file in the way,
            nothing to draw.
    """
    runs = [read_run(path) for path in paths]
    several = len(runs) > 1
    names = chosen(what, NAMES, "--what") if what else tuple(COMPARED if several else NAMES)
    if several and not any(name in HISTORIES for name in names):
        raise PictureError(f"--what {what}: shows one run; of several: {', '.join(HISTORIES)}")
    endings = chosen(formats, style.FORMATS, "--format")
    for run in runs:
        if site is not None and run.n_sites is not None and not 0 <= site < run.n_sites:
            raise PictureError(f"--site {site}: {run.path} has the sites 0..{run.n_sites - 1}")
    if len(units := sorted({*map(units_of, runs)} - {""})) > 1:
        raise PictureError(f"the runs have energies in units of {' and '.join(units)}; draw apart")
    pictures = draw(runs, names, site, against)
    damage = tuple(f"{run.path}: {damage_text(found)}" for run in runs for found in run.damage)
    if not pictures.figures:
        reasons = "; ".join((*damage, *pictures.left_out))
        raise PictureError(f"{runs[0].path}: nothing to draw: {reasons}")
    folder = runs[0].path / FOLDER if out is None else Path(out)
    prefix = "compared_" if several else ""
    places = {
        folder / f"{prefix}{name}.{ending}": (figure, ending)
        for name, figure in pictures.figures.items()
        for ending in endings
    }
    check_ours(folder, tuple(places), style.MADE_BY)
    with disk_errors(folder, PictureError):
        folder.mkdir(parents=True, exist_ok=True)
        for path, (figure, ending) in places.items():
            write_atomically(path, style.encode(figure, ending))
    return Written(tuple(places), damage + pictures.left_out)


def chosen(text: str, known: Sequence[str], option: str) -> tuple[str, ...]:
    """Read a list with commas of words that are known; raises `PictureError` for others."""
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    for word in words:
        if word not in known:
            hint = nearest(word, known) or f"known are {', '.join(known)}"
            raise PictureError(f"{option} {word}: not known; {hint}")
    if not words:
        raise PictureError(f"{option}: names nothing; known are {', '.join(known)}")
    return words


def check_ours(folder: Path, paths: Sequence[Path], mark: str) -> None:
    """Raise `PictureError` where a file that does not carry `mark` would be replaced."""
    if folder.exists() and not folder.is_dir():
        raise PictureError(f"{folder}: is a file, not a folder; choose another --out")
    for path in paths:
        try:
            ours = mark.encode() in read_plain(path, anywhere=True)
        except FileNotFoundError:
            continue
        except OSError:
            ours = False
        if not ours:
            raise PictureError(f"{path}: exists and was not made by {mark}; choose another --out")
