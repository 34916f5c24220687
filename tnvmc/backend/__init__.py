"""Level 0: array namespaces, random streams, batched products and decompositions.

Nothing here knows about lattices or wave functions, and nothing above it branches on a device.
"""
