"""Level 3: log-derivatives O_k(s) = d ln psi(s) / d theta_k and their linear algebra.

`base` is the interface.  A Jacobian is `dense`, holds one slice per site (`slices`), stands beside
others (`hstack`), or lies on several ranks (`distributed`).  `centered` subtracts the means; of what
that gives, `covariance` is the matrix between parameters and `sample_space` the one between samples.
`gram`, `pieces`, `exact_sums` and `cholesky` compute with the same bits for any number of threads
and ranks.  Nothing here knows a wave function or an optimiser.
"""
