"""The allocator of a device, and Buffers: reuse, bounds, running out, and who keeps memory alive."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tiny_core import dtypes
from tiny_core.devices.disk import DiskRuntime
from tiny_core.devices.null import NullRuntime
from tiny_core.errors import DeviceError, JitError, OutOfMemory
from tiny_core.ir.uop import UOp
from tiny_core.runtime.buffer import Buffer, known_memory, memory_of, set_memory
from tiny_core.runtime.device import Device
from tiny_core.runtime.memory import Memory, size_class

from .engine_fakes import FakeRuntime, install


@pytest.mark.parametrize("nbytes", [0, 1, 127, 128, 129, 1024, 1025, 99_999, 1 << 20, (1 << 30) + 1])
def test_size_classes_hold_what_was_asked_for_and_waste_little(nbytes: int) -> None:
    size = size_class(nbytes)
    assert size >= nbytes
    assert size % 128 == 0
    assert size <= max(nbytes + nbytes // 8, nbytes + 128)
    assert size_class(size) == size


def test_a_released_block_is_reused_by_the_next_request_of_its_class() -> None:
    memory = Memory(FakeRuntime(), "M")
    first = memory.allocate(1000)
    memory.release(first, 1000)
    assert memory.used() == 0
    assert memory.allocate(1020) == first
    assert (memory.in_use, memory.cached) == (1024, 0)


def test_released_blocks_go_back_to_the_runtime_when_it_is_full() -> None:
    runtime = FakeRuntime(limit=1 << 20)
    memory = Memory(runtime, "M")
    for _ in range(4):
        memory.release(memory.allocate(200_000), 200_000)
        memory.release(memory.allocate(100_000), 100_000)
    memory.allocate(1_000_000)
    assert len(runtime.blocks) == 1
    assert runtime.waits, "memory went back without waiting for the device"


def test_cached_memory_is_bounded_by_the_peak() -> None:
    memory = Memory(NullRuntime(), "M")
    for size in range(1, 200):
        memory.release(memory.allocate(size << 20), size << 20)
    memory.used()
    assert memory.in_use + memory.cached <= memory.peak * 5 // 4 + (64 << 20)


def test_out_of_memory_names_the_largest_live_buffers() -> None:
    device, _ = install(limit=1 << 20)
    kept = [Buffer(device, n, f"weights at model.py:{n}") for n in (100, 600_000, 300_000)]
    for buffer in kept:
        assert buffer.handle
    with pytest.raises(OutOfMemory) as error:
        _ = Buffer(device, 500_000, "activations").handle
    text = str(error.value)
    assert "500" in text and "activations" in text
    assert text.index("model.py:600000") < text.index("model.py:300000") < text.index("model.py:100")


def test_cycles_that_hold_memory_are_collected_before_giving_up() -> None:
    device, _ = install(limit=1 << 20)
    gc.collect()
    loop: list[object] = [Buffer(device, 900_000)]
    assert isinstance(loop[0], Buffer) and loop[0].handle
    loop.append(loop)
    del loop
    assert Buffer(device, 900_000).handle


def test_memory_is_freed_with_the_last_reference_to_the_node() -> None:
    device, _ = install()
    node = UOp.buffer(dtypes.float32, 1000, "FAKE")
    assert memory_of(node) is memory_of(node)
    assert not memory_of(node).allocated and device.memory.used() == 0
    assert memory_of(node).handle and device.memory.used() == size_class(4000)
    reader = node.load(0)
    del node
    assert device.memory.used(), "a graph that reads it keeps it"
    del reader
    assert device.memory.used() == 0


def test_parts_keep_the_whole() -> None:
    device, _ = install()
    node = UOp.buffer(dtypes.float32, 1000, "FAKE")
    part = memory_of(node).part(400, 100)
    assert part.handle == memory_of(node).handle + 400
    assert part.part(8, 8).root is memory_of(node)
    del node
    assert device.memory.used() == size_class(4000)
    del part
    assert device.memory.used() == 0


def test_borrowed_memory_is_not_freed_and_keeps_its_owner() -> None:
    device, _ = install()
    owner = {"some": "array"}
    node = UOp.buffer(dtypes.float32, 4, "FAKE")
    set_memory(node, Buffer(device, 16, external=12345, owner=owner))
    assert memory_of(node).handle == 12345 and not memory_of(node).own
    del node
    assert device.memory.used() == 0


def test_memory_given_away_says_so() -> None:
    device, _ = install()
    gone = Buffer(device, 16)
    gone.given_away = True
    with pytest.raises(JitError, match="given away"):
        _ = gone.handle


def test_a_buffer_over_several_devices_is_refused() -> None:
    with pytest.raises(DeviceError, match="sharded"):
        memory_of(UOp.buffer(dtypes.float32, 4, ("FAKE", "FAKE:1")))


def test_memory_is_known_only_once_touched() -> None:
    install()
    node = UOp.buffer(dtypes.float32, 4, "FAKE")
    assert known_memory(node) is None
    assert memory_of(node) is known_memory(node)


def test_names_of_devices_are_made_canonical() -> None:
    device, _ = install("FAKE")
    other, _ = install("FAKE:1")
    assert Device["fake:0"] is Device["FAKE"] is device
    assert Device["fake:01"] is other
    assert Device.canonicalize("disk:/Tmp/A") == "DISK:/Tmp/A"


def test_storage_is_not_pooled(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(range(100)))
    runtime = DiskRuntime(options={"path": str(path)})
    memory = Memory(runtime, "D")
    handles = [memory.allocate(100), memory.allocate(100)]
    assert handles[0] == handles[1] and memory.used() == 200
    for handle in handles:
        memory.release(handle, 100)
    assert memory.used() == memory.cached == 0
    runtime.close()
