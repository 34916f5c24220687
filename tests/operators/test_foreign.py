"""Objects of NetKet are taken as they are; the oracle is NetKet's own dense matrix."""

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
    Lattice,
    NonHermitian,
    Operator,
    chain,
    exact_ground_state,
    from_netket,
    heisenberg,
    j1j2,
    rydberg,
    square,
    tfim,
)
from tnvmc.ansatz.mps import MPS
from tnvmc.lattice.custom import as_lattice
from tnvmc.operators.foreign import Space

nk = pytest.importorskip("netket")
G, S, H, O = nk.graph, nk.operator.spin, nk.hilbert, nk.operator

ROUNDING = 1e-13  # of elements of order 1; NetKet sums its terms in another order
LEVEL = 1e-10  # of an energy of order 10: Lanczos against dense diagonalisation

GRID = G.Grid((2, 3), pbc=False)
SPINS = H.Spin(0.5, 6)
INVERTED = H.Spin(0.5, 6, inverted_ordering=True)
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
    "transposed": (lambda: dm(SPINS).T, Operator),
    "Pauli strings": (
        lambda: O.PauliStrings(SPINS, ["XXIIII", "YIZIYX", "IIIIII"], [1.0, 0.5, 2.0]), Operator,
    ),
    "i times a Pauli string": (lambda: O.PauliStrings(SPINS, ["XYIIIZ"], [1j]), NonHermitian),
    "spin 1": (spin_one, Operator),
    "Bose-Hubbard": (
        lambda: O.BoseHubbard(H.Fock(3, 4), G.Square(2, pbc=False), U=2.0, V=0.5, J=1.0, mu=0.3), Operator,
    ),
    "raising": (lambda: S.sigmap(SPINS, 2) @ S.sigmaz(SPINS, 0), NonHermitian),
    "its adjoint": (lambda: (S.sigmap(SPINS, 2) @ S.sigmaz(SPINS, 0)).H, NonHermitian),
    "sites out of order": (lambda: O.LocalOperator(SPINS, [ODD], [[4, 0, 3]]), NonHermitian),
    "sum of kinds": (lambda: O.PauliStrings(SPINS, ["XXIIII"]) + 2 * dm(SPINS), Operator),
    "product of kinds": (lambda: O.PauliStrings(SPINS, ["XXIIII"]) @ dm(SPINS), NonHermitian),
    "adjoint of a product": (
        lambda: (O.PauliStrings(SPINS, ["XXIIII"]) @ dm(SPINS)).H, NonHermitian,
    ),
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
    found = from_netket(theirs)
    assert type(found) is kind
    assert np.abs(dense(found) - np.asarray(theirs.to_dense())).max() < ROUNDING


def test_ising_strings_and_sectors_without_compiling() -> None:
    grid = square(2, 3)
    ising = from_netket(O.Ising(SPINS, GRID, h=0.3, J=-1.2), grid)
    assert np.allclose(dense(ising), dense(tfim(grid, J=1.2, h=0.3)))
    strings = from_netket(O.PauliStrings(SPINS, ["XXIIII", "YIZIYX"], [1.0, 0.5j]), grid)
    products = [("X X", [(0, 1)]), ("0.5i Y Z Y X", [(0, 2, 4, 5)])]
    assert np.allclose(dense(strings), dense(NonHermitian.from_products(grid, products)))
    spaces = {
        H.Spin(0.5, 4, total_sz=1.0): Space(4, 2, 2),
        H.Spin(0.5, 4, total_sz=1.0, inverted_ordering=True): Space(4, 2, -2),
        H.Spin(1, 4, total_sz=-1): Space(4, 3, -2),
        H.Fock(2, 4, n_particles=5): Space(4, 3, -2),
        H.Qubit(4): Space(4, 2, None),
    }
    for theirs, ours in spaces.items():
        assert from_netket(theirs) == ours


def test_signs_of_marshall_are_told_at_the_line_that_asked() -> None:
    with pytest.warns(UserWarning, match=f"7 of 7 pairs.*{TURNED}") as told:
        from_netket(O.Heisenberg(SPINS, GRID))
    with pytest.warns(UserWarning, match=TURNED) as by_vmc:
        VMC(O.Heisenberg(SPINS, GRID), PEPS(GRID, 1), Enumerate())
    assert {warning.filename for warning in (*told, *by_vmc)} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = from_netket(O.Heisenberg(SPINS, GRID, sign_rule=False))
        from_netket(O.Heisenberg(SPINS, GRID, J=-1.0, sign_rule=False))
    assert np.allclose(dense(plain), 4 * dense(heisenberg(square(2, 3)))), "Pauli units"


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
    assert from_netket(hilbert) == Space(4, d, magnetisation)
    theirs = sum(S.sigmap(hilbert, i) @ S.sigmam(hilbert, i + 1) for i in range(3))
    theirs = theirs + theirs.H.collect() + S.sigmaz(hilbert, 0)
    found = from_netket(theirs, chain(4))
    levels = np.linalg.eigvalsh(np.asarray(theirs.to_dense()))
    assert np.allclose(levels, np.linalg.eigvalsh(dense_sector(found, magnetisation)), atol=LEVEL)
    assert abs(exact_ground_state(theirs).energy - levels[0]) < LEVEL
    vmc = VMC(theirs, PEPS(chain(4), 1, local_dim=d), Enumerate())
    assert vmc.problem.magnetisation == magnetisation
    assert vmc.operator.magnetisation == (2 * found).magnetisation == magnetisation


def test_a_run_and_observables_of_netket() -> None:
    space = H.Spin(0.5, 6, total_sz=0)
    theirs = O.Heisenberg(space, GRID, sign_rule=False)
    vmc = VMC(theirs, PEPS(GRID, 2), Enumerate())
    vmc.run(3)
    found = vmc.measure()
    ours = VMC(4 * heisenberg(square(2, 3)), vmc.ansatz, Enumerate(), theta=vmc.theta)
    assert abs(found.energy - ours.measure().energy) < LEVEL
    assert "lower_in_other_sector" not in str(found.diagnostics)
    hop = vmc.expect(S.sigmap(space, 0) @ S.sigmam(space, 1))
    same = NonHermitian.from_products(vmc.operator.lattice, [("S+ S-", [(0, 1)])])
    assert hop.mean == vmc.expect(same).mean
    with pytest.raises(ValueError, match="2 Sz = 2, the walkers have 0"):
        vmc.expect(S.sigmaz(H.Spin(0.5, 6, total_sz=1), 0))


def test_where_the_two_do_not_fit_both_are_told() -> None:
    space = H.Spin(0.5, 6, total_sz=0)
    theirs = O.Heisenberg(space, GRID, sign_rule=False)
    with pytest.raises(ValueError, match="asked for 2 Sz = 0 in one place and 2"):
        VMC(theirs, PEPS(GRID, 2), magnetisation=2)
    with pytest.raises(ValueError, match=r"6 sites, the lattice 9 \(3 x 3\)"):
        VMC(theirs, PEPS(square(3, 3), 2))
    with pytest.raises(ValueError, match="has 3 states a site, the wave function 2"):
        VMC(spin_one(), PEPS(square(2, 2), 2))
    with pytest.raises(TypeError, match="is a NonHermitian"):
        VMC(S.sigmap(SPINS, 0), PEPS(GRID, 2))
    with pytest.raises(TypeError, match="Operator"):
        VMC(GRID, PEPS(GRID, 2))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: O.FermionOperator2nd(H.SpinOrbitalFermions(2), ["0^ 1", "1^ 0"]), "order gives signs"),
        (lambda: H.Fock(None, 4), "give n_max"),
        (lambda: H.Spin(0.5, 2) * H.Fock(2, 2), "must be alike"),
        (lambda: H.DoubledHilbert(H.Spin(0.5, 2)), "must be alike"),
        (
            lambda: H.Spin(0.5, 4, constraint=H.constraint.SumOnPartitionConstraint((0, 0), (2, 2))),
            "only a fixed sum",
        ),
        (lambda: O.PauliStrings(H.Spin(0.5, 12), ["X" * 12]), "a term on the 12 sites"),
        (lambda: nk.sampler.MetropolisLocal(SPINS), "no operator, graph or Hilbert space"),
        (lambda: G.Graph([(0, 1), (1, 0)]), "given twice"),
    ],
)  # fmt: skip
def test_what_is_not_served_is_refused(make: Callable[[], Any], told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        from_netket(make())


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (lambda: G.Square(3), square(3, 3, "periodic")),
        (lambda: G.Square(4, pbc=False, max_neighbor_order=2), square(4, 4)),
        (lambda: G.Grid((3, 4), pbc=[False, True]), square(3, 4, "cylinder")),
        (lambda: G.Chain(5), chain(5, "periodic")),
        (lambda: G.Chain(6, pbc=False, max_neighbor_order=2), chain(6)),
    ],
)
def test_chains_and_squares_are_ours(graph: Any, expected: Lattice) -> None:
    found = as_lattice(graph())
    assert found == expected
    assert found.kind == expected.kind


@pytest.mark.parametrize(
    ("graph", "shape", "kind", "counts"),
    [
        (lambda: G.Grid((3, 4), pbc=[True, False]), (3, 4), "custom", {"nearest": 21}),
        (lambda: G.Honeycomb([2, 3], pbc=False), (2, 6), "custom", {"nearest": 13}),
        (lambda: G.Kagome([2, 2]), (2, 6), "custom", {"nearest": 24}),
        (lambda: G.KitaevHoneycomb([2, 2]), (2, 4), "custom",
         {"color 0": 4, "color 1": 4, "color 2": 4}),
        (lambda: G.Triangular([4, 4], max_neighbor_order=2), (4, 4), "custom",
         {"nearest": 48, "diagonal": 48}),
        (lambda: G.Square(4, pbc=False, max_neighbor_order=3), (4, 4), "custom",
         {"nearest": 24, "diagonal": 18, "distance 3": 16}),
        (lambda: G.Cube(2, pbc=False), (1, 8), "graph", {"nearest": 12}),
        (lambda: G.Graph([(0, 1, 3), (2, 1, 5)]), (1, 3), "graph", {"color 3": 1, "color 5": 1}),
    ],
)  # fmt: skip
def test_other_graphs_keep_sites_and_bonds(graph: Any, shape: Any, kind: str, counts: Any) -> None:
    theirs = graph()
    found = as_lattice(theirs)
    assert (found.shape, found.kind) == (shape, kind)
    assert {name: len(bonds) for name, bonds in found.bonds.items()} == counts
    pairs = {bond for bonds in found.bonds.values() for bond in bonds}
    assert pairs == {(min(pair), max(pair)) for pair in theirs.edges()}


def test_open_lattices_have_netkets_positions() -> None:
    graph = G.Honeycomb([2, 2], pbc=False)
    apart = np.linalg.norm(graph.positions[:, None] - graph.positions[None], axis=-1)
    assert np.allclose(as_lattice(graph).distances(), apart)


def test_models_and_states_take_graphs() -> None:
    graph = G.Square(3, pbc=False, max_neighbor_order=2)
    assert heisenberg(graph).lattice == PEPS(graph, 2).lattice == square(3, 3)
    assert np.array_equal(dense(j1j2(G.Chain(5))), dense(j1j2(chain(5, "periodic")))), (
        "diagonals are those of the chain"
    )
    assert rydberg(graph).lattice == square(3, 3)
    assert MPS(G.Chain(4), 2).lattice.boundary == "periodic"
    field = Operator.from_products(graph, [("Sz", "all"), ("Sx Sx", "nearest")])
    assert len(field.terms) == 9 + 12


@pytest.mark.whole
def test_netket_is_not_imported_by_tnvmc() -> None:
    code = (
        "import sys, tnvmc; tnvmc.VMC(tnvmc.heisenberg(tnvmc.chain(4)), tnvmc.PEPS(tnvmc.chain(4), 2)); "
        "sys.exit('netket' in sys.modules or 'jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
