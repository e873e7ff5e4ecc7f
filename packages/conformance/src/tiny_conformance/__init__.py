"""The tests that any backend of tiny must pass, as a pytest kit: `python -m tiny_conformance TARGET`."""

__version__ = "0.1.0"
