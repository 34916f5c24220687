"""Calls of public classes and functions: what a wrong one is told."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

C = TypeVar("C", bound=Callable[..., Any])

_LONGEST, _WIDE = 60, 90

_MEANT: Mapping[str, tuple[str, ...]] = {
    "lr": ("learning_rate",),
    "bond_dim": ("D",),
    "bond_dimension": ("D",),
    "d": ("D", "local_dim"),
    "pbc": ("boundary",),
    "periodic": ("boundary",),
    "delta": ("Jz",),
    "n_steps": ("steps",),
    "n_iter": ("steps",),
    "samples": ("n_samples",),
    "walkers": ("n_walkers",),
    "n_chains": ("n_walkers",),
    "callbacks": ("callback",),
    "magnetisation": ("sector",),
    "magnetization": ("magnetisation", "sector"),
    "hamiltonian": ("operator",),
    "parameters": ("theta",),
    "params": ("theta",),
}
"""Words of other programs, and what may be meant by them here, where they do not look alike."""


def spelt(**elsewhere: str) -> Callable[[C], C]:
    """Let a class or function say of a wrong call what it takes, and which name was meant.

    The decorated call raises TypeError for a name that is not known, an argument that is missing,
    or too many without a name.  `elsewhere` says what to write for names of another object.
    """

    def decorate(called: Any) -> Any:
        if isinstance(called, type):
            of_class: Any = called
            of_class.__init__ = _checked(of_class.__init__, called.__name__, elsewhere)
            return called
        local = "<locals>" in called.__qualname__
        return _checked(called, called.__name__ if local else called.__qualname__, elsewhere)

    return decorate


def _checked(
    function: Callable[..., Any], name: str, elsewhere: Mapping[str, str]
) -> Callable[..., Any]:
    signature = inspect.signature(function)
    taken = list(signature.parameters.values())
    skip = int(taken[0].name in ("self", "cls")) if taken else 0
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    open_end = any(each.kind in variable for each in taken)

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            signature.bind(*given, **named)
        except TypeError as error:
            if open_end:
                raise
            wrong = _what_is_wrong(name, taken[skip:], given[skip:], named, elsewhere)
            raise TypeError(f"{name}: {wrong or error}") from None
        return function(*given, **named)

    return call


def _what_is_wrong(
    name: str,
    taken: Sequence[inspect.Parameter],
    given: tuple[Any, ...],
    named: Mapping[str, Any],
    elsewhere: Mapping[str, str],
) -> str:
    """What is wrong with a call, and how to write it; nothing where it is not seen."""
    known = [each.name for each in taken]
    required = [each.name for each in taken if each.default is inspect.Parameter.empty]
    shown = [each if each in required else f"{each}=..." for each in known]
    takes = f"{name}({', '.join(shown)})"
    if len(takes) >= _WIDE:
        takes = f"{name}({', '.join(required)}, ...)"
    for word in named:
        if word not in known:
            return f"no argument {word!r}; {_meant(word, known, elsewhere)}"
    places = [each.name for each in taken if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    if len(given) > len(places):
        where = f"at most {len(places)} arguments go without a name" if places else "it takes none"
        rest = ", ".join(each for each in known if each not in places)
        more = f"; give others by name: {rest}" if rest else ""
        return f"{len(given)} arguments, {where}: {takes}{more}"
    placed = dict(zip(places, given))
    for twice in (each for each in placed if each in named):
        return (
            f"{twice} is given twice, as {shortly(placed[twice])} by its place and as "
            f"{shortly(named[twice])} by name; it is called as {takes}"
        )
    missing = [each for each in required if each not in named and each not in placed]
    if not missing:
        return ""
    hint = f"it is called as {takes}"
    if len(given) == 1 and isinstance(given[0], tuple | list) and len(given[0]) == len(missing) + 1:
        hint = f"write {name}({', '.join(map(repr, given[0]))})"
    return f"{' and '.join(missing)} missing; {hint}"


def _meant(word: str, known: Sequence[str], elsewhere: Mapping[str, str]) -> str:
    """What to write for a name that is not known."""
    if word in elsewhere:
        return f"write {elsewhere[word]}"
    meant = [each for each in _MEANT.get(word.lower(), ()) if each in known]
    meant = meant or get_close_matches(word, known, 1, 0.6)
    return (
        f"did you mean {meant[0]!r}?" if meant else f"it takes {', '.join(known) or 'no arguments'}"
    )


def shortly(value: Any) -> str:
    """Write a value in a few characters: itself, or what it is."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if inspect.isroutine(value):
        return f"the function {getattr(value, '__name__', '')}"
    if isinstance(value, str | bytes | int | float | complex | tuple | list) or value is None:
        text = repr(value)
        if len(text) <= _LONGEST:
            return text
    if isinstance(value, np.generic) or isinstance(value, np.ndarray) and value.size < 5:
        return repr(value)
    return f"{type(value).__name__}(...)"


def as_path(where: str, value: Any) -> Path:
    """Give a path; TypeError for what is neither a text nor a path."""
    if isinstance(value, str | PathLike):
        return Path(value)
    raise TypeError(f"{where}: the path must be a text or a Path, got {shortly(value)}")


def refuse(where: str, name: str, value: Any, example: str, hint: str = "") -> TypeError:
    """Give the error for an argument that is another object than the one that is needed.

    A class in the place of its instance is answered with that; `hint` is what to write instead.
    """
    if not hint and isinstance(value, type):
        hint = f"make one of it: {value.__name__}(...)"
    given = f"got {shortly(value)}{hint and f'; {hint}'}"
    return TypeError(f"{where}: {name} must be {example}, {given}")


def level_of_caller() -> int:
    """Give the stack level, as seen by the caller of this, of the line that called the package."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "tnvmc":
        frame, level = frame.f_back, level + 1
    return level
