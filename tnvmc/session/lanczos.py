"""One Lanczos step: the energy of (1 + alpha H)|psi> from samples of psi, and how certain it is."""

from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Snapshot
from tnvmc.backend import progress as shown
from tnvmc.backend.arguments import refuse, whole
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.backend.random import uniforms
from tnvmc.estimate.blocks import Blocks
from tnvmc.estimate.diagnostic import Diagnostic, warn_of
from tnvmc.estimate.lanczos import NAMES, sampled_values, step_of
from tnvmc.estimate.observables import local_energy
from tnvmc.sampling import streams
from tnvmc.sampling.configurations import magnetisation_of
from tnvmc.sampling.problem import Point, SampleInfo, Samples
from tnvmc.sampling.workers import measure_configs, split
from tnvmc.session.calls import collective, work_shown
from tnvmc.shown import Shown, Table, told_of, with_error
from tnvmc.trust.energies import of_level
from tnvmc.trust.reference import Place
from tnvmc.vmc.core import Made, Method, controlled
from tnvmc.vmc.measured_iterate import measured_iterate
from tnvmc.vmc.measurement import MeasurementPlan, Total, in_parts
from tnvmc.vmc.neighbours import flatter, keys_of

N_CONNECTED = 4
"""Configurations, of those that H connects with a sample, whose local energies are computed."""

_AT_ONCE = 512  # of them; the first ones tell the time of all
_PILOT = 512  # samples of |psi|^2 by which its power is chosen


class LanczosStep(SimpleNamespace, Shown):
    """Energies (totals) of psi and of the best (1 + alpha H)|psi>.

    `before` and `variance_before`, then `energy`, `variance`, `alpha`; `gain`, before - energy, in
    which noise cancels; `at_zero_variance`, the end of the line through both states, an estimate
    and no bound, NaN where the variance has not become smaller.  `x_error` is the standard error of
    x.  `seconds` it took, and `expected_seconds` as shown before.  `diagnostics`.
    """

    def __repr__(self) -> str:
        return str(self._table())

    def _table(self) -> Table:
        pairs = {name: (getattr(self, name), getattr(self, f"{name}_error")) for name in NAMES}
        rows = [
            (x, with_error(*v), "" if x == "alpha" else with_error(*(y / self.n_sites for y in v)))
            for x, v in pairs.items()
            if np.isfinite(v[0])
        ]
        rows.append(("n_samples", str(self.n_samples), f"{self.n_connected or 'all'} connected"))
        title = f"Lanczos step, {self.units} units"
        return Table(title, ("", "total", "per site"), rows, self.diagnostics)


def lanczos_step(
    vmc: Made,
    n_samples: int | None = None,
    chi: int | None = None,
    n_connected: int | None = N_CONNECTED,
    sampler: Samples | None = None,
    progress: bool = False,
) -> LanczosStep:
    """Estimate energy and variance of (1 + alpha H)|psi> for the alpha of the lowest energy.

    >>> found = tnvmc.lanczos_step(vmc, n_samples=4096)  # doctest: +SKIP

    Args:
        vmc: whose `measured_theta` is taken; any ansatz.
        n_samples, chi, sampler, progress: as of `VMC.measure`.
        n_connected: of the configurations that H connects with a sample so many are drawn, 2 at
            least, for an estimate without bias; None: all of them, as with `Enumerate`.

    Cost: a measurement from a fresh start for each of them, beside those of the samples; `progress`
    shows what it will take.

    Raises:
        TypeError: no VMC.
        ValueError: numbers below their least; a state that is kept orthogonal to others.

    Warns:
        UnreliableWarning: for each of its `diagnostics` that is a warning or an error.
    """
    if not hasattr(vmc, "method"):
        raise refuse("lanczos_step", "vmc", vmc, "a VMC, as VMC(operator, ansatz)")
    with work_shown(progress):
        found = step_from(vmc, MeasurementPlan(n_samples, chi, sampler=sampler), n_connected)
    warn_of(found.diagnostics, "lanczos_step")
    return found


@collective
def step_from(vmc: Made, plan: MeasurementPlan, n_connected: int | None) -> LanczosStep:
    """Carry out `lanczos_step`, and warn of nothing."""
    if n_connected is not None:
        n_connected = whole("lanczos_step", "n_connected", n_connected, 2)
    began, method = perf_counter(), controlled(vmc.method, vmc.state)
    if method.orthogonal_to:
        raise ValueError(
            "lanczos_step: the state is kept orthogonal to others, and the step would mix them "
            "in again; take it from a state without orthogonal_to"
        )
    iterate, told = measured_iterate(method, vmc.state)
    method, point = _flatter(plan.applied(method, iterate, vmc.state.step), iterate)
    problem, drawn = method.problem, _Drawn(method, point.theta, n_connected)
    operator = problem.operator
    for part in enumerate(in_parts(method, point, problem.targets, streams.LANCZOS + 1)):
        drawn.add(part[0], *part[1])
    found = np.concatenate(drawn.blocks.derive(lambda means: step_of(means, drawn.centre)))
    names = (*NAMES, *(f"{name}_error" for name in NAMES))
    values = dict(zip(names, found.tolist(), strict=True))
    place = Place(operator, magnetisation_of(operator, point.configs), problem.ansatz)
    # Chains are compared as those of observables are: values have heavy tails.
    of_total = (x for x in drawn.total.estimate().diagnostics if x.code != "walkers_disagree")
    doubts = [*drawn.blocks.diagnostics(), *of_total]
    odd = any(g.character < 0 for g in getattr(problem.ansatz.group, "elements", ()))
    if drawn.vanishing and not odd:
        doubts.append(Diagnostic("amplitudes_vanish", "warning", {"share": drawn.vanishing}))
    level = of_level((values["energy"], values["energy_error"]), place)
    values |= {
        "n_samples": drawn.blocks.n_samples,
        "n_connected": None if drawn.blocks.exact else n_connected,
    }
    values |= {"n_sites": operator.n_sites, "units": operator.units}
    values |= {"seconds": perf_counter() - began, "expected_seconds": drawn.expected_seconds}
    return LanczosStep(**values, diagnostics=(*told, *doubts, *level))


def _flatter(method: Method, point: Point) -> tuple[Method, Point]:
    """Draw from a power of |psi|^2, where there is one, so that small psi is seen too.

    E_loc goes as 1 / psi there, and <H^3> needs its square.  J1-J2 4x4, D = 2: a sample moves the
    gain by 6.1 of |psi|^2, by 0.13 of |psi|^0.8.
    """
    problem, sampler = method.problem, method.sampler
    if sampler.n_samples is None or not problem.ansatz.tempered:
        return method, point
    pilot, alone = sampler.for_measurement(_PILOT), replace(problem, targets={})
    snapshot, after, info = pilot.draw(alone, point, streams.LANCZOS, jacobian=False)
    chains = replace(flatter(sampler, snapshot, info), n_samples=sampler.n_samples)
    begin = snapshot.configs[: chains.n_walkers, :] if info.independent else after.configs
    return replace(method, sampler=chains), replace(point, configs=begin)


@dataclass
class _Drawn:
    """What samples tell, part by part."""

    method: Method
    theta: Any
    n_connected: int | None
    n_seen: int = 0  #: samples of the first part
    blocks: Blocks = field(default_factory=Blocks)  #: of values whose means are <(H - c)^n>
    total: Total = field(default_factory=Total)  #: of those for <H^3>, with the heaviest tail
    centre: float = 0.0  #: c
    expected_seconds: float = 0.0
    vanishing: float = 0.0  #: see `sampled_values`

    def add(self, number: int, snapshot: Snapshot, info: SampleInfo) -> None:
        """Add a part of the samples, and ask psi for what H connects with them."""
        problem, drawn, weight = self.method.problem, None, None
        local = np.asarray(to_host(local_energy(problem.operator, snapshot)))
        if snapshot.weight is not None:  # where psi = 0 it may be anything
            weight = np.asarray(to_host(snapshot.weight))
            local = np.where(weight > 0, local, 0.0)
        if not number:
            self.n_seen = len(local)
            self.blocks.exact, self.total.operator = info.exact, problem.operator
            self.centre = float(np.average(local.real, weights=weight))
        if not info.exact and self.n_connected is not None:
            stream = streams.LANCZOS + number, streams.DRAW_PASS + 2
            drawn = uniforms(problem.seed, stream, range(len(local)), self.n_connected)
        ask = partial(self._energies, info.seconds)
        found = sampled_values(problem.operator, snapshot, ask, drawn, (local, self.centre))
        self.vanishing = max(self.vanishing, found[1])
        self.blocks.add(found[0], weight, info.n_walkers)
        self.total.add(found[0][:, 2:3], snapshot, info)

    def _energies(self, seconds: float, configs: np.ndarray) -> np.ndarray:
        """Local energies of configurations (K, N); `seconds` is what the samples took."""
        problem, xp, sampler = self.method.problem, array_namespace(self.theta), self.method.sampler
        _, first, place = np.unique(keys_of(configs), return_index=True, return_inverse=True)
        found = [np.empty(0)]
        for rows in shown.in_turn(split(len(first), _AT_ONCE)):
            began, which = perf_counter() - shown.compiled, first[rows.start : rows.stop]
            there = to_namespace(configs[which], xp), problem.targets
            seen = measure_configs(problem.ansatz, self.theta, *there, threads=sampler.threads)
            found.append(np.asarray(to_host(local_energy(problem.operator, seen))))
            if not self.expected_seconds:
                took = (perf_counter() - shown.compiled - began) * len(first) / len(which)
                n_parts = (sampler.n_samples or self.n_seen) / self.n_seen
                self.expected_seconds = n_parts * (seconds + took)
                shown.begin(told_of("phases", "lanczos", {"seconds": self.expected_seconds}))
        return np.concatenate(found)[place]
