"""`tiny acme FILE`: assemble a program of the K1 and say what is in it."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path


def main(words: list[str]) -> int:
    """Run it with the words after `tiny acme`; returns the exit code."""
    from acme_tiny.machine import Program, assemble

    if len(words) != 1 or words[0] in ("-h", "--help"):
        print("usage: tiny acme FILE", file=sys.stderr)
        return 0 if words[:1] in (["-h"], ["--help"]) else 2
    try:
        source = Path(words[0]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        print(f"tiny acme: {words[0]}: {error}", file=sys.stderr)
        return 1
    program = Program(assemble(source, words[0]))
    counts = Counter(op for op, *_ in program.code)
    print(f"{len(program.code)} instructions: {', '.join(f'{n} {op}' for op, n in counts.most_common())}")
    return 0
