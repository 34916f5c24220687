"""Level 3: log-derivatives O_k(s) = d ln psi(s) / d theta_k and their linear algebra.

`base` is the interface.  A Jacobian is `dense`, holds one slice per site (`slices`), stands beside
others (`hstack`), or lies on several ranks (`distributed`).  `centered` subtracts the means and has
the matrix between samples, `covariance` the one between parameters; `gram_operator` shares
iterations among ranks.  `gram`, `pieces`, `exact_sums` and `cholesky` compute with the same bits
for any number of threads and ranks.  Nothing here knows a wave function or an optimiser.
"""
