"""Files: checkpoints and the folders of runs."""
