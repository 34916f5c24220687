"""The expectation value of any operator in the state of an optimisation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tnvmc.backend.namespace import to_host
from tnvmc.estimate.observables import at_fixed_magnetisation, energy_terms
from tnvmc.estimate.statistics import Estimate, estimate, weighted_estimate
from tnvmc.operators.term import Operator
from tnvmc.sampling.chains import Sampler
from tnvmc.vmc.driver import VMC
from tnvmc.vmc.look import AnySampler, Enumerate, with_chi
from tnvmc.vmc.segments import independent, segments

_STREAM = 2**31 + 2**30 + 2**28  # of random numbers: nothing else of a run gets there


def expect(
    vmc: VMC, operator: Operator, n_samples: int | None, chi: int | None, n_burn: int
) -> Estimate:
    """Estimate <operator>; see `VMC.expect`."""
    if operator.lattice.shape != vmc.operator.lattice.shape:
        there, here = (" x ".join(map(str, x.lattice.shape)) for x in (operator, vmc.operator))
        raise ValueError(f"expect: an operator on {there} sites, and a state on {here}")
    sampler: AnySampler = vmc.sampler
    if isinstance(sampler, Sampler):
        sampler = replace(sampler, n_burn=n_burn)
    if not isinstance(sampler, Enumerate):
        sampler = replace(sampler, n_samples=n_samples or sampler.n_samples)
    terms = energy_terms(operator)
    if vmc.operator.conserves_magnetisation:
        terms = at_fixed_magnetisation(terms)
    ansatz = vmc.ansatz if chi is None else with_chi(vmc.ansatz, chi)
    values, weights = [], []
    for snapshot in segments(vmc, vmc.state.here, sampler, ansatz, terms.targets, _STREAM):
        values.append(to_host(terms.values(snapshot, terms.targets)).sum(axis=1))
        weights += [] if snapshot.weight is None else [to_host(snapshot.weight)]
    local = np.concatenate(values)
    if not weights:
        return estimate(local, independent(sampler))
    weight = np.concatenate(weights)
    if isinstance(sampler, Enumerate):
        return estimate(local, weight=weight)
    return weighted_estimate(local, weight, independent(sampler))
