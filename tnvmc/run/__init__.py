"""Floor 6: settings, the optimisation loop, what is written to disk and shown."""
