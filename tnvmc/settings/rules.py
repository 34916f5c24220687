"""What rules on settings share: their form, what several of them say, and rules that make a default."""

from __future__ import annotations

from typing import Any

Rule = tuple[Any, ...]
"""Whether it is broken, by which key and why, and the value of the key if it is to be told."""

DECAYING = ("exponential", "cosine")
FOLLOWS = "learning_rate = 'auto' follows the steps, not a schedule"
GROWS = "follows the steps, as learning_rate = 'auto' does, and this rate is fixed; leave out the rate, or give a number of samples"
GROWS_IN_CHAINS = "lets Markov chains make more draws; take 'metropolis', or give a number"
NOT_DECAYING = "goes with schedule 'exponential' or 'cosine' only"


def follows(*rates: Any) -> bool:
    """Whether the learning rate is one that follows the steps; of a stage before that of the section."""
    given = [each.learning_rate for each in rates if each.learning_rate is not None][-1:]
    falls = [each.schedule or each.final_learning_rate for each in rates]
    return given == ["auto"] or not given and not any(falls) and rates[0].kind == "sr"


def default_chi(D: int) -> int:
    """Give the boundary bond dimension used where none is set: 2 D, at least 4."""
    return max(4, 2 * D)


def measured_chi(chi: int | None) -> int | None:
    """Give the chi of a measurement where none is set: 2 chi."""
    return 2 * chi if chi else None
