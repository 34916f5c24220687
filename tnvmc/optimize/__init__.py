"""Level 6: rules that turn log-derivatives and local energies into a step of theta.

`solve` sets up the problem that all rules share and solves its linear systems, `sr` and
`first_order` are the rules, `rule` says what one is.  A rule uses the Jacobian of
`ansatz.protocol` and no lattices, operators or samplers; it does not bound, undo or repeat steps
(`vmc.guard` does).
"""
