"""The command line: every command is a function here, its options stand above it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tnvmc.app.command_line import (
    CHANGE,
    FAILED,
    FOLDER,
    SET,
    SOURCE,
    command,
    main,
    option,
    repeated,
)  # fmt: skip
from tnvmc.backend.progress import termination_as_exception

if TYPE_CHECKING:
    from tnvmc.series.kind import SeriesKind


__all__ = ["main"]


@command(
    "optimise and measure a state, one for each [[sector]] or value of [scan], or several starts",
    *SOURCE,
)
def _run(options: argparse.Namespace) -> int:
    from tnvmc.series.machine import kind_of_file, kind_of_folder

    _require_source(options, "run")
    if options.resume is None:
        kind = kind_of_file(Path(options.file), options.overrides)
    else:
        kind = kind_of_folder(options.resume)
    return _make(options, kind if kind is not None and kind.command == "run" else None)


def _make(options: argparse.Namespace, kind: SeriesKind | None) -> int:
    """Make a run or a series, or go on with it; exit status 1: one of several has no energy."""
    from tnvmc.app.run import resume_run, run_file

    folder, file, changes = options.resume, options.file, options.overrides
    with termination_as_exception():
        if kind is None and folder is None:
            run_file(file, options.out, changes)
            return 0
        if kind is None:
            resume_run(folder, changes, file)
            return 0
        from tnvmc.app.series import Runs, write_series
        from tnvmc.report.show import plain_text
        from tnvmc.series.machine import new_series, resumed_series

        if folder is None:
            made = new_series(kind, Path(file), options.out, changes, Runs())
        else:
            made = resumed_series(kind, Path(folder), changes, file, Runs())
        table = write_series(*made)
    print(f"\n{plain_text(table)}")
    failed = any(reason.code != "measured_differently" for _, reason in table.left_out)
    return FAILED if failed else 0


def _require_source(options: argparse.Namespace, verb: str) -> None:
    from tnvmc.settings.problems import ConfigError

    if options.resume is None and options.file is None:
        raise ConfigError(f"{verb} needs a FILE.toml, or --resume DIR (see tnvmc {verb} --help)")
    if options.resume is not None and options.out is not None:
        raise ConfigError("--resume writes into the folder it continues; omit --out")


@command("compare several states, each an [[ansatz]], with the budget in [compare]", *SOURCE)
def _compare(options: argparse.Namespace) -> int:
    from tnvmc.series.machine import COMPARISON

    _require_source(options, "compare")
    return _make(options, COMPARISON)


@command(
    "ground state by diagonalisation, and the levels of [[sector]] and [[orthogonal]]",
    option(
        "file",
        metavar="FILE.toml",
        help="settings: [lattice] and [hamiltonian], the tables of [[sector]] and [[orthogonal]]",
    ),
    SET,
    option(
        "--sector",
        metavar="2Sz",
        type=int,
        help="twice the total Sz (default: of the file, or the smallest)",
    ),
)
def _exact(options: argparse.Namespace) -> None:
    from tnvmc.app.exact import exact_text
    from tnvmc.report.live import working

    with working():
        told = exact_text(Path(options.file), options.overrides, options.sector)
    print(told)


@command(
    "correlations, structure factors and more of a run's state",
    FOLDER,
    option("--n-samples", metavar="N", type=int, help="samples"),
    option(
        "--pair-samples", metavar="N", type=int,
        help="samples for S.S of all pairs, which cost more (default: 65536 / sites at most)",
    ),
    option(
        "--no-pairs", dest="pair_samples", action="store_const", const=0,
        help="do not measure S.S of all pairs",
    ),
    option("--chi", type=int, help="boundary bond dimension"),
    option("--direct", action="store_true", help="independent weighted draws instead of chains"),
    option("--enumerate", action="store_true", help="all configurations instead of samples"),
    repeated(
        "--operator", metavar="FILE.toml", dest="operators",
        help="an operator of your own, or the name of an order parameter, as neel",
    ),
    option(
        "--lanczos", action="store_true",
        help="only the energy after one Lanczos step, (1 + alpha H)|psi>; nothing is written",
    ),
    repeated("--set", help="change one setting, e.g. --set run.threads=1", **CHANGE),
)  # fmt: skip
def _measure(options: argparse.Namespace) -> None:
    from tnvmc.app.measure import Asked, lanczos_run, measure_run
    from tnvmc.estimate.diagnostic import Diagnostic
    from tnvmc.report.live import told_in_logs, working
    from tnvmc.report.observables import print_observables

    with termination_as_exception():
        asked = Asked(
            options.n_samples, options.chi, options.pair_samples,
            tuple(options.operators), tuple(options.overrides), options.direct, options.enumerate,
        )  # fmt: skip
        told: list[Diagnostic] = []
        with told_in_logs(), working():
            if options.lanczos:
                step = lanczos_run(options.folder, asked)
            else:
                found = measure_run(options.folder, asked, told.append)
    if options.lanczos:
        print(step)
    else:
        print_observables(found, options.folder, told)


_AMPLITUDES = (
    option("--n-samples", metavar="N", type=int, help="samples"),
    option("--chi", type=int, help="boundary bond dimension"),
)


@command(
    "overlap and fidelity of the states of two runs, or of each run with the next one",
    FOLDER,
    option("others", metavar="RUNDIR", nargs="+", help="more runs, on the same lattice"),
    *_AMPLITUDES,
    option("--double-layer", action="store_true", help="without samples, of two PEPS"),
)
def _overlap(options: argparse.Namespace) -> None:
    from itertools import pairwise

    from tnvmc import overlap
    from tnvmc.shown import sentence

    for one, other in pairwise([options.folder, *options.others]):
        found = overlap(one, other, options.n_samples, options.chi, None, options.double_layer)
        print(f"{one} {other}: {found._line()}", flush=True)
        for told in (each for each in found.diagnostics if each.status == "good"):
            print(f"  {sentence(told)}")


@command(
    "Renyi-2 entropies of a run's state, of a block of sites or of the columns from the left",
    FOLDER,
    option("--sites", metavar="I,J,...", help="sites of the block (default: columns)"),
    option("--picture", metavar="FILE.png", help="draw the entropies of the columns"),
    *_AMPLITUDES,
)
def _entropy(options: argparse.Namespace) -> None:
    from tnvmc import renyi2
    from tnvmc.plot import entropy

    sites = None if options.sites is None else options.sites.split(",")
    found = renyi2(options.folder, sites, options.n_samples, options.chi)
    for each in found if sites is None else [found]:
        print(each._line())
    if options.picture is not None:
        entropy(found if sites is None else [found]).figure.savefig(options.picture, dpi=200)
        print(f"written to {options.picture}")


@command(
    "measure a finished run again, at several chi",
    FOLDER,
    repeated("--chi", type=int, help="boundary bond dimension, besides that of the measurement"),
    option("--n-samples", metavar="N", type=int, help="samples at each chi"),
    option(
        "--double-layer", choices=("auto", "yes", "no"), default="auto",
        help="also compute the energy without samples, by the double layer of a PEPS (default: if "
        "it takes two minutes at most)",
    ),
)  # fmt: skip
def _converge(options: argparse.Namespace) -> None:
    from dataclasses import replace

    from tnvmc.app.converge import converge_run
    from tnvmc.report.live import told_in_logs, working
    from tnvmc.shown import line, sentence
    from tnvmc.trust.finished_run import diagnostics_of, verdict

    with termination_as_exception():
        when = {"auto": None, "yes": True, "no": False}[options.double_layer]
        with told_in_logs(), working():
            scan, result = converge_run(options.folder, options.chi, options.n_samples, when)
    found = diagnostics_of(result)
    print(sentence(verdict(found)))
    print(replace(scan, diagnostics=(), double_layer=None))
    for diagnostic in scan.diagnostics:
        if not diagnostic.code.startswith("double_layer"):  # those stand in the result
            print(line(diagnostic))
    if scan.double_layer is not None and scan.double_layer.points:
        print(scan.double_layer)
    for diagnostic in found:
        print(line(diagnostic))


@command("summary of a run or a checkpoint, or the table of several runs", FOLDER)
def _show(options: argparse.Namespace) -> int:
    """Exit status 1: a file of the run is damaged."""
    from tnvmc.report.show import describe, plain_text
    from tnvmc.series.machine import held_series, kind_of_folder

    if (kind := kind_of_folder(options.folder)) is not None:
        print(plain_text(held_series(kind, Path(options.folder))[1]))
        return 0
    description = describe(options.folder)
    print(description)
    return FAILED if description.damage else 0


@command(
    "draw pictures of a run, or of several runs together",
    FOLDER,
    option("others", metavar="RUNDIR", nargs="*", help="more runs, on the same axes"),
    option("--out", metavar="DIR", help="folder to write (default: RUNDIR/pictures)"),
    option("--format", default="png,pdf", help="png, pdf, svg (default: png,pdf)"),
    option(
        "--what", metavar="NAMES",
        help="energy, relative_error, variance, acceptance, closure_spread, convergence, lattice, "
        "correlations, structure_factor, chi, zero_variance, bond_dimension, evolution (all)",
    ),
    option(
        "--against", choices=("step", "seconds"),
        help="abscissa of histories (default: step; of convergence seconds, of several runs both)",
    ),
    option("--site", metavar="I", type=int, help="site whose correlations are drawn"),
)  # fmt: skip
def _plot(options: argparse.Namespace) -> None:
    from tnvmc.app.series import redraw_series
    from tnvmc.report.plots import PictureError, plot_runs
    from tnvmc.series.machine import kind_of_folder

    folder, kind = options.folder, kind_of_folder(options.folder)
    if kind is None:
        paths, what, site = [folder, *options.others], options.what, options.site
        written = plot_runs(paths, options.out, options.format, what, site, options.against)
        for line in written.left_out:
            print(line)
        files = written.files
    else:
        given = {"RUNDIR": options.others, "--what": options.what, "--against": options.against,
                 "--site": options.site}  # fmt: skip
        if unused := [name for name, value in given.items() if value not in (None, [])]:
            raise PictureError(
                f"{folder}: holds {kind.title}, which has pictures of its own, without "
                f"{unused[0]}; draw the runs as tnvmc plot {folder}/NAME ..."
            )
        files = redraw_series(kind, folder, options.out, options.format)
    names, endings = ([*dict.fromkeys(each)] for each in (
        (path.stem for path in files), (path.suffix[1:] for path in files)
    ))  # fmt: skip
    print(f"{', '.join(names)} ({', '.join(endings)}) written to {files[0].parent}")


@command(
    "write a web page with all results of a run, or the table of several runs",
    FOLDER,
    option("--out", metavar="FILE.html", help="default: RUNDIR/report.html"),
    option("--row", action="store_true", help="print a row for the public leaderboard, as JSON"),
)
def _report(options: argparse.Namespace) -> None:
    from tnvmc.app.series import pages_of
    from tnvmc.report.page import ReportError, write_report
    from tnvmc.series.machine import held_series, kind_of_folder, write_files

    kind = kind_of_folder(options.folder)
    if options.row:
        from tnvmc.report.leaderboard import leaderboard_row
        from tnvmc.storage.run_files import read_run

        if kind is not None:
            raise ReportError(f"{options.folder}: holds {kind.title}; a row is of one of its runs")
        print(json.dumps(leaderboard_row(read_run(options.folder)), indent=2))
        return
    if kind is None:
        print(f"written to {write_report(options.folder, options.out)}")
        return
    if options.out is not None:
        raise ReportError(f"{options.folder}: holds {kind.title}, which has a table; omit --out")
    pages = pages_of(*held_series(kind, Path(options.folder)))
    write_files(pages)
    print(f"written to {' and '.join(map(str, pages))}")


@command(
    "store a finished run in a small folder: settings, history, results, the measured state",
    FOLDER,
    option(
        "archive", metavar="FOLDER", help="to write; it can be measured and reported, not resumed"
    ),
)
def _archive(options: argparse.Namespace) -> None:
    from tnvmc.app.archive import archive_run

    with termination_as_exception():
        print(f"written to {archive_run(options.folder, options.archive)}")


@command(
    "what the keys of a settings file mean",
    option("name", metavar="NAME", nargs="?", help="a section or a key (default: all)"),
    option("--basic", action="store_true", help="the twelve keys that a study needs"),
)
def _settings(options: argparse.Namespace) -> None:
    from tnvmc.settings.help import basic_text, settings_text

    print(basic_text() if options.basic else settings_text(options.name))


@command(
    "copy the example settings files",
    option("folder", metavar="FOLDER", nargs="?", default="examples",
            help="folder to write (default: examples); a file that differs is not overwritten"),
    option("--list", action="store_true", help="say what each example computes; copy nothing"),
)  # fmt: skip
def _examples(options: argparse.Namespace) -> None:
    from tnvmc.app.examples import copy_examples, description, example_files

    if options.list:
        files = example_files()
        width = max(len(file.name) for file in files)
        for file in files:
            print(f"{file.name:<{width}}  {description(file)}")
        return
    for file in (written := copy_examples(options.folder)):
        print(file)
    if not written:
        print(f"{options.folder}: all examples are there")


if __name__ == "__main__":
    sys.exit(main())
