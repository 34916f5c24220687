"""The exact twin of sampling: every configuration once, with its weight, and no noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tnvmc.ansatz.protocol import Ansatz, LogAmplitude, Snapshot
from tnvmc.backend.namespace import array_namespace, is_numpy, to_namespace
from tnvmc.operators.basis import Basis
from tnvmc.operators.term import Operator
from tnvmc.sampling.chains import (
    check_magnetisation,
    join,
    tables_in,
)
from tnvmc.sampling.chunks import chunks
from tnvmc.sampling.workers import in_workers

Array = Any

MAX_CONFIGS = 2_000_000
"""Largest basis that is enumerated."""


def enumerate_samples(
    ansatz: Ansatz,
    theta: Array,
    operator: Operator,
    jacobian: bool = True,
    magnetisation: int = 0,
    chunk: int | None = None,
    threads: int | None = None,
    by_orbit: bool = False,
) -> Snapshot:
    """Measure all configurations, with weight |psi|^2 / sum |psi|^2.

    The configurations are those of one `magnetisation` (twice the total Sz) if the operator
    conserves it, else all d^N, in lexicographic order, through `start` and `measure` as in
    sampling.  Expectation values with these weights are exact for the (truncated) amplitudes,
    except that configurations with psi = 0 carry no weight whatever their local value times psi.
    Cost: one measurement per configuration; memory as for that many samples.

    With `by_orbit` an ansatz that knows its symmetries (`FlaxAnsatz` with a group that the operator
    has too) is measured on one configuration of each orbit, with the weight of all: enough for
    the energy, and for nothing that is not symmetric itself.

    Raises:
        ValueError: more than `MAX_CONFIGS` configurations; a magnetisation that N sites cannot
            have; psi = 0 everywhere.
    """
    basis = _basis(operator, magnetisation)
    xp = array_namespace(theta)
    targets = tables_in(operator.targets, xp)

    def measure(rows: range) -> Snapshot:
        configs = to_namespace(basis.configs(basis.codes[rows.start : rows.stop]), xp)
        walkers = ansatz.start(theta, configs)
        return ansatz.measure(theta, walkers, targets, jacobian=jacobian)[1]

    orbits = getattr(ansatz, "orbits", None) if by_orbit else None
    classes = orbits and orbits.classes(basis.configs(basis.codes), operator)
    if classes:
        members, counts = (to_namespace(array, xp) for array in classes)
        walkers = ansatz.start(theta, members)
        snapshot = ansatz.measure(theta, walkers, targets, jacobian=jacobian)[1]
        weight = counts * born_weights(snapshot.amplitude)
        return replace(snapshot, weight=weight / xp.sum(weight))
    basis.codes  # noqa: B018  (built once here, not once per thread)
    parts = chunks(basis.dimension, ansatz, xp, chunk)
    alone = not is_numpy(xp) or getattr(ansatz, "own_threads", False)
    snapshot = join(in_workers(measure, parts, 1 if alone else threads))
    return replace(snapshot, weight=born_weights(snapshot.amplitude))


def born_weights(amplitude: LogAmplitude) -> Array:
    """|psi|^2 / sum |psi|^2 of (M,) amplitudes, free of overflow.

    Raises ValueError when psi vanishes everywhere or is not finite somewhere.
    """
    xp = array_namespace(amplitude.log_abs)
    log_abs = xp.astype(amplitude.log_abs, xp.float64)
    largest = xp.max(log_abs)
    if not xp.isfinite(largest):
        raise ValueError(
            f"enumerate_samples: largest ln|psi| is {float(largest)} over "
            f"{log_abs.shape[0]} configurations; psi vanishes on the whole sector or "
            "theta holds non-finite numbers. Check the parameters and the sector."
        )
    weight = xp.exp(2.0 * (log_abs - largest))
    return weight / xp.sum(weight)


def _basis(operator: Operator, magnetisation: int) -> Basis:
    n_sites, local_dim = operator.n_sites, operator.local_dim
    if operator.conserves_magnetisation:
        check_magnetisation(n_sites, local_dim, magnetisation)
    sector = magnetisation if operator.conserves_magnetisation else None
    basis = Basis(n_sites, local_dim, sector)
    if basis.dimension > MAX_CONFIGS:
        raise ValueError(
            f"enumerate_samples: {basis.dimension} configurations of {n_sites} sites, at most "
            f"{MAX_CONFIGS} are enumerated. Use a smaller lattice, or sample."
        )
    return basis
