"""Checkpoints: the state of a run in one file, replaced as a whole or not at all."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from tnvmc.ansatz.files import LISTED_BONDS, compare, lattice_parts, listed, probe_of
from tnvmc.ansatz.protocol import chi_of
from tnvmc.backend.namespace import array_namespace
from tnvmc.operators.properties import fingerprint
from tnvmc.optimize import average
from tnvmc.optimize.pace import OF_RULE
from tnvmc.storage.files import write_atomically
from tnvmc.storage.hdf5 import StateFileError, attribute, check_parameters, decoded, encoded, opened
from tnvmc.storage.identity import ORTHOGONAL, differences
from tnvmc.storage.run_folder import CHECKPOINT
from tnvmc.storage.seals import PROVENANCE, Provenance
from tnvmc.vmc.controllers import MeanOfIterates
from tnvmc.vmc.core import Controller, Iterate, Method, State
from tnvmc.vmc.guard import Guard

_RULE = "optimizer"

ARCHIVED = "archived"
"""In the identity of a state that can be measured but has nothing of what further steps need."""


def identity(method: Method) -> dict[str, Any]:
    """Describe what a checkpoint belongs to: state, lattice, the operator's fingerprint, the rule.

    And which states it is kept orthogonal to, by what identifies their parameters.
    """
    problem, orthogonal_to = method.problem, method.orthogonal_to
    ansatz, operator, rule = problem.ansatz, problem.operator, cast(Any, method.rule)
    lattice, about = ansatz.lattice, ansatz.description()
    bonds = listed(lattice)
    return {
        "ansatz": about.pop("ansatz"),
        "lattice": lattice_parts(lattice)[0],
        "local_dim": int(ansatz.local_dim),
        "D": about.pop("D", None),
        **about,
        "n_parameters": int(ansatz.n_params),
        "operator": operator.name,
        "fingerprint": fingerprint(operator),
        _RULE: type(rule).__name__ + (f", step {rule.step}" if rule.in_time else ""),
        **({} if bonds is None else {LISTED_BONDS: bonds}),
        **({ORTHOGONAL: [each.fingerprint for each in orthogonal_to]} if orthogonal_to else {}),
    }


def save(
    path: Path, state: State, method: Method, stages: Sequence[Mapping[str, Any]] = (),
    provenance: Provenance | None = None, archived: bool = False,
) -> None:  # fmt: skip
    """Write a state so that at every moment `path` holds the old file or the new one, complete.

    Of a wave function of the user's own, ln psi of some walkers goes with it.

    `stages` are the records of the stages before it, as in result.json; `provenance` is the
    run with a folder that it belongs to.

    Raises:
        OSError: no space, no permission; the old file is then still in place.
    """
    about = identity(method) | ({ARCHIVED: True} if archived else {})
    attributes: dict[str, Any] = {"identity": about}
    if stages:
        attributes["stages"] = [dict(stage) for stage in stages]
    if provenance is not None:
        attributes[PROVENANCE] = provenance.as_dict()
    tree, ansatz, here = as_tree(state), method.problem.ansatz, state.here
    if ansatz.rebuild() is None and chi_of(ansatz) is None:  # psi follows a chi that grows
        tree[_PROBE] = probe_of(ansatz, here.theta, here.configs)
    write_atomically(path, encoded(tree, attributes))


def load(path: Path, method: Method, present: State, archived: bool = False) -> State:
    """Read a state back, to go on from it in the place of `present`, with arrays of its namespace.

    Settings that follow the steps here go on from where they were there (`Controller.restored`);
    others of the file are left out.  Takes `ARCHIVED` states where that is asked for, with the
    present state of the rule.

    Raises:
        StateFileError: a damaged or foreign file; one of another problem, dtype, number of walkers
            or optimizer; parameters that are not finite, or that mean another psi now (of a class
            of the user's own); the message says which, and what differs.
    """
    like, belongs_to = present.here, identity(method)
    with opened(path) as file:
        stored = attribute(file, "identity")
        keys = [key for key in {**belongs_to, "sharing": None} if key != _RULE]
        _check_problem(path, *({key: x.get(key) for key in keys} for x in (stored, belongs_to)))
        _check_rule(path, stored.get(_RULE), belongs_to.get(_RULE))
        tree = decoded(file, array_namespace(like.theta))
        tree.pop(_PROBE, None)
        if others := set(tree) - _PARTS:
            raise StateFileError(
                f"{path}: of an earlier version, with {', '.join(sorted(others))}; start a new run "
                "with ansatz.init = this file"
            )
        absent = {name: None for name, value in like.optimizer.items() if value is None}
        if stored.get(ARCHIVED):
            if not archived:
                raise StateFileError(
                    f"{path}: an archived state, which can be measured but not resumed; start a "
                    "new run with ansatz.init = this file"
                )
            absent = dict(like.optimizer)
        for name in {"here", "good"} & set(tree):
            found = absent | tree[name].get("optimizer", {})
            tree[name]["optimizer"] = _in_form_of(like.optimizer, found)
        _check_mean(path, tree.get("controllers", {}), present, archived)
        state = _state(tree, present.controllers)
        for name, point in (("here", state.here), ("good", state.before_update)):
            if point is not None:
                _check(path, name, point, like)
        if _PROBE in file:
            compare(path, file[_PROBE], method.problem.ansatz, state.here.theta)
        if state.step < 0:
            raise ValueError(f"step {state.step}")
    return state


_PROBE = "probe"
_PARTS = {"step", "here", "good", "recent", "controllers"}


def as_tree(state: State) -> dict[str, Any]:
    """Give nested dicts of arrays, numbers and None, as a checkpoint holds them."""

    def iterate(found: Iterate) -> dict[str, Any]:
        return {
            "theta": found.theta, "configs": found.configs, "power": found.power,
            "optimizer": dict(found.optimizer),
        }  # fmt: skip

    tree = {"step": state.step, "here": iterate(state.here), "recent": asdict(state.guard)}
    if state.controllers:
        tree["controllers"] = {each.name: vars(each) for each in state.controllers}
    return tree if state.before_update is None else tree | {"good": iterate(state.before_update)}


def _state(tree: Mapping[str, Any], controllers: Sequence[Controller]) -> State:
    """Read `as_tree` back; KeyError or TypeError for a part missing or too many."""
    others = dict(tree["recent"])
    series: dict[str, Any] = {
        name: tuple(map(float, others.pop(name)))
        for name in ("energies", "errors", "variances", "norms")
    }
    before = Iterate(**tree["good"]) if "good" in tree else None
    guard, fields = Guard(**series, **others), tree.get("controllers", {})
    restored = [each.restored(fields.get(each.name)) for each in controllers]
    present = tuple(each for each in restored if each is not None)
    return State(int(tree["step"]), Iterate(**tree["here"]), before, guard, present)


def _check_mean(path: Path, found: Mapping[str, Any], present: State, archived: bool) -> None:
    """Raise StateFileError where one of the two has a mean of iterates, which may be measured."""
    written, wanted = MeanOfIterates.name in found, present.controller(MeanOfIterates) is not None
    if written != wanted and (written or not archived):
        raise StateFileError(
            f"{path}: written with{'' if written else 'out'} learning_rate='auto', which says what "
            "is measured; make the VMC alike"
        )


def _in_form_of(like: Mapping[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """What a rule carries, an averaged S in the form that this device has it in."""
    for name in ("covariance", f"{OF_RULE}covariance"):
        if found.get(name) is not None and like.get(name) is not None:
            found[name] = average.in_form_of(found[name], like[name])
    return found


def _check_problem(path: Path, stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise `StateFileError` where what a run keeps has changed, with what to do instead."""
    apart = [key for key in wanted if stored[key] != wanted[key]]
    named = [key for key in apart if key != "n_parameters"] or apart  # which follows from others
    told = differences(*({key: each[key] for key in named} for each in (stored, wanted)))
    if not told:
        return
    instead = "start a new run, with another --out"
    if not {"lattice", "local_dim", "ansatz", "architecture"} & {*apart}:
        state = path.parent if path.name == CHECKPOINT else path
        instead = f"start a new run from this state, with ansatz.init = {str(state)!r}"
        instead += ", or grow D in a [[stage]]" if "D" in apart else ""
        instead += " (in Python, keep PEPS(sharing=...))" if "sharing" in apart else ""
    if any(each.startswith("code ") for each in told):
        instead = f"the file of the module has changed since: put it back, or {instead}"
    raise StateFileError(f"{path}: checkpoint of another problem: {', '.join(told)}; {instead}")


def _check_rule(path: Path, stored: Any, wanted: Any) -> None:
    """Raise `StateFileError` where another rule wrote what the optimizer carries, if anything."""
    if stored != wanted:
        raise StateFileError(
            f"{path}: written with another optimizer or kind of learning rate, {stored} (now "
            f"{wanted}); {_NEW_RUN}"
        )


_NEW_RUN = "keep it, or start a new run with ansatz.init = this file"


def _check(path: Path, name: str, point: Iterate, like: Iterate) -> None:
    _check_problem(path, *({"dtype": str(each.theta.dtype)} for each in (point, like)))
    if point.configs.shape != like.configs.shape:
        raise StateFileError(
            f"{path}: written with {point.configs.shape[0]} walkers (now {like.configs.shape[0]}); "
            "keep the number, or start a new run with ansatz.init = this file"
        )
    if set(point.optimizer) != set(like.optimizer):
        told = "with another momentum, or other settings of the optimizer"
        raise StateFileError(f"{path}: written {told}; {_NEW_RUN}")
    check_parameters(name, point.theta, like.theta.shape)
    for key, wanted in like.optimizer.items():
        shape = tuple(getattr(wanted, "shape", ()))
        found = tuple(getattr(point.optimizer[key], "shape", ()))
        if found != shape:
            raise ValueError(f"'{key}' of the optimizer has the shape {found}, not {shape}")
