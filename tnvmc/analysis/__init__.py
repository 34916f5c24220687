"""Level 8: diagnostics of a run, convergence, leaderboard rows."""
