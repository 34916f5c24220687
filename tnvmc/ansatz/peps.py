"""Projected entangled pair states on an open grid: amplitudes, sweeps and measurements.

psi(s) is the contraction of one tensor per site, picked by the local state (Verstraete and Cirac,
cond-mat/0407066).  Sampling it with boundary MPS follows Liu, Dong, Han, Guo and He,
PRB 95, 195154 (2017) and Liu, Huang, Gong and Gu, PRB 103, 235155 (2021); here every walker of a
batch is contracted at once, and a pass leaves behind what the next one needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from tnvmc.ansatz.generic import (
    acceptance,
    local_states,
    propose,
    replaced,
    replacement_ratios,
)
from tnvmc.ansatz.jacobian import SliceJacobian
from tnvmc.ansatz.layers import Layers
from tnvmc.ansatz.passes import (
    Pass,
    StripReport,
    Turn,
    absorb,
    absorb_all,
    covered,
    measure_strip,
    sample_strip,
)
from tnvmc.ansatz.protocol import LogAmplitude, Snapshot, SweepInfo, Targets, Walkers
from tnvmc.ansatz.windows import Plan, plan
from tnvmc.backend.namespace import array_namespace
from tnvmc.contraction.row import Strip, closure
from tnvmc.contraction.schemes import SRC, Scheme
from tnvmc.lattice.lattice import Lattice

Array = Any

CHUNK_BYTES = 2**22
"""Size that the largest intermediate of a chunk aims at: the cache of one core, and no less than
16 walkers, below which the calls cost more than the products (measured, see benchmarks)."""


class PEPS:
    """A PEPS with open bonds of dimension D on the grid of `lattice`; one row of it is an open MPS.

    Args:
        lattice: its grid gives the network; periodic bonds of the Hamiltonian are served by
            wider windows or by full contractions.
        D: bond dimension of the state.
        dtype: "float64", "float32", "complex128" or "complex64".
        scheme: how rows are absorbed; `SRC(2 * D)` by default.
        local_dim: local dimension d.

    theta is the concatenation over sites of tensors (d, up, left, down, right), legs at the edge
    having size 1.  It does not hold a norm: psi is not normalised.
    """

    in_processes = True
    """Chunks of walkers go to processes: products too short for threads (`sampling/workers.py`)."""

    def __init__(
        self,
        lattice: Lattice,
        D: int,
        dtype: str = "float64",
        scheme: Scheme | None = None,
        local_dim: int = 2,
    ) -> None:
        if D < 1:
            raise ValueError(f"PEPS: bond dimension D must be at least 1, got {D}")
        self.lattice, self.D, self.local_dim = lattice, D, local_dim
        self.dtype = np.dtype(dtype)
        self.scheme: Scheme = SRC(2 * D) if scheme is None else scheme

    @cached_property
    def shapes(self) -> list[tuple[int, int, int, int, int]]:
        """Shape (d, up, left, down, right) of each site's tensor."""
        n_rows, n_cols = self.lattice.shape

        def bond(inside: bool) -> int:
            return self.D if inside else 1

        return [
            (
                self.local_dim,
                bond(row > 0),
                bond(column > 0),
                bond(row < n_rows - 1),
                bond(column < n_cols - 1),
            )
            for row in range(n_rows)
            for column in range(n_cols)
        ]

    @property
    def n_params(self) -> int:
        """Number of entries of theta."""
        return sum(map(prod, self.shapes))

    def with_scheme(self, scheme: Scheme) -> PEPS:
        """The same state contracted in another way; theta carries over."""
        return PEPS(self.lattice, self.D, self.dtype.name, scheme, self.local_dim)

    def tensors(self, theta: Array) -> list[Array]:
        """Cut theta (P,) into one tensor (d, up, left, down, right) per site.

        Raises:
            ValueError: theta has another length than this PEPS has parameters.
        """
        if theta.shape != (self.n_params,):
            raise ValueError(
                f"PEPS.tensors: theta has shape {tuple(theta.shape)}, but D={self.D} on "
                f"{self.lattice.shape} has ({self.n_params},); was it made for another D or lattice?"
            )
        xp = array_namespace(theta)
        tensors, begin = [], 0
        for shape in self.shapes:
            end = begin + prod(shape)
            tensors.append(xp.reshape(theta[begin:end], shape))
            begin = end
        return tensors

    def flatten(self, tensors: Sequence[Array]) -> Array:
        """Join one tensor per site into theta; bonds smaller than D are filled up with zeros.

        Raises:
            ValueError: a tensor is larger than this PEPS holds, or their number is wrong.
        """
        if len(tensors) != len(self.shapes):
            raise ValueError(f"PEPS.flatten: {len(tensors)} tensors for {len(self.shapes)} sites")
        xp = array_namespace(*tensors)
        parts = []
        for site, (tensor, shape) in enumerate(zip(tensors, self.shapes, strict=True)):
            if any(have > room for have, room in zip(tensor.shape, shape, strict=True)):
                raise ValueError(
                    f"PEPS.flatten: the tensor of site {site} has shape {tuple(tensor.shape)}, "
                    f"but D={self.D} holds {shape}; use a larger D"
                )
            padded = xp.zeros(shape, dtype=getattr(xp, self.dtype.name))
            padded[tuple(slice(0, size) for size in tensor.shape)] = xp.astype(tensor, padded.dtype)
            parts.append(xp.reshape(padded, (-1,)))
        return xp.concat(parts)

    def chunk_hint(self) -> int:
        """Walkers per chunk that keep the largest intermediate of a two-row strip in the cache."""
        chi = getattr(self.scheme, "chi", self.D**2)
        chi = min(chi, self.D ** (self.lattice.shape[0] // 2))
        walker_bytes = self.dtype.itemsize * chi**2 * self.D**3
        return int(min(128, max(16, CHUNK_BYTES // walker_bytes)))

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """psi(s) for (B, N): boundaries from both sides, closed at the middle row."""
        layers = self._layers(theta)
        down = self._half(layers, configs, "down")
        up = self._half(layers, configs, "up")
        middle = self.lattice.shape[0] // 2
        strip = Strip(down, [layers.leftward(middle, configs)], up)
        return self._with_scale(
            layers, LogAmplitude(*closure(strip.edge(), strip.right_environments()[0]))
        )

    def _half(self, layers: Layers, configs: Array, absorbed: str) -> Any:

        middle, n_rows = self.lattice.shape[0] // 2, self.lattice.shape[0]
        rows = range(middle) if absorbed == "down" else range(n_rows - 1, middle, -1)
        boundary = None
        for row in rows:
            boundary = absorb(layers, self.scheme, boundary, row, configs, absorbed)
        return boundary

    def start(self, theta: Array, configs: Array) -> Walkers:
        """Walkers with the boundaries below every row.  Cost: one absorption per row."""
        layers = self._layers(theta)
        turn = absorb_all(layers, self.scheme, configs, "up")
        walk = Pass(turn, self.scheme, configs, self.local_dim)
        strip = walk.strip(0, 1)
        amplitude = LogAmplitude(*closure(strip.edge(), strip.right_environments()[0]))
        return Walkers(configs, self._with_scale(layers, amplitude), turn)

    def sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array
    ) -> tuple[Walkers, SweepInfo]:
        """Propose every move once, in the order of a pass; moves in more than two rows come last."""
        xp = array_namespace(uniforms)
        windows = self._plan(moves)
        turn = self._turn(walkers)
        walk = Pass(turn, self.scheme, walkers.configs, self.local_dim)
        proposed = xp.zeros((walkers.configs.shape[0],), dtype=xp.float64)
        accepted, amplitude = proposed, walkers.amplitude
        for row in walk.rows():
            for key in walk.first_rows(row):
                if not covered(windows, key):
                    continue
                new, taken, last = sample_strip(walk, key, covered(windows, key), moves, uniforms)
                proposed, accepted = proposed + new, accepted + taken
                amplitude = self._with_scale(turn.layers, last)
        swept = Walkers(walk.configs, amplitude, walk.turn())
        if not windows.far:
            return swept, SweepInfo(proposed, accepted)
        far, info = self._sweep_far(theta, swept, windows, moves, uniforms)
        return far, SweepInfo(proposed + info.proposed, accepted + info.accepted)

    def measure(
        self, theta: Array, walkers: Walkers, replacements: Targets, *, jacobian: bool = True
    ) -> tuple[Walkers, Snapshot]:
        """Ratios, log-derivatives and the spread of closures, in one pass.

        The amplitude is the closure at the middle row; `closure_spread` is the largest minus the
        smallest ln|psi| over the closures of all rows, which truncation alone sets apart.
        """
        windows = self._plan(replacements)
        turn = self._turn(walkers)
        walk = Pass(turn, self.scheme, walkers.configs, self.local_dim)
        reports: dict[tuple[int, int], StripReport] = {}
        for row in walk.rows():
            for key in walk.first_rows(row):
                if key[1] == 1 or covered(windows, key):
                    reports[key] = measure_strip(
                        walk, key, covered(windows, key), replacements, jacobian
                    )
        n_rows = self.lattice.shape[0]
        singles = [reports[row, 1] for row in range(n_rows)]
        amplitude = self._with_scale(turn.layers, singles[n_rows // 2].amplitude)
        ratios = {patch: r for report in reports.values() for patch, r in report.ratios.items()}
        if windows.far:
            far = {patch: replacements[patch] for _, patch in windows.far}
            exact = self.log_amplitude(theta, walkers.configs)
            ratios |= replacement_ratios(
                lambda configs: self.log_amplitude(theta, configs),
                walkers.configs, exact, far, self.local_dim, self.chunk_hint(),
            )  # fmt: skip
        snapshot = Snapshot(
            walkers.configs,
            amplitude,
            {patch: ratios[patch] for patch in replacements},
            self._jacobian(turn.layers, walkers.configs, singles) if jacobian else None,
            closure_spread=_spread([report.amplitude.log_abs for report in singles]),
        )
        return Walkers(walkers.configs, amplitude, walk.turn()), snapshot

    def _layers(self, theta: Array) -> Layers:
        return Layers.build(self.tensors(theta), self.lattice.shape, self.scheme)

    def _plan(self, targets: Targets) -> Plan:
        return plan(tuple(targets), self.lattice.shape[1])

    @staticmethod
    def _turn(walkers: Walkers) -> Turn:
        if not isinstance(walkers.cache, Turn):
            raise TypeError(
                "PEPS: these walkers carry no boundaries; make them with start(theta, configs)"
            )
        return walkers.cache

    @staticmethod
    def _with_scale(layers: Layers, amplitude: LogAmplitude) -> LogAmplitude:
        return LogAmplitude(amplitude.phase, amplitude.log_abs + sum(layers.log_scales))

    def _jacobian(
        self, layers: Layers, configs: Array, singles: list[StripReport]
    ) -> SliceJacobian:
        """Slices (B, up*left*down*right) per site, with the scale of the site put back."""
        xp = array_namespace(configs)
        derivatives = [slice_ for report in singles for slice_ in report.log_derivatives]
        slices = [
            xp.reshape(derivative, (derivative.shape[0], -1)) * float(np.exp(-log))
            for derivative, log in zip(derivatives, layers.log_scales, strict=True)
        ]
        return SliceJacobian(slices, configs, self.local_dim)

    def _sweep_far(
        self, theta: Array, walkers: Walkers, windows: Plan, moves: Targets, uniforms: Array
    ) -> tuple[Walkers, SweepInfo]:
        """Try the moves that fit no window with full contractions, then rebuild the boundaries."""
        xp = array_namespace(uniforms)
        configs = walkers.configs
        present = self.log_amplitude(theta, configs)
        proposed = xp.zeros((configs.shape[0],), dtype=xp.float64)
        accepted = proposed
        for index, patch in windows.far:
            states = local_states(configs, patch, self.local_dim)
            target, remainder = propose(moves[patch], states, uniforms[:, index])
            possible = target >= 0
            target = xp.where(possible, target, states)
            trial_configs = replaced(configs, patch, target, self.local_dim)
            trial = self.log_amplitude(theta, trial_configs)
            moved = possible & (remainder < acceptance(trial, present))
            configs = xp.where(moved[:, None], trial_configs, configs)
            present = LogAmplitude(
                xp.where(moved, trial.phase, present.phase),
                xp.where(moved, trial.log_abs, present.log_abs),
            )
            proposed = proposed + xp.astype(possible, xp.float64)
            accepted = accepted + xp.astype(moved, xp.float64)
        return self.start(theta, configs), SweepInfo(proposed, accepted)


def _spread(logs: list[Array]) -> Array:
    """Largest minus smallest of several ln|psi| (B,), 0 where psi vanishes."""
    xp = array_namespace(*logs)
    stacked = xp.stack(logs)
    stacked = xp.where(xp.isfinite(stacked), stacked, xp.zeros_like(stacked))
    return xp.max(stacked, axis=0) - xp.min(stacked, axis=0)
