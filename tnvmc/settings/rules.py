"""What settings cannot be together: by themselves, with a Hamiltonian, and on this machine."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tnvmc.ansatz.peps.starts.initial import AUTO
from tnvmc.backend.process import memory_limit
from tnvmc.lattice.lattice import follows_row
from tnvmc.operators.basis import check_magnetisation
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.settings.ansatz_settings import named
from tnvmc.settings.config import NOT_DRAWN, Settings, build_operator
from tnvmc.settings.model_settings import build_lattice
from tnvmc.settings.optimizer_settings import StageSettings
from tnvmc.settings.problems import ConfigError, ConfigProblem, conflict

Rule = tuple[Any, ...]
"""Whether it is broken, by which key and why, and the value of the key if it is to be named."""

FOLLOWS = "goes with a number as learning_rate only: 'auto' follows the steps"
GROWS = "follows the steps, and this rate is fixed; leave out the rate, or give a number of samples"
GROWS_IN_DRAWS = "makes more draws, and 'enumerate' makes none; take another kind, or a number"
CHAINS_ONLY = "goes with sampler.kind = 'metropolis' only"
NO_TRANSLATIONS = "goes with lattice.boundary = 'cylinder' or 'periodic': open, there are none"
UNWEIGHTED = "goes with ansatz.sweeps = 'both' only, as chains of the first state have weights"


def conflicts(settings: Settings) -> list[ConfigProblem]:
    """Find what does not go together, in one section or in two, and no object refuses when it is
    made of them.
    """
    rules = [
        *_of_lattices(settings), *_of_samplers(settings), *_of_sharing(settings),
        *_of_contractions(settings), *_of_symmetries(settings), *_of_rates(settings),
        *_of_stages(settings),
    ]  # fmt: skip
    return [conflict(*rest) for broken, *rest in rules if broken]


def _of_lattices(settings: Settings) -> Iterator[Rule]:
    lattice, kind = settings.lattice, settings.ansatz.leading.kind
    if lattice.kind == "bonds" and len(lattice.sizes) == 1 and kind == "peps":
        # Bonds that do not fit the lattice are refused when the run builds it.
        with contextlib.suppress(ValueError):
            why = "gives no rows and columns; give [n_rows, n_cols], or take ansatz.kind = 'mps'"
            yield not follows_row(build_lattice(lattice)), "lattice.shape", why, lattice.shape


def _of_samplers(settings: Settings) -> Iterator[Rule]:
    sampler, ansatz, kind = settings.sampler, settings.ansatz, settings.sampler_kind
    a_state, chains = named(ansatz.kind), kind == "metropolis"
    drawn = ansatz.is_contracted or ansatz.leading.is_autoregressive
    why = f"{a_state} cannot be drawn from directly; take 'metropolis'"
    yield kind == "direct" and not drawn, "sampler.kind", why, kind
    powered = sampler.power not in (1, None, "auto")
    yield powered and not chains, "sampler.power", CHAINS_ONLY, sampler.power
    if sampler.n_samples == "auto":
        yield kind == "enumerate", "sampler.n_samples", GROWS_IN_DRAWS, "auto"
        fixed = not settings.stage and not _follows(settings)
        yield fixed, "sampler.n_samples", GROWS, "auto"


def _of_sharing(settings: Settings) -> Iterator[Rule]:
    of_ground = "gives all its symmetries the character of the ground state"
    lacks = f"{of_ground}, which the next level may lack; leave it out with [[orthogonal]]"
    average = getattr(settings.ansatz, "average", ())
    yield bool(settings.orthogonal and average), "ansatz.average", lacks, True
    for key, state in settings.ansatz.single_states.items():
        alone, shared = key == "ansatz", bool(getattr(state, "sharing", False))
        if not state.has_bonds:
            yield alone and bool(settings.orthogonal) and shared, f"{key}.sharing", lacks, True
            continue
        shares, edge, own = f"{key}.sharing", state.edge, state.sharing
        unshared = own is False or (not alone and not own)
        why = f"goes with {shares} = true only; say that too, or leave it out"
        yield edge is not None and unshared, f"{key}.edge", why, edge
        why = f"goes with {key}.edge only: it is the bulk that repeats"
        yield (state.period or 1) > 1 and edge is None, f"{key}.period", why, state.period
        stages = settings.stage or () if alone else ()
        if not own and all(each.edge is None for each in (state, *stages)):
            continue
        why = "simple update makes tensors differ that were equal; take init = 'product'"
        evolved = "init" in state.model_fields_set and state.init == "simple_update"
        yield evolved, shares, why, True
        odd = -1 in (settings.ansatz.characters or {}).values()
        yield odd, shares, f"{of_ground}; leave it out with characters of -1", True
        yield alone and bool(settings.orthogonal), shares, lacks, True


def _of_contractions(settings: Settings) -> Iterator[Rule]:
    contraction, ansatz = settings.contraction, settings.ansatz
    values = {f"contraction.{key}": value for key, value in contraction}
    values |= {"measure.chi": settings.measure.chi}
    values |= {f"stage.{n}.chi": stage.chi for n, stage in enumerate(settings.stage or (), 1)}
    contracted, chain = ansatz.is_contracted, ansatz.leading.kind == "mps"
    not_contracted = f"{named(ansatz.kind)} is not contracted; leave it out"
    exact = "kind = 'mps' is contracted without truncation, and no chi grows; leave it out"
    for key, value in values.items():
        yield not contracted and value is not None, key, not_contracted
        yield chain and value == "auto", key, exact, "auto"
    rings = chain and ansatz.leading.bonds == "periodic"
    yield rings, "ansatz.bonds", "kind = 'mps' has bonds along the rows and back", "periodic"
    untruncated, chi = contracted and contraction.scheme == "exact", contraction.chi
    why = "scheme = 'exact' truncates nothing; leave it out"
    yield untruncated and chi is not None, "contraction.chi", why, chi


def _of_symmetries(settings: Settings) -> Iterator[Rule]:
    ansatz, sampler, measured = settings.ansatz, settings.sampler, settings.measure.symmetrise
    for key, state in {"ansatz": ansatz, **ansatz.single_states}.items():
        why = "goes with ansatz.symmetrise only; leave it out"
        signs = state.characters
        yield signs is not None and not state.symmetrise, f"{key}.characters", why, signs
        inner = key != "ansatz"
        why = "a state within a product has no noise of its own; give ansatz.init_noise"
        noise = state.init_noise
        yield inner and noise is not None, f"{key}.init_noise", why, noise
        why = "a state within a product is not symmetrised alone; give ansatz.symmetrise"
        yield inner and state.symmetrise, f"{key}.symmetrise", why
    still = settings.lattice.boundary == "open"
    yield still and "translation" in measured, "measure.symmetrise", NO_TRANSLATIONS
    drawn = settings.sampler_kind == "direct"
    on_first = getattr(ansatz, "sweeps", "both")
    on_first = on_first == "first" or (on_first is None and ansatz.is_contracted)
    not_drawn = f"{NOT_DRAWN}; take sampler.kind = 'metropolis' (or 'enumerate')"
    not_tempered = "a symmetrised state has no tempered chains; leave it out"
    yield measured and drawn, "measure.symmetrise", not_drawn
    yield measured and on_first, "measure.symmetrise", UNWEIGHTED
    if not ansatz.symmetrise:
        return
    yield drawn, "sampler.kind", not_drawn, "direct"
    yield sampler.power not in (None, 1, "auto"), "sampler.power", not_tempered, sampler.power
    yield still and "translation" in ansatz.symmetrise, "ansatz.symmetrise", NO_TRANSLATIONS
    why = "the state is symmetrised already; add these to ansatz.symmetrise, or leave them out"
    yield bool(measured), "measure.symmetrise", why


def _of_rates(settings: Settings) -> Iterator[Rule]:
    optimizer, starts = settings.optimizer, settings.run.starts
    follows = optimizer.learning_rate == "auto" and not settings.stage
    final = optimizer.final_learning_rate
    yield follows and final is not None, "optimizer.final_learning_rate", FOLLOWS
    time = optimizer.kind == "time"
    several = bool(settings.stage or settings.orthogonal or settings.sector or settings.scan)
    why = "time evolution is one run from one state, without stages, scans, sectors or orthogonal"
    yield time and (several or (starts or 1) > 1), "time", why
    start = settings.ansatz.leading.init == AUTO and not getattr(optimizer, "product", None)
    why = "time evolution needs a state to begin with; set ansatz.init to the folder of a run"
    yield time and start, "time", f"{why}, or time.product = 'Sx' (every site along x)"
    end, step = getattr(optimizer, "t", 0.0), getattr(optimizer, "step", 1.0)
    apart = abs(end - round(end / step) * step) > 1e-6 * step
    yield apart, "time.t", f"must be a multiple of time.step, {step:g}", end
    why = "does not go with [[sector]]: make a file for each sector"
    yield (starts or 1) > 1 and settings.sector is not None, "run.starts", why, starts


def _follows(settings: Settings, stage: StageSettings | None = None) -> bool:
    """Whether the learning rate, of a stage or of the section, is one that follows the steps."""
    optimizer = settings.optimizer
    rate = (stage and stage.learning_rate) or optimizer.learning_rate
    falls = optimizer.final_learning_rate
    return rate == "auto" or (rate is None and not falls and optimizer.kind == "sr")


def _of_stages(settings: Settings) -> Iterator[Rule]:
    optimizer, ansatz, stages = settings.optimizer, settings.ansatz, settings.stage or ()
    why = "does not go with [[stage]]; give each stage its steps"
    yield bool(stages) and optimizer.seconds is not None, "optimizer.seconds", why
    before: int | None = None
    for number, stage in enumerate(stages, 1):
        yield from _of_stage(settings, number, stage, before)
        yield from _of_edges(ansatz, number, stage, stages[number - 2] if number > 1 else None)
        before = stage.D or ansatz.D or before


def _of_edges(
    ansatz: Any, number: int, stage: StageSettings, before: StageSettings | None
) -> Iterator[Rule]:
    where = f"stage.{number}.edge"
    shares = ansatz.has_bonds and ansatz.sharing is not False
    why = "goes with ansatz.sharing = true only; say that too, or leave it out"
    yield stage.edge is not None and not shares, where, why, stage.edge
    if not ansatz.has_bonds or before is None:
        return
    had, has = before.edge or ansatz.edge, stage.edge or ansatz.edge
    why = f"below {had or 'one for all rows'} of the stage before; tensors do not become one"
    yield has is not None and (had is None or has < had), where, why, has


def _of_stage(
    settings: Settings, number: int, stage: StageSettings, before: int | None
) -> Iterator[Rule]:
    """Say what one stage cannot have, after a stage with the D `before`."""
    where, optimizer = f"stage.{number}", settings.optimizer
    yield from _of_sizes(settings, f"{where}.D", stage.D, before)
    grows = (stage.n_samples or settings.sampler.n_samples) == "auto"
    yield grows and not _follows(settings, stage), f"{where}.n_samples", GROWS, "auto"
    counted = stage.n_samples == "auto" and settings.sampler_kind == "enumerate"
    yield counted, f"{where}.n_samples", GROWS_IN_DRAWS, "auto"
    shifted = stage.diag_shift is not None and optimizer.kind != "sr"
    yield shifted, f"{where}.diag_shift", "goes with optimizer.kind = 'sr' only"
    D = stage.D or settings.ansatz.D
    larger = before is not None and D is not None and D > before
    why = "goes with a D larger than that of the stage before only"
    yield stage.noise is not None and not larger, f"{where}.noise", why


def _of_sizes(
    settings: Settings, where: str, own: int | None, before: int | None
) -> Iterator[Rule]:
    """Say which D a stage cannot have after that of the stage before."""
    ansatz = settings.ansatz
    if not ansatz.has_bonds:
        why = f"{named(ansatz.kind)}{'' if ansatz.is_network else ' state'} has no bond dimension"
        yield own is not None, where, why, own
        return
    D, before = own or ansatz.D, before or 0
    yield D is None, where, "missing, and so is ansatz.D; must be an integer >= 1"
    why = f"a periodic_mps can neither be grown nor cut; keep D = {before}"
    yield D not in (None, before) and before and ansatz.kind == "periodic_mps", where, why, D
    why = f"smaller than {before}, and shared tensors are not cut; take ansatz.sharing = false"
    edges = any(each.edge is not None for each in (ansatz, *(settings.stage or ())))
    yield D is not None and D < before and (ansatz.sharing or edges), where, why, D


_BUILT: dict[str, Operator | None] = {}
"""The last Hamiltonians, by their settings."""


def hamiltonian(settings: Settings) -> Operator | None:
    """Build the Hamiltonian; None where the couplings do not fit, which the run tells."""
    parts = settings.lattice, settings.hamiltonian
    key = "".join(part.model_dump_json() for part in parts) + str(settings.sampler.particles)
    if key not in _BUILT:
        if len(_BUILT) > 3:
            _BUILT.pop(next(iter(_BUILT)))
        _BUILT[key] = None
        with contextlib.suppress(ValueError):
            _BUILT[key] = build_operator(settings)
    return _BUILT[key]


def hamiltonian_problems(settings: Settings) -> Iterator[ConfigProblem]:
    """Find a magnetisation, or a type of psi, that does not go with the Hamiltonian; builds it."""
    ansatz, sampled = settings.ansatz, settings.sampler.magnetisation
    if (operator := hamiltonian(settings.changed({"sampler": {"particles": None}}))) is None:
        return
    yield from (conflict(*rest) for broken, *rest in _of_particles(settings, operator) if broken)
    if operator.strings is not None:
        sampled = None
    if sampled is not None and not operator.conserves_magnetisation:
        why = "this Hamiltonian does not conserve it, so that there is no such sector; leave it out"
        yield conflict("sampler.magnetisation", why, sampled)
    elif sampled is not None:
        try:
            check_magnetisation(operator.n_sites, operator.local_dim, sampled)
        except ValueError as error:
            yield conflict("sampler.magnetisation", str(error).rstrip("."), sampled)
    for key in ("average", "symmetrise"):
        inverts = "spin" in (getattr(ansatz, key, None) or ())
        if sampled and inverts and operator.conserves_magnetisation:
            why = f"spin inversion takes 2 Sz = {sampled} to {-sampled}; leave 'spin' out or take 0"
            yield conflict(f"ansatz.{key}", why)
    can_be_real = ansatz.is_network or ansatz.factors or not operator.is_complex
    if ansatz.dtype in ("float64", "float32") and not can_be_real:
        why = "the Hamiltonian is complex; take 'complex128', or leave it out"
        yield conflict("ansatz.dtype", why, ansatz.dtype)


def _of_particles(settings: Settings, operator: Operator) -> Iterator[Rule]:
    sampler, given, where = settings.sampler, settings.sampler.particles, "sampler.particles"
    if operator.strings is None:
        yield given is not None, where, "this Hamiltonian is one of spins; leave it out", given
        return
    why = "fermions have sampler.particles instead; leave it out"
    yield sampler.magnetisation is not None, "sampler.magnetisation", why, sampler.magnetisation
    why = "fermions are not drawn directly; take 'metropolis'"
    yield settings.sampler_kind == "direct", "sampler.kind", why
    if not operator.conserves_magnetisation:
        why = "this Hamiltonian does not conserve each of these numbers; leave it out"
        yield given is not None, where, why, given
        return
    try:
        operator.strings.sector(given)
    except ValueError as error:
        yield True, where, str(error).partition(": ")[2], *([] if given is None else [given])


def check_symmetries(settings: Settings, operator: Operator, direct: bool = False) -> None:
    """Refuse to measure by symmetries that H lacks (ValueError), or by draws that are `direct`."""
    if not settings.measure.symmetrise:
        return
    symmetry_group(operator, settings.measure.symmetrise)
    if direct:
        raise ConfigError(conflict("measure.symmetrise", f"{NOT_DRAWN}; leave out --direct"))


def check_memory(settings: Settings, n_params: int, local_dim: int) -> None:
    """Raise `ConfigError` where the first parameters alone need more memory than there is.

    Simple update, and parameters that tensors share, need a tensor with all bonds of dimension D
    for each place of the grid; any start the parameters and their first update.
    """
    state = settings.ansatz.leading
    needed, what = 2 * n_params * np.dtype(state.dtype).itemsize, "its parameters and their update"
    key, smaller = f"ansatz.kind = '{state.kind}'", "network"
    D: Any = getattr(state, "D", None)
    if D:
        key, smaller = f"ansatz.D = {D}", "D"
    if state.kind == "peps" and (state.init in (AUTO, "simple_update") or state.sharing):
        shape = build_lattice(settings.lattice).shape
        n_legs = 2 * sum(length > 1 for length in shape)
        padded = math.prod(shape) * local_dim * D**n_legs * np.dtype(float).itemsize
        if padded > needed:
            needed, what = padded, "its tensors" if state.sharing else "simple update"
    if needed > (limit := memory_limit()):
        raise ConfigError(
            f"{key}: not enough memory: {what} would take {needed / 2**30:,.0f} GiB of "
            f"{limit / 2**30:,.1f} GiB; take a smaller {smaller}"
        )
