"""States made of other states: symmetrised, mixed precision."""
