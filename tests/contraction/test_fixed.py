"""Fixed projectors: a site and its adjoint, cuts that lose little, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from tnvmc.contraction.fixed import Fixed, FixedSite, advance, projectors

ROUNDING = 1e-12


def _random(shape: tuple[int, ...], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def _site(seed: int = 0) -> FixedSite:
    """d = 2, legs left 2, up 3, down 4, right 5; boundary 6 and 7; new bonds 8 and 9."""
    table, left, right = (2, 2, 3, 4, 5), (8, 2, 6), (7, 5, 9)
    return FixedSite(_random(table, seed), _random(left, seed + 1), _random(right, seed + 2))


BOUNDARY, SPINS = _random((3, 6, 3, 7), 5), np.array([0, 1, 1])


def test_a_site_is_absorbed_between_its_projectors() -> None:
    site = _site()
    expected = np.einsum(
        "xla,naub,nludr,bry->nxdy", site.left, BOUNDARY, site.table[SPINS], site.right
    )
    assert np.allclose(site.absorb(BOUNDARY, SPINS), expected, rtol=ROUNDING)


def test_the_adjoint_holds_both_derivatives() -> None:
    site, outer = _site(), _random((3, 8, 4, 9), 7)
    inner, hole = site.adjoint(BOUNDARY, SPINS, outer)
    terms = site.left, site.table[SPINS], site.right, outer
    assert np.allclose(inner, np.einsum("xla,nludr,bry,nxdy->naub", *terms), rtol=ROUNDING)
    terms = site.left, BOUNDARY, site.right, outer
    assert np.allclose(hole, np.einsum("xla,naub,bry,nxdy->nludr", *terms), rtol=ROUNDING)


def test_a_column_joins_its_ends_at_the_middle() -> None:
    left, top, bottom = _random((3, 2, 4), 1), _random((3, 2, 3, 5), 2), _random((3, 4, 3, 6), 3)
    expected = np.einsum("npq,npva,nqvb->nab", left, top, bottom)
    assert np.allclose(advance(left, top, bottom), expected, rtol=ROUNDING)


@pytest.mark.parametrize("rank", [1, 3])
def test_a_cut_loses_nothing_where_the_rank_suffices(rank: int) -> None:
    """Sides that pass through `rank` numbers are cut to it without loss, whatever basis they are in."""
    through = _random((rank, 8), 3)
    lefts = np.einsum("kgr,rn->kng", _random((6, 4, rank), 1), through)
    rights = _random((6, 8, 5), 2)
    p, q = projectors(lefts, rights, 4)
    assert p.shape == (8, rank)
    uncut = np.einsum("kng,knh->kgh", lefts, rights)
    assert np.allclose(np.einsum("kng,nm,kmh->kgh", lefts, p @ q, rights), uncut, rtol=1e-9)


def test_a_cut_keeps_what_weighs_most() -> None:
    """Singular values 1, 1/4, 1/16, ...: what is lost falls as the next of them does."""
    rng = np.random.default_rng(0)
    scales = 4.0 ** -np.arange(8)
    lefts, rights = (rng.normal(size=(40, 8, 4)) * scales[None, :, None] ** 0.5 for _ in range(2))
    uncut = np.einsum("kng,knh->kgh", lefts, rights)

    def lost(chi: int) -> float:
        p, q = projectors(lefts, rights, chi)
        found = np.einsum("kng,nm,kmh->kgh", lefts, p @ q, rights)
        return float(np.linalg.norm(found - uncut) / np.linalg.norm(uncut))

    # A factor 3 for the finite sample of sides.
    assert all(lost(chi) < 3 * scales[chi] for chi in (1, 2, 4, 6))


def test_parts_of_any_size_count_the_same() -> None:
    lefts, rights = _random((6, 8, 4), 1), _random((6, 8, 5), 2)
    one = projectors(lefts, rights, 3)
    sizes = 10.0 ** np.arange(-60, 60, 20)[:, None, None]
    other = projectors(lefts * sizes, rights / sizes, 3)
    assert np.allclose(one[0] @ one[1], other[0] @ other[1], rtol=1e-9)


def test_nothing_is_left_of_a_network_that_vanishes() -> None:
    p, q = projectors(np.zeros((3, 8, 2)), np.zeros((3, 8, 2)), 4)
    assert np.isfinite(p).all() and np.isfinite(q).all()


@pytest.mark.parametrize("keywords", [{"chi": 0}, {"chi": 4, "n_drawn": 0}, {"chi": 4, "seed": -1}])
def test_settings_out_of_range_are_refused(keywords: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=list(keywords)[-1]):
        Fixed(**keywords)
