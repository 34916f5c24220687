"""Planned contractions against numpy.einsum."""

from __future__ import annotations

import numpy as np
import pytest

from tnvmc.backend.contract import contract

ROUNDING = 1e-12


@pytest.mark.parametrize("equation", ["ij,jk,kl->il", "abc,dbe,cef->adf", "xi,xj->xij", "ij->ji"])
@pytest.mark.parametrize("is_complex", [False, True])
def test_contractions_agree_with_einsum(equation: str, is_complex: bool) -> None:
    rng = np.random.default_rng(0)
    groups = equation.partition("->")[0].split(",")
    for size in (2, 3):  # a plan per shape
        tensors = [rng.normal(size=[size] * len(group)) for group in groups]
        if is_complex:
            tensors = [tensor + 1j * rng.normal(size=tensor.shape) for tensor in tensors]
        expected = np.einsum(equation, *tensors)
        assert np.allclose(contract(equation, *tensors), expected, atol=ROUNDING)


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ValueError):
        contract("ij,jk->ik", np.ones((2, 3)), np.ones((4, 2)))
