"""The array that users hold: lazy operations, views, assignment."""
