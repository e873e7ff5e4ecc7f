"""The tests, a file for each kind of operation. Plain functions; their fixtures are in `tiny_conformance.plugin`."""
