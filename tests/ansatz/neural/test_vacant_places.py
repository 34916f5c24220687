"""Networks on a lattice with vacant places: those that read the grid refuse it, the others take it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("flax")

from tnvmc import FlaxAnsatz, ProductState, check_ansatz
from tnvmc.ansatz.neural import NETWORKS
from tnvmc.ansatz.neural.autoregressive import snake
from tnvmc.lattice import kagome

LATTICE = kagome(3, 3)


def network(kind: str, **keys: Any) -> FlaxAnsatz:
    made = NETWORKS[kind].load()
    return FlaxAnsatz(LATTICE, lambda rngs: made(LATTICE, rngs=rngs, **keys))


@pytest.mark.parametrize(
    ("kind", "keys"),
    [("cnn", {}), ("vit", {"patch": 1}), ("patched_transformer", {"patch": 1}), ("rnn", {"order": "2d"})],
)  # fmt: skip
def test_networks_of_the_grid_refuse(kind: str, keys: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="without a spin"):
        network(kind, **keys)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("kind", "keys"), [("rbm", {}), ("rnn", {"order": "snake", "hidden": 3, "output": "complex"})]
)
def test_others_have_one_input_a_site(kind: str, keys: dict[str, Any]) -> None:
    ansatz = network(kind, **keys)
    check_ansatz(ansatz, ansatz.initial(None, 0))  # type: ignore[arg-type]


def test_a_snake_skips_vacant_places() -> None:
    assert [site for (site,) in snake(LATTICE)] == [0, 1, 2, 4, 3, 5, 6, 7]


def test_products() -> None:
    product = ProductState(LATTICE)
    check_ansatz(product, np.random.default_rng(0).normal(size=product.n_params))
