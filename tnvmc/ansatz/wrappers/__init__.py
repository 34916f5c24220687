"""States made of other states: sums over a group, products."""
