"""PEPS of fermions against a dumb contraction with the signs of all lines written out."""

from __future__ import annotations

import itertools

import numpy as np
import opt_einsum
import pytest

from tests.oracles import all_configs
from tnvmc import PEPS, VMC, Sampler, load_state, square
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.backend.namespace import to_host, to_namespace
from tnvmc.contraction.schemes import Exact
from tnvmc.operators.fermions import HUBBARD, SPINLESS, T_J, Fermions
from tnvmc.operators.models import hubbard
from tnvmc.sampling.moves import _table

ROUNDING = 1e-9  # of ratios of O(1) by exact contractions of at most nine tensors


def brute_force(peps: PEPS, theta: np.ndarray, config: np.ndarray) -> complex:
    """psi(s): every crossing of a physical line with a horizontal bond below it is a sign.

    The line of a particle at (r, c) crosses the bond from (r', c) to (r', c + 1) for all r' > r.
    """
    n_cols = peps.lattice.shape[1]
    odd, operands = np.array(peps.fermions.odd), []
    for place, tensor in enumerate(peps.tensors(theta)):
        row, column = divmod(place, n_cols)
        here = tensor[config[place]].copy()
        for upper in range(row):
            if odd[config[upper * n_cols + column]]:
                here[..., 1::2] *= -1
        legs = (
            ("v", row - 1, column),
            ("h", row, column - 1),
            ("v", row, column),
            ("h", row, column),
        )
        operands += [here, legs]
    return opt_einsum.contract(*operands, []).item()


def hops(fermions: Fermions, bonds) -> dict:
    """Every other state of a pair with the same particle numbers."""
    d = len(fermions.odd)
    first, second = np.divmod(np.arange(d * d), d)
    same = ~np.eye(d * d, dtype=bool)
    for numbers in np.array(fermions.numbers):
        total = numbers[first] + numbers[second]
        same &= total[:, None] == total
    return {tuple(sorted(bond)): _table(same) for bond in bonds}


def made(shape, D, fermions, scheme=None, **more):
    lattice = square(*shape)
    d = len(fermions.odd)
    return PEPS(lattice, D, local_dim=d, fermions=fermions, sharing=None, scheme=scheme, **more)


def even_configs(peps: PEPS, n: int, seed: int = 0) -> np.ndarray:
    """Random configurations of one parity."""
    rng, odd = np.random.default_rng(seed), np.array(peps.fermions.odd)
    configs = rng.integers(peps.local_dim, size=(4 * n, peps.lattice.n_sites), dtype=np.int8)
    return configs[odd[configs].sum(axis=1) % 2 == 0][:n]


SYSTEMS = [
    ((2, 2), 2, SPINLESS), ((2, 3), 3, SPINLESS), ((3, 3), 2, SPINLESS), ((3, 3), 3, SPINLESS),
    ((2, 2), 3, HUBBARD), ((2, 3), 2, T_J), ((3, 2), 4, SPINLESS), ((1, 4), 2, HUBBARD),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "D", "fermions"), SYSTEMS)
def test_amplitudes_are_those_of_lines_that_cross(shape, D, fermions) -> None:
    peps = made(shape, D, fermions, Exact())
    theta = np.random.default_rng(1).normal(size=peps.n_params)
    configs = even_configs(peps, 24)
    want = np.array([brute_force(peps, theta, config) for config in configs])
    found = peps.log_amplitude(theta, configs)
    psi = found.phase * np.exp(found.log_abs)
    np.testing.assert_allclose(psi, want, atol=ROUNDING * np.abs(want).max())


@pytest.mark.parametrize("n_sweeps", [0, 1, 2, 3])
@pytest.mark.parametrize(("shape", "D", "fermions"), [*SYSTEMS[1:7], ((3, 3), 4, SPINLESS)])
def test_ratios_of_all_hops_after_moves(shape, D, fermions, n_sweeps, xp) -> None:
    """In rows and columns, of neighbours, diagonals and far pairs, after passes both ways."""
    peps = made(shape, D, fermions, Exact())
    rng, n_sites = np.random.default_rng(2), peps.lattice.n_sites
    theta = to_namespace(rng.normal(size=peps.n_params), xp)
    near = [tuple(bond) for kind in ("nearest", "diagonal") for bond in peps.lattice.bonds[kind]]
    tables = {"near": hops(fermions, near[: len(peps.lattice.bonds["nearest"])])}
    tables["far"] = hops(fermions, [*near, (0, n_sites - 1), (1, n_sites - 2)])
    configs = to_namespace(even_configs(peps, 12), xp)
    for held_moves in tables.values():
        moves = {patch: to_namespace(table, xp) for patch, table in held_moves.items()}
        walkers = peps.start(theta, configs)
        for _ in range(n_sweeps):
            uniforms = to_namespace(rng.uniform(size=(configs.shape[0], len(moves))), xp)
            walkers, _ = peps.sweep(theta, walkers, moves, uniforms)
        _, seen = peps.measure(theta, walkers, moves)
        held = to_host(seen.configs)
        before = peps.log_amplitude(theta, seen.configs)
        for amplitude in (walkers.amplitude, seen.amplitude):
            psi = to_host(amplitude.phase * xp.exp(amplitude.log_abs - before.log_abs))
            np.testing.assert_allclose(psi, to_host(before.phase), atol=ROUNDING)
        for patch, table in held_moves.items():
            states = held[:, patch[0]].astype(int) * peps.local_dim + held[:, patch[1]]
            for target, ratio in zip(table[states].T, to_host(seen.ratios[patch]).T, strict=True):
                other = held.copy()
                other[:, patch[0]] = np.where(
                    target < 0, held[:, patch[0]], target // peps.local_dim
                )
                other[:, patch[1]] = np.where(
                    target < 0, held[:, patch[1]], target % peps.local_dim
                )
                after = peps.log_amplitude(theta, to_namespace(other, xp))
                want = to_host(after.phase / before.phase * xp.exp(after.log_abs - before.log_abs))
                scale = 1 + np.abs(want)
                assert (np.abs(ratio - np.where(target < 0, 0, want)) < ROUNDING * scale).all()


@pytest.mark.parametrize(
    ("shape", "D", "fermions"), [SYSTEMS[2], SYSTEMS[4], ((3, 3), 4, SPINLESS)]
)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_conformance(shape, D, fermions, dtype) -> None:
    peps = made(shape, D, fermions, Exact(), dtype=dtype)
    rng = np.random.default_rng(3)
    theta = rng.normal(size=peps.n_params)
    if dtype == "complex128":
        theta = theta + 1j * rng.normal(size=peps.n_params)
    check_ansatz(peps, theta)


def test_entries_that_are_not_even_are_no_parameters() -> None:
    peps = made((3, 3), 4, SPINLESS)
    full = PEPS(square(3, 3), 4, sharing=None)
    first = int(np.prod(full.shapes[0]))
    assert peps.n_params == (full.n_params - first) // 2 + first
    theta = np.random.default_rng(0).normal(size=peps.n_params)
    for site, tensor in enumerate(peps.tensors(theta)):
        for entry in itertools.product(*map(range, tensor.shape)):
            assert (tensor[entry] == 0) == (site > 0 and sum(entry) % 2 == 1)
    np.testing.assert_array_equal(peps.flatten(peps.tensors(theta)), theta)


def test_null_directions_are_counted() -> None:
    """The rank of the Jacobian of one parity, over all configurations of it."""
    peps = made((2, 3), 2, SPINLESS, Exact())
    theta = np.random.default_rng(4).normal(size=peps.n_params)
    configs = all_configs(6)
    configs = configs[configs.sum(axis=1) % 2 == 0]
    _, seen = peps.measure(theta, peps.start(theta, configs), {})
    rank = np.linalg.matrix_rank(seen.jacobian.dense(), tol=1e-8)
    assert rank == peps.n_params - peps.n_null + 1 < len(configs)  # one is a factor of psi


@pytest.mark.parametrize(
    "more", [{"bonds": "periodic"}, {"D": 1}, {"local_dim": 3}, {"fermions": "electrons"}]
)
def test_what_fermions_cannot_have(more) -> None:
    given = {"D": 2, "local_dim": 2, "fermions": SPINLESS, **more}
    with pytest.raises((ValueError, TypeError), match="fermions"):
        PEPS(square(3, 4, "cylinder"), **given)


def test_no_direct_draws() -> None:
    peps = made((2, 2), 2, SPINLESS)
    with pytest.raises(ValueError, match="fermions"):
        peps.drawer(np.ones(peps.n_params))


@pytest.mark.parametrize(("shape", "D", "fermions"), [SYSTEMS[3], SYSTEMS[5], ((3, 3), 2, HUBBARD)])
def test_hops_of_all_pairs_by_sources(shape, D, fermions, xp, monkeypatch) -> None:
    """Every pair carried from its first site, rows, columns and in between, against brute force."""
    monkeypatch.setattr(
        "tnvmc.ansatz.peps.row_contraction.pairs_by_source",
        lambda patches, found, *_: {found.placed(p): p for p in patches if len(p) == 2},
    )
    peps = made(shape, D, fermions, Exact())
    n_sites, theta = peps.lattice.n_sites, np.random.default_rng(5).normal(size=peps.n_params)
    tables = hops(fermions, itertools.combinations(range(n_sites), 2))
    configs = even_configs(peps, 6)
    psi = {tuple(c): brute_force(peps, theta, np.array(c)) for c in configs}
    walkers = peps.start(to_namespace(theta, xp), to_namespace(configs, xp))
    given = {patch: to_namespace(table, xp) for patch, table in tables.items()}
    _, seen = peps.measure(to_namespace(theta, xp), walkers, given, jacobian=False)
    for (i, j), table in tables.items():
        found = to_host(seen.ratios[i, j])
        for walker, config in enumerate(configs):
            state = int(config[i]) * peps.local_dim + int(config[j])
            for choice, target in enumerate(table[state]):
                other = config.copy()
                other[i], other[j] = divmod(max(target, 0), peps.local_dim)
                want = brute_force(peps, theta, other) / psi[tuple(config)] if target >= 0 else 0
                assert abs(found[walker, choice] - want) < ROUNDING * (1 + abs(want))


def test_a_state_and_a_checkpoint_are_read_again(tmp_path) -> None:
    hamiltonian = hubbard(square(2, 2), U=4.0, particles=[1, 2])

    def made_vmc(threads: int) -> VMC:
        peps = PEPS(hamiltonian.lattice, D=2, local_dim=4)
        return VMC(hamiltonian, peps, Sampler(8, 32, threads=threads), seed=1)

    first, second = made_vmc(1), made_vmc(2)
    first.run(2, progress=False)
    first.save(tmp_path / "checkpoint.h5")
    first.run(2, progress=False)
    second.restore(tmp_path / "checkpoint.h5")
    second.run(2, progress=False)
    np.testing.assert_array_equal(second.theta, first.theta)
    first.ansatz.save(tmp_path / "state.h5", first.theta)
    peps, theta = load_state(tmp_path / "state.h5")
    assert peps.fermions == HUBBARD
    np.testing.assert_array_equal(theta, first.theta)


@pytest.mark.parametrize(("D", "known"), [(2, True), (8, False)])
def test_directions_along_which_psi_stays_are_unknown_where_bonds_are_not_filled(D, known) -> None:
    """A bond that alone joins two sides of a chain holds no more states than they have."""
    assert (made((1, 8), D, SPINLESS).n_null is not None) == known
