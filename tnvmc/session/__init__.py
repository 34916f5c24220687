"""Level 11: what a user meets in Python: `VMC`, its arguments, and what surrounds its calls."""
