"""The stand-in; see the README beside it."""

__version__ = "0.1.0"
