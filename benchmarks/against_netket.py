"""Seconds per step beside NetKet: the same network, Hamiltonian, number of walkers and samples.

    python benchmarks/against_netket.py [--steps N] [--rounds N]

An RBM of alpha = 1 (real parameters, NetKet's own module in both) on the open 4x4 J1-J2 model at
J2 = 0.5, 256 walkers, 1024 samples a step, SR.  Rounds of both codes alternate in one process and
medians are compared.  NetKet runs with its default of N proposals between two samples, and with as
many as a sweep of ours has (one for each bond).  Prints a table and writes
benchmarks/results/against_netket.json.  Needs the extra `[test]`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import netket as nk
from netket.operator.spin import sigmax, sigmay, sigmaz

from tnvmc import SR, VMC, Sampler, j1j2, square
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.operators.term import Operator
from tnvmc.sampling.moves import moves_for

N_WALKERS, N_SAMPLES, SHIFT, RATE, J2 = 256, 1024, 0.01, 0.02, 0.5
RESULT = Path(__file__).parent / "results" / "against_netket.json"


def network() -> Any:
    """The module that both codes run."""
    return nk.models.RBM(alpha=1, param_dtype=float)


def ours(operator: Operator) -> Callable[[int], Any]:
    """Make a function that makes steps of this code."""
    ansatz = FlaxAnsatz(operator.lattice, network(), inputs="spins")
    sampler = Sampler(N_WALKERS, N_SAMPLES, n_burn=0)
    theta = ansatz.random(0)
    return VMC(operator, ansatz, sampler, SR(SHIFT), theta=theta, learning_rate=RATE).run


def theirs(operator: Operator, sweep_size: int | None) -> Callable[[int], Any]:
    """Make a function that makes steps of NetKet."""
    couplings = {"nearest": 1.0, "diagonal": J2}
    bonds = {
        bond: couplings[kind] for kind, all_ in operator.lattice.bonds.items() for bond in all_
    }
    hilbert = nk.hilbert.Spin(0.5, N=operator.n_sites, total_sz=0)
    products = [
        0.25 * coupling * (sigma(hilbert, i) @ sigma(hilbert, j))
        for (i, j), coupling in bonds.items()
        for sigma in (sigmax, sigmay, sigmaz)
    ]
    hamiltonian = sum(products[1:], start=products[0])
    graph = nk.graph.Graph(edges=list(bonds))
    sampler = nk.sampler.MetropolisExchange(
        hilbert, graph=graph, n_chains=N_WALKERS, sweep_size=sweep_size
    )
    state = nk.vqs.MCState(sampler, network(), n_samples=N_SAMPLES, n_discard_per_chain=0)
    driver = nk.driver.VMC_SR(
        hamiltonian, nk.optimizer.Sgd(RATE), variational_state=state, diag_shift=SHIFT
    )
    return lambda steps: driver.run(steps, out=None, show_progress=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10, help="steps of each code in a round")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    operator = j1j2(square(4, 4), J2=J2)
    n_moves = len(moves_for(operator))
    codes = {
        "tnvmc": ours(operator),
        "NetKet, its default": theirs(operator, None),
        f"NetKet, {n_moves} proposals": theirs(operator, n_moves),
    }
    for run in codes.values():
        run(3)  # compiles
    seconds: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(arguments.rounds):
        for name, run in codes.items():
            began = time.perf_counter()
            run(arguments.steps)
            seconds[name].append((time.perf_counter() - began) / arguments.steps)
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    print(f"{'code':24} {'proposals':>9} {'ms per step':>12} {'tnvmc over it':>14}")
    for name, median in medians.items():
        proposals = operator.n_sites if "default" in name else n_moves
        ratio = medians["tnvmc"] / median
        print(f"{name:24} {proposals:9} {1e3 * median:12.1f} {ratio:14.2f}")
    RESULT.write_text(json.dumps({"netket": nk.__version__, "seconds": seconds}, indent=1) + "\n")


if __name__ == "__main__":
    main()
