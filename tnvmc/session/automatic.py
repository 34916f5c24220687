"""Arguments of a VMC that may be "auto": learning rate, average of S, samples, chi."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tnvmc.ansatz.protocol import Ansatz, chi_of
from tnvmc.backend.arguments import real
from tnvmc.backend.calls import shortly
from tnvmc.optimize import average
from tnvmc.optimize.pace import AUTOMATIC, Paced
from tnvmc.optimize.rule import Rule
from tnvmc.optimize.sr import SR
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.problem import Samples
from tnvmc.session.arguments import shares_tensors
from tnvmc.vmc.controllers import GrowingChi, GrowingSamples, first_chi, first_n_samples
from tnvmc.vmc.learning_rate import Rates

FIXED_RATE = 0.1
"""Learning rate of rules other than SR where none is given."""


def rates(learning_rate: Any, rule: Rule) -> Rates | None:
    """Give the rates that were asked for, None for "auto".

    Raises:
        TypeError: a function that cannot be called with a step.
        ValueError: no finite number from 0, and nothing else that is known.
    """
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
            f"VMC: learning_rate is a list; write Piecewise({list(learning_rate)}, [steps of each])"
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
    if isinstance(rule, Paced):
        return replace(rule, rule=averaging(rule.rule, ansatz, sampler))
    rule = AUTOMATIC if rule is None else rule
    if not isinstance(rule, SR) or rule.averaged_up_to != "auto":
        return rule
    most = average.most_parameters(sampler.n_samples, shares_tensors(ansatz))
    return replace(rule, averaged_up_to=most)


def growing_samples(
    n_samples: Any, sampler: Samples, n_params: int, follows: bool
) -> GrowingSamples | None:
    """Give what grows where that is asked for, with "auto"; `follows` is whether the learning rate
    does.

    Raises:
        ValueError: a number, which is that of the sampler; a fixed rate, beside which no step says
            what is noise; a sampler without chains.
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

    It grows with "auto", and where nothing is said (None) and the scheme of the ansatz was left
    open, (`Abilities.scheme_given`).  A sum over all configurations has no error that truncation
    could be compared with, and takes the chi of the ansatz.

    Raises:
        ValueError: a number, which is that of the ansatz; an ansatz without chi.
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
