"""Level 9: the commands."""
