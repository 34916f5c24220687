"""The arguments of a VMC: what goes together, and what is made of those that are left open."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Ansatz, chi_of, real_state
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised, inner_state
from tnvmc.backend.arguments import level_of_caller, positive, real, refuse, shortly
from tnvmc.backend.namespace import array_namespace
from tnvmc.backend.process import available_cores
from tnvmc.backend.ranks import Ranks, using_ranks
from tnvmc.operators.term import NonHermitian, Operator, require_operator
from tnvmc.optimize import average
from tnvmc.optimize.pace import AUTOMATIC
from tnvmc.optimize.rule import Rule
from tnvmc.optimize.sr import SR
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.configurations import (
    check_configs,
    initial_configs,
    magnetisation_of,
    sector_of,
)
from tnvmc.sampling.problem import InSector, Point, Problem, Samples
from tnvmc.sampling.workers import chunks
from tnvmc.vmc import step
from tnvmc.vmc.characters import check_inversion
from tnvmc.vmc.controllers import GrowingChi, GrowingSamples, Rates, first_chi, first_n_samples
from tnvmc.vmc.core import State
from tnvmc.vmc.orthogonal import LowerState, largest_change_by_a_site, repeated

Array = Any

FIXED_RATE = 0.1
"""Learning rate of rules other than SR where none is given."""

LEAST_SHARE = 1e-12
"""Of |psi_sym|^2 in the images of psi, below which it is what rounding leaves: 1e-6 of psi."""

_FEW = 16  # walkers whose share is looked at: |G| amplitudes of each


_CALL = "write VMC(operator, ansatz, sampler=Sampler(...), optimizer=SR(...), learning_rate=0.1)"


def check_parts(operator: Any, ansatz: Any, sampler: Any, optimizer: Any) -> None:
    """Raise TypeError for a part of a VMC that is another object, with what to write instead."""
    if not isinstance(ansatz, Ansatz):
        example = "a wave function, as PEPS(lattice, D=4)"
        raise refuse("VMC", "ansatz", ansatz, example, _to_state(ansatz))
    require_operator("VMC", "operator", operator)
    for name, value, method, example in (
        ("sampler", sampler, "draw", "one, as Sampler(n_walkers=64)"),
        ("optimizer", optimizer, "unsolved", "one that inherits from Rule, as SR()"),
    ):
        is_class = isinstance(value, type)
        if value is not None and (is_class or not hasattr(value, method)):
            hint = f"make one: {name}={value.__name__}(...)" if is_class else _CALL
            raise refuse("VMC", name, value, example, hint)


def _to_state(value: Any) -> str:
    """How to make a wave function of what was given in its place."""
    origins = {each.__module__.split(".")[0] for each in type(value).__mro__}
    if "quimb" in origins:
        return "write peps, theta = PEPS.from_quimb(network), then VMC(operator, peps, theta=theta)"
    if origins & {"flax", "netket"}:
        return "write FlaxAnsatz(lattice, module)"
    if isinstance(value, type):
        return f"make one: {value.__name__}(lattice, ...)"
    if isinstance(value, tuple):
        return "give both: ansatz, theta = ...; then VMC(operator, ansatz, theta=theta)"
    return f"{_CALL}; one of your own inherits from GenericAnsatz"


def as_parameters(ansatz: Ansatz, theta: Array) -> Array:
    """Give parameters as an array; TypeError for tensors of a PEPS, a path and the like."""
    if isinstance(theta, str | Path):
        raise TypeError(
            f"VMC: theta is the path {str(theta)!r}; write ansatz, theta = PEPS.load(path), or "
            "theta=initial_parameters(ansatz, operator, kind=path)"
        )
    if isinstance(theta, tuple | list):
        if len(theta) == 2 and isinstance(theta[0], Ansatz):
            raise TypeError("VMC: theta is a pair (ansatz, theta); give the second of them")
        if any(hasattr(each, "shape") and each.shape for each in theta):
            raise TypeError(
                "VMC: theta is a list of tensors, and must be one flat array; write "
                "theta=ansatz.flatten(tensors)"
            )
        theta = np.asarray(theta)
    if not hasattr(theta, "shape"):
        raise TypeError(
            f"VMC: theta must be an array of {ansatz.n_params} parameters, got {shortly(theta)}"
        )
    return theta


def check_parameters(ansatz: Ansatz, theta: Array) -> None:
    """Raise ValueError for parameters of another number, or not finite."""
    xp = array_namespace(theta)
    if not xp.isdtype(theta.dtype, ("real floating", "complex floating")):
        raise ValueError(
            f"VMC: theta holds {theta.dtype} and must hold floats; write theta.astype(float)"
        )
    if tuple(theta.shape) != (ansatz.n_params,):
        raise ValueError(
            f"VMC: theta has shape {tuple(theta.shape)}, the ansatz has {ansatz.n_params} "
            "parameters; were they made for another D or lattice?"
        )
    if not math.isfinite(step.norm(theta)):
        raise ValueError("VMC: theta holds numbers that are not finite")


def check_state(operator: Operator, ansatz: Ansatz, theta: Array, configs: Array) -> None:
    """Raise ValueError for a complex Hamiltonian of a real wave function, or a sum that cancels."""
    if isinstance(ansatz, Symmetrised):
        check_inversion(operator, ansatz.group, configs)
        _check_share(ansatz, theta, configs)
    if not operator.is_complex:
        return
    phase = ansatz.log_amplitude(theta, configs[:1, :]).phase
    if not array_namespace(phase).isdtype(phase.dtype, "complex floating"):
        raise real_state(operator, f"{type(ansatz).__name__}, theta is {theta.dtype}")


def check_lattices(operator: Operator, ansatz: Ansatz) -> None:
    """Raise ValueError for a Hamiltonian and a wave function of two lattices or of other sites."""
    if operator.lattice.grid != ansatz.lattice.grid:
        there, here = (x.lattice.size for x in (operator, ansatz))
        raise ValueError(
            f"VMC: the Hamiltonian has {there} sites, the wave function on {here}; make both "
            "from one lattice"
        )
    if operator.local_dim != ansatz.local_dim:
        raise ValueError(
            f"VMC: the Hamiltonian has {operator.local_dim} states a site, the wave function "
            f"{ansatz.local_dim}; give the wave function local_dim={operator.local_dim}, or check "
            "the terms"
        )


def check_sector(operator: Operator | NonHermitian, magnetisation: int | None) -> None:
    """Raise ValueError for an observable of another sector than that of the walkers."""
    meant = getattr(operator, "magnetisation", None)
    if None not in (meant, magnetisation) and meant != magnetisation:
        raise ValueError(
            f"VMC.expect: {operator.name} is on a Hilbert space of 2 Sz = {meant}, the walkers "
            f"have {magnetisation}; make both from one Hilbert space"
        )


def check_orthogonal(ansatz: Ansatz, lower: Sequence[LowerState]) -> None:
    """Raise ValueError for an excited state that keeps the symmetries of the ground state."""
    if lower and shares_tensors(ansatz):
        raise ValueError(
            "VMC: orthogonal_to, and tensors that are shared: they have the symmetries of the "
            "ground state, which the next level may lack. Make the PEPS without sharing; for the "
            "next level of these symmetries Symmetrised(PEPS(...), symmetry_group(...))"
        )


def shares_tensors(ansatz: Ansatz) -> bool:
    """Whether the symmetries of a state hold for any of its parameters, as it shares tensors."""
    return getattr(inner_state(ansatz), "shared", None) is not None


def _check_share(ansatz: Symmetrised, theta: Array, configs: Array) -> None:
    """Raise ValueError for parameters whose sum over the group cancels at walkers (W, N)."""
    if not float(array_namespace(theta).max(array_namespace(theta).abs(theta))) > 0:
        return  # to be filled from a checkpoint
    share = ansatz.share(theta, configs[:_FEW, :])
    if share >= LEAST_SHARE:
        return
    hint = (
        "Give others, add noise to them (1 to 10 % of the largest), or take an ordered start "
        "(ansatz.init = 'product')"
    )
    if shares_tensors(ansatz):
        hint = "Shared tensors have those of the ground state; make the PEPS without sharing"
    raise ValueError(
        f"VMC: the sum over {len(ansatz.group)} symmetries leaves {share:.1e} of |psi|^2: "
        f"these parameters have other characters than those asked for. {hint}"
    )


def check_restored(path: Path, operator: Operator, found: State, present: State) -> None:
    """Raise ValueError for a state whose walkers lie in another sector."""
    sectors = [magnetisation_of(operator, each.here.configs) for each in (present, found)]
    if sectors[0] != sectors[1]:
        raise ValueError(
            f"{path}: its walkers have 2 Sz = {sectors[1]}, those here {sectors[0]}; make the "
            f"VMC with magnetisation = {sectors[1]}"
        )


def check_sampler(sampler: Samples, ansatz: Ansatz, ranks: Ranks, moves: object) -> None:
    """Raise ValueError for moves of a sampler that makes none, and for more ranks than walkers."""
    if moves is not None and not isinstance(sampler, Sampler):
        raise ValueError(
            f"VMC: moves are those of Markov chains, a {type(sampler).__name__} makes "
            "none; leave them out"
        )
    has_walkers = sampler.n_samples is not None  # enumerations have none
    if has_walkers and sampler.n_walkers < ranks.size:
        raise ValueError(
            f"VMC: {sampler.n_walkers} walkers for {ranks.size} ranks (processes of mpiexec), and "
            "a walker stays on one; start fewer ranks, or raise n_walkers"
        )
    _warn_of_ranks(sampler, ansatz, ranks)


def _warn_of_ranks(sampler: Samples, ansatz: Ansatz, ranks: Ranks) -> None:
    """Warn, on rank 0, of ranks without work, and of more threads than the machine has cores."""
    if ranks.size == 1 or ranks.rank:
        return
    threads = getattr(sampler, "threads", None) or available_cores()
    if ranks.cores_here is not None and threads * ranks.on_this_machine > ranks.cores_here:
        warnings.warn(
            f"VMC: {ranks.on_this_machine} ranks with {threads} threads each on the "
            f"{ranks.cores_here} cores of this machine take turns; start fewer ranks, or lower the "
            "threads (run.threads, Sampler(threads=...))",
            stacklevel=level_of_caller(),
        )
    if not isinstance(sampler, Sampler):
        return
    with using_ranks(ranks):
        parts = chunks(sampler.n_walkers, ansatz, np, sampler.chunk)
    if len(parts) < ranks.size:
        warnings.warn(
            f"VMC: {sampler.n_walkers} walkers in {len(parts)} chunks leave "
            f"{ranks.size - len(parts)} of {ranks.size} ranks without samples to draw; give a "
            f"chunk of at most {max(1, sampler.n_walkers // ranks.size)} walkers (sampler.chunk, "
            "Sampler(chunk=...))",
            stacklevel=level_of_caller(),
        )


def start_configs(
    operator: Operator, sampler: Samples, given: Array | None, magnetisation: int | None, seed: int
) -> Array:
    """Give the configurations (W, N) to start from; ValueError for sectors that differ."""
    asked = [magnetisation, sampler.magnetisation if isinstance(sampler, InSector) else None]
    if given is not None:
        check_configs(operator, given, sampler.n_configs)
        sector_of(operator, *asked, magnetisation_of(operator, given))
        return given
    return initial_configs(operator, sampler.n_configs, seed, sector_of(operator, *asked))


def lower_states(given: Any, penalty: float | None, problem: Problem) -> tuple[LowerState, ...]:
    """Give the states that psi is kept orthogonal to: of a VMC the one that it would measure.

    Raises:
        TypeError: neither a VMC, a `LowerState`, nor a list of them.
        ValueError: as `LowerState.check`; a penalty that is not positive; one state twice.
    """
    several = given if isinstance(given, list | tuple) else (given,)
    if penalty is None:
        penalty = largest_change_by_a_site(problem.operator) if several else 0.0
    elif not several:
        raise ValueError("VMC: penalty goes with orthogonal_to; give the states, or leave it out")
    else:
        penalty = positive("VMC", "penalty", penalty)
    found = []
    for each in several:
        if not isinstance(each, LowerState):
            if not hasattr(each, "measured_theta"):
                raise refuse("VMC", "orthogonal_to", each, "a VMC, or a list of them", "")
            point = Point(each.measured_theta(), each.state.here.configs)
            each = LowerState(each.problem, point, each.method.sampler, penalty)
        each.check(problem)
        found.append(each)
    if (pair := repeated(found)) is not None:
        raise ValueError(
            f"orthogonal_to: states {pair[0]} and {pair[1]} have the same parameters; the third "
            "level is orthogonal to two different ones. Leave one out"
        )
    return tuple(found)


def as_callbacks(given: Any) -> tuple[Callable[[Any], object], ...]:
    """Give the callbacks of a run: one, several or none; TypeError for what cannot be called."""
    several = () if given is None else given
    found = tuple(several) if isinstance(several, list | tuple) else (several,)
    for each in found:
        if not callable(each):
            raise TypeError(
                f"VMC.run: callback must be a function of the record of a step, or a list of such "
                f"functions, got {each!r}; to show progress write progress=True"
            )
    return found


def rates(learning_rate: Any, rule: Rule) -> Rates | None:
    """Give the rates that were asked for, None for "auto"; TypeError, ValueError for others."""
    if learning_rate is None:
        learning_rate = "auto" if isinstance(rule, SR) else FIXED_RATE
    if isinstance(learning_rate, str):
        if learning_rate == "auto":
            return None
        raise ValueError(
            "VMC: learning_rate must be a finite number, a function of the step or 'auto', got "
            f"{learning_rate!r}"
        )
    if callable(learning_rate):
        _require_step(learning_rate)
        return Rates(learning_rate)
    if isinstance(learning_rate, list | tuple):
        raise ValueError(  # noqa: TRY004
            "VMC: learning_rate is a list; give a function of the step, which gives one of them"
        )
    return Rates(real("VMC", "learning_rate", learning_rate, 0.0))


def _require_step(schedule: Callable[..., Any]) -> None:
    if isinstance(schedule, type):
        raise TypeError(
            f"VMC: learning_rate is {shortly(schedule)}; make one of it: {schedule.__name__}(...)"
        )
    try:
        inspect.signature(schedule).bind(0)
    except ValueError:  # of a builtin, which tells nothing of itself
        return
    except TypeError:
        raise TypeError(
            "VMC: learning_rate must be a function of the step, as lambda step: 0.1 / (1 + step / "
            f"50), got {shortly(schedule)}, which does not take one number"
        ) from None


def averaging(rule: Rule | None, ansatz: Ansatz, sampler: Samples) -> Rule:
    """Give a rule, by default `AUTOMATIC`, that knows up to how many parameters it averages S."""
    most = average.most_parameters(sampler.n_samples, shares_tensors(ansatz))
    return (AUTOMATIC if rule is None else rule).averaged(most)


def growing_samples(
    n_samples: Any, sampler: Samples, n_params: int, follows: bool
) -> GrowingSamples | None:
    """Give what grows where that is asked for, with "auto", and the learning rate `follows` too.

    Raises ValueError for a number, which is that of the sampler; a fixed rate, beside which no step
    says what is noise; a sampler without chains.
    """
    if n_samples is None:
        return None
    if n_samples != "auto":
        raise ValueError(
            f"VMC: n_samples must be 'auto', got {n_samples!r}; a number is that of the sampler: "
            "Sampler(n_samples=512)"
        )
    if not follows:
        raise ValueError(
            "VMC: n_samples = 'auto' follows the steps as learning_rate = 'auto' does, and this "
            "rate is fixed; leave learning_rate out, or give the sampler a number of samples"
        )
    if not isinstance(sampler, Sampler):
        raise ValueError(  # noqa: TRY004
            "VMC: n_samples = 'auto' lets Markov chains make more draws, a "
            f"{type(sampler).__name__} makes none; leave it out, or take Sampler"
        )
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
        raise ValueError(
            f"VMC: chi must be 'auto', got {chi!r}; a number is that of the ansatz: "
            "PEPS(lattice, D, scheme=SRC(chi=8))"
        )
    if largest is None:
        raise ValueError(
            "VMC: chi = 'auto', and this ansatz is contracted without a chi; leave it out"
        )
    return None if enumerated else GrowingChi(min(largest, first), largest)
