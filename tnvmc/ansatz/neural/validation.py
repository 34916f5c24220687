"""What a network must be before it is taken for a wave function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tnvmc.ansatz.neural.functional import Functional

Array = Any

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
    """Raise ValueError where ln psi of a configuration depends on those it is evaluated with.

    Args:
        functional: the network, whose parameters are those of seed 0 with noise on them.
        as_inputs: makes of configurations (B, N) what the network takes.

    Cost: two small programs are compiled.  Without that each operation of the network would be one,
    for both numbers of rows: 150 of a transformer.
    """
    rng = np.random.Generator(np.random.PCG64(0))
    inputs = as_inputs(
        jnp.asarray(np.triu(np.ones((_BATCH, functional.example.shape[1]), np.int8)))
    )
    noise = 0.1 * rng.normal(size=functional.n_params)
    tree = functional.unflatten(jnp.asarray(functional.flatten(functional.tree) + noise))
    log_psi = jax.jit(functional.apply, compiler_options=_QUICK)
    together = np.asarray(log_psi(tree, inputs))
    alone = np.concatenate(
        [np.asarray(log_psi(tree, inputs[k : k + 1])) for k in range(len(inputs))]
    )
    kind = together.dtype if np.issubdtype(together.dtype, np.inexact) else np.float64
    tolerance = float(np.sqrt(np.finfo(kind).eps))
    if not np.allclose(together, alone, rtol=tolerance, atol=tolerance, equal_nan=True):
        row = int(np.argmax(~np.isclose(together, alone, tolerance, tolerance, equal_nan=True)))
        raise ValueError(
            f"FlaxAnsatz: {functional.name} returns {together[row]:.6g} for a configuration among "
            f"{len(inputs)}, and {alone[row]:.6g} for it alone; each ln psi must depend on its own "
            "row only. Look for means over the first axis (batch normalisation), or for sums and "
            "reshapes over it"
        )


def check_dtype(functional: Functional, holomorphic: bool | None, dtype: str | None) -> None:
    """Raise ValueError where a parameter is real or complex against what is declared."""
    wanted = {None: None, "float64": False, "complex128": True}
    if dtype not in wanted:
        raise ValueError(f"FlaxAnsatz: dtype = {dtype!r}; a network takes float64 or complex128")
    declared = [(wanted[dtype], f"dtype = {dtype!r}")]
    declared.append((True if holomorphic else None, "holomorphic = True"))
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
