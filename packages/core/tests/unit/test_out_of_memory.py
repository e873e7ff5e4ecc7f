"""No memory left: a typed error that lists the largest tensors by the lines that made them, after which
everything is as it was."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tiny_core import Context, Device, Tensor
from tiny_core.devices.cpu.c import CRenderer
from tiny_core.errors import OutOfMemory
from tiny_core.render.renderer import Arch, Compiler

from .engine_fakes import FakeCompiler, FakeRuntime

HUGE = 1 << 45


def _line(mark: str) -> str:
    """`file:line` of this file's line that ends with a mark."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if line.endswith(f"# {mark}")]
    return f"test_out_of_memory.py:{number}"


def test_a_request_that_no_machine_serves() -> None:
    kept = Tensor.ones(1000, 1000).contiguous().realize()  # kept
    data = Tensor([0.5] * 5000)  # data
    with pytest.raises(OutOfMemory) as raised:
        (Tensor.empty(HUGE) + 1).realize()  # huge
    message, hint = raised.value.message, raised.value.hint
    assert re.search(
        rf"CPU has no [\d.e+]+ GB left for float32\[{HUGE}\] made at .*{_line('huge')}: ", message
    )
    assert "the largest live buffers are " in hint
    assert f"{_line('kept')}" in hint and "float32[1000, 1000] made at " in hint
    assert "float32[5000] made at " in hint and _line("data") in hint
    assert isinstance(raised.value, MemoryError)
    assert (kept.sum() + data.sum()).item() == 1_002_500


@pytest.mark.parametrize("bits", [45, 62, 63, 64, 100, 400])
def test_sizes_beyond_any_integer_type(bits: int) -> None:
    for make in (lambda n: Tensor.zeros(n).contiguous(), lambda n: Tensor.empty(n) * 2):
        with pytest.raises(OutOfMemory):
            make(1 << bits).realize()
    assert Tensor([1.0]).expand(1 << bits)[(1 << bits) - 1 :].tolist() == [1.0]


class _Plain(CRenderer):
    def compiler(self) -> Compiler:
        return FakeCompiler()


def test_nothing_has_run_when_memory_does_not_suffice() -> None:
    """A schedule with a copy between devices runs in parts; what runs first must not have run when what
    comes later has no memory."""
    ran: list[str] = []
    small, large = FakeRuntime(limit=1 << 16), FakeRuntime()
    for name, runtime in (("SMALL", small), ("LARGE", large)):
        Device.install(name, runtime, _Plain(Arch("x86_64")))
    with Context(CACHE=0, WORKERS=0):
        x = Tensor([1.0], device="LARGE").realize()
        x.assign(x + 1)
        y = x.to("SMALL").expand(1 << 20) * 2
        for runtime in (small, large):
            runtime.launch = lambda *_: ran.append("a kernel")  # type: ignore[method-assign]
        with pytest.raises(OutOfMemory):
            y.realize()
    assert not ran and not x.is_realized, "the assignment is still to be done"


_FREED = """
from tiny_core import Tensor, Device
n = 1 << 22
for i in range(200):  # 3.3 GB if nothing were given back
    x = (Tensor.ones(n).contiguous() * i).realize()
print(Device["CPU"].memory.peak < 200_000_000)
"""


def test_what_is_dropped_is_used_again() -> None:
    env = {**os.environ, "DEV": "CPU"}
    done = subprocess.run([sys.executable, "-c", _FREED], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
