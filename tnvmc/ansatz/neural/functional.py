"""Any Flax module as a pure function of one flat vector: NNX or Linen, real or complex
parameters."""

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx

from tnvmc.backend import progress

jax.monitoring.register_event_duration_secs_listener(progress.on_jax_event)
Array = Any
Tree = Any


@dataclass(frozen=True)
class Leaf:
    """One array of parameters."""

    path: tuple[str, ...]  #: ("blocks", "0", "kernel")
    shape: tuple[int, ...]
    is_complex: bool
    n_pieces: int  #: in theta: two where real and imaginary parts are apart

    @property
    def size(self) -> int:
        """Number of entries, each of which is two real parameters where it is split."""
        return math.prod(self.shape)


class Functional:
    """A network with its parameters taken out: apply(tree, inputs), and tree <-> theta.

    `network` is a Linen module, an NNX module, or a function ``rngs -> NNX module``.  `example`
    are inputs (1, N).  theta holds the leaves one after another in the order of `leaves`; of a
    complex leaf that is not `holomorphic` first all real parts, then all imaginary parts.
    Everything that is not a parameter (batch statistics, random keys) stays as seed 0 made it.
    """

    def __init__(self, network: Any, example: Array, holomorphic: bool | None) -> None:
        self.network, self.example = network, example
        # Whatever is not a parameter belongs to psi: it stays that of seed 0, for every theta.
        self.made, self._graph, self.tree, self._rest = self._made(0)
        self.name = type(self.made).__name__
        if holomorphic is None:  # a module may say so itself
            holomorphic = bool(getattr(self.made, "holomorphic", False))
        self.holomorphic = holomorphic
        flat, self._structure = jax.tree_util.tree_flatten_with_path(self.tree)
        leaves = []
        for path, leaf in flat:
            is_complex = jnp.iscomplexobj(leaf)
            n_pieces = 2 if is_complex and not holomorphic else 1
            leaves.append(Leaf(_names(path), tuple(leaf.shape), is_complex, n_pieces))
        if not leaves:
            raise ValueError(f"FlaxAnsatz: {self.name} has no parameters")
        self.leaves = tuple(leaves)
        self.n_params = sum(leaf.size * leaf.n_pieces for leaf in leaves)  #: length P of theta
        self.dtype = np.dtype("complex128" if holomorphic else "float64")  #: of theta

    def random(self, seed: int) -> np.ndarray:
        """Give theta (P,) as the module initialises itself; an NNX module has one start only."""
        return self.flatten(self._made(seed)[2])

    def flatten(self, tree: Tree) -> np.ndarray:
        """theta (P,) of a tree of parameters."""
        parts = []
        for leaf, array in zip(self.leaves, jax.tree.leaves(tree), strict=True):
            flat = np.asarray(array).ravel()
            parts += [flat] if leaf.n_pieces == 1 else [flat.real, flat.imag]
        return np.concatenate(parts).astype(self.dtype)

    def unflatten(self, theta: Array) -> Tree:
        """The tree of parameters of theta (P,); traceable."""
        return self.assemble(self.pieces(theta))

    def pieces(self, theta: Array) -> list[Array]:
        """theta (P,) cut into arrays: one a leaf, two where a complex leaf is split; traceable."""
        arrays, start = [], 0
        if theta.shape != (self.n_params,):
            raise ValueError(f"theta has shape {theta.shape}, {self.name} ({self.n_params},)")
        for leaf in self.leaves:
            for _ in range(leaf.n_pieces):
                arrays.append(theta[start : start + leaf.size].reshape(leaf.shape))
                start += leaf.size
        return arrays

    def assemble(self, pieces: Sequence[Array]) -> Tree:
        """The tree of parameters of its pieces; traceable."""
        rest = iter(pieces)
        arrays = [
            next(rest) if leaf.n_pieces == 1 else jax.lax.complex(next(rest), next(rest))
            for leaf in self.leaves
        ]
        return jax.tree.unflatten(self._structure, arrays)

    def within(self, groups: Sequence[str]) -> list[bool]:
        """For each piece whether its path begins with one of the `groups`."""
        beginnings = [tuple(group.split(".")) for group in groups]
        return [
            any(leaf.path[: len(names)] == names for names in beginnings)
            for leaf in self.leaves
            for _ in range(leaf.n_pieces)
        ]

    def module(self, tree: Tree) -> Any:
        """The module with these parameters: an NNX module, or a bound Linen module."""
        if self._graph is None:
            return self.network.bind({"params": tree, **self._rest})
        return nnx.merge(self._graph, tree, self._rest)

    def apply(self, tree: Tree, inputs: Array) -> Array:
        """What the module returns for inputs (B, N)."""
        return self.module(tree)(inputs)

    def _made(self, seed: int) -> tuple[Any, Any, Tree, Any]:
        """Module, its graph (NNX), parameters and the rest, made from a seed, on the host."""
        with jax.default_device(jax.devices("cpu")[0]):
            given = self.network
            if isinstance(given, linen.Module):
                variables = dict(given.init(jax.random.key(seed), self.example))
                return given, None, variables.pop("params", {}), variables
            module = given if isinstance(given, nnx.Module) else _called(given, nnx.Rngs(seed))
            parts: Any = nnx.split(module, nnx.Param, ...)
            return module, *parts


def _called(make: Any, rngs: nnx.Rngs) -> Any:
    """Call make(rngs); TypeError with what to give if `make` takes something else."""
    name, is_class = getattr(make, "__name__", type(make).__name__), inspect.isclass(make)
    if is_class and issubclass(make, linen.Module):
        raise TypeError(f"FlaxAnsatz: {name} is a Linen class; give an instance, {name}(...)")
    example = name if is_class else "MLP"
    wanted = f"give an instance, or a function of rngs: lambda rngs: {example}(..., rngs=rngs)"
    if not callable(make):
        raise TypeError(f"FlaxAnsatz: network is of type {name}, and no Flax module; {wanted}")
    try:
        inspect.signature(partial(make.__init__, None) if is_class else make).bind(rngs)
    except TypeError as error:
        message = f"FlaxAnsatz: {name}(rngs) cannot be called: {error}; {wanted}"
        raise TypeError(message) from None
    return make(rngs)


def _names(path: tuple[Any, ...]) -> tuple[str, ...]:
    """Keys of a path in a tree, without NNX's last one, which leads into the variable."""
    keys = [str(getattr(key, "key", getattr(key, "name", key))) for key in path]
    return tuple(keys[:-1] if keys[-1] == "value" else keys)


_BATCH = 3
_QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Options of the compiler for what is called a few times."""


def check_output(functional: Functional, example: Array) -> None:
    """Raise ValueError unless inputs (3, N), made of `example` (1, N), give ln psi (3,)."""
    inputs = jnp.zeros((_BATCH, *example.shape[1:]), example.dtype)
    found = jax.eval_shape(lambda x: functional.apply(functional.tree, x), inputs)
    shape = getattr(found, "shape", type(found).__name__)
    if shape != (_BATCH,):
        raise ValueError(
            f"FlaxAnsatz: {functional.name} returned {shape} for {_BATCH} configurations, it must "
            f"return ln psi of shape ({_BATCH},); sum over the last axis, or take [:, 0]"
        )


def check_rows(functional: Functional, as_inputs: Callable[[Array], Array]) -> None:
    """Raise ValueError where ln psi of a configuration depends on those it is evaluated with, or
    lacks an invariance that the network tells.

    Two small programs are compiled: otherwise each operation of the network would be one, for both
    numbers of rows, 150 of a transformer.
    """
    rng = np.random.Generator(np.random.PCG64(0))
    inputs = as_inputs(
        jnp.asarray(np.triu(np.ones((_BATCH, functional.example.shape[1]), np.int8)))
    )
    noise = 0.1 * rng.normal(size=functional.n_params)
    tree = functional.unflatten(jnp.asarray(functional.flatten(functional.tree) + noise))
    log_psi = jax.jit(functional.apply, compiler_options=_QUICK)
    together = np.asarray(log_psi(tree, inputs))
    alone = np.concatenate([np.asarray(log_psi(tree, row[None])) for row in inputs])
    kind = together.dtype if np.issubdtype(together.dtype, np.inexact) else np.float64
    tolerance = float(np.sqrt(np.finfo(kind).eps))
    limits: Any = {"rtol": tolerance, "atol": tolerance, "equal_nan": True}
    parts = [np.isclose(of(together), of(alone), **limits) for of in (np.real, np.imag)]
    if not np.all(parts):  # of each part: ln 0 is minus infinity with any phase
        row = int(np.argmin(np.all(parts, axis=0)))
        raise ValueError(
            f"FlaxAnsatz: {functional.name} returns {together[row]:.6g} for a configuration among "
            f"{len(inputs)}, and {alone[row]:.6g} for it alone; each ln psi must depend on its own "
            "row only. Look for means over the first axis (batch normalisation), or for sums and "
            "reshapes over it"
        )
    rows = getattr(functional.module(tree), "invariances", lambda: ())()
    for row in rows[:: max(1, len(rows) // _BATCH)]:  # of a class that inherits them, too
        if not np.allclose(np.real(log_psi(tree, inputs[:, row])), np.real(together), **limits):
            raise ValueError(
                f"FlaxAnsatz: {functional.name} changes where its sites are rearranged by a row of "
                "its invariances(); give that method as what the network really has"
            )


def check_dtype(functional: Functional, dtype: str | None) -> None:
    """Raise ValueError where a parameter is real or complex against what is declared."""
    wanted = {None: None, "float64": False, "complex128": True}
    if dtype not in wanted:
        raise ValueError(f"FlaxAnsatz: dtype = {dtype!r}; a network takes float64 or complex128")
    holomorphic = functional.holomorphic or None
    declared = (wanted[dtype], f"dtype = {dtype!r}"), (holomorphic, "holomorphic = True")
    for needed, said in declared:
        wrong = [leaf for leaf in functional.leaves if leaf.is_complex != needed]
        if needed is not None and wrong:
            raise ValueError(
                f"FlaxAnsatz: {said}, but parameter '{'.'.join(wrong[0].path)}' of "
                f"{functional.name} is {'complex' if wrong[0].is_complex else 'real'}; change the "
                "one or the other"
            )


def check_holomorphic(functional: Functional, log_psi: Callable[[Array, Array], Array]) -> None:
    """Raise ValueError where the derivative of ln psi along i v is not i times that along v."""
    rng = np.random.Generator(np.random.PCG64(0))
    v = rng.normal(size=functional.n_params)
    start = jnp.asarray(functional.random(0) + 0.1 * v)
    n_sites = functional.example.shape[1]
    configs = jnp.asarray(rng.integers(2, size=(4, n_sites), dtype=np.int8))

    def along(direction: Array) -> np.ndarray:
        tangent = (jnp.asarray(direction, complex),)
        return np.asarray(jax.jvp(lambda theta: log_psi(theta, configs), (start,), tangent)[1])

    real, imaginary = along(v), along(1j * v)
    if not np.allclose(imaginary, 1j * real, rtol=1e-6, atol=1e-9, equal_nan=True):
        raise ValueError(
            f"FlaxAnsatz: {functional.name} is not holomorphic in its parameters (the derivative "
            f"along i v is {imaginary[0]:.6g}, i times that along v is {1j * real[0]:.6g}); leave "
            "holomorphic = True away"
        )


def check_groups(functional: Functional, groups: Sequence[str]) -> None:
    """Raise ValueError for a group that the network lacks, or if nothing is left free."""
    for group in groups:
        if not any(functional.within([group])):
            known = sorted({leaf.path[0] for leaf in functional.leaves})
            raise ValueError(
                f"FlaxAnsatz: freeze = '{group}': {functional.name} has no such group of "
                f"parameters; it has {', '.join(known)}"
            )
    if functional.leaves and groups and all(functional.within(groups)):
        raise ValueError(
            f"FlaxAnsatz: freeze = {list(groups)} leaves no parameter to optimise; "
            "take one of them out"
        )
