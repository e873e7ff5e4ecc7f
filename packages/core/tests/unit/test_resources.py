"""What kernels take of a machine: as text, and in the lines of TINY_DEBUG=2."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tiny_core.devices.cpu.c import CRenderer
from tiny_core.errors import DeviceError
from tiny_core.render.renderer import Arch
from tiny_core.render.resources import Resources


@pytest.mark.parametrize(
    ("takes", "text"),
    [
        (Resources((("vgpr", 24), ("sgpr", 16)), occupancy=16, most=16), "24 vgpr, 16 sgpr, occupancy 16/16"),
        (
            Resources((("vgpr", 256),), 40, 160, 8192, 2, 8, "vgpr"),
            "256 vgpr, 40 spills, 160 B scratch, 8192 B near, occupancy 2/8 (vgpr)",
        ),
        (Resources((("registers", 7),)), "7 registers"),
    ],
)
def test_as_text(takes: Resources, text: str) -> None:
    assert str(takes) == text


def test_a_compiler_that_cannot_tell_says_nothing() -> None:
    try:
        compiler = CRenderer(Arch()).compiler()
    except DeviceError:
        pytest.skip("no C compiler")
    assert compiler.resources(b"", "kernel") is None


def _lines(dev: str) -> list[str]:
    script = "from tiny_core import Tensor; Tensor.empty(64, 64).sum(0).realize()"
    env = {k: v for k, v in os.environ.items() if not k.startswith("TINY_")}
    env |= {"DEV": dev, "TINY_DEBUG": "2", "TINY_CACHE": "0"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return [line for line in done.stderr.splitlines() if re.match(r"\w+ +\d+  r_64_r64", line)]


def test_debug_output_shows_them_where_they_are_known() -> None:
    pytest.importorskip("tiny_renderer_llvm", reason="it reads them from code objects")
    (line,) = _lines("NULL:LLVM:gfx942")
    assert re.search(r"  \d+ vgpr, \d+ agpr, \d+ sgpr,.* occupancy \d/8", line)
    (line,) = _lines("NULL:LLVM:x86_64_v3")
    assert "occupancy" not in line and "vgpr" not in line
