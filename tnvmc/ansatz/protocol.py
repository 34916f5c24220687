"""The interface of a wave function: all that samplers, estimators and optimisers see of it.

Arrays flow one way through these types::

    configs -> start -> Walkers -> sweep -> Walkers -> measure -> Snapshot -> estimators, optimisers

`Walkers` are carried from call to call; `SweepInfo` and `Snapshot` are reported and never
come back.  `theta` is one flat vector everywhere: only the ansatz knows tensors or pytrees.
"""

import hashlib
import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, Protocol

from tnvmc.backend.arguments import refuse
from tnvmc.backend.namespace import array_namespace
from tnvmc.jacobian.base import Jacobian
from tnvmc.lattice.lattice import Lattice, Patch
from tnvmc.lattice.permutations import SymmetryGroup

Array = Any  # an array of whichever namespace is in use: numpy, array_api_strict, cupy

Targets = Mapping[Patch, Array]
"""Per patch of k sites an integer table of shape (d**k, R): row `a` lists the local states that
may replace local state `a`, padded with -1.  The local state of a patch is
``sum(config[site_j] * d**(k-1-j))``: its first site is the most significant digit."""


MOVE_KINDS = ("flips", "exchanges", "pair_flips", "terms")
"""What moves are counted by: one site changes; two, and their sum stays; two, and it changes;
more."""


@dataclass(frozen=True)
class LogAmplitude:
    """psi = phase * exp(log_abs), for B configurations; overflow-free at any system size."""

    phase: Array  #: (B,) modulus 1, or 0 where psi vanishes; real or complex
    log_abs: Array  #: (B,) real; -inf where psi vanishes

    def take(self, walkers: Array | None) -> "LogAmplitude":
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

    Columns belong to `MOVE_KINDS`; `ansatz.metropolis` counts.
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
        """All ratios go as one array: those of 112 patches took 2 % of a step on two ranks."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        ratios = own.pop("ratios")
        if len({ratio.dtype for ratio in ratios.values()}) != 1:
            return _restored, (own, ratios, None, ())
        columns = array_namespace(self.configs).concat([*ratios.values()], axis=1)
        widths = tuple(ratio.shape[1] for ratio in ratios.values())
        return _restored, (own, _one_of_a_kind(tuple(ratios)), columns, widths)


def _restored(
    own: dict[str, Any], patches: Any, columns: Array | None, widths: tuple[int, ...]
) -> Snapshot:
    if columns is None:
        return Snapshot(**own, ratios=patches)
    parts = zip(patches, pairwise(accumulate(widths, initial=0)), strict=True)
    return Snapshot(**own, ratios={patch: columns[:, a:b] for patch, (a, b) in parts})


@lru_cache(maxsize=64)
def _one_of_a_kind(patches: tuple[Patch, ...]) -> tuple[Patch, ...]:
    """The same for all equal ones: a pickle holds it once."""
    return patches


@dataclass(frozen=True)
class Execution:
    """How an ansatz should be run; the defaults fit any ansatz."""

    chunk: int = 64  #: configurations per call on the host
    bytes_per_walker: int | None = None  #: on a GPU; None: chunks as on the host
    own_threads: bool = False  #: uses all cores by itself: chunks one after another
    apart: bool = False  #: no bit of a configuration's numbers depends on those in the same call


Draw = Callable[[Array, Any], tuple[Array, Array]]
"""``draw(uniforms (B, N), guide) -> (configs (B, N), log_prob (B,))``."""


class Sweeps(Protocol):
    """The part of `Ansatz` that a chain needs to walk."""

    def start(self, theta: Array, configs: Array) -> Walkers:
        """See `Ansatz.start`."""

    def sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array
    ) -> tuple[Walkers, SweepInfo]:
        """See `Ansatz.sweep`."""

    def tempered_sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array, power: Array
    ) -> tuple[Walkers, SweepInfo]:
        """See `Abilities.tempered_sweep`."""


class Abilities:
    """What a wave function may offer beyond `Ansatz`, with the answers of one that lacks it.

    A state declares what it has by overriding it; nobody asks for its type or its attributes.
    """

    dtype: Any = None  #: type of theta; None: unknown
    scheme: Any = None  #: how it is contracted (`tnvmc.contraction.schemes`); None: by no scheme
    scheme_given: bool = True  #: whether that was chosen; if not, a run may begin at a smaller chi
    coarser: Any = None  #: the same state by a cheaper contraction, for chains to walk on, or None
    starts: tuple[str, ...] = ()  #: kinds of start that `initial` knows, the default first
    tempered: bool = False  #: whether `tempered_sweep` can sample |psi|^(2 power)
    walks: bool = False  #: whether `walk` makes several sweeps in one call
    exact_draws: bool | None = None
    """Whether `drawer` draws from |psi|^2 itself, up to a sector; None: it has no draws."""
    weighted: bool = False  #: whether its sweeps sample another distribution than |psi|^2
    group: SymmetryGroup | None = (
        None  #: symmetries that it is summed over (`wrappers.symmetrised`); None: no sum
    )
    sharing: Any = None  #: symmetries by which tensors are shared (`peps.sharing`); None: none are
    sharing_follows: bool = False  #: whether that is left to the Hamiltonian (`PEPS.shared_for`)
    n_unshared: int | None = None  #: number of parameters without that; None: none are shared
    built_in: tuple[Patch, ...] = ()
    """Rearrangements of the sites that change psi by a factor at most whatever its parameters are,
    beside those of `group` and `sharing`."""
    signed: bool | None = False
    """Whether Marshall's signs stand before what those keep; None: some change its sign."""

    @property
    def kept_by(self) -> tuple[Patch, ...]:
        """Rearrangements of the sites that are known to change psi by a factor at most."""
        if self.group is not None:
            return tuple(g.sites for g in self.group.elements if not g.inverts)
        return () if self.sharing is None else self.sharing.elements

    @property
    def execution(self) -> Execution:
        """How it should be run."""
        return Execution()

    @property
    def n_null(self) -> int | None:
        """Directions of theta along which psi changes by a factor at most; None: unknown."""
        return None

    @property
    def readout(self) -> Array | None:
        """Which parameters make ln psi constant where they vanish, (P,) bool; None: unknown."""
        return None

    def description(self) -> dict[str, Any]:
        """Say what it is in plain values (JSON): "ansatz"; "D" or "architecture" if it has one; of
        a class of the user's own the checksum of its code.
        """
        return {"ansatz": type(self).__name__, **code_of(type(self))}

    def for_operator(self, operator: Any) -> Any:
        """Give the state with open settings decided by a Hamiltonian; itself if none is open."""
        return self

    def with_scheme(self, scheme: Any) -> Any:
        """Give the same state contracted by another scheme; theta carries over."""
        raise self._lacks("contraction scheme")

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
        raise no_start(self, kind or "random")

    def tempered_sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array, power: Array
    ) -> tuple[Walkers, SweepInfo]:
        """Make a `sweep` of walkers that sample |psi|^(2 power), with a power (B,) for each."""
        raise self._lacks("tempered sweep")

    def walk(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array, power: Array | float
    ) -> tuple[Walkers, SweepInfo]:
        """Make K tempered sweeps with uniforms (K, B, n_moves); it stores amplitudes only.

        Returns:
            The walkers after every sweep, (K * B) rows, sweep by sweep; counts (B, kinds) of all.
        """
        raise self._lacks("walk")

    def drawer(self, theta: Array, chi: int | None = None, chi_mpo: int | None = None) -> Draw:
        """Prepare direct draws at theta, with what serves all of them made once.

        Args:
            theta: (P,) parameters.
            chi: bond of the single-layer boundary, if there is one; None: the default.
            chi_mpo: bond of the double-layer boundary, if there is one; None: the default.

        Returns:
            ``draw(uniforms (B, N), guide) -> (configs (B, N), ln q (B,))``.  `guide` is None or
            ``guide(configs, site) -> (B, d)``, factors >= 0 for the conditionals of a site; one
            with a `total` restricts draws to the sector where the local states sum to it.
        """
        raise self._lacks("direct draw")

    def orbit_classes(self, configs: Array, operator: Any) -> tuple[Array, Array] | None:
        """Sort configurations into orbits of its symmetries.

        Args:
            configs: (B, N), on the host.
            operator: the Hamiltonian.

        Returns:
            One member of each orbit (K, N) and the orbit of each configuration (B,); None if that
            saves nothing or the operator lacks a symmetry.
        """
        return None

    def _lacks(self, what: str) -> TypeError:
        return TypeError(f"a {type(self).__name__} has no {what}")


def code_of(kind: type) -> dict[str, str]:
    """Give the checksum of the code that a class of the user's own was made from, by "code".

    It is that of the file; in a script or a notebook, which hold more, of the class alone.
    Nothing where there is no code, nor of classes of this package.
    """
    if kind.__module__.startswith("tnvmc."):
        return {}
    try:
        alone = kind.__module__ == "__main__"
        code = inspect.getsource(kind if alone else sys.modules[kind.__module__])
    except (OSError, TypeError, KeyError):
        return {}
    return {"code": hashlib.sha256(code.encode()).hexdigest()[:16]}


class Ansatz(Abilities, ABC):
    """A parametrised wave function psi_theta(s) on a lattice: the base class of all of them.

    `ansatz.generic.GenericAnsatz` derives `start`, `sweep` and `measure` from `log_amplitude`
    and a Jacobian; a PEPS overrides all three with passes over its rows.  What else a state may
    offer is in `Abilities`.
    """

    lattice: Lattice  #: whose sites a configuration runs over
    local_dim: int  #: local dimension d

    @property
    @abstractmethod
    def n_params(self) -> int:
        """Length P of theta."""

    @abstractmethod
    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """Give psi(s), each configuration by itself.

        Args:
            theta: (P,) parameters.
            configs: (B, N) local states 0..d-1, small integers.

        Returns:
            Phases (B,) and ln|psi| (B,).
        """

    @abstractmethod
    def start(self, theta: Array, configs: Array) -> Walkers:
        """Give walkers at `configs` (B, N) with a cache built for this `theta` (P,)."""

    @abstractmethod
    def sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array
    ) -> tuple[Walkers, SweepInfo]:
        """Propose every move once, with the acceptance of `ansatz.metropolis.acceptance`.

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

    @abstractmethod
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

    def rebuild(self) -> dict[str, Any] | None:
        """Give what makes this state again from a file, in plain values; None: only its maker."""
        return None


def require_ansatz(caller: str, key: str, value: Any) -> None:
    """Raise TypeError for what is no wave function."""
    if not isinstance(value, Ansatz):
        raise refuse(caller, key, value, "a wave function, as PEPS(lattice, D=3)")


def chi_of(ansatz: Ansatz) -> int | None:
    """Give the boundary bond dimension that a state is contracted with; None if it has none."""
    return getattr(ansatz.scheme, "chi", None)


def with_chi(ansatz: Ansatz, chi: int) -> Ansatz:
    """Give the same state contracted with another chi; itself if it is contracted with none."""
    if chi_of(ansatz) is None or not is_dataclass(ansatz.scheme):
        return ansatz
    other: Ansatz = ansatz.with_scheme(replace(ansatz.scheme, chi=chi))  # type: ignore[type-var]
    return other


def check_start(ansatz: Abilities, kind: str) -> None:
    """Raise ValueError if a state has no start of this kind."""
    if kind not in ansatz.starts:
        raise no_start(ansatz, kind)


def no_start(ansatz: Abilities, kind: str) -> ValueError:
    """Give the error for a start that a state has not."""
    instead = " or ".join(map(repr, ansatz.starts)) or "theta of your own"
    return ValueError(
        f"ansatz.init = '{kind}': a {ansatz.description()['ansatz']} has no such start; take "
        f"{instead}"
    )


def real_state(operator: Any, found: str) -> ValueError:
    """Give the error for a wave function without phases and a Hamiltonian that needs them."""
    return ValueError(
        f"ansatz: {operator.name} has complex matrix elements in the sampled basis, so that psi "
        f"has phases other than +-1, which a real wave function ({found}) cannot hold; its energy "
        "would be far above the ground state's. Take dtype = 'complex128' (ansatz.dtype in a "
        "file), or a state with complex amplitudes"
    )
