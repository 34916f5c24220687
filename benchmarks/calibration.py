"""Are the error bars right? Repeated measurements of states whose exact values are known.

    python benchmarks/calibration.py [--rows NAME ...] [--repetitions 1000] [--seed 0] [--json FILE]

For each row: the share of repetitions whose exact value lies within 1 and 2 error bars (asked: 68
and 95 %), the largest deviation in error bars, the bias in standard errors of the mean over all
repetitions, the median error bar over the true error, the share that comes with a warning, and the
share of misses: the error bar is less than half of the true error, and no warning says so.  The
true error is what 68 % of the deviations stay below: a root mean square is that of a few outliers
where local energies have a heavy tail.

Repetitions are groups of walkers of one draw, since a chain is a function of (seed, step, walker)
and walkers are independent; each group goes through the estimator of a run.  Chains look amplitudes
up in a table of all of them, which changes nothing but the time.  Exact values are those of the
enumeration of the same state.  One core, some seconds to minutes a row.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from tnvmc import (
    PEPS,
    VMC,
    DirectSampler,
    Enumerate,
    Exact,
    Operator,
    Sampler,
    heisenberg,
    j1j2,
    rydberg,
    square,
    tfim,
    xxz,
)
from tnvmc.ansatz.generic import GenericAnsatz
from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.backend.namespace import to_host
from tnvmc.estimate.blocks import Blocks
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.line_fit import fit_line
from tnvmc.estimate.observables import at_fixed_magnetisation, energy_terms, local_energy
from tnvmc.estimate.reliability import LEAST_CHANGED, changed_part, doubts
from tnvmc.estimate.statistics import (
    Estimate,
    effective_samples,
    estimate,
    estimate_samples,
)  # fmt: skip
from tnvmc.lattice.permutations import checkerboard
from tnvmc.operators.spin import SIGMA_Z
from tnvmc.sampling import streams
from tnvmc.sampling.chains import followed
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.problem import SampleInfo
from tnvmc.sampling.workers import join
from tnvmc.vmc.measured_iterate import BURN
from tnvmc.vmc.measurement import FRESH_BURN, in_parts
from tnvmc.vmc.neighbours import (
    SHARE,
    energy_with_neighbours,
    hidden,
    of_both,
    with_distance,
    within_drawn,
)

RESULTS = Path(__file__).parent / "results" / "calibration.json"
CHUNK = 4096  # walkers at a time: a table is looked up for 64 no faster than for thousands
SIGMA, TWO_SIGMA, TOLERANCE = 0.6827, 0.9545, 0.04


@dataclass(frozen=True)
class Group:
    """The samples of one repetition, in draw-major order."""

    values: np.ndarray  #: (n_draws, W)
    weight: np.ndarray | None
    exact: float
    changed: float | None = None  #: part of the draws that differ from the one before
    both: float | None = None  #: energy with neighbours, where few draws differ
    look: Group | None = None  #: fewer samples of a power of |psi|^2
    again: Group | None = None  #: as many as these, which take their place where `hidden` says so
    configs: np.ndarray | None = None
    widen: Callable[..., Estimate] | None = None  #: `within_drawn` of the state

    @property
    def n_walkers(self) -> int:
        return self.values.shape[1]


@dataclass(frozen=True)
class Judged:
    """What an estimator says of one repetition."""

    deviation: float
    error: float
    codes: tuple[str, ...]  #: of its warnings


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    asked: str  #: "hold": 68 and 95 %; "told": a warning where they do not hold
    repetitions: int
    within_1: float
    within_2: float
    worst: float
    bias: float
    error_over_true: float
    warned: float
    missed: float
    codes: dict[str, float]  #: shares of the repetitions with each warning
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether both shares are within the tolerance, or above it (error bars too large)."""
        return self.within_1 > SIGMA - TOLERANCE and self.within_2 > TWO_SIGMA - TOLERANCE


Judge = Callable[[Group], Judged]


def of_estimate(group: Group) -> Judged:
    """Judge as a measurement of the energy or of an operator does."""
    found, look = estimated(group), group.look and estimated(group.look)
    if look is not None and group.again is not None and hidden(found, look):
        every, group = (group, group.look, group.again), group.again
        found = of_both(estimated(group), look)
        assert group.widen is not None
        found = group.widen(found, draws=[each.configs for each in every if each is not None])
    effective = None if group.weight is None else effective_samples(group.weight)
    return _judged(found, group, effective)


def estimated(group: Group) -> Estimate:
    """The mean and its error, as a run has them."""
    x, w = group.values, group.weight
    info = SampleInfo(x.shape[1], x.shape[0], 0.0, acceptance=0.5)
    return estimate_samples(x.ravel(), None if w is None else w.ravel(), info)


def _judged(found: Estimate, group: Group, effective: float | None = None) -> Judged:
    moved = None
    if group.both is not None:
        found, moved = with_distance(found, group.both)
    known = {"effective": effective, "changed": group.changed, "moved": moved}
    told = doubts(found, group.n_walkers, **known)
    return Judged(found.mean - group.exact, found.error, codes_of(told))


def codes_of(told: Iterable[Diagnostic]) -> tuple[str, ...]:
    """Names of what is warned of."""
    return tuple(found.code for found in told)


def of_blocks(group: Group) -> Judged:
    """Judge as `tnvmc measure` does."""
    blocks = Blocks()
    n = len(group.values)
    layers = np.array_split(group.values, max(1, min(n, 32 // group.n_walkers)))
    for part in layers:
        blocks.add(part.reshape(-1, 1), None, group.n_walkers)
    mean, error = blocks.derive()
    return Judged(mean[0] - group.exact, error[0], codes_of(blocks.diagnostics()))


def of_difference(group: Group) -> Judged:
    """The difference of the values and of their cubes over 3."""
    apart = group.values - (group.values**3 / 3 - 1.0)
    return _judged(estimate(apart, group.n_walkers), group)


def of_line(group: Group) -> Judged:
    """The end at 0 of a line through points whose errors are known (`zero_variance_energy`)."""
    y = group.values.ravel()
    x = np.linspace(1.0, 4.0, y.size)
    found = fit_line(x.tolist(), y.tolist(), [1.0] * y.size)
    return Judged(found.intercept, found.intercept_error, ())


class Tabulated(GenericAnsatz):
    """The amplitudes of another wave function, looked up: its chains, a hundred times faster."""

    def __init__(self, other: Any, theta: np.ndarray, operator: Operator) -> None:
        super().__init__(other.lattice, operator.local_dim)
        size = operator.local_dim**operator.n_sites
        self.powers = operator.local_dim ** np.arange(operator.n_sites - 1, -1, -1)
        self.phase, self.log_abs = np.zeros(size), np.full(size, -np.inf)
        configs = initial_configs(operator, 1, 0)
        total = int(configs.sum()) if operator.conserves_magnetisation else None
        every = np.arange(size)[:, None] // self.powers % operator.local_dim
        every = every[every.sum(axis=1) == total] if total is not None else every
        for begin in range(0, len(every), 4096):
            part = every[begin : begin + 4096].astype(np.int8)
            found = other.log_amplitude(theta, part)
            place = part @ self.powers
            self.phase[place] = np.sign(to_host(found.phase).real)
            self.log_abs[place] = to_host(found.log_abs)

    def log_amplitude(self, theta: Any, configs: Any) -> LogAmplitude:
        """psi(s) of a table."""
        place = np.asarray(configs, dtype=np.int64) @ self.powers
        return LogAmplitude(self.phase[place], self.log_abs[place])

    def random(self, seed: int) -> np.ndarray:
        """No parameters are free."""
        return np.zeros(1)


@dataclass(frozen=True)
class State:
    """A wave function: its Hamiltonian, and how its parameters are made."""

    operator: Operator
    D: int = 2
    steps: int = 0  #: of SR from the default start
    network: bool = False

    def vmc(self, sampler: Any, seed: int) -> VMC:
        """The state, ready to be measured with a sampler."""
        ansatz: Any = PEPS(self.operator.lattice, self.D, scheme=Exact(), sharing=None)
        if self.network:
            from flax import nnx

            from tnvmc.ansatz.neural.flax import FlaxAnsatz
            from tnvmc.ansatz.neural.rbm import RBM

            lattice = self.operator.lattice
            ansatz = FlaxAnsatz(lattice, RBM(lattice, rngs=nnx.Rngs(0)))
        start = VMC(self.operator, ansatz, Sampler(128, 1024, threads=1), learning_rate=0.05)
        for _ in range(self.steps):
            start.step()
        theta = start.theta
        if isinstance(sampler, Sampler):
            ansatz = Tabulated(ansatz, theta, self.operator)
            theta = ansatz.random(0)
        configs = initial_configs(self.operator, sampler.n_walkers, seed)
        return VMC(self.operator, ansatz, sampler, theta=theta, configs=configs, seed=seed)


def values_of(snapshot: Any, operator: Operator, hamiltonian: Operator) -> np.ndarray:
    """Local values (M,) of an operator, the Hamiltonian or another."""
    if operator is hamiltonian:
        return np.asarray(to_host(local_energy(operator, snapshot)).real)
    terms = energy_terms(operator)
    if hamiltonian.conserves_magnetisation:
        terms = at_fixed_magnetisation(terms)
    return np.asarray(to_host(terms.values(snapshot, terms.targets)).real.sum(axis=1))


@dataclass(frozen=True)
class Case:
    """A row that is sampled: a state, a sampler of one repetition, an operator, a judge."""

    name: str
    state: State
    sampler: Any
    asked: str = "hold"
    operator: Operator | None = None  #: other than the Hamiltonian
    judge: Judge = of_estimate

    def groups(self, repetitions: int, seed: int) -> list[Group]:
        """Draw all repetitions at once."""
        many, per = self._many(repetitions)
        vmc = self.state.vmc(many, seed)
        operator = self.operator or vmc.operator
        exact = self._exact(vmc, operator)
        found, every = self._groups(vmc, vmc.method, vmc.state.here, per, exact)
        if operator is not vmc.operator or getattr(many, "power", 1.0) not in (1.0, "auto"):
            return found
        walkers = many if isinstance(many, Sampler) else Sampler(many.n_samples, many.n_samples)
        power = 2 * followed(every.amplitude, 1.0, SHARE) - 1
        chains = replace(walkers, power=power, n_burn=BURN, threads=1, chunk=CHUNK)
        point = replace(vmc.state.here, configs=every.configs[-walkers.n_walkers :])
        per = chains.n_walkers // repetitions
        looks, agains = (
            self._groups(vmc, replace(vmc.method, sampler=each), point, per, exact, n)[0]
            for n, each in enumerate((replace(chains, n_samples=chains.n_samples // 4), chains), 1)
        )
        return [
            replace(group, look=look, again=again)
            for group, look, again in zip(found, looks, agains, strict=True)
        ]

    def _groups(
        self, vmc: VMC, method: Any, point: Any, per: int, exact: float, stream: int = 0
    ) -> tuple[list[Group], Any]:
        """Samples of a method by groups of walkers, and all of them."""
        operator = self.operator or vmc.operator
        targets = dict(operator.targets) if operator is vmc.operator else {}
        snapshots = [
            snapshot
            for snapshot, _ in in_parts(method, point, targets, streams.MEASURE + 2**20 * stream)
        ]
        values = [values_of(snapshot, operator, vmc.operator) for snapshot in snapshots]
        every = join(snapshots)  # which empties the list
        x = np.concatenate(values).reshape(-1, method.sampler.n_walkers // per, per)
        w = None if every.weight is None else to_host(every.weight).reshape(x.shape)
        place = np.arange(x.size).reshape(x.shape)
        found, widen = [], partial(within_drawn, problem=vmc.problem, theta=vmc.theta)
        for k in range(x.shape[1]):
            rows = place[:, k].ravel()
            changed, both = changed_part(every.configs[rows], per), None
            if operator is vmc.operator and changed is not None and changed < LEAST_CHANGED:
                configs = every.configs[rows]
                both = energy_with_neighbours(vmc.problem, vmc.theta, configs, len(rows))
            group = Group(
                x[:, k], None if w is None else w[:, k], exact, changed, both,
                configs=every.configs[rows], widen=widen,
            )  # fmt: skip
            found.append(group)
        return found, every

    def _many(self, repetitions: int) -> tuple[Any, int]:
        """The sampler of all repetitions, and the independent walkers of each."""
        own = self.sampler
        if isinstance(own, DirectSampler):
            return replace(
                own, n_samples=own.n_samples * repetitions, threads=1, chunk=512
            ), own.n_samples
        many = replace(
            own, n_walkers=own.n_walkers * repetitions, n_samples=own.n_samples * repetitions,
            threads=1, chunk=CHUNK,
        )  # fmt: skip
        return many, own.n_walkers

    def _exact(self, vmc: VMC, operator: Operator) -> float:
        targets = dict(operator.targets) if operator is vmc.operator else {}
        method = replace(vmc.method, sampler=Enumerate(threads=1, by_orbit=False))
        total = 0.0
        for snapshot, _ in in_parts(method, vmc.state.here, targets, 0):
            w = to_host(snapshot.weight)
            local = values_of(snapshot, operator, vmc.operator)
            total += float(np.where(w > 0, w * local, 0.0).sum())
        return total


@dataclass(frozen=True)
class Synthetic:
    """Autoregressive chains of unit variance: of Gaussian noise, or a function of them."""

    name: str
    shape: tuple[int, int]  #: draws, walkers
    rho: float
    asked: str = "hold"
    judge: Judge = of_estimate
    transform: Callable[[np.ndarray], np.ndarray] | None = None
    exact: float = 0.0

    def groups(self, repetitions: int, seed: int) -> list[Group]:
        """Draw all repetitions at once."""
        rng = np.random.default_rng(seed)
        (n, walkers), rho = self.shape, self.rho
        chain_ = rng.normal(size=(n, repetitions, walkers))
        for t in range(1, n):
            chain_[t] = rho * chain_[t - 1] + math.sqrt(1 - rho**2) * chain_[t]
        if self.transform is not None:
            chain_ = self.transform(chain_)
        return [Group(chain_[:, k], None, self.exact) for k in range(repetitions)]


def staggered(operator: Operator) -> Operator:
    """Staggered Mz per site, in units of the spin."""
    sign = 1.0 - 2.0 * checkerboard(operator.lattice)
    n = operator.n_sites
    return Operator.from_terms(
        operator.lattice, [((k,), sign[k] / (2 * n) * SIGMA_Z) for k in range(n)]
    )


def squared(weights: np.ndarray, operator: Operator) -> Operator:
    """(sum_i weights_i Sz_i / N)^2."""
    n = operator.n_sites
    scale = 1 / (4 * n * n)
    pairs = [
        ((i, j), 2 * scale * weights[i] * weights[j] * np.kron(SIGMA_Z, SIGMA_Z))
        for i in range(n)
        for j in range(i + 1, n)
    ]
    sites = [((i,), scale * weights[i] ** 2 * np.eye(2)) for i in range(n)]
    return Operator.from_terms(operator.lattice, [*pairs, *sites])


def rho_of(tau: float) -> float:
    """Autoregression with an integrated autocorrelation time (1/2: independent)."""
    return (2 * tau - 1) / (2 * tau + 1)


def cases() -> list[Case | Synthetic]:
    """All rows: those that once failed, ordinary ones, and chains of known autocorrelation."""
    ising, weak = tfim(square(3, 3), h=30.0), tfim(square(3, 3), h=1.0)
    anisotropic = xxz(square(3, 4), Jz=3.0)
    heis = heisenberg(square(3, 4))
    own, heis_4 = partial_sampler, heisenberg(square(4, 4))
    return [
        Case("TFIM 3x3 h=30, 8 walkers", State(ising), own(8, 256)),
        Case("TFIM 3x3 h=30, 16 walkers", State(ising), own(16, 256)),
        Case("TFIM 3x3 h=1, 8 walkers, 4096 samples", State(weak), own(8, 4096)),
        Case("XXZ 3x4 Delta=3, 8 walkers, 256 samples", State(anisotropic), own(8, 256),
             asked="told"),
        Case("power 0.2, RBM, 64 walkers, 4096 samples", State(heis, steps=40, network=True),
             Sampler(64, 4096, n_burn=10, power=0.2)),
        Case("power 0.2, RBM, 64 walkers, 256 samples", State(heis, steps=40, network=True),
             Sampler(64, 256, n_burn=10, power=0.2), asked="told"),
        Case("direct, Heisenberg 3x4, 1024 samples", State(heis), DirectSampler(1024)),
        Case("direct, XXZ 3x4 Delta=3, 1024 samples", State(anisotropic), DirectSampler(1024),
             asked="told"),
        Case("staggered Mz, XXZ 3x4 Delta=3, 64 walkers, 256 samples", State(anisotropic),
             own(64, 256), asked="told", operator=staggered(anisotropic)),
        Case("staggered Mz, XXZ 4x4 Delta=3, 64 walkers, 256 samples",
             State(xxz(square(4, 4), Jz=3.0)), own(64, 256), judge=of_blocks,
             operator=staggered(xxz(square(4, 4), Jz=3.0))),
        Case("Mz, TFIM 3x3 h=1, 64 walkers, 256 samples", State(weak), own(64, 256), asked="told",
             operator=Operator.from_terms(weak.lattice, [((k,), SIGMA_Z / 9) for k in range(9)])),
        Case("Heisenberg 4x4, 64 walkers, 1024 samples", State(heis_4, steps=20),
             own(64, 1024)),
        Case("Heisenberg 3x4, 16 walkers, 512 samples", State(heis, steps=20), own(16, 512)),
        Case("Heisenberg 3x4, 8 walkers, 1024 samples", State(heis, steps=20), own(8, 1024)),
        Case("Heisenberg 3x4, 4 walkers, 1024 samples", State(heis, steps=20), own(4, 1024)),
        Case("Heisenberg 3x4, 2 walkers, 2048 samples", State(heis, steps=20), own(2, 2048)),
        Case("Heisenberg 3x4, 1 walker, 2048 samples", State(heis, steps=20), own(1, 2048)),
        Case("staggered Mz, Heisenberg 3x4, 64 walkers", State(heis, steps=20), own(64, 1024),
             operator=staggered(heis)),
        Case("staggered Mz^2, Heisenberg 4x4, 64 walkers, 256 samples", State(heis_4, steps=20),
             own(64, 256), judge=of_blocks, operator=squared((1.0 - 2.0 * checkerboard(heis_4.lattice)), heis_4)),
        Case("J1-J2 3x4, 32 walkers, 512 samples", State(j1j2(square(3, 4)), steps=20),
             own(32, 512)),
        Case("J1-J2 4x4, 64 walkers, 512 samples", State(j1j2(square(4, 4)), steps=20),
             own(64, 512)),
        Case("Rydberg 4x4, 64 walkers, 512 samples", State(rydberg(square(4, 4)), steps=20),
             own(64, 512)),
        Case("Rydberg 3x3, 32 walkers, 512 samples", State(rydberg(square(3, 3)), steps=20),
             own(32, 512)),
        Case("Rydberg 3x3, direct, 512 samples", State(rydberg(square(3, 3)), steps=20),
             DirectSampler(512)),
        Case("Rydberg 3x3 after 5 steps, 64 walkers, 512 samples",
             State(rydberg(square(3, 3)), steps=5), own(64, 512)),
        Case("Rydberg 3x4 D=3, 64 walkers, 512 samples",
             State(rydberg(square(3, 4)), D=3, steps=20), own(64, 512)),
        Case("TFIM 3x3 h=1/2 D=1, 64 walkers, 512 samples", State(tfim(square(3, 3), h=0.5), D=1),
             own(64, 512)),
        Case("TFIM 3x3 h=3, 16 walkers, 512 samples", State(tfim(square(3, 3), h=3.0)),
             own(16, 512)),
        Case("TFIM 3x3 h=3, 128 walkers, 512 samples", State(tfim(square(3, 3), h=3.0), steps=20),
             own(128, 512)),
        Case("Heisenberg 3x4, 128 walkers, 512 samples", State(heis, steps=20), own(128, 512)),
        Case("XXZ 2x4 Delta=5 after 3 steps, 64 walkers, 256 samples",
             State(xxz(square(2, 4), Jz=5.0), steps=3), own(64, 256)),
        Case("XXZ 2x4 Delta=5 after 3 steps, 64 walkers, 512 samples",
             State(xxz(square(2, 4), Jz=5.0), steps=3), own(64, 512)),
        *synthetic(),
    ]  # fmt: skip


def synthetic() -> list[Synthetic]:
    """Chains of known autocorrelation times, and functions of them."""
    found = [
        Synthetic(f"AR(1), tau {tau:g}, {w} walkers of {n}", (n, w), rho_of(tau), asked)
        for n, w, tau, asked in [
            (32, 8, 0.1, "hold"), (32, 8, 0.5, "hold"), (32, 8, 4.0, "hold"),
            (32, 8, 32.0, "hold"), (4, 64, 0.5, "hold"), (4, 64, 2.0, "hold"),
            (64, 64, 64.0, "hold"), (512, 16, 5.0, "hold"), (1, 16, 0.5, "hold"),
            (1024, 4, 0.1, "hold"), (1024, 4, 2.0, "hold"), (1024, 4, 64.0, "told"),
            (1024, 4, 1024.0, "told"), (2048, 2, 2.0, "hold"), (1024, 2, 256.0, "told"),
            (4096, 1, 0.1, "hold"), (4096, 1, 2.0, "hold"), (1024, 1, 32.0, "told"),
            (1024, 1, 1024.0, "told"),
        ]
    ]  # fmt: skip
    return [
        *found,
        Synthetic("difference, tau 2, 16 walkers of 64", (64, 16), rho_of(2),
                  judge=of_difference, exact=1.0),
        Synthetic("blocks, tau 2, 64 walkers of 16", (16, 64), rho_of(2), judge=of_blocks),
        Synthetic("blocks, tau 1, 4 walkers of 1024", (1024, 4), rho_of(1), judge=of_blocks),
        Synthetic("skewed exp(x), tau 2, 16 walkers of 128", (128, 16), rho_of(2),
                  transform=np.exp, exact=math.exp(0.5)),
        Synthetic("zero-variance line, 3 points", (1, 3), 0.0, judge=of_line),
        Synthetic("zero-variance line, 12 points", (1, 12), 0.0, judge=of_line),
        Synthetic("rare events, one in 100, 1024 independent", (1, 1024), 0.0,
                  transform=lambda x: (x > 2.326348) * 10.0, exact=0.1),
        Synthetic("rare events, one in 500, 1024 independent", (1, 1024), 0.0, "told",
                  transform=lambda x: (x > 2.878162) * 10.0, exact=0.02),
    ]  # fmt: skip


def partial_sampler(n_walkers: int, n_samples: int) -> Sampler:
    """Chains with the burn-in of a measurement of walkers that start at random."""
    return Sampler(n_walkers, n_samples, n_burn=FRESH_BURN, threads=1)


def measured(case: Case | Synthetic, repetitions: int, seed: int) -> Row:
    """Draw, judge and count."""
    began = time.perf_counter()
    judged = [case.judge(group) for group in case.groups(repetitions, seed)]
    deviation = np.array([found.deviation for found in judged])
    error = np.array([found.error for found in judged])
    warned = np.array([bool(found.codes) for found in judged])
    codes = Counter(code for found in judged for code in found.codes)
    with np.errstate(divide="ignore", invalid="ignore"):
        sigmas = np.where(deviation == 0, 0.0, np.abs(deviation) / error)
    true = float(np.quantile(np.abs(deviation), SIGMA))
    return Row(
        case.name, case.asked, repetitions,
        float(np.mean(sigmas <= 1)), float(np.mean(sigmas <= 2)), float(sigmas.max()),
        float(deviation.mean() / deviation.std() * math.sqrt(repetitions)),
        float(np.median(error)) / true,
        float(warned.mean()), float(np.mean((2 * error < true) & ~warned)),
        {code: count / repetitions for code, count in sorted(codes.items())},
        time.perf_counter() - began,
    )  # fmt: skip


def line(row: Row) -> str:
    """One line of the table."""
    mark = "" if row.holds else "  told" if row.warned > 0.5 else "  <<<"
    return (
        f"{row.name:<60} {100 * row.within_1:5.1f} {100 * row.within_2:5.1f} {row.worst:6.1f} "
        f"{row.bias:+6.1f} {row.error_over_true:6.2f} {100 * row.warned:6.1f} "
        f"{100 * row.missed:6.1f} {row.seconds:6.0f}{mark}"
        + "".join(f"  {code} {100 * share:.1f}" for code, share in row.codes.items())
    )


def main() -> None:
    """Measure the rows asked for, print the table and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", nargs="*", metavar="TEXT", help="names that hold one of these")
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=RESULTS)
    args = parser.parse_args()
    chosen = [c for c in cases() if not args.rows or any(text in c.name for text in args.rows)]
    print(f"{'row':<60} {'1 err':>5} {'2 err':>5} {'worst':>6} {'bias':>6} {'/true':>6} "
          f"{'warned':>6} {'missed':>6} {'s':>6}")  # fmt: skip
    args.json.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    with threadpool_limits(1):
        for case in chosen:
            row = measured(case, args.repetitions, args.seed)
            print(line(row), flush=True)
            rows.append(asdict(row) | {"holds": row.holds})
            found = {"seed": args.seed, "rows": rows}
            args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
