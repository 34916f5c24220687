"""From settings to objects: lattice, operator, ansatz, sampler, optimizer, schedule, start."""

from __future__ import annotations

from typing import Any

import numpy as np

from tnvmc.ansatz.neural import NETWORKS
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.lattice import Lattice, chain, from_bonds, shastry_sutherland, square
from tnvmc.lattice.permutations import checkerboard
from tnvmc.operators import models
from tnvmc.operators.basis import Basis
from tnvmc.operators.marshall import check_characters
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.optimize import schedules
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.configurations import check_magnetisation
from tnvmc.sampling.direct import DirectSampler
from tnvmc.sampling.enumerate import MAX_CONFIGS, Enumerate
from tnvmc.sampling.problem import Samples
from tnvmc.settings.ansatz_settings import NetworkSettings, PEPSSettings
from tnvmc.settings.config import BondsSettings, ChainSettings, LatticeSettings, Settings
from tnvmc.settings.optimizer_settings import OptimizerSettings, SRSettings
from tnvmc.storage.identity import plain
from tnvmc.vmc.driver import VMC
from tnvmc.vmc.guard import Guard

Array = Any


def build_lattice(settings: LatticeSettings) -> Lattice:
    """Make the lattice of a [lattice] section."""
    shape = [settings.shape] if isinstance(settings.shape, int) else settings.shape
    if isinstance(settings, ChainSettings):
        return chain(shape[0], settings.boundary)
    if isinstance(settings, BondsSettings):
        rows, columns = [1, *shape][-2:]
        return from_bonds((rows, columns), [(i, j) for i, j in settings.bonds])
    grid = {"square": square, "shastry_sutherland": shastry_sutherland}[settings.kind]
    return grid(shape[0], shape[1], settings.boundary)


def build_operator(settings: Settings) -> Operator:
    """Make the Hamiltonian of the [lattice] and [hamiltonian] sections."""
    model = getattr(models, settings.hamiltonian.model)
    return model(build_lattice(settings.lattice), **settings.hamiltonian.as_couplings())


def build_ansatz(settings: Settings, operator: Operator) -> Ansatz:
    """Make the wave function of the [ansatz] and [contraction] sections."""
    ansatz, lattice = settings.ansatz, operator.lattice
    if isinstance(ansatz, NetworkSettings):
        return _network(ansatz, operator, settings.sampler.magnetisation)
    if not isinstance(ansatz, PEPSSettings):
        from tnvmc.ansatz.product import DimerCovering, ProductState

        if ansatz.kind == "dimer":
            return DimerCovering(lattice, _covering(lattice), operator.local_dim, ansatz.dtype)
        return ProductState(lattice, operator.local_dim, ansatz.dtype)
    assert ansatz.D is not None
    if ansatz.kind == "periodic_mps":
        from tnvmc.ansatz.mps import PeriodicMPS

        return PeriodicMPS(lattice, ansatz.D, ansatz.dtype, operator.local_dim)
    if ansatz.kind == "mps" and lattice.shape[0] != 1:
        raise ValueError(
            f"ansatz.kind = 'mps': needs a lattice of one row, this one has {lattice.shape[0]}; "
            "take kind = 'peps', or lattice.kind = 'chain'"
        )
    from tnvmc.ansatz.peps.state import PEPS

    return PEPS(lattice, ansatz.D, dtype=ansatz.dtype, scheme=_scheme(settings))


def _network(settings: NetworkSettings, operator: Operator, magnetisation: int) -> Ansatz:
    """A network with what is done to it on its way to psi; described in its `architecture`."""
    lattice, keywords = operator.lattice, settings.keywords()
    try:
        from tnvmc.ansatz.neural.flax import FlaxAnsatz

        module = NETWORKS[settings.kind].load()
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"ansatz.kind = '{settings.kind}': a network needs JAX and Flax, which cannot be "
            f"imported here ({error}); install them with: pip install 'tnvmc[neural]'"
        ) from None
    if keywords.get("magnetisation") is False:
        keywords["magnetisation"] = None
    group = symmetry_group(operator, settings.average) if settings.average else None
    if group is not None and not settings.marshall:
        try:
            check_characters(operator, group, magnetisation)
        except ValueError as error:
            hint = "give ansatz.marshall = true, or leave that symmetry out"
            raise ValueError(f"ansatz.average: {error}; {hint}") from None
    treated = {"marshall": settings.marshall, "average": sorted(settings.average)}
    return FlaxAnsatz(
        lattice,
        lambda rngs: module(lattice, **keywords, local_dim=operator.local_dim, rngs=rngs),
        local_dim=operator.local_dim,
        holomorphic=settings.dtype == "complex128",
        dtype=settings.dtype,
        signs=_marshall_signs(lattice) if settings.marshall else None,
        group=group,
        freeze=settings.freeze,
        architecture=plain({"kind": settings.kind, "dtype": settings.dtype, **keywords, **treated}),
    )


def _marshall_signs(lattice: Lattice) -> Array:
    try:
        return checkerboard(lattice)
    except ValueError as error:
        raise ValueError(f"ansatz.marshall: {error}") from None


def _scheme(settings: Settings) -> Any:
    from tnvmc.contraction import schemes

    contraction = settings.contraction
    if contraction.chi is None or contraction.scheme == "exact":
        return schemes.Exact()
    by_name = {"src": schemes.SRC, "zipup": schemes.ZipUp}
    return by_name[contraction.scheme or "src"](chi=contraction.chi)


def _covering(lattice: Lattice) -> tuple[tuple[int, int], ...]:
    """Pairs that hold every site: the lattice's dimers, else neighbours in rows or columns."""
    if lattice.bonds.get("dimer"):
        return tuple((i, j) for i, j in lattice.bonds["dimer"])
    n_rows, n_cols = lattice.shape
    sites = np.arange(n_rows * n_cols).reshape(n_rows, n_cols)
    if n_cols % 2:
        sites = sites.T
    if sites.shape[1] % 2:
        raise ValueError(
            f"ansatz.kind = 'dimer': {n_rows} x {n_cols} sites cannot be paired; one side of the "
            "lattice must be even"
        )
    return tuple((int(i), int(j)) for i, j in sites.reshape(-1, 2))


def build_sampler(settings: Settings, operator: Operator) -> Samples:
    """Make the sampler of the [sampler] section."""
    sampler, threads = settings.sampler, settings.run.threads
    magnetisation = sampler.magnetisation if operator.conserves_magnetisation else None
    if magnetisation is not None:
        check_magnetisation(operator.n_sites, operator.local_dim, magnetisation)
    if sampler.kind == "enumerate":
        size = Basis(operator.n_sites, operator.local_dim, magnetisation).dimension
        if size > MAX_CONFIGS:
            raise ValueError(
                f"sampler.kind = 'enumerate': {size} configurations of {operator.n_sites} sites, "
                f"at most {MAX_CONFIGS} are enumerated; take a smaller lattice, or 'metropolis'"
            )
        return Enumerate(sampler.magnetisation, threads)
    if sampler.kind == "direct":
        return DirectSampler(
            sampler.n_samples, magnetisation=sampler.magnetisation, threads=threads,
            chunk=sampler.chunk,
        )  # fmt: skip
    chains = sampler.model_dump(exclude={"kind", "magnetisation"})
    return Sampler(**chains, threads=threads)


def build_optimizer(settings: OptimizerSettings) -> Any:
    """Make the rule of the [optimizer] section."""
    from tnvmc.optimize.first_order import Adam, GradientDescent, RandomSign
    from tnvmc.optimize.sr import SR

    if isinstance(settings, SRSettings):
        return SR(settings.diag_shift, settings.momentum, settings.clip)
    rules = {"gradient": GradientDescent, "random_sign": RandomSign, "adam": Adam}
    return rules[settings.kind](clip=settings.clip)


def build_schedule(settings: OptimizerSettings, first_step: int = 0) -> schedules.Schedule:
    """Make the learning rate as a function of the step, for steps from `first_step` on."""
    schedule = _schedule(settings)
    return (lambda step: schedule(step - first_step)) if first_step else schedule


def _schedule(settings: OptimizerSettings) -> schedules.Schedule:
    rate, steps = settings.learning_rate, max(1, settings.steps)
    if isinstance(rate, list):
        return schedules.Piecewise(tuple(rate), tuple(settings.stages or ()))
    if settings.schedule == "constant":
        return schedules.Constant(rate)
    assert settings.final_learning_rate is not None
    if settings.schedule == "exponential":
        return schedules.Exponential(rate, settings.final_learning_rate, steps)
    return schedules.Cosine(rate, settings.final_learning_rate, steps)


def build_vmc(
    settings: Settings,
    operator: Operator,
    ansatz: Ansatz,
    theta: Array,
    first_step: int = 0,
    configs: Array | None = None,
) -> VMC:
    """Put the parts of a run together.

    Args:
        settings: completed settings.
        operator: the Hamiltonian.
        ansatz: the wave function.
        theta: its parameters (P,) to start from.
        first_step: where the steps of the learning rate are counted from.
        configs: walkers (W, N) to start from, where the sampler has as many.
    """
    sampler = build_sampler(settings, operator)
    if configs is not None and configs.shape[0] != sampler.n_configs:
        configs = None
    return VMC(
        operator,
        ansatz,
        sampler,
        build_optimizer(settings.optimizer),
        theta=theta,
        learning_rate=build_schedule(settings.optimizer, first_step),
        seed=settings.run.seed,
        guard=Guard(**settings.guard.model_dump()),
        configs=configs,
        magnetisation=settings.sampler.magnetisation,
        device=settings.run.device,
    )
