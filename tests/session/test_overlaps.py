"""Overlaps of states of all kinds against their vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tnvmc
from tnvmc import (
    MPS,
    PEPS,
    SR,
    VMC,
    Enumerate,
    Sampler,
    Slater,
    chain,
    heisenberg,
    square,
    tfim,
    tv,
)
from tnvmc.app.cli import main
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.trust.double_layer import LeftOut

FOUR_SIGMA = 4.0  # by chance once in 16 000
ROUNDING = 1e-9
PLENTY = Sampler(32, 1024, n_burn=20, threads=1)

H = heisenberg(square(2, 3))
FERMIONS = tv(square(2, 3), V=1.0, particles=3)


def random_theta(ansatz: Any, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    real, imaginary = 0.7 + 0.3 * rng.normal(size=(2, ansatz.n_params))
    return real + 1j * imaginary if ansatz.dtype == "complex128" else real


def rbm() -> Any:
    pytest.importorskip("flax")
    return tnvmc.FlaxAnsatz(H.lattice, lambda rngs: tnvmc.RBM(H.lattice, rngs=rngs))


STATES = {
    "PEPS": lambda: PEPS(H.lattice, 2),
    "complex PEPS": lambda: PEPS(H.lattice, 2, dtype="complex128"),
    "MPS": lambda: MPS(chain(6), 2),
    "RBM": rbm,
    "symmetrised": lambda: tnvmc.Symmetrised(PEPS(H.lattice, 2), symmetry_group(H, "point")),
    "fermions": lambda: Slater(FERMIONS.lattice, 3),
}


def operator_of(kind: str) -> Any:
    return {"fermions": FERMIONS, "MPS": heisenberg(chain(6))}.get(kind, H)


def made(kind: str, seed: int, sampler: Any) -> VMC:
    ansatz = STATES[kind]()
    return VMC(operator_of(kind), ansatz, sampler, theta=random_theta(ansatz, seed), seed=seed)


def vector(vmc: VMC) -> np.ndarray:
    """All amplitudes in the sector, normalised."""
    basis = vmc.operator.states(vmc.problem.magnetisation)
    found = vmc.ansatz.log_amplitude(np.asarray(vmc.theta), basis.configs(basis.codes))
    psi = np.asarray(found.phase) * np.exp(np.asarray(found.log_abs, dtype=float))
    return np.asarray(psi / np.linalg.norm(psi))


@pytest.mark.whole
@pytest.mark.parametrize("kind", STATES)
def test_overlaps_are_those_of_the_vectors(kind: str) -> None:
    one, other = (made(kind, seed, PLENTY) for seed in (1, 2))
    exact = np.vdot(vector(one), vector(other))
    every = tnvmc.overlap(*(made(kind, seed, Enumerate(threads=1)) for seed in (1, 2)))
    assert every.overlap == pytest.approx(exact, abs=ROUNDING) and every.error == 0
    found = tnvmc.overlap(one, other)
    assert 0 < found.error < 0.2
    assert abs(found.fidelity - abs(exact) ** 2) < FOUR_SIGMA * found.error


def test_a_pair_and_a_vector_are_in_the_sector_of_the_other_state() -> None:
    vmc = made("PEPS", 1, Enumerate(threads=1))
    ground = tnvmc.exact_ground_state(H, vector=True).vector
    exact = np.vdot(vector(vmc), ground)
    assert tnvmc.overlap(vmc, ground).overlap == pytest.approx(exact, abs=ROUNDING)
    pair = vmc.ansatz, np.asarray(vmc.theta)
    found = tnvmc.overlap(ground, pair, n_samples=1024, operator=H)
    assert abs(found.fidelity - abs(exact) ** 2) < FOUR_SIGMA * found.error
    assert tnvmc.overlap(vmc, pair, n_samples=128).fidelity == pytest.approx(1, abs=ROUNDING)


def test_sectors_are_orthogonal_and_what_is_outside_does_not_count() -> None:
    ansatz = PEPS(H.lattice, 2)
    theta = random_theta(ansatz, 1)
    singlet, triplet = (
        VMC(H, ansatz, Enumerate(threads=1), theta=theta, magnetisation=m) for m in (0, 2)
    )
    found = tnvmc.overlap(singlet, triplet)
    assert found.fidelity == found.error == 0
    assert [each.code for each in found.diagnostics] == ["different_sectors"]
    # The same tensors without a sector: the part of them in the sector is what they share.
    free = VMC(tfim(H.lattice, h=1.0), ansatz, Enumerate(threads=1), theta=theta)
    configs = free.operator.states().configs(free.operator.states().codes)
    inside = configs.sum(axis=1) == 3
    weight = np.abs(vector(free)) ** 2
    assert tnvmc.overlap(singlet, free).fidelity == pytest.approx(weight[inside].sum())


@pytest.mark.parametrize("magnetisation", [0, 2, None])
def test_two_peps_by_their_double_layer(magnetisation: int | None) -> None:
    operator = tfim(square(2, 3), h=1.0) if magnetisation is None else H
    pair = [
        VMC(
            operator, ansatz, Enumerate(magnetisation, threads=1),
            theta=random_theta(ansatz, 4), magnetisation=magnetisation,
        )
        for ansatz in (PEPS(H.lattice, 2, sharing=None), PEPS(H.lattice, 3, sharing=None))
    ]  # fmt: skip
    exact = tnvmc.overlap(*pair)
    found = tnvmc.overlap(*pair, double_layer=True)
    assert found.overlap == pytest.approx(exact.overlap, abs=ROUNDING)
    assert found.fidelity == pytest.approx(exact.fidelity, abs=ROUNDING)
    assert found.error == found.overlap_error == 0
    cut = tnvmc.overlap(*pair, chi=8, double_layer=True)
    assert 0 < abs(cut.fidelity - exact.fidelity) < cut.error < 0.1


def test_one_rough_chi_has_no_error_bar() -> None:
    """The half of chi = 1 was chi = 1 itself: the error was 0 beside an overlap 0.09 off."""
    ansatz = PEPS(H.lattice, 3, sharing=None)
    pair = [
        VMC(H, ansatz, Enumerate(threads=1), theta=random_theta(ansatz, seed)) for seed in (1, 2)
    ]
    assert tnvmc.overlap(*pair, chi=3, double_layer=True).error == np.inf
    for chi in (0, 2.5):
        with pytest.raises((TypeError, ValueError), match="chi"):
            tnvmc.overlap(*pair, chi=chi, double_layer=True)


def test_vacant_places_have_a_double_layer() -> None:
    operator = heisenberg(square(3, 3, vacant=[4]))
    ansatz = PEPS(operator.lattice, 2, sharing=None)
    pair = [
        VMC(operator, ansatz, Enumerate(threads=1), theta=random_theta(ansatz, seed))
        for seed in (1, 2)
    ]
    found = tnvmc.overlap(*pair, double_layer=True)
    assert found.overlap == pytest.approx(tnvmc.overlap(*pair).overlap, abs=ROUNDING)


def test_only_two_peps_have_one_double_layer() -> None:
    spins, network = made("PEPS", 1, PLENTY), made("symmetrised", 1, PLENTY)
    fermions = VMC(FERMIONS, PEPS(FERMIONS.lattice, 2), PLENTY)
    for one in (network, fermions):
        with pytest.raises(LeftOut):
            tnvmc.overlap(one, one, double_layer=True)
    with pytest.raises(ValueError, match="n_samples"):
        tnvmc.overlap(spins, spins, n_samples=64, double_layer=True)


def test_what_has_no_overlap_is_refused() -> None:
    vmc = made("PEPS", 1, PLENTY)
    other = heisenberg(square(3, 2))
    with pytest.raises(ValueError, match="2 x 3.*3 x 2"):
        tnvmc.overlap(vmc, VMC(other, PEPS(other.lattice, 2), PLENTY))
    vacancies = (tnvmc.tfim(square(2, 3, vacant=[k]), h=1.0) for k in (1, 4))
    apart = [VMC(x, PEPS(x.lattice, 2, sharing=None), Enumerate(threads=1)) for x in vacancies]
    with pytest.raises(ValueError, match="different sites"):
        tnvmc.overlap(*apart)
    with pytest.raises(ValueError, match="operator="):
        tnvmc.overlap((vmc.ansatz, vmc.theta), (vmc.ansatz, vmc.theta))
    with pytest.raises(ValueError, match="21 amplitudes, and 20 configurations"):
        tnvmc.overlap(vmc, np.ones(21))
    with pytest.raises(TypeError, match="a state"):
        tnvmc.overlap(vmc, 3)


def test_states_that_hardly_meet_are_told() -> None:
    ansatz = tnvmc.ProductState(H.lattice)
    one, other = (
        VMC(
            H,
            ansatz,
            Sampler(16, 64, threads=1),
            theta=np.eye(ansatz.local_dim, dtype=ansatz.dtype)[config].ravel() + 1e-3,
        )
        for config in ([0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 1, 0])
    )
    with pytest.warns(tnvmc.UnreliableWarning):
        found = tnvmc.overlap(one, other)
    assert "few_shared" in [each.code for each in found.diagnostics]
    assert found.fidelity < 0.1


@pytest.mark.slow
def test_error_bars_hold_in_repetitions() -> None:
    one, other = (made("PEPS", seed, PLENTY) for seed in (1, 2))
    exact, off = abs(np.vdot(vector(one), vector(other))) ** 2, []
    for seed in range(200):
        pair = [
            VMC(H, x.ansatz, PLENTY, theta=np.asarray(x.theta), seed=2 * seed + k)
            for k, x in enumerate((one, other))
        ]
        found = tnvmc.overlap(*pair, n_samples=256)
        off.append(abs(found.fidelity - exact) / found.error)
    assert np.mean(np.array(off) < 1) > 0.58  # 0.68 less three errors of the part
    assert np.mean(np.array(off) < 2) > 0.90


@pytest.mark.whole
def test_the_commands_print_overlaps_and_entropies(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    folders = []
    for seed in (1, 2):
        optimizer = SR(diag_shift=1e-2)
        ansatz = PEPS(H.lattice, 2)
        vmc = VMC(H, ansatz, Sampler(8, 64, threads=1), optimizer, seed=seed, learning_rate=0.1)
        folders.append(str(tmp_path / f"run{seed}"))
        vmc.run(2, out=folders[-1])
    assert main(["overlap", *folders, "--n-samples", "128"]) == 0
    shown = capsys.readouterr().out
    assert f"{folders[0]} {folders[1]}: fidelity" in shown
    found = tnvmc.overlap(*folders, n_samples=128)
    assert found._line() in shown
    assert main(["overlap", *folders, "--double-layer"]) == 0
    assert "fidelity" in capsys.readouterr().out
    assert main(["overlap", *folders, "--double-layer", "--n-samples", "4"]) == 2
    picture = tmp_path / "entropy.png"
    assert main(["entropy", folders[0], "--picture", str(picture)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3 and picture.stat().st_size > 1000
    assert main(["entropy", folders[0], "--sites", "0,9"]) == 2


@pytest.mark.whole
def test_a_run_measured_with_symmetries_counts_with_their_sum(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("""
[lattice]
shape = [2, 3]
[hamiltonian]
model = "heisenberg"
[ansatz]
D = 2
sharing = false
init = "random"
[optimizer]
steps = 1
[measure]
n_samples = 2048
symmetrise = ["point"]
""")
    assert main(["run", str(file), "--out", str(tmp_path / "run")]) == 0
    vmc = tnvmc.load_run(tmp_path / "run").vmc
    pairs = [(vmc.ansatz, vmc.theta)]
    pairs += [(tnvmc.Symmetrised(vmc.ansatz, symmetry_group(H, "point")), vmc.theta)]
    found = tnvmc.overlap(tmp_path / "run", pairs[1], n_samples=1024, operator=H)
    assert found.fidelity == pytest.approx(1, abs=1e-6)
    alone = tnvmc.overlap(*pairs, n_samples=1024, operator=H).fidelity
    assert alone < 1 - 1e-4
    enumerated = VMC(H, pairs[1][0], Enumerate(threads=1), theta=vmc.theta)
    block, exact = [0, 3, 1], tnvmc.renyi2(enumerated, [0, 3, 1])
    entropy = tnvmc.renyi2(tmp_path / "run", block, n_samples=2048)
    assert abs(entropy.purity - exact.purity) < FOUR_SIGMA * entropy.purity_error
