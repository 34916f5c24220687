"""The command line: every command is a function here, its options stand above it."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tnvmc.app.complaints import (
    BAD_INPUT,
    FAILED,
    FORMAT,
    INTERRUPTED,
    complain,
    explain,
    give_up_lost_streams,
    open_streams,
    warning_line,
)
from tnvmc.app.on_ranks import on_all_ranks
from tnvmc.app.options import CHANGE, FOLDER, OUT, SET, command, make_parser, option, repeated
from tnvmc.backend.process import OutputLost, termination_as_exception

if TYPE_CHECKING:
    from tnvmc.app.kinds import SeveralKind


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, on all ranks there are, and give its exit status; bad input is one line and 2."""
    open_streams()
    return on_all_ranks(lambda: _main(arguments), lambda told: complain(BAD_INPUT, told))


def _main(arguments: Sequence[str] | None) -> int:
    try:
        options = make_parser().parse_args(arguments)
        warnings.formatwarning = warning_line
        try:
            status = options.command(options)
            sys.stdout.flush()
            return status
        except OutputLost:
            return FAILED
        except KeyboardInterrupt as stop:
            status = getattr(stop, "exit_status", INTERRUPTED)
            return complain(status, "stopped; no result was written")
        except BrokenPipeError:  # the reader of our output has gone
            return FAILED
        except Exception as error:
            if options.traceback:
                raise
            return explain(error)
    finally:
        warnings.formatwarning = FORMAT
        give_up_lost_streams()


@command(
    "optimise and measure a state, one for each [[sector]], or the lowest of several starts",
    option("file", metavar="FILE.toml", nargs="?", help="settings; see the example"),
    SET,
    OUT,
    option(
        "--resume",
        metavar="DIR",
        help="continue the run in DIR, or its sectors or starts, from the last checkpoint",
    ),
)
def _run(options: argparse.Namespace) -> int:
    from tnvmc.app.kinds import kind_asked
    from tnvmc.app.run import resume_run, run_file

    _require_source(options, "run")
    kind = kind_asked(options.file, options.resume, options.overrides)
    if kind is not None:
        return _run_several(kind, options)
    with termination_as_exception():
        if options.resume is not None:
            resume_run(options.resume, options.overrides, options.file)
        else:
            run_file(options.file, options.out, options.overrides)
    return 0


def _run_several(kind: SeveralKind, options: argparse.Namespace) -> int:
    """Exit status 1: a run failed."""
    with termination_as_exception():
        if options.resume is not None:
            table = kind.resume(options.resume, options.overrides, options.file)
        else:
            table = kind.make(options.file, options.out, options.overrides)
    print(f"\n{kind.text(table)}")
    return FAILED if table.left_out else 0


def _require_source(options: argparse.Namespace, verb: str) -> None:
    from tnvmc.settings.problems import ConfigError

    if options.resume is None and options.file is None:
        raise ConfigError(f"{verb} needs a FILE.toml, or --resume DIR (see tnvmc {verb} --help)")
    if options.resume is not None and options.out is not None:
        raise ConfigError("--resume writes into the folder it continues; omit --out")


@command(
    "compare several states of one Hamiltonian with the same budget",
    option(
        "file",
        metavar="FILE.toml",
        nargs="?",
        help="settings with several [[ansatz]] and a budget in [compare]",
    ),
    SET,
    OUT,
    option(
        "--resume", metavar="DIR", help="continue the comparison in DIR; finished runs are kept"
    ),
)
def _compare(options: argparse.Namespace) -> int:
    from tnvmc.app.compare import print_comparison

    _require_source(options, "compare")
    with termination_as_exception():
        good = print_comparison(options.file, options.out, options.resume, options.overrides)
    return 0 if good else FAILED


@command(
    "ground state by diagonalisation, and the levels of [[sector]] and [[orthogonal]]",
    option(
        "file",
        metavar="FILE.toml",
        help="settings: [lattice] and [hamiltonian], the tables of [[sector]] and [[orthogonal]]",
    ),
    SET,
    option("--sector", metavar="2Sz", type=int, help="twice the total Sz (default: the smallest)"),
)
def _exact(options: argparse.Namespace) -> int:
    from tnvmc.app.exact import exact_text
    from tnvmc.report.live import work

    with work():
        told = exact_text(Path(options.file), options.overrides, options.sector)
    print(told)
    return 0


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
    option("--direct", action="store_true", help="independent draws with weights instead of chains"),
    repeated(
        "--operator", metavar="FILE.toml", dest="operators", help="an operator of your own"
    ),
    repeated("--set", help="change one setting, e.g. --set run.threads=1", **CHANGE),
)  # fmt: skip
def _measure(options: argparse.Namespace) -> int:
    from tnvmc.app.measure import Asked, measure_run
    from tnvmc.estimate.diagnostic import Diagnostic
    from tnvmc.report.live import told_in_logs, work
    from tnvmc.report.observables import print_observables

    with termination_as_exception():
        asked = Asked(
            options.n_samples, options.chi, options.pair_samples,
            tuple(options.operators), tuple(options.overrides), options.direct,
        )  # fmt: skip
        told: list[Diagnostic] = []
        with told_in_logs(), work():
            found = measure_run(options.folder, asked, told.append)
    print_observables(found, options.folder, told)
    return 0


@command(
    "measure a finished run again, at several chi",
    FOLDER,
    repeated("--chi", type=int, help="boundary bond dimension, in addition to the one of the measurement"),
    option("--n-samples", metavar="N", type=int, help="samples at each chi"),
    option(
        "--double-layer", choices=("auto", "yes", "no"), default="auto",
        help="also compute the energy without samples, by the double layer of a PEPS (default: if it takes "
        "two minutes at most)",
    ),
    repeated("--double-chi", metavar="CHI", type=int, help="boundary bond dimension of the double layer"),
)  # fmt: skip
def _converge(options: argparse.Namespace) -> int:
    from dataclasses import replace

    from tnvmc.analysis.diagnostics import diagnostics_of
    from tnvmc.app.converge import converge_run
    from tnvmc.report.live import told_in_logs, work
    from tnvmc.report.texts import line
    from tnvmc.settings.problems import ConfigError

    with termination_as_exception():
        when = {"auto": None, "yes": True, "no": False}[options.double_layer]
        if options.double_chi and when is False:
            raise ConfigError("--double-chi needs a double layer; omit --double-layer no")
        with told_in_logs(), work():
            scan, found = converge_run(
                options.folder, options.chi, options.n_samples, options.double_chi or when
            )
    print(replace(scan.samples, diagnostics=()))
    for diagnostic in scan.samples.diagnostics:
        print(line(diagnostic))
    if scan.double_layer is not None and scan.double_layer.points:
        print(scan.double_layer)
    for diagnostic in diagnostics_of({"convergence": found}):
        print(line(diagnostic))
    return 0


@command("summary of a run or a checkpoint, or the table of several sectors or starts", FOLDER)
def _show(options: argparse.Namespace) -> int:
    """Exit status 1: a file of the run is damaged."""
    from tnvmc.app.kinds import kind_in
    from tnvmc.report.show import describe

    kind = kind_in(options.folder)
    if kind is not None:
        print(kind.text(kind.held(Path(options.folder))[1]))
        return 0
    description = describe(options.folder)
    print(description)
    return 1 if description.damage else 0


@command(
    "draw pictures of a run, of several runs together, of a comparison, of sectors, or of starts",
    FOLDER,
    option("others", metavar="RUNDIR", nargs="*", help="more runs, on the same axes"),
    option("--out", metavar="DIR", help="folder to write (default: RUNDIR/pictures)"),
    option("--format", default="png,pdf", help="png, pdf, svg (default: png,pdf)"),
    option(
        "--what", metavar="NAMES",
        help="energy, relative_error, variance, acceptance, closure_spread, convergence, lattice, "
        "correlations, structure_factor, chi, zero_variance, bond_dimension (default: all that have data)",
    ),
    option(
        "--against", choices=("step", "seconds"),
        help="abscissa of the histories (default: step; for convergence seconds, for several runs both)",
    ),
    option("--site", metavar="I", type=int, help="site whose correlations are drawn"),
)  # fmt: skip
def _plot(options: argparse.Namespace) -> int:
    from tnvmc.app.compare import is_comparison, redraw_comparison
    from tnvmc.app.kinds import kind_in
    from tnvmc.report.plots import plot_runs

    if is_comparison(options.folder):
        return _plot_several(options, "a comparison has", redraw_comparison)
    if (kind := kind_in(options.folder)) is not None:
        return _plot_several(options, f"{kind.name} have", kind.redraw)
    paths = [options.folder, *options.others]
    written = plot_runs(
        paths, options.out, options.format, options.what, options.site, options.against
    )
    for line in written.left_out:
        print(line)
    _tell_pictures(written.files)
    return 0


def _plot_several(
    options: argparse.Namespace, of_which: str, redraw: Callable[..., Sequence[Path]]
) -> int:
    """Draw the pictures of a folder of several runs, which are not those of a run."""
    from tnvmc.report.plots import PictureError

    for name in ("others", "what", "against", "site"):
        if getattr(options, name) not in (None, []):
            told = "RUNDIR" if name == "others" else f"--{name}"
            raise PictureError(
                f"{options.folder}: {of_which} pictures of their own, without {told}; draw the runs as "
                f"tnvmc plot {options.folder}/NAME ..."
            )
    files = redraw(options.folder, options.out, options.format)
    _tell_pictures(files)
    return 0


def _tell_pictures(files: Sequence[Path]) -> None:
    names = ", ".join(dict.fromkeys(path.stem for path in files))
    endings = ", ".join(dict.fromkeys(path.suffix[1:] for path in files))
    print(f"{names} ({endings}) written to {files[0].parent}")


@command(
    "write a web page with all results of a run, or the table of a comparison, of sectors or of starts",
    FOLDER,
    option("--out", metavar="FILE.html", help="default: RUNDIR/report.html"),
    option("--varbench", action="store_true", help="print the row for the VarBench table instead"),
)
def _report(options: argparse.Namespace) -> int:
    from tnvmc.analysis.varbench import varbench_row
    from tnvmc.app.compare import is_comparison, retabulate_comparison
    from tnvmc.app.kinds import kind_in
    from tnvmc.report.describe import damage_text
    from tnvmc.report.page import ReportError, write_report
    from tnvmc.storage.run_files import read_run

    kind = kind_in(options.folder)
    if kind is not None or is_comparison(options.folder):
        if options.varbench or options.out is not None:
            what = f"{kind.name} have" if kind is not None else "a comparison has"
            raise ReportError(f"{options.folder}: {what} a table; omit --out and --varbench")
        retabulate = retabulate_comparison if kind is None else kind.retabulate
        print(f"written to {' and '.join(map(str, retabulate(options.folder)))}")
        return 0
    if not options.varbench:
        print(f"written to {write_report(options.folder, options.out)}")
        return 0
    if options.out is not None:
        raise ReportError("--varbench prints a row and writes no file; omit --out")
    run = read_run(options.folder)
    if run.result is None:
        why = "; ".join(map(damage_text, run.damage)) or "no result yet (result.json)"
        raise ReportError(f"{run.path}: {why}, so no VarBench row")
    for damage in run.damage:
        print(f"tnvmc: {damage_text(damage)}", file=sys.stderr)
    print(varbench_row(dict(run.result)))
    return 0


@command(
    "store a finished run in a small folder: settings, history, results, the measured state",
    FOLDER,
    option(
        "archive", metavar="FOLDER", help="to write; it can be measured and reported, not resumed"
    ),
)
def _archive(options: argparse.Namespace) -> int:
    from tnvmc.app.archive import archive_run

    with termination_as_exception():
        print(f"written to {archive_run(options.folder, options.archive)}")
    return 0


@command(
    "what the keys of a settings file mean",
    option("name", metavar="NAME", nargs="?", help="a section or a key (default: all)"),
)
def _settings(options: argparse.Namespace) -> int:
    from tnvmc.settings.help import settings_text

    print(settings_text(options.name))
    return 0


@command(
    "copy the example settings files",
    option("folder", metavar="FOLDER", nargs="?", default="examples",
            help="folder to write (default: examples); a file that differs is not overwritten"),
    option("--list", action="store_true", help="say what each example computes; copy nothing"),
)  # fmt: skip
def _examples(options: argparse.Namespace) -> int:
    from tnvmc.app.examples import copy_examples, description, example_files

    if options.list:
        files = example_files()
        width = max(len(file.name) for file in files)
        for file in files:
            print(f"{file.name:<{width}}  {description(file)}")
        return 0
    for file in (written := copy_examples(options.folder)):
        print(file)
    if not written:
        print(f"{options.folder}: all examples are there")
    return 0


if __name__ == "__main__":
    sys.exit(main())
