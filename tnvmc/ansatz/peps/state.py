"""Projected entangled pair states on an open grid: amplitudes, sweeps and measurements.

psi(s) is the contraction of one tensor per site, picked by the local state (Verstraete and Cirac,
cond-mat/0407066).  Sampling it with boundary MPS follows Liu, Dong, Han, Guo and He,
PRB 95, 195154 (2017) and Liu, Huang, Gong and Gu, PRB 103, 235155 (2021); here every walker of a
batch is contracted at once, and a pass leaves behind what the next one needs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.ansatz.generic import (
    acceptance,
    local_states,
    replaced,
    replacement_ratios,
)
from tnvmc.ansatz.initial.evolution import evolved_from_product
from tnvmc.ansatz.initial.tensors import random_positive
from tnvmc.ansatz.jacobian import SliceJacobian
from tnvmc.ansatz.peps.draws import Drawer
from tnvmc.ansatz.peps.files import SavedPEPS, read_peps, write_peps
from tnvmc.ansatz.peps.layers import Layers
from tnvmc.ansatz.peps.layout import TensorLayout
from tnvmc.ansatz.peps.pairs import Environments, pair_ratios, pairs_by_source
from tnvmc.ansatz.peps.passes import (
    Pass,
    RowBoundaries,
    StripReport,
    absorb,
    absorb_all,
    close_row,
    measure_strip,
    sample_strip,
)
from tnvmc.ansatz.peps.rings import closed, measure_two_rows, opened, sample_two_rows
from tnvmc.ansatz.peps.views import LatestViews, Views
from tnvmc.ansatz.peps.windows import Plan, Routes, routes
from tnvmc.ansatz.protocol import (
    Execution,
    LogAmplitude,
    Snapshot,
    SweepInfo,
    Targets,
    Walkers,
    check_start,
    chi_of,
    real_state,
)
from tnvmc.ansatz.tally import PlainSweep, Tally, propose
from tnvmc.backend.calls import shortly, spelt
from tnvmc.backend.namespace import array_namespace, to_host
from tnvmc.contraction.schemes import SRC, Scheme
from tnvmc.lattice.embedding import Bonds
from tnvmc.lattice.lattice import Lattice, Patch
from tnvmc.operators.term import Operator
from tnvmc.storage.hdf5 import StateFileError

Array = Any

CHUNK_BYTES = 2**22
"""Size that the largest intermediate of a chunk aims at: the cache of one core, and no less than
16 walkers, below which the calls cost more than the products (measured, see benchmarks)."""


@spelt(chi="scheme=SRC(chi=...)", init="initial_parameters(peps, hamiltonian, kind=...)")
class PEPS(PlainSweep, TensorLayout):
    """A PEPS with bonds of dimension D on the grid of `lattice`; one open row of it is an open MPS.

    Args:
        lattice: its grid gives the network; periodic bonds of the Hamiltonian are served by
            wider windows or by full contractions.
        D: bond dimension of the state.
        dtype: "float64", "float32", "complex128" or "complex64".  None: "float64", and "complex128"
            where the Hamiltonian that it is given to (by `VMC`, `initial`) is complex.
        scheme: how rows are absorbed; `SRC(2 * D)` by default.
        local_dim: local dimension d.
        bonds: "open", or "periodic" on a cylinder, for rows that are rings: see `peps.rings`, and
            docs/cylinders.md for what they cost.

    theta is the concatenation over sites of tensors (d, up, left, down, right), legs at the edge
    having size 1.  It does not hold a norm: psi is not normalised.

    Raises:
        ValueError: D below 1 or no whole number, an unknown dtype, no scheme; periodic bonds on
            another lattice than a cylinder, or around fewer than three sites.
    """

    def __init__(
        self,
        lattice: Lattice,
        D: int,
        dtype: str | None = None,
        scheme: Scheme | None = None,
        local_dim: int = 2,
        bonds: Bonds = "open",
    ) -> None:
        if hasattr(dtype, "absorb"):
            raise TypeError(f"PEPS: dtype is {shortly(dtype)}; write scheme={dtype!r}")
        super().__init__(lattice, D, dtype, local_dim, bonds)
        if scheme is not None and (isinstance(scheme, type) or not hasattr(scheme, "absorb")):
            raise ValueError(f"PEPS: scheme must be a scheme, as SRC(chi=8), got {shortly(scheme)}")
        self.scheme: Scheme = SRC(2 * self.D) if scheme is None else scheme
        self._latest = LatestViews()

    def with_scheme(self, scheme: Scheme) -> PEPS:
        """The same state contracted in another way; theta carries over."""
        dtype = None if self.follows else self.dtype.name
        return PEPS(self.lattice, self.D, dtype, scheme, self.local_dim, self.bonds)

    def _of_type(self, dtype: str) -> PEPS:
        return PEPS(self.lattice, self.D, dtype, self.scheme, self.local_dim, self.bonds)

    @property
    def single(self) -> PEPS:
        """The same state for a theta in single precision."""
        return self._of_type("complex64" if self.dtype.kind == "c" else "float32")

    def save(self, path: str | Path, theta: Array, *, overwrite: bool = False) -> None:
        """Write the state to an HDF5 file that `load` and ansatz.init read, whole or not at all.

        Args:
            path: of the file.
            theta: (P,) the parameters.
            overwrite: replace a file that exists.

        Raises:
            StateFileError: the file exists and `overwrite` is not set.
            ValueError: theta has another length than the PEPS has parameters.
            OSError: no space, no permission, no such folder.
        """
        self.tensors(theta)  # complains of a wrong length
        state = SavedPEPS(
            self.lattice, self.D, self.local_dim, self.scheme, to_host(theta), self.bonds
        )
        write_peps(path, state, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> tuple[PEPS, np.ndarray]:
        """Read a state and its theta (P,), on the host, from a file of `save` or a checkpoint.

        A checkpoint says nothing of the scheme, which is the default one then; and of a lattice
        from a list of bonds it keeps the grid alone.

        Raises:
            StateFileError: no such file; damaged; of another program, of a newer format, or of
                another kind of state.
        """
        found = read_peps(path)
        theta = found.theta
        peps = cls(
            found.lattice, found.D, theta.dtype.name, found.scheme, found.local_dim, found.bonds
        )
        if theta.shape != (peps.n_params,):
            raise StateFileError(
                f"{path}: damaged: {theta.size} parameters, but D={peps.D} on "
                f"{peps.lattice.shape} has {peps.n_params}"
            )
        return peps, theta

    @classmethod
    def from_quimb(cls, network: Any) -> tuple[PEPS, np.ndarray]:
        """Read a state and its theta (P,) from a quimb PEPS or MPS: `peps.quimb.from_quimb`."""
        from tnvmc.ansatz.peps.quimb import from_quimb

        lattice, tensors = from_quimb(network)
        D = max(max(tensor.shape[1:]) for tensor in tensors)
        dtype = np.result_type(np.float32, *tensors).name
        peps = cls(lattice, D, dtype, local_dim=tensors[0].shape[0])
        return peps, np.asarray(peps.flatten(tensors))

    @cached_property
    def execution(self) -> Execution:
        """Chunks that keep the largest intermediate of a two-row strip in the cache.

        In threads where compiled kernels do the work; NumPy's products are too short for those and
        go to processes (`sampling/workers.py`).  The memory of a walker is what was measured on a
        GPU, about.
        """
        widest = self.lattice.shape[1 if self.rings else 0] // 2
        chi = min(chi_of(self) or self.D**2, self.D**widest)
        strip = chi**2 * self.row_bond * self.D ** (1 if self.rings else 2)
        chunk = int(min(128, max(16, CHUNK_BYTES // (self.dtype.itemsize * strip))))
        per_site = 8 * self.D * chi**2 + 2 * self.row_bond**2 * self.D**2
        in_all = self.dtype.itemsize * (self.lattice.n_sites * per_site + 3 * strip)
        return Execution(chunk, in_all, processes=not self._compiled, apart=True)

    @property
    def _compiled(self) -> bool:
        """Whether compiled kernels absorb rows too, which are most of the work."""
        return isinstance(self.scheme, SRC) and self.scheme.compiles(self.dtype)

    starts = ("simple_update", "random", "product")
    """Evolved in imaginary time, positive random tensors, or a product state."""

    def initial(self, operator: Operator, seed: int = 0, kind: str | None = None) -> Array:
        """Make theta (P,) for an operator, complex where this is left open and the operator is.

        "simple_update" evolves in imaginary time, "product" takes the ordered product state that
        this begins with, "random" positive tensors; the first two with a little noise where they are zero.

        Raises:
            ValueError: another kind; a real state for a complex operator.
        """
        check_start(self, kind or "simple_update")
        if self.dtype.kind != "c" and operator.is_complex:
            if self.follows:
                return self.for_operator(operator).initial(operator, seed, kind)
            raise real_state(operator, f"dtype = '{self.dtype.name}'")
        n_steps = 0 if kind == "product" else 200
        if kind == "random":
            return self.flatten(
                random_positive(self.lattice, self.D, self.dtype, seed, self.local_dim, self.bonds)
            )
        here = replace(operator, lattice=self.lattice)  # its embedding is that of the tensors
        return self.flatten(evolved_from_product(here, self.D, seed, n_steps, self.bonds)[0])

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """psi(s) for (B, N): boundaries from both sides, closed at the middle row."""
        views = self._views(theta)
        layers, configs = views.layers(by_columns=False), views.seen(configs, by_columns=False)
        down = self._half(layers, configs, "down")
        up = self._half(layers, configs, "up")
        middle = self.lattice.shape[0] // 2
        return self._with_scale(layers, close_row(layers, middle, configs, (down, up)))

    def _half(self, layers: Layers, configs: Array, absorbed: str) -> Any:

        middle, n_rows = self.lattice.shape[0] // 2, self.lattice.shape[0]
        rows = range(middle) if absorbed == "down" else range(n_rows - 1, middle, -1)
        boundary = None
        for row in rows:
            boundary = absorb(layers, self.scheme, boundary, row, configs, absorbed)
        return boundary

    def start(self, theta: Array, configs: Array) -> Walkers:
        """Walkers with the boundaries below every row.  Cost: one absorption per row."""
        views = self._views(theta)
        ready = absorb_all(views, configs, by_columns=False)
        seen = views.seen(configs, by_columns=False)
        amplitude = close_row(views.rows, 0, seen, (None, ready.ahead[0]))
        return Walkers(configs, self._with_scale(views.rows, amplitude), ready)

    def tempered_sweep(
        self,
        theta: Array,
        walkers: Walkers,
        moves: Targets,
        uniforms: Array,
        power: Array | float,
    ) -> tuple[Walkers, SweepInfo]:
        """Propose every move once, in the order of a pass, by walkers that sample |psi|^(2 power).

        Moves that fit no strip of two rows or columns come last, by full contractions.  `power` is
        one number, or (B,); see `Ansatz.sweep` for the other arguments.

        Raises:
            TypeError: walkers without boundaries, which `start` has not made.
        """
        chosen = self._routes(moves)
        ready, configs, amplitude = self._boundaries(walkers), walkers.configs, walkers.amplitude
        tally = Tally(configs.shape[0], self.local_dim, uniforms)
        for by_columns in (ready.by_columns, not ready.by_columns):
            plan = chosen.columns if by_columns else chosen.rows
            if not plan:
                continue
            if ready.by_columns != by_columns:
                ready = absorb_all(ready.views, configs, by_columns)
            walk = Pass(ready, configs, self.local_dim)
            for row in walk.rows():
                for key in walk.first_rows(row):
                    if key in plan:
                        sample = sample_two_rows if self.rings and key[1] == 2 else sample_strip
                        last = sample(walk, plan[key], moves, uniforms, tally, power)
                        amplitude = self._with_scale(ready.layers, last)
            ready, configs = walk.boundaries(), walk.sites()
        swept = Walkers(configs, amplitude, ready)
        if chosen.far:
            swept = self._sweep_far(theta, swept, moves, uniforms, tally, power)
        return swept, tally.info()

    def measure(
        self, theta: Array, walkers: Walkers, replacements: Targets, *, jacobian: bool = True
    ) -> tuple[Walkers, Snapshot]:
        """Ratios, log-derivatives and the spread of closures, in one pass.

        The amplitude is the closure at the middle row; `closure_spread` is the largest minus the
        smallest ln|psi| over the closures of all rows, which truncation alone sets apart.
        """
        pairs = self._pairs(replacements)
        by_source = frozenset(pairs.values())
        chosen = self._routes({p: t for p, t in replacements.items() if p not in by_source})
        ready = self._boundaries(walkers)
        ratios: dict[Patch, Array] = {}
        logs = []
        for by_columns in (ready.by_columns, not ready.by_columns):
            if by_columns and not chosen.columns:
                continue
            if ready.by_columns != by_columns:
                ready = absorb_all(ready.views, walkers.configs, by_columns)
            walk = Pass(ready, walkers.configs, self.local_dim)
            plan = chosen.columns if by_columns else chosen.rows
            reports = self._reports(walk, plan, replacements, jacobian and not by_columns)
            for report in reports.values():
                ratios |= report.ratios
            logs += [report.amplitude.log_abs for (_, n), report in reports.items() if n == 1]
            if not by_columns:
                singles = [reports[row, 1] for row in range(self.lattice.shape[0])]
                begun, ended = ready, walk.boundaries()
            ready = walk.boundaries()
        amplitude = self._with_scale(begun.layers, singles[len(singles) // 2].amplitude)
        if pairs:
            sides = begun.ahead, ended.ahead
            above, below = sides if begun.direction == "up" else sides[::-1]
            around = Environments(
                begun.layers, self.scheme, begun.views.seen(walkers.configs, False), above, below,
                [report.amplitude for report in singles],
            )  # fmt: skip
            asked = {placed: replacements[patch] for placed, patch in pairs.items()}
            at_a_time = max(self.execution.chunk, walkers.configs.shape[0])
            found = pair_ratios(around, asked, at_a_time)
            ratios |= {pairs[placed]: values for placed, values in found.items()}
        if chosen.far:
            far = {patch: replacements[patch] for _, patch in chosen.far}
            exact = self.log_amplitude(theta, walkers.configs)
            ratios |= replacement_ratios(
                lambda configs: self.log_amplitude(theta, configs),
                walkers.configs, exact, far, self.local_dim, self.execution.chunk,
            )  # fmt: skip
        snapshot = Snapshot(
            walkers.configs,
            amplitude,
            {patch: ratios[patch] for patch in replacements},
            self._jacobian(begun.layers, walkers.configs, singles) if jacobian else None,
            closure_spread=_spread(logs),
        )
        return Walkers(walkers.configs, amplitude, ready), snapshot

    exact_draws = False
    """What is drawn from is |psi|^2 with the double layer truncated."""

    def drawer(self, theta: Array, chi: int | None = None, chi_mpo: int | None = None) -> Drawer:
        """What draws of one theta share: the double layer, contracted; by default with chi = D
        and chi_mpo = 2 D, for which weights on Heisenberg 8x8 are even to 1 % (D = 4)."""
        tensors, chi_mpo = self._open_rows(theta), chi_mpo or 2 * self.D
        return Drawer.build(tensors, self.filling, chi or self.D, chi_mpo)

    def _open_rows(self, theta: Array) -> list[Array]:
        """Tensors of an open PEPS with the same psi."""
        tensors = self.tensors(theta)
        return opened(tensors, self.lattice.shape[1]) if self.rings else tensors

    def _views(self, theta: Array) -> Views:
        def make(theta: Array) -> Views:
            return Views(self.filling.tensors(self._open_rows(theta)), self.filling, self.scheme)

        return self._latest.of(theta, make)

    def _routes(self, targets: Targets) -> Routes:
        return routes(tuple(targets), self.embedding, self.D)

    def _pairs(self, replacements: Targets) -> dict[Patch, Patch]:
        """Patches that are served by sources, by their places."""
        placed = {self.embedding.placed(patch): patch for patch in replacements}
        chosen = pairs_by_source(tuple(placed), self.lattice.shape[1], self.D, self.rings)
        return {places: placed[places] for places in chosen}

    def _reports(
        self, walk: Pass, plan: Plan, replacements: Targets, jacobian: bool
    ) -> dict[tuple[int, int], StripReport]:
        """Measure every row, and the strips of two rows that something was asked of."""
        return {
            key: measure_two_rows(walk, key, plan[key], replacements)
            if self.rings and key[1] == 2
            else measure_strip(walk, key, plan.get(key, ()), replacements, jacobian)
            for row in walk.rows()
            for key in walk.first_rows(row)
            if key[1] == 1 or key in plan
        }

    @staticmethod
    def _boundaries(walkers: Walkers) -> RowBoundaries:
        if not isinstance(walkers.cache, RowBoundaries):
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
        if self.rings:
            derivatives = closed(derivatives, self.shapes, self.lattice.shape[1])
        slices = [
            xp.reshape(derivatives[place], (configs.shape[0], -1))
            * float(np.exp(-layers.log_scales[place]))
            for place in self.embedding.places
        ]
        return SliceJacobian(slices, configs, self.local_dim)

    def _sweep_far(
        self,
        theta: Array,
        walkers: Walkers,
        moves: Targets,
        uniforms: Array,
        tally: Tally,
        power: Array | float,
    ) -> Walkers:
        """Try the moves that fit no window with full contractions, then rebuild the boundaries."""
        xp = array_namespace(uniforms)
        configs = walkers.configs
        present = self.log_amplitude(theta, configs)
        for index, patch in self._routes(moves).far:
            states = local_states(configs, patch, self.local_dim)
            target, remainder = propose(moves[patch], states, uniforms[:, index])
            possible = target >= 0
            target = xp.where(possible, target, states)
            trial_configs = replaced(configs, patch, target, self.local_dim)
            trial = self.log_amplitude(theta, trial_configs)
            moved = possible & (remainder < acceptance(trial, present, power))
            configs = xp.where(moved[:, None], trial_configs, configs)
            present = LogAmplitude(
                xp.where(moved, trial.phase, present.phase),
                xp.where(moved, trial.log_abs, present.log_abs),
            )
            tally.add(len(patch), states, target, possible, moved)
        return self.start(theta, configs)


def _spread(logs: list[Array]) -> Array:
    """Largest minus smallest of several ln|psi| (B,), 0 where psi vanishes."""
    xp = array_namespace(*logs)
    stacked = xp.stack(logs)
    stacked = xp.where(xp.isfinite(stacked), stacked, xp.zeros_like(stacked))
    return xp.max(stacked, axis=0) - xp.min(stacked, axis=0)
