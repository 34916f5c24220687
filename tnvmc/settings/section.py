"""What the sections of a settings file are made of, and how their keys are put in words."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictStr

from tnvmc.limits import Json, in_words
from tnvmc.limits import meaning as docstring

Path = Annotated[StrictStr, Field(description="a path")]


class Section(BaseModel):
    """One section: the docstring of a key is its meaning, its type says what is allowed.

    A default that depends on other settings is None here, named in the docstring, and filled in by
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
    return in_words({name: part for name, part in schema.items() if name != "description"})


def meaning(model: type[Section], key: str) -> str:
    """Give what a key means in one line: its description, else its docstring."""
    return model.model_fields[key].description or docstring(model, key)
