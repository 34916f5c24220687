"""Architectures of the networks: what each keyword means and may be, and its default; without JAX.

`tnvmc.settings.ansatz_settings` makes the keys of a settings file from them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache, wraps
from typing import Any, Literal, TypeVar, get_type_hints
from weakref import WeakKeyDictionary

import numpy as np
from pydantic import StrictBool, TypeAdapter, ValidationError

from tnvmc.lattice.lattice import Lattice
from tnvmc.limits import NonNegativeNumber, Positive, PositiveNumber, Positives, Size, in_words


@dataclass(frozen=True)
class Architecture:
    """Give keywords of a network; ValueError for a value that its type does not allow."""

    def __post_init__(self) -> None:
        for key, kind in _types(type(self)).items():  # type: ignore[arg-type]
            value = getattr(self, key)
            try:
                kind.validate_python(value.item() if isinstance(value, np.generic) else value)
            except ValidationError:
                network, what = type(self).__name__.removesuffix("Config"), kind.json_schema()
                raise ValueError(f"{network}: {key} = {value!r} must be {in_words(what)}") from None


@cache
def _types(kind: Any) -> dict[str, TypeAdapter[Any]]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: TypeAdapter(hints[field.name]) for field in fields(kind)}


@dataclass(frozen=True)
class RBMConfig(Architecture):
    """Architecture of a restricted Boltzmann machine, for a lattice of N sites."""

    alpha: PositiveNumber = 2.0
    """Hidden units per site."""
    form: Literal["binary", "log_cosh"] = "log_cosh"
    """Hidden units of 0 and 1 traced out, or of -1 and +1. The same family, other variables."""
    dtype: Literal["complex128", "float64"] = "complex128"
    """Type of the parameters and of all contractions."""
    visible_bias: StrictBool = True
    """A bias for each site."""
    hidden_bias: StrictBool = True
    """A bias for each hidden unit."""
    sharing: StrictBool = False
    """Hidden units that symmetries of the lattice take to each other have the same weights."""
    init_scale: NonNegativeNumber | None = None
    """Standard deviation of the parameters at a random start. Default: 0.1, less in a large one."""


@dataclass(frozen=True)
class WithPhase(Architecture):
    """A network that may have a phase."""

    output: Literal["real", "complex"] = "complex"
    """Whether psi has a phase. `real` needs `marshall` for an antiferromagnet."""


@dataclass(frozen=True)
class CNNConfig(WithPhase):
    """Architecture of a convolutional network.

    A size of windows is an integer or (rows, columns); an integer is meant for each direction that
    has more than one site.
    """

    features: Positives = (8, 8)
    """Channels of each convolution."""
    kernel: Size = 3
    """Size of the windows."""
    stride: Size = 1
    """Distance between windows; must divide the grid."""
    padding: Literal["lattice", "periodic", "zero"] = "lattice"
    """What lies beyond an edge; `lattice` is periodic where the lattice is, zero elsewhere."""
    pooling: Literal["none", "max", "average"] = "none"
    """Largest value or average of disjoint blocks, after each activation."""
    pool: Size = 2
    """Size of these blocks; must divide the grid."""
    activation: Literal["sigmoid", "relu", "gelu", "log_cosh"] = "gelu"
    """After each convolution and dense layer."""
    residual: StrictBool = False
    """Add what went into a convolution to what comes out, where shapes agree."""
    head: Literal["flatten", "sum"] = "sum"
    """Channels summed over positions, or all positions and channels."""
    dense: tuple[Positive, ...] = ()
    """Widths of dense layers after the head."""


@dataclass(frozen=True)
class RNNConfig(WithPhase):
    """Architecture of a recurrent network."""

    output: Literal["real", "complex"] = "real"
    hidden: Positive = 10
    """Units of the recurrent cell."""
    order: Literal["snake", "2d"] = "2d"
    """A site depends on the one before it on a snake, or on the one before it in its row and the
    one above."""


@dataclass(frozen=True)
class WithPatches(WithPhase):
    """A network whose tokens are patches.

    Raises:
        ValueError: heads that do not divide the width.
    """

    width: Positive = 24
    """Components of the vector that stands for a patch."""
    heads: Positive = 4
    """Heads of the attention; must divide `width`."""
    layers: Positive = 2
    """Blocks of attention and feed-forward."""
    patch: Size = 2
    """b for patches of b x b sites, or rows and columns; they must tile the lattice."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads:
            raise ValueError(
                f"{type(self).__name__.removesuffix('Config')}: {self.heads} heads do not divide "
                f"the width {self.width}; take a multiple"
            )

    @property
    def patch_shape(self) -> tuple[int, int]:
        """Rows and columns of a patch."""
        rows, cols = np.broadcast_to(self.patch, 2).tolist()
        return rows, cols


@dataclass(frozen=True)
class ViTConfig(WithPatches):
    """Architecture of a vision transformer."""

    width: Positive = 12
    layers: Positive = 1
    attention: Literal["t5", "decoupled", "factored"] = "factored"
    """Where relative positions enter; `factored` has nothing else and is the fastest."""


@dataclass(frozen=True)
class PatchedTransformerConfig(WithPatches):
    """Architecture of a patched transformer."""

    output: Literal["real", "complex"] = "real"
    width: Positive = 32
    heads: Positive = 8
    attention: Literal["softmax", "linear"] = "softmax"
    """`linear` stores O(1) numbers for each token."""


M = TypeVar("M", bound=type)


# Beside the modules and not in them: what a module holds is part of what JAX compiles for.
MAKINGS: WeakKeyDictionary[Any, tuple[str, Lattice, Mapping[str, Any]]] = WeakKeyDictionary()
"""Of each network its kind, lattice and keywords, but the random numbers."""


def noted(kind: str) -> Callable[[M], M]:
    """Let a network take note of how it is made."""

    def decorate(network: M) -> M:
        initialise: Any = network.__init__  # type: ignore[misc]

        @wraps(initialise)
        def __init__(self: Any, lattice: Lattice, **keywords: Any) -> None:
            initialise(self, lattice, **keywords)
            own = {name: value for name, value in keywords.items() if name != "rngs"}
            MAKINGS[self] = (kind, lattice, own)

        network.__init__ = __init__  # type: ignore[misc]
        return network

    return decorate
