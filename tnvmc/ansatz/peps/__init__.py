"""PEPS: state, passes over its rows, windows, pairs, draws, files."""
