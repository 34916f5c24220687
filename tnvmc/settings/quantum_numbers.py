"""The quantum numbers of a run: which states it may find, and whether two runs may find the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tnvmc.operators.symmetry import SymmetryGroup, symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.settings.config import Settings


@dataclass(frozen=True)
class QuantumNumbers:
    """Twice the total Sz (None: not conserved), and the characters of a state that is summed over symmetries."""

    magnetisation: int | None
    group: SymmetryGroup | None = field(default=None, repr=False)

    @property
    def characters(self) -> Mapping[tuple[tuple[int, ...], bool], int]:
        """By what the elements do, whatever they are called."""
        elements = () if self.group is None else self.group.elements
        return {element.key: element.character for element in elements}

    def hold(self, other: QuantumNumbers) -> bool:
        """Tell whether every state of the other quantum numbers has these too."""
        return (
            self.magnetisation == other.magnetisation
            and self.characters.items() <= other.characters.items()
        )

    def exclude(self, other: QuantumNumbers) -> bool:
        """Tell whether no state has both, so that states of one are orthogonal to those of the other."""
        theirs = other.characters
        differ = any(theirs.get(key, sign) != sign for key, sign in self.characters.items())
        return self.magnetisation != other.magnetisation or differ

    def lies_below(self, other: QuantumNumbers, rotations: bool) -> bool:
        """Tell whether the lowest state of these quantum numbers lies no higher than any of the others.

        So it is where the others have these too.  Where the Hamiltonian has all rotations of the spins every
        multiplet has a state of each smaller |2 Sz|, with the same signs under rearranged sites.
        """
        if self.hold(other):
            return True
        if not rotations or self.magnetisation is None or other.magnetisation is None:
            return False
        if any(inverts for _, inverts in self.characters):
            return False
        smaller = abs(self.magnetisation) <= abs(other.magnetisation)
        return smaller and self.characters.items() <= other.characters.items()


def quantum_numbers(settings: Settings, operator: Operator) -> QuantumNumbers:
    """Give the quantum numbers of the completed settings of a run.

    Raises:
        ValueError: a symmetry that the Hamiltonian lacks, or characters that contradict one another.
    """
    chosen, group = settings.ansatz, None
    if chosen.symmetrise:
        group = symmetry_group(operator, chosen.symmetrise, chosen.characters)
    conserved = operator.conserves_magnetisation
    return QuantumNumbers(settings.sampler.magnetisation if conserved else None, group)
