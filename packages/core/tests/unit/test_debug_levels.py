"""TINY_DEBUG=1 … 7 as a user sees it: what a small program says at each level, on standard error."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

SCRIPT = """
from tiny_core import Tensor
a = Tensor([[float(i * j % 7) for i in range(64)] for j in range(64)])
w = Tensor([[1.0] * 64] * 64)
h = (a @ w).relu()
print((h @ w).softmax(1).sum(0)[0].item())
"""


def _said(level: int, dev: str = "CPU:C") -> list[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("TINY_")}
    env |= {"DEV": dev, "TINY_DEBUG": str(level), "TINY_CACHE": "0"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == ("1.0\n"), "the program's own output is left alone"
    return done.stderr.splitlines()


def _matching(lines: list[str], pattern: str) -> list[str]:
    return [line for line in lines if re.search(pattern, line)]


SUMMARY = r"^realized \d+ kernels of \d+ steps: scheduled in .*, compiled \d+ in .*, submitted in "
KERNEL = r"^CPU +\d+  r_64_64_r64 +[\d.]+ [µm]?s +[\d.]+ GFLOPS +[\d.]+ GB/s"
BORDER = r"^      border \w+ \[64, 64\]: .*contraction.*; moves \d+ bytes, saves \d+ operations"
SCHEDULE = r"^schedule of 3 items"
OPTIONS = r"^r_64_64_r64: .*tile\(axis="
SOURCE = r"^void r_64_64_r64\("
UOPS = r"^%\d+ : f32 = load %p\d"
REWRITE = r"^  .* \(\w+\.py(:\d+)?\)$"
ASSEMBLY = r"^ *[0-9a-f]+:\t\S"


@pytest.mark.parametrize("level", range(8))
def test_each_level_adds_to_the_lower_ones(level: int) -> None:
    lines = _said(level)
    signs = {
        1: [SUMMARY],
        2: [KERNEL],
        3: [BORDER, SCHEDULE, OPTIONS],
        4: [SOURCE],
        5: [UOPS],
        6: [REWRITE],
        7: [ASSEMBLY],
    }
    for at, patterns in signs.items():
        for pattern in patterns:
            assert bool(_matching(lines, pattern)) == (level >= at), (at, pattern)
    if level == 0:
        assert not lines
    if level == 2:
        assert len(_matching(lines, KERNEL)) == 2 and len(_matching(lines, SUMMARY)) == 1


def test_borders_say_why_with_bytes_and_operations() -> None:
    """Both products are stored: each is read again by rows, and evaluating it there would repeat 64 times
    what 64·64·64 multiplications and additions give once."""
    borders = _matching(_said(3), "^ +border ")
    assert len(borders) == 2
    for border in borders:
        moved, saved = map(int, re.findall(r"moves (\d+) bytes, saves (\d+) operations", border)[0])
        assert moved >= 2 * 64 * 64 * 4, "written once, and read at least once"
        assert saved >= 2 * 64**3 - 64**2, "at least one evaluation more"


@pytest.mark.parametrize("dev", ["PYTHON", "PYTHON:C:x86_64"])
def test_where_nothing_is_compiled_there_is_no_assembly(dev: str) -> None:
    lines = _said(7, dev)
    assert _matching(lines, UOPS) and not _matching(lines, ASSEMBLY)
    assert _matching(lines, r"^\(r_64_64_r64 has no assembly: PYTHON interprets the linear kernel\)$")


def test_where_no_compiler_is_found_the_rest_is_said() -> None:
    script = "from tiny_core import Tensor; (Tensor([1.0, 2.0]) * 3).realize()"
    env = {
        **os.environ,
        "DEV": "NULL:C",
        "TINY_DEBUG": "7",
        "TINY_CACHE": "0",
        "PATH": "",
        "CC": "/nowhere/cc",
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "void e_2(" in done.stderr
    assert "(e_2 has no assembly: NULL has no compiler here)" in done.stderr


def test_a_device_that_runs_nothing_has_no_rates() -> None:
    """Times and rates of kernels that are never run would be invented."""
    script = "from tiny_core import Tensor; (Tensor([1.0] * 2000) * 3).realize()"
    env = {**os.environ, "DEV": "NULL:C:x86_64", "TINY_DEBUG": "2"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    line = done.stderr.splitlines()[0]
    assert re.search(r"^NULL +1  e_2000 +not run +2 kFLOP +16 KB +in use", line), line
    assert "GFLOPS" not in line and "GB/s" not in line
