"""Level 4: moves, Markov chains, direct draws and enumeration, with their chunks and workers."""
