"""Level 7: the method: driver, one step, state, guard, measurement."""
