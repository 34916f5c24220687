"""From settings to objects: lattice, operator, ansatz, sampler, optimizer, schedule, start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tnvmc.ansatz.initial import initial_parameters, noise_on_all
from tnvmc.ansatz.jastrow import Jastrow
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.neural import NETWORKS, PACKAGES
from tnvmc.ansatz.peps.starts.initial import product_parameters
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.peps.symmetries import sharing
from tnvmc.ansatz.product import ProductState
from tnvmc.ansatz.protocol import Ansatz, chi_of
from tnvmc.ansatz.slater import Slater
from tnvmc.ansatz.wrappers.product_of_states import ProductOfStates
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised, inner_state
from tnvmc.backend.arguments import one_of
from tnvmc.contraction import schemes
from tnvmc.contraction.schemes import default_chi
from tnvmc.lattice.permutations import SymmetryGroup, checkerboard
from tnvmc.operators.properties import particles_of
from tnvmc.operators.spin import named_matrices
from tnvmc.operators.symmetry import check_characters, odd_elements, symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.optimize.first_order import Adam, GradientDescent
from tnvmc.optimize.rule import Cosine, Rule, Schedule
from tnvmc.optimize.sr import SR
from tnvmc.optimize.time_evolution import TimeEvolution
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.configurations import in_sector, sector_of
from tnvmc.sampling.direct import DirectSampler
from tnvmc.sampling.enumerate import MAX_CONFIGS, Enumerate
from tnvmc.sampling.problem import Samples
from tnvmc.settings.config import DEFAULT_SAMPLES, Settings, default_dtype, measured_chi
from tnvmc.settings.optimizer_settings import OptimizerSettings
from tnvmc.settings.own_state import build_own
from tnvmc.settings.problems import errors_of
from tnvmc.storage.identity import plain

Array = Any


MOST_ELEMENTS = 512
"""Of a group that a run from a file sums over: 8 x 8 translations and the point group."""


def build_ansatz(settings: Settings, operator: Operator) -> Ansatz:
    """Make the wave function of the [ansatz] and [contraction] sections."""
    chosen = settings.ansatz
    if chosen.factors:
        first, second = (_state(settings, each, operator) for each in chosen.factors.values())
        with errors_of("ansatz"):
            state: Ansatz = ProductOfStates(first, second, chosen.sweeps)
    else:
        state = _state(settings, chosen, operator)
    if not chosen.symmetrise:
        return state
    with errors_of("ansatz.symmetrise"):
        group = symmetry_group(operator, chosen.symmetrise, chosen.characters)
        if len(group) > MOST_ELEMENTS:
            raise ValueError(
                f"{' and '.join(chosen.symmetrise)} make {len(group)} elements, at most "
                f"{MOST_ELEMENTS} are taken; leave one out, or take Symmetrised in Python"
            )
        sector = settings.sampler.magnetisation or 0
        if chosen.characters is None and (odd := odd_elements(operator, group, sector)):
            more = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
            raise ValueError(
                f"the ground state of this antiferromagnet has character -1 under {odd[0]}{more}; "
                f'give ansatz.characters = {{ "{odd[0]}" = -1 }}, or = 1 for the lowest state of +1'
            )
        return Symmetrised(state, group)


def build_theta(settings: Settings, operator: Operator, ansatz: Ansatz) -> Array:
    """Make the parameters (P,) that [ansatz] starts from, with its noise."""
    operator = in_sector(operator, settings.sampler.magnetisation)
    theta, noise = _start(settings, operator, ansatz), settings.ansatz.init_noise
    return theta if noise is None else noise_on_all(theta, noise, settings.run.seed)


def _start(settings: Settings, operator: Operator, ansatz: Ansatz) -> Array:
    """Give them without noise."""
    chosen, seed = settings.ansatz, settings.run.seed
    if (name := getattr(settings.optimizer, "product", None)) is not None:
        return _product(name, operator, ansatz, seed)
    if chosen.init != "factors":
        try:
            return initial_parameters(ansatz, operator, seed, chosen.init)
        except Exception as error:
            if not chosen.is_own:
                raise
            why = f"no parameters of run.seed = {seed} ({type(error).__name__}: {error})"
            raise ValueError(f"ansatz.module = '{chosen.module}': {why}") from error
    product: Any = inner_state(ansatz)
    first = initial_parameters(product.first, operator, seed, chosen.first.init)
    if chosen.second.init in ("random", "product"):
        return product.initial_second(first, operator, seed, chosen.second.init)
    second = initial_parameters(product.second, operator, seed, chosen.second.init)
    return product.joined(first, second)


def _product(name: str, operator: Operator, ansatz: Ansatz, seed: int) -> Array:
    """Make them of a product state, each site in the highest state of a matrix."""
    matrices = named_matrices(operator.local_dim)
    matrices |= {f"-{key}": -matrix for key, matrix in matrices.items()}
    with errors_of("time.product"):
        one_of("time", "product", name, tuple(matrices))
        if operator.conserves_magnetisation:
            raise ValueError(
                f"{operator.name} conserves the total Sz, which a product along {name} does not "
                "have; begin with the state of another run, as ansatz.init"
            )
        return product_parameters(ansatz, np.linalg.eigh(matrices[name])[1][:, -1], seed)


def _state(settings: Settings, ansatz: Any, operator: Operator) -> Ansatz:
    """Make one wave function, of the [contraction] section where it is contracted."""
    if ansatz.is_network:
        return _network(ansatz, operator, settings.sampler.magnetisation)
    lattice, local_dim = operator.lattice, operator.local_dim
    D, dtype = ansatz.D, ansatz.dtype or default_dtype(operator)
    match ansatz.kind:
        case "jastrow":
            return Jastrow(lattice, dtype=dtype, local_dim=local_dim)
        case "product":
            return ProductState(lattice, local_dim, dtype)
        case "slater" if held := particles_of(operator, operator.magnetisation):
            return Slater(lattice, held, dtype, local_dim)
        case "slater":
            raise ValueError("ansatz.kind = 'slater': for a fixed number of fermions, as of 'tv'")
        case "periodic_mps":
            return PeriodicMPS(lattice, D, dtype, local_dim)
    chi, shared, bonds = settings.contraction.chi, None, ansatz.bonds_on(lattice)
    if ansatz.sharing:
        with errors_of("ansatz.sharing"):
            shared = sharing(operator, bonds=bonds, edge=ansatz.edge, period=ansatz.period or 1)
    scheme: Any = schemes.SRC(1) if bonds == "snake" else schemes.Exact()
    if bonds != "snake" and chi is not None and settings.contraction.scheme != "exact":
        kind = schemes.ZipUp if settings.contraction.scheme == "zipup" else schemes.SRC
        scheme = kind(chi=default_chi(D) if chi == "auto" else chi)
    return PEPS(lattice, D, dtype, scheme, local_dim, bonds, shared, operator.fermions)


def chi_to_measure(settings: Settings, ansatz: Ansatz) -> int | None:
    """Give the chi of a measurement by completed settings; where that of the steps grows they leave
    it open, and it is twice that of `ansatz`.
    """
    if settings.measure.chi or settings.contraction.chi != "auto":
        return settings.measure.chi
    return measured_chi(chi_of(ansatz))


def _network(settings: Any, operator: Operator, magnetisation: int | None) -> Ansatz:
    """A network with what is done to it on its way to psi; described in its `architecture`."""
    kind, dtype, lattice, keywords = settings.kind, settings.dtype, operator.lattice, {}
    try:
        from tnvmc.ansatz.neural.flax import FlaxAnsatz

        module = None if settings.is_own else NETWORKS[kind].load()
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"ansatz.kind = '{kind}': a network needs JAX and Flax, which cannot be imported here "
            f"({error}); try: pip install {PACKAGES}"
        ) from None
    if settings.is_autoregressive:
        keywords["magnetisation"] = magnetisation
    keywords |= settings.given()
    group = symmetry_group(operator, settings.average) if settings.average else None
    signs: Any = None
    hint = "; give ansatz.marshall = true, or leave that symmetry out"
    if settings.marshall:
        with errors_of("ansatz.marshall"):
            signs = checkerboard(lattice)
    elif group is not None:
        with errors_of("ansatz.average", hint):
            check_characters(operator, group, magnetisation or 0)
    treated = {"marshall": bool(settings.marshall), "average": sorted(settings.average)}
    about: dict[str, Any] = {
        "local_dim": operator.local_dim, "dtype": dtype, "signs": signs, "group": group,
        "freeze": settings.freeze,
        "architecture": plain({"kind": kind, "dtype": dtype, **keywords, **treated}),
    }  # fmt: skip
    if module is None:
        return build_own(settings, operator, FlaxAnsatz, about)
    given = {"local_dim": operator.local_dim, **keywords}
    return FlaxAnsatz(lattice, lambda rngs: module(lattice, **given, rngs=rngs), **about)


def build_sampler(settings: Settings, operator: Operator) -> Samples:
    """Make the sampler of the [sampler] section."""
    sampler, threads = settings.sampler, settings.run.threads
    sector = sector_of(operator, sampler.magnetisation)
    # VMC begins with another number where it is "auto".
    n_samples = DEFAULT_SAMPLES if sampler.n_samples == "auto" else sampler.n_samples
    if sampler.kind == "direct":
        return DirectSampler(n_samples, magnetisation=sector, threads=threads, chunk=sampler.chunk)
    if sampler.kind != "enumerate":
        chains = sampler.model_dump(exclude={"kind", "magnetisation", "particles", "n_samples"})
        return Sampler(**chains, n_samples=n_samples, threads=threads)
    size = operator.states(sector).dimension
    if size > MAX_CONFIGS:
        raise ValueError(
            f"sampler.kind = 'enumerate': {size} configurations of {operator.n_sites} sites, "
            f"at most {MAX_CONFIGS} are enumerated; take a smaller lattice, or 'metropolis'"
        )
    return Enumerate(sector, threads)


RULES: Mapping[str, Any] = {
    "sr": SR, "gradient": GradientDescent, "adam": Adam,
    "time": TimeEvolution,
}  # fmt: skip
SAMPLERS = {"metropolis": Sampler, "direct": DirectSampler, "enumerate": Enumerate}


def build_optimizer(settings: Any) -> Rule:
    """Make the rule of the [optimizer] section."""
    if settings.kind == "time":
        keys = ("step", "tolerance", "imaginary", "observables")
        return TimeEvolution(**{key: getattr(settings, key) for key in keys})
    if settings.kind != "sr":
        return RULES[settings.kind]()  # type: ignore[no-any-return]
    memory, momentum = settings.memory or 0.0, settings.momentum
    return SR(settings.diag_shift, momentum, memory=memory, reach=settings.reach)


def build_schedule(
    settings: OptimizerSettings, first_step: int = 0
) -> Schedule | float | Literal["auto"] | None:
    """Make the learning rate: a number, a function of steps from `first_step` on, or "auto"; None
    of time.
    """
    rate, steps = settings.learning_rate, max(1, settings.steps)
    if settings.kind == "time":
        return None
    if rate is None or rate == "auto":
        return "auto"
    final = settings.final_learning_rate or rate / 10
    if final == rate:
        return rate
    schedule = Cosine(rate, final, steps)
    return (lambda step: schedule(step - first_step)) if first_step else schedule


def build_arguments(settings: Settings, operator: Operator, first_step: int = 0) -> dict[str, Any]:
    """Make the arguments of a `VMC` by name, but Hamiltonian, wave function and where it starts.

    Steps of the learning rate are counted from `first_step`.
    """
    optimizer: Any = settings.optimizer
    for name in optimizer.observables if optimizer.kind == "time" else ():
        with errors_of("time.observables"):
            about: Any = {"local_dim": operator.local_dim, "fermions": operator.fermions}
            Operator.from_products(operator.lattice, [(name, "all", 1.0)], **about)
    return {
        "sampler": build_sampler(settings, operator),
        "optimizer": build_optimizer(settings.optimizer),
        "learning_rate": build_schedule(settings.optimizer, first_step),
        "n_samples": "auto" if settings.sampler.n_samples == "auto" else None,
        "chi": "auto" if settings.contraction.chi == "auto" else None,
        "seed": settings.run.seed,
        "magnetisation": settings.sampler.magnetisation,
        "device": settings.run.device,
    }


@dataclass(frozen=True)
class QuantumNumbers:
    """Which states a run may find: twice the total Sz (None: not conserved), and the characters
    of a state that is summed over symmetries.
    """

    magnetisation: int | None
    group: SymmetryGroup | None = field(default=None, repr=False)

    @property
    def characters(self) -> Mapping[tuple[tuple[int, ...], bool], int]:
        """By what the elements do, whatever they are called."""
        elements = () if self.group is None else self.group.elements
        return {element.key: element.character for element in elements}

    def hold(self, other: QuantumNumbers) -> bool:
        """Tell whether every state of the other quantum numbers has these too."""
        same = self.magnetisation == other.magnetisation
        return same and self.characters.items() <= other.characters.items()

    def exclude(self, other: QuantumNumbers) -> bool:
        """Tell whether no state has both: those of one are orthogonal to those of the other."""
        theirs = other.characters
        differ = any(theirs.get(key, sign) != sign for key, sign in self.characters.items())
        return self.magnetisation != other.magnetisation or differ

    def lies_below(self, other: QuantumNumbers, rotations: bool) -> bool:
        """Tell whether the lowest state of these lies no higher than any of the others.

        So it is where the others have these too.  Where the Hamiltonian has all `rotations` of the
        spins, every multiplet has a state of each smaller |2 Sz|, with the same signs under
        rearranged sites.
        """
        one, two = self.magnetisation, other.magnetisation
        inverts = any(inverting for _, inverting in self.characters)
        if not rotations or one is None or two is None or inverts:
            return self.hold(other)
        return abs(one) <= abs(two) and self.characters.items() <= other.characters.items()


def quantum_numbers(settings: Settings, operator: Operator) -> QuantumNumbers:
    """Give the quantum numbers of a run by its completed settings.

    Raises ValueError for a symmetry that the Hamiltonian lacks, or characters that contradict.
    """
    chosen, group = settings.ansatz, None
    if chosen.symmetrise:
        group = symmetry_group(operator, chosen.symmetrise, chosen.characters)
    if not operator.conserves_magnetisation:
        return QuantumNumbers(None, group)
    asked = settings.sampler.magnetisation  # of fermions the Hamiltonian holds their numbers
    return QuantumNumbers(operator.magnetisation if asked is None else asked, group)
