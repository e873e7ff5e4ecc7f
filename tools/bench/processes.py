"""Start-up times: fresh Python processes, above a bare interpreter."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping

from tools.bench.contestants import environment
from tools.bench.measure import Round


def process_time(code: str, env: Mapping[str, str] | None = None) -> float:
    """Return the seconds from starting a Python process that runs `code` to its end; raises
    CalledProcessError."""
    full = environment(**(env or {}))
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], env=full, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def above_bare(code: str, env: Mapping[str, str] | None = None) -> Round:
    """Return a round: the milliseconds that a process running `code` takes longer than one that does nothing,
    which is started right before."""

    def measured() -> float:
        bare = process_time("pass")
        return 1e3 * (process_time(code, env) - bare)

    return measured
