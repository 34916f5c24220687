"""Level 11: the commands."""
