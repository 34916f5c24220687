"""What a step of stochastic reconfiguration costs on P ranks: bytes, messages and seconds by phase.

Bytes are those that a rank hands to MPI; what a broadcast or a sum makes of them on its way is in the seconds.
Collective operations cost as in Thakur, Rabenseifner, Gropp, Int. J. High Perform. Comput. Appl. 19, 49 (2005):
a broadcast of b bytes log2(P) latencies and 2 b / bandwidth, a sum to one rank the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from tnvmc import PEPS, heisenberg, square
from tnvmc.ansatz.pieces import Pieces, pieces_of

NUMBER = 8  # bytes


@dataclass(frozen=True)
class Machine:
    """What one rank computes and how ranks talk; seconds and bytes."""

    latency: float  #: of a message
    bandwidth: float  #: bytes per second, of one rank
    request: (
        float  #: of the program itself for each rank that rank 0 asks: pickling, waiting in turn
    )
    gram: float  #: seconds for each (sample, sample, slice entry)
    product: float  #: seconds for each (sample, slice entry) of a product with a vector
    solve: float  #: seconds for each sample^3: Cholesky and centring, on one core

    def broadcast(self, n_bytes: float, ranks: int) -> float:
        """From rank 0 to all."""
        if ranks == 1:
            return 0.0
        return math.ceil(math.log2(ranks)) * self.latency + 2 * n_bytes / self.bandwidth

    def gather(self, n_bytes: float, ranks: int) -> float:
        """To rank 0, so many bytes of each of the others."""
        return (ranks - 1) * (self.latency + self.request + n_bytes / self.bandwidth)


@dataclass(frozen=True)
class Problem:
    """Heisenberg on L x L with a PEPS."""

    L: int
    D: int
    sample: float = 0.0  #: seconds of one sample on one core
    sweep: float = 0.0  #: of the sweep alone: each walker makes one before its first sample
    draws: int = 8  #: samples of a walker in a step
    views: float = 0.0  #: seconds to lay out a theta, on every rank
    itemsize: int = NUMBER  #: of the slices: 4 in single precision

    @cached_property
    def pieces(self) -> Pieces:
        """The slices of all sites in pieces, as ranks take them."""
        shapes = PEPS(square(self.L, self.L), self.D).shapes
        return pieces_of(tuple(math.prod(shape[1:]) for shape in shapes), 2)

    @property
    def entries(self) -> int:
        """Entries of all slices of one sample."""
        return sum(self.pieces.widths)

    def shares(self, ranks: int) -> tuple[int, int, int]:
        """Most and fewest entries of a sample, and most pieces, that a rank has."""
        sizes = [piece.end - piece.begin for piece in self.pieces.all]
        dealt = self.pieces.dealt(ranks)
        entries = [sum(sizes[place] for place in part) for part in dealt]
        return max(entries), min(entries), max(map(len, dealt))

    @property
    def n_params(self) -> int:
        """Length of theta."""
        return 2 * self.entries

    @property
    def n_ratios(self) -> int:
        """Ratios of one sample: one for each bond."""
        return len(heisenberg(square(self.L, self.L)).targets)

    @property
    def sample_bytes(self) -> int:
        """What is told of a sample beside its log-derivatives.

        Configuration (with the end of a chain and among the log-derivatives, 3 times), phase and logarithm, ratios, spread.
        """
        return 3 * self.L**2 + NUMBER * (3 + self.n_ratios)


@dataclass(frozen=True)
class Phase:
    """One part of a step: seconds, and bytes that rank 0 and the busiest of the others send."""

    seconds: float
    by_first: float = 0.0
    by_others: float = 0.0


Step = dict[str, Phase]


def step_by_matrix(machine: Machine, problem: Problem, ranks: int, samples: int) -> Step:
    """One step whose Gram matrix is formed, and solved on rank 0."""
    most, _, _ = problem.shares(ranks)
    gram = NUMBER * samples**2 if ranks > 1 else 0
    found = _common(machine, problem, ranks, samples)
    found["gram"] = Phase(
        machine.gram * samples**2 * most + machine.broadcast(gram, ranks), 0, gram
    )
    found["solve"] = Phase(machine.solve * samples**3)
    return found


def step_by_iterations(
    machine: Machine, problem: Problem, ranks: int, samples: int, iterations: int
) -> Step:
    """One step by conjugate gradients: two products for each iteration, and no matrix."""
    found = _common(machine, problem, ranks, samples)
    each = [found["adjoint"], found["apply"]]
    once = 0.5  # `apply` of a step is two products
    found["iterations"] = Phase(
        iterations * (each[0].seconds + once * each[1].seconds),
        iterations * (each[0].by_first + once * each[1].by_first),
        iterations * (each[0].by_others + once * each[1].by_others),
    )
    return found


def _common(machine: Machine, problem: Problem, ranks: int, samples: int) -> Step:
    """The phases that every step has."""
    own, several = math.ceil(samples / ranks), float(ranks > 1)
    most, fewest, units = problem.shares(ranks)
    entries, n_params = problem.entries, problem.n_params
    theta, told = NUMBER * n_params * several, own * problem.sample_bytes * several
    slices = own * (entries - fewest) * problem.itemsize * several
    vector, part = NUMBER * samples * several, NUMBER * 2 * most * several
    terms = NUMBER * samples * units * several
    product = machine.product * samples * most
    return {
        "samples": Phase(
            own * (problem.sample + problem.sweep / problem.draws) + problem.views
            + machine.broadcast(theta, ranks) + machine.gather(told, ranks),
            theta + samples * problem.L**2 * several, told,
        ),
        "exchange": Phase(
            2 * slices / machine.bandwidth + ranks * units * machine.latency * several, slices, slices
        ),
        "norms": Phase(product / 2 + machine.gather(terms, ranks), 0, terms),
        "adjoint": Phase(
            product + machine.broadcast(vector, ranks) + machine.gather(part, ranks), vector, part
        ),
        "apply": Phase(  # of ones, to find what is not finite, and of the direction
            2 * (product + machine.broadcast(theta, ranks) + machine.gather(terms, ranks)),
            2 * theta, 2 * terms,
        ),
    }  # fmt: skip


def seconds(step: Step) -> float:
    """Of a whole step."""
    return sum(phase.seconds for phase in step.values())


def sent(step: Step) -> float:
    """Bytes that the busiest rank but rank 0 sends in a step."""
    return sum(phase.by_others for phase in step.values())


def memory(problem: Problem, ranks: int, samples: int, base: float, matrix: bool = True) -> float:
    """Bytes of a rank: the process, twice its slices while they are exchanged or its part of them, the matrix."""
    own = math.ceil(samples / ranks)
    most, _, _ = problem.shares(ranks)
    slices = problem.itemsize * (own * problem.entries + samples * most)
    return base + slices + (NUMBER * samples**2 if matrix else 0)
