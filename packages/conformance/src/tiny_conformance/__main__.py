"""`tiny-conform TARGET [WORD…]`: run the suite on a target.

In: a target as in `DEV=`, then words for pytest. Out: pytest's exit code; 2 for a target that does not exist.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

USAGE = """usage: tiny-conform TARGET [--dtypes A,B] [--seed N] [--json FILE] [any word of pytest]

TARGET is what DEV= takes: CPU, CPU:LLVM, PYTHON, NULL:LLVM:gfx1100, …"""


def main(words: Sequence[str] | None = None) -> int:
    """Run the suite.

    Args:
        words: the command line; None for that of the process.
    """
    import pytest

    words = list(sys.argv[1:] if words is None else words)
    if not words or words[0].startswith("-"):
        print(USAGE, file=sys.stdout if {"-h", "--help"} & set(words) else sys.stderr)
        return 0 if {"-h", "--help"} & set(words) else 2
    target, *rest = words
    ours = ["--pyargs", "tiny_conformance.suite", "-p", "tiny_conformance.plugin", "--target", target]
    return int(pytest.main([*ours, "-p", "no:cacheprovider", "--import-mode=importlib", *rest]))


if __name__ == "__main__":
    sys.exit(main())
