"""How the command line works: options, one line for an error, exit statuses, ranks."""

import argparse
import contextlib
import os
import sys
import tomllib
import warnings
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from tnvmc._version import __version__
from tnvmc.backend.process import Ranks, launched, using_ranks
from tnvmc.backend.progress import OutputLost

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130

FORMAT = warnings.formatwarning
_TOLD: set[str] = set()
"""Warnings of this command."""


def warning_line(message: Warning | str, category: type[Warning], *place: Any, **line: Any) -> str:
    """Tell what Python would be warned of in one line, once; other warnings as ever."""
    if not category.__module__.startswith("tnvmc."):
        return FORMAT(message, category, *place, **line)
    told = f"tnvmc: {message}\n"
    if told in _TOLD:
        return ""
    _TOLD.add(told)
    return told


def open_streams() -> None:
    """Let what is printed go nowhere where the process was started without standard streams."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def give_up_lost_streams() -> None:
    """Keep Python from complaining, at its end, that it cannot write what nobody reads."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def explain(error: Exception) -> int:
    """Print errors that users can do something about; let others through with their traceback."""
    told = f"{error}"
    match error:
        case MemoryError():
            told = f"not enough memory: {error}"
        case OSError():  # of the system; mistakes of the program are others
            told = f"{error.filename or 'output'}: {error.strerror or error}"
        case ValueError():
            pass
        case _:
            if not hasattr(error, "exit_status"):
                raise error
    return complain(getattr(error, "exit_status", BAD_INPUT), *getattr(error, "lines", [told]))


def complain(status: int, *lines: str) -> int:
    """Print lines on stderr and give the exit status back."""
    for line in lines:
        with contextlib.suppress(OSError):  # nobody reads it
            print(f"tnvmc: {' '.join(line.split())}", file=sys.stderr, flush=True)
    return status


EXAMPLES: dict[str, str] = tomllib.loads((Path(__file__).parent / "help.toml").read_text("utf-8"))
"""By command what ends its help; "run" of all that take settings."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Complain in one line."""
        self.exit(BAD_INPUT, f"tnvmc: {message} (see {self.prog} --help)\n")


Command = Callable[[argparse.Namespace], int | None]
Argument = tuple[tuple[str, ...], dict[str, Any]]

_COMMANDS: list[tuple[Command, str, tuple[Argument, ...]]] = []


def command(text: str, *arguments: Argument) -> Callable[[Command], Command]:
    """Make a command of a function ``_name``; its docstring, if any, ends the help."""

    def register(function: Command) -> Command:
        _COMMANDS.append((function, text, (*arguments, _TRACEBACK)))
        return function

    return register


def option(*names: str, **rest: Any) -> Argument:
    """Give the arguments of `argparse.ArgumentParser.add_argument`."""
    return names, rest


def repeated(*names: str, help: str, **rest: Any) -> Argument:
    """Give an option that may stand several times."""
    return names, {"action": "append", "default": [], "help": f"{help}; may be repeated", **rest}


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of all commands that are registered."""
    verbatim: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    about = "Ground states of lattice Hamiltonians: PEPS and variational Monte Carlo."
    parser = _Parser(prog="tnvmc", description=about, epilog=EXAMPLES["run"], **verbatim)
    parser.add_argument("--version", action="version", version=f"tnvmc {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for function, text, arguments in _COMMANDS:
        name, about = function.__name__[1:], text[0].upper() + text[1:] + "."
        default = EXAMPLES["run"] if SET in arguments else None
        end = EXAMPLES.get(name, function.__doc__ or default)
        added = commands.add_parser(name, help=text, description=about, epilog=end, **verbatim)
        for names, rest in arguments:
            added.add_argument(*names, **rest)
        added.set_defaults(command=function)
    return parser


CHANGE = {"metavar": "KEY=VALUE", "dest": "overrides"}
SET = repeated("--set", help="change one setting, e.g. --set ansatz.D=6", **CHANGE)
SOURCE = (
    option("file", metavar="FILE.toml", nargs="?", help="settings; see the example"),
    SET,
    option("--out", metavar="DIR", help="folder to write (default: runs/NAME OF FILE)"),
    option("--resume", metavar="DIR", help="continue what is in DIR, from the last checkpoints"),
)
FOLDER = option("folder", metavar="RUNDIR", help="folder of a run")
_TRACEBACK = option("--traceback", action="store_true", help="show the traceback of an error")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of `app.cli`, on all ranks there are, and give its exit status."""
    open_streams()
    return on_all_ranks(lambda: _run(arguments))


def _parsed(arguments: list[str]) -> argparse.Namespace:
    """Parse a command; one that there is not, or an option, is told with what may be meant."""
    parser = make_parser()
    known = [function.__name__[1:] for function, *_ in _COMMANDS]
    if arguments and not arguments[0].startswith("-") and arguments[0] not in known:
        close = get_close_matches(arguments[0], known, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
        parser.error(f"no command {arguments[0]!r}; {hint}")
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        parser.error(f"unknown {unknown[0]}{_as_setting(*unknown)}")
    return options


def _as_setting(option: str, *values: str) -> str:
    """Say how a key of a settings file is set that was given as an option."""
    from tnvmc.settings.config import REPEATED, SECTIONS, keys

    key, equals, value = option.lstrip("-").replace("-", "_").partition("=")
    value = value if equals else next(iter(values), "VALUE")
    once = [home for home in SECTIONS if home not in REPEATED]
    homes = [f"--set {home}.{key}={value}" for home in once if key in keys(home)]
    return f"; did you mean {' or '.join(homes)}?" if homes and option.startswith("-") else ""


def _run(arguments: Sequence[str] | None) -> int:
    try:
        options = _parsed(sys.argv[1:] if arguments is None else list(arguments))
        warnings.formatwarning = warning_line
        _TOLD.clear()
        try:
            status = options.command(options) or 0
            sys.stdout.flush()
            return status
        except (OutputLost, BrokenPipeError):  # the reader of our output has gone
            return FAILED
        except KeyboardInterrupt as stop:
            status = getattr(stop, "exit_status", INTERRUPTED)
            return complain(status, "stopped; no result was written")
        except Exception as error:
            if options.traceback:
                raise
            return explain(error)
    finally:
        warnings.formatwarning = FORMAT
        give_up_lost_streams()


def on_all_ranks(command: Callable[[], int]) -> int:
    """Run a command on the ranks that a launcher (mpiexec, srun) started, or alone.

    Rank 0 runs it and the others help; its exit status is given on every rank.
    """
    rank, size = launched()
    if size == 1:
        return command()
    ranks: Ranks | None = None
    try:
        from mpi4py import MPI

        from tnvmc.backend.mpi import of

        ranks = of(MPI.COMM_WORLD)
        why = (
            f"the launcher started {size} processes, the MPI of mpi4py sees {ranks.size}; use the "
            "mpiexec or srun that belongs to it, or build mpi4py with the MPI of this cluster"
        )
    except (ImportError, RuntimeError) as error:  # mpi4py raises the second where it finds no MPI
        why = f"one of {size} processes, without mpi4py ({error}): pip install mpi4py"
    if ranks is None or ranks.size != size:
        return complain(BAD_INPUT, why) if rank == 0 else BAD_INPUT
    if ranks.rank:
        return int(ranks.follow())
    status = FAILED
    try:
        with using_ranks(ranks):
            status = command()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else FAILED
    finally:
        ranks.end(status)
    return status
