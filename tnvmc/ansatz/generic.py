"""Sweep and measure any wave function that knows its amplitude.

`GenericAnsatz` derives all of `Ansatz` from two methods; the functions below it are its parts, and
an ansatz with passes of its own uses them for terms that fit no window.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from tnvmc.ansatz.files import InFiles
from tnvmc.ansatz.metropolis import (
    Chains,
    MoveCounts,
    PlainSweep,
    Proposals,
    SiteMove,
    amplitude_ratio,
    metropolis,
)
from tnvmc.ansatz.protocol import LogAmplitude, Snapshot, SweepInfo, Targets, Walkers, check_start
from tnvmc.backend.arguments import whole
from tnvmc.backend.namespace import array_namespace, is_complex
from tnvmc.jacobian.base import Jacobian
from tnvmc.jacobian.dense import DenseJacobian
from tnvmc.lattice.lattice import Lattice, Patch

Array = Any

_PHASE = 1e-4  # that a modulus may be off 1: rounding in single precision is 1e-7


class GenericAnsatz(PlainSweep, InFiles):
    """A wave function from two methods: `log_amplitude`, and `random` to start from.

    Args:
        lattice: the sites.
        local_dim: local dimension d.

    Everything else of `Ansatz` is derived.  The number P of parameters and their type are those of
    `random(0)`.  Every ratio is the quotient of two full amplitudes, so a sweep of n moves costs n
    amplitudes per walker, and a measurement one per replacement.  Log-derivatives are central
    differences, at 2 P amplitudes a sample, unless `log_derivatives` is overridden.  An ansatz that
    can reuse environments overrides `start`, `sweep` and `measure`.

    A configuration with psi = 0 has ratios and log-derivatives zero by convention: it is never
    drawn from |psi|^2 and has no weight under enumeration.
    """

    lattice: Lattice
    local_dim: int

    starts: tuple[str, ...] = ("random",)
    tempered = True

    rows_per_call: int = 2048
    """Most configurations given to one call of `log_amplitude` while measuring."""

    def __init__(self, lattice: Lattice, local_dim: int = 2) -> None:
        self.lattice = lattice
        self.local_dim = whole(type(self).__name__, "local_dim", local_dim, 2)

    @abstractmethod
    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """psi(s) of configurations (B, N) for theta (P,), each row by itself: phase, ln|psi| (B,).

        Local states are small integers 0..d-1; see `as_log_amplitude`.
        """

    @abstractmethod
    def random(self, seed: int) -> Array:
        """theta (P,) to start from, on the host, the same for the same seed."""

    def log_derivatives(self, theta: Array, configs: Array) -> Array:
        """O_k(s) = d ln psi(s) / d theta_k as a dense (B, P) array, zero where psi = 0.

        By central differences, which is right to some 1e-10 and slow; see `central_differences`.
        Override it with a formula where P is more than a few dozen.
        """
        return central_differences(self.log_amplitude, theta, configs)

    @property
    def n_params(self) -> int:
        """Length P of theta."""
        return int(self._example.shape[0])

    @property
    def dtype(self) -> Any:
        """Type of theta."""
        return self._example.dtype

    @cached_property
    def _example(self) -> Array:
        theta = self.random(0)
        if getattr(theta, "ndim", None) != 1 or theta.dtype.kind not in "fc":
            shown = getattr(theta, "dtype", type(theta).__name__), getattr(theta, "shape", ())
            raise TypeError(
                f"{type(self).__name__}.random: must give an array (P,) of real or complex floats, "
                f"not {shown[0]} of shape {shown[1]}"
            )
        return theta

    def initial(self, operator: Any, seed: int = 0, kind: str | None = None) -> Array:
        """Give theta (P,) to start from."""
        check_start(self, kind or "random")
        return self.random(seed)

    def jacobian(self, theta: Array, configs: Array) -> Jacobian:
        """Log-derivatives at `configs`; override it where O has structure worth keeping."""
        return DenseJacobian(self.log_derivatives(theta, configs))

    def start(self, theta: Array, configs: Array) -> Walkers:
        """Walkers at `configs`; nothing is remembered beyond their amplitudes.

        Raises:
            TypeError: `log_amplitude` gives no (B,) phases of modulus 1 or 0, no real logarithms.
        """
        amplitude = self.log_amplitude(theta, configs)
        for name in ("phase", "log_abs"):
            shape = getattr(getattr(amplitude, name, None), "shape", None)
            if shape != (configs.shape[0],):
                raise TypeError(
                    f"{type(self).__name__}.log_amplitude: must give LogAmplitude(phase, log_abs), "
                    f"two arrays of shape ({configs.shape[0]},) here, not "
                    f"{type(amplitude).__name__} with {name} of shape {shape}"
                )
        xp = array_namespace(amplitude.log_abs)
        size = xp.abs(amplitude.phase)
        if not xp.isdtype(amplitude.log_abs.dtype, "real floating") or bool(
            xp.any((size != 0) & (xp.abs(size - 1) > _PHASE))
        ):
            raise TypeError(
                f"{type(self).__name__}.log_amplitude: phase must have modulus 1, or 0 where psi "
                f"vanishes, and log_abs be real; here moduli go up to {float(xp.max(size)):.3g} "
                f"and log_abs is {amplitude.log_abs.dtype}. Put ln|psi| into log_abs; "
                "`as_log_amplitude` splits psi"
            )
        return Walkers(configs, amplitude)

    def tempered_sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array, power: Array | float
    ) -> tuple[Walkers, SweepInfo]:
        """Propose the moves in their order, to sample |psi|^(2 power), with one power or (B,)."""
        psi = partial(self.log_amplitude, theta)
        return amplitude_sweep(psi, self.local_dim, walkers, moves, uniforms, power)

    def measure(
        self, theta: Array, walkers: Walkers, replacements: Targets, *, jacobian: bool = True
    ) -> tuple[Walkers, Snapshot]:
        """Ratios of all replacements, batched over patches, and log-derivatives."""
        ratios = replacement_ratios(
            partial(self.log_amplitude, theta), walkers.configs, walkers.amplitude, replacements,
            self.local_dim, self.rows_per_call,
        )  # fmt: skip
        derivatives = self.jacobian(theta, walkers.configs) if jacobian else None
        return walkers, Snapshot(walkers.configs, walkers.amplitude, ratios, derivatives)


def amplitude_sweep(
    log_amplitude: Callable[[Array], LogAmplitude], local_dim: int, walkers: Walkers,
    moves: Targets, uniforms: Array, power: Array | float = 1.0,
) -> tuple[Walkers, SweepInfo]:  # fmt: skip
    """Propose every move once by full amplitudes, in the order of `moves`; see `Ansatz.sweep`.

    Walkers sample |psi|^(2 power), `power` being one number or (B,).  Cost: an amplitude per walker
    and move.
    """
    counts = MoveCounts(walkers.configs.shape[0], local_dim, uniforms)
    chains = Chains(walkers.configs, walkers.amplitude)
    visits = [SiteMove(patch, index) for index, patch in enumerate(moves)]
    proposals = Proposals(moves, uniforms, power, counts)
    metropolis(chains, visits, proposals, lambda _, trial, __: log_amplitude(trial))
    return Walkers(chains.configs, chains.amplitude), counts.info()


def as_log_amplitude(value: Array, log_scale: Array | float = 0.0) -> LogAmplitude:
    """Split psi = value * exp(log_scale), both of shape (B,), into phase and ln|psi|."""
    xp = array_namespace(value)
    modulus = xp.abs(value)
    zero = modulus == 0
    safe = xp.where(zero, xp.ones_like(modulus), modulus)
    log_abs = xp.where(zero, xp.full_like(modulus, -float("inf")), xp.log(safe) + log_scale)
    return LogAmplitude(value / safe, log_abs)


def replacement_ratios(
    log_amplitude: Callable[[Array], LogAmplitude], configs: Array, amplitude: LogAmplitude,
    replacements: Targets, local_dim: int, rows_per_call: int = 2048,
) -> dict[Patch, Array]:  # fmt: skip
    """psi(s with the patch replaced) / psi(s) by full amplitudes, (B, R) per patch.

    Only replacements that exist are evaluated, those of all patches together in batches of
    `rows_per_call` configurations.  Memory: N bytes per replaced configuration.
    """
    xp = array_namespace(configs)
    groups = [_changed(configs, group, local_dim) for group in _alike(replacements)]
    changed = xp.concat([configs[:0, :], *(group.configs for group in groups)])
    parts = [
        log_amplitude(changed[begin : min(begin + rows_per_call, changed.shape[0]), :])
        for begin in range(0, changed.shape[0], rows_per_call)
    ] or [amplitude]
    values = LogAmplitude(
        xp.concat([part.phase for part in parts]), xp.concat([part.log_abs for part in parts])
    )
    found: dict[Patch, Array] = {}
    offset = 0
    for group in groups:
        end = offset + group.configs.shape[0]
        new = LogAmplitude(values.phase[offset:end], values.log_abs[offset:end])
        flat = xp.zeros(group.exists.shape[0], dtype=values.phase.dtype)
        flat[group.exists] = amplitude_ratio(new, amplitude.take(group.walkers))
        ratios = xp.reshape(flat, (configs.shape[0], len(group.patches), -1))
        found |= {patch: ratios[:, j, :] for j, patch in enumerate(group.patches)}
        offset = end
    return {patch: found[patch] for patch in replacements}


@dataclass(frozen=True)
class _Changed:
    """The replacements of patches with tables of one shape, for B walkers at once."""

    patches: list[Patch]
    configs: Array  #: (Q, N) where a replacement exists, in the order walker, patch, column
    walkers: Array  #: (Q,) whom each belongs to
    exists: Array  #: (B * n * R,) bool


def _alike(replacements: Targets) -> list[Targets]:
    """Patches with tables of one shape together, so that they are handled in one go."""
    groups: dict[tuple[int, ...], dict[Patch, Array]] = {}
    for patch, table in replacements.items():
        groups.setdefault((len(patch), *table.shape), {})[patch] = table
    return list(groups.values())


def _changed(configs: Array, group: Targets, local_dim: int) -> _Changed:
    xp = array_namespace(configs)
    patches, tables = list(group), xp.stack([xp.asarray(table) for table in group.values()])
    n_patches, n_states, width = tables.shape
    sites = xp.asarray(patches)
    own = xp.take(configs, xp.reshape(sites, (-1,)), axis=1)
    own = xp.astype(xp.reshape(own, (-1, *sites.shape)), xp.int64)
    states = own[:, :, 0]
    for j in range(1, sites.shape[1]):
        states = states * local_dim + own[:, :, j]
    places = states + n_states * xp.arange(n_patches)[None, :]
    rows = xp.take(xp.reshape(tables, (-1, width)), xp.reshape(places, (-1,)), axis=0)
    targets = xp.reshape(rows, (-1,))
    exists = targets >= 0
    slot = xp.nonzero(exists)[0]
    target, walkers = xp.take(targets, slot, axis=0), slot // (n_patches * width)
    which = slot // width % n_patches
    changed = xp.take(configs, walkers, axis=0)
    columns = xp.arange(configs.shape[1])[None, :]
    for j in reversed(range(sites.shape[1])):
        site = xp.take(sites[:, j], which, axis=0)
        digit = xp.astype(target % local_dim, configs.dtype)
        if xp is np:  # six times as fast; the standard of arrays has no such assignment
            changed[np.arange(changed.shape[0]), site] = digit
        else:
            changed = xp.where(columns == site[:, None], digit[:, None], changed)
        target = target // local_dim
    return _Changed(patches, changed, walkers, exists)


def central_differences(
    log_amplitude: Callable[[Array, Array], LogAmplitude], theta: Array, configs: Array
) -> Array:
    """Give O_k(s) = d ln psi(s) / d theta_k by central differences, along the real axis: (B, P).

    The step h = eps^(1/3) max(1, |theta_k|) balances the truncated series against rounding where ln
    psi and its third derivative are of order 1: errors are some eps^(2/3), 4e-11 in double
    precision, 2e-5 in single.

    Complex where phases are; zero where psi = 0, at theta or after a step.  Cost: 2 P amplitudes
    per configuration.
    """
    xp = array_namespace(theta, configs)
    alive = log_amplitude(theta, configs).phase != 0
    sizes = xp.maximum(xp.abs(theta), xp.ones_like(xp.abs(theta)))
    steps = float(xp.finfo(theta.dtype).eps) ** (1 / 3) * sizes
    columns = []
    for k in range(theta.shape[0]):
        above, below = xp.asarray(theta, copy=True), xp.asarray(theta, copy=True)
        above[k], below[k] = theta[k] + steps[k], theta[k] - steps[k]
        distance = above[k] - below[k]  # as it was rounded
        columns.append(_logarithm(log_amplitude(above, configs), log_amplitude(below, configs)))
        columns[-1] = xp.where(alive, columns[-1] / distance, xp.zeros_like(columns[-1]))
    return xp.stack(columns, axis=1)


def _logarithm(new: LogAmplitude, old: LogAmplitude) -> Array:
    """ln(psi'/psi) (B,) of amplitudes near each other, 0 where one vanishes.

    Real where phases are: psi then has not changed its sign within a step.
    """
    xp = array_namespace(new.phase)
    dead = (new.phase == 0) | (old.phase == 0)
    nothing = xp.zeros_like(new.log_abs)
    gap = xp.where(dead, nothing, new.log_abs) - xp.where(dead, nothing, old.log_abs)
    if not is_complex(new.phase):
        return gap
    turned = xp.where(dead, xp.ones_like(new.phase), new.phase * xp.conj(old.phase))
    angle = xp.atan2(xp.imag(turned), xp.real(turned))
    return gap + 1j * angle
