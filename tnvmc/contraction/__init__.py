"""Level 2: truncated contraction of one layer of a PEPS at fixed spins, for a batch of walkers.

Legs, drawn once.  Every array has a leading walker axis B, or 1 where all walkers share it::

                 up                         left --[boundary]-- right
                  |                                    |
        left --[site]-- right                       vertical
                  |
                down

    site tensor of theta      (d, up, left, down, right)
    boundary tensor           (B, vertical, left, right)
    environment of k rows     (B, top, row_1, ..., row_k, bottom)

Rows run downward, columns left to right.  A transfer absorbs one column into an environment with
three kinds of matrix product and no transposition.  To that end a tensor is laid out for the
direction in which it is used, with what comes out in front of what goes in:

    ==========  ========================  ========================
    used as     rightward                 leftward
    ==========  ========================  ========================
    top         (right, vertical, left)   (left, vertical, right)
    site        (right, down, up, left)   (left, down, up, right)
    bottom      (vertical, left, right)   (vertical, right, left)
    ==========  ========================  ========================
"""
