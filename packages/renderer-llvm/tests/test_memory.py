"""Masks, gates, alignment and near memory. A page that may not be touched lies behind the arrays."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from typing import Literal

import numpy as np
import pytest
from llvm_kernels import HOST, Array, Body, closed, levels, numpy_dtype, render, run, variable

from tiny_core.api import Arch, DType, Ops, UOp, dtypes
from tiny_renderer_llvm import caches
from tiny_renderer_llvm.renderer import LLVMRenderer

F32, I64 = dtypes.float32, dtypes.int64


class Fence:
    """Memory that ends where a page without permissions begins."""

    def __init__(self) -> None:
        self.page = mmap.PAGESIZE
        self.map = mmap.mmap(-1, 2 * self.page)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        libc = ctypes.CDLL(None)
        assert libc.mprotect(ctypes.c_void_p(self.base + self.page), ctypes.c_size_t(self.page), 0) == 0

    def array(self, values: Array) -> Array:
        """A copy of `values` that ends at the forbidden page."""
        at = self.page - values.nbytes
        view = np.frombuffer(self.map, values.dtype, values.size, at)
        view[:] = values
        return view


@pytest.fixture
def fence() -> Iterator[Fence]:
    yield Fence()


def mask(first: UOp, lanes: int, stop: UOp) -> UOp:
    """Which of `lanes` positions from `first` on lie below `stop`."""
    offsets = UOp(Ops.STACK, I64, tuple(UOp.const(i, I64) for i in range(lanes)))
    return first.splat(lanes).alu(Ops.ADD, offsets).alu(Ops.CMPLT, stop.splat(lanes))


_STORED = [dtypes.bool_, dtypes.int8, dtypes.float16, F32, dtypes.float64]


@pytest.mark.parametrize("arch", levels())
@pytest.mark.parametrize("dtype", _STORED, ids=lambda d: d.name)
def test_masked_tails_touch_nothing_beyond(dtype: DType, arch: str) -> None:
    can = LLVMRenderer(Arch(arch)).capabilities
    if dtype not in can.dtypes:
        return
    lanes, n = max(can.widths(dtype)), 2 * max(can.widths(dtype)) - 3
    body = Body()
    i = body(UOp.range(UOp.const(2, I64), "i"))
    at = i * lanes
    gate = mask(at, lanes, variable("n", 0, 256))
    x = body(UOp.param(0, dtype, n).load(at, gate, UOp.const(1, dtype, lanes), lanes))
    whole = body(UOp.param(1, dtype, 2 * lanes, "w").store(at, x))
    part = body(UOp.param(2, dtype, n, "w").store(at, x, gate))
    body(closed(i, whole, part))
    data = (np.arange(n) % 5).astype(numpy_dtype(dtype))
    source, sink = Fence().array(data), Fence().array(np.zeros_like(data))
    full = np.zeros(2 * lanes, data.dtype)
    run(body, [source, full, sink], [n], arch=Arch(arch))
    assert (sink == data).all()
    assert (full[:n] == data).all()
    assert (full[n:] == 1).all()


@pytest.mark.parametrize("on", [False, True])
@pytest.mark.parametrize("dtype", [dtypes.bool_, dtypes.int32, dtypes.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("lanes", [0, 4])
def test_a_gate_for_all_lanes(dtype: DType, on: bool, lanes: int, fence: Fence) -> None:
    # the constant alternative, one that is computed, and a gated store; beyond the end where the gate is off
    n = max(lanes, 1)
    body = Body()
    gate = variable("gate", 0, 1).ne(0)
    at = UOp.const(0, I64) if on else variable("far", 0, 1 << 20)
    gates = gate.splat(lanes)
    x = UOp.param(0, dtype, n)
    a = body(x.load(at, gates, UOp.const(1, dtype, lanes), lanes))
    other = body(UOp.param(1, dtype, n).load(0, lanes=lanes))
    b = body(x.load(at, gates, other, lanes))
    body(UOp.param(2, dtype, n, "w").store(0, a))
    body(UOp.param(3, dtype, n, "w").store(0, b))
    body(UOp.param(4, dtype, n, "w").store(at, a, gates))
    t = numpy_dtype(dtype)
    data = fence.array(np.zeros(n, t))
    alternative = np.resize(np.array([1, 0, 1, 1], t), n)
    got = [np.full(n, 7).astype(t) for _ in range(2)]
    sink = Fence().array(np.ones(n, t) * np.array(1, t))
    scalars = [1] if on else [100_000, 0]
    run(body, [data, alternative, *got, sink], scalars)
    assert (got[0] == (0 if on else 1)).all()
    assert (got[1] == (data if on else alternative)).all()
    assert (sink == (0 if on else 1)).all()


def test_alignment_is_believed_only_where_it_is_claimed() -> None:
    # an address that is no multiple of the vector: an aligned instruction would fault
    body = Body()
    body(UOp.param(1, F32, 17, "w").store(1, body(UOp.param(0, F32, 17).load(1, lanes=16, align=4))))
    x, got = np.arange(17, dtype=np.float32), np.zeros(17, np.float32)
    run(body, [x, got])
    assert (got[1:] == x[1:]).all() and got[0] == 0


def test_near_memory_is_private_and_large() -> None:
    # a tile is transposed through near memory of 256 KiB
    n = 256
    body = Body()
    x, out = UOp.param(0, F32, n * n), UOp.param(1, F32, n * n, "w")
    tile = UOp.near(F32, n * n, 0)
    i = body(UOp.range(UOp.const(n * n, I64), "i"))
    filled = body(closed(i, body(tile.store(i, x.load(i)))))
    j = body(UOp.range(UOp.const(n, I64), "j"))
    k = body(UOp.range(UOp.const(n, I64), "k"))
    value = body(tile.after(filled).load(k * n + j))
    body(closed(j, body(closed(k, body(out.store(j * n + k, value))))))
    data, got = np.random.default_rng(1).normal(size=(n, n)).astype(np.float32), np.zeros((n, n), np.float32)
    run(body, [data, got])
    assert (got == data.T).all()


def test_any_byte_but_zero_reads_as_true() -> None:
    body = Body()
    body(UOp.param(1, dtypes.bool_, 8, "w").store(0, body(UOp.param(0, dtypes.bool_, 8).load(0, lanes=8))))
    got = np.zeros(8, np.uint8)
    run(body, [np.array([0, 1, 2, 255, 0, 128, 1, 0], np.uint8), got])
    assert got.tolist() == [0, 1, 1, 1, 0, 1, 1, 0]


def test_a_strided_gather_is_a_stack_of_scalars() -> None:
    body = Body()
    x = UOp.param(0, F32, 64)
    lanes = tuple(body(x.load(i * 3)) for i in range(16))
    body(UOp.param(1, F32, 16, "w").store(0, body(UOp(Ops.STACK, F32, lanes))))
    data, got = np.arange(64, dtype=np.float32), np.zeros(16, np.float32)
    run(body, [data, got])
    assert (got == data[:48:3]).all()


@pytest.mark.parametrize(
    ("access", "size", "lanes", "past"),
    [("w", 256, 16, True), ("rw", 256, 16, False), ("w", 128, 16, False), ("w", 256, 8, False)],
)
def test_large_results_go_past_the_caches(
    access: Literal["w", "rw"], size: int, lanes: int, past: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole lines of what is only written and at least as large as the outermost cache, here 1 KB."""
    if HOST != "x86_64" or lanes not in LLVMRenderer(Arch()).capabilities.widths(F32):
        pytest.skip("the host has no vectors of a whole cache line")
    monkeypatch.setattr(caches, "last_cache", lambda: 1024)
    body = Body()
    out = body(UOp.param(0, F32, size, access, 64))
    i = body(UOp.range(UOp.const(size // lanes, I64), "i"))
    body(closed(i, body(out.store(i * lanes, UOp.const(3.0, F32, lanes), align=4 * lanes))))
    text = render(body)
    assert ("!nontemporal" in text) == ("@llvm.x86.sse.sfence" in text) == past
    memory = np.zeros(size + 16, np.float32)
    aligned = memory[-memory.ctypes.data % 64 // 4 :][:size]
    run(body, [aligned])
    assert (aligned == 3).all()
