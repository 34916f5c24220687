"""What ranks of MPI do together: broadcasts, sums, exchanges, for tasks of `Ranks.together`.  All ranks call them.

Large arrays go in pieces, whose length fits the 32-bit counts of every MPI.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tnvmc.backend.messages import PIECE, bytes_of, pieces


class Collectives:
    """For `MpiRanks`, which has the communicator and counts the traffic."""

    comm: Any
    rank: int
    size: int

    def exchange(self, sent: Sequence[np.ndarray], received: Sequence[np.ndarray]) -> None:
        """See `Ranks.exchange`."""
        from mpi4py import MPI

        waiting = []
        for step in range(1, self.size):
            source, target = (self.rank - step) % self.size, (self.rank + step) % self.size
            into, out_of = received[source], sent[target]
            waiting += [self.comm.Irecv(piece, source) for piece in pieces(bytes_of(into))]
            waiting += [self.comm.Isend(piece, target) for piece in pieces(bytes_of(out_of))]
            self._count(out_of.nbytes, True, 1 if out_of.nbytes else 0)
            self._count(into.nbytes, False, 0)
        received[self.rank][...] = sent[self.rank].reshape(received[self.rank].shape)
        MPI.Request.Waitall(waiting)

    def told(self, value: Any) -> Any:
        """See `Ranks.told`."""
        sent = pickle.dumps(value, protocol=5) if self.rank == 0 else None
        received = self.comm.bcast(sent)
        self._count(len(received), self.rank == 0, self.size - 1)
        return value if self.rank == 0 else pickle.loads(received)

    def collected(self, value: Any) -> list[Any]:
        """See `Ranks.collected`."""
        sent = pickle.dumps(value, protocol=5)
        received = self.comm.gather(sent)
        self._count(len(sent), self.rank != 0, 1)
        return [pickle.loads(each) for each in received or ()]

    def broadcast(self, array: np.ndarray, root: int) -> None:
        """See `Ranks.broadcast`."""
        for piece in pieces(bytes_of(array)):
            self.comm.Bcast(piece, root=root)
        self._count(array.nbytes, self.rank == root, self.size - 1)

    def add_up(self, array: np.ndarray, root: int = 0) -> None:
        """See `Ranks.add_up`."""
        from mpi4py import MPI

        for piece in _numbers(array):
            if self.rank == root:
                self.comm.Reduce(MPI.IN_PLACE, piece, root=root)
            else:
                self.comm.Reduce(piece, None, root=root)
        self._count(array.nbytes, self.rank != root, 1)

    def largest(self, array: np.ndarray) -> None:
        """See `Ranks.largest`."""
        from mpi4py import MPI

        for piece in _numbers(array):
            self.comm.Allreduce(MPI.IN_PLACE, piece, op=MPI.MAX)
        self._count(array.nbytes, True, 1)

    def _count(self, n_bytes: int, sends: bool, messages: int) -> None:
        raise NotImplementedError


def _numbers(array: np.ndarray) -> Iterator[np.ndarray]:
    """Real numbers of a contiguous array, in pieces that MPI can count."""
    flat = array.view(array.real.dtype).reshape(-1)
    step = PIECE // flat.itemsize
    return (flat[begin : begin + step] for begin in range(0, flat.size, step))
