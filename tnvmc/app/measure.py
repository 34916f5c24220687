"""`tnvmc measure`: the observables of a run's state, with error bars, into observables.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from tnvmc._version import __version__
from tnvmc.ansatz.protocol import Ansatz, Truncated, chi_of, with_chi
from tnvmc.app.run import check_symmetries
from tnvmc.app.stages import Course
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.estimate.blocks import Blocks
from tnvmc.estimate.observable_set import ENERGY, ObservableSet
from tnvmc.estimate.observables import Observable, merged_targets
from tnvmc.estimate.statistics import Estimate, estimate, weighted_estimate
from tnvmc.operators.term import Operator
from tnvmc.sampling.chains import Sampler, initial_configs
from tnvmc.sampling.direct import DirectSampler
from tnvmc.settings.build import build_operator, build_sampler
from tnvmc.settings.config import LatticeSettings, Settings
from tnvmc.settings.load import ConfigError, load
from tnvmc.settings.operator_file import read_operator
from tnvmc.storage.checkpoint import read_stages, write_atomically
from tnvmc.storage.run_files import OBSERVABLES, refuse_comparison
from tnvmc.storage.run_folder import CHECKPOINT, CONFIG, FolderError, check_run_folder
from tnvmc.vmc.driver import VMC
from tnvmc.vmc.look import AnySampler, Enumerate
from tnvmc.vmc.segments import independent, segments
from tnvmc.vmc.state import Point, finite_or_none

PAIR_SAMPLES = 2**16
"""Over N: most samples that S.S of all pairs is measured on where no number is given (1024 of 64
sites).  Each costs as much as tens of others."""

_PAIR_THIN = 4  # sweeps between them, in those between others: still cheap next to the ratios
_STREAM = 2**31 + 2**30  # of random numbers: no optimisation or measurement of a run gets there
_PAIR_STREAM = _STREAM + 2**29
_DRAWN = {Sampler: "chains", DirectSampler: "direct", Enumerate: "enumerate"}


def measure_run(
    path: str | Path,
    n_samples: int | None = None,
    chi: int | None = None,
    *,
    pair_samples: int | None = None,
    operators: Sequence[str | Path] = (),
    overrides: Sequence[str] = (),
    direct: bool = False,
) -> dict[str, Any]:
    """Measure the state of a run and write observables.json, whose content it gives.

    `n_samples` and `chi` default to those of the run's own measurement; S.S of all pairs takes at most
    `PAIR_SAMPLES` / N of them, at the chi of the optimisation, unless told: `pair_samples`, 0 for
    none, and `chi` for both.

    Raises:
        FolderError: no run there, or no space left.
        CheckpointError: no checkpoint, a damaged one, or one that does not fit config.toml.
        ConfigError: damaged settings or operator file, an operator off the lattice.
        ValueError: a number of samples or a chi that cannot be.
    """
    started = perf_counter()
    path = Path(path)
    _check_folder(path)
    _check_numbers(n_samples, chi, pair_samples)
    settings = load(path / CONFIG, [*overrides, f"run.out={json.dumps(str(path))}"])
    kept = load(path / CONFIG).lattice
    if settings.lattice != kept:
        raise ConfigError(
            f"lattice: {path} holds a state on {_named(kept)}, not on {_named(settings.lattice)}; "
            "leave --set lattice away"
        )
    operator = build_operator(settings)
    check_symmetries(settings, operator, direct)
    own = tuple(
        read_operator(Path(file), operator.lattice, operator.local_dim) for file in operators
    )
    vmc = _restored(path, settings, operator)
    names = [found.name for found in own]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"--operator: two files name their operator '{twice[0]}'; rename one")
    catalogue = ObservableSet(operator, own)
    measured = Measuring.of(settings, vmc, catalogue, n_samples, chi, pair_samples, direct).run()
    found = {
        "version": __version__,
        "step": vmc.state.step,
        **_description(settings, catalogue),
        **measured.summary(),
        **catalogue.report(measured.blocks),
        "seconds": perf_counter() - started,
    }
    found = finite_or_none(found)
    try:
        content = json.dumps(found, allow_nan=False)
        write_atomically(path / OBSERVABLES, (content + "\n").encode())
    except OSError as error:
        raise FolderError(f"{path}: cannot be written ({error.strerror or error})") from None
    return found


def _restored(path: Path, settings: Settings, operator: Operator) -> VMC:
    """The state of a run, to be looked at with the sampler of `settings`, which may be another."""
    stored = load(path / CONFIG).sampler
    as_it_was = settings.model_copy(update={"sampler": stored})
    course = Course(as_it_was, operator, read_stages(path / CHECKPOINT), blank=True)
    course.restore(path / CHECKPOINT)
    vmc, sampler = course.vmc, build_sampler(settings, operator)
    here = vmc.state.here
    if isinstance(sampler, Sampler):
        xp, n_walkers = array_namespace(here.configs), here.configs.shape[0]
        if stored.kind != "metropolis":  # there are no walkers
            fresh = initial_configs(
                operator, sampler.n_configs, vmc.seed, settings.sampler.magnetisation
            )
            here = replace(here, configs=to_namespace(fresh, xp))
        elif sampler.n_configs != n_walkers:
            places = xp.arange(sampler.n_configs) % n_walkers  # more of them: some begin together
            here = replace(here, configs=xp.take(here.configs, places, axis=0))
    vmc.sampler, vmc.state = sampler, replace(vmc.state, here=here)
    return vmc


def _check_folder(path: Path) -> None:
    refuse_comparison(path)
    check_run_folder(path)
    if not (path / CHECKPOINT).is_file():
        raise FolderError(f"{path}: holds no state to measure ({CHECKPOINT} is missing)")


def _named(lattice: LatticeSettings) -> str:
    shape = lattice.shape if isinstance(lattice.shape, list) else [lattice.shape]
    return f"{' x '.join(map(str, shape))} sites ({lattice.kind}, {lattice.boundary})"


def _check_numbers(n_samples: int | None, chi: int | None, pair_samples: int | None) -> None:
    for name, value, least in (
        ("n-samples", n_samples, 1),
        ("chi", chi, 1),
        ("pair-samples", pair_samples, 0),
    ):
        if value is not None and value < least:
            raise ValueError(f"measure: --{name} is {value}; it must be {least} or larger")


def _description(settings: Settings, catalogue: ObservableSet) -> dict[str, Any]:
    lattice = catalogue.lattice
    return {
        "n_sites": lattice.n_sites,
        "shape": list(lattice.shape),
        "coordinates": lattice.coordinates[:, ::-1].tolist(),
        "boundary": lattice.boundary,
        "units": catalogue.operator.units,
        "model": settings.hamiltonian.model,
    }


@dataclass
class Measuring:
    """One measurement: what is sampled for which observables, and what has come together."""

    vmc: VMC
    catalogue: ObservableSet
    sampler: AnySampler
    ansatz: Ansatz
    pair_sampler: AnySampler | None
    pair_ansatz: Ansatz
    symmetry: tuple[str, ...] = ()
    note: str | None = None
    blocks: dict[str, Blocks] = field(default_factory=dict)
    _energies: list[np.ndarray] = field(default_factory=list)
    _weights: list[np.ndarray | None] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        settings: Settings,
        vmc: VMC,
        catalogue: ObservableSet,
        n_samples: int | None,
        chi: int | None,
        pair_samples: int | None,
        direct: bool = False,
    ) -> Measuring:
        """Take what was not given from the settings of the run."""
        asked, sampler = settings.measure, _sampler(settings, vmc, n_samples, direct)
        pair_sampler: AnySampler | None = sampler
        if not isinstance(sampler, Enumerate):
            if pair_samples is None:
                pair_samples = min(sampler.n_samples, PAIR_SAMPLES // vmc.operator.n_sites + 1)
            pair_sampler = replace(sampler, n_samples=max(1, pair_samples))
        if isinstance(pair_sampler, Sampler):
            pair_sampler = replace(pair_sampler, n_thin=_PAIR_THIN * pair_sampler.n_thin)
        if pair_samples == 0 or not catalogue.some_samples():
            pair_sampler = None
        if chi is not None and chi_of(vmc.ansatz) is None:
            raise ValueError(f"measure: --chi is {chi}, and this state has none; leave it away")
        at = chi or asked.chi
        ansatz, pair_ansatz = (
            vmc.ansatz if value is None else with_chi(vmc.ansatz, value) for value in (at, chi)
        )
        if asked.symmetrise:
            group, other = _symmetrised(ansatz, vmc, settings), pair_ansatz
            ansatz = pair_ansatz = group
            if isinstance(other, Truncated) and isinstance(group, Truncated):
                pair_ansatz = group.with_scheme(other.scheme)
            sampler, pair_sampler = _in_double(sampler), _in_double(pair_sampler)
        return cls(vmc, catalogue, sampler, ansatz, pair_sampler, pair_ansatz,
                   tuple(asked.symmetrise))  # fmt: skip

    @property
    def exact(self) -> bool:
        """Whether configurations are enumerated."""
        return isinstance(self.sampler, Enumerate)

    def run(self) -> Measuring:
        """Draw the samples and add them up; gives itself.

        Where the last update led astray (by the guard's rule) the parameters before it are measured.
        """
        vmc, point, every = self.vmc, self.vmc.state.here, self.catalogue.every_sample()
        self._look(every, self.sampler, self.ansatz, point, _STREAM)
        found, good = self.energy(), vmc.state.good
        objection = vmc.guard.objection(
            vmc.state.recent, found.mean, found.variance, vmc.operator.n_sites
        )
        if objection is not None and good is not None:
            self.note = f"{objection}: measured without the last update"
            for kept in (self.blocks, self._energies, self._weights):
                kept.clear()
            point = replace(good, configs=point.configs)
            self._look(every, self.sampler, self.ansatz, point, _STREAM)
        if self.pair_sampler is not None:
            some = self.catalogue.some_samples()
            self._look(some, self.pair_sampler, self.pair_ansatz, point, _PAIR_STREAM)
        return self

    def _look(
        self,
        observables: Mapping[str, Observable],
        sampler: AnySampler,
        ansatz: Ansatz,
        point: Point,
        stream: int,
    ) -> None:
        targets = merged_targets(observables.values())
        for snapshot in segments(self.vmc, point, sampler, ansatz, targets, stream):
            weight = None if snapshot.weight is None else to_host(snapshot.weight)
            for name, observable in observables.items():
                values = to_host(observable.values(snapshot, targets))
                fresh = Blocks(independent(sampler), self.exact)
                self.blocks.setdefault(name, fresh).add(values, weight)
                if name == ENERGY:
                    self._energies.append(values.sum(axis=1))
                    self._weights.append(weight)

    def energy(self) -> Estimate:
        """The total energy."""
        local, weights = np.concatenate(self._energies), [w for w in self._weights if w is not None]
        if not weights:
            return estimate(local, independent(self.sampler))
        weight = np.concatenate(weights)
        if self.exact:
            return estimate(local, weight=weight)
        return weighted_estimate(local, weight, independent(self.sampler))

    def summary(self) -> dict[str, Any]:
        """How it was measured, and the energy."""
        energy, blocks = self.energy(), self.blocks[ENERGY]
        pairs = [self.blocks[name].n_samples for name in self.catalogue.some_samples()
                 if name in self.blocks]  # fmt: skip
        return {
            "n_samples": blocks.n_samples,
            "pair_samples": pairs[0] if pairs else 0,
            "effective_samples": blocks.effective_samples,
            "drawn": _DRAWN[type(self.sampler)],
            "symmetry": list(self.symmetry),
            "note": self.note,
            "chi": chi_of(self.ansatz),
            "pair_chi": chi_of(self.pair_ansatz) if pairs else None,
            "energy": {"mean": energy.mean, "error": energy.error},
            "variance": energy.variance,
        }


def _sampler(settings: Settings, vmc: VMC, n_samples: int | None, direct: bool) -> AnySampler:
    """The sampler of the energy and of all that is cheap."""
    asked, sampler = settings.measure, vmc.sampler
    if direct:
        n_samples = n_samples or asked.n_samples or settings.sampler.n_samples
        return DirectSampler(
            n_samples, magnetisation=settings.sampler.magnetisation, threads=settings.run.threads
        )
    if isinstance(sampler, Enumerate):
        return sampler
    if isinstance(sampler, DirectSampler):
        return replace(sampler, n_samples=n_samples or asked.n_samples or sampler.n_samples)
    return replace(
        sampler,
        n_samples=n_samples or asked.n_samples or sampler.n_samples,
        n_burn=asked.n_burn,
        n_thin=asked.n_thin or sampler.n_thin,
    )


def _in_double(sampler: Any) -> Any:
    """The sampler of a symmetrised state, which sweeps in the precision of its parameters."""
    return replace(sampler, precision=None) if isinstance(sampler, Sampler) else sampler


def _symmetrised(ansatz: Ansatz, vmc: VMC, settings: Settings) -> Any:
    from tnvmc.vmc.characters import symmetrised

    return symmetrised(
        ansatz, vmc.operator, settings.measure.symmetrise, theta=vmc.state.here.theta,
        configs=vmc.state.here.configs, seed=vmc.seed, threads=settings.run.threads,
    )  # fmt: skip
