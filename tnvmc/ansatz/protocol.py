"""The interface of a wave function: all that samplers, estimators and optimisers see of it.

Arrays flow one way through these types::

    configs -> start -> Walkers -> sweep -> Walkers -> measure -> Snapshot -> estimators, optimisers

`Walkers` are carried from call to call; `SweepInfo` and `Snapshot` are reported and never
come back.  `theta` is one flat vector everywhere: only the ansatz knows tensors or pytrees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, Protocol, runtime_checkable

from tnvmc.ansatz.pickling import reduced
from tnvmc.backend.namespace import array_namespace
from tnvmc.jacobian.base import Jacobian
from tnvmc.lattice.lattice import Lattice, Patch

Array = Any  # an array of whichever namespace is in use: numpy, array_api_strict, cupy

Targets = Mapping[Patch, Array]
"""Per patch of k sites an integer table of shape (d**k, R): row `a` lists the local states that
may replace local state `a`, padded with -1.  The local state of a patch is
``sum(config[site_j] * d**(k-1-j))``: its first site is the most significant digit."""


MOVE_KINDS = ("flips", "exchanges", "pair_flips", "terms")
"""What moves are counted by: one site changes; two, and their sum stays; two, and it changes; more."""


@dataclass(frozen=True)
class LogAmplitude:
    """psi = phase * exp(log_abs), for B configurations; overflow-free at any system size."""

    phase: Array  #: (B,) modulus 1, or 0 where psi vanishes; real or complex
    log_abs: Array  #: (B,) real; -inf where psi vanishes

    def take(self, walkers: Array | None) -> LogAmplitude:
        """Those of the walkers at some places; of all in order for None."""
        if walkers is None:
            return self
        xp = array_namespace(walkers)
        phase, log_abs = (xp.take(x, walkers, axis=0) for x in (self.phase, self.log_abs))
        return LogAmplitude(phase, log_abs)


@dataclass(frozen=True)
class Walkers:
    """Configurations in flight with what their ansatz stores for them.

    `cache` is made and read by one ansatz and is good for one theta: call `start` again after
    an optimisation step.
    """

    configs: Array  #: (B, N) small integers 0..d-1; site index = row * n_cols + column
    amplitude: LogAmplitude
    cache: object = None


@dataclass(frozen=True)
class SweepInfo:
    """What a sweep reports: moves that were possible and moves that were accepted, per walker.

    Columns belong to `MOVE_KINDS`; `ansatz.tally` counts.
    """

    proposed: Array  #: (B, kinds) float counts
    accepted: Array  #: (B, kinds) float counts


@dataclass(frozen=True)
class Snapshot:
    """All that estimators ever see of M samples.

    `ratios[patch]` has shape (M, R) and holds psi(s with the patch replaced) / psi(s) for the
    replacements that were asked for (`Targets`), zero where the table says -1.  Weights sum to 1
    in what a sampler returns; `measure` gives them relative to a scale of the ansatz.
    """

    configs: Array  #: (M, N)
    amplitude: LogAmplitude
    ratios: Mapping[Patch, Array]
    jacobian: Jacobian | None = None
    weight: Array | None = None  #: (M,) for enumeration or reweighted draws; None = equal weights
    closure_spread: Array | None = None  #: (M,) spread of ln|psi| over the places it was closed at

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced(self)


@runtime_checkable
class Ansatz(Protocol):
    """A parametrised wave function psi_theta(s) on a lattice.

    `ansatz.generic.GenericAnsatz` derives `start`, `sweep` and `measure` from `log_amplitude`
    and a Jacobian; a PEPS overrides all three with passes over its rows.  What else an ansatz may
    offer stands in the protocols below.
    """

    @property
    def lattice(self) -> Lattice:
        """The lattice whose sites a configuration runs over."""

    @property
    def local_dim(self) -> int:
        """Local dimension d."""

    @property
    def n_params(self) -> int:
        """Length P of theta."""

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """Give psi(s), each configuration by itself.

        Args:
            theta: (P,) parameters.
            configs: (B, N) local states 0..d-1, small integers.

        Returns:
            Phases (B,) and ln|psi| (B,).
        """

    def start(self, theta: Array, configs: Array) -> Walkers:
        """Give walkers at `configs` (B, N) with a cache built for this `theta` (P,)."""

    def sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array
    ) -> tuple[Walkers, SweepInfo]:
        """Propose every move once, with the acceptance of `ansatz.generic.acceptance`.

        Args:
            theta: (P,) parameters, those that the walkers were started with.
            walkers: B of them; they are not changed.
            moves: tables (d**k, R) by patch.
            uniforms: (B, n_moves) in [0, 1); column j belongs to the j-th patch of `moves`,
                whatever order the ansatz visits the patches in.  Where a table has R > 1 columns,
                ``floor(u * R)`` picks the replacement and the remainder decides acceptance; a row
                with -1 at the picked place is no move.

        Returns:
            The walkers after the sweep, and how many moves were possible and accepted.
        """

    def measure(
        self, theta: Array, walkers: Walkers, replacements: Targets, *, jacobian: bool = True
    ) -> tuple[Walkers, Snapshot]:
        """Measure the walkers where they are.

        Args:
            theta: (P,) parameters, those that the walkers were started with.
            walkers: B of them.
            replacements: tables (d**k, R) by patch.
            jacobian: whether log-derivatives are asked for.

        Returns:
            Walkers at the same configurations, ready for a sweep, and the snapshot: ratios (B, R)
            by patch, zero where a table says -1 and where psi = 0.
        """


# What an ansatz may offer beyond that.  Nothing asks for an attribute by name: an ability is a
# protocol below, and `isinstance` tells whether an ansatz has it.


@dataclass(frozen=True)
class Execution:
    """How an ansatz should be run; the defaults fit any ansatz."""

    chunk: int = 64  #: configurations per call on the host
    bytes_per_walker: int | None = None  #: on a GPU; None: chunks as on the host
    own_threads: bool = False  #: uses all cores by itself: chunks one after another
    apart: bool = False  #: no bit of a configuration's numbers depends on those in the same call


@runtime_checkable
class Executed(Protocol):
    """Says how it should be run; others are run with the defaults of `Execution`."""

    @property
    def execution(self) -> Execution:
        """How to run it."""


def execution_of(ansatz: Ansatz) -> Execution:
    """Tell how an ansatz should be run; the defaults where it does not say."""
    return ansatz.execution if isinstance(ansatz, Executed) else Execution()


Draw = Callable[[Array, Any], tuple[Array, Array]]
"""``draw(uniforms (B, N), guide) -> (configs (B, N), log_prob (B,))``."""


@runtime_checkable
class Drawable(Protocol):
    """Can be drawn from directly, without a Markov chain."""

    @property
    def exact_draws(self) -> bool:
        """Whether what is drawn from is |psi|^2 itself (up to a sector it is kept in)."""

    def drawer(self, theta: Array, chi: int | None = None, chi_mpo: int | None = None) -> Draw:
        """Prepare draws at theta, with what serves all of them made once.

        Args:
            theta: (P,) parameters.
            chi: bond of the single-layer boundary, where there is one; None: the default.
            chi_mpo: bond of the double-layer boundary, where there is one; None: the default.

        Returns:
            ``draw(uniforms (B, N), guide) -> (configs (B, N), ln q (B,))``.  `guide` is None or
            ``guide(configs, site) -> (B, d)``, factors >= 0 for the conditionals of a site; one with
            a `total` keeps draws in the sector where the local states sum to it.
        """


@runtime_checkable
class Tempered(Protocol):
    """Its sweeps can sample |psi|^(2 power)."""

    def tempered_sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array, power: Array
    ) -> tuple[Walkers, SweepInfo]:
        """`sweep` with a power (B,) for each walker."""


@runtime_checkable
class Walks(Protocol):
    """Can make several sweeps in one call, and keeps nothing of its walkers but amplitudes."""

    def walk(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array, power: Array | float
    ) -> tuple[Walkers, SweepInfo]:
        """K times `tempered_sweep`, with uniforms (K, B, n_moves).

        Returns:
            The walkers after every sweep, (K * B) rows, sweep by sweep; counts (B, kinds) of all.
        """


@runtime_checkable
class Truncated(Protocol):
    """Is contracted by a scheme, which may truncate to a boundary bond dimension chi."""

    @property
    def scheme(self) -> Any:
        """The scheme; see `tnvmc.contraction.schemes`."""

    def with_scheme(self, scheme: Any) -> Ansatz:
        """The same state contracted by another scheme."""


@runtime_checkable
class _WithChi(Protocol):
    @property
    def chi(self) -> int: ...


def chi_of(ansatz: Ansatz) -> int | None:
    """Give the boundary bond dimension that a state is contracted with; None where it has none."""
    if isinstance(ansatz, Truncated) and isinstance(ansatz.scheme, _WithChi):
        return ansatz.scheme.chi
    return None


def with_chi(ansatz: Ansatz, chi: int) -> Ansatz:
    """Give the same state contracted with another chi; itself where it is contracted with none."""
    if not isinstance(ansatz, Truncated) or not isinstance(ansatz.scheme, _WithChi):
        return ansatz
    if not is_dataclass(ansatz.scheme):
        return ansatz
    return ansatz.with_scheme(replace(ansatz.scheme, chi=chi))


@runtime_checkable
class Reweighted(Protocol):
    """May walk on another distribution than |psi|^2; its snapshots have weights then."""

    @property
    def weighted(self) -> bool:
        """Whether it does."""


class Sweeps(Protocol):
    """The part of `Ansatz` that a chain needs."""

    def start(self, theta: Array, configs: Array) -> Walkers:
        """See `Ansatz.start`."""

    def sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array
    ) -> tuple[Walkers, SweepInfo]:
        """See `Ansatz.sweep`."""


@runtime_checkable
class Typed(Protocol):
    """Says of which type its theta is."""

    @property
    def dtype(self) -> Any:
        """Type of theta, or its name."""


@runtime_checkable
class Redundant(Protocol):
    """Knows how many directions of its parameters lead nowhere."""

    @property
    def n_null(self) -> int:
        """Directions of theta along which psi changes by a factor at most, at a generic theta."""


@runtime_checkable
class FollowsOperator(Protocol):
    """Leaves something open that the Hamiltonian decides."""

    def for_operator(self, operator: Any) -> Ansatz:
        """The same kind of state with that decided; itself where nothing is open.

        Args:
            operator: the Hamiltonian.
        """


@runtime_checkable
class SinglePrecision(Typed, Protocol):
    """Can make its sweeps in single precision."""

    @property
    def single(self) -> Sweeps:
        """The same state for a theta in single precision; `Tempered` where this is."""


@runtime_checkable
class Initialisable(Protocol):
    """Makes parameters to start from."""

    @property
    def starts(self) -> tuple[str, ...]:
        """Kinds of start it knows ("simple_update", "random", "product"), the default first."""

    def initial(self, operator: Any, seed: int = 0, kind: str | None = None) -> Array:
        """Make parameters to start from.

        Args:
            operator: the Hamiltonian.
            seed: of random numbers.
            kind: one of `starts`; None is the first.

        Returns:
            theta (P,), on the host.

        Raises:
            ValueError: a kind that is not in `starts`.
        """


def check_start(ansatz: Initialisable, kind: str) -> None:
    """Raise ValueError where an ansatz has no start of this kind."""
    if kind not in ansatz.starts:
        raise no_start(ansatz, kind)


def no_start(ansatz: Any, kind: str) -> ValueError:
    """Give the error for a start that an ansatz has not."""
    starts = ansatz.starts if isinstance(ansatz, Initialisable) else ()
    instead = " or ".join(map(repr, starts)) or "theta of your own"
    return ValueError(
        f"ansatz.init = '{kind}': a {description_of(ansatz)['ansatz']} has no such start; take "
        f"{instead}"
    )


def real_state(operator: Any, found: str) -> ValueError:
    """Give the error for a wave function without phases and a Hamiltonian that needs them."""
    return ValueError(
        f"ansatz: {operator.name} has complex matrix elements in the sampled basis, so that psi has "
        f"phases other than +-1, which a real wave function ({found}) cannot hold; its energy would "
        "be far above the ground state's. Take dtype = 'complex128' (ansatz.dtype in a file), or a "
        "state with complex amplitudes"
    )


@runtime_checkable
class WithOrbits(Protocol):
    """Knows which configurations its symmetries make equivalent."""

    def orbit_classes(self, configs: Array, operator: Any) -> tuple[Array, Array] | None:
        """Sort configurations into orbits.

        Args:
            configs: (B, N), whole orbits.
            operator: the Hamiltonian.

        Returns:
            One member of each orbit (K, N) and the sizes (K,); None where that saves nothing or
            the operator lacks a symmetry.
        """


@runtime_checkable
class Described(Protocol):
    """Says in plain values what it is, so that a file can tell whose parameters it holds."""

    def description(self) -> dict[str, Any]:
        """Plain values (JSON): at least "ansatz"; "D" or "architecture" where it has one."""


def description_of(ansatz: Ansatz) -> dict[str, Any]:
    """Give the `description` of an ansatz, by default the name of its class."""
    if isinstance(ansatz, Described):
        return ansatz.description()
    return {"ansatz": type(ansatz).__name__}
