"""tiny: a small tensor compiler whose every edge is a plugin."""

__version__ = "0.1.0"
