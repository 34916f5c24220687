"""What `tnvmc measure` measures of a model, and what observables.json says of it."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tnvmc.estimate.blocks import Blocks
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.momenta import (
    correlation_matrix,
    momenta,
    momentum_shape,
    structure_factor,
    symmetric_points,
    zone_of,
)
from tnvmc.estimate.observables import (
    Dimers,
    LocalTerms,
    Observable,
    alike,
    at_fixed_magnetisation,
    energy_terms,
    products,
    scalar_products,
    site_terms,
    two_point,
)
from tnvmc.lattice.lattice import Lattice, Patch
from tnvmc.lattice.permutations import colouring, point_group, translations
from tnvmc.operators.order import OF_PAIRS
from tnvmc.operators.spin import named_matrices, spin_matrices
from tnvmc.operators.symmetry import which_commute
from tnvmc.operators.term import Operator

Json = dict[str, Any]
Measured = Mapping[str, Blocks]

ENERGY, DIMERS, ALL_PAIRS = "energy", "dimers", "SS"


@dataclass(frozen=True)
class ObservableSet:
    """The observables of one model, by name; those of `pairs` cost a source for each site.

    Atoms (units "n"): n and n n.  Fermions: n, n n, with spin also Sz, Sz Sz, S.S and double
    occupation nupdn.  Everything else is taken as spins, in units of S: Sz, Sx, Sz Sz, S.S, and z
    dimers where the lattice has bonds.  What has no meaning on the lattice is `left_out`.
    """

    operator: Operator
    own: tuple[Any, ...] = ()  #: operators of the user, and order parameters
    kept_by: tuple[Patch, ...] = ()
    """Rearrangements of the sites that keep the state (`Abilities.kept_by`): what they take to each
    other has one value, the mean of those in each sample."""

    @property
    def lattice(self) -> Lattice:
        """The lattice."""
        return self.operator.lattice

    @property
    def atoms(self) -> bool:
        """Whether local states are numbers, of excited atoms or bosons, rather than spins."""
        return self.operator.units == "n"

    @property
    def names(self) -> set[str]:
        """Names of the means over sites and of the functions of pairs that are measured."""
        of_spins = {ALL_PAIRS, "staggered_magnetisation_squared"} if "Sz" in self._fields else set()
        return {*self._fields, *(2 * k for k in self._fields if k in ("Sz", "n")), *of_spins}

    def every_sample(self) -> dict[str, Observable]:
        """What each sample is measured for."""
        n = self.operator.n_sites
        found: dict[str, Observable] = {ENERGY: energy_terms(self.operator)}
        found |= {k: self._in_sector(site_terms(n, m)) for k, m in self._fields.items()}
        found |= {2 * k: products(n, m) for k, m in self._fields.items() if k in ("Sz", "n")}
        if self.dimers is not None:
            found[DIMERS] = self.dimers
        return found | self._own(pairs=False)

    def _own(self, pairs: bool) -> dict[str, Observable]:
        """Those that need the ratios of all pairs, or the others."""
        chosen = [o for o in self.own if (o.name in OF_PAIRS) == pairs]
        return {
            f"operator {o.name}": o if hasattr(o, "parts") else self._in_sector(energy_terms(o))
            for o in chosen
        }

    def some_samples(self) -> dict[str, Observable]:
        """What fewer samples are measured for, as it needs the ratios of all pairs."""
        n, d, own = self.operator.n_sites, self.operator.local_dim, self._own(pairs=True)
        if "Sz" not in self._fields or n < 2:
            return own
        if self.operator.fermions is None:
            return {ALL_PAIRS: scalar_products(n, d), **own}
        named = self.operator.fermions.named_matrices()
        spins = [named[name] for name in ("Sx", "Sy", "Sz")]
        pair, square = (sum(f(s, s).real for s in spins) for f in (np.kron, np.matmul))
        return {ALL_PAIRS: two_point(n, np.asarray(pair), np.asarray(square)), **own}

    @cached_property
    def _fields(self) -> dict[str, np.ndarray]:
        """Matrices (d, d) that are measured on every site, by name."""
        if self.operator.fermions is not None:
            named = self.operator.fermions.named_matrices()
            return {name: named[name] for name in ("n", "Sz", "nupdn") if name in named}
        sx, _, sz = spin_matrices(self.operator.local_dim)
        density = named_matrices(self.operator.local_dim)["n"]
        return {"n": density} if self.atoms else {"Sz": sz, "Sx": sx}

    @property
    def dimers(self) -> Dimers | None:
        """Dimer correlations with the bond nearest to the middle, without coordinates of the list.

        Bonds of kind "nearest", or of all kinds where there are none of it.
        """
        every = dict.fromkeys(bond for kind in self.lattice.bonds.values() for bond in kind)
        bonds = self.lattice.bonds.get("nearest") or tuple(every)
        if self.atoms or self.operator.fermions is not None or not bonds:
            return None
        middle = len(bonds) // 2
        if (coordinates := self.lattice.coordinates) is not None:
            centre = coordinates.mean(axis=0)
            away = [np.abs(coordinates[list(bond)].mean(axis=0) - centre).sum() for bond in bonds]
            middle = int(np.argmin(np.round(away, 9)))
        return Dimers(bonds[middle], bonds, self.operator.local_dim)

    def left_out(self) -> Iterator[Diagnostic]:
        """Yield what has no meaning on the lattice, and why (`observable_left_out`)."""
        missing: list[Json] = []
        if self.lattice.coordinates is None:
            missing.append({"observable": "structure_factor", "reason": "coordinates"})
        found = colouring(self.lattice)
        if "Sz" in self._fields and self.operator.n_sites > 1 and found.sublattice is None:
            more = {"ring": list(found.odd_ring)} if found.odd_ring else {"parts": found.n_parts}
            why = "bipartite" if found.odd_ring else "connected"
            missing.append({"observable": "staggered_magnetisation_squared", "reason": why, **more})
        for values in missing:
            yield Diagnostic("observable_left_out", "open", values)

    def _in_sector(self, terms: LocalTerms) -> LocalTerms:
        """Terms as the sampled state shows them: it has a fixed magnetisation where H has."""
        conserved = self.operator.conserves_magnetisation
        return at_fixed_magnetisation(terms, self.operator) if conserved else terms

    def report(self, measured: Measured) -> Json:
        """Everything but the energy, as it stands in observables.json."""
        fields = {name: measured[name] for name in self._fields}
        return {
            "symmetries": len(self.kept_by) or 1,
            **self._by_place(measured, self.kept_by),
            "orbits": self._by_place(measured, self._moves) if len(self._moves) > 1 else None,
            "averages": {
                "bonds": self._means_of_kinds(measured[ENERGY]),
                "sites": {k: _number(*blocks.derive(np.mean)) for k, blocks in fields.items()},
            },
            **self._two_point(measured),
            "dimers": self._dimers(measured),
            "operators": {
                name: number
                for name in (each.name for each in self.own)
                if (number := _number(*measured[f"operator {name}"].derive(np.sum)))
                and not math.isnan(number["mean"])
            },
        }

    @cached_property
    def _pairs(self) -> list[tuple[int, Patch, str]]:
        """Of the terms of the energy on two sites: which term, its sites, and its kinds of bond."""
        kinds: dict[Patch, str] = {}
        for kind, bonds in self.lattice.bonds.items():
            kinds |= {b: f"{kinds[b]}, {kind}" if b in kinds else kind for b in bonds}
        sites = [term.sites for term in energy_terms(self.operator).terms]
        return [(k, s, kinds.get(s, "pair")) for k, s in enumerate(sites) if len(s) == 2]

    def _means_of_kinds(self, blocks: Blocks) -> Json:
        """The mean energy of a bond of each kind."""
        kinds: dict[str, list[int]] = {}
        for index, _, kind in self._pairs:
            kinds.setdefault(kind, []).append(index)

        def means(values: np.ndarray) -> list[float]:
            return [values[places].mean() for places in kinds.values()]

        found = blocks.derive(means) if kinds else ((), ())
        return {kind: _number(mean, error) for kind, mean, error in zip(kinds, *found, strict=True)}

    def _by_place(self, measured: Measured, moves: Sequence[Patch]) -> Json:
        """Bonds and sites; those that some rearrangements take to each other have one value."""
        means, errors = measured[ENERGY].derive(self._evened(ENERGY, moves))
        fields = {k: measured[k].derive(self._evened(k, moves)) for k in self._fields}
        return {
            "bonds": [
                {"sites": list(sites), "kind": kind, **_number(means[k], errors[k])}
                for k, sites, kind in self._pairs
            ],
            "sites": {name: _lists(*found) for name, found in fields.items()},
        }

    @cached_property
    def _moves(self) -> list[Patch]:
        """What H is symmetric under and the state is not known to be; none for fermions."""
        found = [*point_group(self.lattice), *translations(self.lattice)]
        kept = zip(found, which_commute(self.operator, found), strict=True)
        return [] if len(self.kept_by) > 1 else list({g.sites for g, commutes in kept if commutes})

    def _two_point(self, measured: Measured) -> Json:
        names = [name for name in ("SzSz", ALL_PAIRS, "nn") if name in measured]
        found: Json = {
            "correlations": {
                name: _lists(
                    *map(
                        correlation_matrix, measured[name].derive(self._evened(name, self.kept_by))
                    )
                )
                for name in names
            },
            "structure_factor": {},
            "staggered_magnetisation_squared": None,
        }
        if self.lattice.coordinates is not None:
            found["structure_factor"] = {name: self._factor(name, measured) for name in names}
        board = colouring(self.lattice).sublattice
        if ALL_PAIRS in measured and board is not None:
            sign, n = 1.0 - 2.0 * board, self.operator.n_sites

            def square(means: np.ndarray) -> float:
                return float(sign @ correlation_matrix(means) @ sign / n**2)

            found["staggered_magnetisation_squared"] = _number(*measured[ALL_PAIRS].derive(square))
        return found

    def _factor(self, name: str, measured: Measured) -> Json:
        evened, filled = self._evened(name, self.kept_by) or np.asarray, 0.0
        strings, sector = self.operator.strings, self.operator.magnetisation
        if name == "nn" and strings is not None and sector is not None:  # of n less its mean
            filled = (sum(strings.particles(sector)) / self.operator.n_sites) ** 2

        def factor(means: np.ndarray) -> np.ndarray:
            return structure_factor(self.lattice, correlation_matrix(evened(means)) - filled)

        return {
            "n": list(momentum_shape(self.lattice)),
            "zone": zone_of(self.lattice),
            "q": momenta(self.lattice).tolist(),
            "points": {name: q.tolist() for name, q in symmetric_points(self.lattice).items()},
            **_lists(*measured[name].derive(factor)),
        }

    def _evened(
        self, name: str, moves: Sequence[Patch]
    ) -> Callable[[np.ndarray], np.ndarray] | None:
        """Give what puts, for each term of an observable, the mean over those that are alike; None
        without symmetries.
        """
        if len(moves) < 2:
            return None
        terms: Any = (self.every_sample() | self.some_samples())[name]
        labels = alike(terms, moves)
        counts = np.bincount(labels)

        def evened(means: np.ndarray) -> np.ndarray:
            return np.asarray((np.bincount(labels, means) / counts)[labels])

        return evened

    def _dimers(self, measured: Measured) -> Json | None:
        if self.dimers is None or DIMERS not in measured:
            return None
        return {
            "reference": list(self.dimers.reference),
            "bonds": [list(bond) for bond in self.dimers.bonds],
            **_lists(*measured[DIMERS].derive(self.dimers.connected)),
        }


def _number(mean: Any, error: Any) -> Json:
    return {"mean": float(np.sum(mean)), "error": float(np.sum(error))}


def _lists(means: np.ndarray, errors: np.ndarray) -> Json:
    return {"mean": means.tolist(), "error": errors.tolist()}
