"""Level 5: moves, Markov chains, direct draws and enumeration, with their chunks and workers."""
