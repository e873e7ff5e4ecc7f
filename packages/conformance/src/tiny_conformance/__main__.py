"""`tiny conform TARGET [WORD…]`, which is `tiny-conform` and `python -m tiny_conformance`: run the suite.

In: a target as in `DEV=`, then words for pytest. Out: pytest's exit code; 2 for a target that does not exist.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

USAGE = """usage: tiny conform TARGET [option…] [any word of pytest]

TARGET is what DEV= takes: CPU, CPU:LLVM, PYTHON, NULL:LLVM:gfx1100, …

  --level L          the last level to run: 0 packaging, 1 runtime, 2 operations, 3 engine, 4 models (the
                     default), P figures of speed as well
  --dtypes A,B       test these dtypes only
  -k EXPRESSION      test what the expression matches only: names of tests, files and operations
  -n N               in N processes
  --seed N           of the random numbers that tests draw
  --max-examples N   that each random test tries
  --xfails FILE      expected failures; by default the file conformance-xfails.toml of the plugin
  --json FILE        write a report"""


def main(words: Sequence[str] | None = None) -> int:
    """Run the suite.

    Args:
        words: the command line; None for that of the process.
    """
    words = list(sys.argv[1:] if words is None else words)
    if not words or words[0].startswith("-"):
        asked = bool({"-h", "--help"} & set(words))
        print(USAGE, file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    import pytest

    target, *rest = words
    ours = ["--pyargs", "tiny_conformance.suite", "-p", "tiny_conformance.plugin", "--target", target]
    ours += ["-p", "no:cacheprovider", "--import-mode=importlib", f"--hypothesis-seed={_seed(rest)}"]
    return int(pytest.main([*ours, *rest]))


def _seed(words: Sequence[str]) -> str:
    """The seed that hypothesis has to have: that of `--seed`."""
    for i, word in enumerate(words):
        if word == "--seed" and i + 1 < len(words):
            return words[i + 1]
        if word.startswith("--seed="):
            return word.partition("=")[2]
    return "0"


if __name__ == "__main__":
    sys.exit(main())
