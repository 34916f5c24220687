"""Settings of a run: what a TOML file may say, what stands where it says nothing.

A field's `description` is the text an error message gives as "must be ...".
"""

from __future__ import annotations

import inspect
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from tnvmc.ansatz.neural import NETWORKS
from tnvmc.operators import models

Positive = Annotated[StrictInt, Field(ge=1)]
NonNegative = Annotated[StrictInt, Field(ge=0)]
Number = StrictFloat | StrictInt
Coupling = Number | list[Number]
Size = Positive | Annotated[tuple[Positive, ...], Field(min_length=2, max_length=2)]

MODELS = ("heisenberg", "xxz", "j1j2", "tfim", "rydberg", "shastry_sutherland")
TENSOR_KINDS = ("peps", "mps", "periodic_mps", "product", "dimer")
DEFAULT_START = {"peps": "simple_update", "mps": "simple_update", "product": "product"}
"""By kind of ansatz; "random" for the others."""

_PER_BOND = "a number, or a list of one number for each bond"
_PER_SITE = "a number, or a list of one number for each site"
_SIZE = "an integer >= 1, or [rows, columns]"

SMALLEST_WINDOW = 5
"""Steps: through fewer the slope of a line is all noise."""
Window = Annotated[StrictInt, Field(ge=SMALLEST_WINDOW)] | Annotated[StrictInt, Field(ge=0, le=0)]
_WINDOW = f"0 (off) or an integer >= {SMALLEST_WINDOW} (the steps that the energy is looked at)"


def couplings_of(model: str) -> dict[str, float]:
    """Give the couplings of a model and their defaults, from the signature of its function."""
    parameters = inspect.signature(getattr(models, model)).parameters
    return {name: p.default for name, p in parameters.items() if name != "lattice"}


def _setting(default: Any, allowed: str, **limits: Any) -> Any:
    return Field(default, description=allowed, **limits)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class LatticeSettings(_Section):
    """Where the sites are."""

    kind: Literal["chain", "square", "shastry_sutherland", "bonds"] = _setting(
        "square", "one of chain, square, shastry_sutherland, bonds"
    )
    shape: Annotated[list[Positive], Field(min_length=1, max_length=2)] | Positive = _setting(
        ..., "[n_rows, n_cols], or one integer for a chain, each >= 1"
    )
    boundary: Literal["open", "cylinder", "periodic"] = _setting(
        "open", "one of open, cylinder, periodic"
    )
    bonds: list[Annotated[list[NonNegative], Field(min_length=2, max_length=2)]] | None = _setting(
        None, "a list of pairs of site indices (kind = 'bonds' only)"
    )


class HamiltonianSettings(_Section):
    """The model and its couplings; a list gives one number for every bond (or site)."""

    model: Literal["heisenberg", "xxz", "j1j2", "tfim", "rydberg", "shastry_sutherland"] = _setting(
        ..., "one of " + ", ".join(MODELS)
    )
    J: Coupling | None = _setting(None, _PER_BOND)
    J1: Coupling | None = _setting(None, _PER_BOND)
    J2: Coupling | None = _setting(None, _PER_BOND)
    Jz: Coupling | None = _setting(None, _PER_BOND)
    J_dimer: Coupling | None = _setting(None, _PER_BOND)
    h: Coupling | None = _setting(None, _PER_SITE)
    V: Number | None = _setting(None, "a number")
    delta: Coupling | None = _setting(None, _PER_SITE)
    Omega: Coupling | None = _setting(None, _PER_SITE)

    def as_couplings(self) -> dict[str, Any]:
        """Give the couplings alone, as arguments of the model's function."""
        return self.model_dump(exclude={"model"}, exclude_none=True)


class AnsatzSettings(_Section):
    """The wave function and where its parameters start; most keys are those of some kinds only.

    See `tnvmc.settings.network_settings.keys_of` for which, and for the defaults of a network.
    """

    kind: Literal[
        "peps", "mps", "periodic_mps", "product", "dimer",
        "rbm", "cnn", "made", "rnn", "patched_transformer", "vit",
    ] = _setting("peps", "one of " + ", ".join((*TENSOR_KINDS, *NETWORKS)))  # fmt: skip
    D: Positive | None = _setting(None, "an integer >= 1")
    dtype: Literal["float64", "float32", "complex128", "complex64"] | None = _setting(
        None, "one of float64, float32, complex128, complex64"
    )
    init: StrictStr | None = _setting(
        None, "one of simple_update, random, product, or the path of a run or a checkpoint"
    )
    freeze: tuple[StrictStr, ...] | None = _setting(None, "a list of names of parameter groups")
    marshall: StrictBool | None = _setting(None, "true or false")
    average: tuple[Literal["translation", "point", "spin"], ...] | None = _setting(
        None, "a list of 'translation', 'point', 'spin' (symmetries that psi is averaged over)"
    )
    output: StrictStr | None = _setting(None, "real (psi > 0) or complex")
    magnetisation: StrictInt | Literal[False] | None = _setting(
        None, "an integer, twice the total Sz outside which psi = 0, or false"
    )
    alpha: Annotated[Number, Field(gt=0)] | None = _setting(None, "a number > 0")
    form: StrictStr | None = _setting(None, "binary or log_cosh")
    visible_bias: StrictBool | None = _setting(None, "true or false")
    hidden_bias: StrictBool | None = _setting(None, "true or false")
    init_scale: Annotated[Number, Field(ge=0)] | None = _setting(None, "a number >= 0")
    features: Annotated[tuple[Positive, ...], Field(min_length=1)] | None = _setting(
        None, "a list of integers >= 1, one for each layer"
    )
    kernel: Size | None = _setting(None, _SIZE)
    stride: Size | None = _setting(None, _SIZE)
    padding: StrictStr | None = _setting(None, "lattice, periodic or zero")
    pooling: StrictStr | None = _setting(None, "none, max or average")
    pool: Size | None = _setting(None, _SIZE)
    activation: StrictStr | None = _setting(None, "sigmoid, relu, gelu or log_cosh")
    residual: StrictBool | None = _setting(None, "true or false")
    head: StrictStr | None = _setting(None, "flatten or sum")
    dense: tuple[Positive, ...] | None = _setting(None, "a list of integers >= 1")
    hidden: Positive | None = _setting(None, "an integer >= 1")
    order: StrictStr | None = _setting(None, "snake or 2d")
    width: Positive | None = _setting(None, "an integer >= 1, a multiple of heads")
    heads: Positive | None = _setting(None, "an integer >= 1")
    layers: Positive | None = _setting(None, "an integer >= 1")
    patch: Size | None = _setting(None, _SIZE)
    attention: StrictStr | None = _setting(
        None, "softmax or linear (patched_transformer); t5, decoupled or factored (vit)"
    )
    inner: NonNegative | None = _setting(None, "an integer >= 0")


class ContractionSettings(_Section):
    """How amplitudes of a PEPS are contracted."""

    scheme: Literal["src", "zipup", "exact"] | None = _setting(None, "one of src, zipup, exact")
    chi: Positive | None = _setting(None, "an integer >= 1")


class SamplerSettings(_Section):
    """How configurations are drawn."""

    kind: Literal["metropolis", "direct", "enumerate"] | None = _setting(
        None,
        "one of metropolis, direct (independent draws; PEPS and autoregressive networks), "
        "enumerate (all configurations with their weights)",
    )
    n_walkers: Positive = _setting(128, "an integer >= 1")
    n_samples: Positive = _setting(512, "an integer >= 1")
    n_burn: NonNegative = _setting(1, "an integer >= 0")
    n_thin: Positive = _setting(1, "an integer >= 1")
    n_replicas: Positive = _setting(1, "an integer >= 1 (kind = 'metropolis' only)")
    chunk: Positive | None = _setting(None, "an integer >= 1")
    precision: Literal["single"] | None = _setting(
        None, "single (of sweeps; kind = 'metropolis' only)"
    )
    power: Annotated[Number, Field(gt=0, le=1)] = _setting(
        1.0, "a number > 0 and <= 1 (kind = 'metropolis' only)"
    )
    magnetisation: StrictInt = _setting(
        0, "an integer, twice the total Sz (for Hamiltonians that conserve it)"
    )


class OptimizerSettings(_Section):
    """How parameters move.  A list of learning rates makes stages, `stages` their lengths."""

    kind: Literal["sr", "gradient", "random_sign", "adam"] = _setting(
        "sr", "one of sr, gradient, random_sign, adam"
    )
    steps: NonNegative = _setting(100, "an integer >= 0")
    learning_rate: (
        Annotated[Number, Field(gt=0)]
        | Annotated[list[Annotated[Number, Field(gt=0)]], Field(min_length=1)]
        | None
    ) = _setting(None, "a number > 0, or a list of them, one for each stage")
    schedule: Literal["constant", "exponential", "cosine", "stages"] | None = _setting(
        None, "one of constant, exponential, cosine, stages"
    )
    final_learning_rate: Annotated[Number, Field(gt=0)] | None = _setting(
        None, "a number > 0 (where exponential and cosine schedules end)"
    )
    stages: list[Positive] | None = _setting(
        None, "a list of step numbers, one for each learning rate"
    )
    diag_shift: Annotated[Number, Field(ge=0)] | None = _setting(
        None, "a number >= 0 (kind = 'sr' only)"
    )
    momentum: Annotated[Number, Field(ge=0, lt=1)] | None = _setting(
        None, "a number >= 0 and < 1 (kind = 'sr' only)"
    )
    clip: Annotated[Number, Field(gt=0)] | None = _setting(
        None, "a number > 0 (median absolute deviations that a local energy may lie off)"
    )
    plateau: Window | None = _setting(None, _WINDOW)
    seconds: Annotated[Number, Field(gt=0)] | None = _setting(
        None, "a number > 0 (of optimisation: it ends then, or with the last step)"
    )


class StageSettings(_Section):
    """One [[stage]]: what differs from the other sections while it runs."""

    kind: Literal["optimise", "simple_update"] = _setting(
        "optimise", "one of optimise, simple_update (the first stage only)"
    )
    D: Positive | None = _setting(None, "an integer >= 1")
    steps: NonNegative | None = _setting(None, "an integer >= 0")
    learning_rate: Annotated[Number, Field(gt=0)] | None = _setting(None, "a number > 0")
    schedule: Literal["constant", "exponential", "cosine"] | None = _setting(
        None, "one of constant, exponential, cosine"
    )
    final_learning_rate: Annotated[Number, Field(gt=0)] | None = _setting(
        None, "a number > 0 (where exponential and cosine schedules end)"
    )
    n_samples: Positive | None = _setting(None, "an integer >= 1")
    chi: Positive | None = _setting(None, "an integer >= 1")
    diag_shift: Annotated[Number, Field(ge=0)] | None = _setting(
        None, "a number >= 0 (optimizer.kind = 'sr' only)"
    )
    noise: Annotated[Number, Field(ge=0)] | None = _setting(
        None, "a number >= 0 (of the entries on new bonds, relative to the largest entry)"
    )
    evolve: NonNegative | None = _setting(
        None, "an integer >= 0 (steps of simple update that open new bonds; 0 leaves it to noise)"
    )
    plateau: Window | None = _setting(None, _WINDOW)


class GuardSettings(_Section):
    """When a step is shortened, or undone and tried again smaller."""

    enabled: StrictBool = _setting(True, "true or false")
    window: Positive = _setting(20, "an integer >= 1 (steps that count as recent)")
    energy_jump: Annotated[Number, Field(gt=0)] = _setting(
        8.0, "a number > 0 (in robust standard deviations of the recent energies)"
    )
    variance_jump: Annotated[Number, Field(gt=1)] = _setting(
        10.0, "a number > 1 (times the largest recent variance)"
    )
    norm_jump: Annotated[Number, Field(gt=1)] = _setting(
        4.0, "a number > 1 (times the median recent step)"
    )
    max_relative_step: Annotated[Number, Field(gt=0)] = _setting(
        0.3, "a number > 0 (times the norm of the parameters)"
    )


class MeasureSettings(_Section):
    """The measurement afresh at the end."""

    n_samples: Positive | None = _setting(None, "an integer >= 1")
    n_burn: NonNegative = _setting(10, "an integer >= 0")
    n_thin: Positive | None = _setting(None, "an integer >= 1")
    chi: Positive | None = _setting(None, "an integer >= 1")
    ladder: StrictBool = _setting(True, "true or false (measure at 1, 1.5 and 2 chi as well)")
    symmetrise: tuple[Literal["spin", "point"], ...] = _setting(
        (), "a list of 'spin', 'point' (symmetries restored in what is measured)"
    )


class RunSettings(_Section):
    """Randomness, place on the disk, threads."""

    seed: Annotated[StrictInt, Field(ge=0, lt=2**63)] = _setting(0, "an integer >= 0, below 2**63")
    out: StrictStr | None = _setting(None, "the path of a directory")
    device: Literal["cpu", "gpu", "auto"] = _setting(
        "cpu", "one of cpu, gpu, auto (a GPU if there is one)"
    )
    threads: Positive | None = _setting(None, "an integer >= 1")
    checkpoint_every: Positive = _setting(10, "an integer >= 1 (steps)")


class Settings(_Section):
    """All settings of a run, validated; `load` reads them, `as_dict` gives them back."""

    lattice: LatticeSettings
    hamiltonian: HamiltonianSettings
    ansatz: AnsatzSettings = AnsatzSettings()
    contraction: ContractionSettings = ContractionSettings()
    sampler: SamplerSettings = SamplerSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    guard: GuardSettings = GuardSettings()
    measure: MeasureSettings = MeasureSettings()
    run: RunSettings = RunSettings()
    stage: tuple[StageSettings, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Give plain nested dicts without the keys that do not apply (None), ready for TOML."""
        return self.model_dump(mode="json", exclude_none=True)
