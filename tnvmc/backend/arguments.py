"""Arguments of public calls: what is taken, and the error of one line for what is not.

NumPy's scalars are taken as Python's numbers; True and False are none, nor are texts.
"""

import inspect
import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

_LONGEST = 60  # characters of a value in an error
_TYPES = ("float64", "float32", "complex128", "complex64")


class ArgumentWarning(UserWarning):
    """An argument is taken, and does something else than it seems to."""


def is_whole(value: Any) -> bool:
    """Tell whether a value is a whole number of Python or NumPy; 2.0 is none."""
    return _is_number(value, Integral)


def _is_number(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and type(value) is not bool


def is_listed(value: Any) -> bool:
    """Tell whether a value holds others, as a list, an array or a set does, but is no text."""
    return np.iterable(value) and not isinstance(value, str)


def whole(where: str, name: str, value: Any, least: int | None = 1) -> int:
    """Give back a whole number, at least `least`, as int; ValueError otherwise."""
    if not is_whole(value):
        hint = ""
        with suppress(TypeError, ValueError, OverflowError):
            if type(value) is not bool and float(value) == int(float(value)):
                hint = f"; write {int(float(value))}"
        raise ValueError(f"{where}: {name} must be a whole number, got {shortly(value)}{hint}")
    if least is not None and value < least:
        raise ValueError(f"{where}: {name} must be at least {least}, got {shortly(value)}")
    return int(value)


def real(where: str, name: str, value: Any, least: float = -math.inf) -> float:
    """Give back a finite number, not below the least one, as float; ValueError otherwise."""
    if getattr(value, "ndim", 1) == 0:  # NumPy's, an array of one number too
        value = value.item()
    if not _is_number(value, Real) or not math.isfinite(value):
        raise ValueError(f"{where}: {name} must be a finite number, got {shortly(value)}")
    if value < least:
        raise ValueError(f"{where}: {name} must be at least {least:g}, got {shortly(value)}")
    return float(value)


def positive(where: str, name: str, value: Any) -> float:
    """Give back a finite number above 0 as float; ValueError otherwise."""
    found = real(where, name, value)
    if found <= 0:
        raise ValueError(f"{where}: {name} must be above 0, got {shortly(value)}")
    return found


def optional_positive(where: str, name: str, value: Any) -> None:
    """Raise ValueError unless a value is None or `positive`."""
    if value is not None:
        positive(where, name, value)


def one_of(where: str, name: str, value: Any, known: Collection[Any]) -> None:
    """Raise ValueError unless a value is one of the known ones."""
    if not any(value is each or type(value) is str and value == each for each in known):
        names = ", ".join(map(repr, known))
        raise ValueError(f"{where}: {name} must be one of {names}, got {shortly(value)}")


def set_whole(owner: Any, least: Mapping[str, int | None]) -> None:
    """Make attributes of a (frozen) object whole numbers; None stays where the class has it."""
    for name, lowest in least.items():
        value = getattr(owner, name)
        if value is not None or getattr(type(owner), name, 0) is not None:
            object.__setattr__(owner, name, whole(type(owner).__name__, name, value, lowest))


def numeric_type(where: str, value: Any) -> np.dtype[Any]:
    """Give the dtype of parameters, real or complex, single or double; ValueError for others."""
    try:
        name = np.dtype(value).name
    except TypeError:
        name = ""
    if value is None or name not in _TYPES:
        raise ValueError(f"{where}: dtype must be one of {', '.join(_TYPES)}, got {shortly(value)}")
    found: np.dtype[Any] = np.dtype(name)
    return found


def unmasked(where: str, value: Any) -> np.ndarray:
    """Give numbers as an array; ValueError for one of NumPy that masks some, which would count."""
    if np.ma.is_masked(value):
        raise ValueError(f"{where}: some are masked, and would count; write x.filled(0), or others")
    return np.asarray(value)


def shortly(value: Any) -> str:
    """Write a value in a few characters: itself, or what it is."""
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    if inspect.isroutine(value):
        return f"the function {getattr(value, '__name__', '')}"
    kind = type(value)
    plain = kind in (str, bytes, bool, int, float, complex, tuple, list, type(None))
    if plain and len(repr(value)) <= _LONGEST:
        return repr(value)
    if kind.__module__ == "numpy" and getattr(value, "size", math.inf) < 5:
        return repr(value)
    return f"{kind.__name__}(...)"


def as_path(where: str, value: Any) -> Path:
    """Give a path; TypeError for what is neither a text nor a path."""
    try:
        return Path(value)
    except TypeError:
        given = f"the path must be a text or a Path, got {shortly(value)}"
        raise TypeError(f"{where}: {given}") from None


def refuse(where: str, name: str, value: Any, example: str, hint: str = "") -> TypeError:
    """Give the error for an argument that is another object than the one that is needed.

    A class in the place of its instance is answered with that; `hint` is what to write instead.
    """
    if not hint and inspect.isclass(value):
        hint = f"make one of it: {value.__name__}(...)"
    given = f"got {shortly(value)}{hint and f'; {hint}'}"
    return TypeError(f"{where}: {name} must be {example}, {given}")


def level_of_caller() -> int:
    """Give the stack level, as seen by the caller of this, of the line that called the package."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "tnvmc":
        frame, level = frame.f_back, level + 1
    return level
