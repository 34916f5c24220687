"""Level 11: `VMC` as its user meets it: arguments, ranks, progress, folders, warnings."""
