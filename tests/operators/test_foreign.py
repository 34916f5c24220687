"""Local operators of NetKet; the oracle is NetKet's own dense matrix."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.oracles import dense_hamiltonian, dense_sector
from tnvmc import (
    PEPS,
    VMC,
    Enumerate,
    NonHermitian,
    Operator,
    chain,
    exact_ground_state,
    from_netket,
    heisenberg,
    square,
    tfim,
)

nk = pytest.importorskip("netket")
G, S, H, O = nk.graph, nk.operator.spin, nk.hilbert, nk.operator

ROUNDING = 1e-13  # of elements of order 1; NetKet sums its terms in another order
LEVEL = 1e-10  # of an energy of order 10: Lanczos against dense diagonalisation

GRID = G.Grid((2, 3), pbc=False)
SPINS = H.Spin(0.5, 6)
INVERTED = H.Spin(0.5, 6, inverted_ordering=True)
SITES = square(2, 3)
TURNED = "Z Z - X X - Y Y"


def dm(space: Any) -> Any:
    pairs = [S.sigmax(space, i) @ S.sigmay(space, j) for i, j in GRID.edges()]
    return sum(pairs[1:], pairs[0]) - sum(
        S.sigmay(space, i) @ S.sigmax(space, j) for i, j in GRID.edges()
    )


def spin_one() -> Any:
    space = H.Spin(1, 4)
    both = [(S.sigmaz, S.sigmaz), (S.sigmax, S.sigmax), (S.sigmay, S.sigmay)]
    return sum(a(space, i) @ b(space, i + 1) for a, b in both for i in range(3))


ODD = np.random.default_rng(0).normal(size=(8, 8))


def everything(space: Any) -> Any:
    """One operator that an error in any of its parts would change: a compilation instead of many."""
    parts = [
        *(S.sigmaz(space, i) @ S.sigmaz(space, j) for i, j in GRID.edges()),
        0.7 * dm(space),
        0.3 * S.sigmap(space, 2) @ S.sigmaz(space, 0),
        O.LocalOperator(space, [ODD], [[4, 0, 3]]),
        1.5 * S.identity(space),
    ]
    return sum(parts[1:], parts[0])


CASES: dict[str, tuple[Callable[[], Any], type]] = {
    "everything": (lambda: everything(SPINS), NonHermitian),
    "Heisenberg, turned": (lambda: O.Heisenberg(SPINS, GRID), Operator),
    "Heisenberg, plain": (lambda: O.Heisenberg(SPINS, GRID, J=0.7, sign_rule=False), Operator),
    "Heisenberg, inverted": (lambda: O.Heisenberg(INVERTED, GRID), Operator),
    "Ising": (lambda: O.Ising(SPINS, GRID, h=0.3, J=-1.2), Operator),
    "Ising on qubits": (lambda: O.Ising(H.Qubit(6), GRID, h=0.3, J=-1.2), Operator),
    "field, inverted": (lambda: S.sigmaz(INVERTED, 1) + S.sigmay(INVERTED, 2), Operator),
    "Dzyaloshinskii-Moriya and a constant": (lambda: dm(SPINS) + 1.5, Operator),
    "spin 1": (spin_one, Operator),
    "Bose-Hubbard": (
        lambda: O.BoseHubbard(H.Fock(3, 4), G.Square(2, pbc=False), U=2.0, V=0.5, J=1.0, mu=0.3), Operator,
    ),
    "raising": (lambda: S.sigmap(SPINS, 2) @ S.sigmaz(SPINS, 0), NonHermitian),
    "sites out of order": (lambda: O.LocalOperator(SPINS, [ODD], [[4, 0, 3]]), NonHermitian),
    "without JAX": (
        lambda: O.LocalOperatorNumba(SPINS, [np.array([[1, 2j], [-2j, 3]])], [[3]]), Operator,
    ),
}  # fmt: skip


QUICK = ("everything",)  # NetKet compiles for seconds for each of them


def dense(operator: Any) -> np.ndarray:
    if isinstance(operator, Operator):
        return dense_hamiltonian(operator)
    return np.asarray(dense(operator.real) + 1j * dense(operator.imaginary))


@pytest.mark.whole
@pytest.mark.filterwarnings(f"ignore:.*{TURNED}")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow, id=name)
        for name in CASES
    ],
)
def test_an_operator_has_the_matrix_that_netket_gives(name: str) -> None:
    make, kind = CASES[name]
    theirs = make()
    found = from_netket(theirs, chain(theirs.hilbert.size))
    assert type(found) is kind
    assert np.abs(dense(found) - np.asarray(theirs.to_dense())).max() < ROUNDING


def test_signs_of_marshall_are_told_at_the_line_that_asked() -> None:
    with pytest.warns(UserWarning, match=f"7 of 7 pairs.*{TURNED}") as told:
        from_netket(O.Heisenberg(SPINS, GRID), SITES)
    assert {warning.filename for warning in told} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = from_netket(O.Heisenberg(SPINS, GRID, sign_rule=False), SITES)
        from_netket(O.Heisenberg(SPINS, GRID, J=-1.0, sign_rule=False), SITES)
    assert np.allclose(dense(plain), 4 * dense(heisenberg(SITES))), "Pauli units"
    ising = from_netket(O.Ising(SPINS, GRID, h=0.3, J=-1.2), SITES)
    assert np.allclose(dense(ising), dense(tfim(SITES, J=1.2, h=0.3)))


@pytest.mark.parametrize(
    ("space", "magnetisation"),
    [
        pytest.param(lambda n: H.Spin(0.5, n, total_sz=1.0), 2, id="spins", marks=pytest.mark.slow),
        pytest.param(
            lambda n: H.Spin(0.5, n, total_sz=1.0, inverted_ordering=True),
            -2,
            id="inverted",
            marks=pytest.mark.slow,
        ),
        pytest.param(lambda n: H.Spin(1, n, total_sz=-1), -2, id="spin 1", marks=pytest.mark.slow),
        pytest.param(
            lambda n: H.Fock(2, n, n_particles=5), -2, id="bosons", marks=pytest.mark.slow
        ),
    ],
)
def test_a_fixed_sum_is_the_sector(space: Any, magnetisation: int) -> None:
    hilbert = space(4)
    d = hilbert.local_size
    theirs = sum(S.sigmap(hilbert, i) @ S.sigmam(hilbert, i + 1) for i in range(3))
    theirs = theirs + theirs.H.collect() + S.sigmaz(hilbert, 0)
    found = from_netket(theirs, chain(4))
    levels = np.linalg.eigvalsh(np.asarray(theirs.to_dense()))
    assert np.allclose(levels, np.linalg.eigvalsh(dense_sector(found, magnetisation)), atol=LEVEL)
    assert abs(exact_ground_state(found).energy - levels[0]) < LEVEL
    vmc = VMC(found, PEPS(chain(4), 1, local_dim=d), Enumerate())
    assert vmc.problem.magnetisation == magnetisation
    assert vmc.operator.magnetisation == (2 * found).magnetisation == magnetisation


def test_a_run_and_observables_of_netket() -> None:
    space = H.Spin(0.5, 6, total_sz=0)
    theirs = from_netket(O.Heisenberg(space, GRID, sign_rule=False), SITES)
    vmc = VMC(theirs, PEPS(SITES, 2), Enumerate())
    vmc.run(3)
    found = vmc.measure()
    ours = VMC(4 * heisenberg(SITES), vmc.ansatz, Enumerate(), theta=vmc.theta)
    assert abs(found.energy - ours.measure().energy) < LEVEL
    assert "lower_in_other_sector" not in str(found.diagnostics)
    hop = vmc.expect(from_netket(S.sigmap(space, 0) @ S.sigmam(space, 1), SITES))
    same = NonHermitian.from_products(SITES, [("S+ S-", [(0, 1)])])
    assert hop.mean == vmc.expect(same).mean
    with pytest.raises(ValueError, match="2 Sz = 2, the walkers have 0"):
        vmc.expect(from_netket(S.sigmaz(H.Spin(0.5, 6, total_sz=1), 0), SITES))
    with pytest.raises(ValueError, match="asked for 2 Sz = 0 in one place and 2"):
        VMC(theirs, PEPS(SITES, 2), magnetisation=2)
    with pytest.raises(TypeError, match="Operator"):
        VMC(O.Heisenberg(space, GRID), PEPS(SITES, 2))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: O.FermionOperator2nd(H.SpinOrbitalFermions(2), ["0^ 1", "1^ 0"]), "no LocalOperator"),
        (lambda: O.PauliStrings(SPINS, ["XXIIII"]), "no LocalOperator"),
        (lambda: O.LocalOperator(H.Spin(0.5, 2) * H.Fock(2, 2), [np.eye(2)], [[0]]), "equal sites"),
        (
            lambda: S.sigmaz(
                H.Spin(0.5, 6, constraint=H.constraint.SumOnPartitionConstraint((0, 0), (3, 3))), 0
            ),
            "only a fixed sum",
        ),
        (lambda: nk.sampler.MetropolisLocal(SPINS), "no LocalOperator"),
        (lambda: S.sigmaz(H.Spin(0.5, 4), 0), r"4 sites, the lattice 6 \(2 x 3\)"),
    ],
)  # fmt: skip
def test_what_is_not_served_is_refused(make: Callable[[], Any], told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        from_netket(make(), SITES)


@pytest.mark.whole
def test_netket_is_not_imported_by_tnvmc() -> None:
    code = (
        "import sys, tnvmc; tnvmc.VMC(tnvmc.heisenberg(tnvmc.chain(4)), tnvmc.PEPS(tnvmc.chain(4), 2)); "
        "sys.exit('netket' in sys.modules or 'jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
