"""Local values of operators from a snapshot."""

from __future__ import annotations

from typing import Any

from tnvmc.ansatz.metropolis import local_states
from tnvmc.ansatz.protocol import Snapshot
from tnvmc.backend.namespace import array_namespace, to_namespace
from tnvmc.operators.term import Operator

Array = Any


def local_energy(operator: Operator, snapshot: Snapshot) -> Array:
    """E_loc(s) = <s|H|psi>/<s|psi> = diagonal(s) + sum_{s'} <s|H|s'> psi(s')/psi(s), (M,).

    Works for any operator, not only the Hamiltonian.  Complex when the operator or the wave
    function is.  Cost: one look-up and product per patch and sample; the ansatz is not touched.

    Raises:
        ValueError: the snapshot lacks the ratios of a patch; measure it with
            `operator.targets`.
    """
    xp = array_namespace(snapshot.configs)
    energy = operator.diagonal(snapshot.configs)
    for patch, replacement in operator.replacements.items():
        if patch not in snapshot.ratios:
            raise ValueError(
                f"local_energy: the snapshot holds no ratios for patch {patch} of "
                f"{operator.name}, only {len(snapshot.ratios)} other patches. Measure with "
                "replacements=operator.targets."
            )
        states = local_states(snapshot.configs, patch, operator.local_dim)
        elements = xp.take(to_namespace(replacement.elements, xp), states, axis=0)
        energy = energy + xp.sum(elements * snapshot.ratios[patch], axis=1)
    return energy


def off_diagonal_energy(operator: Operator, snapshot: Snapshot, local: Array) -> float:
    """Give the part of the energy that elements of H between two configurations make.

    It is the mean of E_loc(s) - <s|H|s>: exchange, flips in a transverse field, drives of atoms.  A constant in H is
    no part of it.

    Args:
        operator: H.
        snapshot: samples, with their weights if they have any.
        local: (M,) their local energies.
    """
    xp = array_namespace(snapshot.configs)
    part = xp.real(local) - operator.diagonal(snapshot.configs)
    if snapshot.weight is None:
        return float(xp.mean(part))
    part = xp.where(snapshot.weight > 0, part, 0.0)  # what psi = 0 leaves counts nowhere
    return float(xp.sum(part * snapshot.weight) / xp.sum(snapshot.weight))
