"""Level 7: the method: one step, settings that follow the steps, guard, measurement."""
