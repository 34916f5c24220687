"""Which array library an array belongs to, what real and complex arrays share, host and device."""

from typing import Any

import numpy as np

Array = Any


def array_namespace(*arrays: Array) -> Any:
    """Give the namespace of arrays (numpy, array_api_strict or cupy); numpy where there are none.

    Raises:
        TypeError: two arguments belong to different libraries; nothing is moved silently.
    """
    for array in arrays:  # the hot path: nothing but NumPy
        if type(array) is not np.ndarray:
            break
    else:
        return np
    spaces = {id(space): space for space in map(_namespace_of, arrays) if space is not None}
    if len(spaces) > 1:
        names = sorted(space.__name__ for space in spaces.values())
        raise TypeError(
            f"arrays of {' and '.join(names)} meet in one call; move them to one device first "
            "with tnvmc.backend.namespace.to_host or to_namespace"
        )
    return next(iter(spaces.values()), np)


def _namespace_of(array: Array) -> Any:
    if isinstance(array, np.ndarray | np.generic):
        return np
    if is_cupy(array):
        import cupy

        return cupy
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    return None


def require_states(configs: Any, n_sites: int, local_dim: int) -> None:
    """Raise IndexError or TypeError unless an array (B, N) of NumPy holds states 0 to d - 1."""
    if array_namespace(configs) is not np:
        return  # on a GPU looking would wait for it
    if configs.ndim != 2 or configs.shape[1] != n_sites:
        raise IndexError(f"configurations have shape {configs.shape}; there are {n_sites} sites")
    if configs.dtype.kind not in "iub" or hasattr(configs, "mask"):
        raise TypeError(f"configurations are {configs.dtype}; local states are whole numbers")
    least, largest = (configs.min(), configs.max()) if configs.size else (0, 0)
    if least < 0 or largest >= local_dim:
        hint = " (0 for spin up, not +1 or -1)" if least == -1 else ""
        known = f"local states are 0 to {local_dim - 1}{hint}"
        raise IndexError(f"configurations hold {least} to {largest}; {known}")


def is_cupy(array: Array) -> bool:
    """Tell whether an array lives on a GPU, without importing CuPy to find out."""
    return type(array).__module__.partition(".")[0] == "cupy"


def elsewhere(value: object) -> Any:
    """Give the namespace of an array of CuPy or array_api_strict; None for anything else."""
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    known = library in ("cupy", "array_api_strict") and kind.__name__ in ("ndarray", "Array")
    return _namespace_of(value) if known else None


def is_gpu(xp: Any) -> bool:
    """Tell whether `xp` is CuPy."""
    return getattr(xp, "__name__", "") == "cupy"


def to_host(array: Array) -> np.ndarray:
    """Copy an array of any namespace into NumPy; a NumPy array comes back as it is."""
    return np.asarray(array.get() if hasattr(array, "get") else array)  # cupy has get


def to_namespace(array: Array, xp: Any) -> Array:
    """Copy an array into namespace `xp`; one that is there already comes back as it is."""
    if (type(array) is np.ndarray and xp is np) or _namespace_of(array) is xp:
        return array
    return xp.asarray(to_host(array))


def double_of(xp: Any, array: Array) -> Any:
    """Give the type of double precision, real or complex as an array is."""
    return xp.complex128 if is_complex(array) else xp.float64


def is_complex(array: Array) -> bool:
    """Tell whether an array, or a Jacobian, has complex entries."""
    return "complex" in str(array.dtype)


def conj(array: Array) -> Array:
    """Give the complex conjugate; the array itself where it is real."""
    return array_namespace(array).conj(array) if is_complex(array) else array


def dagger(matrix: Array) -> Array:
    """Give the conjugate transpose; a view where the matrix is real."""
    return array_namespace(matrix).matrix_transpose(conj(matrix))


def real_part(array: Array) -> Array:
    """Give the real part; the array itself where it is real."""
    return array_namespace(array).real(array) if is_complex(array) else array


def imaginary_part(array: Array) -> Array:
    """Give the imaginary part; zeros where the array is real."""
    xp = array_namespace(array)
    return xp.imag(array) if is_complex(array) else xp.zeros_like(array)


def read_only(array: Array) -> Array:
    """Give a view of a NumPy array that cannot be written, a copy of any other."""
    if type(array) is not np.ndarray:
        return array_namespace(array).asarray(array, copy=True)
    view = array.view()
    view.setflags(write=False)
    return view


def distinct_rows(rows: Array) -> tuple[Array, Array]:
    """Give the different rows (R, N) of an array (M, N) of bytes, and the one of each row (M,)."""
    xp, host = array_namespace(rows), np.ascontiguousarray(to_host(rows))
    as_one = host.view(np.dtype((np.void, max(1, host.itemsize * host.shape[1])))).ravel()
    _, first, which = np.unique(as_one, return_index=True, return_inverse=True)
    return to_namespace(host[first], xp), to_namespace(which, xp)
