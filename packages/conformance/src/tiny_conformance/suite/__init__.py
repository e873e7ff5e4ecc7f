"""The tests, a folder for each level: functions with the fixtures of `tiny_conformance.plugin`."""
