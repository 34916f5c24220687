"""Level 8: settings of a run: models, loading, building."""
