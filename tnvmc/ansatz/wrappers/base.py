"""What all wrappers of a wave function share: whatever is the inner state's is passed on.

An ability (`Truncated`, `Initialisable`, `Tempered`) is one of a wrapper exactly where the inner
state has it: the class of a wrapper is put together when it is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Self

from tnvmc.ansatz.protocol import (
    Ansatz,
    Execution,
    Initialisable,
    Truncated,
    Typed,
    execution_of,
)
from tnvmc.lattice.lattice import Lattice

Array = Any


class Wrapper:
    """A state made of another one, `ansatz`, with the same lattice and parameters."""

    ansatz: Ansatz
    abilities: ClassVar[Mapping[Any, type]] = {}  #: protocol -> what passes it on, of a subclass
    family: ClassVar[type[Wrapper]]  #: the subclass without abilities, set where they are added

    def __new__(cls, ansatz: Ansatz, *args: Any, **kwargs: Any) -> Self:
        has = tuple(
            cls.abilities[ability] for ability in cls.abilities if isinstance(ansatz, ability)
        )
        return object.__new__(_with_abilities(cls, has))  # type: ignore[arg-type]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.family, vars(self))

    @property
    def lattice(self) -> Lattice:
        """The lattice of the inner state."""
        return self.ansatz.lattice

    @property
    def local_dim(self) -> int:
        """Local dimension d."""
        return self.ansatz.local_dim

    @property
    def n_params(self) -> int:
        """Length P of theta, that of the inner state."""
        return self.ansatz.n_params

    @property
    def execution(self) -> Execution:
        """As the inner state should be run."""
        return execution_of(self.ansatz)

    def description(self) -> dict[str, Any]:
        """The name of the class."""
        return {"ansatz": self.family.__name__}


class PassesType(Wrapper):
    """Has parameters of a known type."""

    @property
    def dtype(self) -> Any:
        """Type of theta, that of the inner state."""
        assert isinstance(self.ansatz, Typed)
        return self.ansatz.dtype


class PassesScheme(Wrapper):
    """Is contracted as the inner state is."""

    @property
    def scheme(self) -> Any:
        """Contraction scheme of the inner state."""
        assert isinstance(self.ansatz, Truncated)
        return self.ansatz.scheme

    @property
    def scheme_given(self) -> bool:
        """Whether the scheme of the inner state was chosen."""
        return getattr(self.ansatz, "scheme_given", True)

    def with_scheme(self, scheme: Any) -> Ansatz:
        """The same state contracted in another way; theta carries over."""
        assert isinstance(self.ansatz, Truncated)
        inner = self.ansatz.with_scheme(scheme)
        other: Ansatz = _restored(self.family, {**vars(self), "ansatz": inner})
        return other


class PassesStart(Wrapper):
    """Starts as the inner state does."""

    @property
    def starts(self) -> tuple[str, ...]:
        """Kinds of start of the inner state."""
        assert isinstance(self.ansatz, Initialisable)
        return self.ansatz.starts

    def initial(self, operator: Any, seed: int = 0, kind: str | None = None) -> Array:
        """theta (P,) as the inner state starts."""
        assert isinstance(self.ansatz, Initialisable)
        return self.ansatz.initial(operator, seed, kind)


OF_STATE: Mapping[Any, type] = {
    Typed: PassesType,
    Truncated: PassesScheme,
    Initialisable: PassesStart,
}
"""Abilities of the inner state that are any wrapper's too."""


@cache
def _with_abilities(family: type[Wrapper], has: tuple[type, ...]) -> type:
    return type(family.__name__, (family, *has), {"family": family, "__module__": __name__})


def _restored(family: type[Wrapper], fields: dict[str, Any]) -> Any:
    """A wrapper with these fields, as unpickled or copied."""
    wrapper = family.__new__(family, fields["ansatz"])
    vars(wrapper).update(fields)
    return wrapper
