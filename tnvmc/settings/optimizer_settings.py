"""[optimizer], one model for each kind, and [[stage]]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union

from pydantic import Field, StrictBool, StrictInt, StrictStr, create_model, model_validator

from tnvmc.limits import NonNegative, NonNegativeNumber, Number, Positive, PositiveNumber, Section

SMALLEST_WINDOW = 5
"""Steps: through fewer the slope of a line is all noise."""

Window = (
    Annotated[StrictInt, Field(ge=0, le=0)] | Annotated[StrictInt, Field(ge=SMALLEST_WINDOW)] | None
)
SamplesPerStep = Positive | Literal["auto"]
ChiOfSteps = Positive | Literal["auto"]
Rate = PositiveNumber | Literal["auto"]


class _Optimizer(Section):
    kind: str
    """`sr`: stochastic reconfiguration, in the smaller of parameter and sample space (minSR)."""
    steps: NonNegative = 100
    """Updates of the parameters."""
    learning_rate: Rate | None = None
    """Factor on the update; for `sr` it is imaginary time per step. "auto" adapts it after each
    step; then the better of the last parameters and their mean over the steps is measured (lower
    energy; lower variance where the energies agree), or those of the start if their energy is
    clearly lower. Default: "auto"; 0.1 with a final rate."""
    final_learning_rate: PositiveNumber | None = None
    """Learning rate at the last step, to which a number falls along half a cosine; the same number
    keeps it. Default: a tenth of `learning_rate`, if that is a number."""
    plateau: Window = None
    """Stop early when the energy falls by less than one error of its mean over this number of
    steps. Default: 0 (off)."""
    seconds: PositiveNumber | None = None
    """Stop early when the steps have taken this time. The learning rate then falls with time, so a
    run cannot be repeated bit for bit. Default: no limit."""


class SRSettings(_Optimizer):
    """Stochastic reconfiguration."""

    kind: Literal["sr"] = "sr"
    diag_shift: NonNegativeNumber | Literal["auto"] = "auto"
    """Added to the diagonal of the SR matrix, in units of the mean diagonal: of S where it is
    averaged, else of the smaller of the matrices of parameters and of samples. "auto" is larger if
    there are about as many samples as parameters."""
    memory: Annotated[Number, Field(ge=0, lt=1)] | None = None
    """Decay of the average of the SR matrix over steps: 0.9 averages about the last 20 steps; 0
    uses the samples of the present step only. No effect with a `diag_shift` below 1e-4; above 4096
    parameters it is the `momentum` of a PEPS with shared tensors, and has no effect on others.
    Default: 0.9; 0 with momentum, or without noise (`enumerate`)."""
    reach: PositiveNumber | None = None
    """Distance between two states at which the average of S counts the older 1/e, beside `memory`.
    0.2 is good for networks, whose S changes much in the first steps; a PEPS loses by it. Default:
    none."""
    momentum: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    """Decay of SPRING, which keeps the part of the last update that the present samples do not
    determine. 0 is plain SR."""


class TimeSettings(Section):
    """Time evolution. A section `[time]` with these keys is the same."""

    learning_rate: ClassVar[None] = None
    final_learning_rate: ClassVar[None] = None
    plateau: ClassVar[None] = None
    seconds: ClassVar[None] = None

    kind: Literal["time"] = "time"
    """`time`: evolution in real or imaginary time ([Time evolution](../time.md))."""
    t: PositiveNumber
    """Time at which the run ends, in units of 1 / energy; a multiple of `step`."""
    step: PositiveNumber = 0.05
    """Time from one record of the history to the next."""
    tolerance: PositiveNumber = 1e-3
    """Distance √(1 - fidelity) that a substep of the integrator may be off; substeps are as long as
    this allows."""
    imaginary: StrictBool = False
    """exp(-Ht) in place of exp(-iHt)."""
    observables: tuple[StrictStr, ...] = ()
    """Names of matrices of one site, as `Sx`, whose mean over all sites each record has."""
    product: StrictStr | None = None
    """Begin with every site in the highest state of this matrix, as `Sx` or `-Sz`; of a PEPS.
    Default: begin from `ansatz.init`."""
    steps: NonNegative = 0
    """Number of records: follows from `t` and `step`."""

    @model_validator(mode="after")
    def _counted(self) -> TimeSettings:
        self.__dict__["steps"] = round(self.t / self.step) + 1
        return self


_RATES = {"gradient": 0.05, "adam": 0.01}  # good for all models tried


def _first_order(kind: str, rate: float) -> Any:
    field = Field(default=rate, description="Factor on the update.")
    keys: dict[str, Any] = {"kind": (Literal[kind], kind), "learning_rate": (Rate, field)}
    return create_model(kind, __base__=_Optimizer, **keys)


if TYPE_CHECKING:
    OptimizerSettings = _Optimizer
else:
    OptimizerSettings = Annotated[
        Union[
            SRSettings, TimeSettings, *(_first_order(kind, rate) for kind, rate in _RATES.items())
        ],
        Field(discriminator="kind"),
    ]


class StageSettings(Section):
    """A part of the optimisation."""

    D: Positive | None = None
    """The state grows where that of the previous stage is smaller, and is cut where it is larger.
    Default: `ansatz.D`."""
    edge: Positive | None = None
    """Rows and columns at each end with tensors of their own ([Large lattices](../sharing.md)); not
    fewer than in the stage before. Default: `ansatz.edge`."""
    n_samples: SamplesPerStep | None = None
    """Samples per step; "auto" goes on with those of the stage before. Default:
    `sampler.n_samples`."""
    chi: ChiOfSteps | None = None
    """Boundary bond dimension; "auto" begins anew with another D, or other tensors that are shared.
    Default: `contraction.chi`, else that of a run with the D of the stage."""
    steps: NonNegative | None = None
    """Updates. Default: `optimizer.steps`."""
    learning_rate: Rate | None = None
    """At the first step of the stage; a number falls over its steps.
    Default: `optimizer.learning_rate`."""
    diag_shift: NonNegativeNumber | Literal["auto"] | None = None
    """Shift of SR. Default: `optimizer.diag_shift`."""
    noise: NonNegativeNumber | None = None
    """Standard deviation of noise on new entries that are zero, relative to the largest entry of
    the tensor. Default: 0.01 if D grows."""
    plateau: Window = None
    """As in `[optimizer]`. Default: `optimizer.plateau`."""
