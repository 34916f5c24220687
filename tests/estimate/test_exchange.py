"""Exchange parities that a state holds and H does not."""

from __future__ import annotations

import numpy as np
import pytest

from tnvmc import PEPS, VMC, Enumerate, Operator, UnreliableWarning, chain, heisenberg
from tnvmc.estimate.exchange import fixed_exchanges
from tnvmc.sampling.problem import Point, Problem

CHAIN = chain(8)


def dimers(sign: float, lattice=CHAIN):
    """Pairs (0, 1), (2, 3), ... in singlets (sign -1) or triplets of Sz = 0 (+1), as a PEPS."""
    left = np.eye(2).reshape(2, 1, 1, 1, 2)
    right = np.array([[0.0, sign], [1.0, 0.0]]).reshape(2, 1, 2, 1, 1)
    tensors = []
    for site in range(lattice.n_sites):
        grown = np.zeros((2, 1, 1 if site == 0 else 2, 1, 1 if site == lattice.n_sites - 1 else 2))
        own = right if site % 2 else left
        grown[:, :, : own.shape[2], :, : own.shape[4]] = own
        tensors.append(grown)
    peps = PEPS(lattice, 2)
    return peps, peps.flatten(tensors)


def snapshot(operator, peps, theta):
    configs = np.zeros((1, operator.n_sites), np.int8)
    problem = Problem.of(operator, peps, magnetisation=0)
    return Enumerate(threads=1).draw(problem, Point(theta, configs), 0, jacobian=False)[0]


@pytest.mark.parametrize("sign", [-1, 1])
def test_parities_of_dimers_on_a_chain(sign):
    operator = heisenberg(CHAIN)
    found = fixed_exchanges(operator, snapshot(operator, *dimers(sign)))
    assert found == {(0, 1): sign, (2, 3): sign, (4, 5): sign, (6, 7): sign}


def test_what_h_conserves_is_no_accident():
    alone = [term for term in heisenberg(CHAIN).terms if term.sites[0] % 2 == 0]
    operator = Operator(CHAIN, tuple(alone))
    assert fixed_exchanges(operator, snapshot(operator, *dimers(-1))) == {}


def test_a_generic_state_has_none():
    operator, peps = heisenberg(CHAIN), PEPS(CHAIN, 2)
    theta = peps.initial(operator, 0, "random")
    assert fixed_exchanges(operator, snapshot(operator, peps, theta)) == {}


def test_a_measurement_tells_it():
    operator, (peps, theta) = heisenberg(CHAIN), dimers(-1)
    vmc = VMC(operator, peps, Enumerate(threads=1), theta=theta)
    with pytest.warns(UnreliableWarning, match="exchange_fixed"):
        found = vmc.measure()
    (told,) = (each for each in found.diagnostics if each.code == "exchange_fixed")
    assert told.values["pairs"][0] == {"sites": [0, 1], "parity": -1}
