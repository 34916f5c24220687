"""The networks that benchmarks run on, and steps of them by this code: one place for their sizes.

    python benchmarks/networks.py [--kinds KIND ...] [--systems SYSTEM ...]
                                  [--boundary B] [--seconds N] [--set KEY=VALUE ...]
    python benchmarks/networks.py --tuned [--length L] [--json FILE] [the options above]

prints how far networks of a settings file with lattice, model and kind alone are above the exact
ground state after so many seconds of one processor (those of compiling count), and how many of
their steps were undone; with --set, of changed settings.  Energies are sums over all
configurations: lattices of 4x4 sites.

With --tuned each network runs with its defaults and with each of `TUNED`, for the same CPU seconds
after a step that compiles.  The table has the error at the end of each, and the seconds in which it
came as far as the defaults did: the mean energy of the samples of the last `SMOOTHED` of its steps,
on lattices of any size.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc import SR, VMC, Enumerate, Sampler, j1j2, square
from tnvmc.ansatz.neural import NETWORKS
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.exact import exact_ground_state
from tnvmc.operators.term import Operator
from tnvmc.settings.build import build_ansatz, build_arguments, build_theta
from tnvmc.settings.config import Settings, build_operator
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate
from tnvmc.trust.reference import find_reference
from tnvmc.vmc.core import Iterate
from tnvmc.vmc.observation import observe

N_SAMPLES, SHIFT, RATE = 1024, 0.01, 0.02

SIZES: dict[str, dict[str, Any]] = {
    "rbm": {"alpha": 1, "form": "log_cosh", "dtype": "float64"},
    "cnn": {"features": [8, 8], "kernel": 3, "output": "real"},
    "vit": {"width": 24, "heads": 4, "patch": 2, "output": "real"},
}
"""Real ones: NetKet and this code treat complex ones alike, at twice the cost."""


def hamiltonian() -> Operator:
    """The open 4x4 J1-J2 model at J2 = 0.5: 42 bonds."""
    return j1j2(square(4, 4), J2=0.5)


def network(kind: str, operator: Operator) -> FlaxAnsatz:
    """A network of `SIZES` on the lattice of an operator."""
    lattice, module = operator.lattice, NETWORKS[kind].load()
    return FlaxAnsatz(lattice, lambda rngs: module(lattice, rngs=rngs, **SIZES[kind]))


def steps_of(kind: str, n_walkers: int) -> Callable[[int], Any]:
    """Make a function that makes steps: draws from |psi|^2, SR, fixed rate."""
    operator = hamiltonian()
    ansatz = network(kind, operator)
    sampler = Sampler(n_walkers, N_SAMPLES, n_burn=0, power=1.0)
    theta = ansatz.random(0)
    return VMC(operator, ansatz, sampler, SR(SHIFT), theta=theta, learning_rate=RATE).run


SYSTEMS: dict[str, dict[str, Any]] = {
    "heisenberg": {"model": "heisenberg"},
    "j1j2": {"model": "j1j2", "J2": 0.5},
    "tfim": {"model": "tfim", "h": 3.0},
}


def by_default(kind: str, system: str, boundary: str, seconds: float, changes: list[str]) -> str:
    """Run a network by a settings file, and give a row of the table."""
    lattice, network = {"shape": [4, 4], "boundary": boundary}, {"kind": kind}
    data = {"lattice": lattice, "hamiltonian": SYSTEMS[system], "ansatz": network}
    settings = complete(validate({**data, "run": {"threads": 1}}, changes))
    operator = build_operator(settings)
    exact, began = exact_ground_state(operator).energy, time.process_time()
    ansatz = build_ansatz(settings, operator)
    theta = build_theta(settings, operator, ansatz)
    vmc = VMC(operator, ansatz, **build_arguments(settings, operator), theta=theta)
    while time.process_time() < began + seconds:
        vmc.step()
    made, here = vmc.made, replace(vmc.state.here, theta=vmc.measured_theta())
    assert isinstance(here, Iterate)
    energy = observe(vmc.problem, Enumerate(threads=1), here, 0, False).cost.mean
    undone = sum(record.undone for record in made)
    error = (energy - exact) / abs(exact)
    row = (f"{system}, {boundary}", kind, ansatz.n_params, f"{error:.1e}", f"{undone}/{len(made)}")
    return f"| {' | '.join(map(str, row))} |"


TUNED: dict[str, list[str]] = {
    "defaults": [],
    "reach 0.2": ["optimizer.reach=0.2"],
    "256 samples": ["sampler.n_samples=256"],
    "1024 samples": ["sampler.n_samples=1024"],
    "shift 1e-3": ["optimizer.diag_shift=1e-3"],
    "rate 0.1": ["optimizer.learning_rate=0.1", "optimizer.final_learning_rate=0.1"],
}
SMOOTHED = 0.1


def course(settings: Settings, exact: float, seconds: float) -> dict[str, Any]:
    """CPU seconds and error after each step of a run, and how many were undone.

    The error is of the mean of the last tenth of the energies until then, weighed by their errors;
    the first step, which compiles, is not counted.
    """
    operator = build_operator(settings)
    ansatz = build_ansatz(settings, operator)
    theta = build_theta(settings, operator, ansatz)
    vmc = VMC(operator, ansatz, **build_arguments(settings, operator), theta=theta)
    vmc.step()
    began, times = time.process_time(), []
    while time.process_time() < began + seconds:
        vmc.step()
        times.append(time.process_time() - began)
    made = [record for record in vmc.made[1:] if math.isfinite(record.energy)]
    times = times[len(vmc.made) - 1 - len(made) :]
    energies = np.array([record.energy for record in made])
    weights = np.array([record.energy_error for record in made]) ** -2.0
    errors = []
    for end in range(1, len(made) + 1):
        last = slice(end - math.ceil(SMOOTHED * end), end)
        errors.append(float(np.average(energies[last], weights=weights[last]) / exact))
    undone = sum(record.undone for record in made)
    return {"seconds": times, "errors": [1 - error for error in errors], "undone": undone}


def seconds_until(run: dict[str, Any], error: float) -> float:
    """The first time at which a run has this error or less; infinity if it never has."""
    pairs = zip(run["seconds"], run["errors"], strict=True)
    return next((seconds for seconds, here in pairs if here <= error), math.inf)


def tuned(
    kind: str, system: str, boundary: str, length: int, seconds: float, changes: list[str]
) -> dict[str, Any]:
    """Print the rows of one network and model, and give what they are made of.

    `changes` are made in all runs, as run.seed=1.
    """
    data = {
        "lattice": {"shape": [length, length], "boundary": boundary},
        "hamiltonian": SYSTEMS[system],
        "ansatz": {"kind": kind},
        "run": {"threads": 1},
    }
    exact = find_reference(build_operator(complete(validate(data, changes)))).energy
    assert exact is not None
    runs: dict[str, Any] = {}
    for name, own in TUNED.items():
        settings = complete(validate(data, [*own, *changes]))
        runs[name] = run = course(settings, exact, seconds)
        final = runs["defaults"]["errors"][-1]
        as_far = seconds_until(run, final)
        steps, error = len(run["errors"]), f"{run['errors'][-1]:.1e}"
        model = f"{system} {length}x{length}, {boundary}"
        row = (model, kind, name, steps, run["undone"], error, f"{as_far:.0f}")
        print(f"| {' | '.join(map(str, row))} |", flush=True)
    return {"kind": kind, "system": system, "boundary": boundary, "length": length, "runs": runs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kinds", nargs="*", default=["rbm", "cnn", "rnn", "vit"])
    parser.add_argument("--systems", nargs="*", default=list(SYSTEMS), choices=SYSTEMS)
    parser.add_argument("--boundary", default="open", choices=("open", "periodic"))
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--set", nargs="*", default=[], dest="changes", metavar="KEY=VALUE")
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--length", type=int, default=4)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    if chosen.tuned:
        print("| model | kind | settings | steps | undone | error | s until as good as defaults |")
        print("|---|---|---|---|---|---|---|")
        rows = [
            tuned(kind, system, chosen.boundary, chosen.length, chosen.seconds, chosen.changes)
            for system in chosen.systems
            for kind in chosen.kinds
        ]
        if chosen.json is not None:
            chosen.json.write_text(json.dumps(rows))
        return
    print("| model on 4x4 | kind | parameters | error | undone |\n|---|---|---|---|---|")
    for system in chosen.systems:
        for kind in chosen.kinds:
            row = by_default(kind, system, chosen.boundary, chosen.seconds, chosen.changes)
            print(row, flush=True)


if __name__ == "__main__":
    main()
