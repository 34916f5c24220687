"""Level 0: tables of settings and types with limits, for pydantic, in words: "an integer >= 1"."""

import ast
import inspect
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr

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
Path = Annotated[StrictStr, Field(description="a path")]


class Section(BaseModel):
    """A table of a settings file: the docstring of a key is its meaning, its type what is allowed.

    A default that depends on other settings is None here, named in the docstring, and filled in by
    who reads the file.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True, defer_build=True)


def models_in(annotation: Any) -> list[type[Section]]:
    """Give the models that an annotation is made of: several where a table has kinds."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]


@cache
def properties(model: type[BaseModel]) -> Json:
    """Give the JSON schema of each key of a model."""
    return model.model_json_schema()["properties"]


def allowed(model: type[BaseModel], key: str) -> str:
    """Say what a key may be: "an integer >= 1", "one of a, b"."""
    schema = properties(model)[key]
    return in_words({name: part for name, part in schema.items() if name != "description"})


_NOUNS = {
    "integer": ("an integer", "integers"),
    "number": ("a number", "numbers"),
    "string": ("a text", "texts"),
    "boolean": ("true or false", "true or false"),
    "object": ("a table", "tables"),
    "null": ("left out", "nothing"),
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
    """Give what a field means in one line: its description, else its docstring or a parent's."""
    described = getattr(kind, "model_fields", {}).get(key)
    if described is not None and described.description:
        return str(described.description)
    parents = (parent for parent in kind.__mro__ if parent.__module__.startswith("tnvmc."))
    return next(texts[key] for texts in map(_docstrings, parents) if key in texts)


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
