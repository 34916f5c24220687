"""Ground states of quantum lattice models: PEPS amplitudes and variational Monte Carlo.

>>> from tnvmc import PEPS, SR, SRC, VMC, Sampler, heisenberg, square

Names are loaded when they are first used, so that the import itself is quick.
"""

import importlib
from difflib import get_close_matches
from typing import Any

from tnvmc._version import __version__
from tnvmc.shown import draw_with

_NAMES_OF = {
    "tnvmc.lattice": (
        "Lattice", "chain", "checkerboard_lattice", "from_bonds", "honeycomb", "kagome", "square",
        "triangular",
    ),
    "tnvmc.operators.term": ("NonHermitian", "Operator", "Term"),
    "tnvmc.operators.order": ("order_parameter",),
    "tnvmc.operators.fermions": ("HUBBARD", "SPINLESS", "T_J"),
    "tnvmc.operators.arithmetic": ("commutator",),
    "tnvmc.lattice.permutations": ("SymmetryGroup", "checkerboard"),
    "tnvmc.operators.models": (
        "heisenberg", "hubbard", "j1j2", "rydberg", "shastry_sutherland", "tfim", "tj", "tv", "xxz",
    ),
    "tnvmc.operators.reference": ("known_energy",),
    "tnvmc.operators.symmetry": ("symmetry_group",),
    "tnvmc.exact": ("exact_ground_state", "exact_levels"),
    "tnvmc.ansatz.checks.conformance": ("check_ansatz",),
    "tnvmc.ansatz.generic": ("GenericAnsatz", "as_log_amplitude"),
    "tnvmc.ansatz.protocol": ("LogAmplitude",),
    "tnvmc.ansatz.peps.state": ("PEPS",),
    "tnvmc.ansatz.peps.symmetries": ("sharing",),
    "tnvmc.ansatz.jastrow": ("Jastrow",),
    "tnvmc.ansatz.slater": ("Slater",),
    "tnvmc.ansatz.load_state": ("from_quimb", "load_state"),
    "tnvmc.ansatz.mps": ("MPS", "PeriodicMPS"),
    "tnvmc.ansatz.product": ("ProductState",),
    "tnvmc.ansatz.wrappers.product_of_states": ("ProductOfStates",),
    "tnvmc.ansatz.wrappers.symmetrised": ("Symmetrised",),
    "tnvmc.contraction.schemes": ("SRC", "Exact", "ZipUp"),
    "tnvmc.estimate.diagnostic": ("UnreliableWarning",),
    "tnvmc.estimate.line_fit": ("fit_line",),
    "tnvmc.sampling.chains": ("Sampler",),
    "tnvmc.sampling.moves": ("moves_for",),
    "tnvmc.sampling.direct": ("DirectSampler",),
    "tnvmc.optimize.sr": ("SR",),
    "tnvmc.optimize.first_order": ("Adam", "GradientDescent"),
    "tnvmc.optimize.rule": ("Cosine",),
    "tnvmc.optimize.time_evolution": ("TimeEvolution",),
    "tnvmc.sampling.enumerate": ("Enumerate",),
    "tnvmc.session.vmc": ("VMC",),
    "tnvmc.vmc.history": ("History",),
    "tnvmc.session.lanczos": ("LanczosStep", "lanczos_step"),
    "tnvmc.session.observables": ("Observables", "measure_observables"),
    "tnvmc.session.overlaps": ("overlap",),
    "tnvmc.session.entropy": ("renyi2",),
    "tnvmc.app.load_run": ("LoadedRun", "load_run"),
    "tnvmc.app.run": ("run_file",),
    "tnvmc.app.series": ("series_file",),
    "tnvmc.trust.gaps": ("energy_gap",),
    "tnvmc.storage.run_folder": ("FolderError",),
    "tnvmc.ansatz.initial": ("initial_parameters",),
    "tnvmc.ansatz.peps.starts.simple_update": ("simple_update",),
    "tnvmc.ansatz.peps.starts.initial": ("product_parameters",),
}  # fmt: skip
_HOME = {name: (home, name) for home, names in _NAMES_OF.items() for name in names}
# The lattice and the model bear one name; the model, which is used more, keeps it here.
_HOME["shastry_sutherland_lattice"] = ("tnvmc.lattice", "shastry_sutherland")

_MODULES = {"plot": "tnvmc.plot"}

_NETWORKS = {
    "FlaxAnsatz": "flax", "RBM": "rbm", "CNN": "cnn", "ViT": "vit", "RNN": "rnn",
    "PatchedTransformer": "patched_transformer",
}  # fmt: skip
"""They need JAX and Flax, so that ``from tnvmc import *`` leaves them out."""

__all__ = ["__version__", *sorted(_HOME), *_MODULES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _NETWORKS:
        return _network(name)
    if name not in _HOME:
        raise AttributeError(f"module 'tnvmc' has no attribute {name!r}{_meant(name)}")
    module, original = _HOME[name]
    value = getattr(importlib.import_module(module), original)
    globals()[name] = value
    return value


def _meant(name: str) -> str:
    known = {each.lower(): each for each in __all__}
    close = get_close_matches(name.lower(), known, 1, 0.75)
    return f"; did you mean {known[close[0]]!r}?" if close else ""


def _network(name: str) -> Any:
    try:
        module = importlib.import_module(f"tnvmc.ansatz.neural.{_NETWORKS[name]}")
    except ImportError as error:
        raise ImportError(
            f"tnvmc.{name} needs JAX and Flax, which cannot be imported here ({error}); install "
            "them with: pip install 'jax>=0.10,<0.11' 'flax>=0.12.8,<0.13'"
        ) from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_NETWORKS})


draw_with(lambda: importlib.import_module(_MODULES["plot"]))
