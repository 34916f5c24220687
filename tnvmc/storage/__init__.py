"""Level 1: files, checkpoints and the folders of runs."""
