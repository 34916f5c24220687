"""Fermions by NetKet: determinants with a Jastrow factor or a neural backflow, in equal time.

    python benchmarks/fermions_netket.py [SYSTEM ...] [--seconds S] [--json FILE]

Systems of `benchmarks/fermions.py` that NetKet has, t-V and Hubbard: open lattices, t = 1, totals,
one thread, seed 0.  Steps of stochastic reconfiguration of 1024 samples for `--seconds` of CPU
after the first ones, which compile; then 16,384 samples.  Figures of docs/fermions.md: 81, 318 and
480 seconds, about those of the PEPS.  "jastrow" is a real determinant of each species times
exp(n J n), at a rate of 0.03, as two of the three systems become NaN at 0.1 (at 0.03 t-V 4x4 stays
at -4.51, and Hubbard 3x3 finds no state); "backflow" one whose orbitals a network of one hidden
layer of 4 units a mode turns (Luo and Clark, PRL 122, 226401 (2019)), at a rate of 0.1.
Needs the extra `[test]`.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import netket as nk
from fermions import SYSTEMS, System  # first: it asks for one thread
from flax import linen as nn
from netket.operator.fermion import create, destroy
from netket.operator.fermion import number as occupation

from meter import cpu_name

CHAINS, SAMPLES, MEASURED, SHIFT = 64, 1024, 2**14, 1e-3
RATES = {"jastrow": 0.03, "backflow": 0.1}

Array = Any


class Determinant(nn.Module):
    """ln psi of occupations (B, modes): a determinant for each species, and what correlates it."""

    numbers: tuple[int, ...]  #: of particles of each species
    backflow: bool

    @nn.compact
    def __call__(self, occupations: Array) -> Array:
        modes = occupations.shape[-1]
        orbitals = modes // len(self.numbers)
        shapes = [(orbitals, number) for number in self.numbers]
        matrices = [
            self.param(f"orbitals_{k}", nn.initializers.normal(1.0), shape, float)
            for k, shape in enumerate(shapes)
        ]
        x = occupations.reshape(-1, modes).astype(float)
        if self.backflow:
            hidden = jnp.tanh(nn.Dense(4 * modes, param_dtype=float)(x))
            moved = [
                nn.Dense(a * b, param_dtype=float)(hidden).reshape(-1, a, b) for a, b in shapes
            ]
            matrices = [own + more for own, more in zip(matrices, moved, strict=True)]
            total = jnp.zeros(len(x), complex)
        else:
            pairs = self.param("pairs", nn.initializers.normal(0.01), (modes, modes), float)
            matrices = [jnp.broadcast_to(own, (len(x), *own.shape)) for own in matrices]
            total = jnp.einsum("bi,ij,bj->b", x, pairs, x).astype(complex)
        for k, (matrix, number) in enumerate(zip(matrices, self.numbers, strict=True)):
            own = x[:, k * orbitals : (k + 1) * orbitals]
            occupied = jax.vmap(partial(jnp.nonzero, size=number))(own)[0]
            rows = jnp.take_along_axis(matrix, occupied[:, :, None], axis=1)
            sign, log_abs = jnp.linalg.slogdet(rows)
            total = total + log_abs + jnp.log(sign.astype(complex))
        return total.reshape(occupations.shape[:-1])


def problem(system: System) -> tuple[Any, Any, tuple[int, ...]]:
    """Hamiltonian, graph and numbers of particles."""
    graph = nk.graph.Grid(list(system.shape), pbc=False)
    spinless = isinstance(system.particles, int)
    numbers = (system.particles,) if spinless else tuple(system.particles)
    if spinless:
        hilbert = nk.hilbert.SpinOrbitalFermions(graph.n_nodes, n_fermions=system.particles)
    else:
        hilbert = nk.hilbert.SpinOrbitalFermions(
            graph.n_nodes, s=1 / 2, n_fermions_per_spin=system.particles
        )
    species = (None,) if spinless else (-1, 1)
    terms = [
        -1.0 * (create(hilbert, i, s) @ destroy(hilbert, j, s))
        for s in species
        for a, b in graph.edges()
        for i, j in ((a, b), (b, a))
    ]
    if V := system.couplings.get("V"):
        terms += [V * (occupation(hilbert, a) @ occupation(hilbert, b)) for a, b in graph.edges()]
    if U := system.couplings.get("U"):
        terms += [
            U * (occupation(hilbert, i, -1) @ occupation(hilbert, i, 1)) for i in graph.nodes()
        ]
    full = sum(terms[1:], terms[0])
    conserving = (
        nk.experimental.operator.ParticleNumberConservingFermioperator2nd
        if spinless
        else nk.experimental.operator.ParticleNumberAndSpinConservingFermioperator2nd
    )
    return conserving.from_fermionoperator2nd(full), graph, numbers


def row(name: str, kind: str, seconds: float) -> dict[str, Any]:
    """Optimise and measure one system."""
    system = SYSTEMS[name]
    operator, graph, numbers = problem(system)
    hilbert = operator.hilbert
    sampler = nk.sampler.MetropolisFermionHop(hilbert, graph=graph, n_chains=CHAINS)
    model = Determinant(numbers, kind == "backflow")
    state = nk.vqs.MCState(sampler, model, n_samples=SAMPLES, seed=0, sampler_seed=0)
    driver = nk.driver.VMC_SR(
        operator,
        nk.optimizer.Sgd(RATES[kind]),
        diag_shift=SHIFT,
        variational_state=state,
        mode="real",
    )
    driver.run(2, out=None, show_progress=False)
    began, steps = time.process_time(), 2
    while time.process_time() - began < seconds:
        driver.run(10, out=None, show_progress=False)
        steps += 10
    took = time.process_time() - began
    state.n_samples = MEASURED
    found = state.expect(operator)
    return {
        "system": name,
        "ansatz": kind,
        "parameters": state.n_parameters,
        "steps": steps,
        "rate": RATES[kind],
        "energy": float(found.mean.real),
        "error": float(found.error_of_mean),
        "exact": system.exact,
        "variance": float(found.variance),
        "seconds": took,
    }


def main() -> None:
    """Run what is asked for, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("systems", nargs="*", default=["tv_3x4", "tv_4x4", "hubbard_3x3"])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found = []
    for name in asked.systems:
        for kind in RATES:
            each = row(name, kind, asked.seconds)
            found.append(each)
            exact = "-" if each["exact"] is None else f"{each['energy'] - each['exact']:.2e}"
            print(
                f"{name:12} {kind:9} {each['parameters']:6} parameters {each['steps']:5} steps "
                f"{each['seconds']:5.0f} s  E {each['energy']:.5f}({each['error']:.5f}), above "
                f"exact {exact}, variance {each['variance']:.4f}",
                flush=True,
            )
    if asked.json:
        asked.json.write_text(json.dumps({"processor": cpu_name(), "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
