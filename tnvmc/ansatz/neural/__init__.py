"""Networks as wave functions, one a file, in Flax NNX; this file knows of them without JAX.

A network is chosen by its kind in `NETWORKS`, as ``[ansatz] kind`` of a settings file does;
`tnvmc.ansatz.neural.flax.FlaxAnsatz` makes a wave function of it.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PACKAGES = "'jax>=0.10,<0.11' 'flax>=0.12.8,<0.13'"
"""What pip has to install for a network."""


@dataclass(frozen=True)
class Network:
    """Where the class of a network is.

    What its keywords mean and may be stands in its constructor; those that a settings file gives,
    in `tnvmc.settings.ansatz_settings`.
    """

    module: str  #: file in this folder
    name: str  #: of the class
    autoregressive: bool = False  #: normalised, and drawn from directly

    def load(self) -> Any:
        """Import the class, and JAX with it."""
        return getattr(importlib.import_module(f"{__name__}.{self.module}"), self.name)


NETWORKS: Mapping[str, Network] = {
    "rbm": Network("rbm", "RBM"),
    "cnn": Network("cnn", "CNN"),
    "rnn": Network("rnn", "RNN", autoregressive=True),
    "patched_transformer": Network(
        "patched_transformer", "PatchedTransformer", autoregressive=True
    ),
    "vit": Network("vit", "ViT"),
}
"""Every network by its kind."""
