"""Time of a step beside NetKet and a loop in JAX: the same network, Hamiltonian, walkers and samples.

    python benchmarks/against_netket.py [--networks KIND,WALKERS ...] [--steps N] [--rounds N]

An RBM, a CNN and a ViT with real parameters on the open 4x4 J1-J2 model at J2 = 0.5, 1024 samples a
step, SR, 42 proposals between two samples: a sweep here, a random bond each time there.  The loop
is what one writes for one network: sampling, local energies, gradients and the solve in one
compiled function of JAX.  Rounds of all codes alternate in one process; a ratio is the median over
rounds of this code's time over the other's in the same round, of wall time and of CPU time.  Prints
a table and writes benchmarks/results/against_netket.json.  Needs the extra `[test]`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import netket as nk
import numpy as np
from netket.operator.spin import sigmax, sigmay, sigmaz
from networks import N_SAMPLES, RATE, SHIFT, hamiltonian, network, steps_of

from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for

ROWS = ("rbm,16", "rbm,256", "cnn,16", "cnn,256", "vit,16", "vit,256")
J2 = 0.5
RESULT = Path(__file__).parent / "results" / "against_netket.json"

Array = Any
Steps = Callable[[int], Any]


def log_psi_of(kind: str) -> tuple[list[Array], Callable[[list[Array], Array], Array]]:
    """Parameters of a network as a list, and ln psi of them and of configurations (B, N)."""
    ansatz = network(kind, hamiltonian())
    pieces = [jnp.asarray(piece) for piece in ansatz.functional.pieces(ansatz.random(0))]

    def log_psi(pieces: list[Array], configs: Array) -> Array:
        return ansatz.functional.apply(ansatz.functional.assemble(pieces), configs)

    return pieces, log_psi


def couplings() -> dict[tuple[int, int], float]:
    """Coupling of each bond."""
    strength = {"nearest": 1.0, "diagonal": J2}
    bonds = hamiltonian().lattice.bonds
    return {bond: value for kind, value in strength.items() for bond in bonds[kind]}


def netket(kind: str, n_walkers: int) -> Steps:
    """Make a function that makes steps of NetKet."""
    pieces, log_psi = log_psi_of(kind)
    bonds = couplings()
    hilbert = nk.hilbert.Spin(0.5, N=16, total_sz=0)
    products = [
        0.25 * coupling * (sigma(hilbert, i) @ sigma(hilbert, j))
        for (i, j), coupling in bonds.items()
        for sigma in (sigmax, sigmay, sigmaz)
    ]
    sampler = nk.sampler.MetropolisExchange(
        hilbert, graph=nk.graph.Graph(edges=list(bonds)), n_chains=n_walkers, sweep_size=len(bonds)
    )
    names = [f"{k:03}" for k in range(len(pieces))]

    def apply(variables: Any, spins: Array) -> Array:
        flat = jnp.reshape(spins, (-1, spins.shape[-1]))
        parts = [variables["params"][name] for name in names]
        values = log_psi(parts, ((1 - flat) / 2).astype(jnp.int8))
        return jnp.reshape(values, spins.shape[:-1])

    state = nk.vqs.MCState(
        sampler, apply_fun=apply, n_samples=N_SAMPLES, n_discard_per_chain=0,
        variables={"params": dict(zip(names, pieces, strict=True))},
    )  # fmt: skip
    driver = nk.driver.VMC_SR(
        sum(products[1:], start=products[0]), nk.optimizer.Sgd(RATE), variational_state=state,
        diag_shift=SHIFT,
    )  # fmt: skip
    return lambda steps: driver.run(steps, out=None, show_progress=False)


def jax_loop(kind: str, n_walkers: int) -> Steps:
    """Make a function that makes steps of a loop in JAX, compiled as a whole."""
    pieces, log_psi = log_psi_of(kind)
    bonds = couplings()
    sites, strength = jnp.asarray(list(bonds)), jnp.asarray(list(bonds.values()))
    walker, n_bonds = jnp.arange(n_walkers), len(bonds)

    def propose(theta: Any, carry: Any, key: Array) -> Any:
        configs, log = carry
        which, chance = jax.random.split(key)
        i, j = sites[jax.random.randint(which, (n_walkers,), 0, n_bonds)].T
        left, right = configs[walker, i], configs[walker, j]
        trial = configs.at[walker, i].set(right).at[walker, j].set(left)
        new = log_psi(theta, trial)
        taken = jax.random.uniform(chance, (n_walkers,)) < jnp.exp(2 * (new - log))
        return jnp.where(taken[:, None], trial, configs), jnp.where(taken, new, log)

    def sweep(theta: Any, carry: Any, key: Array) -> tuple[Any, Array]:
        keys = jax.random.split(key, n_bonds)
        carry, _ = jax.lax.scan(lambda c, k: (propose(theta, c, k), None), carry, keys)
        return carry, carry[0]

    def local_energy(theta: Any, configs: Array) -> Array:
        left, right = configs[sites[:, 0]], configs[sites[:, 1]]
        bond = jnp.arange(n_bonds)
        others = jnp.tile(configs, (n_bonds, 1))
        others = others.at[bond, sites[:, 0]].set(right).at[bond, sites[:, 1]].set(left)
        logs = log_psi(theta, jnp.concatenate([configs[None], others]))
        ratios = jnp.exp(logs[1:] - logs[0])
        return jnp.sum(strength * jnp.where(left == right, 0.25, -0.25 + 0.5 * ratios))

    @jax.jit
    def step(theta: Any, configs: Array, key: Array) -> Any:
        keys = jax.random.split(key, N_SAMPLES // n_walkers)
        start = configs, log_psi(theta, configs)
        (configs, _), samples = jax.lax.scan(lambda c, k: sweep(theta, c, k), start, keys)
        samples = jnp.reshape(samples, (N_SAMPLES, -1))
        energies = jax.lax.map(lambda s: local_energy(theta, s), samples, batch_size=32)
        gradients = jax.vmap(jax.grad(lambda t, s: log_psi(t, s[None])[0]), in_axes=(None, 0))
        flat = [jnp.reshape(g, (N_SAMPLES, -1)) for g in gradients(theta, samples)]
        o = jnp.concatenate(flat, axis=1)
        o = (o - jnp.mean(o, axis=0)) / jnp.sqrt(N_SAMPLES)
        e = (energies - jnp.mean(energies)) / jnp.sqrt(N_SAMPLES)
        if o.shape[1] <= N_SAMPLES:
            matrix = o.T @ o + SHIFT * jnp.eye(o.shape[1])
            move = jax.scipy.linalg.solve(matrix, o.T @ e, assume_a="pos")
        else:
            matrix = o @ o.T + SHIFT * jnp.eye(N_SAMPLES)
            move = o.T @ jax.scipy.linalg.solve(matrix, e, assume_a="pos")
        ends = np.cumsum([piece.size for piece in theta])[:-1]
        parts = zip(theta, jnp.split(move, ends), strict=True)
        return [p - RATE * jnp.reshape(m, p.shape) for p, m in parts], configs, jnp.mean(energies)

    state = [pieces, jnp.asarray(initial_configs(hamiltonian(), n_walkers, seed=0)), 0]

    def run(steps: int) -> None:
        for _ in range(steps):
            theta, configs, energy = step(state[0], state[1], jax.random.key(state[2]))
            state[:] = [theta, configs, state[2] + 1]
            float(energy)

    return run


CODES: dict[str, Callable[[str, int], Steps]] = {
    "tnvmc": steps_of, "NetKet": netket, "JAX loop": jax_loop,
}  # fmt: skip


def compare(kind: str, n_walkers: int, steps: int, rounds: int) -> dict[str, Any]:
    """Milliseconds per step of every code, and ratios to this one's."""
    codes = {name: make(kind, n_walkers) for name, make in CODES.items()}
    for run in codes.values():
        run(3)  # compiles
    found: dict[str, dict[str, list[float]]] = {name: {"wall": [], "cpu": []} for name in codes}
    for _ in range(rounds):
        for name, run in codes.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run(steps)
            found[name]["wall"].append((time.perf_counter() - wall) / steps)
            found[name]["cpu"].append((time.process_time() - cpu) / steps)
    ratios = {
        name: {
            clock: statistics.median(
                own / other
                for own, other in zip(found["tnvmc"][clock], found[name][clock], strict=True)
            )
            for clock in ("wall", "cpu")
        }
        for name in codes
    }
    return {"network": kind, "walkers": n_walkers, "seconds": found, "tnvmc_over": ratios}


def main() -> None:
    """Run the rows asked for, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="*", default=ROWS, metavar="KIND,WALKERS")
    parser.add_argument("--steps", type=int, default=10, help="steps of each code in a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, default=RESULT)
    arguments = parser.parse_args()
    assert len(couplings()) == len(moves_for(hamiltonian()))
    print("ms per step (median); tnvmc over the other: wall, CPU")
    rows = []
    for row in arguments.networks:
        kind, n_walkers = row.split(",")
        rows.append(compare(kind, int(n_walkers), arguments.steps, arguments.rounds))
        for name, seconds in rows[-1]["seconds"].items():
            ratio = rows[-1]["tnvmc_over"][name]
            print(f"{row:8} {name:10} {1e3 * statistics.median(seconds['wall']):8.1f} "
                  f"{ratio['wall']:6.2f} {ratio['cpu']:6.2f}", flush=True)  # fmt: skip
    versions = {"netket": nk.__version__, "jax": jax.__version__}
    arguments.json.write_text(json.dumps({**versions, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
