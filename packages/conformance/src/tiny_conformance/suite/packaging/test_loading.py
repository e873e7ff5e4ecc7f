"""Loading: switched off and on, from several threads, after fork and in a process that is spawned."""

from __future__ import annotations

import os

import pytest

from tiny_conformance.offers import python, serving
from tiny_conformance.target import Target

COMPUTE = "(Tensor([1.0, 2.0, 3.0]) * 2 + 1).sum()"
SHOW = f"y = {COMPUTE}.realize()\nassert not STORES or y.item() == 15.0, y.item()\n"
START = "from tiny_core import Device, Tensor\nSTORES = Device[Device.DEFAULT].runtime.capabilities.stores\n"

THREADS = """
from concurrent.futures import ThreadPoolExecutor
from tiny_core import Device, Tensor
def work(n):
    device = Device[Device.DEFAULT]
    y = ((Tensor([1.0, 2.0, 3.0]) + n) * 2).sum().realize()
    return device, not device.runtime.capabilities.stores or y.item() == 12.0 + 6 * n
with ThreadPoolExecutor(8) as threads:
    found = list(threads.map(work, range(16)))
assert len({id(device) for device, _ in found}) == 1, "it was opened more than once"
assert all(right for _, right in found)
print("fine")
"""

FORK = (
    START
    + """
import os
w = Tensor([float(n) for n in range(1000)]).realize()
pending = w + 1
child = os.fork()
if child == 0:
    code = 1
    try:
        y, z = pending.sum().realize(), (w * 3 - 1).sum().realize()
        if not STORES or (y.item() == 500500.0 and z.item() == 1497500.0):
            code = 0
    finally:
        os._exit(code)
y = pending.sum().realize()
assert not STORES or y.item() == 500500.0
assert os.waitpid(child, 0)[1] == 0, "the child failed"
y = (w * 2).sum().realize()
assert not STORES or y.item() == 999000.0
print("fine")
"""
)

SPAWN = """
from multiprocessing import get_context
from tiny_core import Device, Tensor
if __name__ == "__main__":
    Tensor([1.0]).realize()
    stores = Device[Device.DEFAULT].runtime.capabilities.stores
    text = "(__import__('tiny_core').Tensor([1.0, 2.0, 3.0]) * 2 + 1).sum().realize()"
    text += ".item() == 15.0" if stores else " is not None"
    with get_context("spawn").Pool(1) as pool:
        assert pool.apply(eval, (text,))
    print("fine")
"""


def fine(code: str, target: Target, **env: str) -> None:
    """Run a program in a process of its own; it prints that it is fine."""
    done = python("-c", code, TINY_DEV=target.name, **env)
    assert done.returncode == 0 and done.stdout.endswith("fine\n"), done.stdout + done.stderr


@pytest.mark.needs("executes")
def test_a_new_process(target: Target) -> None:
    fine(START + SHOW + "print('fine')", target)


@pytest.mark.needs("executes")
def test_many_threads_open_one_device(target: Target) -> None:
    fine(THREADS, target)


@pytest.mark.needs("executes")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_child_of_fork_goes_on(target: Target) -> None:
    fine(FORK, target)


@pytest.mark.needs("executes")
def test_a_spawned_process(target: Target) -> None:
    fine(SPAWN, target)


@pytest.mark.needs("executes")
def test_it_can_be_closed_and_opened_again(target: Target) -> None:
    again = "Device.close(Device.DEFAULT)\n"
    fine(START + SHOW + again + SHOW + again + SHOW + "print('fine')", target)


@pytest.mark.needs("executes")
def test_switched_off_and_on(target: Target) -> None:
    plugins = {o.plugin: o.module.partition(".")[0] for o in serving(target) if not o.built_in}
    if not plugins:
        pytest.skip("the target is built into core, and cannot be switched off")
    without = (
        "import sys\n"
        "from tiny_core import Device, Tensor\n"
        "from tiny_core.errors import TinyError\n"
        "try:\n"
        f"    {COMPUTE}.realize()\n"
        "except TinyError as error:\n"
        "    print(type(error).__name__, str(error))\n"
    )
    for plugin, package in plugins.items():
        # refused, or served by another plugin where the target names a device only; never by this one
        check = f"assert {package!r} not in sys.modules, 'it was imported'\nprint('fine')"
        fine(without + check, target, TINY_PLUGINS=f"-{plugin}")
    fine(START + SHOW + "print('fine')", target, TINY_PLUGINS=",".join(plugins))
