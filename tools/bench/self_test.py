"""Contestants for the harness's own tests."""

from __future__ import annotations

import sys
from itertools import count
from typing import Final

from tools.bench.contestants import Params, Setup, Work


def _count(params: Params) -> Work:
    print("this goes to standard error, not among the answers")
    step = params["step"]
    assert isinstance(step, int)
    numbers = count(step, step)
    return Work(lambda: float(next(numbers)), {"step": step})


def _fails(params: Params) -> Work:
    raise RuntimeError("as it should")


def _exits(params: Params) -> Work:
    return Work(lambda: sys.exit(3))


CONTESTANTS: Final[dict[str, Setup]] = {"count": _count, "fails_in_setup": _fails, "exits_in_a_round": _exits}
