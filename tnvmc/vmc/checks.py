"""What a Hamiltonian, a wave function and its parameters must have in common."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Ansatz, real_state
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised, inner_state
from tnvmc.backend.calls import refuse, shortly
from tnvmc.backend.namespace import array_namespace
from tnvmc.backend.process import available_cores
from tnvmc.backend.ranks import Ranks, using_ranks
from tnvmc.operators.required import require_operator
from tnvmc.operators.symmetry import NotSymmetric, SymmetryGroup
from tnvmc.operators.term import NonHermitian, Operator
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.configurations import magnetisation_of
from tnvmc.sampling.problem import Samples
from tnvmc.sampling.workers import chunks
from tnvmc.vmc import step
from tnvmc.vmc.guard import Guard
from tnvmc.vmc.kept import Kept
from tnvmc.vmc.state import State

Array = Any


def check_parts(operator: Any, ansatz: Any, sampler: Any, optimizer: Any, guard: Any) -> None:
    """Raise TypeError for a part of a VMC that is another object, with what to write instead.

    What is None is left out.
    """
    if _is_state(operator) and isinstance(ansatz, Operator):
        raise TypeError(
            f"VMC: the Hamiltonian comes first; write VMC(operator, {_kind(operator).lower()}), "
            f"got {shortly(operator)} and {shortly(ansatz)}"
        )
    require_operator("VMC", "operator", operator)
    if not _is_state(ansatz):
        raise refuse(
            "VMC", "ansatz", ansatz, "a wave function, as PEPS(lattice, D=4)", _to_state(ansatz)
        )
    homes = {"sampler": "draw", "optimizer": "direction"}
    for name, value in (("sampler", sampler), ("optimizer", optimizer)):
        if value is None or hasattr(value, homes[name]) and not isinstance(value, type):
            continue
        hint = ""
        if isinstance(value, int | float) and not isinstance(value, bool):
            hint = f"write learning_rate={value}" if value < 1 else ""
        for other, method in homes.items():
            if other != name and hasattr(value, method):
                hint = f"write {other}={_kind(value)}(...)"
        if isinstance(value, type):
            hint = f"make one: {name}={value.__name__}(...)"
        raise refuse("VMC", name, value, f"one, as {_AS[name]}", hint)
    if guard is not None and not isinstance(guard, Guard):
        hint = "" if guard is not False else "write Guard(enabled=False)"
        raise refuse("VMC", "guard", guard, "a Guard, as Guard(window=20)", hint)


_AS = {"sampler": "Sampler(n_walkers=64)", "optimizer": "SR()"}


def _is_state(value: Any) -> bool:
    return isinstance(value, Ansatz)


def _kind(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else type(value).__name__


def _to_state(value: Any) -> str:
    """How to make a wave function of what was given in its place."""
    origin = type(value).__module__.split(".")[0]
    names = {each.__module__.split(".")[0] for each in type(value).__mro__}
    if origin == "quimb":
        return "write peps, theta = PEPS.from_quimb(network), then VMC(operator, peps, theta=theta)"
    if names & {"flax", "netket"}:
        return "write FlaxAnsatz(lattice, module)"
    if "torch" in names:
        return "wrap it in an ansatz of your own: a GenericAnsatz with log_amplitude and random"
    if isinstance(value, tuple) and value and _is_state(value[0]):
        return "load and from_quimb give two: ansatz, theta = ...; then VMC(operator, ansatz, theta=theta)"
    if isinstance(value, Operator):
        return "a Hamiltonian comes first and once"
    if isinstance(value, type) and hasattr(value, "log_amplitude"):
        return f"make one: {value.__name__}(lattice, ...)"
    if hasattr(value, "draw") or hasattr(value, "direction"):
        return "the wave function is the second argument"
    return ""


def as_parameters(ansatz: Ansatz, theta: Array) -> Array:
    """Give parameters as an array; a list of numbers is made one.

    Raises:
        TypeError, ValueError: what is no array of numbers, as the tensors of a PEPS or a path.
    """
    if isinstance(theta, str | Path):
        raise TypeError(
            f"VMC: theta is the path {str(theta)!r}; write ansatz, theta = PEPS.load(path), or "
            "theta=initial_parameters(ansatz, operator, kind=path)"
        )
    if isinstance(theta, tuple | list):
        if len(theta) == 2 and _is_state(theta[0]):
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
    """Raise ValueError for a complex Hamiltonian of a real wave function, NotSymmetric as `check_inversion`."""
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
            f"{ansatz.local_dim}; give the wave function local_dim={operator.local_dim}, or check the "
            "terms"
        )


def check_sector(operator: Operator | NonHermitian, magnetisation: int | None) -> None:
    """Raise ValueError for an observable that is meant for another sector than that of the walkers."""
    meant = getattr(operator, "magnetisation", None)
    if None not in (meant, magnetisation) and meant != magnetisation:
        raise ValueError(
            f"VMC.expect: {operator.name} is on a Hilbert space of 2 Sz = {meant}, the walkers have "
            f"{magnetisation}; make both from one Hilbert space"
        )


def check_orthogonal(ansatz: Ansatz, kept: Sequence[Kept]) -> None:
    """Raise ValueError for an excited state that cannot leave the symmetries of the ground state.

    Of a product with another state, which may have none of them, nothing is said.
    """
    if kept and shares_tensors(ansatz):
        raise ValueError(
            "VMC: orthogonal_to, and tensors that are shared: the state has the character of the ground state under each of "
            "its symmetries, and the next level may have another, which is then out of reach. Make the PEPS without sharing; "
            "for the next level of these symmetries Symmetrised(PEPS(...), symmetry_group(...))"
        )


def shares_tensors(ansatz: Ansatz) -> bool:
    """Whether the symmetries of a state hold for any of its parameters, as it shares tensors."""
    return getattr(inner_state(ansatz), "shared", None) is not None


LEAST_SHARE = 1e-12
"""Of |psi_sym|^2 in the images of psi, below which it is what rounding leaves: 1e-6 of psi."""


def _check_share(ansatz: Symmetrised, theta: Array, configs: Array) -> None:
    """Raise ValueError for parameters whose sum over the group cancels at walkers (W, N)."""
    if not float(array_namespace(theta).max(array_namespace(theta).abs(theta))) > 0:
        return  # to be filled from a checkpoint
    share = ansatz.share(theta, configs[:_FEW, :])
    if share < LEAST_SHARE and shares_tensors(ansatz):
        raise ValueError(
            f"VMC: the sum over {len(ansatz.group)} symmetries leaves nothing: the tensors are shared, so that any "
            "parameters have the characters of the ground state, which are not those asked for. Make the "
            "PEPS without sharing (ansatz.sharing = false), or give those characters"
        )
    if share < LEAST_SHARE:
        raise ValueError(
            f"VMC: the sum over {len(ansatz.group)} symmetries leaves {share:.1e} of |psi|^2, rounding: these "
            "parameters have other characters than those asked for. Give others, add noise to them (1 to 10 % "
            "of the largest), or take a start that is ordered (ansatz.init = 'product')"
        )


_FEW = 16  # walkers: |G| amplitudes of each


def check_inversion(operator: Operator, group: SymmetryGroup, configs: Array) -> None:
    """Raise NotSymmetric where a group inverts the spins of walkers (W, N) whose Sz is not 0."""
    if not operator.conserves_magnetisation or not any(g.inverts for g in group.elements):
        return
    if sector := magnetisation_of(operator, configs):
        raise NotSymmetric(
            f"spin inversion takes the sector 2 Sz = {sector} to 2 Sz = {-sector}, where these "
            "walkers never are; it is a symmetry of states with Sz = 0. Leave 'spin' out"
        )


def check_restored(
    path: Path, operator: Operator, found: State, present: State, archived: bool
) -> None:
    """Raise ValueError for a state whose walkers lie in another sector, or that measures other points."""
    sectors = [magnetisation_of(operator, each.here.configs) for each in (present, found)]
    if sectors[0] != sectors[1]:
        raise ValueError(
            f"{path}: its walkers have 2 Sz = {sectors[1]}, those here {sectors[0]}; make the "
            f"VMC with magnetisation = {sectors[1]}"
        )
    kept = archived and found.trail is None
    if not kept and (found.trail is None) != (present.trail is None):
        raise ValueError(
            f"{path}: written with{'out' if found.trail is None else ''} learning_rate='auto', which "
            "says what is measured; make the VMC alike"
        )


def check_sampler(sampler: Samples, ansatz: Ansatz, ranks: Ranks, moves: object) -> None:
    """Raise ValueError for moves of a sampler that makes none, and for more ranks than walkers."""
    if moves is not None and not isinstance(sampler, Sampler):
        raise ValueError(
            f"VMC: moves are those of Markov chains, a {type(sampler).__name__} makes "
            "none; leave them out"
        )
    if (
        sampler.n_samples is not None and sampler.n_walkers < ranks.size
    ):  # enumerations have no walkers
        raise ValueError(
            f"VMC: {sampler.n_walkers} walkers for {ranks.size} ranks (processes of mpiexec), and a walker "
            "stays on one; start fewer ranks, or raise n_walkers"
        )
    _warn_of_ranks(sampler, ansatz, ranks)


def _warn_of_ranks(sampler: Samples, ansatz: Ansatz, ranks: Ranks) -> None:
    """Warn, on rank 0, of ranks without work, and of more threads than the machine has cores."""
    if ranks.size == 1 or ranks.rank:
        return
    threads = getattr(sampler, "threads", None) or available_cores()
    if ranks.cores_here is not None and threads * ranks.on_this_machine > ranks.cores_here:
        warnings.warn(
            f"VMC: {ranks.on_this_machine} ranks with {threads} threads each on the {ranks.cores_here} cores "
            "of this machine take turns; start fewer ranks, or lower the threads (run.threads, "
            "Sampler(threads=...))",
            stacklevel=5,
        )
    if not isinstance(sampler, Sampler):
        return
    with using_ranks(ranks):
        parts = chunks(sampler.n_walkers, ansatz, np, sampler.chunk, sampler.n_replicas)
    if len(parts) < ranks.size:
        warnings.warn(
            f"VMC: {sampler.n_walkers} walkers in {len(parts)} chunks leave {ranks.size - len(parts)} of "
            f"{ranks.size} ranks without samples to draw; give a chunk of at most "
            f"{max(1, sampler.n_walkers // ranks.size)} walkers (sampler.chunk, Sampler(chunk=...))",
            stacklevel=5,
        )
