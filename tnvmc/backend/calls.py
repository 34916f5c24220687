"""Calls of public classes and functions: what a wrong one is told, beside what `arguments` says of values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
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
"""Words of other programs, and what may be meant by them here; those that look alike are found without."""


def spelt(**elsewhere: str) -> Callable[[C], C]:
    """Let a class or function say of a wrong call what it takes, and which name was meant.

    Args:
        elsewhere: for names that belong to another object, what to write there.

    The decorated call raises TypeError: a name that is not known, an argument that is missing, or too
    many without a name.  Cost: one look at the names of each call.
    """

    def decorate(called: C) -> C:
        if isinstance(called, type):
            called.__init__ = _checked(called.__init__, called.__name__, elsewhere, 1)  # type: ignore[misc]
            return called
        function: Any = called
        of_class = "." in function.__qualname__ and "<locals>" not in function.__qualname__
        name = function.__qualname__ if of_class else function.__name__
        checked: Any = _checked(function, name, elsewhere, int(of_class))
        return checked  # type: ignore[no-any-return]

    return decorate


def _checked(
    function: Callable[..., Any], name: str, elsewhere: Mapping[str, str], skip: int
) -> Callable[..., Any]:
    signature = inspect.signature(function)
    taken = list(signature.parameters.values())[skip:]
    whole = [each.kind for each in taken]
    open_end = inspect.Parameter.VAR_KEYWORD in whole or inspect.Parameter.VAR_POSITIONAL in whole

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            signature.bind(*given, **named)
        except TypeError as error:
            if open_end:
                raise
            raise TypeError(_letter(name, taken, given[skip:], named, elsewhere, error)) from None
        return function(*given, **named)

    return call


def _letter(
    name: str,
    taken: list[inspect.Parameter],
    given: tuple[Any, ...],
    named: Mapping[str, Any],
    elsewhere: Mapping[str, str],
    error: TypeError,
) -> str:
    """What is wrong with a call, and how to write it."""
    known = [each.name for each in taken]
    required = [each for each in taken if each.default is inspect.Parameter.empty]
    all_of = f"{name}({', '.join(map(_shown, taken))})"
    takes = all_of if len(all_of) < _WIDE else f"{name}({', '.join(map(_shown, required))}, ...)"
    for word in named:
        if word in known:
            continue
        if word in elsewhere:
            return f"{name}: no argument {word!r}; write {elsewhere[word]}"
        meant = [each for each in _MEANT.get(word.lower(), ()) if each in known]
        meant = meant or get_close_matches(word, known, 1, 0.6)
        all_known = ", ".join(known) or "no arguments"
        hint = f"did you mean {meant[0]!r}?" if meant else f"it takes {all_known}"
        return f"{name}: no argument {word!r}; {hint}"
    places = [each for each in taken if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    if len(given) > len(places):
        where = f"at most {len(places)} arguments go without a name" if places else "it takes none"
        rest = [each for each in known if each not in [place.name for place in places]]
        more = f"; give others by name: {', '.join(rest)}" if rest else ""
        return f"{name}: {len(given)} arguments, {where}: {takes}{more}"
    twice = [each.name for each in places[: len(given)] if each.name in named]
    if twice:
        first = given[[each.name for each in places].index(twice[0])]
        return (
            f"{name}: {twice[0]} is given twice, as {shortly(first)} by its place and as "
            f"{shortly(named[twice[0]])} by name; it is called as {takes}"
        )
    missing = [
        each.name
        for number, each in enumerate(taken)
        if each.default is inspect.Parameter.empty
        and each.name not in named
        and not (number < len(given) and each in places)
    ]
    if missing:
        hint = f"it is called as {takes}"
        if (
            len(given) == 1
            and isinstance(given[0], tuple | list)
            and len(given[0]) == len(missing) + 1
        ):
            hint = f"write {name}({', '.join(map(repr, given[0]))})"
        return f"{name}: {' and '.join(missing)} missing; {hint}"
    return f"{name}: {error}"


def _shown(parameter: inspect.Parameter) -> str:
    required = parameter.default is inspect.Parameter.empty
    return parameter.name if required else f"{parameter.name}=..."


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
    return TypeError(
        f"{where}: {name} must be {example}, got {shortly(value)}{hint and f'; {hint}'}"
    )


def level_of_caller() -> int:
    """Give the stack level, as seen by the caller of this, of the line that called the package."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "tnvmc":
        frame, level = frame.f_back, level + 1
    return level
