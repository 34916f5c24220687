"""The states that benchmarks run on, and a whole sample of one.

Heisenberg from simple update, kept in a folder for reuse.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tnvmc import PEPS, SRC, heisenberg, square
from tnvmc.ansatz.peps.starts.simple_update import simple_update
from tnvmc.ansatz.protocol import Snapshot, SweepInfo
from tnvmc.backend.random import uniforms
from tnvmc.estimate.observables import local_energy
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for

CACHE = Path(__file__).parent / "results" / "states"


def heisenberg_state(L: int, D: int, dtype: str = "float64") -> tuple[PEPS, np.ndarray]:
    """A PEPS (default scheme) and its theta for the open L x L Heisenberg model.

    For a complex dtype every tensor gets random phases on its bonds that cancel, so psi(s)
    is the same but no product can be cheaper for being real.
    """
    path = CACHE / f"heisenberg_{L}x{L}_D{D}.npy"
    peps = PEPS(square(L, L), D)
    if path.exists():
        theta = np.load(path)
    else:
        tensors = simple_update(heisenberg(square(L, L)), D, seed=0)
        theta = peps.flatten(tensors)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, theta)
    peps = PEPS(square(L, L), D, dtype)
    if np.dtype(dtype).kind == "c":
        theta = peps.flatten(_with_phases(PEPS(square(L, L), D).tensors(theta), (L, L)))
    return peps, theta.astype(dtype)


class WholeSample:
    """Walkers of one chunk; a call is an exchange sweep over all bonds, local energies and log-derivatives.

    Six calls are made at once, so that the walkers have left their start.
    """

    def __init__(
        self, L: int, D: int, chi: int, dtype: str = "float64", chunk: int | None = None
    ) -> None:
        peps, self._theta = heisenberg_state(L, D, dtype)
        self._peps = peps.with_scheme(SRC(chi))
        self._operator = heisenberg(square(L, L))
        self._moves = moves_for(self._operator)
        self.n_walkers = chunk or self._peps.execution.chunk
        configs = initial_configs(self._operator, self.n_walkers, seed=0)
        self._walkers = self._peps.start(self._theta, configs)
        self._n_sweeps = 0
        for _ in range(6):
            self()

    def __call__(self) -> tuple[SweepInfo, Snapshot]:
        u = uniforms(0, (0, self._n_sweeps), range(self.n_walkers), len(self._moves))
        self._n_sweeps += 1
        walkers, info = self._peps.sweep(self._theta, self._walkers, self._moves, u)
        targets = self._operator.targets
        self._walkers, snapshot = self._peps.measure(self._theta, walkers, targets)
        local_energy(self._operator, snapshot)
        return info, snapshot


def _with_phases(tensors: list[np.ndarray], shape: tuple[int, int]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    turned = [tensor.astype(complex) for tensor in tensors]
    n_rows, n_cols = shape
    for site in range(n_rows * n_cols):
        row, column = divmod(site, n_cols)
        for inside, other, axis, back in (
            (column < n_cols - 1, site + 1, 4, 2),
            (row < n_rows - 1, site + n_cols, 3, 1),
        ):
            if inside:
                phase = np.exp(2j * np.pi * rng.uniform(size=turned[site].shape[axis]))
                turned[site] = turned[site] * phase.reshape(
                    [-1 if a == axis else 1 for a in range(5)]
                )
                shape_back = [-1 if a == back else 1 for a in range(5)]
                turned[other] = turned[other] / phase.reshape(shape_back)
    return turned
