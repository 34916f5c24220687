"""Floor 9: the commands."""
