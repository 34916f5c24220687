"""All observables of a state in Python: measured as ``tnvmc measure`` does, labelled, drawn."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import chi_of
from tnvmc.backend import progress
from tnvmc.backend.arguments import refuse, whole
from tnvmc.estimate.blocks import Blocks
from tnvmc.estimate.diagnostic import Diagnostic, warn_of
from tnvmc.estimate.observable_set import ALL_PAIRS, ENERGY, ObservableSet
from tnvmc.estimate.observables import Squares
from tnvmc.operators.foreign import as_operator
from tnvmc.operators.order import OF_PAIRS, order_parameter, order_parts
from tnvmc.operators.properties import particles_of
from tnvmc.operators.term import Operator, require_operator
from tnvmc.report.observables import observed, samples_text
from tnvmc.sampling import streams
from tnvmc.sampling.configurations import in_sector, magnetisation_of
from tnvmc.sampling.problem import Point, Problem
from tnvmc.session.arguments import as_tuple, check_observable
from tnvmc.session.calls import work_shown
from tnvmc.shown import Shown, Table, with_error
from tnvmc.trust.energies import of_level
from tnvmc.trust.reference import Place
from tnvmc.vmc.core import Made, Method, controlled
from tnvmc.vmc.measured_iterate import measured_iterate
from tnvmc.vmc.measurement import MeasurementPlan, collect
from tnvmc.vmc.results import finite_or_none

PAIR_SAMPLES = 2**16
"""Over N: most samples that S.S of all pairs is measured on where no number is given (1024 of 64
sites).  Each costs as much as tens of others."""

PAIR_THIN = 4
"""Sweeps between them, in those between others: still cheap next to the ratios."""


class Observables(dict[str, Any], Shown):
    """What observables.json holds, as a dict; with labels, pictures and a table.

    "sites" has the fields (Sz, Sx; n of atoms), "correlations" the pairs (SzSz, SS; nn), each with
    "mean" and "error"; "bonds" the energy of each bond; "structure_factor" S(q); "operators" those
    of one's own.
    """

    def to_xarray(self) -> Any:
        """Give an xarray Dataset of what was measured.

        Variables, each with `_error` for its standard error: `correlation` (component, site,
        other), `value` (field, site), `structure_factor` (component, q).  Coordinates: names of
        components and fields, `x`, `y`, `other_x`, `other_y` of sites, `qx`, `qy`.
        """
        try:
            from xarray import Dataset
        except ImportError:
            raise ImportError(
                "to_xarray: xarray is missing; install the extra 'notebook', or: pip install xarray"
            ) from None
        sites = np.arange(int(self["n_sites"]))
        coordinates: dict[str, Any] = {"site": sites, "other": sites}
        if self.get("coordinates") is not None:
            x, y = np.array(self["coordinates"], dtype=float).T
            coordinates |= {"x": ("site", x), "y": ("site", y)}
            coordinates |= {"other_x": ("other", x), "other_y": ("other", y)}
        variables: dict[str, Any] = {}
        for part, name, axes in _PARTS:
            if not (found := self.get(part)):
                continue
            coordinates[axes[0]] = list(found)
            for key, suffix in (("mean", ""), ("error", "_error")):
                values = np.array([each[key] for each in found.values()], dtype=float)
                variables[name + suffix] = (axes, values)
            if axes[-1] == "q":
                q = np.array(next(iter(found.values()))["q"], dtype=float)
                coordinates |= {"qx": ("q", q[:, 0]), "qy": ("q", q[:, 1])}
        told = {key: self[key] for key in _TOLD if self.get(key) is not None}
        return Dataset(variables, coordinates, told)

    def _energies(self) -> tuple[str, str]:
        n, (mean, error) = self["n_sites"], _both(self["energy"])
        return with_error(mean, error), with_error(mean / n, error / n)

    def __repr__(self) -> str:
        total, per_site = self._energies()
        names = [*self.get("sites", {}), *self.get("correlations", {}), *self.get("operators", {})]
        return (
            f"<Observables: {', '.join(names)} of {self['n_sites']} sites; energy {total}, per "
            f"site {per_site} ({self['units']} units), {self['n_samples']} samples>"
        )

    def _table(self) -> Table:
        total, per_site = self._energies()
        rows = [("energy", total, "total"), ("energy per site", per_site, "")]
        rows += [(row.name, row.value, row.detail) for row in observed(self)]
        rows.append(("samples", samples_text(self), ""))
        notes = [Diagnostic.from_dict(each) for each in self.get("diagnostics", ())]
        return Table(f"observables, {self['units']} units", ("", "", ""), rows, notes)


_PARTS = (
    ("correlations", "correlation", ("component", "site", "other")),
    ("sites", "value", ("field", "site")),
    ("structure_factor", "structure_factor", ("component", "q")),
)
_TOLD = ("model", "units", "boundary", "step", "magnetisation", "n_samples", "pair_samples", "chi")


def _both(found: Mapping[str, Any]) -> tuple[float, float]:
    mean, error = (float("nan") if found[k] is None else found[k] for k in ("mean", "error"))
    return mean, error


def measure_observables(
    vmc: Made,
    n_samples: int | None = None,
    chi: int | None = None,
    pair_samples: int | None = None,
    operators: Sequence[Operator | str] = (),
    progress: bool = False,
) -> Observables:
    """Measure fields, correlations, S(q) and bond energies of the present state, with error bars.

    >>> found = tnvmc.measure_observables(vmc, n_samples=4096)  # doctest: +SKIP
    >>> found.to_xarray()["correlation"].sel(component="SS", site=0)  # doctest: +SKIP

    What ``tnvmc measure`` measures of a run, in samples of its own; nothing is written.

    Args:
        vmc: whose `measured_theta` is measured.
        n_samples, chi, progress: as of `VMC.measure`.
        pair_samples: of S.S of all pairs, which costs more: 0 for none; by default `n_samples`, and
            `PAIR_SAMPLES` / N at most.
        operators: more to be measured, totals; of a `NonHermitian` the real and the imaginary part.
            A name of `ORDERS`, as "neel", is m^2 of an order parameter (`order_parameter`).

    Raises:
        TypeError: no VMC, no operators.
        ValueError: numbers below their least; an operator on another lattice; two of one name; an
            order parameter that has no meaning on the lattice or for the particles.

    Warns:
        UnreliableWarning: for each of its "diagnostics" that is a warning or an error.
    """
    if not hasattr(vmc, "method"):
        raise refuse("measure_observables", "vmc", vmc, "a VMC, as VMC(operator, ansatz)")
    given = as_tuple(operators)
    own = _checked(vmc, [each for each in given if type(each) is not str])
    names = [each for each in given if type(each) is str]
    if pair_samples is not None:
        pair_samples = whole("measure_observables", "pair_samples", pair_samples, 0)
    plan, step = MeasurementPlan(n_samples, chi), vmc.state.step
    with work_shown(progress):
        method = controlled(vmc.method, vmc.state)
        point, reasons = measured_iterate(method, vmc.state)
        method = plan.applied(method, point, step)
        observables = observables_of(method.problem, own, names)
        found, _ = measured_observables(method, point, observables, pair_samples, reasons=reasons)
    warn_of((Diagnostic.from_dict(each) for each in found["diagnostics"]), "measure_observables")
    return Observables(finite_or_none({**description(vmc.operator), "step": step, **found}))


def _checked(vmc: Made, operators: Any) -> tuple[Operator, ...]:
    """The operators, those that are not Hermitian by their two parts."""
    where, found = "measure_observables", list[Operator]()
    for each in as_tuple(operators):
        operator = as_operator(each, vmc.operator.lattice)
        if not hasattr(operator, "hermitian_parts"):
            require_operator(where, "each of operators", operator)
        check_observable(where, operator, vmc.method.problem)
        found += operator.hermitian_parts
    return tuple(found)


def observables_of(
    problem: Problem, own: Sequence[Operator] = (), names: Sequence[str] = ()
) -> ObservableSet:
    """Give what is measured: all that is cheap, operators, and order parameters by name.

    Raises:
        ValueError: as `order_parameter`; two of one name.
    """
    operator, every = in_sector(problem.operator, problem.magnetisation), list[Any](own)
    about = operator.lattice, operator.local_dim, operator.fermions
    # Where psi = 0 by symmetry M psi need not be 0, and squares would leave that out.
    vanishes = any(g.character < 0 for g in getattr(problem.ansatz.group, "elements", ()))
    for name in names:
        parts = () if vanishes else order_parts(name, *about)
        every.append(Squares(name, parts) if parts else order_parameter(name, *about))
    given = [each.name for each in every]
    if twice := {name for name in given if given.count(name) > 1}:
        raise ValueError(f"measure: two operators are named '{min(twice)}'; rename one")
    return ObservableSet(operator, tuple(every), problem.ansatz.kept_by)


def measured_observables(
    method: Method, point: Point, observables: ObservableSet, pair_samples: int | None,
    scheme: Any = None, reasons: Iterable[Diagnostic] = (),
) -> tuple[dict[str, Any], dict[str, Blocks]]:  # fmt: skip
    """Draw samples, and give what observables.json says of them, and the samples by name.

    `method` is that of the energy and of all that is cheap.  S.S of all pairs takes `pair_samples`,
    0 for none, None for `PAIR_SAMPLES` / N at most, by another scheme than all else where one is
    given.  `reasons` say why another point than the last is measured.
    """
    progress.begin("observables")
    every = collect(method, point, observables.every_sample(), streams.OBSERVABLES)
    blocks, energy = dict(every.blocks), every.total.estimate((method, point))
    problem, chi_of_pairs = method.problem, None
    if pair_samples == 0 and any(each.name in OF_PAIRS for each in observables.own):
        raise ValueError("measure: an order parameter needs S.S of all pairs; give pair_samples")
    if pair_samples != 0 and observables.some_samples():
        most = PAIR_SAMPLES // problem.operator.n_sites + 1
        n_pairs = min(method.sampler.n_samples or 0, most) if pair_samples is None else pair_samples
        n_thin = PAIR_THIN * getattr(method.sampler, "n_thin", 1)
        ansatz = problem.ansatz if scheme is None else problem.ansatz.with_scheme(scheme)
        sampler = method.sampler.for_measurement(n_pairs, n_thin=n_thin)
        if pair_samples is not None:
            sampler.warn_if_rounded("pair_samples")
        fewer = replace(method, problem=replace(problem, ansatz=ansatz), sampler=sampler)
        progress.begin("pairs")
        blocks |= collect(fewer, point, observables.some_samples(), streams.PAIRS).blocks
        chi_of_pairs = chi_of(ansatz)
    sector = magnetisation_of(problem.operator, point.configs)
    place = Place(problem.operator, sector, problem.ansatz, tuple(method.orthogonal_to))
    level = () if method.in_real_time else of_level((energy.mean, energy.error), place)
    of_energy = (*energy.diagnostics, *level)
    told = (*reasons, *of_energy, *of_terms(blocks))
    samples, pairs = blocks[ENERGY], blocks.get(ALL_PAIRS)
    found = {
        "magnetisation": sector,
        "particles": particles_of(problem.operator, sector),
        "n_samples": samples.n_samples,
        "pair_samples": 0 if pairs is None else pairs.n_samples,
        "effective_samples": samples.effective_samples,
        "chi": chi_of(problem.ansatz),
        "pair_chi": None if pairs is None else chi_of_pairs,
        "diagnostics": [each.as_dict() for each in (*told, *observables.left_out())],
        "energy": {"mean": energy.mean, "error": energy.error},
        "variance": energy.variance,
        **observables.report(blocks),
    }
    return found, blocks


def description(operator: Operator) -> dict[str, Any]:
    """Give what observables.json says of the system, but the name of its model in a file."""
    lattice = operator.lattice
    return {
        "n_sites": lattice.n_sites,
        "lattice": lattice.kind,
        "shape": list(lattice.shape),
        "vacant": list(lattice.vacant),
        "coordinates": None if lattice.coordinates is None else lattice.positions().tolist(),
        "boundary": lattice.boundary,
        "units": operator.units,
        "model": operator.name,
    }


def of_terms(blocks: Mapping[str, Blocks]) -> list[Diagnostic]:
    """Give what speaks against the error bars of observables, by name."""
    return [
        replace(each, values={**each.values, "observable": name})
        for name, found in blocks.items()
        if name != ENERGY
        for each in found.diagnostics()
    ]
