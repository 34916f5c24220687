"""Level 7: the method and the state, one step, what follows the steps, guard, measurement."""
