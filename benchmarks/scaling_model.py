"""What a step of stochastic reconfiguration costs on P ranks: bytes, messages and seconds by phase.

Bytes are those that a rank hands to MPI; what a broadcast or a sum makes of them on its way is in
the seconds. Collective operations cost as in Thakur, Rabenseifner, Gropp, Int. J. High Perform.
Comput. Appl. 19, 49 (2005): a broadcast of b bytes log2(P) latencies and 2 b / bandwidth, a sum to
one rank the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tnvmc import PEPS, SR, heisenberg, square
from tnvmc.jacobian.pieces import Pieces, pieces_of
from tnvmc.optimize import conjugate_gradients

NUMBER = 8  # bytes
ROWS = 128  # of a block of columns of the matrix
TOGETHER = 4  # blocks in one product
SHIFT = 1e-2  # relative, the default


@dataclass(frozen=True)
class Arithmetic:
    """Seconds on one core, for slices of one precision."""

    gram: float  #: for each (sample, sample, slice entry) of a Gram matrix
    cross: float  #: the same for columns of it, of which no half is spared
    product: float  #: for each (sample, slice entry) of a product with a vector


@dataclass(frozen=True)
class Machine:
    """What one rank computes and how ranks talk; seconds and bytes."""

    latency: float  #: of a message
    bandwidth: float  #: bytes per second, of one rank
    request: (
        float  #: of the program itself for each rank that rank 0 asks: pickling, waiting in turn
    )
    double: Arithmetic
    single: Arithmetic
    solve: float  #: seconds for each sample^3: Cholesky and centring, on one core
    column: float  #: seconds for each entry of a product of a dense matrix with a vector
    block: float  #: seconds for each (sample, column^2) of what a preconditioner is made by

    def broadcast(self, n_bytes: float, ranks: int) -> float:
        """From rank 0 to all, or a sum to rank 0."""
        if ranks == 1:
            return 0.0
        return math.ceil(math.log2(ranks)) * self.latency + 2 * n_bytes / self.bandwidth

    def summed(self, n_bytes: float, ranks: int) -> float:
        """An exact sum to rank 0: the largest terms to all, then the sum of what is rounded."""
        return 3 * self.broadcast(n_bytes, ranks)

    def gather(self, n_bytes: float, ranks: int) -> float:
        """To rank 0, so many bytes of each of the others, as answers to what it asks."""
        return (ranks - 1) * (self.latency + self.request + n_bytes / self.bandwidth)

    def arithmetic(self, itemsize: int) -> Arithmetic:
        """That of the precision of the slices."""
        return self.double if itemsize == NUMBER else self.single


@dataclass(frozen=True)
class Problem:
    """Heisenberg on L x L with a PEPS."""

    L: int
    D: int
    sample: float = 0.0  #: seconds of one sample on one core
    sweep: float = 0.0  #: of the sweep alone: each walker makes one before its first sample
    draws: int = 8  #: samples of a walker in a step
    views: float = 0.0  #: seconds to lay out a theta, on every rank
    start: float = 0.0  #: seconds to begin a step, of one walker
    alone: float = 0.0  #: seconds of rank 0, for each sample: estimates and what is told of them

    @cached_property
    def pieces(self) -> Pieces:
        """The slices of all sites in pieces, as ranks take them."""
        shapes = PEPS(square(self.L, self.L), self.D).shapes
        return pieces_of(tuple(math.prod(shape[1:]) for shape in shapes), 2)

    @property
    def entries(self) -> int:
        """Entries of all slices of one sample."""
        return sum(self.pieces.widths)

    def itemsize(self, samples: int) -> int:
        """Bytes of a number of the slices, as SR takes them by default."""
        theta = np.broadcast_to(0.0, self.n_params)
        return 4 if SR(SHIFT).takes_single(theta, samples, {"single": 1}) else NUMBER

    def shares(self, ranks: int, samples: int) -> tuple[int, int, int]:
        """Most and fewest entries of a sample, and most pieces, that a rank has."""
        sizes = [piece.end - piece.begin for piece in self.pieces.all]
        dealt = self.pieces.dealt(ranks, samples)
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

        Configuration (with the end of a chain and among the log-derivatives, 3 times), phase and
        logarithm, ratios, spread.
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
    most, _, _ = problem.shares(ranks, samples)
    size = problem.itemsize(samples)
    gram = NUMBER * samples**2 if ranks > 1 else 0
    found = _common(machine, problem, ranks, samples)
    found["gram"] = Phase(
        machine.arithmetic(size).gram * samples**2 * most + machine.broadcast(gram, ranks),
        0, gram,
    )  # fmt: skip
    found["solve"] = Phase(machine.solve * samples**3)
    if size < NUMBER:  # the residual of the operator itself, twice
        found["refinement"] = _times(found, 2)
    return found


def step_by_iterations(
    machine: Machine, problem: Problem, ranks: int, samples: int, iterations: int
) -> Step:
    """One step by conjugate gradients on all ranks, with columns of the matrix as preconditioner."""
    found = _common(machine, problem, ranks, samples)
    columns = min(conjugate_gradients.MOST_COLUMNS, samples // 8)
    most, _, _ = problem.shares(ranks, samples)
    arithmetic = machine.arithmetic(problem.itemsize(samples))
    several, blocks = float(ranks > 1), math.ceil(samples / ROWS)
    own = min(math.ceil(blocks / ranks) * ROWS, samples)
    vector, short = NUMBER * samples * several, NUMBER * columns * several
    both = 2 * arithmetic.product * samples * most
    product = both + machine.broadcast(vector, ranks) + machine.summed(vector, ranks)
    inverse = (
        machine.column * 2 * own * columns
        + machine.broadcast(vector + short, ranks) + machine.summed(short, ranks)
        + machine.broadcast(vector / 2, ranks)  # a gather: each number goes once
    )  # fmt: skip
    square = NUMBER * columns**2 * several
    kept = blocks * machine.broadcast(NUMBER * ROWS * columns * several, ranks)
    found["columns"] = Phase(
        arithmetic.cross * samples * columns * most + kept + product
        + 1.5 * machine.block * own * columns**2 + 2 * machine.solve * columns**3
        + 2 * machine.broadcast(square, ranks),
        square, blocks * NUMBER * ROWS * columns * several + square,
    )  # fmt: skip
    found["iterations"] = Phase(
        iterations * (product + inverse),
        iterations * (3 * vector + 2 * short),
        iterations * (2 * vector + 2 * short + vector / max(ranks, 1)),
    )
    return found


def _times(step: Step, n: int) -> Phase:
    """n products with O and with its adjoint."""
    each = (step["adjoint"], step["apply"])
    return Phase(*(n * (a + b / 2) for a, b in zip(*(_numbers(p) for p in each), strict=True)))


def _numbers(phase: Phase) -> tuple[float, float, float]:
    return phase.seconds, phase.by_first, phase.by_others


def _common(machine: Machine, problem: Problem, ranks: int, samples: int) -> Step:
    """The phases that every step has."""
    own, several = math.ceil(samples / ranks), float(ranks > 1)
    most, fewest, units = problem.shares(ranks, samples)
    entries, n_params = problem.entries, problem.n_params
    size = problem.itemsize(samples)
    theta, told = NUMBER * n_params * several, own * problem.sample_bytes * several
    slices = own * (entries - fewest) * size * several
    vector, part = NUMBER * samples * several, NUMBER * 2 * most * several
    product = machine.arithmetic(size).product * samples * most
    walkers = math.ceil(own / problem.draws)
    return {
        "samples": Phase(
            own * (problem.sample + problem.sweep / problem.draws) + problem.views
            + walkers * problem.start
            + machine.broadcast(theta, ranks) + machine.gather(told, ranks),
            theta + samples * problem.L**2 * several, told,
        ),
        "estimates": Phase(samples * problem.alone),
        "exchange": Phase(
            2 * slices / machine.bandwidth + ranks * units * machine.latency * several, slices, slices
        ),
        "norms": Phase(
            product / 2 + machine.summed(vector, ranks) + machine.gather(0, ranks), vector, 2 * vector
        ),
        "adjoint": Phase(
            product + machine.broadcast(vector, ranks) + machine.gather(part, ranks), vector, part
        ),
        "apply": Phase(  # of ones, to find what is not finite, and of the direction
            2 * (product + machine.broadcast(theta, ranks) + machine.summed(vector, ranks)
                 + machine.gather(0, ranks)),
            2 * (theta + vector), 4 * vector,
        ),
    }  # fmt: skip


def seconds(step: Step) -> float:
    """Of a whole step."""
    return sum(phase.seconds for phase in step.values())


def sent(step: Step) -> float:
    """Bytes that the busiest rank but rank 0 sends in a step."""
    return sum(phase.by_others for phase in step.values())


def memory(problem: Problem, ranks: int, samples: int, base: float, matrix: bool = True) -> float:
    """Bytes of a rank: the process, twice its slices while they are exchanged or its part of them, the matrix.

    Without the matrix: the own rows of the columns, and one more of their blocks for each of those
    sent together.
    """
    own = math.ceil(samples / ranks)
    most, _, _ = problem.shares(ranks, samples)
    slices = problem.itemsize(samples) * (own * problem.entries + samples * most)
    columns = min(conjugate_gradients.MOST_COLUMNS, samples // 8)
    rows = math.ceil(samples / ROWS / ranks) * ROWS + 8 * ROWS
    return base + slices + NUMBER * (samples**2 if matrix else rows * columns)
