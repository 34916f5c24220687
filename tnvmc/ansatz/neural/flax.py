"""Any Flax module as a wave function.

JAX is imported in this folder alone.  Importing this file switches JAX to double
precision and keeps it from taking the whole memory of a GPU.
"""

import os
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Literal

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np

from tnvmc.ansatz.generic import GenericAnsatz
from tnvmc.ansatz.neural.architectures import MAKINGS
from tnvmc.ansatz.neural.batches import (
    MOST_DRAWN,
    ONE_THREAD,
    in_batches,
    in_blocks,
    largest_batch,
    power_below,
    rows_in_cache,
    to_jax,
)
from tnvmc.ansatz.neural.compiled_sweeps import CompiledSweeps
from tnvmc.ansatz.neural.functional import (
    Functional,
    check_dtype,
    check_groups,
    check_holomorphic,
    check_output,
    check_rows,
)
from tnvmc.ansatz.neural.symmetry_average import Orbits, SymmetryAverage
from tnvmc.ansatz.protocol import Draw, Execution, LogAmplitude, code_of
from tnvmc.backend.arguments import whole
from tnvmc.backend.namespace import array_namespace, distinct_rows, is_cupy, require_states
from tnvmc.lattice.lattice import Lattice, Patch, require_lattice
from tnvmc.lattice.permutations import SymmetryGroup
from tnvmc.operators.symmetry import require_symmetric
from tnvmc.operators.term import Operator
from tnvmc.storage.identity import plain

jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]

Array = Any

_LARGEST_CHUNK = 4096
"""Walkers with all their images that are kept in memory at once."""

_JACOBIAN_BYTES, _JACOBIAN_BYTES_ON_A_GPU = 2**28, 2**32
"""Of log-derivatives that one call returns; what it needs on the way is several times as much."""


_LAST_LAYERS = ("readout", "head")
"""Groups of parameters of the last layers of the networks here."""


class FlaxAnsatz(CompiledSweeps, GenericAnsatz):
    """psi(s) = exp(network(s)) for a Flax module, Linen or NNX, with a flat theta.

    Args:
        lattice: the sites.
        network: a Linen module, an NNX module, or a function ``rngs -> NNX module`` (which can
            start from any seed).  Called with a batch (B, N) it returns ln psi (B,), real or
            complex; a real part of -inf means psi = 0.
        local_dim: local dimension d.
        inputs: what the network is given: "states", the integers 0..d-1 of a configuration, or
            "spins", the floats 2 Sz = d - 1 - 2 s (for d = 2: up +1, down -1), as models of NetKet
            want them.
        holomorphic: complex parameters in which ln psi is holomorphic: theta is complex then, and
            log-derivatives cost half.  Otherwise real and imaginary parts of complex parameters
            are two real parameters each.  By default what the module says (an RBM: yes), else no.
        dtype: what theta is declared to be, "float64" or "complex128"; None takes what comes.
        signs: (N,) of 0 and 1, a sublattice: psi is multiplied by (-1)^(sum of the states there),
            which for the two sublattices of a square lattice is the rule of Marshall (Proc. R. Soc.
            A 232, 48 (1955)).
        group: psi is averaged over these symmetries with their characters; the signs come after.
            For a module that can be drawn from, the densities are averaged, so that it still can;
            that takes its ``log_prob(configs, total)`` as well.
            A module with ``invariances() -> (n, N)``, all rearrangements of the sites that leave it
            as it is, is not evaluated on images that differ by one; a Hamiltonian must have them.
        freeze: groups of parameters (beginnings of paths, "embedding" or "blocks.0") whose
            log-derivatives are 0, so that no rule moves them.
        architecture: what the network is, in plain values, for checkpoints; by default the class
            and the shapes of its parameters.

    Arrays come and go as NumPy or CuPy arrays; on a GPU they cross by dlpack without a copy.
    Everything is compiled once per shape; batches are padded to powers of two.  A module with
    ``draw(uniforms, total) -> (configs, log_prob)`` (`neural.autoregressive`) can be sampled
    directly: from |psi|^2 itself, unless draws are kept in a sector that the module is not.  One
    that vanishes outside a sector has the sum of the states there as its ``total``.

    Raises:
        ValueError: a module that returns another shape than (B,), or (without `architecture`) whose
            ln psi of one configuration depends on the others of a batch; parameters that do not fit
            `holomorphic` and `dtype`; an unknown group in `freeze`; signs other than 0 and 1.
        TypeError: a network that is no Flax module and makes none.

    What it does not do: single precision; modules that change while they are called (dropout,
    statistics that are updated); functions that are not differentiable.

    Source: log-derivatives with real, holomorphic and other parameters as in Vicentini et al.,
    SciPost Phys. Codebases 7 (2022), with the convention of `optimize.rule` (no factor 2).
    """

    walks = True
    n_params = 0  #: length P of theta
    dtype: Any = None  #: of theta

    @property
    def kept_by(self) -> tuple[Patch, ...]:
        return self.averaging.kept_by

    def __init__(
        self, lattice: Lattice, network: Any, *, local_dim: int = 2,
        inputs: Literal["states", "spins"] = "states", holomorphic: bool | None = None,
        dtype: str | None = None, signs: Sequence[int] | None = None,
        group: SymmetryGroup | None = None, freeze: Sequence[str] = (),
        architecture: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        require_lattice("FlaxAnsatz", lattice)
        self.lattice, self.inputs = lattice, inputs
        self.local_dim = whole("FlaxAnsatz", "local_dim", local_dim, 2)
        example = self._as_inputs(jnp.zeros((1, lattice.n_sites), jnp.int8))
        self.functional = Functional(network, example, holomorphic)
        self.n_params, self.dtype = self.functional.n_params, self.functional.dtype
        check_dtype(self.functional, dtype)
        check_output(self.functional, example)
        own = "module" in (architecture or {"module": None})
        if own:  # a module of the user's own
            check_rows(self.functional, self._as_inputs)
        module = self.functional.module(self.functional.tree)
        can_draw = hasattr(module, "draw")
        alike = module.invariances() if hasattr(module, "invariances") else None
        self.averaging = SymmetryAverage(
            group, signs, self.local_dim, lattice.n_sites, can_draw, alike
        )
        self.averaging.check_sector(getattr(module, "total", None))
        moved = [*(() if alike is None else alike), *self.averaging.places]
        self.built_in = tuple(dict.fromkeys(tuple(map(int, row)) for row in moved))
        self.signed = None if (self.averaging.characters < 0).any() else signs is not None
        self.orbits = Orbits(self.averaging, self.local_dim, lattice.n_sites)
        self.rows_per_call = 2**18 if self.orbits.useful else 2**16  # many share an orbit
        self.freeze = tuple(freeze)
        check_groups(self.functional, self.freeze)
        self.architecture = {**(self._shapes() if own else {}), **(architecture or {})}
        if self.functional.holomorphic:
            check_holomorphic(self.functional, lambda theta, x: self._signed_log(theta, x)[1])
        self.exact_draws = True if can_draw else None

    def for_operator(self, operator: Any) -> Any:
        """Give itself, for an operator that has the symmetries of the average."""
        if (group := self.averaging.group) is not None:
            make = "symmetry_group(hamiltonian, ...)"
            require_symmetric("FlaxAnsatz: group", operator, group.elements, make)
        return self

    def random(self, seed: int = 0) -> np.ndarray:
        """Give theta (P,), on the host, as the module initialises itself."""
        return self.functional.random(seed)

    def module(self, theta: Array) -> Any:
        """Give the module with parameters theta (P,): an NNX module, or a bound Linen module."""
        return self.functional.module(self.functional.unflatten(jnp.asarray(to_jax(theta))))

    @property
    def readout(self) -> np.ndarray | None:
        """Which parameters belong to the last layer: (P,) bool; None if no group is named so."""
        sizes = [piece.size for piece in self.functional.pieces(np.zeros(self.n_params))]
        of_pieces = self.functional.within(_LAST_LAYERS)
        return np.repeat(of_pieces, sizes) if any(of_pieces) else None

    def __repr__(self) -> str:
        images = self.averaging.n_images
        average = f", average of {images} images" if images > 1 else ""
        size = f"{self.lattice.kind} {self.lattice.size}"
        name = f"FlaxAnsatz {self.functional.name}"
        return f"<{name}: {size}, {self.dtype.name}{average}; {self.n_params} parameters>"

    @cached_property
    def execution(self) -> Execution:
        """Chunks one after another, smaller where a configuration has many images.

        The memory of a walker is, roughly, its row of the Jacobian, the replaced configurations of
        a measurement, and what a network computes on the way from all images.
        """
        n_sites, n_images = self.lattice.n_sites, self.averaging.n_images
        in_all = 32 * self.n_params + 16 * n_sites**2 + 2048 * n_sites * n_images
        return Execution(power_below(_LARGEST_CHUNK // n_images), in_all, own_threads=True)

    def description(self) -> dict[str, Any]:
        return {"ansatz": "FlaxAnsatz", "architecture": plain(self.architecture)}

    def rebuild(self) -> dict[str, Any] | None:
        try:
            kind, lattice, keywords = MAKINGS[self.functional.made]
            keywords = plain(keywords)
        except (KeyError, TypeError):  # no weak reference, or keywords that JSON does not know
            return None
        if lattice != self.lattice:
            return None
        group, signs = self.averaging.group, self.averaging.signs
        return {
            "network": kind,
            "keywords": keywords,
            "architecture": dict(self.architecture),
            "inputs": self.inputs,
            "holomorphic": self.functional.holomorphic,
            "signs": None if signs is None else signs.tolist(),
            "group": [
                [list(map(int, g.sites)), bool(g.inverts), int(g.character), str(g.name)]
                for g in (() if group is None else group.elements)
            ],
            "freeze": list(self.freeze),
        }

    def orbit_classes(self, configs: np.ndarray, operator: Operator) -> Any:
        return self.orbits.classes(configs, operator)

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """psi(s) for configurations (B, N); one evaluation for each orbit of a small lattice.

        What can be drawn directly gives many equal configurations: each is evaluated once.
        """
        require_states(configs, self.lattice.n_sites, self.local_dim)
        if not self._by_orbit(configs):
            if not self.exact_draws:
                return LogAmplitude(*self._amplitudes(theta, configs))
            distinct, which = distinct_rows(configs)
            return LogAmplitude(*self._amplitudes(theta, distinct)).take(which)
        members, which, signs = self.orbits.representatives(configs)
        phase, log_abs = self._amplitudes(theta, members)
        return LogAmplitude(phase[which] * signs, log_abs[which])

    def log_derivatives(self, theta: Array, configs: Array) -> Array:
        """O_k(s) = d ln psi(s) / d theta_k, (B, P), zero where psi = 0 and where frozen.

        Cost: one backward pass per sample, two for real theta and complex psi.
        """
        require_states(configs, self.lattice.n_sites, self.local_dim)
        if not self._by_orbit(configs):
            return self._all_derivatives(theta, configs)
        members, which, _ = self.orbits.representatives(configs)
        return self._all_derivatives(theta, members)[which]

    def _by_orbit(self, configs: Array) -> bool:
        return self.orbits.useful and array_namespace(configs) is np

    @cached_property
    def _log_psi(self) -> Any:
        return jax.jit(self._polar, static_argnames="block", compiler_options=ONE_THREAD)

    @cached_property
    def _derivatives(self) -> Any:
        return jax.jit(self._log_derivatives, static_argnames="block", compiler_options=ONE_THREAD)

    def _polar(
        self, theta: Array, configs: Array, n_rows: Array | int, block: int | None
    ) -> tuple[Array, Array]:
        """Phase (B,) and ln|psi| (B,) of the first rows, `block` at a time."""
        sign, log_psi = in_blocks(partial(self._signed_log, theta), configs, block, n_rows)
        log_abs = jnp.real(log_psi)
        zero = jnp.isneginf(log_abs)
        if jnp.iscomplexobj(log_psi):
            sign = sign * jnp.exp(1j * jnp.where(zero, 0.0, jnp.imag(log_psi)))
        return jnp.where(zero, 0.0, sign), log_abs

    def _signed_log(self, theta: Array, configs: Array) -> tuple[Array, Array]:
        """Signs (B,) and ln of psi over its sign (B,), real or complex."""
        return self._signed_log_of(self.functional.unflatten(theta), configs)

    def _signed_log_of(self, tree: Any, configs: Array) -> tuple[Array, Array]:
        return self.averaging.average(partial(self._network, tree), configs)

    def _network(self, tree: Any, configs: Array) -> Array:
        return self.functional.apply(tree, self._as_inputs(configs))

    def _log_derivatives(
        self, theta: Array, configs: Array, n_rows: Array | int, block: int | None
    ) -> tuple[Array]:
        """O (B, P) of the first rows, `block` at a time.

        By pieces of theta: through one flat vector every piece of every sample would be padded to
        P.
        """
        pieces, frozen = self.functional.pieces(theta), self.functional.within(self.freeze)

        def log_psi(moving: list[Array], config: Array) -> Array:
            rest = iter(moving)
            whole = [p if fixed else next(rest) for p, fixed in zip(pieces, frozen, strict=True)]
            return self._signed_log_of(self.functional.assemble(whole), config[None])[1][0]

        moving = [p for p, fixed in zip(pieces, frozen, strict=True) if not fixed]

        def rows_of(configs: Array) -> Array:
            found = iter(jax.vmap(partial(_gradient, log_psi), in_axes=(None, 0))(moving, configs))
            n = configs.shape[0]
            columns = [
                jnp.zeros((n, piece.size)) if fixed else next(found).reshape(n, -1)
                for piece, fixed in zip(pieces, frozen, strict=True)
            ]
            zero = jnp.isneginf(jnp.real(self._signed_log(theta, configs)[1]))
            return jnp.where(zero[:, None], 0.0, jnp.concatenate(columns, axis=1))

        return (in_blocks(rows_of, configs, block, n_rows),)

    def _block(self, rows: Array) -> int | None:
        """Configurations that the network is given at once where these rows are."""
        each = self._in_cache // self.averaging.n_images
        return None if is_cupy(rows) else 1 << max(each, 1).bit_length() - 1

    @cached_property
    def _in_cache(self) -> int:
        network = partial(self._network, self.functional.tree)
        return rows_in_cache(network, jnp.zeros((1, self.lattice.n_sites), jnp.int8))

    def _amplitudes(self, theta: Array, configs: Array) -> list[Array]:
        block = self._block(configs)
        largest = largest_batch(configs, self._in_cache, self.averaging.n_images)
        least = largest if block and block < 4 * configs.shape[0] else 1  # one program for most
        return in_batches(partial(self._log_psi, block=block), theta, configs, largest, least=least)

    def _all_derivatives(self, theta: Array, configs: Array) -> Array:
        most, size = 1024, _JACOBIAN_BYTES
        if is_cupy(configs):
            most, size = 8192, _JACOBIAN_BYTES_ON_A_GPU
        rows = min(most, size // (16 * max(self.n_params, 1) * self.averaging.n_images))
        run = partial(self._derivatives, block=self._block(configs))
        return in_batches(run, theta, configs, power_below(rows))[0]

    def _as_inputs(self, configs: Array) -> Array:
        if self.inputs == "states":
            return configs
        return (self.local_dim - 1 - 2 * configs.astype(jnp.int32)).astype(jnp.float64)

    def drawer(self, theta: Array, chi: int | None = None, chi_mpo: int | None = None) -> Draw:
        """Give draws at theta (P,); nothing is truncated, so `chi` and `chi_mpo` mean nothing."""
        if self.exact_draws is None:
            raise self._lacks("direct draw")
        return partial(self._draw, theta)

    def _draw(self, theta: Array, uniforms: Array, guide: Any = None) -> tuple[Array, Array]:
        """Draw configurations (B, N) and their ln q (B,) from numbers (B, N).

        `guide` keeps draws in the sector of its `total`.  Cost: `draw`, one averaged evaluation.
        """
        total = None if guide is None else int(guide.total)
        self.averaging.check_sector(total)
        run = partial(self._draws, total=total)
        largest = largest_batch(uniforms, self._in_cache, self.averaging.n_images, MOST_DRAWN)
        configs, log_prob = in_batches(run, theta, uniforms, largest, by_blocks=False)
        return configs, log_prob

    def _drawn(
        self, theta: Array, uniforms: Array, n_rows: Array, total: int | None
    ) -> tuple[Array, Array]:
        module = self.functional.module(self.functional.unflatten(theta))
        configs, log_prob = module.draw(uniforms, total)
        if self.averaging.trivial:
            return configs.astype(jnp.int8), log_prob
        configs = self.averaging.shuffled(configs, uniforms)
        images = self.averaging.images(configs).reshape(-1, configs.shape[1])
        own = module.log_prob(images, total).reshape(-1, configs.shape[0])
        return configs.astype(jnp.int8), jax.nn.logsumexp(own, axis=0) - np.log(own.shape[0])

    @cached_property
    def _draws(self) -> Any:
        return jax.jit(self._drawn, static_argnames="total", compiler_options=ONE_THREAD)

    def _shapes(self) -> dict[str, Any]:
        leaves = {".".join(leaf.path): list(leaf.shape) for leaf in self.functional.leaves}
        code = code_of(type(self.functional.module(self.functional.tree)))
        return {"network": self.functional.name, "shapes": leaves, **code}


def _gradient(log_psi: Any, moving: list[Array], config: Array) -> list[Array]:
    """Derivatives of ln psi of one configuration with respect to arrays, in their shapes."""
    if any(jnp.iscomplexobj(piece) for piece in moving):
        return list(jax.grad(log_psi, holomorphic=True)(moving, config))
    if not jnp.iscomplexobj(jax.eval_shape(log_psi, moving, config)):
        return list(jax.grad(log_psi)(moving, config))

    def parts(moving: list[Array]) -> Array:
        value = log_psi(moving, config)
        return jnp.stack([jnp.real(value), jnp.imag(value)])

    return [jax.lax.complex(both[0], both[1]) for both in jax.jacrev(parts)(moving)]
