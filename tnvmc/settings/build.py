"""From settings to objects: lattice, operator, ansatz, sampler, optimizer, schedule, start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from tnvmc.ansatz.initial import initial_parameters
from tnvmc.ansatz.jastrow import Jastrow
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.neural import NETWORKS, PACKAGES
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.peps.symmetries import sharing
from tnvmc.ansatz.product import DimerCovering, ProductState, pairs_of
from tnvmc.ansatz.protocol import Ansatz, chi_of
from tnvmc.ansatz.wrappers.polar import Modulus, Phase
from tnvmc.ansatz.wrappers.product_of_states import ProductOfStates
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised, inner_state
from tnvmc.contraction import schemes
from tnvmc.lattice import GRIDS, Lattice, chain, from_bonds
from tnvmc.lattice.permutations import checkerboard
from tnvmc.operators import models
from tnvmc.operators.basis import Basis
from tnvmc.operators.products import Placed, joined
from tnvmc.operators.symmetry import SymmetryGroup, check_characters, odd_elements, symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.optimize import schedules
from tnvmc.optimize.conjugate_gradients import ConjugateGradients
from tnvmc.optimize.first_order import Adam, GradientDescent, RandomSign
from tnvmc.optimize.solve import Cholesky
from tnvmc.optimize.sr import SR
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.configurations import sector_of
from tnvmc.sampling.direct import DirectSampler
from tnvmc.sampling.enumerate import MAX_CONFIGS, Enumerate
from tnvmc.sampling.problem import Samples
from tnvmc.settings.ansatz_settings import NetworkSettings, ProductOfStatesSettings
from tnvmc.settings.config import (
    DEFAULT_SAMPLES,
    BondsSettings,
    ChainSettings,
    LatticeSettings,
    Settings,
    TermsSettings,
)
from tnvmc.settings.optimizer_settings import OptimizerSettings, SRSettings
from tnvmc.settings.rules import default_chi, measured_chi
from tnvmc.storage.identity import plain
from tnvmc.vmc.guard import Guard

Array = Any


def build_lattice(settings: LatticeSettings) -> Lattice:
    """Make the lattice of a [lattice] section."""
    shape = [settings.shape] if isinstance(settings.shape, int) else settings.shape
    if isinstance(settings, ChainSettings):
        return chain(shape[0], settings.boundary)
    if isinstance(settings, BondsSettings):
        rows, columns = [1, *shape][-2:]
        return from_bonds(
            (rows, columns), settings.by_kind(), settings.coordinates, settings.vacant or ()
        )
    with _told_of("lattice.shape"):
        return GRIDS[settings.kind](shape[0], shape[1], settings.boundary)


def build_operator(settings: Settings) -> Operator:
    """Make the Hamiltonian of the [lattice] and [hamiltonian] sections."""
    lattice, hamiltonian = build_lattice(settings.lattice), settings.hamiltonian
    if not isinstance(hamiltonian, TermsSettings):
        return getattr(models, hamiltonian.model)(lattice, **hamiltonian.as_couplings())  # type: ignore[no-any-return]
    placed: list[Placed] = []
    for number, term in enumerate(hamiltonian.term, 1):
        with _told_of(f"hamiltonian.term.{number}"):
            placed += term.placed(lattice, hamiltonian.local_dim)
    with _told_of("hamiltonian"):
        terms = joined(placed)
        return Operator.from_terms(lattice, terms, local_dim=hamiltonian.local_dim, name="terms")


MOST_ELEMENTS = 512
"""Of a group that a run from a file sums over: 8 x 8 translations and the point group."""


def build_ansatz(settings: Settings, operator: Operator) -> Ansatz:
    """Make the wave function of the [ansatz] and [contraction] sections."""
    state, chosen = _unsymmetrised(settings, operator), settings.ansatz
    if not chosen.symmetrise:
        return state
    with _told_of("ansatz.symmetrise"):
        group = symmetry_group(operator, chosen.symmetrise, chosen.characters)
        if len(group) > MOST_ELEMENTS:
            raise ValueError(
                f"{' and '.join(chosen.symmetrise)} make {len(group)} elements here, and a "
                f"measurement takes as many times that of the state alone; at most {MOST_ELEMENTS} "
                "are taken. Leave one of them out, or take Symmetrised in Python with a part of "
                "the group"
            )
        if chosen.characters is None:
            _check_ground_state(operator, group, settings.sampler.magnetisation or 0)
        return Symmetrised(state, group, chosen.reweight is not False)


def _check_ground_state(operator: Operator, group: SymmetryGroup, magnetisation: int) -> None:
    """Refuse characters that nobody gave where the ground state is known to have others."""
    if odd := odd_elements(operator, group, magnetisation):
        raise ValueError(
            f"the ground state of this antiferromagnet has character -1 under {odd[0]}"
            f"{f' and {len(odd) - 1} more' if len(odd) > 1 else ''}, and without ansatz.characters "
            "all are "
            f'+1; give ansatz.characters = {{ "{odd[0]}" = -1 }} for the ground state, or = 1 for the '
            "lowest state that has +1"
        )


def _unsymmetrised(settings: Settings, operator: Operator) -> Ansatz:
    """The wave function itself, before it is summed over symmetries."""
    ansatz = settings.ansatz
    if not isinstance(ansatz, ProductOfStatesSettings):
        return _state(settings, ansatz, operator)
    first, second = (_state(settings, each, operator) for each in (ansatz.first, ansatz.second))
    with _told_of("ansatz"):
        first = _part(first, ansatz.modulus != "second", ansatz.phase != "second")
        second = _part(second, ansatz.modulus != "first", ansatz.phase != "first")
        return ProductOfStates(first, second, ansatz.sweeps)


_NOISE = 1  # sets these random numbers apart from those of a random start, which has the seed alone


def build_theta(settings: Settings, operator: Operator, ansatz: Ansatz) -> Array:
    """Make the parameters (P,) that [ansatz] starts from, with its noise; for a product as each of
    its tables says.
    """
    theta, noise = _start(settings, operator, ansatz), settings.ansatz.init_noise
    if noise is None:
        return theta
    rng = np.random.Generator(np.random.PCG64([settings.run.seed, _NOISE]))
    deviates = rng.normal(size=theta.shape)
    if theta.dtype.kind == "c":
        deviates = (deviates + 1j * rng.normal(size=theta.shape)) / np.sqrt(2)
    scale = noise * np.sqrt(np.mean(np.abs(theta) ** 2))
    return theta + (scale * deviates).astype(theta.dtype)


def _start(settings: Settings, operator: Operator, ansatz: Ansatz) -> Array:
    """Give them without noise."""
    chosen, seed = settings.ansatz, settings.run.seed
    if not isinstance(chosen, ProductOfStatesSettings) or chosen.init != "factors":
        return initial_parameters(ansatz, operator, seed, chosen.init)
    ansatz = inner_state(ansatz)
    assert isinstance(ansatz, ProductOfStates)
    first = initial_parameters(_whole(ansatz.first), operator, seed, chosen.first.init)
    if chosen.second.init in ("random", "product"):
        return ansatz.initial_second(first, operator, seed, chosen.second.init)
    return ansatz.joined(
        first, initial_parameters(_whole(ansatz.second), operator, seed, chosen.second.init)
    )


def _part(state: Ansatz, modulus: bool, phase: bool) -> Ansatz:
    """What of a state goes into a product."""
    if not modulus and not phase:
        raise ValueError(
            "modulus and phase are both those of one state, so that the other one has no effect; "
            "give one of them as 'both', or that state alone"
        )
    if modulus and phase:
        return state
    return Modulus(state) if modulus else Phase(state)


def _whole(state: Ansatz) -> Ansatz:
    return state.ansatz if isinstance(state, Modulus | Phase) else state


def _state(settings: Settings, ansatz: Any, operator: Operator) -> Ansatz:
    """Make one wave function, of the [contraction] section where it is contracted."""
    lattice, local_dim = operator.lattice, operator.local_dim
    if isinstance(ansatz, NetworkSettings):
        return _network(ansatz, operator, settings.sampler.magnetisation or 0)
    dtype = ansatz.dtype or default_dtype(operator)
    if ansatz.kind == "jastrow":
        return Jastrow(lattice, ansatz.pairs, ansatz.fields, dtype, local_dim)
    if ansatz.kind == "dimer":
        return DimerCovering(lattice, pairs_of(lattice), local_dim, dtype)
    if ansatz.kind == "product":
        return ProductState(lattice, local_dim, dtype)
    assert ansatz.D is not None
    if ansatz.kind == "periodic_mps":
        return PeriodicMPS(lattice, ansatz.D, dtype, local_dim)
    if ansatz.kind == "mps" and lattice.shape[0] != 1:
        raise ValueError(
            f"ansatz.kind = 'mps': needs a lattice of one row, this one has {lattice.shape[0]}; "
            "take kind = 'peps', or lattice.kind = 'chain'"
        )
    chi = settings.contraction.chi
    most = settings.contraction.largest_chi or default_chi(ansatz.D) if chi == "auto" else chi
    chosen = build_scheme(settings.contraction.scheme, most)
    with _told_of("ansatz.sharing"):
        shared = None
        if ansatz.sharing:
            shared = sharing(
                operator, bonds=ansatz.bonds, edge=ansatz.edge, period=ansatz.period or 1
            )
    return PEPS(lattice, ansatz.D, dtype, chosen, local_dim, ansatz.bonds, shared)


def chi_to_measure(settings: Settings, ansatz: Ansatz) -> int | None:
    """Give the chi of a measurement: that of the settings, which leave it open where that of the
    steps grows.

    Args:
        settings: completed settings.
        ansatz: with the chi of the next step.
    """
    if settings.measure.chi or settings.contraction.chi != "auto":
        return settings.measure.chi
    return measured_chi(chi_of(ansatz))


def build_scheme(scheme: str | None, chi: int | None) -> Any:
    """Make what contracts a PEPS: without truncation where there is no chi."""
    kind = None if chi is None else _TRUNCATING.get(scheme or "src")
    return schemes.Exact() if kind is None else kind(chi=chi)


_TRUNCATING: dict[str, Any] = {"src": schemes.SRC, "zipup": schemes.ZipUp}


def default_dtype(operator: Operator) -> str:
    """Give the type of the parameters of a tensor network where none is set."""
    return "complex128" if operator.is_complex else "float64"


def _network(settings: NetworkSettings, operator: Operator, magnetisation: int) -> Ansatz:
    """A network with what is done to it on its way to psi; described in its `architecture`."""
    lattice, keywords = operator.lattice, settings.keywords()
    try:
        from tnvmc.ansatz.neural.flax import FlaxAnsatz

        module = NETWORKS[settings.kind].load()
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"ansatz.kind = '{settings.kind}': a network needs JAX and Flax, which cannot be "
            f"imported here ({error}); try: pip install {PACKAGES}"
        ) from None
    if keywords.get("magnetisation") is False:
        keywords["magnetisation"] = None
    group = symmetry_group(operator, settings.average) if settings.average else None
    signs: Any = None
    if settings.marshall:
        with _told_of("ansatz.marshall"):
            signs = checkerboard(lattice)
    elif group is not None:
        with _told_of(
            "ansatz.average", "; give ansatz.marshall = true, or leave that symmetry out"
        ):
            check_characters(operator, group, magnetisation)
    treated = {"marshall": settings.marshall, "average": sorted(settings.average)}
    return FlaxAnsatz(
        lattice,
        lambda rngs: module(lattice, **keywords, local_dim=operator.local_dim, rngs=rngs),
        local_dim=operator.local_dim,
        holomorphic=settings.dtype == "complex128",
        dtype=settings.dtype,
        signs=signs,
        group=group,
        freeze=settings.freeze,
        architecture=plain({"kind": settings.kind, "dtype": settings.dtype, **keywords, **treated}),
    )


def build_sampler(settings: Settings, operator: Operator) -> Samples:
    """Make the sampler of the [sampler] section."""
    sampler, threads = settings.sampler, settings.run.threads
    magnetisation = sector_of(operator, sampler.magnetisation)
    if sampler.kind == "enumerate":
        size = Basis(operator.n_sites, operator.local_dim, magnetisation).dimension
        if size > MAX_CONFIGS:
            raise ValueError(
                f"sampler.kind = 'enumerate': {size} configurations of {operator.n_sites} sites, "
                f"at most {MAX_CONFIGS} are enumerated; take a smaller lattice, or 'metropolis'"
            )
        return Enumerate(magnetisation, threads)
    if sampler.kind == "direct":
        assert sampler.n_samples != "auto"
        return DirectSampler(
            sampler.n_samples, magnetisation=magnetisation, threads=threads,
            chunk=sampler.chunk,
        )  # fmt: skip
    chains = sampler.model_dump(exclude={"kind", "magnetisation", "moves"})
    if sampler.n_samples == "auto":
        chains["n_samples"] = DEFAULT_SAMPLES  # VMC begins with another number
    return Sampler(**chains, threads=threads)


@contextmanager
def _told_of(key: str, hint: str = "") -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{key}: {error}{hint}") from None


def build_optimizer(settings: OptimizerSettings) -> Any:
    """Make the rule of the [optimizer] section."""
    if isinstance(settings, SRSettings):
        of_all = settings.diag_shift, settings.momentum, settings.clip
        memory, solver = settings.memory or 0.0, _solver(settings)
        names = ("averaged_up_to", "reach", "precision")
        others = {name: getattr(settings, name) for name in names}
        return SR(*of_all, memory=memory, solver=solver, **others)
    rules: Any = {"gradient": GradientDescent, "random_sign": RandomSign, "adam": Adam}
    return rules[settings.kind](clip=settings.clip)


def _solver(settings: SRSettings) -> Cholesky | ConjugateGradients | None:
    if settings.solver == "conjugate_gradients":
        return ConjugateGradients()
    return Cholesky() if settings.solver == "cholesky" else None


def build_schedule(
    settings: OptimizerSettings, first_step: int = 0
) -> schedules.Schedule | Literal["auto"]:
    """Make the learning rate, a function of steps from `first_step` on, or "auto"."""
    rate, final, steps = settings.learning_rate, settings.final_learning_rate, settings.steps
    if rate is None or rate == "auto":
        return "auto"
    schedule: schedules.Schedule
    if isinstance(rate, list):
        schedule = schedules.Piecewise(tuple(rate), tuple(settings.stages or ()))
    elif settings.schedule == "constant":
        schedule = schedules.Constant(rate)
    else:
        assert final is not None
        exponential = settings.schedule == "exponential"
        falling = schedules.Exponential if exponential else schedules.Cosine
        schedule = falling(rate, final, max(1, steps))
    return (lambda step: schedule(step - first_step)) if first_step else schedule


def build_arguments(settings: Settings, operator: Operator, first_step: int = 0) -> dict[str, Any]:
    """Make the arguments of a `VMC` by name, but Hamiltonian, wave function and where it starts.

    Args:
        settings: completed settings.
        operator: the Hamiltonian.
        first_step: where the steps of the learning rate are counted from.
    """
    return {
        "sampler": build_sampler(settings, operator),
        "optimizer": build_optimizer(settings.optimizer),
        "learning_rate": build_schedule(settings.optimizer, first_step),
        "n_samples": "auto" if settings.sampler.n_samples == "auto" else None,
        "chi": "auto" if settings.contraction.chi == "auto" else None,
        "seed": settings.run.seed,
        "guard": Guard(**settings.guard.model_dump()),
        "magnetisation": settings.sampler.magnetisation,
        "moves": settings.sampler.moves,
        "device": settings.run.device,
    }
