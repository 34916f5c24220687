"""Time evolution by the time-dependent variational principle: theta-dot = -i S^-1 F, or -S^-1 F.

S and F are those of stochastic reconfiguration, psi is holomorphic in theta.  Directions along
which the state stays (gauges) are cut by their eigenvalue of S, and those of which the samples say
nothing by the signal-to-noise ratio of their force.

Source: G. Carleo, F. Becca, M. Schiro, M. Fabrizio, Sci. Rep. 2, 243 (2012); M. Schmitt, M. Heyl,
Phys. Rev. Lett. 125, 100503 (2020).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from tnvmc.backend.arguments import positive, real
from tnvmc.backend.namespace import array_namespace, dagger, is_complex
from tnvmc.jacobian.base import Jacobian
from tnvmc.optimize.rule import Info, Rule, RuleState, require_finite
from tnvmc.optimize.solve import least_squares

Array = Any

_FIRST = 1 / 8  # of a step: the first substep


@dataclass(frozen=True)
class TimeEvolution(Rule):
    """The rule of a `VMC` whose steps are steps of time: see `tnvmc.vmc.evolution`.

    The first step tells of the state at t = 0, each later one of that after `step` more.  Raises
    ValueError for settings out of range, and (`init`) for real parameters in real time.
    """

    in_time: ClassVar[bool] = True

    step: float = 0.05
    """Time from one record to the next, in units of 1 / energy."""
    tolerance: float = 1e-3
    """Distance between normalised states that a substep may be off; it is as long as this allows.
    """
    imaginary: bool = False
    """exp(-H t), which leads to the ground state."""
    observables: tuple[str, ...] = ()
    """Names of matrices of one site, as "Sx"; records have their means over all sites."""
    cutoff: float = 1e-8
    """Part of the largest eigenvalue of S below which directions are cut."""
    signal: float = 2.0
    """Signal-to-noise ratio below which a component of a sampled force is cut; 0 cuts none."""

    def __post_init__(self) -> None:
        for name in ("step", "tolerance", "cutoff"):
            positive("TimeEvolution", name, getattr(self, name))
        real("TimeEvolution", "signal", self.signal, 0.0)
        names = (self.observables,) if isinstance(self.observables, str) else self.observables
        object.__setattr__(self, "observables", tuple(names))

    def init(self, theta: Array) -> RuleState:
        """Time, length of the next substep, draws so far, and what has added up of errors."""
        if not (self.imaginary or is_complex(theta)):
            raise ValueError(
                f"TimeEvolution: psi becomes complex in real time, theta is {theta.dtype}; make "
                "the state with dtype = 'complex128', or evolve in imaginary time"
            )
        start = {"time": 0.0, "bound": 0.0, "noise": 0.0}
        return {**start, "substep": self.step * _FIRST, "draws": 0}

    def direction(
        self, theta: Array, jacobian: Jacobian, local_energy: Array, weight: Array | None,
        state: RuleState,
    ) -> tuple[Array, RuleState, Info]:  # fmt: skip
        """Give minus d theta / dt (P,), the state as it was, and a report.

        That has `outside` |A d - e|, the speed of the motion that lies outside of the tangent
        space, `residual` (its square as a share of the whole), the `rank`, and `noise`, the error
        of the speed by the samples, which is 0 where state["exact"] says that there are none.

        Cost: M P^2 + 10 P^3; M^2 P + 10 M^3 for fewer samples than parameters.
        """
        xp = array_namespace(theta)
        problem = least_squares(theta, jacobian, local_energy, weight)
        a, target = problem.matrix, problem.target
        rows, squares = xp.concat(list(a.dense_rows())), xp.abs(target) ** 2
        narrow = a.shape[1] <= a.shape[0]
        values, vectors = xp.linalg.eigh(dagger(rows) @ rows if narrow else rows @ dagger(rows))
        values = xp.maximum(values, 1e-40 * values[-1] + 1e-200)  # rounding may lie below 0
        share = 1 / (1 + (self.cutoff * values[-1] / values) ** 6)
        others = (rows if narrow else dagger(rows)) @ vectors / xp.sqrt(values)
        left, right = (others, vectors) if narrow else (vectors, others)
        parts = dagger(left) @ target
        noise = 0.0 * share
        if not state.get("exact"):
            noise = _noise(jacobian, target, left, share * parts, share)
            power = xp.abs(parts) ** 2 + 1e-100
            share = share / (1 + (self.signal**2 * noise / power) ** 3)
        step = right @ (share * parts / xp.sqrt(values))
        require_finite("velocity", step, "raise the cutoff, or start elsewhere")
        outside = float(xp.linalg.vector_norm(target - a.apply(step)))
        whole = float(xp.sum(squares))
        residual = outside**2 / whole if whole else 0.0
        info: Info = {"residual": residual, "rank": float(xp.sum(share)), "outside": outside}
        info["noise"] = float(xp.sum(share**2 * noise)) ** 0.5
        return step if self.imaginary else 1j * step, state, info


def _noise(jacobian: Jacobian, target: Array, left: Array, parts: Array, share: Array) -> Array:
    """Squares of the errors (K,) of components of the velocity along `left` (M, K): by what the fit
    leaves of samples that it has not seen, or (few samples for the rank) by all of their energies.
    """
    xp = array_namespace(target)
    counts, squares = xp.ones_like(share[:1]), xp.abs(left) ** 2
    if (which := getattr(jacobian, "which", None)) is not None:  # rows stand for so many samples
        numbers = xp.asarray(xp.unique_counts(which).counts, dtype=share.dtype)
        counts = xp.concat([numbers] * (target.shape[0] // numbers.shape[0]))
    rest = xp.abs(target) ** 2
    if 2 * float(xp.sum(share)) < target.shape[0]:
        seen = xp.minimum(squares @ share / counts, xp.asarray(0.99, dtype=share.dtype))
        rest = xp.abs(target - left @ parts) ** 2 / (1 - seen) ** 2
    return (rest / counts) @ squares
