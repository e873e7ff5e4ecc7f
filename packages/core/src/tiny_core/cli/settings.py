"""Show every setting: its value, where that comes from, and what it does."""

from __future__ import annotations

import argparse
import os

from tiny_core.cli import output
from tiny_core.settings import declared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the settings; returns the exit code."""
    records = []
    for setting in declared():
        names = [f"TINY_{setting.name}", *([setting.alias] if setting.alias else [])]
        records.append(
            {
                "name": names[0],
                "alias": setting.alias,
                "value": setting.value,
                "default": setting.default,
                "from": next((n for n in names if n in os.environ), "default"),
                "codegen": setting.codegen,
                "help": setting.help,
            }
        )
    if arguments.json:
        output.as_json(records)
        return 0
    rows = [[str(r["name"]), repr(r["value"]), str(r["from"]), str(r["help"])] for r in records]
    output.table(["setting", "value", "from", "what it does"], rows)
    return 0
