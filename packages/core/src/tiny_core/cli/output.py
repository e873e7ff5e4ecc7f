"""How the commands print: tables and JSON.

A table on a terminal is drawn by rich, which is imported for that alone; elsewhere (a pipe, a file, a bug
report) it is plain text that nothing cuts off.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under `heads`."""
    if sys.stdout.isatty():
        _rich(heads, rows)
    else:
        print(plain(heads, rows))


def plain(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows as aligned text."""
    lines = [heads, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    return "\n".join(
        "  ".join(f"{c:<{w}}" for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def text(lines: str) -> None:
    """Print text; on a terminal, lines that begin with `#` stand out, and indented ones stand back."""
    if not sys.stdout.isatty():
        print(lines)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines.split("\n"):
        style = "bold" if line.startswith("#") else "dim" if line.startswith("    ") else ""
        console.print(Text(line, style=style))


def as_json(value: object) -> None:
    """Print a value as JSON."""
    print(json.dumps(value, indent=2))


_STYLES = {"OK": "green", "WARN": "yellow", "FAIL": "bold red", "--": "dim"}


def _rich(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for head in heads:
        shown.add_column(head, overflow="fold")
    for row in rows:
        shown.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    Console().print(shown)
