"""[ansatz]: one model for each kind of wave function."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr

from tnvmc.settings.section import (
    NonNegative,
    NonNegativeNumber,
    Positive,
    PositiveNumber,
    Positives,
    Section,
    Size,
)


def _no_start(path: str) -> str:
    if path in ("simple_update", "random", "product"):
        raise ValueError("a start that this kind does not have, or a path without its ./")
    return path


Saved = Annotated[
    StrictStr,
    AfterValidator(_no_start),
    Field(description="the path of a run or a checkpoint"),
]
Group = Annotated[StrictStr, Field(description="names of parameter groups")]
Start = Literal["simple_update", "random", "product"] | Saved
Symmetries = Literal["translation", "point", "spin"]


class _Ansatz(Section):
    """What all kinds take."""

    kind: str
    """`mps` needs a lattice of one row; `product` and `dimer` have no bond dimension."""
    dtype: Literal["float64", "float32", "complex128", "complex64"] = "float64"
    """Type of the parameters and of all contractions."""
    init: Start = "simple_update"
    """`simple_update` is imaginary-time evolution from an ordered product state; `product` that
    product state, with a little noise on a PEPS. The path of a run, of a checkpoint or of a file of
    `PEPS.save` starts from its state, grown where this D is larger; a network must have the same
    architecture."""


class PEPSSettings(_Ansatz):
    """Projected entangled pair states; of one row, open matrix product states."""

    kind: Literal["peps", "mps"] = "peps"
    D: Positive | None = None
    """Bond dimension of the state. Required, here or in every stage."""


class PeriodicMPSSettings(PEPSSettings):
    """Matrix product states on a ring."""

    kind: Literal["periodic_mps"] = "periodic_mps"  # type: ignore[assignment]
    init: Start = "random"


class ProductSettings(_Ansatz):
    """Product states."""

    kind: Literal["product"] = "product"
    D: Annotated[StrictInt, Field(ge=1, le=1)] | None = None
    """A product state has no bond dimension."""
    init: Start = "product"


class DimerSettings(ProductSettings):
    """Products of states of two sites."""

    kind: Literal["dimer"] = "dimer"  # type: ignore[assignment]
    init: Start = "random"


class NetworkSettings(_Ansatz):
    """What all networks take; the other keys are arguments of the network."""

    dtype: Literal["float64"] = "float64"
    init: Literal["random"] | Saved = "random"
    freeze: tuple[Group, ...] = ()
    """Groups of parameters that stay as they are, by the beginning of their names (`embedding`,
    `blocks.0`). An unknown name is answered with those there are."""
    marshall: StrictBool = False
    """Multiply psi by (-1) to the number of down spins on one sublattice of the checkerboard, so
    that the ground state of an antiferromagnet without frustration has psi > 0 otherwise. Needs
    rings of even length."""
    average: tuple[Symmetries, ...] = ()
    """psi averaged over symmetries, at as many times the cost: `translation` along periodic
    directions, `point` group, `spin` inversion. The Hamiltonian must have them. Of an
    autoregressive network |psi|² is averaged, so that it still can be drawn."""

    @property
    def D(self) -> None:
        """A network has no bond dimension."""
        return None

    def keywords(self) -> dict[str, Any]:
        """Give the arguments of the network."""
        own = set(type(self).model_fields) - set(NetworkSettings.model_fields)
        return {key: getattr(self, key) for key in type(self).model_fields if key in own}


class RBMSettings(NetworkSettings):
    """A restricted Boltzmann machine."""

    kind: Literal["rbm"] = "rbm"
    dtype: Literal["complex128", "float64"] = "complex128"  # type: ignore[assignment]
    alpha: PositiveNumber = 1.0
    """Hidden units per site."""
    form: Literal["binary", "log_cosh"] = "log_cosh"
    """Hidden units of 0 and 1 traced out, or of -1 and +1. The same family, other variables."""
    visible_bias: StrictBool = True
    """A bias for each site."""
    hidden_bias: StrictBool = True
    """A bias for each hidden unit."""
    init_scale: NonNegativeNumber = 0.01
    """Standard deviation of the parameters at a random start."""

    def keywords(self) -> dict[str, Any]:
        """Give the arguments of the network."""
        return {**super().keywords(), "dtype": self.dtype}


class _WithPhase(NetworkSettings):
    output: Literal["real", "complex"] = "complex"
    """Whether psi has a phase. `real` needs `marshall` for an antiferromagnet."""


class CNNSettings(_WithPhase):
    """Convolutions on the grid."""

    kind: Literal["cnn"] = "cnn"
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


class _WithPatches(_WithPhase):
    width: Positive = 24
    """Components of the vector that stands for a patch."""
    heads: Positive = 4
    """Heads of the attention; must divide `width`."""
    layers: Positive = 2
    """Blocks of attention and feed-forward."""
    patch: Size = 2
    """b for patches of b x b sites, or rows and columns; they must tile the lattice."""


class ViTSettings(_WithPatches):
    """A vision transformer."""

    kind: Literal["vit"] = "vit"
    attention: Literal["t5", "decoupled", "factored"] = "factored"
    """Where relative positions enter; `factored` has nothing else and is the fastest."""


class AutoregressiveSettings(_WithPhase):
    """Networks that are normalised, and drawn from directly."""

    output: Literal["real", "complex"] = "real"
    magnetisation: StrictInt | Literal[False] | None = None
    """psi = 0 but where twice the total Sz is this number; `false` for no such restriction.
    Default: `sampler.magnetisation` where the Hamiltonian conserves it."""


class MADESettings(AutoregressiveSettings):
    """Masked dense layers."""

    kind: Literal["made"] = "made"
    features: Positives = (128,)
    """Widths of the hidden layers."""


class RNNSettings(AutoregressiveSettings):
    """A recurrent network."""

    kind: Literal["rnn"] = "rnn"
    hidden: Positive = 32
    """Units of the recurrent cell."""
    order: Literal["snake", "2d"] = "2d"
    """A site listens to the one before it on a snake, or to the one before it in its row and the
    one above."""


class PatchedTransformerSettings(AutoregressiveSettings, _WithPatches):
    """A decoder with patches as tokens."""

    kind: Literal["patched_transformer"] = "patched_transformer"
    width: Positive = 32
    heads: Positive = 8
    attention: Literal["softmax", "linear"] = "softmax"
    """`linear` remembers O(1) numbers a token."""
    inner: NonNegative = 0
    """Units of a small network that predicts the sites of a patch one by one, for large patches;
    0 predicts a patch at once."""


AnsatzSettings = Annotated[
    PEPSSettings | PeriodicMPSSettings | ProductSettings | DimerSettings
    | RBMSettings | CNNSettings | MADESettings | RNNSettings | PatchedTransformerSettings
    | ViTSettings,
    Field(discriminator="kind"),
]  # fmt: skip
