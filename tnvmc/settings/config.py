"""Settings of a run, section by section: what a TOML file may set, and the defaults."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args

from annotated_types import Len as Length
from annotated_types import Predicate
from pydantic import Field, StrictBool, StrictInt, StrictStr, create_model, model_validator

from tnvmc.limits import MOST_STARTS, NonNegative, Number, Positive, PositiveNumber
from tnvmc.operators import models
from tnvmc.settings.ansatz_settings import AnsatzSettings, AutoregressiveSettings, PEPSSettings
from tnvmc.settings.optimizer_settings import (
    ChiOfSteps,
    OptimizerSettings,
    SamplesPerStep,
    SRSettings,
    StageSettings,
)
from tnvmc.settings.section import AboveOne, Path, Section, models_in
from tnvmc.settings.series_settings import ScanSettings, SectorSettings
from tnvmc.settings.term_settings import TermSettings

MODELS = ("heisenberg", "xxz", "j1j2", "tfim", "rydberg", "shastry_sutherland")
Bond = Annotated[list[NonNegative], Length(2, 2), Field(description="pairs of site indices")]
Point = Annotated[list[Number], Length(2, 2), Field(description="positions [x, y]")]
PerBond = Number | Annotated[list[Number], Field(description="a list of one number for each bond")]
PerSite = Number | Annotated[list[Number], Field(description="a list of one number for each site")]
COUPLINGS: Mapping[str, tuple[Any, str]] = {
    "J": (PerBond, "Nearest neighbours. Positive is antiferromagnetic, but in `tfim`."),
    "J1": (PerBond, "Nearest neighbours."),
    "J2": (PerBond, "Diagonals of the plaquettes; next-nearest neighbours of a chain."),
    "Jz": (PerBond, "z part of the nearest-neighbour exchange."),
    "J_dimer": (PerBond, "Exchange on the dimers, J′ in part of the literature."),
    "h": (PerSite, "Transverse field."),
    "V": (Number, "Interaction of two excited atoms at distance 1; V / r⁶ at distance r."),
    "delta": (PerSite, "Detuning."),
    "Omega": (PerSite, "Rabi frequency."),
}
"""What each coupling may be and what it means; its default is that of the model's function."""


class _Lattice(Section):
    kind: str
    """`checkerboard`: square, both diagonals in every second plaquette. `shastry_sutherland`: square, a dimer
    in every second plaquette. `bonds`: an explicit list. [Lattices](../lattices.md) shows all of them."""
    boundary: Literal["open", "cylinder", "periodic"] = "open"
    """`cylinder`: rows are periodic, columns are open. A PEPS has open bonds nevertheless, and periodic
    bonds are terms of the Hamiltonian only, unless `ansatz.bonds` says otherwise."""


class GridSettings(_Lattice):
    """A lattice with rows and columns."""

    kind: Literal[
        "square", "triangular", "honeycomb", "kagome", "checkerboard", "shastry_sutherland"
    ] = "square"
    shape: Annotated[list[Positive], Length(2, 2)]
    """Numbers of rows and columns of the grid; a kagome lattice has no site in odd rows at odd columns."""


class ChainSettings(_Lattice):
    """A chain."""

    kind: Literal["chain"] = "chain"
    shape: Positive | Annotated[list[Positive], Length(1, 1), Field(description="[length]")]
    """Number of sites."""


class BondsSettings(_Lattice):
    """Any graph."""

    kind: Literal["bonds"] = "bonds"
    boundary: Literal["open"] = "open"
    shape: Positive | Annotated[list[Positive], Length(1, 2), Field(description="[n_rows, n_cols]")]
    """Number of sites, or numbers of rows and columns."""
    bonds: (
        list[Bond] | Annotated[dict[str, list[Bond]], Field(description="a table of lists by kind")]
    )
    """Pairs of site indices, of kind "nearest"; or a table with a list for each kind of bonds. A product
    that has a direction acts with its first name on the first site."""
    coordinates: list[Point] | None = None
    """A position [x, y] for each site. Distances, S(q) and pictures are made of them, and left out without
    them."""
    vacant: list[NonNegative] | None = None
    """Places row × n_cols + column of the grid that have no site."""

    def by_kind(self) -> dict[str, list[tuple[int, int]]]:
        """Give the pairs of each kind."""
        kinds = self.bonds if isinstance(self.bonds, dict) else {"nearest": self.bonds}
        return {kind: [(i, j) for i, j in pairs] for kind, pairs in kinds.items()}


LatticeSettings = Annotated[
    GridSettings | ChainSettings | BondsSettings, Field(discriminator="kind")
]


def n_sites(lattice: LatticeSettings) -> int:
    """Give the number of sites, without building anything."""
    if isinstance(lattice.shape, int):
        return lattice.shape
    vacant = len(set(getattr(lattice, "vacant", None) or ()))
    if lattice.kind == "kagome":
        vacant = math.prod(length // 2 for length in lattice.shape)
    return math.prod(lattice.shape) - vacant


class _Hamiltonian(Section):
    model: str
    """Which Hamiltonian; [Conventions](../conventions.md) has the formulas."""

    def as_couplings(self) -> dict[str, Any]:
        """Give the couplings alone, as arguments of the model's function."""
        return self.model_dump(exclude={"model"})


def _hamiltonian(name: str) -> Any:
    """Make the model of a Hamiltonian from the signature of its function."""
    fields: dict[str, Any] = {"model": (Literal[name], ...)}
    for key, parameter in inspect.signature(getattr(models, name)).parameters.items():
        if key != "lattice":
            kind, told = COUPLINGS[key]
            fields[key] = (kind, Field(parameter.default, description=told))
    return create_model(name, __base__=_Hamiltonian, **fields)


OneTerm = Annotated[TermSettings, Field(description="tables, each headed [[hamiltonian.term]]")]


class TermsSettings(_Hamiltonian):
    """A Hamiltonian of one's own."""

    model: Literal["terms"]
    term: Annotated[tuple[OneTerm, ...], Predicate(bool)]
    """Products of operators, as [A Hamiltonian of your own](../own_hamiltonian.md) explains: `ops` is a sum
    of products ("Sx Sx + Sy Sy"), `bonds` ("nearest" or a list of bonds) or `sites` ("all" or a list)
    are the sites, `coupling` is a number or a list with one number for each bond or site."""
    local_dim: Annotated[StrictInt, Field(ge=2)] = 2
    """Number of states of a site: 3 for spin 1."""


if TYPE_CHECKING:
    HamiltonianSettings = _Hamiltonian
else:
    HamiltonianSettings = Annotated[
        Union[(*map(_hamiltonian, MODELS), TermsSettings)],
        Field(discriminator="model"),
    ]


class ContractionSettings(Section):
    """How amplitudes of a PEPS are contracted."""

    scheme: Literal["src", "zipup", "exact"] | None = None
    """`src`: successive randomised compression; `zipup`: by singular values; `exact`:
    without truncation, for small systems. Networks are not contracted. Default: `src`."""
    chi: ChiOfSteps | None = None
    """Bond dimension of the boundary matrix product states. "auto" begins with 8, or D above that, and adds to it when truncation may
    move the energy of a step by more than its error ([decision 40](../decisions/040-growing-chi.md)). Default: 2 D, at least 4; "auto" from D = 5 on, but for `enumerate`."""
    largest_chi: Positive | None = None
    """Limit of `chi`, which is "auto" if nothing is said of it. Default: 2 D, at least 4."""


DEFAULT_SAMPLES = 512
"""Samples per step where nothing is said."""

Move = Literal["flips", "exchanges", "pair_flips", "terms"]


class SamplerSettings(Section):
    """How configurations are drawn."""

    kind: Literal["metropolis", "direct", "enumerate"] | None = None
    """`metropolis`: Markov chains. `direct`: independent draws, with weights for a PEPS, exact for an
    autoregressive network. `enumerate`: every configuration with its weight, no noise; small
    systems. Default: `direct` for autoregressive networks, `metropolis` for the rest."""
    n_walkers: Positive = 128
    """Number of Markov chains."""
    n_samples: SamplesPerStep = DEFAULT_SAMPLES
    """Samples per step: each walker is measured n_samples / n_walkers times, rounded up. "auto" begins with
    few and doubles them, up to 4096, as noise comes to dominate the steps; with `metropolis` and
    `learning_rate = "auto"` only."""
    n_burn: NonNegative = 1
    """Sweeps before the first sample of a step; chains continue from step to step, so one is enough."""
    n_thin: Positive = 1
    """Sweeps between samples. A sweep proposes every move once."""
    n_replicas: Positive = 1
    """Chains of parallel tempering for each walker; only the coldest is measured. For chains that get
    stuck; the number of sweeps is multiplied by it. With `metropolis` only."""
    chunk: Positive | None = None
    """Walkers in one batch; changes only speed and memory. Default: what fits into the cache, 16 to 128."""
    power: Annotated[Number, Field(gt=0, le=1)] | Literal["auto"] | None = None
    """Below 1, chains sample |psi|^(2 power) in the optimisation, with weights that restore |psi|^2. So
    rare configurations are drawn, and their signs can change. "auto" chooses the power at which the
    effective number of samples is half of their number. The measurement samples |psi|^2. With
    `metropolis` only. Default: "auto"; 1 with replicas."""
    magnetisation: StrictInt | None = None
    """Twice the total Sz of the sector that is sampled. Default: 0. Refused if the
    Hamiltonian does not conserve Sz."""
    moves: Annotated[tuple[Move, ...], Predicate(bool)] | None = None
    """Moves of a sweep, with `metropolis` only: `flips` of single sites; `exchanges` of two sites, which
    conserve the magnetisation; `pair_flips` of two sites, which do not; `terms`, the off-diagonal
    terms of the Hamiltonian. Default: exchanges if the magnetisation is conserved, otherwise flips
    and the moves of terms on several sites. Moves that cannot reach all configurations are refused."""


class GuardSettings(Section):
    """When a step is shortened, or undone and repeated with a smaller rate."""

    enabled: StrictBool = True
    """Whether steps are checked."""
    window: Positive = 20
    """Number of past steps that count as recent."""
    energy_jump: PositiveNumber = 8.0
    """The previous step is undone if the energy is this number of robust deviations above recent ones."""
    variance_jump: AboveOne = 10.0
    """The same if the variance is this factor larger than the largest recent one."""
    norm_jump: AboveOne = 4.0
    """A step longer than this factor times the median of recent ones is shortened to that length."""
    max_relative_step: PositiveNumber = 0.3
    """Largest length of a step, relative to the norm of the parameters."""


class MeasureSettings(Section):
    """The measurement at the end."""

    n_samples: Positive | None = None
    """Samples. Default: 8 times those of a step; 4096 if those are "auto", or stages are made by default."""
    n_burn: NonNegative | None = None
    """Sweeps before the first sample. Default: 10, or 50 if no step has been made."""
    n_thin: Positive | None = None
    """Sweeps between samples. Default: `sampler.n_thin`."""
    chi: Positive | None = None
    """Boundary bond dimension. Default: twice `contraction.chi`, or twice that of the last step if it is "auto"."""
    ladder: StrictBool = True
    """Measure a part of the samples also at 1, 1.5 and 2 times `contraction.chi`, which takes about 10 %
    more time. Needed for the check of chi."""
    symmetrise: tuple[Literal["spin", "point", "translation"], ...] = ()
    """`spin`: inversion of all spins; `point`: the point group of the lattice; `translation`: along periodic
    directions. Lowers the energy; the time is multiplied by the number of elements of the group."""


class RunSettings(Section):
    """Seed, folder, number of starts, device, workers."""

    seed: Annotated[StrictInt, Field(ge=0, lt=2**63)] = 0
    """Seed of all random numbers. The same settings and seed give the same results, for any number of threads."""
    out: Path | None = None
    """Folder of the run, as `--out`. Default: `runs/` and the name of the settings file."""
    starts: Annotated[Positive, Field(le=MOST_STARTS)] | None = None
    """Number of runs, from the seeds `seed`, `seed` + 1 and so on, in folders within the folder of the file. The lowest
    energy is measured again with new samples ([Several starts](../starts.md)). Default: 1, an ordinary run."""
    device: Literal["cpu", "gpu", "auto"] = "cpu"
    """`gpu` needs CuPy (extra `gpu`); `auto` uses a GPU if there is one."""
    threads: Positive | None = None
    """Number of threads that share the walkers. Default: the number of cores."""
    checkpoint_every: Positive = 10
    """Steps between checkpoints; one is written every minute as well, or after thirty times what one takes."""


class OrthogonalSettings(Section):
    """A state that this one is kept orthogonal to, by a penalty on their overlap."""

    run: StrictStr
    """Folder of a run on the same Hamiltonian and in the same sector, whose measured state is kept."""
    penalty: PositiveNumber | None = None
    """Energy λ that is added: λ |<ψ|φ>|² / (<ψ|ψ> <φ|φ>). It must be larger than the gap above the kept
    state. Default: the largest change of the energy by one site, the sum over its terms of the distances between their
    lowest and highest levels."""


class Settings(Section):
    """All settings of a run, validated; `load` reads them, `as_dict` gives them back."""

    lattice: LatticeSettings
    """Where the sites are. Site index = row × n_cols + column."""
    hamiltonian: HamiltonianSettings
    """The model and its couplings. A list gives one number for every bond, in the order of the
    lattice's bonds, or for every site. A model takes its own couplings only."""
    ansatz: AnsatzSettings = PEPSSettings()
    """The wave function and where its parameters start. `rbm` to `vit` are neural networks
    (extra `neural`), explained in [Networks](../networks.md). A key that the kind does not have is refused."""
    contraction: ContractionSettings = ContractionSettings()
    """How amplitudes of a PEPS are contracted while it is optimised."""
    sampler: SamplerSettings = SamplerSettings()
    """How configurations are drawn at each step."""
    optimizer: OptimizerSettings = SRSettings()
    """How the parameters are updated."""
    guard: GuardSettings = GuardSettings()
    """When a step is shortened, or undone and repeated with a smaller rate. `history.jsonl` has the
    reason for each such step."""
    measure: MeasureSettings = MeasureSettings()
    """The measurement with new samples after the last step; also the defaults of `tnvmc measure` and
    `tnvmc converge`."""
    run: RunSettings = RunSettings()
    """Seed, folder, number of starts, device, workers."""
    orthogonal: Annotated[tuple[OrthogonalSettings, ...], Predicate(bool)] | None = None
    """Optional. Each `[[orthogonal]]` names a finished run whose state this one is kept orthogonal to: so
    an excited state of the same sector is found. [Excited states](../sectors.md) explains it."""
    stage: Annotated[tuple[StageSettings, ...], Predicate(bool)] | None = None
    """Optional. Each `[[stage]]` is a part of the run that begins where the one before ended: a larger
    D, other steps, samples or chi. Keys that a stage does not set are taken from `[ansatz]`, `[contraction]`,
    `[sampler]` and `[optimizer]`. Default: one stage; D = 3, 4, 6 and so on for a PEPS that shares tensors, has 4097 to 16384 parameters
    and of whose start, steps, rates and samples nothing is said ([decision 38](../decisions/038-default-stages.md)). Every stage ends with a short measurement, at twice its chi, that
    goes into `result.json`; its state is kept as `stage-1.h5` and so on."""
    sector: Annotated[tuple[SectorSettings, ...], Predicate(bool)] | None = None
    """Optional. Each `[[sector]]` becomes a run of its own, in a folder within the folder of the file, with what
    it has of its own and else all that stands in the other sections. A table gives energies and gaps
    ([Sectors](../sectors.md))."""
    scan: ScanSettings | None = None
    """Optional. A coupling, a field or the size runs through several values: a run for each, which starts from the state
    of the one before it, a table and a picture ([Scans](../scan.md))."""

    @model_validator(mode="before")
    @classmethod
    def _with_kinds(cls, data: Any) -> Any:
        """A section without a kind is of the first one, if that has a default."""
        if not isinstance(data, Mapping):
            return data
        first = {name: next(iter(kinds)) for name, kinds in SECTIONS.items() if len(kinds) > 1}
        first.pop("hamiltonian")
        filled = {
            name: _with_kind(data[name], kind) for name, kind in first.items() if name in data
        }
        return {**data, **filled}

    @property
    def sampler_kind(self) -> str:
        """How configurations are drawn: where it is not set, in the best way the ansatz knows."""
        exact = isinstance(self.ansatz, AutoregressiveSettings) and not self.ansatz.symmetrise
        return self.sampler.kind or ("direct" if exact else "metropolis")

    def changed(self, changes: Mapping[str, Mapping[str, Any]]) -> Settings:
        """Give other settings with keys changed, by section."""
        sections = {
            name: getattr(self, name).model_copy(update=keys) for name, keys in changes.items()
        }
        return self.model_copy(update=sections)

    def as_dict(self) -> dict[str, Any]:
        """Give plain nested dicts without the keys that do not apply (None), ready for TOML."""
        return self.model_dump(mode="json", exclude_none=True)


def _with_kind(table: Any, kind: str) -> Any:
    if isinstance(table, list | tuple):
        return [_with_kind(each, kind) for each in table]
    return {"kind": kind, **table} if isinstance(table, Mapping) else table


def selector(section: str) -> str:
    """Give the key that says of which kind a section is."""
    return "model" if section == "hamiltonian" else "kind"


def _kinds(section: str) -> dict[str, type[Section]]:
    found = models_in(Settings.model_fields[section].annotation)
    if len(found) == 1:
        return {"": found[0]}
    name = selector(section)
    return {k: model for model in found for k in get_args(model.model_fields[name].annotation)}


REPEATED = ("orthogonal", "stage", "sector")
"""Sections of which there may be several tables, each headed [[name]]."""

SECTIONS: Mapping[str, Mapping[str, type[Section]]] = {
    name: _kinds(name) for name in Settings.model_fields
}
"""By section its models by kind; one model by "" where a section has no kinds."""


def keys(section: str) -> list[str]:
    """Give the keys of a section, of all its kinds."""
    return list(
        dict.fromkeys(key for kind in SECTIONS[section].values() for key in kind.model_fields)
    )
