"""Look at the persistent kernel cache, or empty it."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from tiny_core.cli import output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["info", "clear"], help="what to do")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Do it; returns the exit code."""
    from tiny_core.engine import cache

    if arguments.action == "clear":
        count = cache.clear()
        output.as_json({"removed": count}) if arguments.json else print(f"removed {count} entries")
        return 0
    info = cache.info()
    if arguments.json:
        output.as_json(asdict(info))
        return 0
    print(f"folder   {info.folder}")
    print(f"entries  {info.entries}")
    limit = f"of {info.limit / 1e6:.0f} MB" if info.limit else "not in use (TINY_CACHE=0)"
    print(f"size     {info.nbytes / 1e6:.1f} MB, {limit}")
    return 0
