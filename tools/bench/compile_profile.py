"""Which Python functions the compilation of the conv-net step spends its time in, by cProfile (which slows
calls down, so read shares, not seconds)."""

from __future__ import annotations

import cProfile
import os
import pstats
import tempfile
from pathlib import Path
from typing import Final

from tools.bench.convnet import BATCH, our_step

TOP: Final = 25


def show() -> str:
    """Compile the step for NULL in this process, with nothing cached; returns the most expensive functions by
    own time."""
    os.environ |= {"DEV": "NULL:LLVM:x86_64", "TINY_WORKERS": "0", "TINY_CACHE": "0"}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TINY_CACHE_DIR"] = folder
        step, x, y = our_step(BATCH, 0)
        profile = cProfile.Profile()
        profile.enable()
        step(x, y)
        profile.disable()
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]  # typeshed does not list it
    whole = sum(own for _, _, own, _, _ in stats.values())
    rows = sorted(stats.items(), key=lambda item: -item[1][2])[:TOP]
    lines = [f"{'own':>6} {'with callees':>12} {'calls':>9}  function   ({whole:.2f} s under the profiler)"]
    for (file, line, function), (_, calls, own, inclusive, _) in rows:
        where = "" if file == "~" else f"{Path(file).parent.name}/{Path(file).name}:{line} "
        lines.append(f"{own / whole:6.1%} {inclusive / whole:12.1%} {calls:9}  {where}{function}")
    return "\n".join(lines)
