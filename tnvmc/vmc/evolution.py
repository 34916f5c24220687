"""Steps of time: an integrator with step control, for the rule `TimeEvolution`.

Substeps are of the third-order Runge-Kutta scheme of Shu and Osher (J. Comput. Phys. 77, 439
(1988)).  All stages of one have the same samples, reweighted: so what differs from the embedded
scheme of second order is the error of the integrator and no noise.
"""

from dataclasses import replace
from time import perf_counter
from typing import Any, cast

import numpy as np

from tnvmc.ansatz.protocol import chi_of
from tnvmc.backend import progress
from tnvmc.backend.namespace import array_namespace, to_host
from tnvmc.backend.process import one_blas_thread, using_threads
from tnvmc.estimate.observables import at_fixed_magnetisation, energy_terms
from tnvmc.estimate.statistics import estimate_samples
from tnvmc.operators.term import Operator
from tnvmc.optimize.rule import Info
from tnvmc.optimize.solve import least_squares
from tnvmc.vmc.core import Iterate, Method, State
from tnvmc.vmc.measurement import equilibrated
from tnvmc.vmc.observation import Observation, Reweighted, observe
from tnvmc.vmc.results import StepRecord

Array = Any

SHORTEST = 1 / 256
"""Of a step: substeps of this length are taken whatever their error."""

_ADDED = ("time", "noise", "bound")  # of all substeps
_SHORTER, _LONGER, _SAFETY = 0.2, 2.0, 0.9  # of a substep, after the last one


def advance(method: Method, state: State) -> tuple[State, StepRecord]:
    """Go to the next time of a record, and tell of the state there; at step 0 of that at t = 0.

    The record's `optimizer` has "time", the mean of each observable NAME, what
    `TimeEvolution.direction` reports, the number of "substeps", and "error_bound": how far psi may
    be from the exact state (norm of the difference): what lay outside of the tangent space, errors
    of the integrator and noise of the samples since t = 0.  "NAME_error" is that by the samples, of
    the record and of all steps; "NAME_bound" how far the mean may be off, by `error_bound`.
    """
    rule: Any = method.rule
    started, compiled = perf_counter(), progress.compiled
    here, substeps = equilibrated(method, state).here, 0
    if state.step:
        here, substeps = _evolved(method, here, state.step * rule.step)
    seen, here = _drawn(method, here)
    carried, info = here.optimizer, _velocity(method, seen)[1]
    distance = float(carried["bound"] + carried["noise"] ** 0.5)
    kicks = (2 * carried["noise"] / max(info["rank"], 1)) ** 0.5
    found = {"time": carried["time"], **_means(method, seen, distance, kicks), **info}
    took = perf_counter() - started
    compiled = min(progress.compiled - compiled, took)
    move = here.theta - state.here.theta
    record = StepRecord(
        **seen.statistics(),
        step=state.step,
        learning_rate=rule.step,
        step_norm=float(array_namespace(move).linalg.vector_norm(move)),
        undone=False,
        diagnostics=(),
        optimizer={**found, "substeps": substeps, "error_bound": distance},
        seconds=took - compiled,
        power=seen.info.power,
        n_samples=seen.energy.n_samples,
        chi=chi_of(method.problem.ansatz),
        compile_seconds=compiled,
    )
    return replace(state, step=state.step + 1, here=here), record


def _evolved(method: Method, here: Iterate, end: float) -> tuple[Iterate, int]:
    """Integrate up to a time; also how many substeps that took."""
    rule: Any = method.rule
    least, n, seen = SHORTEST * rule.step, 0, None
    while (left := end - here.optimizer["time"]) > least / 2:
        if seen is None:
            seen, here = _drawn(method, here)
        state = here.optimizer
        dt = min(state["substep"], left)
        theta, error, info = _substep(method, seen, dt)
        taken = error <= rule.tolerance or dt <= least
        factor = _SAFETY * (rule.tolerance / max(error, 1e-300)) ** (1 / 3)
        longer = max(dt * min(max(factor, _SHORTER), _LONGER), least)
        if taken:
            longer = longer if dt == state["substep"] else max(longer, state["substep"])
            noise, bound = (dt * info["noise"]) ** 2, dt * info["outside"] + error
            moved = {key: state[key] + v for key, v in zip(_ADDED, (dt, noise, bound), strict=True)}
            here = replace(here, theta=theta, optimizer={**state, **moved, "substep": longer})
            n, seen = n + 1, None
        else:
            here = replace(here, optimizer={**state, "substep": longer})
    return replace(here, optimizer={**here.optimizer, "time": end}), n


def _drawn(method: Method, here: Iterate) -> tuple[Observation, Iterate]:
    """Draw at a point, with random numbers of its own; the point with its walkers moved."""
    state, sampler = here.optimizer, cast(Any, method.sampler)
    if sampler.n_samples and hasattr(sampler, "by_orbit"):
        sampler = replace(sampler, by_orbit=False)  # observables may lack the symmetries of orbits
    seen = observe(method.problem, sampler, here, state["draws"])
    here = replace(here, configs=seen.point.configs, power=seen.point.power)
    return seen, replace(here, optimizer={**state, "draws": state["draws"] + 1})


def _velocity(method: Method, seen: Observation) -> tuple[Array, Info]:
    """Give d theta / dt, and what the projection reports."""
    snapshot, about = seen.snapshot, {"exact": seen.info.exact}
    assert snapshot.jacobian is not None
    with one_blas_thread(), using_threads(method.sampler.threads):
        minus, _, info = method.rule.direction(
            seen.point.theta, snapshot.jacobian, seen.local, snapshot.weight, about
        )
    return -minus, info


def _substep(method: Method, seen: Observation, dt: float) -> tuple[Array, float, Info]:
    """Give theta after a substep, the distance of the states of both schemes, and a report."""
    snapshot, theta, drawing = seen.snapshot, seen.point.theta, method.sampler
    same: Any = Reweighted(snapshot, seen.info, drawing.threads)

    def at(theta: Array) -> Observation:
        point = replace(seen.point, theta=theta)
        return observe(method.problem, drawing if seen.info.exact else same, point, 0)

    first, info = _velocity(method, seen)
    second = _velocity(method, at(theta + dt * first))[0]
    halfway = at(theta + dt / 4 * (first + second))
    third = _velocity(method, halfway)[0]
    middle = halfway.snapshot
    assert middle.jacobian is not None
    # Where derivatives grow from nothing, those at the start would tell of no error.
    a = least_squares(halfway.point.theta, middle.jacobian, halfway.local, middle.weight).matrix
    off = a.apply(dt / 3 * (first + second - 2 * third))
    error = float(array_namespace(off).linalg.vector_norm(off))
    return theta + dt / 6 * (first + second + 4 * third), error, info


def _means(method: Method, seen: Observation, distance: float, kicks: float) -> Info:
    """Means over all sites; `kicks` is how far noise has moved psi along any one direction."""
    found: Info = {}
    rule, own = cast(Any, method.rule), cast(Any, method.sampler)
    hamiltonian = method.problem.operator
    drawing: Any = Reweighted(seen.snapshot, seen.info, own.threads)
    configs = to_host(seen.snapshot.configs[:1])
    kind: Any = {"local_dim": hamiltonian.local_dim, "fermions": hamiltonian.fermions}
    for name in rule.observables:
        products = [(name, "all", 1.0 / hamiltonian.n_sites)]
        operator = Operator.from_products(hamiltonian.lattice, products, **kind)
        if seen.info.exact:  # orbits of the ansatz serve what has its symmetries
            alike = method.problem.ansatz.orbit_classes(configs, operator) is not None
            drawing = replace(own, by_orbit=own.by_orbit and alike)
        terms = energy_terms(operator)
        if hamiltonian.conserves_magnetisation:  # of the sector, where Sx is 0
            terms = at_fixed_magnetisation(terms, hamiltonian)
        problem = replace(method.problem, targets=terms.targets)
        snapshot = drawing.draw(problem, seen.point, 0, False)[0]
        values = array_namespace(seen.local).sum(terms.values(snapshot, terms.targets), axis=1)
        weight = snapshot.weight if seen.info.exact else seen.snapshot.weight
        mean = estimate_samples(values, weight, seen.info)
        sigma = float(mean.variance) ** 0.5
        largest = 2 * sum(float(np.linalg.norm(each.matrix, 2)) for each in terms.terms)
        found |= {
            name: float(mean.mean),
            f"{name}_error": float(np.hypot(mean.error, sigma * kicks)),
        }
        found[f"{name}_bound"] = min(distance * (2 * sigma + largest * distance), largest)
    return found
