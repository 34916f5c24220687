"""Level 5: moves, Markov chains, direct draws and enumeration, with their chunks and workers."""

FEWEST_WALKERS = 8
"""Fewest walkers whose scatter gives an error of the mean; chains of fewer are cut into blocks."""
