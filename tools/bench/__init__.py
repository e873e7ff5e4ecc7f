"""Benchmarks with budgets, measured beside a peer in one run: `python tools/bench NAME… [--json FILE]`."""
