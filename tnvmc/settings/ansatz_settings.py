"""[ansatz]: one model for each kind of wave function."""

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union, get_type_hints

from pydantic import AfterValidator, Field, StrictBool, StrictStr, create_model

from tnvmc.ansatz.neural import NETWORKS, Network, architectures
from tnvmc.lattice.embedding import Bonds
from tnvmc.lattice.lattice import Lattice
from tnvmc.limits import Path, Positive, PositiveNumber, Section, meaning


def _no_start(path: str) -> str:
    if path in ("auto", "simple_update", "short_update", "random", "product"):
        raise ValueError("a start that this kind does not have, or a path without its ./")
    return path


Saved = Annotated[
    StrictStr, AfterValidator(_no_start), Field(description="the path of a run or a checkpoint")
]
Group = Annotated[StrictStr, Field(description="names of parameter groups")]
Start = Literal["simple_update", "random", "product"] | Saved
Symmetries = Literal["translation", "point", "spin"]
Characters = Annotated[
    dict[StrictStr, Literal[-1, 1]], Field(description="a table of -1 or 1 by names of elements")
]


class _Ansatz(Section):
    """What all kinds take."""

    is_network: ClassVar[bool] = False
    is_autoregressive: ClassVar[bool] = False
    has_bonds: ClassVar[bool] = False  # a bond dimension D
    is_own: ClassVar[bool] = False  # of a class that the file names
    kind: str
    """`mps` has bonds along the rows and back alone; `product` has no bond dimension. `product` is
    one of single sites, `product_of_states` of two wave functions. `flax` is any Flax module, `own`
    any class of a wave function, as `module` names it."""
    dtype: Literal["float64", "float32", "complex128", "complex64"] | None = None
    """Type of the parameters and of all contractions. Default: `float64`, or `complex128` if the
    Hamiltonian is complex."""
    init: Start = "simple_update"
    """`simple_update` is imaginary-time evolution from an ordered product state; `product` that
    product state, with a little noise on a PEPS. The path of a run, of a checkpoint or of a file of
    `PEPS.save` starts from that state, grown if D is larger and cut if it is smaller; a network
    must have the same architecture."""
    init_noise: PositiveNumber | None = None
    """Normal noise on all parameters of the start, relative to their root mean square, by
    `run.seed`: simple update alone gives every seed the same start. Default: none."""
    symmetrise: tuple[Symmetries, ...] | None = None
    """The state is the sum of psi over a group, with the same parameters: `spin` inversion, the
    `point` group of the lattice, `translation` along periodic directions
    ([Symmetries](../sectors.md)). The Hamiltonian must have them; the cost of a measurement is
    multiplied by the number of elements. Default: none."""
    characters: Characters | None = None
    """Signs of the state under elements of the group: `{ "spin inversion" = -1 }`. Those of
    products follow, what nothing is said of is 1. With `symmetrise` only. Default: all 1."""

    @property
    def factors(self) -> dict[str, Any]:
        """The states of a product, by key; of anything else none."""
        return {}

    @property
    def single_states(self) -> dict[str, Any]:
        """The states that are no products, by key: "ansatz", or "ansatz.first" and so on."""
        return {f"ansatz.{key}": each for key, each in self.factors.items()} or {"ansatz": self}

    @property
    def leading(self) -> Any:
        """The state that is contracted and walked on: the first one of a product."""
        return self.factors.get("first", self)

    @property
    def is_contracted(self) -> bool:
        """Whether amplitudes are contracted, those of the first state of a product."""
        return self.leading.kind in ("peps", "mps")


class PEPSSettings(_Ansatz):
    """Projected entangled pair states; of one row, open matrix product states."""

    has_bonds: ClassVar[bool] = True
    kind: Literal["peps", "mps"] = "peps"
    D: Positive | None = None
    """Bond dimension of the state. Required, here or in every stage."""
    init: Literal["auto", "simple_update", "short_update", "random", "product"] | Saved = "auto"
    """`auto`: a run of 40 steps or more tries several for a few steps and goes on from the best
    ([Starts](../starts.md)); a shorter one takes simple update, or with shared tensors the product
    state. `short_update` is simple update that stops early. The others as for any state below."""
    bonds: Bonds = "open"
    """`periodic` closes every row of a cylinder to a ring (`lattice.boundary = "cylinder"`, three
    sites around or more), at a price ([cylinders](cylinders.md)). `open`: bonds of the state end at
    the edges of the grid, whatever the boundary of the lattice. `snake`: those of `mps`."""
    sharing: StrictBool | None = None
    """Tensors that a symmetry of the Hamiltonian takes to each other are one: the state has the
    symmetry, and a fraction of the parameters ([Shared tensors](../sharing.md)). Simple update is
    no start of it. Default: `true` from D = 3 on (at D = 2 above 4096 parameters) where the ground
    state is proven to have such symmetries, and nothing is said of `init`, of simple update, of
    `symmetrise` or of `[[orthogonal]]`; and where `init` names a state that shares its tensors by
    the symmetries of this Hamiltonian."""
    edge: Positive | None = None
    """Rows and columns at each end with tensors of their own; all others, the bulk, have those of
    the first row and column beyond ([Large lattices](../sharing.md)). With `sharing`, on lattices
    with reflections. A run with an edge is a start (`init`) on lattices of other sizes too.
    Default: none, so that all rows have their own."""
    period: Positive | None = None
    """Rows and columns after which the tensors of the bulk repeat. With `edge`. Default: 1."""

    def bonds_on(self, lattice: Lattice) -> Bonds:
        """Give the bonds of the state on a lattice: on several rows an MPS has a snake."""
        return "snake" if self.kind == "mps" and lattice.n_rows > 1 else self.bonds


class PeriodicMPSSettings(PEPSSettings):
    """Matrix product states on a ring."""

    kind: Literal["periodic_mps"] = "periodic_mps"  # type: ignore[assignment]
    bonds: Literal["periodic"] = "periodic"  # type: ignore[assignment]
    """Of a matrix product state on a ring there are no others."""
    init: Start = "random"
    """`random`, or the path of a run or a checkpoint."""


class _WithoutBonds(_Ansatz):
    @property
    def D(self) -> None:
        """Not the bond dimension: there is none, or only in the tables of states."""
        return None


class ProductSettings(_WithoutBonds):
    """Product states."""

    kind: Literal["product"] = "product"
    init: Start = "product"


class NetworkSettings(_WithoutBonds):
    """What all networks take; the other keys are arguments of the network."""

    is_network: ClassVar[bool] = True
    arguments: ClassVar[tuple[str, ...]] = ()
    """Keys that are arguments of the network."""
    dtype: Literal["float64"] = "float64"
    """Type of the parameters. With complex output psi can still have phases."""
    init: Literal["random"] | Saved = "random"
    freeze: tuple[Group, ...] = ()
    """Groups of parameters that are not trained, by the beginning of their names (`embedding`,
    `blocks.0`)."""
    marshall: StrictBool | None = None
    """Multiply psi by Marshall's sign, (-1)^(number of down spins on one sublattice of the
    checkerboard). The other factor is then positive in the ground state of an antiferromagnet
    without frustration. Periodic directions need an even length. Default: `true` where fewer
    positive elements of the Hamiltonian are left with these signs than without, or as `init` has
    it; `false` in a product."""
    average: tuple[Symmetries, ...] = ()
    """Average psi over symmetries: `translation` along periodic directions, `point` group, `spin`
    inversion. The Hamiltonian must have them; the cost is multiplied by their number. For an
    autoregressive network |psi|² is averaged, so that it can still be sampled directly."""

    def given(self) -> dict[str, Any]:
        """Give the arguments of the network, but those that are left to it."""
        found = {key: getattr(self, key) for key in self.arguments}
        return {key: value for key, value in found.items() if value is not None}


class OwnSettings(NetworkSettings):
    """Classes of the user's own, Flax modules and other wave functions: either word serves."""

    is_own: ClassVar[bool] = True
    arguments: ClassVar = ("module", "keywords", "inputs", "holomorphic")
    of_modules: ClassVar = ("inputs", "holomorphic", "freeze", "marshall", "average")
    kind: Literal["flax", "own"] = "flax"
    dtype: None = None  # type: ignore[assignment]
    """Of a class of its own, that of its parameters."""
    module: StrictStr
    """Where the class is, `"my_nets:ResCNN"` or `"netket.models:RBM"`: in the folder of the
    settings file, else in the Python path. It is imported, so that its code runs."""
    keywords: dict[StrictStr, Any] = Field({})
    """Arguments of the class. `lattice`, `n_sites`, `local_dim` and `rngs` are given to one that
    has arguments of these names."""
    folder: Path | None = None
    """Where `module` is looked up first. Default: the folder of the settings file."""
    inputs: Literal["states", "spins"] | None = None
    """What a module is given: local states 0 and 1, or spins +1 and -1. Default: `spins` for
    models of NetKet, else `states`."""
    holomorphic: StrictBool | None = None
    """Complex parameters in which ln psi is holomorphic: half the cost. Default: as the module
    says in an attribute of this name, else `false`."""
    marshall: StrictBool = False  # type: ignore[assignment]
    """Multiply psi by Marshall's sign, (-1)^(number of down spins on one sublattice)."""


class AutoregressiveSettings(NetworkSettings):
    """Networks that are normalised, and drawn from directly."""

    is_autoregressive: ClassVar[bool] = True


_ONLY_IN_PYTHON = {
    "activation", "dense", "form", "head", "init_scale", "kernel", "padding", "pool",
    "pooling", "residual", "stride",
}  # fmt: skip
"""Arguments of networks that a file does not set."""

_BY_SIGNS = {
    "output": "`real` if psi > 0 is exact", "dtype": "`float64` if psi > 0 is exact",
    "alpha": "4 where `sharing` is the default and up to 36 sites, else 2",
    "sharing": "`true` if psi > 0 is exact and there are at most as many symmetries as sites",
}  # fmt: skip
"""Arguments whose default follows from the Hamiltonian, and what it is."""


def _network(kind: str, network: Network) -> Any:
    """Make the model of a network from its architecture."""
    architecture = getattr(architectures, f"{network.name}Config")
    types = get_type_hints(architecture, include_extras=True)
    keys: dict[str, Any] = {
        field.name: _key(field.name, types[field.name], field.default, architecture)
        for field in fields(architecture)
        if field.name not in _ONLY_IN_PYTHON
    }
    base = AutoregressiveSettings if network.autoregressive else NetworkSettings
    of_kind: Any = {"kind": (Literal[kind], kind)}
    model = create_model(kind, __base__=base, **of_kind, **keys)
    model.arguments = tuple(keys)
    return model


def _key(name: str, kind: Any, default: Any, architecture: Any) -> tuple[Any, Any]:
    """Type and default of a key."""
    text, without = meaning(architecture, name), _BY_SIGNS.get(name)
    if without is None:
        return kind, Field(default, description=text)
    return kind | None, Field(None, description=f"{text} Default: {without}.")


class JastrowSettings(_WithoutBonds):
    """A factor for each pair of sites."""

    kind: Literal["jastrow"] = "jastrow"
    init: Literal["random"] | Saved = "random"


class SlaterSettings(_WithoutBonds):
    """A Slater determinant: fermions in orbitals of their own, one for each species."""

    kind: Literal["slater"] = "slater"
    init: Literal["product", "random"] | Saved = "product"
    """`product`: orbitals in the mean field of the others, exact without interaction."""


_SECOND = (
    PeriodicMPSSettings, ProductSettings, JastrowSettings, SlaterSettings,
    *(_network(kind, network) for kind, network in NETWORKS.items()), OwnSettings,
)  # fmt: skip


def _one_of(*models: Any) -> Any:
    return Annotated[Union[models], Field(discriminator="kind")]  # noqa: UP007


class ProductOfStatesSettings(_WithoutBonds):
    """Products of two states."""

    kind: Literal["product_of_states"] = "product_of_states"
    init: Literal["factors"] | Saved = "factors"
    first: _one_of(PEPSSettings, *_SECOND)  # type: ignore[valid-type]
    """The state that is contracted and that chains walk on, such as a PEPS
    ([Products](../products.md)). With `init = "factors"` it starts as its own `init` says, and the
    second one nearly constant."""
    second: _one_of(*_SECOND)  # type: ignore[valid-type]
    """The other state, of any kind but `peps` and `mps`."""
    sweeps: Literal["first", "both"] | None = None
    """`first`: chains sample |psi|² of the first state, that of the second one makes weights.
    `both`: every move is accepted by full amplitudes of both; no weights. Default: `first` for a
    PEPS or MPS, else `both`."""

    @property
    def factors(self) -> dict[str, Any]:
        return {"first": self.first, "second": self.second}


def named(kind: str) -> str:
    """Give a kind with its article."""
    return f"{'an' if kind in ('mps', 'rbm', 'rnn', 'own') else 'a'} {kind}"


if TYPE_CHECKING:
    AnsatzSettings = Any
else:
    AnsatzSettings = _one_of(PEPSSettings, *_SECOND, ProductOfStatesSettings)
