"""Whole kernels through the C renderer: tails by masks, accumulators, tiles, near memory, lanes, against
numpy."""

from __future__ import annotations

import mmap
import platform

import numpy as np
import pytest

from tiny_core.api import DType, Ops, RenderError, UOp, dtypes, payload
from tiny_core.devices.cpu import libc
from tiny_core.ir.uop import UOp as Node

from .cpu_programs import (
    Array,
    aligned,
    build,
    feature_levels,
    needs_compiler,
    numpy_dtype,
    params,
    renderer,
    run,
)  # fmt: skip
from .linear_kernels import Lines, i32, register, signature

pytestmark = needs_compiler
LEVELS = feature_levels()
LEVEL_IDS = [",".join(n for n, _ in f) or "host" for f in LEVELS]
RNG = np.random.default_rng(20)


def lane_numbers(lanes: int) -> UOp:
    return UOp(Ops.STACK, dtypes.int32, tuple(i32(k) for k in range(lanes)))


def before_a_hole(data: Array) -> tuple[Array, mmap.mmap]:
    """A copy of `data` whose last byte is the last one that may be touched."""
    page = libc.page_size()
    pages = -(-data.nbytes // page)
    memory = mmap.mmap(-1, (pages + 1) * page)
    whole = np.frombuffer(memory, np.uint8)
    libc.protect(whole.ctypes.data + pages * page, page, 0)
    end = pages * page
    array = whole[end - data.nbytes : end].view(data.dtype)
    array[:] = data
    return array, memory


@pytest.mark.parametrize("features", LEVELS, ids=LEVEL_IDS)
@pytest.mark.parametrize(
    "dtype", [dtypes.float32, dtypes.float64, dtypes.int8, dtypes.uint16, dtypes.bool_, dtypes.float16],
    ids=lambda d: d.name,
)  # fmt: skip
def test_masked_tail_touches_nothing_behind_the_end(
    dtype: DType, features: tuple[tuple[str, bool], ...]
) -> None:
    if dtype not in renderer(features).capabilities.dtypes:
        pytest.skip("half precision needs more of the target")
    for lanes in renderer(features).capabilities.widths(dtypes.float32):
        size = 3 * lanes + 1
        lines = Lines()
        a = lines.add(UOp.param(0, dtype, size, "r", dtype.itemsize))
        b = lines.add(UOp.param(1, dtype, size, "w", dtype.itemsize))
        axis = lines.loop(4, "i")
        at = axis * lanes
        gate = lines.add(at.splat(lanes) + lane_numbers(lanes) < size)
        other = UOp.const(1, dtype, lanes)
        value = lines.add(a.load(at, gate, other, lanes=lanes))
        result = value if dtype is dtypes.bool_ else value + other
        lines.end(axis, lines.add(b.store(at, result, gate)))
        data = (np.arange(size) % 5).astype(numpy_dtype(dtype))
        (source, keep), (dest, keep_too) = before_a_hole(data), before_a_hole(np.zeros_like(data))
        run(build(lines, features=features), [source, dest])
        want = data if dtype is dtypes.bool_ else data + np.ones((), data.dtype)
        assert (dest == want).all(), lanes
        del source, dest
        assert keep and keep_too


def test_gated_scalars() -> None:
    lines = Lines()
    a, b = params(lines, (dtypes.int32, 10, "r"), (dtypes.int32, 20, "w"))
    axis = lines.loop(20, "i")
    gate = lines.add(axis < 10)
    lines.end(axis, lines.add(b.store(axis, a.load(axis, gate, -7), lines.add(axis.ne(15)))))
    source, _keep = before_a_hole(np.arange(10, dtype=np.int32))
    dest = aligned(20, dtypes.int32, 99)
    run(build(lines), [source, dest])
    want = np.r_[np.arange(10), [-7] * 10]
    want[15] = 99
    assert dest.tolist() == want.tolist()


@pytest.mark.parametrize("features", LEVELS, ids=LEVEL_IDS)
def test_row_sums_with_vector_accumulators(features: tuple[tuple[str, bool], ...]) -> None:
    rows, columns = 7, 128
    lanes = renderer(features).capabilities.widths(dtypes.float32)[-1]
    lines = Lines()
    a, out = params(lines, (dtypes.float32, rows * columns, "r"), (dtypes.float32, rows, "w"))
    accumulator = lines.add(register(dtypes.float32, 2, lanes=lanes))
    i = lines.loop(rows, "i")
    clear = [
        lines.add(accumulator.after(i).store(i32(s), UOp.const(0.0, dtypes.float32, lanes))) for s in (0, 1)
    ]
    j = lines.loop(columns // lanes // 2, "j")
    steps = []
    for slot in (0, 1):
        value = lines.add(a.load(i * columns + (j * 2 + slot) * lanes, lanes=lanes))
        before = accumulator.after(*clear, j).load(i32(slot), lanes=lanes)
        steps.append(lines.add(accumulator.store(i32(slot), before + value)))
    done = lines.end(j, *steps)
    halves = [lines.add(accumulator.after(done).load(i32(s), lanes=lanes)) for s in (0, 1)]
    both = lines.add(halves[0] + halves[1])
    total = lines.add(both.lane(0))
    for k in range(1, lanes):
        total = lines.add(total + both.lane(k))
    lines.end(i, lines.add(out.store(i, total)))
    x = aligned(rows * columns, dtypes.float32, RNG.integers(-9, 9, rows * columns))
    y = aligned(rows, dtypes.float32)
    run(build(lines, features=features), [x, y])
    assert (y == x.reshape(rows, columns).sum(1)).all()


def matmul(m: int, n: int, k: int, rows: int, lanes: int, columns: int, name: str = "kernel") -> Lines:
    """C = A@B, threads over tiles of `rows` rows; a tile is rows x columns vectors of accumulators."""
    lines = Lines()
    a, b, c = params(
        lines, (dtypes.float32, m * k, "r"), (dtypes.float32, k * n, "r"), (dtypes.float32, m * n, "w")
    )
    accumulator = lines.add(register(dtypes.float32, rows * columns, lanes=lanes))
    t = lines.loop(m // rows, "t", "thread")
    j = lines.loop(n // (lanes * columns), "j")
    column = lines.add(j * (lanes * columns))
    zero = UOp.const(0.0, dtypes.float32, lanes)
    left_at, out_at = ([lines.add((t * rows + r) * width) for r in range(rows)] for width in (k, n))
    clear = [lines.add(accumulator.after(t, j).store(i32(s), zero)) for s in range(rows * columns)]
    x = lines.loop(k, "k")
    right = [lines.add(b.load(x * n + column + v * lanes, lanes=lanes)) for v in range(columns)]
    steps = []
    for r in range(rows):
        left = lines.add(a.load(left_at[r] + x).splat(lanes))
        for v in range(columns):
            slot = i32(r * columns + v)
            before = lines.add(accumulator.after(*clear, x).load(slot, lanes=lanes))
            steps.append(lines.add(accumulator.store(slot, left.alu(Ops.MULACC, right[v], before))))
    done = lines.end(x, *steps)
    stores = []
    for r in range(rows):
        for v in range(columns):
            value = lines.add(accumulator.after(done).load(i32(r * columns + v), lanes=lanes))
            at = out_at[r] + column + v * lanes
            stores.append(lines.add(c.store(at, value)))
    lines.end(t, lines.end(j, *stores))
    return lines


@pytest.mark.parametrize("features", LEVELS, ids=LEVEL_IDS)
def test_matmul_tile(features: tuple[tuple[str, bool], ...]) -> None:
    lanes = renderer(features).capabilities.vector_bytes // 4
    m, n, k = 12, 2 * lanes * 3, 37
    a = aligned(m * k, dtypes.float32, RNG.integers(-4, 5, m * k))
    b = aligned(k * n, dtypes.float32, RNG.integers(-4, 5, k * n))
    c = aligned(m * n, dtypes.float32)
    run(build(matmul(m, n, k, 4, lanes, 2), parallel=m // 4, features=features), [a, b, c])
    assert (c.reshape(m, n) == a.reshape(m, k) @ b.reshape(k, n)).all()


def test_matmul_keeps_its_accumulators_in_registers() -> None:
    lanes = renderer().capabilities.vector_bytes // 4
    compiled = build(matmul(12, 2 * lanes * 4, 64, 4, lanes, 2), parallel=3)
    text = renderer().compiler().disassemble(compiled.binary)
    if (
        dtypes.float32 not in renderer().capabilities.fma
        or platform.machine() != "x86_64"
        or "file format" not in text
    ):
        pytest.skip("no fused products on this host, or no disassembler")
    vectors = [line for line in text.splitlines() if "ymm" in line or "zmm" in line]
    assert sum("fmadd" in line for line in vectors) >= 8
    assert not any("rsp" in line for line in vectors), "spilled"


def test_near_memory_holds_a_transposed_tile() -> None:
    size, lines = 16, Lines()
    a, out = params(lines, (dtypes.int16, size * size, "r"), (dtypes.int16, size * size, "w"))
    tile = lines.add(UOp.near(dtypes.int16, size * size, 3))
    i = lines.loop(size, "i")
    j = lines.loop(size, "j")
    filled = lines.end(i, lines.end(j, lines.add(tile.store(j * size + i, a.load(i * size + j)))))
    ready = lines.barrier(filled)
    k = lines.loop(size * size // 8, "k")
    value = lines.add(tile.after(ready).load(k * 8, lanes=8))
    lines.end(k, lines.add(out.store(k * 8, value)))
    x = aligned(size * size, dtypes.int16, np.arange(size * size))
    y = aligned(size * size, dtypes.int16)
    run(build(lines), [x, y])
    assert (y.reshape(size, size) == x.reshape(size, size).T).all()


@pytest.mark.parametrize("features", LEVELS, ids=LEVEL_IDS)
@pytest.mark.parametrize(
    "dtype", [dtypes.float32, dtypes.int8, dtypes.bool_, dtypes.float64], ids=lambda d: d.name
)
def test_shuffles(dtype: DType, features: tuple[tuple[str, bool], ...]) -> None:
    lanes = renderer(features).capabilities.widths(dtypes.float32)[-1]
    orders = [
        tuple(range(lanes))[::-1],
        tuple(v for k in range(lanes // 2) for v in (k, lanes + k)),  # interleave the first halves
        tuple(range(lanes, 2 * lanes)),
        tuple(int(v) for v in RNG.integers(0, 2 * lanes, lanes)),
        tuple(int(v) for v in RNG.integers(0, 2 * lanes, 2)),
    ]
    lines = Lines()
    a, b = params(lines, (dtype, lanes, "r"), (dtype, lanes, "r"))
    x, y = (lines.add(p.load(i32(0), lanes=lanes)) for p in (a, b))
    arrays = [
        aligned(lanes, dtype, RNG.integers(0, 2, lanes)),
        aligned(lanes, dtype, RNG.integers(0, 2, lanes)),
    ]
    if dtype is not dtypes.bool_:
        arrays[0][:], arrays[1][:] = np.arange(lanes), np.arange(lanes, 2 * lanes)
    for order in orders:
        picked = UOp(Ops.SHUFFLE, dtype, (x, y), payload.Shuffle(order))
        out = lines.add(UOp.param(len(arrays), dtype, len(order), "w", 64))
        lines.add(out.store(i32(0), picked))
        arrays.append(aligned(len(order), dtype))
    run(build(lines, features=features), arrays)
    for order, got in zip(orders, arrays[2:], strict=True):
        assert (got == np.concatenate(arrays[:2])[list(order)]).all()


def test_masks_of_different_widths_meet() -> None:
    """Masks from 8-byte, 4-byte and 1-byte comparisons and from memory, combined, stored, picked and kept."""
    lanes, lines = 16, Lines()
    a, b, c, d = params(
        lines,
        (dtypes.float64, 16, "r"),
        (dtypes.float32, 16, "r"),
        (dtypes.int8, 16, "r"),
        (dtypes.bool_, 16, "r"),
    )
    x, y, z, w = (lines.add(p.load(i32(0), lanes=lanes)) for p in (a, b, c, d))
    mask = lines.add(((x < 0.0) | (y < 0.0)) & ~(z < UOp.const(0, dtypes.int8, lanes)) ^ w)
    kept = lines.add(register(dtypes.bool_, 1, lanes=lanes))
    stored = lines.add(kept.store(i32(0), mask))
    again = lines.add(kept.after(stored).load(i32(0), lanes=lanes))
    out, picked, single, count = (
        lines.add(UOp.param(s, t, n, "w", 64))
        for s, t, n in (
            (4, dtypes.bool_, 16),
            (5, dtypes.float64, 16),
            (6, dtypes.bool_, 1),
            (7, dtypes.float32, 16),
        )
    )
    lines.add(out.store(i32(0), again))
    lines.add(picked.store(i32(0), again.where(x, 5.0)))
    lines.add(single.store(i32(0), again.lane(3)))
    lines.add(count.store(i32(0), again.cast(dtypes.float32)))
    arrays = [aligned(16, t, RNG.integers(-2, 2, 16)) for t in (dtypes.float64, dtypes.float32, dtypes.int8)]
    arrays += [
        aligned(16, dtypes.bool_, RNG.integers(0, 2, 16)),
        aligned(16, dtypes.bool_),
        aligned(16, dtypes.float64),
    ]
    arrays += [aligned(1, dtypes.bool_), aligned(16, dtypes.float32)]
    run(build(lines), arrays)
    x_, y_, z_, w_ = arrays[:4]
    want = ((x_ < 0) | (y_ < 0)) & ~(z_ < 0) ^ w_
    assert (arrays[4] == want).all() and arrays[4].view(np.uint8).max() <= 1
    assert (arrays[5] == np.where(want, x_, 5.0)).all()
    assert arrays[6][0] == want[3]
    assert (arrays[7] == want.astype(np.float32)).all()


def test_unaligned_memory() -> None:
    """Accesses promise only the alignment that their PARAM has."""
    lines = Lines()
    a = lines.add(UOp.param(0, dtypes.float32, 8, "r", 1))
    b = lines.add(UOp.param(1, dtypes.float32, 9, "w", 1))
    lines.add(b.store(i32(0), a.load(i32(0), lanes=8, align=1), align=1))
    lines.add(b.store(i32(8), a.load(i32(2), align=1), align=1))
    source, dest = np.zeros(33, np.uint8), np.zeros(37, np.uint8)
    values = np.arange(8, dtype=np.float32)
    source[1:] = values.view(np.uint8)
    run(build(lines), [source[1:], dest[1:]])
    assert np.frombuffer(dest[1:].tobytes(), np.float32).tolist() == [*values, 2.0]


def test_variables_are_passed_by_name() -> None:
    lines = Lines()
    (out,) = params(lines, (dtypes.int64, 10, "w"))
    rows, base = (UOp(Ops.VARIABLE, dtypes.int64, (), payload.Variable(n, 0, 10)) for n in ("rows", "base"))
    axis = lines.loop(lines.add(rows), "i")
    lines.end(axis, lines.add(out.store(axis, axis + base)))
    y = aligned(10, dtypes.int64, -1)
    run(build(lines, scalars=("base", "rows")), [y], (100, 4))
    assert y.tolist() == [100, 101, 102, 103] + [-1] * 6


def test_floats_are_not_contracted_and_subnormals_are_kept() -> None:
    lines = Lines()
    a, b = params(lines, (dtypes.float32, 4, "r"), (dtypes.float32, 2, "w"))
    x, y, z, s = (lines.add(a.load(i32(k))) for k in range(4))
    lines.add(b.store(i32(0), x * y - z))
    lines.add(b.store(i32(1), s * 0.5))
    tiny = 2.0**-140
    values = aligned(4, dtypes.float32, [1 + 2**-23, 1 - 2**-23, 1.0, tiny])
    result = aligned(2, dtypes.float32)
    run(build(lines), [values, result])
    assert (
        result[0] == np.float32(values[0] * values[1]) - np.float32(1) == 0.0
    )  # a fused product gives -2**-46
    assert result[1] == np.float32(tiny / 2) != 0


def test_what_a_host_has_not() -> None:
    lines = Lines()
    (out,) = params(lines, (dtypes.int32, 1, "w"))
    lines.add(out.store(i32(0), Node(Ops.SPECIAL, dtypes.int32, (i32(4),), payload.Special("item", 0))))
    linear = lines.linear()
    with pytest.raises(RenderError, match="special"):
        renderer().render(linear, signature(linear))
