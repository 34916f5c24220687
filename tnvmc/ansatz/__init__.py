"""Level 4: wave functions.

`protocol` is the interface through which everything above sees them, `generic` what a state gets
for free from its amplitudes, `checks` the conformance suite that every state must pass.  `peps` is
the main state: `layout` cuts theta into tensors, `layers` lays them out for contraction, `windows`
plans which strip serves which term, `passes` goes over the rows.  `initial` makes parameters to
begin with, `wrappers` makes states of states, `neural` holds the networks.
"""
