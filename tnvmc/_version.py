"""The version of the package, in the one place that everything else reads."""

__version__ = "0.1.0"
