"""A command on several ranks: rank 0 runs it, the others help, and all end with its status."""

from __future__ import annotations

from collections.abc import Callable

from tnvmc.backend.ranks import Ranks, launched, using_ranks

_FAILED = 1


def on_all_ranks(command: Callable[[], int], complain: Callable[[str], int]) -> int:
    """Run a command on the ranks that a launcher (mpiexec, srun) started; alone where there is none.

    Args:
        command: gives an exit status.
        complain: tells why there are no ranks, and gives a status.

    Returns:
        The status of rank 0, on every rank.
    """
    rank, size = launched()
    if size == 1:
        return command()
    ranks = _world(size)
    if isinstance(ranks, str):
        return complain(ranks) if rank == 0 else 2
    if ranks.rank:
        return int(ranks.follow())
    status = _FAILED
    try:
        with using_ranks(ranks):
            status = command()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else _FAILED
    finally:
        ranks.end(status)
    return status


def _world(size: int) -> Ranks | str:
    """All ranks, or why there are none."""
    try:
        from tnvmc.backend.mpi import world

        ranks = world()
    except (ImportError, RuntimeError) as error:  # mpi4py raises the second where it finds no MPI
        return (
            f"started as one of {size} processes, and mpi4py is not to be had ({error}): "
            "pip install mpi4py mpich, or start one process"
        )
    if ranks.size == size:
        return ranks
    return (
        f"the launcher started {size} processes, of which the MPI of mpi4py sees {ranks.size}; use the "
        "mpiexec or srun that belongs to it, or build mpi4py with the MPI of this cluster"
    )
