"""Floor 3: wave functions, and the seam through which everything above sees them.

`protocol` is the seam, `checks` the conformance suite that every ansatz must pass, `generic` what
an ansatz gets for free.  `peps` is the main state: `layers` lays its tensors out, `windows` plans
which strip serves which term, `passes` goes over the rows.  `simple_update`, `starts` and
`quimb_bridge` make tensors to begin with.
"""
