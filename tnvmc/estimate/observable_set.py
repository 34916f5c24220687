"""What `tnvmc measure` measures of a model, and what observables.json says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.estimate.blocks import Blocks
from tnvmc.estimate.observables import (
    Dimers,
    LocalTerms,
    Observable,
    at_fixed_magnetisation,
    energy_terms,
    products,
    scalar_products,
    site_terms,
)
from tnvmc.estimate.structure import (
    correlation_matrix,
    momenta,
    staggered_square,
    structure_factor,
)
from tnvmc.lattice.lattice import Lattice
from tnvmc.operators.spin import NUMBER, spin_matrices
from tnvmc.operators.term import Operator

Json = dict[str, Any]
Measured = Mapping[str, Blocks]

ENERGY, DIMERS, ALL_PAIRS = "energy", "dimers", "SS"


@dataclass(frozen=True)
class ObservableSet:
    """The observables of one model, by name; those of `pairs` cost a source for each site.

    Atoms (units "n"): n and n n.  Everything else is taken as spins, in units of S: Sz, Sx, Sz Sz,
    S.S, and z dimers where the lattice has nearest bonds.
    """

    operator: Operator
    own: tuple[Operator, ...] = ()  #: of the user

    @property
    def lattice(self) -> Lattice:
        """The lattice."""
        return self.operator.lattice

    @property
    def atoms(self) -> bool:
        """Whether local state 1 is an excited atom rather than a spin that is down."""
        return self.operator.units == "n"

    def every_sample(self) -> dict[str, Observable]:
        """What each sample is measured for."""
        n, d = self.operator.n_sites, self.operator.local_dim
        found: dict[str, Observable] = {ENERGY: energy_terms(self.operator)}
        if self.atoms:
            found |= {"n": site_terms(n, NUMBER), "nn": products(n, NUMBER)}
        else:
            sx, _, sz = spin_matrices(d)
            found |= {"Sz": site_terms(n, sz), "Sx": self._in_sector(site_terms(n, sx))}
            found["SzSz"] = products(n, sz)
            if self.dimers is not None:
                found[DIMERS] = self.dimers
        return found | {f"operator {o.name}": self._in_sector(energy_terms(o)) for o in self.own}

    def some_samples(self) -> dict[str, Observable]:
        """What fewer samples are measured for, as it needs the ratios of all pairs."""
        n = self.operator.n_sites
        return (
            {} if self.atoms or n < 2 else {ALL_PAIRS: scalar_products(n, self.operator.local_dim)}
        )

    @property
    def dimers(self) -> Dimers | None:
        """Dimer correlations with the bond nearest to the middle."""
        bonds = self.lattice.bonds.get("nearest", ())
        if self.atoms or not bonds:
            return None
        coordinates = self.lattice.coordinates
        middle = coordinates.mean(axis=0)
        away = [np.abs(coordinates[list(bond)].mean(axis=0) - middle).sum() for bond in bonds]
        return Dimers(bonds[int(np.argmin(np.round(away, 9)))], bonds, self.operator.local_dim)

    def _in_sector(self, terms: LocalTerms) -> LocalTerms:
        """Terms as the sampled state shows them: it has a fixed magnetisation where H has."""
        conserved = self.operator.conserves_magnetisation
        return at_fixed_magnetisation(terms) if conserved else terms

    def report(self, measured: Measured) -> Json:
        """Everything but the energy, as it stands in observables.json."""
        return {
            "bonds": self._bonds(measured),
            "sites": {k: _lists(*measured[k].derive()) for k in ("Sz", "Sx", "n") if k in measured},
            **self._two_point(measured),
            "dimers": self._dimers(measured),
            "operators": {
                o.name: _number(*measured[f"operator {o.name}"].derive(_total)) for o in self.own
            },
        }

    def _bonds(self, measured: Measured) -> list[Json]:
        kinds = {bond: kind for kind, bonds in self.lattice.bonds.items() for bond in bonds}
        means, errors = measured[ENERGY].derive()
        terms = energy_terms(self.operator).terms
        return [
            {
                "sites": list(term.sites),
                "kind": kinds.get(term.sites, "pair"),
                **_number(mean, error),
            }
            for term, mean, error in zip(terms, means, errors, strict=True)
            if len(term.sites) == 2
        ]

    def _two_point(self, measured: Measured) -> Json:
        names = [name for name in ("SzSz", ALL_PAIRS, "nn") if name in measured]
        found: Json = {
            "correlations": {
                name: _lists(*map(correlation_matrix, measured[name].derive())) for name in names
            },
            "structure_factor": {name: self._factor(measured[name]) for name in names},
            "staggered_magnetisation_squared": None,
        }
        if ALL_PAIRS in measured:

            def square(means: np.ndarray) -> np.ndarray:
                return np.array([staggered_square(self.lattice, correlation_matrix(means))])

            found["staggered_magnetisation_squared"] = _number(*measured[ALL_PAIRS].derive(square))
        return found

    def _factor(self, blocks: Blocks) -> Json:
        def factor(means: np.ndarray) -> np.ndarray:
            return structure_factor(self.lattice, correlation_matrix(means))

        return {
            "n": list(self.lattice.shape),
            "q": momenta(self.lattice).tolist(),
            **_lists(*blocks.derive(factor)),
        }

    def _dimers(self, measured: Measured) -> Json | None:
        if self.dimers is None or DIMERS not in measured:
            return None
        return {
            "reference": list(self.dimers.reference),
            "bonds": [list(bond) for bond in self.dimers.bonds],
            **_lists(*measured[DIMERS].derive(self.dimers.connected)),
        }


def _total(means: np.ndarray) -> np.ndarray:
    return np.array([means.sum()])


def _number(mean: Any, error: Any) -> Json:
    return {"mean": float(np.sum(mean)), "error": float(np.sum(error))}


def _lists(means: np.ndarray, errors: np.ndarray) -> Json:
    return {"mean": means.tolist(), "error": errors.tolist()}
