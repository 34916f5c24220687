"""A second opinion on a sampled energy: that of the same PEPS by its double layer, without samples.

What is sampled is psi in one sector where the operator conserves the magnetisation, so psi is
projected on that sector first; elsewhere all of psi is meant.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.backend import progress
from tnvmc.backend.namespace import to_host
from tnvmc.backend.process import one_blas_thread
from tnvmc.contraction.double_expectation import (
    DoubleLayerValue,
    EmptySector,
    boundary_expectation,
    estimated_cost,
)
from tnvmc.contraction.double_terms import TermsDoNotFit
from tnvmc.exact import MEMORY_SHARE, available_bytes
from tnvmc.lattice.embedding import Embedding
from tnvmc.lattice.grids import square
from tnvmc.operators.term import Operator
from tnvmc.shown import Shown, Table, fixed
from tnvmc.storage.identity import kind_in
from tnvmc.vmc.measurement import Measured
from tnvmc.vmc.results import finite_or_none

Array = Any

MAX_SECONDS = 120.0
"""Longest time that a scan of the double layer takes unless it is asked for."""


_RESOLVED = 0.1  # of the sampled error: a change with chi that ends the scan
_ROUNDING = 1e-9  # of the energy: a change that is none
_DOUBLINGS = 5
_SHORTEST = 1e-3  # seconds: of a lattice of one site nothing is estimated

When = bool | None
"""Whether the double layer is asked: None where that is affordable, True always, False never."""


class LeftOut(ValueError):
    """The double layer cannot be asked; `reason` says why, as plain values."""

    def __init__(self, told: str, reason: str = "state", **values: Any) -> None:
        self.reason = {"reason": reason, **values}
        super().__init__(f"double layer: {told.removeprefix('double layer: ')}")


@dataclass(frozen=True, repr=False)
class DoubleLayerScan(Shown):
    """Energies (totals) by the double layer at growing chi; none where it was left out."""

    points: tuple[DoubleLayerValue, ...]
    n_sites: int
    units: str
    left_out: Mapping[str, Any] | None = None  #: "reason", and the values it was judged by

    @property
    def energy(self) -> float | None:
        """The energy at the largest chi; None where there is none."""
        return self.points[-1].value if self.points else None

    @property
    def truncation(self) -> float | None:
        """By how much the last step of chi moved it: 0 where no bond is cut, None for one chi."""
        if self.points and self.points[-1].uncut:
            return 0.0
        if len(self.points) < 2:
            return None
        return abs(self.points[-1].value - self.points[-2].value)

    def __repr__(self) -> str:
        if not self.points:
            return f"<DoubleLayerScan: left out, {dict(self.left_out or {})}>"
        chis = ", ".join(str(point.chi) for point in self.points)
        energy = self.points[-1].value
        told = f"energy {energy:.8f}, per site {energy / self.n_sites:.8f} ({self.units} units)"
        return f"<DoubleLayerScan: chi {chis}; {told}>"

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """What a table shows of each chi."""
        return [
            (
                str(point.chi), fixed(point.value, 8), fixed(point.value / self.n_sites, 8),
                f"{point.closure_spread:.1e}", f"{point.seconds:.1f}",
            )
            for point in self.points
        ]  # fmt: skip

    def _table(self) -> Table:
        title = f"energy by the double layer, {self.units} units"
        if self.points and (sector := self.points[-1].magnetisation) is not None:
            title += f", sector 2 Sz = {sector}, {self.points[-1].sector_weight:.2g} of |psi|^2"
        columns = ("chi", "energy", "energy per site", "closure spread", "seconds")
        return Table(title, columns, self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Give a dict for strict JSON."""
        last = self.points[-1] if self.points else None
        shown = ("chi", "closure_spread", "uncut", "n_angles", "seconds")
        return finite_or_none(
            {
                "energy": self.energy,
                "truncation": self.truncation,
                "magnetisation": last and last.magnetisation,
                "sector_weight": last and last.sector_weight,
                "seconds": sum(point.seconds for point in self.points),
                "points": [
                    {"energy": point.value, **{key: getattr(point, key) for key in shown}}
                    for point in self.points
                ],
                "left_out": self.left_out and dict(self.left_out),
            }
        )

    def __str__(self) -> str:
        return str(self._table()) if self.points else ""


def scan_double_layer(measured: Measured, when: When = None) -> DoubleLayerScan | None:
    """Contract the double layer of what was measured, at growing chi.

    It begins at chi = D^2 / 2 and doubles it until the energy moves by less than a tenth of the
    sampled error, or no bond is cut; `when` says whether to do it at all.

    Raises:
        LeftOut: it was asked for and cannot be done.

    Cost: see `estimated_cost`; without being asked for `MAX_SECONDS` at most.
    """
    if when is False:
        return None
    operator = measured.problem.operator
    try:
        points = tuple(_points(measured, when))
        return DoubleLayerScan(points, operator.n_sites, operator.units)
    except LeftOut as error:
        if when:
            raise
        return DoubleLayerScan((), operator.n_sites, operator.units, error.reason)


def on_grid(operator: Operator, found: Embedding) -> Operator:
    """Give the same terms on an open square lattice with a site at every place."""
    if not found.n_vacant:
        return operator
    terms = tuple(replace(term, sites=found.placed(term.sites)) for term in operator.terms)
    return replace(operator, lattice=square(*found.shape), terms=terms)


def _points(measured: Measured, when: When) -> Iterator[DoubleLayerValue]:
    """Energies at one chi after another, until that is enough or too much."""
    energy = measured.measurement
    peps, tensors = layers_of(measured.problem.ansatz, measured.point.theta)
    sector = _sector(measured)
    enough = max(_RESOLVED * energy.energy_error, _ROUNDING * abs(energy.energy))
    operator = on_grid(measured.problem.operator, peps.embedding)
    # at vacant places stands the local state 0
    up = peps.embedding.n_vacant * (operator.local_dim - 1)
    whole_sector = None if sector is None else sector + up
    costs = _costs(operator, peps.D, sector, when)
    progress.begin("double_layer")
    spent, slower, before, error = 0.0, 1.0, None, None
    for chi, seconds in costs.items():
        if before is not None and when is None and spent + slower * seconds > MAX_SECONDS:
            return
        try:
            with one_blas_thread():
                point = boundary_expectation(tensors, operator, chi, magnetisation=whole_sector)
        except EmptySector as found:  # a larger chi may see it
            error = found
            continue
        yield replace(point, magnetisation=sector)
        spent, slower = spent + point.seconds, point.seconds / max(seconds, _SHORTEST)
        small = before is not None and abs(point.value - before.value) <= enough
        if point.uncut or small:
            return
        before = point
    if before is None:
        raise LeftOut(str(error), reason="empty", chi=max(costs), magnetisation=sector)


def growing_chis(D: int) -> list[int]:
    """Give the chi of a scan, D^2 / 2 and its doubles."""
    return [max(2, D**2 // 2) << k for k in range(_DOUBLINGS + 1)]


def _costs(operator: Operator, D: int, sector: int | None, when: When) -> dict[int, float]:
    """Estimate the seconds of each chi of the scan; LeftOut for too much memory or time."""
    most = MEMORY_SHARE * available_bytes()
    chis = growing_chis(D)
    try:
        costs = {chi: estimated_cost(operator, D, chi, sector=sector is not None) for chi in chis}
    except TermsDoNotFit as error:
        raise LeftOut(
            str(error), reason="terms", n_unfit=error.n_unfit, n_terms=error.n_terms
        ) from None
    if (n_bytes := costs[chis[0]].n_bytes) > most:
        raise LeftOut(
            f"D = {D} at chi = {chis[0]} needs {n_bytes / 1e9:.2g} GB, more than the "
            f"{most / 1e9:.2g} GB that there are",
            reason="memory", D=D, chi=chis[0], n_bytes=n_bytes, most=most,
        )  # fmt: skip
    seconds = sum(costs[chi].seconds for chi in chis[:2])
    if when is None and seconds > MAX_SECONDS:
        raise LeftOut(
            f"D = {D} at chi = {chis[1]} would take about {seconds:.0f} s",
            reason="cost", D=D, chi=chis[1], seconds=seconds, most=MAX_SECONDS,
        )  # fmt: skip
    return {chi: cost.seconds for chi, cost in costs.items() if cost.n_bytes <= most}


def layers_of(ansatz: Ansatz, theta: Array) -> tuple[PEPS, list[Array]]:
    """Give a PEPS, and its tensors at all places of the grid, in double precision.

    Raises:
        LeftOut: another state; periodic bonds; fermions, whose signs stand in no tensor.
    """
    kind = kind_in(ansatz.description())
    if isinstance(ansatz, PEPS):
        if not (ansatz.rings or ansatz.fermions):
            found = ansatz.embedding.filled(ansatz.tensors(to_host(theta)))
            return ansatz, [each.astype(np.result_type(each.dtype, np.float64)) for each in found]
        kind = f"PEPS {'of fermions' if ansatz.fermions else 'with periodic bonds'}"
    raise LeftOut(f"the layers of a {kind} are not contracted", state=kind)


def _sector(measured: Measured) -> int | None:
    """Twice the total Sz of what was sampled; None where that is not conserved."""
    operator, seen = measured.problem.operator, measured.observation
    if not operator.conserves_magnetisation:
        return None
    sums = np.unique(to_host(seen.snapshot.configs).sum(axis=1, dtype=np.int64))
    if len(sums) > 1:
        raise LeftOut(
            f"the samples lie in {len(sums)} sectors of 2 Sz; start all walkers in one",
            reason="sectors", n_sectors=len(sums),
        )  # fmt: skip
    return operator.n_sites * (operator.local_dim - 1) - 2 * int(sums[0])
