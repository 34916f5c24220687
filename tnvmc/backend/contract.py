"""Contractions of several tensors in an order that is planned once per shape."""

from __future__ import annotations

from functools import cache
from typing import Any

import opt_einsum

Array = Any


def contract(equation: str, *tensors: Array) -> Array:
    """Contract tensors by Einstein's summation, pair by pair in the cheapest order.

    The order is found by opt_einsum (Smith and Gray, JOSS 3(26), 753 (2018)), once for an equation
    and the shapes; it is the best one for up to four tensors.  Pairs are matrix products.  Not
    for batches: an index that stays and stands in two tensors makes a loop without BLAS.

    Args:
        equation: indices of each tensor and of the result, such as "ij,jk->ik".
        tensors: one array per group of indices, all NumPy or all CuPy.

    Returns:
        An array with the indices after the arrow.

    Raises:
        ValueError: shapes that do not fit the equation.
    """
    return _planned(equation, *(tensor.shape for tensor in tensors))(*tensors)


@cache
def _planned(equation: str, *shapes: tuple[int, ...]) -> Any:
    return opt_einsum.contract_expression(equation, *shapes, optimize="auto")
