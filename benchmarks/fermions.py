"""Fermions: energies of small and large systems against exact ones, and the time of a sample.

    python benchmarks/fermions.py [SYSTEM ...] [--ansatz peps|slater_rbm|slater_jastrow]
                                  [--steps N] [--samples M] [--measured M] [--json FILE]
    python benchmarks/fermions.py --sample [--json FILE]

Open lattices, t = 1, one thread, seed 0, totals; exact ones by diagonalisation in the basis of
Jordan and Wigner.  With --sample: CPU time of a sample of the t-V model over that of the Heisenberg
model on 8 x 8 sites, equal D and chi, random tensors, medians of draws taken in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np

from meter import cpu_name
from tnvmc import PEPS, SR, SRC, VMC, Jastrow, ProductOfStates, Sampler, Slater, heisenberg, square
from tnvmc.operators.models import hubbard, tj, tv
from tnvmc.operators.term import Operator
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.problem import Point, Problem


@dataclass(frozen=True)
class System:
    """A Hamiltonian, its exact energy, and the PEPS that the table has for it."""

    model: Callable[..., Operator]
    shape: tuple[int, int]
    particles: int | tuple[int, int]
    exact: float | None = None
    couplings: dict[str, float] = field(default_factory=dict)
    D: int = 6
    samples: int = 2048
    momentum: float = 0.0
    steps: int = 200
    symmetric: bool = False  #: whether its sum over the point group is measured, too


SYSTEMS = {
    "tv_3x4": System(tv, (3, 4), 6, -3.92504074, {"V": 2.0}, steps=100, samples=512),
    "tv_3x4_free": System(tv, (3, 4), 6, -8.30056308, {"V": 0.0}, steps=150, samples=512),
    "tv_4x4": System(
        tv, (4, 4), 8, -5.04993637, {"V": 2.0}, samples=512, steps=300, symmetric=True
    ),
    "hubbard_3x3": System(
        hubbard, (3, 3), (4, 4), -5.04125303, {"U": 8.0}, steps=300, momentum=0.97, symmetric=True
    ),
    "hubbard_3x4": System(
        hubbard, (3, 4), (6, 6), -4.91325921, {"U": 8.0}, steps=300, momentum=0.97
    ),
    "tj_3x4": System(tj, (3, 4), (5, 5), -7.164423078592, {"J": 0.4}, symmetric=True),
    "tv_8x8": System(tv, (8, 8), 32, None, {"V": 2.0}, D=4, steps=150, samples=512),
    "hubbard_8x8": System(hubbard, (8, 8), (32, 32), None, {"U": 8.0}, D=4, steps=100, samples=512),
}


def state(system: System, operator: Operator, kind: str) -> Any:
    """The wave function of one kind."""
    lattice, d = operator.lattice, operator.local_dim
    if kind == "peps":
        return PEPS(lattice, D=system.D, local_dim=d)
    if kind == "slater_jastrow":
        second: Any = Jastrow(lattice, local_dim=d)
        return ProductOfStates(Slater(lattice, system.particles, local_dim=d), second)
    from tnvmc.ansatz.neural.flax import FlaxAnsatz
    from tnvmc.ansatz.neural.rbm import RBM

    def network(rngs: Any) -> RBM:
        return RBM(lattice, local_dim=d, rngs=rngs, alpha=2, dtype="complex128")

    determinant = Slater(lattice, system.particles, "complex128", d)
    return ProductOfStates(determinant, FlaxAnsatz(lattice, network, local_dim=d))


def row(name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Optimise and measure one system."""
    system = SYSTEMS[name]
    operator = system.model(square(*system.shape), particles=system.particles, **system.couplings)
    began, cpu = time.perf_counter(), time.process_time()
    sampler = Sampler(n_samples=asked.samples or system.samples, threads=1)
    rule = SR("auto", momentum=system.momentum) if system.momentum else None
    vmc = VMC(operator, state(system, operator, asked.ansatz), sampler, rule)
    vmc.run(asked.steps or system.steps)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    found, summed = vmc.measure(n_samples=asked.measured), None
    if system.symmetric and asked.ansatz == "peps":
        summed = vmc.measure(n_samples=asked.measured, symmetries=["point"])
    return {
        "system": name,
        "ansatz": asked.ansatz,
        "parameters": vmc.ansatz.n_params,
        "steps": vmc.state.step,
        "energy": found.energy,
        "error": found.energy_error,
        "exact": system.exact,
        "variance": found.variance,
        "symmetric": summed and [summed.energy, summed.energy_error],
        "seconds": seconds,
        "cpu_seconds": cpu,
        "settings": {k: v for k, v in asdict(system).items() if k != "model"},
    }


def sample_times(D: int, chi: int, draws: int = 6) -> dict[str, float]:
    """Milliseconds of CPU for a sample of both models, and their ratio."""
    PEPS.coarser = None  # chains of spins walk at half of chi where that is good enough
    rng, lattice, turns = np.random.default_rng(0), square(8, 8), {}
    for operator, sector in ((heisenberg(lattice), 0), (tv(lattice, V=2.0, particles=32), 32)):
        peps = PEPS(lattice, D, scheme=SRC(chi)).for_operator(operator)
        theta = 0.3 * rng.normal(size=peps.n_params)
        theta = np.abs(theta) + 0.2 if operator.fermions is None else theta
        configs = initial_configs(operator, 128, 0, sector)
        turns[operator.name] = [Problem.of(operator, peps, 0, sector), Point(theta, configs), []]
    sampler = Sampler(n_walkers=128, n_samples=128, threads=1)
    for k in range(draws):
        for each in turns.values():
            problem, point, taken = each
            began = time.process_time()
            each[1] = sampler.draw(problem, point, k)[1]
            taken.append((time.process_time() - began) / 128 * 1e3)
    found = {name: float(np.median(taken[1:])) for name, (_, _, taken) in turns.items()}
    return {**found, "ratio": found["tv"] / found["heisenberg"]}


def main() -> None:
    """Run what is asked for, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("systems", nargs="*", choices=[*SYSTEMS, []], metavar="SYSTEM")
    parser.add_argument(
        "--ansatz", default="peps", choices=("peps", "slater_rbm", "slater_jastrow")
    )
    parser.add_argument("--steps", type=int)
    parser.add_argument("--samples", type=int)
    parser.add_argument("--measured", type=int, default=16384)
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--json", type=Path)
    asked, rows = parser.parse_args(), list[dict[str, Any]]()
    if asked.sample:
        for D, chi in ((4, 8), (4, 4), (6, 8)):
            rows.append({"D": D, "chi": chi, **sample_times(D, chi)})
            print(*(f"{key} {value:.4g}" for key, value in rows[-1].items()), flush=True)
    for name in [] if asked.sample else asked.systems or SYSTEMS:
        rows.append(found := row(name, asked))
        above = (
            "" if found["exact"] is None else f" above exact {found['energy'] - found['exact']:.2e}"
        )
        if found["symmetric"]:
            above += ", its sum over the point group {:.5f} +- {:.1e}".format(*found["symmetric"])
        print(
            f"{name:12} {asked.ansatz}: {found['energy']:.5f} +- {found['error']:.1e}{above}, "
            f"variance {found['variance']:.2e}, {found['steps']} steps, "
            f"{found['seconds']:.0f} s ({found['cpu_seconds']:.0f} s of CPU)",
            flush=True,
        )
    if asked.json:
        told = json.dumps({"cpu": cpu_name(), "rows": rows}, indent=1, default=str)
        asked.json.write_text(told + "\n")


if __name__ == "__main__":
    main()
