"""A boundary bond dimension that grows as truncation comes to be felt in the steps.

An optimisation begins far from the ground state, where local energies scatter much, with a state that few
boundary states describe.  Errors of ln psi of a size s, of which the closure spread tells, raise the energy by about s^2 of its off-diagonal part
(`estimate.reliability.closure_threshold`).  While that is less than what the samples of a step resolve, a larger chi
makes a step dearer and no better.
"""

from __future__ import annotations

from typing import Any

from tnvmc.ansatz.protocol import Ansatz, chi_of, with_chi
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.sampling.problem import Samples

LEAST = 8
"""First chi of a state with D up to 8; of another one D.  Up to D = 4 a smaller one saves little and cost Rydberg atoms accuracy
(decision 40)."""

MORE = 2
"""Added at once, which divides the spread by about four: kernels take an even number in about the time of the odd one below it."""


def growing_chi(chi: Any, ansatz: Ansatz, sampler: Samples) -> int | None:
    """Give the chi of the first step where it is to grow; None where it is that of the ansatz.

    It grows with "auto", and where nothing is said (None) and the scheme of the ansatz was left open, as its `at_most` tells.

    A sum over all configurations has no error that truncation could be compared with, and takes the chi of the ansatz.

    Raises:
        ValueError: a number, which is that of the ansatz; an ansatz without chi, or one whose psi changes with it.
    """
    most, first = chi_of(ansatz), first_chi(ansatz.description().get("D"))
    scheme = getattr(ansatz, "scheme", None)
    if chi is None:
        one_row = min(ansatz.lattice.shape) == 1
        left_open = getattr(scheme, "at_most", False) and sampler.n_samples is not None
        return first if left_open and not one_row and most is not None and first < most else None
    if chi != "auto":
        raise ValueError(
            f"VMC: chi must be 'auto', got {chi!r}; a number is that of the ansatz: "
            "PEPS(lattice, D, scheme=SRC(chi=8))"
        )
    if most is None:
        raise ValueError(
            "VMC: chi = 'auto', and this ansatz is contracted without a chi; leave it out"
        )
    return None if sampler.n_samples is None else min(most, first)


def first_chi(D: int | None) -> int:
    """Give the chi that a state begins with, whatever its limit."""
    return max(LEAST, D or 1)


class Contracted:
    """A wave function with a chi of its own; the same object as long as both stay, with what it keeps of theta."""

    def __init__(self) -> None:
        self._last: tuple[Ansatz, Ansatz] | None = None

    def __call__(self, ansatz: Ansatz, chi: int | None) -> Ansatz:
        """Give the ansatz with a chi, itself where that is its own or None."""
        if chi is None or chi == chi_of(ansatz):
            return ansatz
        if self._last is None or self._last[0] is not ansatz or chi_of(self._last[1]) != chi:
            self._last = ansatz, with_chi(ansatz, chi)
        return self._last[1]


def chi_after(chi: int, most: int, spread: float | None, threshold: float) -> int:
    """Give the chi of the next step: larger where the spread is beyond what the last one resolves.

    Args:
        chi: of the last step.
        most: limit, the chi of the ansatz.
        spread: mean closure spread; None where nothing was seen, since amplitudes could not be had.
        threshold: `estimate.reliability.closure_threshold` of the same samples; NaN where it is not known.
    """
    return chi if spread is not None and spread <= threshold else min(most, chi + MORE)


def chi_grown(before: int, after: int) -> tuple[Diagnostic, ...]:
    """Tell that chi has grown; nothing where it has not."""
    if before == after:
        return ()
    return (Diagnostic("chi_grown", "open", {"before": before, "chi": after}),)
