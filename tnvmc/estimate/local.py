"""Local values of operators from a snapshot."""

from __future__ import annotations

from typing import Any

from tnvmc.ansatz.generic import local_states
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
