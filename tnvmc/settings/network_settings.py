"""[ansatz] by kind: which keys a kind takes, what goes with a network and what does not, defaults."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tnvmc.ansatz.neural import NETWORKS, Network
from tnvmc.ansatz.wrappers.mixed import SINGLE
from tnvmc.lattice.symmetry import checkerboard
from tnvmc.operators.symmetry import Symmetry, SymmetryGroup
from tnvmc.operators.term import Operator
from tnvmc.settings.config import DEFAULT_START, TENSOR_KINDS, AnsatzSettings, Settings

_OF_TENSORS = ("D", "dtype", "init")
_OF_NETWORKS: dict[str, Any] = {"freeze": (), "marshall": False, "average": ()}
"""Keys of all networks beside `dtype` and `init`, with their defaults."""

_DRAWN = ("peps", "mps", *(kind for kind, network in NETWORKS.items() if network.autoregressive))


def keys_of(kind: str) -> tuple[str, ...]:
    """Give the keys of [ansatz] that a kind of wave function takes, beside `kind`."""
    if kind not in NETWORKS:
        return _OF_TENSORS
    return tuple(dict.fromkeys([*NETWORKS[kind].settings, "dtype", "init", *_OF_NETWORKS]))


def named(kind: str) -> str:
    """Give a kind with its article."""
    return f"{'an' if kind in ('mps', 'rbm', 'rnn') else 'a'} {kind}"


def ansatz_problems(settings: Settings) -> list[str]:
    """Find what a kind of wave function does not take or go with: a line for each problem."""
    ansatz = settings.ansatz
    problems = [*_foreign_keys(ansatz)]
    if settings.sampler.kind == "direct" and ansatz.kind not in _DRAWN:
        problems.append(
            f"sampler.kind = 'direct': {named(ansatz.kind)} cannot be drawn from directly; take "
            "'metropolis'"
        )
    problems += [*_replicas(settings), *_precision(settings)]
    if ansatz.kind in NETWORKS:
        problems += [
            *_choices(ansatz, NETWORKS[ansatz.kind]),
            *_uncontracted(settings),
        ]
    return problems


def _foreign_keys(ansatz: AnsatzSettings) -> Iterator[str]:
    kind, takes = ansatz.kind, keys_of(ansatz.kind)
    for key, value in ansatz.model_dump(exclude={"kind"}, exclude_none=True).items():
        if key == "D" and (kind in NETWORKS or kind in ("product", "dimer") and value != 1):
            state = named(kind) + ("" if kind in NETWORKS else " state")
            yield f"ansatz.D = {value}: {state} has no bond dimension"
        elif key not in takes:
            yield f"ansatz.{key}: {named(kind)} has no such setting; it takes {', '.join(takes)}"


def _replicas(settings: Settings) -> Iterator[str]:
    """Powers of |psi|^2 where there are no chains, or where sweeps know one power only."""
    sampler = settings.sampler
    kind = sampler.kind or completed_sampler(settings)["kind"]
    for key in ("n_replicas", "power"):
        value = getattr(sampler, key)
        if value == 1:
            continue
        if kind != "metropolis":
            yield f"sampler.{key} = {value}: goes with sampler.kind = 'metropolis' only"
        elif settings.ansatz.kind in ("peps", "mps"):
            yield (
                f"sampler.{key} = {value}: the sweeps of {named(settings.ansatz.kind)} sample "
                "|psi|^2 alone; take 1"
            )
    if sampler.n_replicas > 1 and sampler.power < 1:
        yield f"sampler.power = {sampler.power}: goes with n_replicas = 1 only; replicas have their own"


def _precision(settings: Settings) -> Iterator[str]:
    """Sweeps in single precision where there are none, or no others."""
    ansatz, kind = settings.ansatz, settings.sampler.kind or completed_sampler(settings)["kind"]
    if settings.sampler.precision is None:
        return
    if kind != "metropolis":
        yield "sampler.precision = 'single': goes with sampler.kind = 'metropolis' only"
    elif ansatz.kind not in ("peps", "mps", *NETWORKS):
        yield f"sampler.precision = 'single': {named(ansatz.kind)} has no such sweeps; leave it out"
    elif ansatz.dtype in SINGLE.values():
        yield f"sampler.precision = 'single': ansatz.dtype = '{ansatz.dtype}' is so; leave it out"


def _choices(ansatz: AnsatzSettings, network: Network) -> Iterator[str]:
    """Words that this kind of network does not know."""
    for key, known in {**network.choices, "dtype": network.dtypes}.items():
        value = getattr(ansatz, key)
        if value is None or value in known:
            continue
        allowed = f"one of {', '.join(known)}" if len(known) > 1 else f"'{known[0]}'"
        close = difflib.get_close_matches(value.lower(), known, 1)
        hint = f"; did you mean '{close[0]}'?" if close and len(known) > 1 else ""
        yield f"ansatz.{key} = '{value}': must be {allowed} for {named(ansatz.kind)}{hint}"
    if ansatz.init in DEFAULT_START.values():
        yield (
            f"ansatz.init = '{ansatz.init}': {named(ansatz.kind)} has no such start; it takes random, "
            "or the path of a run or a checkpoint"
        )


def _uncontracted(settings: Settings) -> Iterator[str]:
    """Settings of contractions, which a network does without."""
    given = [f"contraction.{key}" for key in settings.contraction.model_dump(exclude_none=True)]
    if settings.measure.chi is not None:
        given.append("measure.chi")
    stages = enumerate(settings.stage or (), 1)
    given += [f"stage.{number}.chi" for number, stage in stages if stage.chi is not None]
    for key in given:
        yield f"{key}: {named(settings.ansatz.kind)} is not contracted; leave it out"


def sector_problems(settings: Settings) -> list[str]:
    """Find magnetisations of the network, the sampler and the average that clash; builds H."""
    ansatz, sampled = settings.ansatz, settings.sampler.magnetisation
    own = None if ansatz.magnetisation is False else ansatz.magnetisation
    inverts = "spin" in (ansatz.average or ())
    if own is None and not (inverts and sampled):
        return []
    problems = []
    if not _conserves_magnetisation(settings):
        if own is not None:
            problems.append(
                f"ansatz.magnetisation = {own}: this Hamiltonian does not conserve it; leave it out"
            )
        return problems
    if inverts and sampled:
        problems.append(
            f"ansatz.average: 'spin' takes sampler.magnetisation = {sampled} to {-sampled}; leave "
            "it out"
        )
    if own not in (None, sampled):
        problems.append(
            f"ansatz.magnetisation = {own}: psi would vanish where it is sampled, at "
            f"sampler.magnetisation = {sampled}; give one of them"
        )
    return problems


def check_characters(operator: Operator, group: SymmetryGroup, magnetisation: int) -> None:
    """Refuse an average with characters +1 where an antiferromagnet's ground state has -1.

    `magnetisation` is twice the total Sz.  Nothing is known, and nothing refused, where the
    Hamiltonian does not conserve it or is no antiferromagnet on the checkerboard.

    Raises:
        ValueError: for the first such element; Marshall's signs would give it its character.
    """
    if not operator.conserves_magnetisation or not _is_antiferromagnet(operator):
        return
    for element in group.elements:
        if marshall_character(operator, element, magnetisation) == -1:
            raise ValueError(
                f"ansatz.average: the ground state of an antiferromagnet has character -1 under "
                f"{element.name} at 2 Sz = {magnetisation}, and without marshall psi has +1, so it "
                "is out of reach; give ansatz.marshall = true, or leave that symmetry out"
            )


def marshall_character(operator: Operator, element: Symmetry, magnetisation: int) -> int | None:
    """Give chi of psi(g s) = chi psi(s) for psi = (-1)^(states on one sublattice) |psi|, |psi| symmetric.

    An exchange of the sublattices gives (-1)^(sum of all states), (-1)^n_down for d = 2; spin
    inversion (-1)^((d - 1) N_B).  None for an element that mixes the sublattices.

    Source: W. Marshall, Proc. R. Soc. A 232, 48 (1955).
    """
    board, top = checkerboard(operator.lattice), operator.local_dim - 1
    moved = board[list(element.sites)]
    exchanged = bool((moved != board).all())
    if not exchanged and not (moved == board).all():
        return None
    exponent = (operator.n_sites * top - magnetisation) // 2 if exchanged else 0
    exponent += top * int(board.sum()) if element.inverts else 0
    return (-1) ** (exponent % 2)


def _is_antiferromagnet(operator: Operator) -> bool:
    """Whether nearest neighbours, on a checkerboard, have positive elements and some have any."""
    try:
        checkerboard(operator.lattice)
    except ValueError:
        return False
    found = [
        operator.replacements[bond].elements
        for bond in operator.lattice.bonds.get("nearest", ())
        if bond in operator.replacements
    ]
    return bool(found) and all(np.isrealobj(e) and (e >= 0).all() for e in found)


def completed_ansatz(settings: Settings) -> dict[str, Any]:
    """Give what [ansatz] leaves open, with the values that stand there then."""
    ansatz = settings.ansatz
    defaults: dict[str, Any] = {
        "init": DEFAULT_START.get(ansatz.kind, "random"),
        "dtype": "float64",
    }
    if ansatz.kind in NETWORKS:
        network = NETWORKS[ansatz.kind]
        defaults |= {**_OF_NETWORKS, **network.settings}
        if network.autoregressive and _conserves_magnetisation(settings):
            defaults["magnetisation"] = settings.sampler.magnetisation
    return {key: value for key, value in defaults.items() if getattr(ansatz, key) is None}


def completed_sampler(settings: Settings) -> dict[str, Any]:
    """Give the kind of sampler where none is set: direct draws where they are exact, else chains."""
    if settings.sampler.kind is not None:
        return {}
    network = NETWORKS.get(settings.ansatz.kind)
    exact = network is not None and network.autoregressive
    return {"kind": "direct" if exact else "metropolis"}


def completed_contraction(settings: Settings) -> dict[str, Any]:
    """Give the scheme where none is set; a network has none."""
    if settings.contraction.scheme is not None or settings.ansatz.kind not in TENSOR_KINDS:
        return {}
    return {"scheme": "src"}


def _conserves_magnetisation(settings: Settings) -> bool:
    from tnvmc.settings.build import build_operator

    # Couplings that do not fit the lattice are told when the run builds it.
    with contextlib.suppress(ValueError):
        return build_operator(settings).conserves_magnetisation
    return False
