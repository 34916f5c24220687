"""Symmetrising a state that was optimised without symmetry: which signs it has, and the sum."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tnvmc.ansatz.metropolis import amplitude_ratio
from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised
from tnvmc.backend import progress
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.estimate.statistics import Estimate, estimate
from tnvmc.lattice.permutations import NotSymmetric, SymmetryGroup
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.sampling import streams
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.configurations import initial_configs, magnetisation_of
from tnvmc.sampling.problem import Point, Problem
from tnvmc.sampling.workers import chunks, in_chunks

Array = Any

SIGMAS = 4.0
"""Errors that <psi|g|psi> must lie away from 0 for its sign to be taken as a character."""

_SAMPLES = 256  # with a variance of 1 at most, an error of 1/16: enough for a sign
_WALKERS = 64


def symmetrised(
    problem: Problem, point: Point, names: Iterable[str], threads: int | None = None
) -> Symmetrised:
    """Give the state summed over "spin" inversion, the "point" group, or "translation"s.

    Their signs are those of <psi|g|psi> at the point, from whose walkers (W, N) chains start; the
    result does not depend on `threads`.  Cost: 256 samples and |G| amplitudes for each.

    Raises:
        NotSymmetric: the Hamiltonian lacks a symmetry; the magnetisation is not 0 and spins are to
            be inverted; the state has no definite sign under an element, or signs that no
            one-dimensional representation has.
        ValueError: an unknown name.
    """
    if problem.ansatz.group is not None:
        raise ValueError(
            "symmetries: this state is a sum over symmetries already, that of its "
            f"{len(problem.ansatz.group)} elements is measured; leave them out, or make it with "
            "all of them"
        )
    group = symmetry_group(problem.operator, names)
    check_inversion(problem.operator, group, point.configs)
    found = measured_characters(problem, point, group, threads)
    _check_signs(group, found)
    group = group.with_characters([1 if each.mean > 0 else -1 for each in found])
    return Symmetrised(problem.ansatz, group, strings=problem.operator.strings)


def measured_characters(
    problem: Problem, point: Point, group: SymmetryGroup, threads: int | None = None
) -> list[Estimate]:
    """Estimate <psi|g|psi> / <psi|psi> = <psi(g s) / psi(s)> for every element of a group.

    +-1 for a state that has the symmetry; near 0 for one that breaks it.  Walkers are drawn where
    the point has fewer than 32.
    """
    ansatz, operator, n_burn = problem.ansatz, problem.operator, 10
    xp = array_namespace(point.theta)
    if point.configs.shape[0] < _WALKERS // 2:
        n_burn = 50
        sector = magnetisation_of(operator, point.configs)
        fresh = initial_configs(operator, _WALKERS, problem.seed, sector)
        point = Point(point.theta, to_namespace(fresh, xp))
    n_walkers = point.configs.shape[0]
    n_samples = max(_SAMPLES, 2 * n_walkers)
    sampler = Sampler(n_walkers, n_samples, n_burn, 2, threads=threads, power=1.0)
    progress.begin("signs")
    snapshot, _, _ = sampler.draw(
        replace(problem, targets={}), point, streams.CHARACTERS, jacobian=False
    )
    summed = Symmetrised(ansatz, group, strings=operator.strings)
    task = partial(_overlaps, summed, point.theta, snapshot.configs)
    parts = chunks(snapshot.configs.shape[0], ansatz, xp)
    overlaps = np.concatenate(in_chunks(task, parts, ansatz, xp, threads), axis=1)
    return [estimate(row, n_walkers) for row in overlaps]


def _overlaps(state: Symmetrised, theta: Array, configs: Array, chunk: range) -> np.ndarray:
    """psi(g s) / psi(s) for every element and each sample of a chunk: (|G|, B), on the host."""
    amplitudes = state.image_amplitudes(theta, configs[chunk.start : chunk.stop, :])
    here: LogAmplitude = amplitudes[state.group.names.index("identity")]
    return np.stack([to_host(amplitude_ratio(there, here)) for there in amplitudes])


def _check_signs(group: SymmetryGroup, found: list[Estimate]) -> None:
    vague = [
        f"{g.name}: {each.mean:.3f} +- {each.error:.3f}"
        for g, each in zip(group.elements, found, strict=True)
        if not abs(each.mean) > SIGMAS * each.error
    ]
    if vague:
        shown = "; ".join(vague[:3]) + (f" and {len(vague) - 3} more" if len(vague) > 3 else "")
        raise NotSymmetric(
            f"the state has no definite sign under a symmetry, <psi|g|psi> ({found[0].n_samples} "
            f"samples) is within {SIGMAS:g} errors of 0 for {shown}. The state breaks it, or is "
            "far from a ground state; optimise further, or leave it out"
        )


def check_inversion(operator: Operator, group: SymmetryGroup, configs: Array) -> None:
    """Raise NotSymmetric where a group inverts the spins of walkers (W, N) whose Sz is not 0."""
    if not operator.conserves_magnetisation or not any(g.inverts for g in group.elements):
        return
    if sector := magnetisation_of(operator, configs):
        raise NotSymmetric(
            f"spin inversion takes the sector 2 Sz = {sector} to 2 Sz = {-sector}, where these "
            "walkers never are; it is a symmetry of states with Sz = 0. Leave 'spin' out"
        )
