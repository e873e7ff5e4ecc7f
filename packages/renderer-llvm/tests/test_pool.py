"""The worker pool in LLVM IR, compiled by LLVM and driven by core's CPU runtime."""

from __future__ import annotations

import ctypes
import platform
from functools import cache

import numpy as np
import pytest
from llvm_kernels import Body, compiled, numpy_dtype

from tiny_core.api import Arch, Compiled, Ops, UOp, dtypes, queue
from tiny_core.devices.cpu import elf, loader
from tiny_core.devices.cpu import pool as pool_module
from tiny_core.devices.cpu.pool import FUNCTIONS, Batch, Pool, Record
from tiny_core.devices.cpu.runtime import CpuRuntime
from tiny_renderer_llvm.pool import pool_ir
from tiny_renderer_llvm.renderer import LLVMRenderer

native = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="no pool for this machine"
)


@cache
def pool_binary() -> bytes:
    renderer = LLVMRenderer(Arch())
    return renderer.compiler().compile(renderer.host_pool(), FUNCTIONS[0])


def counting(size: int) -> Body:
    """Adds 1 to each of `size` numbers, one an iteration of the thread axis."""
    body = Body()
    a = body(UOp.param(0, dtypes.int64, size, "rw", 8))
    axis = body(UOp.range(UOp.const(size, dtypes.int64), "i", "thread"))
    body(UOp(Ops.END, dtypes.void, (axis, body(a.store(axis, a.load(axis) + 1)))))
    return body


def object_of(body: Body) -> loader.LoadedObject:
    return loader.load(compiled(body))


@native
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize(("spin", "slice_ns"), [(50_000, 50_000_000), (0, 50_000_000), (50_000, 0)])
def test_every_iteration_runs_once(
    threads: int, spin: int, slice_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "SPIN", spin)
    monkeypatch.setattr(pool_module, "SLICE", slice_ns)
    pool = Pool(pool_binary(), threads)
    for size, chunks in ((1, 1), (5, 5), (97, 4), (1000, 256), (3, 2)):
        code, array = object_of(counting(size)), np.zeros(size, np.int64)
        records = [Record(code.entry("kernel"), 0, 1, size, chunks)] * 60
        pool.run(Batch(records, [array.ctypes.data], [], 0))
        assert (array == 60).all(), (size, chunks)
    pool.close()


@native
def test_cancel_waits_and_leaves_the_rest_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that a slice ended is cancelled: what was claimed has run once, the rest never does, and a later
    run works."""
    monkeypatch.setattr(pool_module, "SLICE", 0)
    pool = Pool(pool_binary(), 3)
    code, array = object_of(counting(200)), np.zeros(200, np.int64)
    batch = Batch([Record(code.entry("kernel"), 0, 1, 200, 200)], [array.ctypes.data], [], 0)
    run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(pool._object.entry(FUNCTIONS[0]))
    cancel = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(pool._object.entry(FUNCTIONS[1]))
    assert run(pool._address, batch.address) == 0  # no worker yet: this thread did one chunk
    while not cancel(pool._address):
        pass
    batch.rewind()
    assert array.sum() == 1
    pool.run(batch)
    assert array.sum() == 201
    pool.close()


@native
def test_copies_and_time_stamps() -> None:
    on = CpuRuntime(options={"threads": "2"})
    on.host_pool(pool_binary())
    work = on.queue()
    for command in (
        queue.Timestamp(0), queue.Copy(queue.Slot(1, 1), queue.Slot(0, 3), 200_001), queue.Timestamp(1),
    ):  # fmt: skip
        work.append(command)
    x = np.random.default_rng(1).integers(0, 255, 200_010, np.uint8)
    y = np.zeros_like(x)
    submission = queue.Submission([x.ctypes.data, y.ctypes.data])
    work.submit(submission)
    assert (y[1:200_002] == x[3:200_004]).all() and y[0] == 0 and not y[200_002:].any()
    assert 0 < submission.stamps[0] <= submission.stamps[1]
    on.close()


@native
def test_kernels_launch_through_the_runtime() -> None:
    on = CpuRuntime(options={"threads": "2"})
    on.host_pool(pool_binary())
    body = counting(50)
    program = on.load(Compiled(body.signature(), compiled(body)))
    array = np.zeros(50, numpy_dtype(dtypes.int64))
    on.launch(program, (array.ctypes.data,), (), (50,))
    assert (array == 1).all()
    on.close()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_library_is_called(machine: str) -> None:
    renderer = LLVMRenderer(Arch(machine))
    assert renderer.host_pool() == pool_ir(f"{machine}-unknown-linux-gnu")
    parsed = elf.parse(renderer.compiler().compile(renderer.host_pool(), FUNCTIONS[0]))
    assert not parsed.undefined()
    assert {s.name for s in parsed.symbols if s.binding == 1} == set(FUNCTIONS)
    layout = loader.lay_out(parsed, 4096)
    loader.link(parsed, layout, memoryview(bytearray(layout.nbytes)), 0x7F00_0000_0000)
