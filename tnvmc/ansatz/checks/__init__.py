"""The conformance suite for a wave function."""
