"""Overlaps by a bridge, from draws of vectors that are known."""

from __future__ import annotations

import numpy as np
import pytest

from tnvmc.ansatz.protocol import LogAmplitude, Snapshot
from tnvmc.estimate.bridge import Bridged, Side, bridged
from tnvmc.sampling.problem import SampleInfo

N_TIMES, N_SAMPLES = 400, 256
LEAST = {1: 0.60, 2: 0.92}
"""Of 400 repetitions within one and two errors: 0.68 and 0.95, less three errors of the part."""


def logarithm(psi: np.ndarray) -> LogAmplitude:
    size = np.abs(psi)
    safe = np.where(size > 0, size, 1.0)
    return LogAmplitude(psi / safe, np.where(size > 0, np.log(safe), -np.inf))


def estimated(one: np.ndarray, other: np.ndarray, rng: np.random.Generator | None) -> Bridged:
    """The overlap of two vectors from draws, or from all their components."""
    sides = []
    for own, there in ((one, other), (other, one)):
        weight = np.abs(own) ** 2 / (np.abs(own) ** 2).sum()
        exact = rng is None
        drawn = np.arange(len(own)) if rng is None else rng.choice(len(own), N_SAMPLES, p=weight)
        held = Snapshot(drawn[:, None], logarithm(own[drawn]), {}, weight=weight if exact else None)
        info = SampleInfo(1 if exact else len(drawn), len(drawn) if exact else 1, 0.0, exact)
        sides.append(Side.of(held, logarithm(there[drawn]), info))
    return bridged(*sides)


def vectors(kind: str) -> tuple[np.ndarray, np.ndarray, complex]:
    """Two vectors of norms far apart, and the overlap of the normalised ones."""
    rng = np.random.default_rng(4)
    one, noise = rng.normal(size=(2, 300))
    other = noise + 0.1 * one if kind == "near 0" else one + noise
    if kind == "near 1":
        other = one * np.exp(0.01 * noise)
    if kind == "complex":
        one, other = one + 0.5j * noise, other * (1 + 0.3j)
    if kind == "zeros":
        one, other = one * (np.arange(300) > 60), other * (np.arange(300) < 240)
    exact = np.vdot(one, other) / np.linalg.norm(one) / np.linalg.norm(other)
    return one, 1e9 * other, exact


KINDS = ("near 1", "middle", "near 0", "complex", "zeros")


@pytest.mark.parametrize("kind", KINDS)
def test_all_components_give_the_overlap_itself(kind: str) -> None:
    one, other, exact = vectors(kind)
    found = estimated(one, other, None)
    assert found.mean == pytest.approx(exact, abs=1e-12)
    assert found.squared == pytest.approx(abs(exact) ** 2, abs=1e-12)
    assert found.squared_error == 0


@pytest.mark.parametrize("kind", KINDS)
def test_errors_hold(kind: str) -> None:
    one, other, exact = vectors(kind)
    rng = np.random.default_rng(5)
    found = [estimated(one, other, rng) for _ in range(N_TIMES)]
    off = np.array([abs(x.squared - abs(exact) ** 2) / x.squared_error for x in found])
    for errors, least in LEAST.items():
        assert np.mean(off < errors) > least
    along = np.array([(np.conj(exact) * x.mean).real / abs(exact) - abs(exact) for x in found])
    assert np.std(along) == pytest.approx(np.median([x.along for x in found]), rel=0.25)


def test_the_infidelity_is_resolved_however_small_it_is() -> None:
    one, other, exact = vectors("near 1")
    found = estimated(one, other, np.random.default_rng(6))
    infidelity = 1 - abs(exact) ** 2
    assert infidelity < 2e-4
    assert found.squared_error < 0.3 * infidelity


def test_states_that_do_not_meet_have_no_overlap() -> None:
    one, other = np.zeros(300), np.zeros(300)
    one[:100], other[200:] = 1.0, 1.0
    found = estimated(one, other, np.random.default_rng(7))
    assert found.mean == 0 and found.effective == 0
    assert 0 < found.squared_error < 1e-3
    assert estimated(one, other, None).squared_error == 0
