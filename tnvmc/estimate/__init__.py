"""Level 6: local values of an operator from a snapshot, and what their mean is worth."""
