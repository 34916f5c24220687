"""Batches of configurations for compiled functions: their size, their shapes, and side by side.

XLA rounds a row differently in batches of different sizes.  So a size is never measured: it follows
from the network alone (decision 19), and a run is the same in any bit on any machine.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np

from tnvmc.backend.device import DeviceError
from tnvmc.backend.namespace import array_namespace, is_cupy, is_gpu, to_host, to_namespace
from tnvmc.backend.process import available_cores

Array = Any
T = TypeVar("T")

SMALLEST_BATCH = 16
"""Batches are padded to powers of two from here on, so that few shapes are compiled."""

CACHE = 2**18
"""Bytes that the largest array on the way of a block may take: with what else there is, about the
second-level cache of a core."""

MOST_IN_BLOCK, BLOCKS, MOST = 256, 64, 2**13
"""Evaluations of the network in one block; blocks in one call, and evaluations in one."""

MOST_DRAWN = 2**12
"""Draws in one call: they are not made in blocks."""

FEWER = 1024
"""Evaluations that are not worth two calls."""

FEWEST = 64
"""Walkers that are worth a thread."""

MOST_ON_A_GPU = 2**16

ONE_THREAD = {"xla_cpu_multi_thread_eigen": False}
"""Options of the compiler: a call runs on the thread that made it, so that batches go side by side
and no result depends on the number of cores."""


def power_below(n: int) -> int:
    """The power of two below n, or the smallest batch."""
    return max(SMALLEST_BATCH, 1 << max(n, 1).bit_length() - 1)


def padded_size(n: int) -> int:
    """The power of two above n, or the smallest batch."""
    return max(SMALLEST_BATCH, 1 << max(n - 1, 0).bit_length())


def padded(rows: Array, size: int) -> Array:
    """Repeat the first of rows (n, ...), or zeros, up to `size`; not by JAX, which compiles."""
    missing = size - rows.shape[0]
    if not missing:
        return rows
    xp = array_namespace(rows)
    first = rows[:1, ...] if rows.shape[0] else xp.zeros((1, *rows.shape[1:]), dtype=rows.dtype)
    return xp.concat([rows, xp.broadcast_to(first, (missing, *rows.shape[1:]))])


def rows_in_cache(network: Callable[[Array], Array], example: Array) -> int:
    """How many inputs like `example` (1, ...) a network is given at once on the host.

    So many that the largest array on the way, found by tracing, fits into `CACHE`; a power of two.
    """
    with jax.enable_x64(True):  # one size for walks in single precision too
        few, more = (
            _sizes(jax.make_jaxpr(network)(jnp.zeros((n, *example.shape[1:]), example.dtype)))
            for n in (2, 3)
        )
    if len(few) == len(more):
        each = max((b - a for a, b in zip(few, more, strict=True)), default=1)
    else:  # the module looks at the number of its inputs
        each = max(more, default=1) // 3
    return min(power_below(CACHE // max(each, 1)), MOST_IN_BLOCK)


def in_blocks(
    function: Callable[[Array], Any], rows: Array, block: int | None, n_rows: Array | int
) -> Any:
    """Give results (B, ...) of a function of rows (B, N), `block` of them at a time; traceable.

    Blocks that begin after the first `n_rows` rows are left out, their results are 0.  None: all at
    once, as a GPU wants it.  B is a power of two, as `block` is.
    """
    if block is None or rows.shape[0] <= block:
        return function(rows)

    def put(number: Array, found: Any) -> Any:
        begin = number * block
        parts = function(jax.lax.dynamic_slice_in_dim(rows, begin, block))
        return jax.tree.map(
            lambda array, part: jax.lax.dynamic_update_slice_in_dim(array, part, begin, 0),
            found, parts,
        )  # fmt: skip

    of_a_block = jax.eval_shape(function, rows[:block])
    nothing = jax.tree.map(
        lambda part: jnp.zeros((rows.shape[0], *part.shape[1:]), part.dtype), of_a_block
    )
    return jax.lax.fori_loop(0, -(-n_rows // block), put, nothing)


def _sizes(closed: Any) -> list[int]:
    """Bytes of what every operation returns, those inside of others too."""
    return [
        variable.aval.size * variable.aval.dtype.itemsize
        for equation in _equations(closed.jaxpr)
        for variable in equation.outvars
        if hasattr(variable.aval, "dtype")
        and not jax.dtypes.issubdtype(variable.aval.dtype, jax.dtypes.extended)
    ]


def _equations(jaxpr: Any) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            yield from _equations(inner)


def in_batches(
    run: Callable[..., Any], theta: Array, rows: Array, largest: int, by_blocks: bool = True,
    least: int = 1,
) -> list[Array]:  # fmt: skip
    """Give results (B, ...) of a compiled function of theta and rows (B, N), in padded batches.

    On the host batches go side by side.  A function that goes `by_blocks` leaves out what is padded
    (see `in_blocks`), and is given few batches of one length; another one many short ones, so that
    little is padded, to `least` rows.  On a GPU the last of several is as long as the others: to
    compile costs more there.
    """
    xp = array_namespace(theta, rows)
    n_rows, parameters = rows.shape[0], to_jax(theta)
    bounds = _bounds(n_rows, largest, is_gpu(xp), by_blocks)

    def batch(number: int) -> list[Array]:
        begin, end = bounds[number : number + 2]
        full = is_gpu(xp) and n_rows > largest
        part = padded(rows[begin:end, :], largest if full else padded_size(max(end - begin, least)))
        results = called(run, parameters, to_jax(part), end - begin)
        return [from_jax(array, xp)[: end - begin, ...] for array in results]

    parts = side_by_side(batch, range(len(bounds) - 1), is_cupy(rows))
    return [p[0] if len(p) == 1 else xp.concat(p) for p in zip(*parts, strict=True)]


def _bounds(n_rows: int, largest: int, on_a_gpu: bool, by_blocks: bool) -> list[int]:
    """Where batches begin, and the end of the last."""
    fewer = min(largest, FEWER)
    if on_a_gpu or n_rows <= fewer:
        return [*range(0, max(n_rows, 1), largest), n_rows]
    if by_blocks:
        return [*range(0, n_rows, -(-n_rows // max(2, -(-n_rows // largest)))), n_rows]
    full = n_rows // largest * largest
    return [*range(0, full, largest), *range(full, n_rows, fewer), n_rows]


def side_by_side(task: Callable[[int], T], places: Iterable[int], on_a_gpu: bool) -> list[T]:
    """Results of a task for every place, in order; in threads on the host."""
    places = list(places)
    if on_a_gpu or len(places) == 1 or available_cores() == 1:
        return [task(place) for place in places]
    config: Any = jax.config  # a context may have changed it for this thread
    settings = config.jax_enable_x64, config.jax_default_matmul_precision

    def done(place: int) -> T:
        with jax.enable_x64(settings[0]), jax.default_matmul_precision(settings[1]):
            return task(place)

    return list(_threads(available_cores()).map(done, places))


@cache
def _threads(n: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n, thread_name_prefix="network")


def even(n: int, most: int) -> int:
    """Length of blocks of n rows, as equal as can be: two at least, of `FEWEST` to `most`."""
    wanted = min(max(-(-n // 2), FEWEST), max(most, SMALLEST_BATCH))
    return -(-n // max(1, -(-n // wanted)))


def largest_batch(rows: Array, in_cache: int, n_images: int, most: int = MOST) -> int:
    """Configurations in one call where each has several images."""
    on_host = min(BLOCKS * in_cache, most)
    return power_below((MOST_ON_A_GPU if is_cupy(rows) else on_host) // n_images)


_ALIGNMENT = 256
"""Bytes at whose multiples CuPy allocates; XLA takes arrays that begin in between for broken."""


def to_jax(array: Array) -> Array:
    """Give an array of any namespace as an argument of a function compiled for its device.

    One of the host stays a NumPy array where JAX has no other device, which is quicker.
    """
    if is_cupy(array):
        if not _sees_a_gpu():
            raise DeviceError(
                "device = 'gpu': this JAX sees no GPU, and networks run by it; pip install "
                "'jax[cuda13]>=0.10,<0.11' (cuda12 for CUDA 12), or take device = 'cpu'"
            )
        array = array_namespace(array).ascontiguousarray(array)
        if array.data.ptr % _ALIGNMENT:
            array = array.copy()
        return jax.dlpack.from_dlpack(array)
    return beside(to_host(array), array)


def from_jax(array: Array, xp: Any) -> Array:
    """A JAX array in a namespace; on a GPU without a copy, on the host as it lies there too."""
    return xp.from_dlpack(array) if is_gpu(xp) else to_namespace(np.asarray(array), xp)


def beside(tree: Any, array: Array) -> Any:
    """NumPy arrays of a tree as arguments of a compiled function that runs where `array` lies."""
    if _sees_the_host_alone():
        return tree
    kind = "gpu" if is_cupy(array) else "cpu"
    return jax.device_put(tree, jax.devices(kind)[0])


def called(run: Callable[..., Any], *arrays: Any) -> Any:
    """Call `run`; without room on a GPU once more, after CuPy gave back what it only keeps.

    Raises:
        MemoryError: no room.
    """
    for again in ("cupy" in sys.modules, False):
        try:
            return run(*arrays)
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            if not again:
                raise MemoryError(str(error)) from error
        sys.modules["cupy"].get_default_memory_pool().free_all_blocks()
    return None


@cache
def _sees_the_host_alone() -> bool:
    return jax.default_backend() == "cpu"


@cache
def _sees_a_gpu() -> bool:
    try:
        return bool(jax.devices("gpu"))
    except RuntimeError:  # so JAX says that it has no such backend
        return False
