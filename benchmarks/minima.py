"""Local minima of a small PEPS: where do optimisations without noise end?

    python benchmarks/minima.py [--D 2] [--runs 12] [--json FILE]

Heisenberg on a 4x4 cylinder, open bonds.  The wave function is contracted for all configurations of
2 Sz = 0 at once, and its energy is lowered by L-BFGS until it stands still: from simple update,
from that state with noise of 0.3, from product states with noise of 0.1, from random tensors.
Noise is normal, relative to the root mean square of the start (product: to its largest entry).
Then 160 steps of SR from simple update, all configurations summed over, and L-BFGS from where these
end: a minimum keeps it there, a saddle point that the symmetry of the start keeps does not.  Prints
energies per site and writes benchmarks/results/minima.json.  Needs JAX.  Five minutes on one core.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from tnvmc import PEPS, exact_ground_state, heisenberg, square
from tnvmc.ansatz.initial import initial_parameters
from tnvmc.operators.basis import Basis

RESULT = Path(__file__).parent / "results" / "minima.json"
RATE, SHIFT, STEPS = 0.2, 1e-2, 160

Array = Any


class Dense:
    """The energy of a PEPS and its derivatives, from all amplitudes of a sector."""

    def __init__(self, D: int) -> None:
        self.operator = heisenberg(square(4, 4, boundary="cylinder"))
        self.peps = PEPS(self.operator.lattice, D)
        sector = Basis(self.operator.n_sites, 2, 0)
        self.matrix, rows = self.operator.sparse(sector.magnetisation), sector.codes
        places = [t.astype(int) for t in self.peps.tensors(np.arange(self.peps.n_params) * 1.0)]

        def psi(theta: Array) -> Array:
            return _all_amplitudes([theta[place] for place in places])[rows]

        self.psi = jax.jit(psi)
        self._pulled = jax.jit(lambda theta, v: jax.vjp(psi, theta)[1](v)[0])
        self._jacobian = jax.jit(jax.jacfwd(psi))

    def energy(self, theta: Array) -> tuple[float, Array]:
        """<H> and its gradient (P,)."""
        psi = np.asarray(self.psi(theta))
        norm, h_psi = psi @ psi, self.matrix @ psi
        mean = psi @ h_psi / norm
        return mean, np.asarray(self._pulled(theta, 2 * (h_psi - mean * psi) / norm))

    def lowered(self, theta: Array) -> Array:
        """Where L-BFGS ends."""
        how = {"maxiter": 1500, "maxcor": 30, "ftol": 1e-13, "gtol": 1e-8}
        return minimize(self.energy, theta, jac=True, method="L-BFGS-B", options=how).x

    def stepped(self, theta: Array) -> Array:
        """Where steps of SR without noise lead."""
        for _ in range(STEPS):
            psi, derivatives = np.asarray(self.psi(theta)), np.asarray(self._jacobian(theta))
            norm = psi @ psi
            mean = derivatives.T @ psi / norm
            s = derivatives.T @ derivatives / norm - np.outer(mean, mean)
            s += SHIFT * np.mean(np.diag(s)) * np.eye(len(s))
            theta = theta - RATE * np.linalg.solve(s, self.energy(theta)[1] / 2)
        return theta


def _all_amplitudes(tensors: list[Array]) -> Array:
    """psi (2^16,) of tensors (d, up, left, down, right) on 4x4 sites: rows, then rows on rows."""
    psi = jnp.ones((1, 1))
    for row in range(4):
        line = jnp.ones((1, 1, 1, 1))  # spins, up, down, right
        for tensor in tensors[4 * row : 4 * row + 4]:
            line = jnp.einsum("suda,txayb->stuxdyb", line, tensor)
            s, t, u, x, d, y, b = line.shape
            line = line.reshape(s * t, u * x, d * y, b)
        psi = jnp.einsum("pu,sud->psd", psi, line[..., 0]).reshape(-1, line.shape[2])
    return psi[:, 0]


def starts(dense: Dense, runs: int) -> dict[str, list[Array]]:
    """Parameters to start from, by name."""
    peps, operator = dense.peps, dense.operator
    rng = np.random.default_rng(0)

    def noise(scale: float) -> Array:
        return rng.normal(size=peps.n_params) * scale

    evolved = initial_parameters(peps, operator, 0)
    own = [initial_parameters(peps, operator, seed, "product") for seed in range(runs)]
    return {
        "simple update": [evolved],
        "simple update, noise": [
            evolved + noise(0.3 * np.sqrt(np.mean(evolved**2))) for _ in range(runs)
        ],
        "product, noise": [theta + noise(0.1 * np.abs(theta).max()) for theta in own],
        "random": [initial_parameters(peps, operator, seed, "random") for seed in range(runs)],
    }


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--D", type=int, default=2)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--json", type=Path, default=RESULT)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    dense = Dense(options.D)
    n_sites = dense.operator.n_sites

    def per_site(theta: Array) -> float:
        return float(dense.energy(theta)[0]) / n_sites

    found: dict[str, Any] = {"exact": exact_ground_state(dense.operator).energy_per_site}
    with threadpool_limits(1):
        made = starts(dense, options.runs)
        for name, thetas in made.items():
            found[name] = sorted(per_site(dense.lowered(theta)) for theta in thetas)
            print(f"{name:<24}", " ".join(f"{energy:.5f}" for energy in found[name]), flush=True)
        end = dense.stepped(made["simple update"][0])
        found["steps of SR"] = per_site(end)
        found["L-BFGS from there"] = per_site(dense.lowered(end))
    for name in ("steps of SR", "L-BFGS from there", "exact"):
        print(f"{name:<24} {found[name]:.6f}")
    options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
