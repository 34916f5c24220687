"""The tensors of a PEPS, and theta as all of them one after another."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, Literal, Self

import numpy as np

from tnvmc.ansatz.files import scheme_in_file
from tnvmc.ansatz.peps.fermions import EvenEntries, Variants, told_of
from tnvmc.ansatz.peps.sharing import SharedTensors, Sharing
from tnvmc.ansatz.peps.starts.tensors import bond_sizes
from tnvmc.ansatz.quimb import grid_to_quimb
from tnvmc.backend.arguments import numeric_type, one_of, refuse, whole
from tnvmc.backend.namespace import array_namespace, is_complex, to_host
from tnvmc.contraction.tensors import opened
from tnvmc.jacobian.dense import DenseJacobian
from tnvmc.jacobian.slices import SliceJacobian
from tnvmc.lattice.embedding import Bonds, Embedding, embedding, sides
from tnvmc.lattice.lattice import Lattice, Patch, follows_row, require_lattice
from tnvmc.lattice.permutations import Symmetry
from tnvmc.operators.fermions import Fermions
from tnvmc.operators.symmetry import require_symmetric
from tnvmc.operators.term import Operator

Array = Any


SHORTEST = 3
"""Sites of a ring: two would have two bonds between them, and such a lattice has one."""


def check_bonds(bonds: str, lattice: Lattice) -> Bonds:
    """Give back the kind of bonds if a PEPS on the lattice can have it.

    Raises:
        ValueError: another word; periodic bonds on a lattice whose rows are no rings, or too short.
    """
    one_of("PEPS", "bonds", bonds, ("open", "periodic", "snake"))
    if bonds == "open":
        return "open"
    if bonds == "snake" and lattice.vacant:
        raise ValueError(
            f"PEPS: bonds = 'snake' need a site at every place of the grid, {len(lattice.vacant)} "
            f"places of {lattice.kind} {lattice.size} have none; take bonds = 'open'"
        )
    if bonds == "snake":
        return "snake"
    if lattice.boundary != "cylinder":
        other = "PeriodicMPS(lattice, D)" if lattice.shape[0] == 1 else "open bonds"
        raise ValueError(
            f"PEPS: bonds = 'periodic' close every row to a ring, but the boundary of the lattice "
            f"is {lattice.boundary!r}; take boundary = 'cylinder' (its rows are the rings), "
            f"or {other}"
        )
    if lattice.vacant:
        raise ValueError(
            f"PEPS: bonds = 'periodic' need a site at every place of the grid, "
            f"{len(lattice.vacant)} places of {lattice.kind} {lattice.size} have none; "
            "take bonds = 'open'"
        )
    if lattice.shape[1] < SHORTEST:
        raise ValueError(
            f"PEPS: bonds = 'periodic' on rings of {lattice.shape[1]} sites, which have no closing "
            "bond; take bonds = 'open'"
        )
    return "periodic"


class TensorLayout:
    """One tensor (d, up, left, down, right) for each site of a grid; legs at the rim have size 1,
    and so have those where the lattice joins no neighbours (`tnvmc.lattice.embedding`).

    With periodic bonds the right legs of the last column meet the left ones of the first.
    theta (P,) is the concatenation of all of them, flattened, in the order of the sites; where
    tensors are shared (`peps.sharing`), of the free entries of one tensor of each orbit, and of
    fermions of the even entries (`peps.fermions`).
    """

    scheme: Any
    scheme_given: bool
    n_unshared: int | None = None

    def __init__(
        self, lattice: Lattice, D: int, dtype: str | None = None, local_dim: int = 2,
        bonds: Bonds = "open", sharing: Sharing | Literal["auto"] | None = "auto",
    ) -> None:  # fmt: skip
        if isinstance(D, Lattice):
            raise TypeError("PEPS: the lattice comes first; write PEPS(lattice, D)")
        require_lattice("PEPS", lattice)
        D, local_dim = whole("PEPS", "D", D), whole("PEPS", "local_dim", local_dim, 2)
        if lattice.kind == "graph" and not follows_row(lattice):
            raise ValueError(
                f"PEPS: a list of bonds on {lattice.n_sites} sites without rows and columns, which "
                "are not those of a chain; the state would be a matrix product state along the "
                "numbering. Give from_bonds((n_rows, n_cols), bonds), or take MPS(lattice, D)"
            )
        self.lattice, self.D, self.local_dim = lattice, D, local_dim
        self.bonds = check_bonds(bonds, lattice)
        self.rings = bonds == "periodic"  #: whether the bonds of a row close
        self.dtype = numeric_type("PEPS", "float64" if dtype is None else dtype)
        self.follows = dtype is None  #: whether the dtype is left to the Hamiltonian
        self.sharing_follows = sharing == "auto"  #: whether sharing is left to the Hamiltonian
        self.sharing = None if self.sharing_follows else _checked(sharing, lattice, local_dim)
        self.shared: SharedTensors | None = None
        """Which entries are one parameter; None where all are free."""
        if self.sharing:
            self.shared = SharedTensors(self.sharing, self.embedding, self.shapes)
            self.n_unshared = sum(map(prod, self.shapes))

    def _hold_fermions(self, fermions: Fermions | Literal["auto"] | None) -> None:
        """Take even tensors alone; "auto" leaves it to the Hamiltonian, and takes all until then.

        Raises:
            ValueError: fermions with other local states, D = 1, periodic bonds or shared tensors.
        """
        self.fermions_follow = fermions == "auto"
        self.fermions: Fermions | None = None
        self.even: EvenEntries | None = None
        self.variants: Variants | None = None
        if fermions is None or fermions == "auto":
            return
        if not hasattr(fermions, "odd"):
            raise refuse("PEPS", "fermions", fermions, "those of a Hamiltonian, or None")
        if len(fermions.odd) != self.local_dim:
            raise ValueError(
                f"PEPS: fermions with {len(fermions.odd)} local states, but local_dim = "
                f"{self.local_dim}; write PEPS(lattice, D, local_dim={len(fermions.odd)})"
            )
        if self.rings or self.sharing or self.D < 2:
            what = f"D = {self.D}" if self.D < 2 else "shared tensors" if self.sharing else ""
            raise ValueError(
                f"PEPS: fermions with {what or 'periodic bonds'}; there are even and odd states on "
                "each bond, D = 2 at least, and signs that follow open rows and no symmetry. Take "
                "bonds = 'open', sharing = None"
            )
        self.fermions, self.variants = fermions, Variants(fermions.odd, False)
        self.even = EvenEntries(tuple(self.shapes), fermions.odd)

    def __repr__(self) -> str:
        lattice = self.lattice
        size = f"{lattice.kind} {lattice.size}"
        parts = [size, f"D = {self.D}", *([f"d = {self.local_dim}"] if self.local_dim > 2 else [])]
        parts += [f"{self.bonds} bonds"] if self.bonds != "open" else []
        parts += ["fermions"] if self.fermions else []
        parts += [f"shared by {len(self.sharing)} elements"] if self.sharing else []
        parts += [self.dtype.name, repr(self.scheme)]
        return f"<{type(self).__name__}: {', '.join(parts)}; {self.n_params} parameters>"

    @cached_property
    def embedding(self) -> Embedding:
        """How the lattice lies on the grid of the network."""
        return embedding(self.lattice, self.bonds)

    @property
    def row_bond(self) -> int:
        """Bond of a row when it is contracted: that of a ring carries its closing bond along."""
        return self.D**2 if self.rings else self.D

    @cached_property
    def shapes(self) -> list[tuple[int, int, int, int, int]]:
        """Shape (d, up, left, down, right) of each site's tensor."""
        return [(self.local_dim, *sizes) for sizes in bond_sizes(self.embedding, self.D)]

    def for_operator(self, operator: Operator) -> Self:
        """The same state, complex if its dtype was left open and the Hamiltonian is complex.

        Of fermions if that was left open and the Hamiltonian is of fermions.
        """
        if self.fermions_follow and operator.fermions:
            return self._with(fermions=operator.fermions).for_operator(operator)
        if not self.fermions_follow and self.fermions != operator.fermions:
            what = "no fermions" if self.fermions is None else "its own fermions"
            raise ValueError(
                f"PEPS: made for {what}, {operator.name} has "
                f"{'others' if operator.fermions else 'none'}; leave fermions = 'auto'"
            )
        if self.sharing:
            moves = [tuple(map(int, np.argsort(each))) for each in self.sharing.elements]
            elements = [Symmetry("", sites) for sites in moves]
            require_symmetric("PEPS: sharing", operator, elements, "sharing(hamiltonian)")
            colours = np.array(self.sharing.colours)
            exchange = any((colours[[*sites]] != colours).any() for sites in moves)
            if exchange > operator.conserves_magnetisation:
                told = f"exchange sublattices of signs, and {operator.name} turns spins"
                raise ValueError(f"PEPS: its symmetries {told}; take sharing(hamiltonian)")
        return self._of_type("complex128") if self.follows and operator.is_complex else self

    @abstractmethod
    def _of_type(self, dtype: str) -> Self:
        """The same state for a theta of another type."""

    @abstractmethod
    def _with(self, **changed: Any) -> Self:
        """The same state made with other arguments."""

    @property
    def n_params(self) -> int:
        """Number of entries of theta."""
        if self.even:
            return self.even.n_params
        return self.shared.n_params if self.shared else sum(map(prod, self.shapes))

    @property
    def n_null(self) -> int | None:
        """Directions of theta along which psi changes by a factor at most, at a generic theta.

        Each site's tensor may be scaled, and X put on a bond with its inverse: D^2 - 1 directions
        a bond without the scale of X, which those of the two tensors hold already (Wu, Nys, PRX
        Quantum 7, 033035 (2026)).  A bond that alone joins k sites to the others, as in a chain,
        cannot be filled beyond d^k.
        """
        if self.even:  # X keeps even and odd states apart
            limits = sides(self.embedding).values()
            if any((self.D + 1) // 2 > self.local_dim ** min(k, 64) // 2 for k in limits):
                return None  # not counted where bonds cannot be filled
            gauges = ((self.D + 1) // 2) ** 2 + (self.D // 2) ** 2 - 1
            return self.even.n_idle + self.lattice.n_sites + len(self.embedding.bonds) * gauges
        sizes, places = dict.fromkeys(self.embedding.bonds, self.D), self.embedding.places
        in_bulk = {places[site] for site in self.shared.in_bulk} if self.shared else set()
        for bond, k in sides(self.embedding).items():
            if in_bulk.isdisjoint(bond):  # or its tensors stand elsewhere too, and are filled there
                sizes[bond] = min(self.D, self.local_dim ** min(k, 64))
        if self.sharing:
            filled = SharedTensors(self.sharing, self.embedding, self._shapes_of(sizes))
            return self.n_params - filled.n_params + filled.n_gauge
        gauge = sum(size**2 - 1 for size in sizes.values())
        n_filled = sum(map(prod, self._shapes_of(sizes)))
        return self.n_params - n_filled + gauge + self.lattice.n_sites

    def _shapes_of(self, sizes: Mapping[Patch, int]) -> list[tuple[int, ...]]:
        """Shapes of the tensors with bonds of these sizes."""
        found = self.embedding

        def size(place: int, leg: int) -> int:
            other = found.beyond(place, leg)
            return 1 if other is None else sizes.get((min(place, other), max(place, other)), 1)

        return [(self.local_dim, *(size(place, leg) for leg in range(4))) for place in found.places]

    def description(self) -> dict[str, Any]:
        """Class, D, the bonds where they are not open, and what is shared; for a file."""
        more: dict[str, Any] = {} if self.bonds == "open" else {"bonds": self.bonds}
        more |= {"sharing": self.sharing.told()} if self.sharing else {}
        more |= {"fermions": told_of(self.fermions)} if self.fermions else {}
        return {"ansatz": type(self).__name__, "D": self.D, **more}

    def rebuild(self) -> dict[str, Any]:
        """Give what makes this state again as a part of another one in a file."""
        return {
            "D": self.D, "dtype": self.dtype.name, "bonds": self.bonds,
            "scheme": scheme_in_file(self.scheme) if self.scheme_given else None,
            "sharing": self.sharing and self.sharing.told(),
            "fermions": self.fermions and told_of(self.fermions),
        }  # fmt: skip

    def tensors(self, theta: Array) -> list[Array]:
        """Cut theta (P,) into one tensor (d, up, left, down, right) per site.

        Raises:
            ValueError: theta has another length than this PEPS has parameters.
        """
        if theta.shape != (self.n_params,):
            raise ValueError(
                f"PEPS.tensors: theta has shape {tuple(theta.shape)}, but D={self.D} on "
                f"{self.lattice.shape} has ({self.n_params},); was it made for another D or "
                "lattice, or by a VMC, which may share tensors (take vmc.ansatz)?"
            )
        if self.even:
            return self.even.tensors(theta)
        if self.shared:
            return self.shared.tensors(theta)
        xp = array_namespace(theta)
        tensors, begin = [], 0
        for shape in self.shapes:
            end = begin + prod(shape)
            tensors.append(xp.reshape(theta[begin:end], shape))
            begin = end
        return tensors

    def flatten(self, tensors: Sequence[Array]) -> Array:
        """Join one tensor per site into theta (P,); bonds smaller than D are filled up with zeros.

        Raises:
            ValueError: a tensor is larger than this PEPS holds, or their number is wrong; complex
                tensors for a real PEPS; tensors that differ where this one has them shared.
        """
        if len(tensors) != len(self.shapes):
            raise ValueError(f"PEPS.flatten: {len(tensors)} tensors for {len(self.shapes)} sites")
        xp = array_namespace(*tensors)
        parts = []
        for site, (tensor, shape) in enumerate(zip(tensors, self.shapes, strict=True)):
            if any(have > room for have, room in zip(tensor.shape, shape, strict=True)):
                raise ValueError(
                    f"PEPS.flatten: the tensor of site {site} has shape {tuple(tensor.shape)}, "
                    f"but D={self.D} holds {shape}; use a larger D"
                )
            if self.dtype.kind != "c" and is_complex(tensor):
                raise ValueError(
                    f"PEPS.flatten: the tensor of site {site} is {tensor.dtype}, this PEPS is "
                    f"{self.dtype.name}; make it with dtype = 'complex128'"
                )
            padded = xp.zeros(shape, dtype=getattr(xp, self.dtype.name))
            padded[tuple(slice(0, size) for size in tensor.shape)] = xp.astype(tensor, padded.dtype)
            parts.append(padded)
        if self.shared:
            return self.shared.free_entries(parts)
        if self.even:
            theta = self.even.flatten(parts)
            for site, (part, even) in enumerate(zip(parts, self.tensors(theta), strict=True)):
                if float(xp.max(xp.abs(part - even))) > 0:
                    raise ValueError(
                        f"PEPS.flatten: the tensor of site {site} has entries that are not even "
                        "(parities of spin and bonds, whose states are even and odd by turns, do "
                        "not add to 0), which no PEPS of fermions has"
                    )
            return theta
        return xp.concat([xp.reshape(part, (-1,)) for part in parts])

    def even_part(self, tensors: Sequence[Array]) -> Sequence[Array]:
        """Tensors of fermions without the entries that are no parameters; of spins themselves."""
        if not self.even:
            return tensors
        return self.even.tensors(self.even.flatten(tensors))

    def to_quimb(self, theta: Array) -> Any:
        """Give the state as a quimb PEPS, or a MatrixProductState for one row.

        Vacant places have a tensor with a physical index of size 1.

        Raises:
            ValueError: periodic bonds.
        """
        if self.rings or self.even:
            raise ValueError(
                "PEPS.to_quimb: fermions and periodic bonds are not handed to quimb; psi(s) of "
                "peps.tensors(theta) can be compared, legs (d, up, left, down, right)"
            )
        tensors = [to_host(tensor) for tensor in self.tensors(theta)]
        whole = self.embedding.filled(tensors)
        for place in self.lattice.vacant:
            whole[place] = whole[place][:1]
        return grid_to_quimb(whole, self.lattice.shape)


def open_rows(layout: TensorLayout, theta: Array) -> list[Array]:
    """Tensors of the sites of an open PEPS with the same psi."""
    tensors = layout.tensors(theta)
    return opened(tensors, layout.lattice.shape[1]) if layout.rings else tensors


def jacobian_of(
    layout: TensorLayout, derivatives: Sequence[Array], log_scales: Sequence[float], configs: Array
) -> SliceJacobian | DenseJacobian:
    """Log-derivatives by theta from those (B, up, left, down, right), by place, of scaled tensors.

    `log_scales` are logarithms of the scales that tensors were divided by; configs are (B, N).
    """
    xp = array_namespace(configs)
    slices = [
        xp.reshape(derivatives[place], (configs.shape[0], -1)) * math.exp(-log_scales[place])
        for place in layout.embedding.places
    ]
    if layout.shared:
        return DenseJacobian(layout.shared.derivatives(slices, configs))
    if layout.even and layout.variants:
        found, parities = layout.embedding, layout.variants.parities(configs)
        above = layout.variants.above(found.on_grid(configs), found.shape[1])
        above = found.off_grid(xp.reshape(above, (configs.shape[0], -1)))
        slices = layout.even.derivatives(slices, parities, above)
    return SliceJacobian(slices, configs, layout.local_dim)


def _checked(sharing: Any, lattice: Lattice, local_dim: int) -> Sharing | None:
    if sharing is not None and not isinstance(sharing, Sharing):
        raise refuse("PEPS", "sharing", sharing, "what tnvmc.sharing(hamiltonian) gives, or None")
    if sharing is not None and len(sharing.colours) != lattice.n_sites:
        raise ValueError(
            f"PEPS: sharing is of {len(sharing.colours)} sites, the lattice has {lattice.n_sites}; "
            "make it for the same lattice"
        )
    if sharing is not None and any(len(signs) != local_dim for _, signs in sharing.signs):
        raise ValueError(
            f"PEPS: sharing is for local_dim = {len(sharing.signs[0][1])}, this PEPS has "
            f"{local_dim}"
        )
    return sharing
