"""What a user meets in Python: `VMC`, its arguments, and what its calls share with ranks."""
