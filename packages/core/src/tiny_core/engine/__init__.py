"""The engine: drives scheduling and code generation, caches every step, runs and replays the result."""
