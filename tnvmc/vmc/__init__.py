"""Level 6: the method: driver, one step, state, guard, measurement."""
