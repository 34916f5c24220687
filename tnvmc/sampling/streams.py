"""Addresses of random numbers below the seed: no two purposes of a run share one.

Steps of an optimisation use their own number, which stays below 2^31.  Within a stream numbers are
told apart by sweep (or `DRAW_PASS`), walker and move.
"""

CHARACTERS = 2**31 - 1
"""Signs of a state under symmetries."""

MEASURE = 2**31
"""+ step: energy of the state after that step."""

OBSERVABLES = 2**31 + 2**30
"""+ part: observables of every sample."""

EXPECT = OBSERVABLES + 2**28
"""+ part: expectation value of one operator."""

PAIRS = OBSERVABLES + 2**29
"""+ part: scalar products of all pairs."""

BURN_IN = PAIRS + 2**28
"""Walkers that a measurement of a run puts elsewhere."""

CHOICE = BURN_IN + 2**27
"""+ 0 to 3: energies of the points that may be measured."""

KEPT = CHOICE + 8
"""+ 0 to 2: samples of states that a run is kept orthogonal to, for its steps, for a measurement,
and for their energies.
"""

OVERLAP = KEPT + 8
"""+ 0 and 1: samples of the two states of an overlap, or of two copies of one state."""

RARE = CHOICE + 2**26
"""+ 0 and 1: samples of a power of |psi|^2 after those of a measurement."""

LANCZOS = CHOICE + 2**25
"""+ part: samples of a Lanczos step; what H connects with them has the third pass."""

ACCURATE = RARE + 16
"""Samples that an error takes, after those that say how many; + 1 to 4: in place of those that
still remember the start of their chains."""

DISORDER = RARE + 8
"""Random couplings of a realisation; the pass tells which coupling."""

DRAW_PASS = 2**31
"""Pass of direct draws; their pilot takes the next one."""
