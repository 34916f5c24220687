"""The conformance suite: what every ansatz must satisfy, runnable on your own.

    check_ansatz(my_ansatz, theta)

raises AssertionError with what is wrong, where, and both values; it returns None otherwise.
Use a small lattice (up to 9 spins) so that the stationary distribution is checked as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from typing import Any

import numpy as np

from tnvmc.ansatz.generic import GenericAnsatz, acceptance, amplitude_ratio, local_states, replaced
from tnvmc.ansatz.protocol import Ansatz, LogAmplitude, Snapshot, Targets, Walkers
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.lattice.lattice import Patch

Array = Any

MAX_STATES = 512
"""Largest space d^N whose stationary distribution is checked."""


def check_ansatz(
    ansatz: Ansatz,
    theta: Array,
    *,
    configs: Array | None = None,
    rtol: float | None = None,
    seed: int = 0,
) -> None:
    """Check an ansatz against its own `log_amplitude`, in this order:

    shapes and dtypes; independence of the batch; ratios of `measure` for all kinds of tables;
    log-derivatives against finite differences; apply, adjoint and gram of the Jacobian; sweeps
    (acceptance of every kind of move, order of moves, amplitudes kept, |psi|^2 stationary).
    Whether `log_amplitude` is the wave function you had in mind is not checked.

    Args:
        configs: (B, N) where to look; random ones by default.
        rtol: agreement to ask for, relative; by default 1e-8 in double and 1e-3 in single
            precision.  An ansatz that truncates (PEPS with small chi) needs the size of its
            truncation error here.

    Cost: a few thousand amplitudes, and 40 d^N sweeps where d^N is at most `MAX_STATES`.
    """
    case = _Case(ansatz, theta, configs, rtol, np.random.Generator(np.random.PCG64(seed)))
    for check in _CHECKS:
        check(case)


@dataclass(frozen=True)
class _Case:
    """An ansatz at a theta, and where to look at it."""

    ansatz: Ansatz
    theta: Array
    given_configs: Array | None
    given_rtol: float | None
    rng: np.random.Generator

    @property
    def xp(self) -> Any:
        return array_namespace(self.theta)

    @property
    def n_sites(self) -> int:
        return self.ansatz.lattice.n_sites

    @cached_property
    def eps(self) -> float:
        return float(self.xp.finfo(self.theta.dtype).eps)

    @cached_property
    def rtol(self) -> float:
        return self.given_rtol or (1e-8 if self.eps < 1e-10 else 1e-3)

    @cached_property
    def configs(self) -> Array:
        """Up to 12 configurations where psi does not vanish."""
        if self.given_configs is not None:
            return self.given_configs
        d, n_sites = self.ansatz.local_dim, self.n_sites
        if d**n_sites <= MAX_STATES:
            candidates = self.rng.permutation(_all_configs(n_sites, d))
        else:
            candidates = self.rng.integers(d, size=(256, n_sites), dtype=np.int8)
            half = np.arange(n_sites) * d // n_sites
            candidates[::2] = self.rng.permuted(np.tile(half, (128, 1)), axis=1)
        inside = to_host(self.psi(to_namespace(candidates, self.xp)).phase) != 0
        _require(
            bool(inside.any()),
            f"psi vanishes on all of {len(candidates)} configurations; pass `configs` in its "
            "support, or check theta",
        )
        return to_namespace(candidates[inside][:12], self.xp)

    @cached_property
    def tables(self) -> Targets:
        """Every kind of table: flips, exchanges, and all replacements with gaps (-1)."""
        d, n_sites = self.ansatz.local_dim, self.n_sites
        tables = dict(self.moves)
        whole = {tuple(range(k)) for k in (2, 3) if k <= n_sites} | {(0, n_sites - 1)}
        for patch in {p for p in whole if len(set(p)) == len(p)}:
            states = np.arange(d ** len(patch))
            table = np.array([np.delete(states, a) for a in states])
            table[self.rng.random(table.shape) < 0.3] = -1
            tables[patch] = to_namespace(table, self.xp)
        return tables

    @cached_property
    def moves(self) -> Targets:
        """Flips of all sites, exchanges over all bonds."""
        d = self.ansatz.local_dim
        flip = np.array([[b for b in range(d) if b != a] for a in range(d)])
        swap = np.array([[b * d + a if a != b else -1] for a in range(d) for b in range(d)])
        bonds = {bond for kind in self.ansatz.lattice.bonds.values() for bond in kind}
        moves = {bond: swap for bond in sorted(bonds)}
        moves.update({(site,): flip for site in range(self.n_sites)})
        return {patch: to_namespace(table, self.xp) for patch, table in moves.items()}

    def psi(self, configs: Array) -> LogAmplitude:
        return self.ansatz.log_amplitude(self.theta, configs)

    def uniforms(self, *shape: int) -> Array:
        return to_namespace(self.rng.random(shape), self.xp)


# --- amplitudes ---------------------------------------------------------------------------------


def _check_shapes(case: _Case) -> None:
    ansatz, theta = case.ansatz, case.theta
    _require(
        tuple(theta.shape) == (ansatz.n_params,),
        f"theta has shape {tuple(theta.shape)}, n_params says ({ansatz.n_params},)",
    )
    amplitude, walkers = case.psi(case.configs), ansatz.start(theta, case.configs)
    n_configs = case.configs.shape[0]
    for where, found in (("log_amplitude", amplitude), ("start", walkers.amplitude)):
        for name, array in (("phase", found.phase), ("log_abs", found.log_abs)):
            _require(
                tuple(array.shape) == (n_configs,),
                f"{where}: {name} has shape {tuple(array.shape)}, expected ({n_configs},)",
            )
        log_abs = to_host(found.log_abs)
        _require(not np.iscomplexobj(log_abs), f"{where}: log_abs is {log_abs.dtype}, must be real")
        phase = to_host(found.phase)
        _require(not np.isnan(phase).any(), f"{where}: phase has NaN: {phase}")
        modulus = np.abs(phase)
        unit = np.where(modulus == 0, 0.0, 1.0)
        _close(f"{where}: |phase|, must be 1 or 0", modulus, unit, 1e3 * case.eps)
        _require(
            bool(np.all(np.isneginf(log_abs) == (modulus == 0)) and not np.isnan(log_abs).any()),
            f"{where}: log_abs must be finite where phase is not 0 and -inf elsewhere, got "
            f"{log_abs} with phases {phase}",
        )
    _require(
        np.array_equal(to_host(walkers.configs), to_host(case.configs)),
        "start: the walkers are not at the configurations given",
    )
    _same_amplitude("start against log_amplitude", walkers.amplitude, amplitude, case.rtol)


def _check_batches(case: _Case) -> None:
    """One walker at a time gives what the whole batch gives, to rounding."""
    whole, snapshot = case.psi(case.configs), _measured(case, case.configs)
    tolerance = min(case.rtol, 1e6 * case.eps)
    for row in range(min(4, case.configs.shape[0])):
        alone = case.configs[row : row + 1, :]
        expected = LogAmplitude(whole.phase[row : row + 1], whole.log_abs[row : row + 1])
        _same_amplitude(f"walker {row} alone against batch", case.psi(alone), expected, tolerance)
        single = _measured(case, alone)
        for patch, ratios in snapshot.ratios.items():
            where = f"ratios of patch {patch}, walker {row} alone against batch"
            _close(where, single.ratios[patch], ratios[row : row + 1, :], tolerance)


def _check_ratios(case: _Case) -> None:
    """measure(): psi(s')/psi(s) for every replacement asked for, zero where the table says -1."""
    snapshot, old = _measured(case, case.configs), case.psi(case.configs)
    _require(
        set(snapshot.ratios) == set(case.tables),
        f"measure: ratios for patches {sorted(snapshot.ratios)}, asked {sorted(case.tables)}",
    )
    for patch, table in case.tables.items():
        found = snapshot.ratios[patch]
        shape = (case.configs.shape[0], table.shape[1])
        _require(
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
        _close(f"measure: ratios of patch {patch}", found, expected, case.rtol)


# --- log-derivatives ----------------------------------------------------------------------------


def _check_jacobian(case: _Case) -> None:
    """apply, adjoint, gram and dense of the Jacobian tell the same matrix."""
    jacobian = _measured(case, case.configs).jacobian
    _require(jacobian is not None, "measure: jacobian=True gave a snapshot without Jacobian")
    assert jacobian is not None
    shape = (case.configs.shape[0], case.ansatz.n_params)
    _require(tuple(jacobian.shape) == shape, f"jacobian: shape {jacobian.shape}, not {shape}")
    dense = to_host(jacobian.dense())
    _require(dense.shape == shape, f"jacobian: dense() has shape {dense.shape}, not {shape}")
    _require(bool(np.isfinite(dense).all()), "jacobian: dense() holds non-finite numbers")
    v, u = (_random_vector(case, size, dense.dtype) for size in (shape[1], shape[0]))
    scale = max(float(np.abs(dense).max()), 1.0)
    tolerance = 1e4 * case.eps * scale
    _close("jacobian: apply(v)", jacobian.apply(to_namespace(v, case.xp)), dense @ v, tolerance)
    adjoint = jacobian.adjoint(to_namespace(u, case.xp))
    _close("jacobian: adjoint(u)", adjoint, dense.conj().T @ u, tolerance)
    _close("jacobian: gram()", jacobian.gram(), dense @ dense.conj().T, tolerance * scale)
    without = _measured(case, case.configs, jacobian=False)
    _require(without.jacobian is None, "measure: jacobian=False gave a Jacobian all the same")


def _check_log_derivatives(case: _Case) -> None:
    """O v against central differences of psi, for single parameters and random directions.

    Directions of a complex theta are complex, so that psi must be holomorphic in theta.
    """
    dense = to_host(_measured(case, case.configs).jacobian.dense())  # type: ignore[union-attr]
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
        _require(
            bool(error[worst] <= allowed[worst]),
            f"log-derivative along {name}, configuration {worst}: finite difference gives "
            f"{quotient[worst] / (2 * step)}, the Jacobian {expected[worst]} (tolerance "
            f"{allowed[worst]:.1e})",
        )


def _directions(case: _Case, theta: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    for k in case.rng.permutation(theta.size)[:16]:
        unit = np.zeros(theta.size, dtype=theta.dtype)
        unit[k] = 1j if np.iscomplexobj(theta) and case.rng.random() < 0.5 else 1
        yield f"parameter {k}", unit
    for k in range(4):
        yield f"random direction {k}", _random_vector(case, theta.size, theta.dtype)


# --- sweeps -------------------------------------------------------------------------------------


def _check_sweep(case: _Case) -> None:
    """Sweeps are functions of their arguments and keep amplitude and cache up to date."""
    ansatz, theta, moves = case.ansatz, case.theta, case.moves
    first = ansatz.start(theta, case.configs)
    before = to_host(first.configs).copy()
    numbers = case.uniforms(before.shape[0], len(moves))
    moved, info = ansatz.sweep(theta, first, moves, numbers)
    again, _ = ansatz.sweep(theta, ansatz.start(theta, case.configs), moves, numbers)
    _require(
        np.array_equal(to_host(moved.configs), to_host(again.configs)),
        "sweep: the same walkers and uniforms gave different configurations",
    )
    _require(np.array_equal(to_host(first.configs), before), "sweep: changed its input in place")
    proposed, accepted = to_host(info.proposed), to_host(info.accepted)
    _require(
        bool(np.all((accepted >= 0) & (accepted <= proposed) & (proposed <= len(moves)))),
        f"sweep: accepted {accepted} of {proposed} proposals, out of {len(moves)} moves",
    )
    walkers = moved
    for turn in ("sweep", "sweep, measure, sweep"):
        states = to_host(walkers.configs)
        _require(
            bool(np.all((states >= 0) & (states < ansatz.local_dim))),
            f"{turn}: a configuration has local states outside 0..{ansatz.local_dim - 1}",
        )
        expected = case.psi(walkers.configs)
        _same_amplitude(f"amplitudes after {turn}", walkers.amplitude, expected, case.rtol)
        walkers, snapshot = ansatz.measure(theta, walkers, case.tables)
        fresh = _measured(case, walkers.configs)
        for patch in case.tables:
            where = f"ratios of patch {patch} after {turn}, against those of fresh walkers"
            _close(where, snapshot.ratios[patch], fresh.ratios[patch], case.rtol)
        walkers, _ = ansatz.sweep(theta, walkers, moves, case.uniforms(len(states), len(moves)))


def _check_acceptance(case: _Case) -> None:
    """A single move is accepted below |psi'/psi|^2 and rejected above, walker by walker."""
    d, configs, old = case.ansatz.local_dim, case.configs, case.psi(case.configs)
    for patch, table in case.tables.items():
        n_columns = table.shape[1]
        states = local_states(configs, patch, d)
        column = int(case.rng.integers(n_columns))
        target = case.xp.take(table, states, axis=0)[:, column]
        possible = to_host(target) >= 0
        trial = replaced(configs, patch, case.xp.where(target < 0, states, target), d)
        threshold = np.where(possible, to_host(acceptance(case.psi(trial), old)), 0.0)
        for side, expected in ((1 - 1e2 * case.rtol, True), (1 + 1e2 * case.rtol, False)):
            remainder = np.minimum(threshold * side, 1 - 1e-6)
            decided = possible & (threshold > 1e-12) & ((remainder > threshold) != expected)
            numbers = to_namespace(((column + remainder) / n_columns)[:, None], case.xp)
            walkers = case.ansatz.start(case.theta, configs)
            moved, info = case.ansatz.sweep(case.theta, walkers, {patch: table}, numbers)
            goal = to_host(trial if expected else configs)
            wrong = decided & np.any(to_host(moved.configs) != goal, axis=1)
            wrong |= ~possible & np.any(to_host(moved.configs) != to_host(configs), axis=1)
            wrong |= to_host(info.proposed) != possible
            _require(
                not wrong.any(),
                f"sweep with the one move {patch}: walker {np.flatnonzero(wrong)[:1]} with "
                f"remainder {remainder[wrong][:1]} of its uniform number and |psi'/psi|^2 = "
                f"{threshold[wrong][:1]} went from {to_host(configs)[wrong][:1]} to "
                f"{to_host(moved.configs)[wrong][:1]}; 'possible' was {possible[wrong][:1]} and "
                f"'proposed' {to_host(info.proposed)[wrong][:1]}. Accept when the remainder is "
                "below |psi'/psi|^2; count possible moves as proposed",
            )


def _check_order(case: _Case) -> None:
    """Three moves in one sweep act one after another, in some fixed order."""
    configs = case.configs
    reference = _Reference(case.ansatz)
    patches = list(case.moves)
    for _ in range(16):
        chosen = [patches[k] for k in case.rng.permutation(len(patches))[:3]]
        numbers = case.uniforms(configs.shape[0], len(chosen))
        walkers = case.ansatz.start(case.theta, configs)
        moved, _ = case.ansatz.sweep(
            case.theta, walkers, {patch: case.moves[patch] for patch in chosen}, numbers
        )
        misses = min(
            _n_different(moved, _in_order(reference, case, chosen, order, numbers))
            for order in permutations(range(len(chosen)))
        )
        _require(
            misses <= int(20 * case.rtol * configs.shape[0] * len(chosen)),
            f"sweep with moves {chosen}: {misses} of {configs.shape[0]} walkers end where no "
            "order of the three moves, each accepted with the present |psi'/psi|^2, can bring "
            "them. Is an environment used that is older than the last accepted move? Does column "
            "j of the uniforms belong to the j-th patch?",
        )


def _check_distribution(case: _Case) -> None:
    """|psi|^2 is stationary: start all configurations with their weights, sweep, count.

    One sweep of K copies has the squared error sum_s w(s)^2 (1 - ...) / K at most; five
    standard deviations above it are allowed.
    """
    d, n_sites, n_copies = case.ansatz.local_dim, case.n_sites, 40
    if d**n_sites > MAX_STATES:
        return
    configs = _all_configs(n_sites, d)
    walkers = case.ansatz.start(case.theta, to_namespace(configs, case.xp))
    log_abs = to_host(walkers.amplitude.log_abs).astype(np.float64)
    weight = np.exp(2 * (log_abs - log_abs.max()))
    weight /= weight.sum()
    place = d ** np.arange(n_sites - 1, -1, -1)
    counts = np.zeros(len(configs))
    for _ in range(n_copies):
        numbers = case.uniforms(len(configs), len(case.moves))
        moved, _ = case.ansatz.sweep(case.theta, walkers, case.moves, numbers)
        np.add.at(counts, to_host(moved.configs).astype(np.int64) @ place, weight / n_copies)
    expected_error = (weight**2).sum() / n_copies
    effective = (weight**2).sum() ** 2 / (weight**4).sum()
    error = ((counts - weight) ** 2).sum()
    worst = int(np.argmax(np.abs(counts - weight)))
    _require(
        bool(error <= expected_error * (1 + 5 / np.sqrt(effective)) ** 2 + case.rtol**2),
        f"sweep does not keep |psi|^2: after one sweep of {n_copies} copies of all "
        f"{len(configs)} configurations the distance is {np.sqrt(error):.2e}, noise explains "
        f"{np.sqrt(expected_error):.2e}. Worst at {configs[worst]}: {counts[worst]:.4f} instead "
        f"of {weight[worst]:.4f}. Each move may be right alone and wrong after another one",
    )


_CHECKS: tuple[Callable[[_Case], None], ...] = (
    _check_shapes,
    _check_batches,
    _check_ratios,
    _check_jacobian,
    _check_log_derivatives,
    _check_sweep,
    _check_acceptance,
    _check_order,
    _check_distribution,
)


# --- helpers ------------------------------------------------------------------------------------


class _Reference(GenericAnsatz):
    """The ansatz without its own passes: every ratio from two full amplitudes."""

    def __init__(self, ansatz: Ansatz) -> None:
        self.ansatz, self.lattice = ansatz, ansatz.lattice
        self.local_dim = ansatz.local_dim

    @property
    def n_params(self) -> int:
        return self.ansatz.n_params

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        return self.ansatz.log_amplitude(theta, configs)

    def log_derivatives(self, theta: Array, configs: Array) -> Array:
        raise NotImplementedError


def _in_order(
    reference: _Reference, case: _Case, chosen: list[Patch], order: tuple[int, ...], numbers: Array
) -> Walkers:
    moves = {chosen[k]: case.moves[chosen[k]] for k in order}
    columns = case.xp.take(numbers, case.xp.asarray(order), axis=1)
    return reference.sweep(case.theta, reference.start(case.theta, case.configs), moves, columns)[0]


def _n_different(a: Walkers, b: Walkers) -> int:
    return int(np.any(to_host(a.configs) != to_host(b.configs), axis=1).sum())


def _measured(case: _Case, configs: Array, jacobian: bool = True) -> Snapshot:
    walkers = case.ansatz.start(case.theta, configs)
    return case.ansatz.measure(case.theta, walkers, case.tables, jacobian=jacobian)[1]


def _all_configs(n_sites: int, local_dim: int) -> np.ndarray:
    return np.array(list(product(range(local_dim), repeat=n_sites)), dtype=np.int8)


def _random_vector(case: _Case, size: int, dtype: Any) -> np.ndarray:
    vector = case.rng.normal(size=size)
    if np.issubdtype(dtype, np.complexfloating):
        vector = vector + 1j * case.rng.normal(size=size)
    return vector.astype(dtype)


def _same_amplitude(where: str, found: LogAmplitude, expected: LogAmplitude, rtol: float) -> None:
    zero = to_host(expected.phase) == 0
    ratio = np.where(zero, 1.0, to_host(amplitude_ratio(found, expected)))
    ratio = np.where(zero & (to_host(found.phase) != 0), np.inf, ratio)
    _close(f"{where}, as a quotient", ratio, np.ones(len(ratio)), rtol)


def _close(where: str, found: Array, expected: Array, tolerance: float) -> None:
    """|found - expected| <= tolerance * max(1, |expected|), entry by entry; NaN never passes."""
    found, expected = to_host(found), to_host(expected)
    _require(
        found.shape == expected.shape, f"{where}: shape {found.shape}, expected {expected.shape}"
    )
    error = np.abs(found - expected) / np.maximum(1.0, np.abs(expected))
    worst = np.unravel_index(int(np.argmax(np.nan_to_num(error, nan=np.inf))), error.shape)
    _require(
        bool(error[worst] <= tolerance),
        f"{where}: at {tuple(int(k) for k in worst)} found {found[worst]}, expected "
        f"{expected[worst]} (relative error {error[worst]:.1e}, tolerance {tolerance:.1e})",
    )


def _require(condition: bool, letter: str) -> None:
    if not condition:
        raise AssertionError(f"check_ansatz: {letter}")
