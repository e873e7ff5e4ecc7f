"""The CPU runtime: memory, copies, launches, options, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_core.api import Compiled, LaunchError, OutOfMemory, Signature, TargetError, dtypes
from tiny_core.devices.cpu.memory import KEEP, LARGE, Allocator, size_class
from tiny_core.devices.cpu.plugin import tiny_renderers, tiny_runtimes
from tiny_core.devices.cpu.runtime import CpuProgram, CpuRuntime

from .cpu_programs import Array, aligned, build, load, needs_compiler, params, runtime
from .linear_kernels import Lines


def doubling(size: int) -> Compiled:
    lines = Lines()
    a, b = params(lines, (dtypes.float32, size, "r"), (dtypes.float32, size, "w"))
    axis = lines.loop(size, "i", "thread")
    lines.end(axis, lines.add(b.store(axis, a.load(axis) * 2.0)))
    return build(lines, parallel=size)


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 1000, LARGE - 1, LARGE, LARGE + 1, 5 << 20])
def test_blocks_are_aligned_apart_and_reused(nbytes: int) -> None:
    memory = Allocator()
    assert nbytes <= size_class(nbytes) <= max(nbytes * 1.126, nbytes + 63, 64)
    first, second = memory.allocate(nbytes), memory.allocate(nbytes)
    assert first % 64 == second % 64 == 0 and abs(first - second) >= size_class(nbytes)
    memory.free(first, nbytes)
    assert memory.allocate(nbytes) == first
    memory.free(first, nbytes)
    memory.free(second, nbytes)
    assert memory.live == 0
    memory.close()


def test_free_memory_goes_back_when_it_exceeds_what_was_ever_in_use() -> None:
    memory = Allocator()
    size = KEEP // 4
    for shape in (size, size + (size // 4), size + (size // 2)):
        blocks = [memory.allocate(shape) for _ in range(3)]
        for block in blocks:
            memory.free(block, shape)
        assert memory.kept <= max(KEEP, memory.peak)
    memory.trim()
    assert memory.kept == 0


def test_out_of_memory_is_typed_and_says_how_much() -> None:
    on = CpuRuntime()
    with pytest.raises(OutOfMemory, match=r"1,152,921,504,606,846,976 bytes beside 0 in use"):
        on.allocate(1 << 60)
    handle = on.allocate(100)
    on.free(handle, 100)


@pytest.mark.parametrize("source", [np.arange(100.0), np.arange(200.0)[::2], np.arange(12).reshape(3, 4).T])
def test_copies(source: Array) -> None:
    on = CpuRuntime()
    source = source.copy() if source.flags.c_contiguous else source
    handle, other = on.allocate(source.nbytes), on.allocate(source.nbytes)
    frozen = source.data.toreadonly()
    on.copy_in(handle, frozen)
    on.copy_peer(other, handle, source.nbytes)
    back = np.empty(source.shape, source.dtype)
    on.copy_out(back.data, other)
    assert (back == source).all()
    part = np.empty(source.size - 1, source.dtype)
    on.copy_out(part.data, on.view(other, source.itemsize))
    assert (part == source.ravel()[1:]).all()


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "100000", "²"])
def test_bad_thread_counts_are_refused(text: str) -> None:
    with pytest.raises(TargetError, match="threads"):
        CpuRuntime(options={"threads": text})


def test_threads_option() -> None:
    assert CpuRuntime(options={"threads": "3"}).threads == 3
    assert CpuRuntime().threads >= 1


@needs_compiler
def test_without_a_pool_programs_run_on_the_calling_thread() -> None:
    on = CpuRuntime()
    program = load(doubling(50), on)
    x, y = aligned(50, dtypes.float32, np.arange(50)), aligned(50, dtypes.float32)
    on.launch(program, (x.ctypes.data, y.ctypes.data), (), (50,))
    assert (y == 2 * x).all()
    assert on.pool is None


@needs_compiler
def test_wrong_arguments_are_refused() -> None:
    program = load(doubling(4))
    with pytest.raises(LaunchError, match="takes 2 buffers and 0 scalars, not 1 and 1"):
        runtime().launch(program, (0,), (3,), (4,))


def test_a_binary_of_another_kind_is_refused() -> None:
    with pytest.raises(LaunchError, match="not an ELF object"):
        CpuRuntime().load(Compiled(Signature("kernel", ()), b"#!/bin/sh\n"))


@needs_compiler
def test_closing_stops_the_workers_and_returns_memory() -> None:
    on = CpuRuntime(options={"threads": "2"})
    assert on.capabilities.host_visible and on.capabilities.peers
    from .cpu_programs import pool_binary

    on.host_pool(pool_binary())
    program = load(doubling(64), on)
    handle = on.allocate(512)
    on.launch(program, (handle, handle + 256), (), (64,))
    on.free(handle, 512)
    on.close()
    assert on.memory.live == 0 and isinstance(program, CpuProgram)


def test_declarations_name_classes_that_exist() -> None:
    import importlib

    (device,), (c,) = tiny_runtimes(), tiny_renderers()
    for text in (device.open, c.make):
        module, _, name = text.partition(":")
        assert isinstance(getattr(importlib.import_module(module), name), type)
    assert (device.device, c.name, device.renderers) == ("CPU", "C", ("LLVM", "C"))
