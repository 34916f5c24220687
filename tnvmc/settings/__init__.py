"""Level 7: settings of a run: models, loading, building."""
