"""TINY_DEBUG: what each level adds, of real kernels on a small device."""

from __future__ import annotations

import pytest

from tiny_core.engine.report import GlobalCounters, duration
from tiny_core.runtime.memory import human
from tiny_core.settings import Context
from tiny_core.tensor.capture import jit
from tiny_core.tensor.tensor import Tensor


def _lines(level: int, size: int, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """What is said at a level about a kernel that no other test has."""
    with Context(DEV="PYTHON:C:x86_64", DEBUG=level, WORKERS=0, CACHE=0):
        x = Tensor([0.5] * size)
        x.realize()
        capfd.readouterr()
        (x * x + level).realize()
    return capfd.readouterr().err.splitlines()


def _has(lines: list[str], text: str) -> bool:
    return any(text in line for line in lines)


@pytest.mark.parametrize("level", range(8))
def test_each_level_says_what_the_lower_ones_say_and_more(
    level: int, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = _lines(level, 20 + level, capfd)
    signs = {
        1: "realized 1 kernels of 1 steps: scheduled in",
        2: "GFLOPS",
        3: "schedule of 1 items",
        4: "linear ",  # the source, for a device that interprets
        5: "sink",
    }
    for at, sign in signs.items():
        assert _has(lines, sign) == (level >= at), (at, sign)
    assert _has(lines, ".py:") == (level >= 6), "a rewrite is shown with the place of its rule"


def test_a_replay_reports_too(capfd: pytest.CaptureFixture[str]) -> None:
    f = jit(lambda x: (x + 1).sum())
    with Context(DEV="PYTHON"):
        x = Tensor([1.0, 2.0])
        f(x)
        capfd.readouterr()
        with Context(DEBUG=2):
            GlobalCounters.reset()
            f(x)
    lines = capfd.readouterr().err.splitlines()
    assert "GFLOPS" in lines[0] and lines[-1].startswith("replayed")
    assert GlobalCounters.time_sum_s > 0


def test_sizes_and_times_are_for_people() -> None:
    assert [human(n) for n in (12, 1200, 1_500_000, 2_000_000_000)] == [
        "12 bytes",
        "1.2 KB",
        "1.5 MB",
        "2 GB",
    ]
    assert [duration(s) for s in (2.5, 0.0123, 4.5e-6, 3e-8)] == ["2.5 s", "12.3 ms", "4.5 µs", "30 ns"]
