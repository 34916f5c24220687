"""Level 3: log-derivatives O_k(s) = d ln psi(s) / d theta_k and their linear algebra.

`base` is the interface.  A Jacobian is dense, or holds one slice per site for a tensor network, or
lies on several ranks.  Nothing here knows a wave function or an optimiser.
"""
