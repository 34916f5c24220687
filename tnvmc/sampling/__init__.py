"""Floor 4: moves, the sampling loop with its chunks and threads, and its exact twin."""
