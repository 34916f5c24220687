"""Level 10: the commands."""
