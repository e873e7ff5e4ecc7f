"""The `tiny` command."""
