"""Whether settings make the same VMC again: part by part, for `tnvmc.settings.described`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tnvmc.ansatz.product import DimerCovering
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.ansatz.wrappers.product_of_states import ProductOfStates
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised
from tnvmc.backend.namespace import to_host
from tnvmc.operators.properties import fingerprint
from tnvmc.optimize import schedules
from tnvmc.optimize.pace import Paced
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.moves import moves_for
from tnvmc.sampling.problem import Samples
from tnvmc.settings.build import (
    build_ansatz,
    build_lattice,
    build_operator,
    build_optimizer,
    build_sampler,
    build_schedule,
)
from tnvmc.settings.config import Settings
from tnvmc.vmc.controllers import GrowingSamples
from tnvmc.vmc.core import Made
from tnvmc.vmc.guard import Guard
from tnvmc.vmc.learning_rate import Rates, paced


def differing(vmc: Made, settings: Settings) -> list[str]:
    """Name the parts of a VMC that settings make in another way."""
    lattice, operator = build_lattice(settings.lattice), build_operator(settings)
    own = [] if lattice == vmc.operator.lattice else ["lattice"]
    if own or fingerprint(operator) != fingerprint(vmc.operator):
        own.append("hamiltonian")
    if operator.units != vmc.operator.units and "hamiltonian" not in own:
        own.append("hamiltonian")
    checks = {
        "ansatz": lambda: _same_state(build_ansatz(settings, operator), vmc.ansatz),
        "sampler": lambda: _same_sampler(build_sampler(settings, operator), vmc),
        "optimizer": lambda: _same_rule(settings, vmc),
        "learning_rate": lambda: _same_rate(settings, vmc),
        "guard": lambda: Guard(**settings.guard.model_dump()) == vmc.method.guard,
        "moves": lambda: _same_moves(settings, vmc),
    }
    return own + [name for name, same in checks.items() if not own and not same()]


def _same_state(built: Ansatz, used: Ansatz) -> bool:
    if type(built) is not type(used) or built.description() != used.description():
        return False
    if isinstance(built, DimerCovering) and isinstance(used, DimerCovering):
        return built.pairs == used.pairs and _same_numbers(built, used)
    if isinstance(built, ProductOfStates) and isinstance(used, ProductOfStates):
        pairs = (built.first, used.first), (built.second, used.second)
        return built.sweeps == used.sweeps and all(_same_state(*pair) for pair in pairs)
    if isinstance(built, Symmetrised) and isinstance(used, Symmetrised):
        same = built.reweight == used.reweight
        return same and _same_state(built.ansatz, used.ansatz)
    of_scheme = getattr(built, "scheme", None) == getattr(used, "scheme", None)
    freeze = tuple(getattr(built, "freeze", ())) == tuple(getattr(used, "freeze", ()))
    return of_scheme and freeze and _same_numbers(built, used)


def _same_numbers(built: Any, used: Any) -> bool:
    names = ("D", "local_dim", "n_params")
    same = all(getattr(built, name, None) == getattr(used, name, None) for name in names)
    return same and str(getattr(built, "dtype", "")) == str(getattr(used, "dtype", ""))


def _same_sampler(built: Samples, vmc: Made) -> bool:
    if type(built) is not type(vmc.method.sampler):
        return False
    apart = {"magnetisation"}
    apart |= {"n_samples"} if vmc.state.controller(GrowingSamples) else set()
    apart |= {"by_orbit"} if vmc.method.orthogonal_to else set()  # which has all configurations
    one, other = (
        {k: v for k, v in asdict(each).items() if k not in apart}  # type: ignore[call-overload]
        for each in (built, vmc.method.sampler)
    )
    return bool(one == other)


def _same_rule(settings: Settings, vmc: Made) -> bool:
    rule: Any = build_optimizer(settings.optimizer)
    if isinstance(vmc.method.rule, Paced):
        rule = paced(rule, vmc.operator)
    return bool(rule == vmc.method.rule)


def _same_rate(settings: Settings, vmc: Made) -> bool:
    built = build_schedule(settings.optimizer)
    if isinstance(vmc.method.rule, Paced):
        return built == "auto"
    return bool(built != "auto" and given_rate(built) == given_rate(vmc.method.schedule))


def _same_moves(settings: Settings, vmc: Made) -> bool:
    if not isinstance(vmc.method.sampler, Sampler):
        return True
    built, moves = moves_for(vmc.operator, settings.sampler.moves), vmc.method.problem.moves
    return built.keys() == moves.keys() and all(
        (to_host(built[patch]) == to_host(moves[patch])).all()
        if built[patch].shape == moves[patch].shape
        else False
        for patch in built
    )


def given_rate(schedule: Any) -> Any:
    """Give what a schedule was made of: a number, or itself."""
    given = schedule.given if isinstance(schedule, Rates) else schedule
    return given.value if isinstance(given, schedules.Constant) else given
