"""How much sharing leaves, of each state that may hold a PEPS."""

from __future__ import annotations

from tnvmc import PEPS, heisenberg, sharing, square, symmetry_group
from tnvmc.ansatz.jastrow import Jastrow
from tnvmc.ansatz.peps.sharing import shared_counts
from tnvmc.ansatz.wrappers.product_of_states import ProductOfStates
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised

OPERATOR = heisenberg(square(4, 4))
LATTICE = OPERATOR.lattice


def test_counts_are_those_of_the_same_state_without_sharing() -> None:
    alike, free = PEPS(LATTICE, 2, sharing=sharing(OPERATOR)), PEPS(LATTICE, 2)
    found = {"symmetries": 8, "n_unshared": free.n_params}
    assert alike.n_params < free.n_params
    assert shared_counts(alike) == found
    assert shared_counts(Symmetrised(alike, symmetry_group(OPERATOR, "spin"))) == found
    second = Jastrow(LATTICE)
    product = shared_counts(ProductOfStates(alike, second))
    assert product == found | {"n_unshared": free.n_params + second.n_params}
    for state in (free, second, ProductOfStates(free, second)):
        assert shared_counts(state) is None
