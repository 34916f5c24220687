"""Projected entangled pair states on an open grid: amplitudes, sweeps and measurements.

psi(s) is the contraction of one tensor per site, picked by the local state (Verstraete and Cirac,
cond-mat/0407066).  Sampling it with boundary MPS follows Liu, Dong, Han, Guo and He,
PRB 95, 195154 (2017) and Liu, Huang, Gong and Gu, PRB 103, 235155 (2021); here every walker of a
batch is contracted at once, and a pass leaves behind what the next one needs.
"""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tnvmc.ansatz.files import scheme_in_file, write_state
from tnvmc.ansatz.peps.draws import Drawer
from tnvmc.ansatz.peps.layout import open_rows
from tnvmc.ansatz.peps.row_contraction import RowContraction
from tnvmc.ansatz.peps.row_pass import LatestTheta
from tnvmc.ansatz.peps.sharing import Sharing
from tnvmc.ansatz.peps.starts.initial import KINDS, KINDS_OF_SHARED, initial
from tnvmc.ansatz.peps.symmetries import default_sharing
from tnvmc.ansatz.protocol import Execution, check_start, chi_of
from tnvmc.backend.arguments import shortly
from tnvmc.backend.namespace import to_host
from tnvmc.contraction.schemes import SRC, Exact, Scheme, default_chi
from tnvmc.lattice.embedding import Bonds
from tnvmc.lattice.lattice import Lattice
from tnvmc.lattice.permutations import Symmetry
from tnvmc.operators.fermions import Fermions
from tnvmc.operators.symmetry import which_commute
from tnvmc.operators.term import Operator

Array = Any

CHUNK_BYTES = 2**22
"""Size that the largest intermediate of a chunk aims at: the cache of one core, and no less than
16 walkers, below which the calls cost more than the products (measured, see benchmarks)."""

_NARROW = 4


class PEPS(RowContraction):
    """A PEPS with bonds of dimension D on the grid of `lattice`; one open row of it is an open MPS.

    Args:
        lattice: its grid gives the network; periodic bonds of the Hamiltonian are served by
            wider windows or by full contractions.
        D: bond dimension of the state.
        dtype: "float64", "float32", "complex128" or "complex64".  None: "float64", and "complex128"
            where the Hamiltonian that it is given to (by `VMC`, `initial`) is complex.
        scheme: how rows are absorbed; by default `SRC` with chi = 2 D, 4 at least, below which a
            VMC may stay (`GrowingChi`).
        local_dim: local dimension d.
        bonds: "open"; "periodic" on a cylinder, for rows that are rings: see docs/cylinders.md for
            what they cost; "snake" along the rows and back alone: the state that `MPS` makes.
        sharing: tensors that a symmetry takes to each other are one: `tnvmc.sharing(hamiltonian)`.
            The state has the symmetry then, whatever the parameters are, and a fraction of the
            parameters.  None: none are.  "auto": none here, and those of `default_sharing` in a
            `VMC`, as in a file, if it starts by itself and finds a ground state: see `vmc.ansatz`.
        fermions: "auto": those of the Hamiltonian that it is given to; `operator.fermions`, or None
            for spins.  They take open bonds, D = 2 and more, and share no tensors.

    theta is the concatenation over sites of tensors (d, up, left, down, right), legs at the edge
    having size 1.  It does not hold a norm: psi is not normalised.

    Raises:
        ValueError: D below 1 or no whole number, an unknown dtype, no scheme; periodic bonds on
            another lattice than a cylinder, or around fewer than three sites.
    """

    tempered = True
    exact_draws: bool | None
    """False: from |psi|^2 with the double layer truncated; None of fermions: no draws."""

    def __init__(
        self,
        lattice: Lattice,
        D: int,
        dtype: str | None = None,
        scheme: Scheme | None = None,
        local_dim: int = 2,
        bonds: Bonds = "open",
        sharing: Sharing | Literal["auto"] | None = "auto",
        fermions: Fermions | Literal["auto"] | None = "auto",
    ) -> None:
        if hasattr(dtype, "absorb"):
            raise TypeError(f"PEPS: dtype is {shortly(dtype)}; write scheme={dtype!r}")
        super().__init__(lattice, D, dtype, local_dim, bonds, sharing)
        self._hold_fermions(fermions)
        if scheme is not None and (isinstance(scheme, type) or not isinstance(scheme, Scheme)):
            raise ValueError(f"PEPS: scheme must be a scheme, as SRC(chi=8), got {shortly(scheme)}")
        self.scheme: Scheme = SRC(default_chi(self.D)) if scheme is None else scheme
        self.scheme_given = scheme is not None
        self.exact_draws = None if self.fermions else False
        self._latest = LatestTheta()
        self.starts = KINDS_OF_SHARED if self.shared else KINDS

    def with_scheme(self, scheme: Scheme) -> PEPS:
        """The same state contracted in another way; theta carries over."""
        return self._with(scheme=scheme)

    @cached_property
    def coarser(self) -> PEPS | None:
        """The state with half its chi, at least D; None where that saves nothing.

        On up to four rows or columns most bonds of a boundary are narrower than chi.
        """
        chi, scheme = chi_of(self) or 0, self.scheme
        half = max(self.D, chi // 2)
        if half >= chi or min(self.lattice.shape) <= _NARROW or not is_dataclass(scheme):
            return None
        return self.with_scheme(replace(scheme, chi=half))

    def _of_type(self, dtype: str) -> PEPS:
        return self._with(dtype=dtype)

    def shared_for(self, operator: Operator | None) -> PEPS:
        """The same state with what it shares by default for a Hamiltonian; None: nothing."""
        if operator is None or operator.lattice != self.lattice or self.fermions:
            return self._with(sharing=None)
        return self._with(sharing=default_sharing(operator, self.D, self.bonds))

    def _with(self, **changed: Any) -> PEPS:
        same = {
            "dtype": None if self.follows else self.dtype.name,
            "scheme": self.scheme if self.scheme_given else None,
            "sharing": "auto" if self.sharing_follows else self.sharing,
            "fermions": "auto" if self.fermions_follow else self.fermions,
        }
        return PEPS(
            self.lattice, self.D, local_dim=self.local_dim, bonds=self.bonds, **same | changed
        )

    def save(self, path: str | Path, theta: Array, *, overwrite: bool = False) -> None:
        """Write an HDF5 file that `load_state` and ansatz.init read, whole or not at all.

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
        scheme = scheme_in_file(self.scheme) if self.scheme_given else None
        more = {} if scheme is None else {"scheme": scheme}
        write_state(path, self, to_host(theta), more, {}, overwrite)

    @cached_property
    def execution(self) -> Execution:
        """Chunks that keep the largest intermediate of a two-row strip in the cache.

        The memory of a walker is about what was measured on a GPU.
        """
        widest = self.lattice.shape[1 if self.rings else 0] // 2
        chi = min(chi_of(self) or self.D**2, self.D**widest)
        strip = chi**2 * self.row_bond * self.D ** (1 if self.rings else 2)
        chunk = int(min(128, max(16, CHUNK_BYTES // (self.dtype.itemsize * strip))))
        per_site = 8 * self.D * chi**2 + 2 * self.D**4
        in_all = self.dtype.itemsize * (self.lattice.n_sites * per_site + 3 * strip)
        return Execution(chunk, in_all, apart=True)

    def initial(self, operator: Operator, seed: int = 0, kind: str | None = None) -> Array:
        """Make theta (P,) for an operator, complex where this is left open and the operator is.

        "simple_update" evolves in imaginary time, "product" takes the ordered product state that
        this begins with, "random" positive tensors; the first two with a little noise where they
        are zero.

        Raises:
            ValueError: another kind; a real state for a complex operator.
        """
        kind = kind or self.starts[0]
        check_start(self, kind)
        as_complex = self.follows and self.dtype.kind != "c" and operator.is_complex
        if as_complex or (self.fermions_follow and operator.fermions):
            return self.for_operator(operator).initial(operator, seed, kind)
        return initial(self, operator, seed, kind)

    def orbit_classes(self, configs: Array, operator: Operator) -> tuple[Array, Array] | None:
        """Of the symmetries by which tensors are shared, where nothing is truncated: psi that a
        finite chi changes is not the same in all of an orbit.
        """
        if self.sharing is None or self.local_dim**self.lattice.n_sites > 2**62:
            return None
        n_rows, n_cols = self.lattice.shape
        widest = max(min(n_rows - 1, n_cols // 2), min(n_cols - 1, n_rows // 2))
        group = [Symmetry("", element) for element in self.sharing.elements]
        truncates = self.scheme != Exact() and (chi_of(self) or 0) < self.D**widest
        if self.rings or truncates or len(group) < 2 or not all(which_commute(operator, group)):
            return None
        powers = self.local_dim ** np.arange(self.lattice.n_sites - 1, -1, -1)
        smallest = np.min([configs[:, g.sites] @ powers for g in group], axis=0)
        _, first, which = np.unique(smallest, return_index=True, return_inverse=True)
        return configs[first], which

    def drawer(self, theta: Array, chi: int | None = None, chi_mpo: int | None = None) -> Drawer:
        """What draws of one theta share: the double layer, contracted; by default with chi = D
        and chi_mpo = 2 D, for which weights on Heisenberg 8x8 are even to 1 % (D = 4)."""
        if self.fermions:
            raise ValueError("PEPS.drawer: there are no direct draws of fermions; take a Sampler")
        tensors, chi_mpo = open_rows(self, theta), chi_mpo or 2 * self.D
        return Drawer.build(tensors, self.embedding, chi or self.D, chi_mpo)
