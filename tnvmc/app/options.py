"""How the command line is put together: commands register themselves here with their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from tnvmc._version import __version__
from tnvmc.app.complaints import BAD_INPUT

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


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Complain in one line."""
        self.exit(BAD_INPUT, f"tnvmc: {message} (see {self.prog} --help)\n")


Command = Callable[[argparse.Namespace], int]
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
    parser = _Parser(prog="tnvmc", description=about, epilog=EXAMPLE, **verbatim)
    parser.add_argument("--version", action="version", version=f"tnvmc {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for function, text, arguments in _COMMANDS:
        name, about = function.__name__[1:], text[0].upper() + text[1:] + "."
        end = function.__doc__ or (EXAMPLE if SET in arguments else None)
        added = commands.add_parser(name, help=text, description=about, epilog=end, **verbatim)
        for names, rest in arguments:
            added.add_argument(*names, **rest)
        added.set_defaults(command=function)
    return parser


CHANGE = {"metavar": "KEY=VALUE", "dest": "overrides"}
SET = repeated("--set", help="change one setting, e.g. --set ansatz.D=6", **CHANGE)
OUT = option("--out", metavar="DIR", help="folder to write (default: runs/NAME OF FILE)")
FOLDER = option("folder", metavar="RUNDIR", help="folder of a run")
_TRACEBACK = option("--traceback", action="store_true", help="show the traceback of an error")
