"""Level 0: types with limits, for pydantic, and what they say in words: "an integer >= 1"."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Annotated, Any

from pydantic import Field, StrictFloat, StrictInt

Json = Mapping[str, Any]

Positive = Annotated[StrictInt, Field(ge=1)]
NonNegative = Annotated[StrictInt, Field(ge=0)]
Number = StrictFloat | StrictInt
PositiveNumber = Annotated[Number, Field(gt=0, allow_inf_nan=False)]
NonNegativeNumber = Annotated[Number, Field(ge=0, allow_inf_nan=False)]
MOST_STARTS = 1000
"""Starts of one file: the measurement of the lowest has a seed that no further start will have."""

Positives = Annotated[tuple[Positive, ...], Field(min_length=1)]
Size = Positive | Annotated[tuple[Positive, Positive], Field(description="[rows, columns]")]

_NOUNS = {
    "integer": ("an integer", "integers"),
    "number": ("a number", "numbers"),
    "string": ("a text", "texts"),
    "boolean": ("true or false", "true or false"),
    "object": ("a table", "tables"),
}
_LIMITS = {
    "minimum": ">=", "ge": ">=", "exclusiveMinimum": ">", "gt": ">",
    "maximum": "<=", "le": "<=", "exclusiveMaximum": "<", "lt": "<",
}  # fmt: skip


def in_words(schema: Json, many: bool = False) -> str:
    """Put the JSON schema of a type in words; `many` as part of a list."""
    if "description" in schema:
        return str(schema["description"])
    limits = {name: schema[name] for name in _LIMITS if name in schema}
    if "anyOf" in schema:
        parts = [part for part in schema["anyOf"] if part.get("type") != "null"]
        if any(part.get("type") == "number" for part in parts):
            parts = [part for part in parts if part != {"type": "integer"}]
        return ", or ".join(in_words({**part, **limits}, many) for part in parts)
    if "discriminator" in schema:
        return f"a table with a kind, one of {', '.join(schema['discriminator']['mapping'])}"
    if "enum" in schema:
        choices = schema["enum"]
        return ", ".join(map(repr, choices)) if many else f"one of {', '.join(choices)}"
    if "const" in schema or limits.get("minimum", 0) == limits.get("maximum"):
        value = schema.get("const", limits.get("minimum"))
        return repr(value).lower() if isinstance(value, bool) else repr(value)
    if schema["type"] == "array":
        most, least = schema.get("maxItems"), schema.get("minItems")
        size = f"{most} " if most is not None and most == least else ""
        last = ", one at least" if least and not size else ""
        return f"{'lists' if many else 'a list'} of {size}{in_words(schema['items'], True)}{last}"
    bounds = " and ".join(f"{_LIMITS[name]} {limit}" for name, limit in limits.items())
    return f"{_NOUNS[schema['type']][many]} {bounds}".rstrip()


def choices(schema: Json) -> list[str]:
    """Give all words that a value of a type may be."""
    known = [*schema.get("enum", ()), schema.get("const")]
    parts = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]
    return [w for w in known if isinstance(w, str)] + [w for part in parts for w in choices(part)]


def meaning(kind: type, key: str) -> str:
    """Give the docstring of a field in one line, of a parent where its own class has none."""
    parents = (parent for parent in kind.__mro__ if parent.__module__.startswith("tnvmc."))
    return next(told[key] for told in map(_docstrings, parents) if key in told)


@cache
def _docstrings(kind: type) -> Mapping[str, str]:
    """Read them from the source, which pydantic would do for every model at every import."""
    try:
        source = inspect.getsource(kind)
    except OSError:  # made by `create_model`
        return {}
    body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    return {
        ast.unparse(key.target): " ".join(ast.literal_eval(text.value).split())
        for key, text in pairwise(body)
        if isinstance(key, ast.AnnAssign) and isinstance(text, ast.Expr)
    }
