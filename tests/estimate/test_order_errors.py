"""Order parameters by name: samples of an exact vector give its values within their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tnvmc import (
    VMC,
    Enumerate,
    Jastrow,
    heisenberg,
    j1j2,
    order_parameter,
    square,
    tfim,
    triangular,
)
from tnvmc.backend.namespace import to_host
from tnvmc.estimate.blocks import Blocks
from tnvmc.estimate.observables import merged_targets
from tnvmc.operators.models import rydberg
from tnvmc.session.observables import observables_of
from tnvmc.vmc.measurement import in_parts

CASES: dict[str, tuple[Any, list[str]]] = {
    "j1j2": (
        j1j2(square(3, 4), J2=0.5),
        ["neel", "stripe", "neel_z", "stripe_z", "dimer_columnar", "dimer_staggered", "plaquette",
         "chirality"],
    ),
    "tfim": (tfim(square(2, 4), h=2.5), ["ferromagnetic_z", "neel_z", "dimer_columnar"]),
    "rydberg": (
        rydberg(square(2, 4), V=1.0, delta=2.0, Omega=1.0),
        ["density_checkerboard", "density_stripe"],
    ),
    "triangular": (
        heisenberg(triangular(3, 4)), ["three_sublattice", "three_sublattice_z", "stripe",
                                       "chirality"],
    ),
}  # fmt: skip
REPEATED, N_WALKERS, N_DRAWS = 200, 64, 32


@pytest.mark.parametrize("case", CASES)
def test_errors_cover_the_exact_value(case: str) -> None:
    """68 and 95 % of 200 repetitions at least, up to three errors of such a fraction.

    More is right: the largest values of a sample make errors wider (`mixing.error_of_mean`).
    """
    operator, names = CASES[case]
    sector = 0 if operator.conserves_magnetisation else None
    ansatz = Jastrow(operator.lattice, dtype="complex128")
    rng = np.random.default_rng(7)
    theta = rng.normal(scale=0.05, size=(2, ansatz.n_params)).T @ [1, 1j]
    vmc = VMC(operator, ansatz, Enumerate(sector, threads=1), theta=theta)
    found = observables_of(vmc.problem, (), names)
    every = found.every_sample() | found.some_samples()
    chosen = {name: every[f"operator {name}"] for name in names}
    targets = merged_targets(chosen.values())
    (snapshot,) = (part for part, _ in in_parts(vmc.method, vmc.state.here, targets, 0))
    weight, states = np.asarray(to_host(snapshot.weight)), operator.states(sector)
    psi = ansatz.log_amplitude(theta, states.configs(states.codes).astype(np.int8))
    vector = np.asarray(psi.phase) * np.exp(psi.log_abs - psi.log_abs.max())
    vector = vector / np.linalg.norm(vector)
    for name, observable in chosen.items():
        values = to_host(observable.values(snapshot, targets)).sum(axis=1, keepdims=True)
        square_of = order_parameter(name, operator.lattice).sparse(sector)
        exact = np.vdot(vector, square_of @ vector).real
        assert (weight @ values).real[0] / weight.sum() == pytest.approx(exact, abs=1e-10), name
        pulls = []
        for _ in range(REPEATED):
            drawn = rng.choice(len(weight), N_WALKERS * N_DRAWS, p=weight / weight.sum())
            blocks = Blocks()
            blocks.add(values[drawn], None, N_WALKERS)
            mean, error = blocks.derive(np.sum)
            pulls.append(abs(mean[0] - exact) / error[0])
        for errors, fraction in ((1, 0.683), (2, 0.954)):
            within = np.mean(np.array(pulls) < errors)
            room = 3 * np.sqrt(fraction * (1 - fraction) / REPEATED)
            assert within > fraction - room, (name, errors, within)
