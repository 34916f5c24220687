"""The arguments of a VMC: what goes together, and what is made of those that are left open."""

import contextlib
import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Ansatz, chi_of, real_state
from tnvmc.ansatz.wrappers.symmetrised import inner_state
from tnvmc.backend.arguments import ArgumentWarning, level_of_caller, positive, real, refuse
from tnvmc.backend.namespace import array_namespace, is_complex, to_namespace
from tnvmc.backend.process import Ranks, available_cores, using_ranks
from tnvmc.lattice.permutations import NotSymmetric, Symmetry
from tnvmc.operators.fermions import sector_text
from tnvmc.operators.properties import particles_of
from tnvmc.operators.symmetry import which_commute
from tnvmc.operators.term import NonHermitian, Operator, require_operator
from tnvmc.optimize.pace import AUTOMATIC
from tnvmc.optimize.rule import Rates, Rule
from tnvmc.optimize.sr import SR
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.configurations import (
    check_configs,
    initial_configs,
    magnetisation_of,
    sector_of,
)
from tnvmc.sampling.direct import DirectSampler
from tnvmc.sampling.problem import Point, Problem, Samples
from tnvmc.sampling.workers import chunks
from tnvmc.vmc import step
from tnvmc.vmc.characters import check_inversion
from tnvmc.vmc.controllers import GrowingChi, GrowingSamples, first_chi, first_n_samples
from tnvmc.vmc.core import State
from tnvmc.vmc.orthogonal import LowerState, largest_change_by_a_site, repeated

Array = Any

FIXED_RATE = 0.1
"""Learning rate of rules other than SR where none is given."""

LEAST_SHARE = 1e-12
"""Of |psi_sym|^2 in the images of psi, below which it is what rounding leaves: 1e-6 of psi."""

_FEW = 16  # walkers whose share is looked at: |G| amplitudes of each


_CALL = (
    "write VMC(operator, ansatz, theta=theta, sampler=Sampler(...), optimizer=SR(...), "
    "learning_rate=0.1)"
)
_STATE = (
    "a wave function: PEPS(lattice, D=4), from_quimb(network), FlaxAnsatz(lattice, module), "
    "or another GenericAnsatz"
)
_PARTS = {
    "ansatz": ("for_operator", _STATE),
    "sampler": ("draw", "one, as Sampler(n_walkers=64)"),
    "optimizer": ("unsolved", "one that inherits from Rule, as SR()"),
}
"""By part of a VMC a method that it has, and an example."""


def check_parts(operator: Any, **parts: Any) -> None:
    """Raise TypeError for a part of a VMC that is another object, with what to write instead."""
    for name, value in parts.items():
        method, example = _PARTS[name]
        if isinstance(value, type):
            raise refuse("VMC", name, value, example, f"make one: {name}={value.__name__}(...)")
        if (value is not None or name == "ansatz") and not hasattr(value, method):
            raise refuse("VMC", name, value, example, _CALL)
    require_operator("VMC", "operator", operator)


def as_tuple(given: Any) -> tuple[Any, ...]:
    """Give several things, or one, as a tuple."""
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def open_settings(operator: Operator, ansatz: Any, theta: Any, orthogonal_to: Any) -> Ansatz:
    """Give the ansatz with settings that were left open decided.

    A state that is kept orthogonal to others shares no tensors by default, as it may lack the
    symmetries of the ground state; nor does one with as many parameters in theta as without.
    """
    ansatz = ansatz.for_operator(operator)
    if not ansatz.sharing_follows:
        return ansatz
    shared = ansatz.shared_for(None if as_tuple(orthogonal_to) else operator)
    fits = theta is None or getattr(theta, "shape", None) == (shared.n_params,)
    return shared if fits else ansatz.shared_for(None)


def as_parameters(ansatz: Ansatz, theta: Array) -> Array:
    """Give parameters (P,) as an array of their own, in the type of the state.

    A complex array stays complex.  TypeError or ValueError for what is none of this state.
    """
    if not hasattr(theta, "shape"):
        with contextlib.suppress(ValueError):  # of rows of different lengths
            theta = np.asarray(theta)
    dtype, xp = getattr(theta, "dtype", None), array_namespace(theta)
    if dtype is None or not xp.isdtype(dtype, ("real floating", "complex floating")):
        example, hint = f"an array of {ansatz.n_params} floats", "ansatz, theta = load_state(path)"
        hint = f"write theta.astype(float), ansatz.flatten(tensors) or {hint}"
        raise refuse("VMC", "theta", theta, example, hint)
    if tuple(theta.shape) != (ansatz.n_params,):
        raise ValueError(
            f"VMC: theta has shape {tuple(theta.shape)}, the ansatz has {ansatz.n_params} "
            "parameters; were they made for another D or lattice? ansatz.flatten takes tensors"
        )
    own = theta.dtype if ansatz.dtype is None else getattr(xp, np.dtype(ansatz.dtype).name)
    keeps = xp.isdtype(theta.dtype, "complex floating") > xp.isdtype(own, "complex floating")
    theta = xp.astype(theta, theta.dtype if keeps else own, copy=True)
    if not math.isfinite(step.norm(theta)):
        raise ValueError("VMC: theta holds numbers that are not finite")
    return theta


def check_state(operator: Operator, ansatz: Ansatz, theta: Array, configs: Array) -> None:
    """Raise ValueError for a complex Hamiltonian of a real wave function, or a sum that cancels."""
    if ansatz.group is not None:
        check_inversion(operator, ansatz.group, configs)
        looked, xp = configs[:_FEW, :], array_namespace(configs)
        if looked.shape[0] < _FEW:  # psi may be 0 there by symmetry alone
            more = initial_configs(operator, _FEW, 0, magnetisation_of(operator, configs))
            looked = xp.concat([looked, to_namespace(more, xp)])
        _check_share(ansatz, theta, looked)
    if len(ansatz.built_in) > 1:
        _check_built_in(operator, ansatz, magnetisation_of(operator, configs))
    if not operator.is_complex:
        return
    phase = ansatz.log_amplitude(theta, configs[:1, :]).phase
    if not is_complex(phase):
        raise real_state(operator, f"{type(ansatz).__name__}, theta is {theta.dtype}")


def check_sites(where: str, operator: Operator | NonHermitian, ansatz: Ansatz) -> None:
    """Raise ValueError for an operator and a wave function of two lattices or of other sites."""
    if operator.lattice.grid != ansatz.lattice.grid:
        there, here = (x.lattice.size for x in (operator, ansatz))
        raise ValueError(
            f"{where}: {operator.name} has {there} sites, the wave function {here}; make both "
            "from one lattice"
        )
    if operator.local_dim != ansatz.local_dim:
        raise ValueError(
            f"{where}: {operator.name} has local_dim={operator.local_dim}, the wave function "
            f"local_dim={ansatz.local_dim} states a site; give both the same"
        )


def check_observable(where: str, operator: Operator | NonHermitian, problem: Problem) -> None:
    """Raise ValueError for an observable of other sites, particles or sectors than the walkers."""
    check_sites(where, operator, problem.ansatz)
    if operator.fermions != problem.operator.fermions:  # the same matrices, without their signs
        raise ValueError(
            f"{where}: {operator.name} and {problem.operator.name} are of other particles; make "
            "both with the same fermions=..., or none for spins"
        )
    meant, sector = operator.magnetisation, problem.magnetisation
    if meant != sector and None not in (meant, sector):
        own = problem.operator
        one, other = (sector_text(each, particles_of(own, each)) for each in (meant, sector))
        raise ValueError(
            f"{where}: {operator.name} is on a Hilbert space of {one}, the walkers have {other}; "
            "make both from one Hilbert space"
        )


def check_orthogonal(ansatz: Ansatz, lower: Sequence[LowerState]) -> None:
    """Raise ValueError for an excited state that keeps the symmetries of the ground state."""
    if lower and (shares_tensors(ansatz) or len(ansatz.built_in) > 1):
        raise ValueError(
            "VMC: shared tensors, averages and networks that are the same at all places have the "
            "symmetries of the ground state, which the next level may lack; with orthogonal_to "
            "make a PEPS without sharing (None), an RNN, or an RBM without sharing or average"
        )


def shares_tensors(ansatz: Ansatz) -> bool:
    """Whether the symmetries of a state hold for any of its parameters, as it shares tensors."""
    return getattr(inner_state(ansatz), "shared", None) is not None


def _check_built_in(operator: Operator, ansatz: Ansatz, sector: int | None) -> None:
    """Raise NotSymmetric for symmetries of a network that H, or its sign of fermions, lacks."""
    elements = [Symmetry("", sites) for sites in ansatz.built_in]
    commute, strings = which_commute(operator, elements, signs=True), operator.strings
    if strings is not None:  # one sign for all is a character
        some = initial_configs(operator, 64, 0, sector)
        signs = (strings.of_image(some, g.places) for g in elements)
        commute = [c and bool(np.ptp(s) == 0) for c, s in zip(commute, signs, strict=True)]
    if not all(commute):
        raise NotSymmetric(
            f"{ansatz!r}: psi is the same under {len(elements)} rearrangements of the sites "
            f"whatever its parameters are, and states of {operator.name} on this lattice are not "
            f"under {commute.count(False)} of them; take ansatz.kind = 'peps' or 'rnn', or an "
            "'rbm', without sharing or average"
        )


def _check_share(ansatz: Any, theta: Array, configs: Array) -> None:
    """Raise ValueError for parameters whose sum over the group cancels at walkers (W, N)."""
    xp = array_namespace(theta)
    if not float(xp.max(xp.abs(theta))) > 0:
        return  # to be filled from a checkpoint
    share = ansatz.share(theta, configs)
    if share >= LEAST_SHARE:
        return
    hint = "give others, with noise of 1 to 10 %, or an ordered start (ansatz.init = 'product')"
    if shares_tensors(ansatz):
        hint = "shared tensors have those of the ground state; make it without sharing (None)"
    raise ValueError(
        f"VMC: the sum over {len(ansatz.group)} symmetries leaves {share:.1e} of |psi|^2, so that "
        f"these parameters have other characters than those asked for; {hint}"
    )


def check_restored(path: Path, operator: Operator, found: State, present: State) -> None:
    """Raise ValueError for a state whose walkers lie in another sector."""
    sectors = [magnetisation_of(operator, each.here.configs) for each in (present, found)]
    if sectors[0] != sectors[1]:
        here, there = (sector_text(each, particles_of(operator, each)) for each in sectors)
        raise ValueError(
            f"{path}: its walkers have {there}, those here {here}; keep {there}, or start a new "
            "run with ansatz.init = this file"
        )


def check_sampler(sampler: Samples, ansatz: Ansatz, ranks: Ranks, moves: object) -> None:
    """Raise ValueError for moves of a sampler that makes none, and for more ranks than walkers.

    Warns, on rank 0, of ranks without work, and of more threads than the machine has cores.
    """
    chains = sampler if isinstance(sampler, Sampler) else None
    if moves is not None and chains is None:
        kind = type(sampler).__name__
        raise ValueError(f"VMC: moves are those of Markov chains, a {kind} makes none; omit them")
    has_walkers = sampler.n_samples is not None  # enumerations have none
    if has_walkers and sampler.n_walkers < ranks.size:
        raise ValueError(
            f"VMC: {sampler.n_walkers} walkers for {ranks.size} ranks (processes of mpiexec), and "
            "a walker stays on one; start fewer ranks, or raise n_walkers"
        )
    if ranks.size == 1 or ranks.rank:
        return
    told, threads = [], sampler.threads or available_cores()
    if ranks.cores_here is not None and threads * ranks.on_this_machine > ranks.cores_here:
        told.append(
            f"{ranks.on_this_machine} ranks with {threads} threads each on {ranks.cores_here} "
            "cores take turns; start fewer ranks, or lower run.threads, Sampler(threads=...)"
        )
    if chains is not None:
        with using_ranks(ranks):
            n_chunks = len(chunks(chains.n_walkers, ansatz, np, chains.chunk))
        if n_chunks < ranks.size:
            most = max(1, chains.n_walkers // ranks.size)
            told.append(
                f"{chains.n_walkers} walkers in {n_chunks} chunks leave {ranks.size - n_chunks} of "
                f"{ranks.size} ranks without samples to draw; set sampler.chunk, "
                f"Sampler(chunk=...), to {most} walkers at most"
            )
    for text in told:
        warnings.warn(f"VMC: {text}", ArgumentWarning, stacklevel=level_of_caller())


def start_configs(
    operator: Operator, sampler: Samples, given: Array | None, magnetisation: int | None, seed: int
) -> Array:
    """Give configurations (W, N) of their own to start from; ValueError for sectors that differ."""
    asked = [magnetisation, sampler.magnetisation]
    if given is not None:
        check_configs(operator, given, sampler.n_walkers)
        sector_of(operator, *asked, magnetisation_of(operator, given))
        xp = array_namespace(given)
        return xp.astype(given, xp.int8, copy=True)
    return initial_configs(operator, sampler.n_walkers, seed, sector_of(operator, *asked))


def lower_states(given: Any, penalty: float | None, problem: Problem) -> tuple[LowerState, ...]:
    """Give the states that psi is kept orthogonal to: of a VMC the one that it would measure.

    Raises TypeError for neither a VMC, a `LowerState`, nor a list of them; ValueError as
    `LowerState.check`, for a penalty that is not positive, and for one state twice.
    """
    several = as_tuple(given)
    if penalty is None:
        penalty = largest_change_by_a_site(problem.operator) if several else 0.0
    elif not several:
        raise ValueError("VMC: penalty goes with orthogonal_to; give the states, or leave it out")
    else:
        penalty = positive("VMC", "penalty", penalty)
    found = []
    for each in several:
        if hasattr(each, "measured_theta"):
            point = Point(each.measured_theta(), each.state.here.configs)
            each = LowerState(each.problem, point, each.method.sampler, penalty)
        elif not hasattr(each, "check"):
            raise refuse("VMC", "orthogonal_to", each, "a VMC, or a list of them")
        each.check(problem)
        found.append(each)
    if (pair := repeated(found)) is not None:
        raise ValueError(f"orthogonal_to: states {pair[0]} and {pair[1]} are one; leave it out")
    return tuple(found)


def as_callbacks(given: Any) -> tuple[Callable[[Any], object], ...]:
    """Give the callbacks of a run: one, several or none; TypeError for what cannot be called."""
    found = () if given is None else as_tuple(given)
    for each in found:
        if not callable(each) or inspect.isclass(each):
            example = "a function of the record of a step, or a list of such functions"
            raise refuse("VMC.run", "callback", each, example, "progress=True shows progress")
    return found


def rates(learning_rate: Any, rule: Rule) -> Rates | None:
    """Give the rates that were asked for, None for "auto"; TypeError, ValueError for others."""
    if rule.in_time:
        if learning_rate is not None:
            raise ValueError("VMC: time evolution has no learning_rate; leave it out")
        learning_rate = 1.0
    if learning_rate is None:
        learning_rate = "auto" if isinstance(rule, SR) else FIXED_RATE
    if isinstance(learning_rate, str) and learning_rate == "auto":
        return None
    if not callable(learning_rate):
        hint = "write a number, a function of the step, or 'auto'"
        try:
            return Rates(real("VMC", "learning_rate", learning_rate, 0.0))
        except ValueError as error:
            raise ValueError(f"{error}; {hint}") from None
    try:
        inspect.signature(learning_rate).bind(0)
    except ValueError:  # of a builtin, which tells nothing of itself
        pass
    except TypeError:
        example = "a function of the step, as lambda step: 0.1 / (1 + step / 50)"
        raise refuse("VMC", "learning_rate", learning_rate, example) from None
    return Rates(learning_rate)


def rule_for(rule: Rule | None, ansatz: Ansatz) -> Rule:
    """Give a rule, by default `AUTOMATIC`, in the form that suits the state."""
    rule = AUTOMATIC if rule is None else rule
    return rule.for_shared_tensors(ansatz.n_params) if shares_tensors(ansatz) else rule


def growing_samples(
    n_samples: Any, sampler: Samples, n_params: int, follows: bool
) -> GrowingSamples | None:
    """Give what grows where that is asked for, with "auto", and the learning rate `follows` too.

    Raises ValueError for a number, which is that of the sampler; a fixed rate, beside which no step
    says what is noise; a sampler without draws.
    """
    if n_samples is None:
        return None
    why = ""
    if n_samples != "auto":
        why = f"VMC: n_samples must be 'auto', got {n_samples!r}; write Sampler(n_samples=512)"
    elif not follows:
        why = "VMC: n_samples = 'auto' needs learning_rate = 'auto', and this rate is fixed"
    elif sampler.n_samples is None:
        why = "VMC: n_samples = 'auto' makes more draws, and an Enumerate makes none; leave it out"
    if why:
        raise ValueError(why)
    if isinstance(sampler, DirectSampler):
        return GrowingSamples(sampler.n_samples)
    return GrowingSamples(first_n_samples(n_params, sampler.n_walkers))


def growing_chi(chi: Any, ansatz: Ansatz, sampler: Samples) -> GrowingChi | None:
    """Give the chi of the first step where it is to grow; None where it is that of the ansatz.

    It grows with "auto", and by default where the scheme of the ansatz was left open.  A sum over
    all configurations has no error to compare truncation with, and takes the chi of the ansatz.
    Raises ValueError for a number, which is that of the ansatz, and an ansatz without chi.
    """
    largest, first = chi_of(ansatz), first_chi(ansatz.description().get("D"))
    enumerated = sampler.n_samples is None
    if chi is None:
        fixed = ansatz.scheme_given or enumerated or min(ansatz.lattice.shape) == 1
        if fixed or largest is None or first >= largest:
            return None
        return GrowingChi(first, largest)
    if chi != "auto":
        told = f"VMC: chi must be 'auto', got {chi!r}; write PEPS(lattice, D, scheme=SRC(chi=8))"
        raise ValueError(told)
    if largest is None:
        raise ValueError("VMC: chi = 'auto', and this ansatz is contracted without chi")
    return None if enumerated else GrowingChi(min(largest, first), largest)
