"""Level 7: diagnostics of a run, convergence, leaderboard rows."""
