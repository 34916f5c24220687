"""What the sections of a settings file are made of: types of keys, and types in words."""

from __future__ import annotations

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
PositiveNumber = Annotated[Number, Field(gt=0)]
NonNegativeNumber = Annotated[Number, Field(ge=0)]
AboveOne = Annotated[Number, Field(gt=1)]
Positives = Annotated[tuple[Positive, ...], Field(min_length=1)]
Size = (
    Positive
    | Annotated[
        tuple[Positive, ...], Field(min_length=2, max_length=2, description="[rows, columns]")
    ]
)
Path = Annotated[StrictStr, Field(description="a path")]


class Section(BaseModel):
    """One section: the docstring of a key is its meaning, its type says what is allowed.

    A default that depends on other settings is None here, told in the docstring, and filled in by
    `tnvmc.settings.defaults`.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True, defer_build=True)


def models_in(annotation: Any) -> list[type[Section]]:
    """Give the models that an annotation is made of: several where the section has kinds."""
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
    return _in_words({name: part for name, part in schema.items() if name != "description"})


def meaning(model: type[Section], key: str) -> str:
    """Give the docstring of a key in one line, of a parent where its own class has none."""
    described = model.model_fields[key].description
    parents = (parent for parent in model.__mro__ if parent.__module__.startswith("tnvmc."))
    return described or next(told[key] for told in map(_docstrings, parents) if key in told)


@cache
def _docstrings(model: type) -> Mapping[str, str]:
    """Read them from the source, which pydantic would do for every model at every import."""
    try:
        source = inspect.getsource(model)
    except OSError:  # made by `create_model`
        return {}
    body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    return {
        ast.unparse(key.target): " ".join(ast.literal_eval(text.value).split())
        for key, text in pairwise(body)
        if isinstance(key, ast.AnnAssign) and isinstance(text, ast.Expr)
    }


def words(schema: Json) -> list[str]:
    """Give all words that a key may be."""
    known = [*schema.get("enum", ()), schema.get("const")]
    parts = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]
    return [w for w in known if isinstance(w, str)] + [w for part in parts for w in words(part)]


_NOUNS = {
    "integer": ("an integer", "integers"),
    "number": ("a number", "numbers"),
    "string": ("a text", "texts"),
    "boolean": ("true or false", "true or false"),
}
_LIMITS = {
    "minimum": ">=", "ge": ">=", "exclusiveMinimum": ">", "gt": ">",
    "maximum": "<=", "le": "<=", "exclusiveMaximum": "<", "lt": "<",
}  # fmt: skip


def _in_words(schema: Json, many: bool = False) -> str:
    if "description" in schema:
        return schema["description"]
    limits = {name: schema[name] for name in _LIMITS if name in schema}
    if "anyOf" in schema:
        parts = [part for part in schema["anyOf"] if part.get("type") != "null"]
        if {"type": "number"} in parts:
            parts = [part for part in parts if part != {"type": "integer"}]
        return ", or ".join(_in_words({**part, **limits}, many) for part in parts)
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
        return f"{'lists' if many else 'a list'} of {size}{_in_words(schema['items'], True)}{last}"
    bounds = " and ".join(f"{_LIMITS[name]} {limit}" for name, limit in limits.items())
    return f"{_NOUNS[schema['type']][many]} {bounds}".rstrip()
