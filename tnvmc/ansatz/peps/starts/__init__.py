"""Initial parameters: simple update, product states, random tensors, checkpoints."""
