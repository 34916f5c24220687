"""The conformance suite: what every ansatz must satisfy, runnable on your own.

    check_ansatz(my_ansatz, theta)

raises AssertionError with what is wrong, where, and both values; it returns None otherwise.
Use a small lattice (up to 9 spins) so that the stationary distribution is checked as well.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tnvmc.ansatz.checks.case import Case, close, measured, random_vector, require, same_amplitude
from tnvmc.ansatz.checks.sweeps import (
    check_acceptance,
    check_distribution,
    check_draws,
    check_order,
    check_sweep,
    check_tempered,
    check_walk,
)
from tnvmc.ansatz.metropolis import amplitude_ratio, local_states, replaced
from tnvmc.ansatz.protocol import Ansatz, LogAmplitude
from tnvmc.backend.namespace import to_host, to_namespace

Array = Any


def check_ansatz(
    ansatz: Ansatz, theta: Array, *, configs: Array | None = None, rtol: float | None = None,
    seed: int = 0,
) -> None:  # fmt: skip
    """Check an ansatz against its own `log_amplitude`, in this order:

    shapes and dtypes; independence of the batch; ratios of `measure` for all kinds of tables;
    log-derivatives against finite differences; apply, adjoint and gram of the Jacobian; sweeps
    (acceptance of every kind of move, order of moves, amplitudes kept, |psi|^2 stationary);
    tempered sweeps and direct draws, of an ansatz that has them.
    Whether `log_amplitude` is the wave function you had in mind is not checked.

    Args:
        configs: (B, N) where to look; random ones by default.
        rtol: agreement to ask for, relative; by default 1e-8 in double and 1e-3 in single
            precision.  An ansatz that truncates (PEPS with small chi) needs the size of its
            truncation error here.

    Cost: a few thousand amplitudes; where d^N is at most 512, 10 to 20 sweeps of about 1000
    walkers as well.
    """
    case = Case(ansatz, theta, configs, rtol, np.random.Generator(np.random.PCG64(seed)))
    for check in _CHECKS:
        check(case)


def check_shapes(case: Case) -> None:
    """Shapes, dtypes and finiteness of amplitudes, and that `start` starts where it is told."""
    ansatz, theta = case.ansatz, case.theta
    require(
        tuple(theta.shape) == (ansatz.n_params,),
        f"theta has shape {tuple(theta.shape)}, n_params says ({ansatz.n_params},)",
    )
    amplitude, walkers = case.psi(case.configs), ansatz.start(theta, case.configs)
    n_configs = case.configs.shape[0]
    for where, found in (("log_amplitude", amplitude), ("start", walkers.amplitude)):
        for name, array in (("phase", found.phase), ("log_abs", found.log_abs)):
            require(
                tuple(array.shape) == (n_configs,),
                f"{where}: {name} has shape {tuple(array.shape)}, expected ({n_configs},)",
            )
        log_abs = to_host(found.log_abs)
        require(not np.iscomplexobj(log_abs), f"{where}: log_abs is {log_abs.dtype}, must be real")
        phase = to_host(found.phase)
        require(not np.isnan(phase).any(), f"{where}: phase has NaN: {phase}")
        modulus = np.abs(phase)
        unit = np.where(modulus == 0, 0.0, 1.0)
        close(f"{where}: |phase|, must be 1 or 0", modulus, unit, 1e3 * case.eps)
        require(
            bool(np.all(np.isneginf(log_abs) == (modulus == 0)) and not np.isnan(log_abs).any()),
            f"{where}: log_abs must be finite where phase is not 0 and -inf elsewhere, got "
            f"{log_abs} with phases {phase}",
        )
    require(
        np.array_equal(to_host(walkers.configs), to_host(case.configs)),
        "start: the walkers are not at the configurations given",
    )
    same_amplitude("start against log_amplitude", walkers.amplitude, amplitude, case.rtol)


def check_batches(case: Case) -> None:
    """One walker at a time gives what the whole batch gives, to rounding."""
    whole, snapshot = case.psi(case.configs), measured(case, case.configs)
    tolerance = min(case.rtol, 1e6 * case.eps)
    for row in range(min(4, case.configs.shape[0])):
        alone = case.configs[row : row + 1, :]
        expected = LogAmplitude(whole.phase[row : row + 1], whole.log_abs[row : row + 1])
        same_amplitude(f"walker {row} alone against batch", case.psi(alone), expected, tolerance)
        single = measured(case, alone)
        for patch, ratios in snapshot.ratios.items():
            where = f"ratios of patch {patch}, walker {row} alone against batch"
            close(where, single.ratios[patch], ratios[row : row + 1, :], tolerance)


def check_ratios(case: Case) -> None:
    """measure(): psi(s')/psi(s) for every replacement asked for, zero where the table says -1."""
    snapshot, old = measured(case, case.configs), case.psi(case.configs)
    require(
        set(snapshot.ratios) == set(case.tables),
        f"measure: ratios for patches {sorted(snapshot.ratios)}, asked {sorted(case.tables)}",
    )
    for patch, table in case.tables.items():
        found = snapshot.ratios[patch]
        shape = (case.configs.shape[0], table.shape[1])
        require(
            tuple(found.shape) == shape,
            f"measure: ratios of patch {patch} have shape {tuple(found.shape)}, expected {shape}",
        )
        rows = case.xp.take(table, local_states(case.configs, patch, case.ansatz.local_dim), axis=0)
        expected = np.zeros(shape, dtype=complex)
        for column in range(shape[1]):
            target = rows[:, column]
            safe = case.xp.where(target < 0, 0 * target, target)
            changed = replaced(case.configs, patch, safe, case.ansatz.local_dim)
            ratio = to_host(amplitude_ratio(case.psi(changed), old))
            expected[:, column] = np.where(to_host(target) < 0, 0.0, ratio)
        close(f"measure: ratios of patch {patch}", found, expected, case.rtol)


def check_jacobian(case: Case) -> None:
    """apply, adjoint, gram and dense of the Jacobian tell the same matrix."""
    jacobian = measured(case, case.configs).jacobian
    require(jacobian is not None, "measure: jacobian=True gave a snapshot without Jacobian")
    assert jacobian is not None
    shape = (case.configs.shape[0], case.ansatz.n_params)
    require(tuple(jacobian.shape) == shape, f"jacobian: shape {jacobian.shape}, not {shape}")
    dense = to_host(jacobian.dense())
    require(dense.shape == shape, f"jacobian: dense() has shape {dense.shape}, not {shape}")
    require(bool(np.isfinite(dense).all()), "jacobian: dense() holds non-finite numbers")
    v, u = (random_vector(case, size, dense.dtype) for size in (shape[1], shape[0]))
    scale = max(float(np.abs(dense).max()), 1.0)
    tolerance = 1e4 * case.eps * scale
    close("jacobian: apply(v)", jacobian.apply(to_namespace(v, case.xp)), dense @ v, tolerance)
    adjoint = jacobian.adjoint(to_namespace(u, case.xp))
    close("jacobian: adjoint(u)", adjoint, dense.conj().T @ u, tolerance)
    close("jacobian: gram()", jacobian.gram(), dense @ dense.conj().T, tolerance * scale)
    without = measured(case, case.configs, jacobian=False)
    require(without.jacobian is None, "measure: jacobian=False gave a Jacobian all the same")


def check_log_derivatives(case: Case) -> None:
    """O v against central differences of psi, for single parameters and random directions.

    Directions of a complex theta are complex, so that psi must be holomorphic in theta.
    """
    dense = to_host(measured(case, case.configs).jacobian.dense())  # type: ignore[union-attr]
    theta = to_host(case.theta)
    scale = max(float(np.abs(theta).max()), 1e-3)
    step = case.eps ** (1 / 3) * scale
    tolerance = max(10 * case.rtol, 1e3 * case.eps ** (2 / 3))
    old = case.psi(case.configs)
    for name, direction in _directions(case, theta):
        forward, backward = (
            case.ansatz.log_amplitude(
                to_namespace((theta + sign * step * direction).astype(theta.dtype), case.xp),
                case.configs,
            )
            for sign in (1, -1)
        )
        quotient = to_host(amplitude_ratio(forward, old)) - to_host(amplitude_ratio(backward, old))
        expected = dense @ direction
        error = np.abs(quotient / (2 * step) - expected)
        allowed = tolerance * (np.abs(expected) + np.abs(dense).max() + 1 / scale)
        worst = int(np.argmax(error / allowed))
        require(
            bool(error[worst] <= allowed[worst]),
            f"log-derivative along {name}, configuration {worst}: finite difference gives "
            f"{quotient[worst] / (2 * step)}, the Jacobian {expected[worst]} (tolerance "
            f"{allowed[worst]:.1e})",
        )


def _directions(case: Case, theta: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    for k in case.rng.permutation(theta.size)[:16]:
        unit = np.zeros(theta.size, dtype=theta.dtype)
        unit[k] = 1j if np.iscomplexobj(theta) and case.rng.random() < 0.5 else 1
        yield f"parameter {k}", unit
    for k in range(4):
        yield f"random direction {k}", random_vector(case, theta.size, theta.dtype)


_CHECKS: tuple[Callable[[Case], None], ...] = (
    check_shapes,
    check_batches,
    check_ratios,
    check_jacobian,
    check_log_derivatives,
    check_sweep,
    check_acceptance,
    check_order,
    check_distribution,
    check_tempered,
    check_walk,
    check_draws,
)
