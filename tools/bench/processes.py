"""Start-up times: fresh Python processes, above a bare interpreter."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from tools.bench.contestants import environment
from tools.bench.result import Json


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process took: seconds on the clock, and seconds of processors."""

    wall: float
    cpu: float


def run_python(code: str, env: Mapping[str, str] | None = None) -> Cost:
    """Run a Python process from start to end; raises CalledProcessError if it fails."""
    command = [sys.executable, "-c", code]
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environment(**(env or {})), stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Cost(wall, used.ru_utime + used.ru_stime)


@final
class AboveBare:
    """A round: the milliseconds that a process running `code` takes longer than one that does nothing, which
    is started right before.

    Args:
        code: what the process runs.
        env: changes to the environment.
    """

    def __init__(self, code: str, env: Mapping[str, str] | None = None) -> None:
        self.code, self.env = code, env
        self._bare: list[float] = []
        self._cpu: list[float] = []

    def __call__(self) -> float:
        bare, full = run_python("pass"), run_python(self.code, self.env)
        self._bare.append(1e3 * bare.wall)
        self._cpu.append(1e3 * (full.cpu - bare.cpu))
        return 1e3 * (full.wall - bare.wall)

    @property
    def notes(self) -> dict[str, Json]:
        """Medians of what a bare interpreter took, and of the processor time above it: on a busy machine the
        latter says more."""
        return {
            "bare_ms": round(statistics.median(self._bare), 1),
            "cpu_ms": round(statistics.median(self._cpu), 1),
        }
