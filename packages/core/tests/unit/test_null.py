"""The NULL device: everything goes in and nothing comes out."""

from __future__ import annotations

import pytest

from tiny_core.devices import null
from tiny_core.devices.null import NullRuntime
from tiny_core.errors import DeviceError, LaunchError, OutOfMemory
from tiny_core.render.renderer import Compiled
from tiny_core.render.signature import Signature
from tiny_core.runtime.queue import Launch, Slot, Submission


def test_handles_are_distinct_and_do_not_overlap() -> None:
    runtime = NullRuntime()
    sizes = (0, 1, 256, 257, 1 << 40)
    handles = [runtime.allocate(n) for n in sizes]
    for (a, n), b in zip(zip(handles, sizes, strict=True), handles[1:], strict=False):
        assert a and a + max(n, 1) <= b and b % runtime.capabilities.align == 0


def test_there_is_an_end_to_addresses() -> None:
    with pytest.raises(OutOfMemory, match="NULL"):
        NullRuntime().allocate(1 << 57)


def test_launches_and_copies_go_through_a_queue() -> None:
    runtime = NullRuntime()
    program = runtime.load(Compiled(Signature("k", ()), b"anything"))
    queue = runtime.queue()
    queue.append(Launch(program, (Slot(0),), (1,), (8, 1, 1)))
    queue.submit(Submission([runtime.allocate(4)]))
    runtime.copy_in(256, memoryview(b"abcd"))
    runtime.copy_peer(256, 512, 4)
    runtime.free(256, 4)
    with pytest.raises(LaunchError, match="no program of NULL"):
        runtime.launch("k", (), (), (1,))


def test_reading_is_an_error_with_a_way_out() -> None:
    with pytest.raises(DeviceError, match="NULL has no data") as caught:
        NullRuntime().copy_out(memoryview(bytearray(4)), 256)
    assert "DEV=CPU" in caught.value.hint
    assert not NullRuntime.capabilities.stores


def test_any_renderer_will_do() -> None:
    (spec,) = null.tiny_runtimes()
    assert spec.device == "NULL" and spec.renderers == ("*",)
