"""Settings that are allowed one by one, and not together."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tnvmc.ansatz.peps.rings import SHORTEST
from tnvmc.backend.process import memory_limit
from tnvmc.lattice.custom import follows_row
from tnvmc.operators.products import product_matrix
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.settings.ansatz_settings import (
    AutoregressiveSettings,
    NetworkSettings,
    PEPSSettings,
    ProductOfStatesSettings,
    all_states,
    factors,
    leading,
)
from tnvmc.settings.build import build_lattice, build_operator
from tnvmc.settings.config import BondsSettings, Settings, TermsSettings
from tnvmc.settings.problems import ConfigError, ConfigProblem, conflict, named
from tnvmc.settings.rules import (
    FOLLOWS,
    GROWS,
    GROWS_IN_CHAINS,
    NOT_DECAYING,
    Rule,
    follows,
)
from tnvmc.settings.stage_checks import of_stages

_CLOSED = (("peps", "periodic"), ("mps", "periodic"))
_WHOLE_GRID = ("cnn", "vit", "patched_transformer", "rnn")


def conflicts(settings: Settings) -> list[ConfigProblem]:
    """Find what does not go together, in one section or in two."""
    rules = [
        *_of_lattices(settings), *_of_terms(settings), *_of_samplers(settings), *_of_sharing(settings),
        *_of_contractions(settings), *_of_symmetries(settings),
        *_of_schedules(settings), *_of_starts(settings),
    ]  # fmt: skip
    rules += of_stages(settings, settings.stage) if settings.stage else []
    return [conflict(*told) for broken, *told in rules if broken]


def _of_samplers(settings: Settings) -> Iterator[Rule]:
    """Say what needs chains, or sweeps that know another power or precision."""
    sampler, ansatz, kind = settings.sampler, settings.ansatz, settings.sampler_kind
    state = leading(ansatz)
    a_state, passes = named(ansatz.kind), state.kind in ("peps", "mps")
    drawn, chains = passes or isinstance(state, AutoregressiveSettings), kind == "metropolis"
    why = f"{a_state} cannot be drawn from directly; take 'metropolis'"
    yield kind == "direct" and not drawn, "sampler.kind", why, kind
    for key, usual in (("n_replicas", {1}), ("power", {1, None, "auto"})):
        where, value = f"sampler.{key}", getattr(sampler, key)
        given = value not in usual
        why = "goes with sampler.kind = 'metropolis' only"
        yield given and not chains, where, why, value
    why = "goes with sampler.kind = 'metropolis' only: nothing else makes moves"
    yield sampler.moves is not None and not chains, "sampler.moves", why
    if sampler.n_samples == "auto":
        yield not chains, "sampler.n_samples", GROWS_IN_CHAINS, "auto"
        if not settings.stage:
            yield not follows(settings.optimizer), "sampler.n_samples", GROWS, "auto"
    why = "goes with n_replicas = 1 only; replicas have their own"
    both = sampler.n_replicas > 1 and sampler.power not in (1, None, "auto")
    yield both, "sampler.power", why, sampler.power


def _of_symmetries(settings: Settings) -> Iterator[Rule]:
    """Say what a state that is summed over symmetries cannot have, and what has no effect on others."""
    for key, state in all_states(settings.ansatz).items():
        why = "goes with ansatz.symmetrise only; leave it out"
        plain = not state.symmetrise
        yield plain and state.characters is not None, f"{key}.characters", why, state.characters
        yield plain and state.reweight is not None, f"{key}.reweight", why, state.reweight
        why = "a state within a product has no noise of its own; give ansatz.init_noise"
        inner = key != "ansatz" and state.init_noise is not None
        yield inner, f"{key}.init_noise", why, state.init_noise
        why = "a state within a product is not symmetrised alone; give ansatz.symmetrise"
        yield not plain and key != "ansatz", f"{key}.symmetrise", why
    closed = settings.lattice.boundary != "open"
    away = not closed and "translation" in settings.measure.symmetrise
    yield away, "measure.symmetrise", _NO_TRANSLATIONS
    if not settings.ansatz.symmetrise:
        return
    sampler, drawn = settings.sampler, settings.sampler_kind == "direct"
    why = "a symmetrised state cannot be drawn directly; take 'metropolis' (or 'enumerate')"
    yield drawn, "sampler.kind", why, "direct"
    why = "a symmetrised state has no tempered chains; leave it out"
    yield sampler.n_replicas > 1, "sampler.n_replicas", why, sampler.n_replicas
    yield sampler.power not in (None, 1, "auto"), "sampler.power", why, sampler.power
    weighted = _walks_on_first(settings.ansatz) and settings.ansatz.reweight is not False
    why = "goes with ansatz.sweeps = 'both' only, as chains of the first state have weights"
    yield weighted, "ansatz.symmetrise", why
    away = not closed and "translation" in settings.ansatz.symmetrise
    yield away, "ansatz.symmetrise", _NO_TRANSLATIONS
    why = (
        "the state is symmetrised already; add these to ansatz.symmetrise, or leave one of both out"
    )
    yield bool(settings.measure.symmetrise), "measure.symmetrise", why


_EXCITED_UNSHARED = (
    "gives all its symmetries the character of the ground state, which an excited state need not have: the next level could be "
    "out of reach; leave it out with [[orthogonal]], and for a level of these symmetries give ansatz.symmetrise"
)


def _of_sharing(settings: Settings) -> Iterator[Rule]:
    """Say that simple update and tensors that are shared exclude each other."""
    for where, state in (factors(settings.ansatz) or {"": settings.ansatz}).items():
        if not isinstance(state, PEPSSettings):
            continue
        key = ".".join(filter(None, ("ansatz", where, "sharing")))
        needs = state.sharing is False or (bool(where) and not state.sharing)
        edge = key.replace("sharing", "edge")
        why = f"goes with {key} = true only; say that too, or leave it out"
        yield state.edge is not None and needs, edge, why, state.edge
        why = f"goes with {edge} only: it is the bulk that repeats"
        yield (
            (state.period or 1) > 1 and state.edge is None,
            edge.replace("edge", "period"),
            why,
            state.period,
        )
        staged = () if where else settings.stage or ()
        if not state.sharing and all(each.edge is None for each in (state, *staged)):
            continue
        yield state.kind == "periodic_mps", key, "goes with kind = 'peps' or 'mps' only", True
        evolved = "init" in state.model_fields_set and state.init == "simple_update"
        why = "simple update turns bonds, and tensors that were equal are so no longer; take init = 'product'"
        yield evolved, key, why, True
        odd = -1 in (settings.ansatz.characters or {}).values()
        why_odd = "gives all its symmetries the character of the ground state; leave it out with characters of -1"
        yield odd, key, why_odd, True
        alone = not where and bool(settings.orthogonal)
        yield alone, key, _EXCITED_UNSHARED, True
        for number, stage in enumerate(settings.stage or (), 1):
            broken = stage.kind == "simple_update" or bool(getattr(stage, "evolve", 0))
            yield broken, f"stage.{number}", f"{why}, and evolve = 0", stage.kind


def _of_lattices(settings: Settings) -> Iterator[Rule]:
    """Say that a PEPS needs rows and columns, and periodic bonds rings."""
    lattice, n_rows = settings.lattice, 0
    if isinstance(lattice, BondsSettings) and leading(settings.ansatz).kind == "peps":
        n_rows = 1 if isinstance(lattice.shape, int) else len(lattice.shape)
    # Bonds and lengths that do not fit the lattice are told when the run builds it.
    with contextlib.suppress(ValueError):
        for where, state in (factors(settings.ansatz) or {"": settings.ansatz}).items():
            key = ".".join(filter(None, ("ansatz", where, "kind")))
            whole = state.kind in _WHOLE_GRID and getattr(state, "order", "") != "snake"
            n_vacant = len(build_lattice(lattice).vacant) if whole else 0
            why = (
                f"reads the whole grid, and the {lattice.kind} lattice leaves {n_vacant} of its places without a spin; "
                "take 'peps', 'rbm', 'made' or 'rnn' with order = 'snake'"
            )
            yield n_vacant, key, why, state.kind
        alone = n_rows == 1 and not follows_row(build_lattice(lattice))
        why = "gives no rows and columns, and these bonds are not those of a chain; give [n_rows, n_cols], or take ansatz.kind = 'mps'"
        yield alone, "lattice.shape", why, lattice.shape
    ansatz = settings.ansatz
    if isinstance(ansatz, PEPSSettings) and (ansatz.kind, ansatz.bonds) in _CLOSED:
        boundary, shape = lattice.boundary, lattice.shape
        around = shape[-1] if isinstance(shape, list | tuple) else shape
        why = f"closes rows to rings, but lattice.boundary is {boundary!r}; take 'cylinder', or open bonds"
        yield boundary != "cylinder", "ansatz.bonds", why, ansatz.bonds
        why = f"rings of {around} sites have no closing bond; take 'open'"
        short = boundary == "cylinder" and around < SHORTEST
        yield short, "ansatz.bonds", why, ansatz.bonds


def _of_terms(settings: Settings) -> Iterator[Rule]:
    """Say which products cannot be read; what does not fit the lattice is told when it is built."""
    if not isinstance(settings.hamiltonian, TermsSettings):
        return
    for number, term in enumerate(settings.hamiltonian.term, 1):
        try:
            product_matrix(term.ops, settings.hamiltonian.local_dim)
        except ValueError as error:
            yield True, f"hamiltonian.term.{number}.ops", str(error)


def _of_contractions(settings: Settings) -> Iterator[Rule]:
    """Say what a state that is not contracted does without, and one that is not truncated."""
    stages = enumerate(settings.stage or (), 1)
    values = {f"contraction.{key}": value for key, value in settings.contraction}
    values |= {"measure.chi": settings.measure.chi}
    values |= {f"stage.{number}.chi": stage.chi for number, stage in stages}
    contracted = leading(settings.ansatz).kind in ("peps", "mps")
    why = f"{named(settings.ansatz.kind)} is not contracted; leave it out"
    yield from ((not contracted and value is not None, key, why) for key, value in values.items())
    why = "scheme = 'exact' truncates nothing; leave it out"
    cut, most = settings.contraction.chi, settings.contraction.largest_chi
    exact = contracted and settings.contraction.scheme == "exact"
    yield exact and cut is not None, "contraction.chi", why, cut
    chain = leading(settings.ansatz).kind == "mps"
    why = "kind = 'mps' is contracted without truncation, and no chi grows; leave it out"
    for key in values:
        if values[key] == "auto":
            yield chain, key, why, "auto"
    if most is None or not contracted:
        return
    yield chain, "contraction.largest_chi", why, most
    why = f"scheme = '{settings.contraction.scheme}' has no chi that grows; leave it out"
    yield settings.contraction.scheme == "exact", "contraction.largest_chi", why, most
    why = f"above contraction.largest_chi = {most}; raise that, or take less"
    for key, value in values.items():
        limited = key not in ("contraction.largest_chi", "measure.chi")
        yield limited and isinstance(value, int) and value > most, key, why, value


def _of_starts(settings: Settings) -> Iterator[Rule]:
    starts, why = settings.run.starts, "does not go with [[sector]]: make a file for each sector"
    yield (starts or 1) > 1 and settings.sector is not None, "run.starts", why, starts


def _of_schedules(settings: Settings) -> Iterator[Rule]:
    optimizer = settings.optimizer
    rates, schedule, stages = optimizer.learning_rate, optimizer.schedule, optimizer.stages
    if isinstance(rates, list):
        named_so, lengths = schedule in (None, "stages"), len(rates if stages is None else stages)
        why = "a list of learning rates makes 'stages'"
        yield not named_so, "optimizer.schedule", why, schedule
        why = f"{lengths} lengths for {len(rates)} learning rates; give one for each"
        yield named_so and lengths != len(rates), "optimizer.stages", why
        yield (
            optimizer.final_learning_rate is not None,
            "optimizer.final_learning_rate",
            NOT_DECAYING,
        )
        return
    parts, final = schedule == "stages" or stages is not None, optimizer.final_learning_rate
    if rates == "auto":
        yield parts or schedule is not None, "optimizer.schedule", FOLLOWS, schedule
        yield final is not None, "optimizer.final_learning_rate", FOLLOWS
        return
    yield parts, "optimizer.learning_rate", "stages need a list, one learning rate for each"
    broken = final is not None and schedule == "constant" and not parts
    yield broken, "optimizer.final_learning_rate", NOT_DECAYING


def _inverted(sampled: int) -> str:
    """Say why a state with some magnetisation has no sign under spin inversion."""
    return (
        f"spin inversion takes 2 Sz = {sampled} to {-sampled}, so that such a state has no sign under it; leave "
        "out 'spin', or take magnetisation = 0"
    )


def sector_problems(settings: Settings) -> Iterator[ConfigProblem]:
    """Find magnetisations of the network, the sampler and the average that clash; builds H."""
    ansatz, sampled = settings.ansatz, settings.sampler.magnetisation or 0
    own = ansatz.magnetisation if isinstance(ansatz, AutoregressiveSettings) else None
    own = None if own is False else own
    inverts = isinstance(ansatz, NetworkSettings) and "spin" in ansatz.average
    asked, summed = settings.sampler.magnetisation is not None, "spin" in (ansatz.symmetrise or ())
    if own is None and not asked:
        return
    operator = hamiltonian(settings)
    if operator is None:
        return
    conserved = operator.conserves_magnetisation
    if asked and not conserved:
        why = "this Hamiltonian does not conserve it, so that there is no such sector; leave it out"
        yield conflict("sampler.magnetisation", why, sampled)
    if own is not None and not conserved:
        why = "this Hamiltonian does not conserve it; leave it out"
        yield conflict("ansatz.magnetisation", why, own)
    if conserved and inverts and sampled:
        why = _inverted(sampled)
        yield conflict("ansatz.average", why)
    if conserved and summed and sampled:
        why = _inverted(sampled)
        yield conflict("ansatz.symmetrise", why)
    if conserved and own not in (None, sampled):
        where = f"where it is sampled, at sampler.magnetisation = {sampled}"
        why = f"psi would vanish {where}; give one of them"
        yield conflict("ansatz.magnetisation", why, own)


def type_problems(settings: Settings) -> Iterator[ConfigProblem]:
    """Find a real wave function for a complex Hamiltonian; builds H."""
    dtype, operator = settings.ansatz.dtype, None
    with_phases = isinstance(settings.ansatz, NetworkSettings | ProductOfStatesSettings)
    if dtype in ("float64", "float32") and not with_phases:
        operator = hamiltonian(settings)
    if operator is not None and operator.is_complex:
        why = "the Hamiltonian is complex, its ground state has phases; take 'complex128', or leave it out"
        yield conflict("ansatz.dtype", why, dtype)


def hamiltonian(settings: Settings) -> Operator | None:
    """Build the Hamiltonian; None where the couplings do not fit, which the run tells."""
    key = settings.lattice.model_dump_json() + settings.hamiltonian.model_dump_json()
    if key not in _BUILT:
        while len(_BUILT) >= _KEPT:
            _BUILT.pop(next(iter(_BUILT)))
        _BUILT[key] = None
        with contextlib.suppress(ValueError):
            _BUILT[key] = build_operator(settings)
    return _BUILT[key]


_KEPT = 4
_BUILT: dict[str, Operator | None] = {}


def _walks_on_first(ansatz: Any) -> bool:
    """Tell whether chains of a product walk on its first state alone."""
    if not isinstance(ansatz, ProductOfStatesSettings):
        return False
    contracted = leading(ansatz).kind in ("peps", "mps")
    return ansatz.sweeps == "first" or (ansatz.sweeps is None and contracted)


_NO_TRANSLATIONS = (
    "an open lattice has no translations; take lattice.boundary = 'cylinder' or 'periodic'"
)


def check_symmetries(settings: Settings, operator: Operator, direct: bool = False) -> None:
    """Refuse what is to be measured where it cannot be symmetrised as the settings ask.

    `direct` says that samples are drawn directly whatever the settings say.

    Raises:
        ValueError: a symmetry that the Hamiltonian lacks.
        ConfigError: samples that a symmetrised state cannot have.
    """
    if not settings.measure.symmetrise:
        return
    symmetry_group(operator, settings.measure.symmetrise)
    sampler, drawn = settings.sampler, "a symmetrised state cannot be drawn directly"
    if sampler.kind == "direct":
        why = f"{drawn}; take sampler.kind = 'metropolis' (or 'enumerate')"
    elif direct:
        why = f"{drawn}; leave out --direct"
    elif _walks_on_first(settings.ansatz):
        why = "goes with ansatz.sweeps = 'both' only, as chains of the first state have weights"
    elif sampler.n_replicas > 1:
        why = "a symmetrised state is sampled without tempered chains; take sampler.n_replicas = 1"
    else:
        return
    raise ConfigError(conflict("measure.symmetrise", why))


def check_memory(settings: Settings, n_params: int, local_dim: int) -> None:
    """Raise `ConfigError` where the first parameters alone need more memory than there is.

    Simple update keeps a tensor with all bonds of dimension D for each place of the grid, and so many are made of parameters
    that tensors share; any start the parameters and their first update.
    """
    state = leading(settings.ansatz)
    D: Any = getattr(state, "D", None)
    needed, what = 2 * n_params * np.dtype(state.dtype).itemsize, "its parameters and their update"
    if state.kind == "peps" and (state.init == "simple_update" or state.sharing):
        shape = build_lattice(settings.lattice).shape
        n_legs = 2 * sum(length > 1 for length in shape)
        padded = math.prod(shape) * local_dim * D**n_legs * np.dtype(float).itemsize
        needed, what = max(
            (needed, what), (padded, "its tensors" if state.sharing else "simple update")
        )
    if needed > (limit := memory_limit()):
        key = f"ansatz.D = {D}" if D else f"ansatz.kind = '{state.kind}'"
        raise ConfigError(
            f"{key}: not enough memory: {what} would take {needed / _GIB:,.0f} GiB of {limit / _GIB:,.1f} GiB; "
            f"take a smaller {'D' if D else 'network'}"
        )


_GIB = 2.0**30
