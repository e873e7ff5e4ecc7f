"""The tests, a file for each kind of operation: functions with the fixtures of `tiny_conformance.plugin`."""
