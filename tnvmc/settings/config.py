"""Settings of a run, section by section: what a TOML file may set, and the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Literal, get_args

from annotated_types import Predicate
from pydantic import AfterValidator, Field, StrictInt, StrictStr, model_validator

from tnvmc.limits import (
    MOST_STARTS,
    NonNegative,
    Number,
    Path,
    Positive,
    PositiveNumber,
    Section,
    models_in,
)
from tnvmc.operators import models
from tnvmc.operators.fermions import BY_NAME
from tnvmc.operators.order import OrderName
from tnvmc.operators.term import Operator
from tnvmc.settings.ansatz_settings import (
    AnsatzSettings,
    Characters,
    PEPSSettings,
    Start,
    Symmetries,
)
from tnvmc.settings.model_settings import (
    HamiltonianSettings,
    LatticeSettings,
    TermsSettings,
    build_lattice,
    joined_terms,
)
from tnvmc.settings.optimizer_settings import (
    ChiOfSteps,
    OptimizerSettings,
    SamplesPerStep,
    SRSettings,
    StageSettings,
)
from tnvmc.settings.problems import errors_of


class ContractionSettings(Section):
    """How amplitudes of a PEPS are contracted."""

    scheme: Literal["src", "zipup", "exact"] | None = None
    """`src`: successive randomised compression; `zipup`: by singular values; `exact`:
    without truncation, for small systems. Networks are not contracted. Default: `src`."""
    chi: ChiOfSteps | None = None
    """Bond dimension of the boundary matrix product states. "auto" begins with 8, or D above that,
    and grows up to 2 D when truncation may move the energy of a step by more than its error
    ([decision 40](../decisions/040-growing-chi.md)). Default: 2 D, at least 4; "auto" from D = 5
    on, but for `enumerate`."""


def measured_chi(chi: int | None) -> int | None:
    """Give the chi of a measurement where none is set: twice that of the steps."""
    return 2 * chi if chi else chi


DEFAULT_SAMPLES = 512
"""Samples per step where nothing is said."""

UpDown = Annotated[list[NonNegative], Field(description="[up, down]")]
NOT_DRAWN = "a symmetrised state cannot be drawn directly"


class SamplerSettings(Section):
    """How configurations are drawn."""

    kind: Literal["metropolis", "direct", "enumerate"] | None = None
    """`metropolis`: Markov chains. `direct`: independent draws, with weights for a PEPS, exact for
    an autoregressive network. `enumerate`: every configuration with its weight, no noise; small
    systems. Default: `direct` for autoregressive networks, `metropolis` for the rest."""
    n_walkers: Positive = 128
    """Number of Markov chains."""
    n_samples: SamplesPerStep = DEFAULT_SAMPLES
    """Samples per step: each walker is measured n_samples / n_walkers times, rounded up. "auto"
    begins with few (`direct`: 512) and doubles them, up to 4096, as noise comes to dominate the
    steps; with `learning_rate = "auto"` only."""
    n_burn: NonNegative = 1
    """Sweeps before the first sample of a step; chains go on from step to step, so one does. A
    sweep proposes every move once."""
    chunk: Positive | None = None
    """Walkers in one batch; changes only speed and memory. Default: what fits into the cache, 16 to
    128."""
    power: Annotated[Number, Field(gt=0, le=1)] | Literal["auto"] | None = None
    """Below 1, chains sample |psi|^(2 power) in the optimisation, with weights that restore
    |psi|^2. So rare configurations are drawn, and their signs can change. "auto" chooses the power
    at which the effective number of samples is half of their number. The measurement samples
    |psi|^2. With `metropolis` only. Default: "auto"."""
    magnetisation: StrictInt | None = None
    """Twice the total Sz of the sector that is sampled. Default: 0. Refused if the
    Hamiltonian does not conserve Sz."""
    particles: NonNegative | UpDown | None = None
    """Number of fermions; [up, down] with spin. Needed where the Hamiltonian conserves it."""


class MeasureSettings(Section):
    """The measurement at the end."""

    n_samples: Positive | None = None
    """Samples. Default: 8 times those of a step; 4096 if those are "auto", or with stages that are
    made by default."""
    error: PositiveNumber | None = None
    """Standard error of the energy per site: `n_samples` tell how many samples it takes, and so
    many new ones are drawn, up to 262144. If they are too few, the run says what it would cost.
    At the end of a run alone: `tnvmc measure` and `converge` draw `n_samples`."""
    n_burn: NonNegative | None = None
    """Sweeps before the first sample. Default: 10, or 50 if no step has been made."""
    n_thin: Positive = 1
    """Sweeps between samples; between those of a step there is one."""
    chi: Positive | None = None
    """Boundary bond dimension. Default: twice `contraction.chi`, or twice that of the last step if
    it is "auto"."""
    symmetrise: tuple[Literal["spin", "point", "translation"], ...] = ()
    """`spin`: inversion of all spins; `point`: the point group of the lattice; `translation`: along
    periodic directions. Lowers the energy; the time is multiplied by the number of elements."""


class RunSettings(Section):
    """Seed, folder, number of starts, device, workers."""

    seed: Annotated[StrictInt, Field(ge=0, lt=2**63)] = 0
    """Seed of all random numbers. The same settings and seed give the same results, for any number
    of threads."""
    out: Path | None = None
    """Folder of the run, as `--out`. Default: `runs/` and the name of the settings file."""
    starts: Annotated[Positive, Field(le=MOST_STARTS)] | None = None
    """Number of runs, from the seeds `seed`, `seed` + 1 and so on, in folders within the folder of
    the file. The lowest energy is measured again with new samples ([Several starts](../starts.md)).
    Default: 1, an ordinary run."""
    device: Literal["cpu", "gpu", "auto"] = "cpu"
    """`gpu` needs CuPy (extra `gpu`); `auto` uses a GPU if there is one."""
    threads: Positive | None = None
    """Number of threads that share the walkers. Default: the number of cores."""


class OrthogonalSettings(Section):
    """A state that this one is kept orthogonal to, by a penalty on their overlap."""

    run: StrictStr
    """Folder of a run on the same Hamiltonian and in the same sector."""
    penalty: PositiveNumber | None = None
    """Energy λ that is added: λ |<ψ|φ>|² / (<ψ|ψ> <φ|φ>). It must be larger than the gap above the
    kept state. Default: the largest change of the energy by one site, the sum over its terms of the
    distances between their lowest and highest levels."""


Shape = Annotated[list[Positive], Field(description="the shape of a lattice")]
Observed = Literal[
    "Sz", "Sx", "n", "nupdn", "SzSz", "SS", "nn", "staggered_magnetisation_squared", OrderName
]


class Budget(Section):
    """What each run of a comparison may use, one of the two; and how many runs each state has."""

    steps: Positive | None = None
    """Steps of each state."""
    seconds: PositiveNumber | None = None
    """Seconds that the steps of each state may take."""
    seeds: Positive | None = None
    """Runs of each state, from the seeds `run.seed`, `run.seed` + 1 and so on, with the mean of
    their energies in the table.  Absent: one."""

    @property
    def limits(self) -> dict[str, float]:
        """The budget of a run by its unit."""
        return self.model_dump(exclude_none=True, exclude={"seeds"})

    def __str__(self) -> str:
        return next(f"{v:g} {k}" for k, v in self.limits.items())


class Range(Section):
    """Equal steps from one number to another."""

    start: Number
    stop: Number
    n: Annotated[StrictInt, Field(ge=2)]

    @property
    def numbers(self) -> list[float]:
        """All values, both ends included, without the rounding of a sum."""
        step = (self.stop - self.start) / (self.n - 1)
        return [float(f"{self.start + k * step:.12g}") for k in range(self.n)]


class ScanSettings(Section):
    """What one number of the Hamiltonian, or the size, runs through."""

    key: StrictStr
    """A coupling or a field, as `hamiltonian.h` (`hamiltonian.term.2.coupling` of the second term),
    or `lattice.shape`."""
    values: (
        list[Number | Shape]
        | Annotated[
            Range,
            Field(description="a table { start = 0, stop = 1, n = 6 }"),
            AfterValidator(lambda given: given.numbers),
        ]
    )
    """A list of numbers, or of shapes; `{ start = 0, stop = 1, n = 6 }` for equal steps. In this
    order: each run starts from the state before it."""
    observables: tuple[Observed, ...] = ()
    """What is measured at each value besides the energy: the mean over sites of `Sz`, `Sx` or `n`,
    the largest structure factor of `SzSz`, `SS` or `nn`, `staggered_magnetisation_squared`, or m²
    of an order parameter by its name, as `neel` ([Order parameters](../own_observable.md))."""


Ends = Annotated[tuple[Number, Number], Field(description="a list [lowest, highest]")]


class AverageSettings(Section):
    """Runs from several seeds, and which couplings are random in each."""

    runs: Annotated[StrictInt, Field(ge=2, le=MOST_STARTS)]
    """Number of runs, from the seeds `run.seed`, `run.seed` + 1 and so on."""
    random: dict[str, Ends] = Field({})
    """Couplings and fields, as `{ J = [0.5, 1.5] }`: every bond or site has a number between the
    two of its own, evenly distributed, which the seed decides. The `config.toml` of each run lists
    them. Default: none, the same Hamiltonian in each."""
    observables: tuple[Observed, ...] = ()
    """What is measured of each run besides the energy, as `scan.observables`."""


class SectorSettings(Section):
    """What one sector has of its own."""

    name: StrictStr | None = None
    """Folder of its run, and label in the table. Default: `sector-1` and so on."""
    magnetisation: StrictInt | None = None
    """Twice its total Sz. Default: `sampler.magnetisation`."""
    symmetrise: tuple[Symmetries, ...] | None = None
    """Its `ansatz.symmetrise`: symmetries over which the state is summed. Default: that of
    `[ansatz]`."""
    characters: Characters | None = None
    """Its `ansatz.characters`, as `{ "spin inversion" = -1 }`. Default: those of `[ansatz]`, if the
    symmetries are too."""
    orthogonal_to: tuple[StrictStr, ...] = ()
    """Names of sectors above it in the file with the same quantum numbers: it is kept orthogonal to
    their states, so it finds level 2 of them, and so on."""
    penalty: PositiveNumber | None = None
    """The `orthogonal.penalty` of these states: larger than the gap. Default: that of
    `[[orthogonal]]`."""
    init: Start | None = None
    """Its `ansatz.init`. A start that has the symmetries of another level may stay with them:
    "random" has none. Default: that of `[ansatz]`."""
    steps: NonNegative | None = None
    """Its `optimizer.steps`. Default: that of `[optimizer]`."""


class Settings(Section):
    """All settings of a run, validated; `load` reads them, `as_dict` gives them back."""

    lattice: LatticeSettings
    """Where the sites are. Site index = row × n_cols + column."""
    hamiltonian: HamiltonianSettings
    """The model and its couplings. A list gives one number for every bond, in the order of the
    lattice's bonds, or for every site. A model takes its own couplings only."""
    ansatz: AnsatzSettings = PEPSSettings()
    """The wave function and where its parameters start. `rbm` to `vit` are neural networks
    (extra `neural`), explained in [Networks](../networks.md)."""
    contraction: ContractionSettings = ContractionSettings()
    """How amplitudes of a PEPS are contracted while it is optimised."""
    sampler: SamplerSettings = SamplerSettings()
    """How configurations are drawn at each step."""
    optimizer: OptimizerSettings = SRSettings()
    """How the parameters are updated."""
    measure: MeasureSettings = MeasureSettings()
    """The measurement with new samples after the last step; also the defaults of `tnvmc measure`
    and `tnvmc converge`."""
    run: RunSettings = RunSettings()
    """Seed, folder, number of starts, device, workers."""
    orthogonal: Annotated[tuple[OrthogonalSettings, ...], Predicate(bool)] | None = None
    """Optional. Each `[[orthogonal]]` names a finished run whose state this one is kept orthogonal
    to: so an excited state of the same sector is found ([Excited states](../sectors.md))."""
    stage: Annotated[tuple[StageSettings, ...], Predicate(bool)] | None = None
    """Optional. Each `[[stage]]` is a part of the run that begins where the one before ended: a
    larger D, other steps, samples or chi. Keys that a stage does not set are taken from `[ansatz]`,
    `[contraction]`, `[sampler]` and `[optimizer]`. Default: one stage; D = 3, 4, 6 and so on for a
    PEPS that shares tensors, has 4097 to 16384 parameters and of whose start, steps, rates and
    samples nothing is said ([decision 38](../decisions/038-default-stages.md)). Every stage ends
    with a short measurement, at twice its chi, that goes into `result.json`; its state is kept as
    `stage-1.h5` and so on."""
    sector: Annotated[tuple[SectorSettings, ...], Predicate(bool)] | None = None
    """Optional. Each `[[sector]]` becomes a run of its own, in a folder within the folder of the
    file, with what it has of its own and else all that stands in the other sections. A table gives
    energies and gaps ([Sectors](../sectors.md))."""
    scan: ScanSettings | None = None
    """Optional. A coupling, a field or the size runs through several values: a run for each, which
    starts from the state of the one before it, a table and a picture ([Scans](../scan.md))."""

    average: AverageSettings | None = None
    """Optional. The same run from several seeds, with random couplings where they are asked for,
    and the mean over the runs with its error ([Averages](../scan.md))."""

    @model_validator(mode="before")
    @classmethod
    def _with_kinds(cls, data: Any) -> Any:
        """A section without a kind is of the first one, if that has a default."""

        return data | {
            name: {"kind": next(iter(SECTIONS[name])), **data[name]}
            for name in ("lattice", "ansatz", "optimizer")
            if isinstance(data.get(name), Mapping)
        }

    @property
    def sampler_kind(self) -> str:
        """How configurations are drawn: where it is not set, in the best way the ansatz knows."""
        exact = self.ansatz.is_autoregressive and not self.ansatz.symmetrise
        return self.sampler.kind or ("direct" if exact else "metropolis")

    def changed(self, changes: Mapping[str, Mapping[str, Any]]) -> Settings:
        """Give other settings with keys changed, by section."""
        sections = {k: getattr(self, k).model_copy(update=keys) for k, keys in changes.items()}
        return self.model_copy(update=sections)

    def as_dict(self) -> dict[str, Any]:
        """Give plain nested dicts without the keys that do not apply (None), ready for TOML."""
        return self.model_dump(mode="json", exclude_none=True)


def selector(section: str) -> str:
    """Give the key that says of which kind a section is."""
    return "model" if section == "hamiltonian" else "kind"


@cache
def kinds_of(model: type[Section]) -> Mapping[str, Mapping[str, type[Section]]]:
    """Give the models of the tables in a section or file, by key and kind; one model by ""."""
    tables: dict[str, Mapping[str, type[Section]]] = {}
    for key, field in model.model_fields.items():
        models, name = models_in(field.annotation), selector(key)
        if len(models) == 1:
            tables[key] = {"": models[0]}
        elif models:
            tables[key] = {
                kind: each
                for each in models
                for kind in get_args(each.model_fields[name].annotation)
            }
    return tables


REPEATED = ("orthogonal", "stage", "sector", "term")
"""Tables of which there may be several, each headed [[name]]."""

SECTIONS = kinds_of(Settings)
"""By section its models by kind; one model by "" where a section has no kinds."""


def keys(section: str) -> list[str]:
    """Give the keys of a section, of all its kinds."""
    return list(dict.fromkeys(k for kind in SECTIONS[section].values() for k in kind.model_fields))


def build_operator(settings: Settings) -> Operator:
    """Make the Hamiltonian of the [lattice] and [hamiltonian] sections, for its particles."""
    operator, particles = _operator(settings), settings.sampler.particles
    if operator.strings is None or particles is None:
        return operator
    return replace(operator, magnetisation=operator.strings.sector(particles))


def _operator(settings: Settings) -> Operator:
    lattice, hamiltonian = build_lattice(settings.lattice), settings.hamiltonian
    if not isinstance(hamiltonian, TermsSettings):
        model: Any = getattr(models, hamiltonian.model)
        return model(lattice, **hamiltonian.as_couplings())  # type: ignore[no-any-return]
    fermions, local_dim = BY_NAME.get(hamiltonian.fermions or ""), hamiltonian.local_dim
    terms = joined_terms(hamiltonian.term, lattice, fermions or local_dim, "hamiltonian")
    about: Any = {"local_dim": local_dim, "name": "terms", "fermions": fermions}
    about["units"] = hamiltonian.units
    with errors_of("hamiltonian"):
        return Operator.from_terms(lattice, terms, **about)


def default_dtype(operator: Operator) -> str:
    """Give the type of the parameters of a tensor network where none is set."""
    return "complex128" if operator.is_complex else "float64"
