"""The command line: ``tnvmc run``, ``tnvmc exact``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from tnvmc._version import __version__

EXAMPLE = """\
example, heisenberg.toml:

  [lattice]
  shape = [4, 4]             # kind = "square", boundary = "open"

  [hamiltonian]
  model = "heisenberg"       # J = 1.0

  [ansatz]
  D = 4                      # kind = "peps"

  tnvmc run heisenberg.toml --set optimizer.steps=60 --out runs/first
  tnvmc run --resume runs/first --set optimizer.steps=100
  tnvmc exact heisenberg.toml
"""

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Complain in one line."""
        self.exit(BAD_INPUT, f"tnvmc: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit status; bad input is one line on stderr and 2."""
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except KeyboardInterrupt as stop:
        status = getattr(stop, "exit_status", INTERRUPTED)
        return _complain(status, "stopped; nothing was written")
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        return FAILED
    except Exception as error:
        if options.traceback:
            raise
        return _explain(error)


def _explain(error: Exception) -> int:
    """Print errors that users can do something about; let others through with their traceback."""
    from tnvmc.app.run import DiskError, Interrupted
    from tnvmc.settings.problems import ConfigError
    from tnvmc.vmc.step import OptimisationFailed

    if isinstance(error, ConfigError):
        return _complain(BAD_INPUT, *error.lines)
    if isinstance(error, Interrupted):
        return _complain(error.exit_status, str(error))
    if isinstance(error, OptimisationFailed):
        return _complain(FAILED, str(error))
    if isinstance(error, MemoryError):
        return _complain(BAD_INPUT, f"not enough memory: {error}")
    if isinstance(error, ValueError | DiskError):
        return _complain(BAD_INPUT, str(error))
    raise error


def _complain(status: int, *lines: str) -> int:
    for line in lines:
        print(f"tnvmc: {' '.join(line.split())}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tnvmc",
        description="Ground states of lattice Hamiltonians: PEPS and variational Monte Carlo.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tnvmc {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    run = _command(
        commands, "run", _run, "optimise and measure a state", "settings; see the example"
    )
    run.add_argument("--out", metavar="DIR", help="folder to write (default: runs/NAME OF FILE)")
    run.add_argument(
        "--resume", metavar="DIR", help="go on with the run in DIR, from its last checkpoint"
    )
    compare = _command(
        commands, "compare", _compare, "several states of one Hamiltonian, within one budget",
        "settings with several [[ansatz]] and a budget in [compare]",
    )  # fmt: skip
    compare.add_argument(
        "--out", metavar="DIR", help="folder to write (default: runs/NAME OF FILE)"
    )
    compare.add_argument(
        "--resume", metavar="DIR", help="go on with the comparison in DIR; finished runs are kept"
    )
    exact = _command(
        commands, "exact", _exact, "ground state by diagonalisation",
        "settings; only [lattice] and [hamiltonian] count",
    )  # fmt: skip
    exact.add_argument(
        "--sector", metavar="2Sz", type=int, help="twice the total Sz (default: the smallest)"
    )
    measure = _folder_command(
        commands, "measure", _measure, "correlations, structure factors and more of a run's state"
    )
    measure.add_argument("--n-samples", metavar="N", type=int, help="samples")
    measure.add_argument(
        "--pair-samples", metavar="N", type=int,
        help="samples for S.S of all pairs, which cost more (default: 65536 / sites at most)",
    )  # fmt: skip
    measure.add_argument(
        "--no-pairs", dest="pair_samples", action="store_const", const=0,
        help="leave S.S of all pairs away",
    )  # fmt: skip
    measure.add_argument("--chi", type=int, help="boundary bond dimension")
    measure.add_argument(
        "--direct", action="store_true", help="independent draws with weights instead of chains"
    )
    measure.add_argument(
        "--operator", metavar="FILE.toml", action="append", default=[], dest="operators",
        help="an operator of your own; may be repeated",
    )  # fmt: skip
    measure.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], dest="overrides",
        help="change one setting, e.g. --set run.threads=1; may be repeated",
    )  # fmt: skip
    converge = _folder_command(
        commands, "converge", _converge, "measure a finished run again, at several chi"
    )
    converge.add_argument(
        "--chi", type=int, action="append", default=[],
        help="boundary bond dimension beside the one it was measured at; may be repeated",
    )  # fmt: skip
    converge.add_argument("--n-samples", metavar="N", type=int, help="samples at each chi")
    _add_reading_commands(commands)
    told = commands.add_parser(
        "settings", help="what the keys of a settings file mean",
        description="What the keys of a settings file mean.",
    )  # fmt: skip
    told.add_argument("name", metavar="NAME", nargs="?", help="a section or a key (default: all)")
    told.add_argument(
        "--traceback", action="store_true", help="show where in the program an error came up"
    )
    told.set_defaults(command=_settings)
    return parser


def _add_reading_commands(commands: Any) -> None:
    """Add the commands that look at runs and change none."""
    show = _folder_command(commands, "show", _show, "what a run or a checkpoint holds")
    show.epilog = "Exit status 1 tells that a file of the run is damaged."
    plot = _folder_command(commands, "plot", _plot, "draw pictures of a run, or of several in one")
    plot.add_argument("others", metavar="RUNDIR", nargs="*", help="more runs, on the same axes")
    plot.add_argument("--out", metavar="DIR", help="folder to write (default: RUNDIR/pictures)")
    plot.add_argument("--format", default="png,pdf", help="png, pdf, svg (default: png,pdf)")
    plot.add_argument(
        "--what", metavar="NAMES",
        help="energy, relative_error, variance, acceptance, closure_spread, lattice, correlations, "
        "structure_factor, chi, zero_variance, bond_dimension (default: all that has data)",
    )  # fmt: skip
    plot.add_argument("--site", metavar="I", type=int, help="site whose correlations are drawn")
    report = _folder_command(commands, "report", _report, "write one web page that tells a run")
    report.add_argument("--out", metavar="FILE.html", help="default: RUNDIR/report.html")
    report.add_argument(
        "--varbench", action="store_true", help="print the row for the VarBench table instead"
    )


def _folder_command(commands: Any, name: str, function: Any, text: str) -> Any:
    command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    command.add_argument("folder", metavar="RUNDIR", help="folder of a run")
    command.add_argument(
        "--traceback", action="store_true", help="show where in the program an error came up"
    )
    command.set_defaults(command=function)
    return command


def _command(commands: Any, name: str, function: Any, text: str, file: str) -> Any:
    command = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "file", metavar="FILE.toml", nargs=None if name == "exact" else "?", help=file
    )
    command.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], dest="overrides",
        help="change one setting, e.g. --set ansatz.D=6; may be repeated",
    )  # fmt: skip
    command.add_argument(
        "--traceback", action="store_true", help="show where in the program an error came up"
    )
    command.set_defaults(command=function)
    return command


def _run(options: argparse.Namespace) -> int:
    from tnvmc.app.run import resume_run, run_file
    from tnvmc.backend.process import termination_as_exception

    _require_source(options, "run")
    with termination_as_exception():
        if options.resume is not None:
            resume_run(options.resume, options.overrides, options.file)
        else:
            run_file(options.file, options.out, options.overrides)
    return 0


def _require_source(options: argparse.Namespace, verb: str) -> None:
    from tnvmc.settings.problems import ConfigError

    if options.resume is None and options.file is None:
        raise ConfigError(f"{verb} needs a FILE.toml, or --resume DIR (see tnvmc {verb} --help)")
    if options.resume is not None and options.out is not None:
        raise ConfigError("--resume writes into the folder it continues; leave --out away")


def _compare(options: argparse.Namespace) -> int:
    from tnvmc.app.compare import print_comparison
    from tnvmc.backend.process import termination_as_exception

    _require_source(options, "compare")
    with termination_as_exception():
        good = print_comparison(options.file, options.out, options.resume, options.overrides)
    return 0 if good else FAILED


def _exact(options: argparse.Namespace) -> int:
    from tnvmc.exact import exact_ground_state
    from tnvmc.settings.build import build_operator
    from tnvmc.settings.load import read_toml, validate

    path = Path(options.file)
    operator = build_operator(validate(read_toml(path), options.overrides))
    exact = exact_ground_state(operator, "auto" if options.sector is None else options.sector)
    space = "full space" if exact.sector is None else f"sector 2 Sz = {exact.sector}"
    print(f"{operator.name}, {operator.n_sites} sites, {space}, dimension {exact.dimension}")
    print(f"energy           {exact.energy:.12f}  ({exact.units} units)")
    print(f"energy per site  {exact.energy_per_site:.12f}")
    return 0


def _measure(options: argparse.Namespace) -> int:
    from tnvmc.app.measure import Asked, measure_run
    from tnvmc.backend.process import termination_as_exception
    from tnvmc.report.observables import print_observables

    with termination_as_exception():
        asked = Asked(
            options.n_samples, options.chi, options.pair_samples,
            tuple(options.operators), tuple(options.overrides), options.direct,
        )  # fmt: skip
        found = measure_run(options.folder, asked)
    print_observables(found, options.folder)
    return 0


def _converge(options: argparse.Namespace) -> int:
    from tnvmc.analysis.diagnostics import diagnostics_of
    from tnvmc.app.converge import converge_run
    from tnvmc.backend.process import termination_as_exception
    from tnvmc.report.texts import line

    with termination_as_exception():
        scan, found = converge_run(options.folder, options.chi, options.n_samples)
    print(scan)
    for diagnostic in diagnostics_of({"convergence": found}):
        print(line(diagnostic))
    return 0


def _show(options: argparse.Namespace) -> int:
    from tnvmc.report.show import describe

    description = describe(options.folder)
    print(description)
    return 1 if description.damage else 0


def _plot(options: argparse.Namespace) -> int:
    from tnvmc.report.plots import plot_runs

    paths = [options.folder, *options.others]
    written = plot_runs(paths, options.out, options.format, options.what, options.site)
    for line in written.left_out:
        print(line)
    names = ", ".join(dict.fromkeys(path.stem for path in written.files))
    endings = ", ".join(dict.fromkeys(path.suffix[1:] for path in written.files))
    print(f"{names} ({endings}) written to {written.files[0].parent}")
    return 0


def _settings(options: argparse.Namespace) -> int:
    from tnvmc.settings.help import settings_text

    print(settings_text(options.name))
    return 0


def _report(options: argparse.Namespace) -> int:
    from tnvmc.analysis.varbench import varbench_row
    from tnvmc.report.page import ReportError, write_report
    from tnvmc.storage.run_files import read_run

    if not options.varbench:
        print(f"written to {write_report(options.folder, options.out)}")
        return 0
    if options.out is not None:
        raise ReportError("--varbench prints a row and writes no file; leave --out away")
    run = read_run(options.folder)
    if run.result is None:
        raise ReportError(f"{run.path}: no result yet (result.json), so no VarBench row")
    print(varbench_row(dict(run.result)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
