"""Timing of our own work: until the default device is done, not until it is submitted."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from tools.bench.measure import Round


def wait() -> None:
    """Return when the default device has done all that was submitted."""
    from tiny_core import Device

    Device[Device.DEFAULT].synchronize()


def timed(work: Callable[[], object], repeat: int, done: Callable[[], None] | None = None) -> Round:
    """Return a round: the median seconds of `repeat` calls after one that is not counted.

    Args:
        work: what to do; its result is dropped at once, so that its memory can be used again.
        repeat: calls to measure.
        done: waits for the work to be finished.
    """

    def one() -> float:
        start = time.perf_counter()
        work()
        if done is not None:
            done()
        return time.perf_counter() - start

    def measured() -> float:
        one()  # what slept or was evicted while others ran
        return statistics.median(one() for _ in range(repeat))

    return measured
