"""Networks as wave functions, one a file, in Flax NNX; this file knows of them without JAX.

A network is chosen by its kind in `NETWORKS`, as ``[ansatz] kind`` of a settings file does;
`tnvmc.ansatz.neural.flax.FlaxAnsatz` makes a wave function of it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_OUTPUT = ("real", "complex")


@dataclass(frozen=True)
class Network:
    """A network by name: where its class is, and the keywords that settings may give it.

    All keywords but `lattice`, `local_dim` and `rngs` stand in `settings` with their defaults; a
    test holds them against the constructor.
    """

    module: str  #: file in this folder
    name: str  #: of the class
    settings: Mapping[str, Any]
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  #: of those that are words
    autoregressive: bool = False  #: normalised, and drawn from directly

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Types that the parameters may have."""
        return self.choices.get("dtype", ("float64",))

    def load(self) -> Any:
        """Import the class, and JAX with it."""
        return getattr(importlib.import_module(f"{__name__}.{self.module}"), self.name)


NETWORKS: Mapping[str, Network] = {
    "rbm": Network(
        "rbm",
        "RBM",
        {
            "alpha": 1.0,
            "form": "log_cosh",
            "dtype": "complex128",
            "visible_bias": True,
            "hidden_bias": True,
            "init_scale": 0.01,
        },
        {"form": ("binary", "log_cosh"), "dtype": ("float64", "complex128")},
    ),
    "cnn": Network(
        "cnn",
        "CNN",
        {
            "features": (8, 8),
            "kernel": 3,
            "stride": 1,
            "padding": "lattice",
            "pooling": "none",
            "pool": 2,
            "activation": "gelu",
            "residual": False,
            "head": "sum",
            "dense": (),
            "output": "complex",
        },
        {
            "padding": ("lattice", "periodic", "zero"),
            "pooling": ("none", "max", "average"),
            "activation": ("sigmoid", "relu", "gelu", "log_cosh"),
            "head": ("flatten", "sum"),
            "output": _OUTPUT,
        },
    ),
    "made": Network(
        "made",
        "MADE",
        {"features": (128,), "output": "real", "magnetisation": None},
        {"output": _OUTPUT},
        autoregressive=True,
    ),
    "rnn": Network(
        "rnn",
        "RNN",
        {"hidden": 32, "order": "2d", "output": "real", "magnetisation": None},
        {"order": ("snake", "2d"), "output": _OUTPUT},
        autoregressive=True,
    ),
    "patched_transformer": Network(
        "patched_transformer",
        "PatchedTransformer",
        {
            "width": 32,
            "heads": 8,
            "layers": 2,
            "patch": 2,
            "attention": "softmax",
            "inner": 0,
            "output": "real",
            "magnetisation": None,
        },
        {"attention": ("softmax", "linear"), "output": _OUTPUT},
        autoregressive=True,
    ),
    "vit": Network(
        "vit",
        "ViT",
        {
            "width": 24,
            "heads": 4,
            "layers": 2,
            "patch": 2,
            "attention": "factored",
            "output": "complex",
        },
        {"attention": ("t5", "decoupled", "factored"), "output": _OUTPUT},
    ),
}
"""Every network by its kind."""
