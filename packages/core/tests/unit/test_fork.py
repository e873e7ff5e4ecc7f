"""A process that forks after it has computed: the child goes on by itself, and so does the parent."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")

_FORK = """
import os
from tiny_core import Tensor, jit

n = 300_000  # so large that all threads take part
w = Tensor([2.0] * n).realize()
step = jit(lambda x: (x * w).sum())
for _ in range(3):
    assert step(Tensor([1.0] * n)).item() == 2 * n
pending = w + 1
child = os.fork()
if child == 0:
    ok = step(Tensor([2.0] * n)).item() == 4 * n
    ok = ok and pending.sum().item() == 3 * n and (w * 5 - 1).sum().item() == 9 * n
    w.assign(w * 0)
    ok = ok and w.sum().item() == 0
    grandchild = os.fork()
    if grandchild == 0:
        os._exit(0 if (w + 1).sum().item() == n else 1)
    ok = ok and os.waitpid(grandchild, 0)[1] == 0
    os._exit(0 if ok else 1)
assert (pending * 2).sum().item() == 6 * n
assert os.waitpid(child, 0)[1] == 0
assert w.sum().item() == 2 * n, "the child's assignment is the child's"
assert step(Tensor([3.0] * n)).item() == 6 * n
print("fine")
"""

_BUSY = """
import os, threading
from tiny_core import Tensor

stop = threading.Event()
def work():
    i = 0
    while not stop.is_set():
        x = Tensor.rand(50)
        y = (x * (i % 7 + 1) + x.sum()).softmax(0).sum()
        assert abs(y.item() - 1) < 1e-3
        i += 1

Tensor([1.0]).add(1).realize()
threads = [threading.Thread(target=work) for _ in range(2)]
[t.start() for t in threads]
for _ in range(12):
    child = os.fork()
    if child == 0:  # none of the other threads is here, whatever they were doing
        ok = (Tensor([1.0, 2.0]) + 1).tolist() == [2.0, 3.0] and 0 <= Tensor.rand(1).item() < 1
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
[t.join() for t in threads]
print("fine")
"""


@pytest.mark.parametrize("script", [_FORK, _BUSY], ids=["after use", "while other threads compute"])
@pytest.mark.parametrize("dev", ["CPU", "PYTHON"])
def test_fork(dev: str, script: str) -> None:
    if dev == "PYTHON":
        script = script.replace("300_000", "3_000")
    env = {**os.environ, "DEV": dev}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
