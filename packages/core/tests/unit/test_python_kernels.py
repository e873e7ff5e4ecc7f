"""Linear kernels on the PYTHON device: host-shaped and grid-shaped, against numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.devices.python import batches
from tiny_core.devices.python import execute as python_execute
from tiny_core.devices.python.execute import execute
from tiny_core.errors import LaunchError, RenderError, SpecError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp

from .linear_kernels import Lines, group, i32, item, register, signature

f32 = dtypes.float32


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def test_elementwise_in_a_thread_axis_of_vectors() -> None:
    n = 1024
    x, y = UOp.param(0, f32, n, "r", 64), UOp.param(1, f32, n, "w", 64)
    k = Lines()
    i = k.loop(n // 8, "i", "thread")
    at = i * 8
    value = x.load(at, lanes=8, align=32) * 2.0 + UOp.const(1.0, f32, 8)
    k.end(i, k.add(y.store(at, value, align=32)))
    a, b = rng().standard_normal(n).astype(np.float32), np.zeros(n, np.float32)
    linear = k.linear()
    execute(linear, signature(linear, parallel=n // 8), [a, b], grid=(n // 8,))
    np.testing.assert_array_equal(b, a * np.float32(2) + np.float32(1))


def sum_rows(rows: int, columns: int, kind: p.AxisKind = "loop") -> UOp:
    """y[i] = sum of x[i, :], in order."""
    x, y = UOp.param(0, f32, rows * columns), UOp.param(1, f32, rows, "w")
    k, acc = Lines(), register(f32)
    i = k.loop(rows, "i", kind)
    start = k.add(acc.store(i32(0), 0.0))
    j = k.loop(columns, "j", "reduce")
    inside = acc.after(start, j)
    total = inside.load(i32(0)) + x.load(i * columns + j)
    done = k.end(j, k.add(inside.store(i32(0), total)))
    k.end(i, k.add(y.store(i, acc.after(done).load(i32(0)))))
    return k.linear("sum_rows")


@pytest.mark.parametrize("kind", ["loop", "thread"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1000), (7, 300), (100, 33), (20000, 3)])
def test_sums_are_taken_in_the_order_of_the_loop(kind: p.AxisKind, rows: int, columns: int) -> None:
    a = rng().standard_normal((rows, columns)).astype(np.float32)
    out = np.zeros(rows, np.float32)
    linear = sum_rows(rows, columns, kind)
    execute(linear, signature(linear), [a, out], grid=(rows if kind == "thread" else 1,))
    want = np.zeros(rows, np.float32)
    for j in range(columns):
        want = want + a[:, j]
    np.testing.assert_array_equal(out, want)


def test_a_batched_nest_gives_what_single_iterations_give(monkeypatch: pytest.MonkeyPatch) -> None:
    a = rng().standard_normal((5, 777)).astype(np.float32)
    outs = []
    for batch in (1, 64, 1 << 16):
        monkeypatch.setattr(batches, "BATCH", batch)
        monkeypatch.setattr(python_execute, "BATCH", batch)
        out = np.zeros(5, np.float32)
        linear = sum_rows(5, 777)
        execute(linear, signature(linear), [a, out])
        outs.append(out)
    np.testing.assert_array_equal(outs[0], outs[1])
    np.testing.assert_array_equal(outs[0], outs[2])


@pytest.mark.parametrize("op", [Ops.MAX, Ops.MIN, Ops.MUL, Ops.MULACC])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16, dtypes.int32], ids=lambda d: d.name)
def test_other_reductions_over_two_loops(op: Ops, dtype: dtypes.DType) -> None:
    """out[i] = op over (j, k) of x[i, j, k], and x*x for MULACC."""
    shape = (3, 4, 50)
    kind = np.dtype(ml_dtypes.bfloat16) if dtype is dtypes.bfloat16 else np.dtype(dtype.name)
    x, y = UOp.param(0, dtype, 600), UOp.param(1, dtype, 3, "w")
    k, acc = Lines(), register(dtype)
    i = k.loop(3, "i")
    start = k.add(acc.store(i32(0), 1))
    j = k.loop(4, "j", "reduce")
    l = k.loop(50, "k", "reduce")
    inside = acc.after(start, j, l)
    value = x.load((i * 4 + j) * 50 + l)
    old = inside.load(i32(0))
    new = value.alu(Ops.MULACC, value, old) if op is Ops.MULACC else old.alu(op, value)
    done = k.end(j, k.end(l, k.add(inside.store(i32(0), new))))
    k.end(i, k.add(y.store(i, acc.after(done).load(i32(0)))))
    a = (rng().integers(-3, 4, shape) if dtype.is_int else rng().uniform(0.9, 1.1, shape)).astype(kind)
    out = np.zeros(3, kind)
    linear = k.linear()
    execute(linear, signature(linear), [a, out])
    want = np.ones(3, kind)
    for column in a.reshape(3, -1).T:
        if op is Ops.MULACC:
            wide = want.astype(np.float64) + column.astype(np.float64) ** 2
            want = wide.astype(kind)
        else:
            want = {Ops.MAX: np.maximum, Ops.MIN: np.minimum, Ops.MUL: np.multiply}[op](want, column)
    if op is Ops.MULACC and dtype is dtypes.float32:
        np.testing.assert_allclose(out, want, rtol=1e-6)
    else:
        np.testing.assert_array_equal(out, want)


def softmax(rows: int, columns: int) -> UOp:
    """Rows on groups, a row's columns on the items of a group, combined through near memory."""
    x, y = UOp.param(0, f32, rows * columns), UOp.param(1, f32, rows * columns, "w")
    near = UOp.near(f32, columns, 1)
    k = Lines()
    row, column = group(rows), item(columns)
    k.add(row), k.add(column)
    at = row * columns + column
    value = k.add(x.load(at))
    stored = k.add(near.store(column, value))
    order: UOp = k.barrier(stored)
    result = value
    for op in (Ops.MAX, Ops.ADD):
        step = columns // 2
        while step:  # a tree: item c takes in c + step
            gate = column < step
            both = near.after(order)
            mine, other = k.add(both.load(column, gate)), k.add(both.load(column + step, gate))
            order = k.barrier(k.add(near.after(order).store(column, mine.alu(op, other), gate)))
            step //= 2
        total = k.add(near.after(order).load(i32(0)))
        if op is Ops.MAX:
            result = k.add(((value - total) * 1.4426950408889634).alu(Ops.EXP2))
            order = k.barrier(total)
            order = k.barrier(k.add(near.after(order).store(column, result)))
        else:
            result = k.add(result / total)
    k.add(y.store(at, result))
    return k.linear("softmax")


def test_softmax_through_near_memory() -> None:
    rows, columns = 6, 64
    a, out = rng().standard_normal((rows, columns)).astype(np.float32), np.zeros((rows, columns), np.float32)
    linear = softmax(rows, columns)
    execute(linear, signature(linear, grid=(rows, 1, 1), block=(columns, 1, 1)), [a, out], grid=(rows, 1, 1))
    e = np.exp(a.astype(np.float64) - a.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(axis=1, keepdims=True), rtol=2e-6)


def test_grid_dimensions_run_fastest_first() -> None:
    out_param = UOp.param(0, dtypes.int32, 2 * 3 * 4 * 5, "w")
    k = Lines()
    gx, gy, ix, iy = group(2, 0), group(3, 1), item(4, 0), item(5, 1)
    flat = ((gy * 2 + gx) * 5 + iy) * 4 + ix
    k.add(out_param.store(flat, gx + gy * 10 + ix * 100 + iy * 1000))
    out = np.zeros(120, np.int32)
    linear = k.linear()
    execute(linear, signature(linear, grid=(2, 3, 1), block=(4, 5, 1)), [out], grid=(2, 3, 1))
    y, x, j, i = np.indices((3, 2, 5, 4))
    np.testing.assert_array_equal(out.reshape(3, 2, 5, 4), x + y * 10 + i * 100 + j * 1000)


def test_gates_touch_nothing_and_give_the_alternative() -> None:
    x, y = UOp.param(0, f32, 5), UOp.param(1, f32, 8, "rw")
    k = Lines()
    i = k.loop(2, "i", "thread")
    at = i * 4
    lanes = UOp(Ops.STACK, dtypes.int32, tuple(at + n for n in range(4)))
    gate = lanes < 5
    value = x.load(at, gate, UOp.const(-1.0, f32, 4), lanes=4)
    k.end(i, k.add(y.store(at, value, lanes < 7)))
    a, out = np.arange(5, dtype=np.float32), np.full(8, 9, np.float32)
    linear = k.linear()
    execute(linear, signature(linear), [a, out], grid=(2,))
    assert out.tolist() == [0, 1, 2, 3, 4, -1, -1, 9]


def test_lanes_are_stacked_taken_and_shuffled() -> None:
    x, y = UOp.param(0, dtypes.int32, 4), UOp.param(1, dtypes.int32, 12, "w")
    k = Lines()
    v = x.load(i32(0), lanes=4)
    w = UOp(Ops.STACK, dtypes.int32, (v.lane(3), i32(7), v.lane(0) + v.lane(1), i32(7)))
    splat = v.lane(2).splat(4)
    k.add(y.store(i32(0), w))
    k.add(y.store(i32(4), UOp(Ops.SHUFFLE, dtypes.int32, (v, w), p.Shuffle((7, 0, 4, 3)))))
    k.add(y.store(i32(8), UOp(Ops.SHUFFLE, dtypes.int32, (splat, v), p.Shuffle((0, 4, 3, 5)))))
    out = np.zeros(12, np.int32)
    linear = k.linear()
    execute(linear, signature(linear), [np.array([10, 20, 30, 40], np.int32), out])
    assert out.tolist() == [40, 7, 30, 7, 7, 10, 40, 40, 30, 10, 30, 20]


@pytest.mark.parametrize("dtype", dtypes.storable, ids=lambda d: d.name)
def test_every_dtype_is_loaded_and_stored(dtype: dtypes.DType) -> None:
    x, y = UOp.param(0, dtype, 4), UOp.param(1, dtype, 4, "w")
    k = Lines()
    k.add(y.store(i32(0), x.load(i32(0), lanes=4)))
    values = [dtypes.to_bits(v, dtype) for v in (0, 1, 1, 0)]
    a = np.array(values, f"u{dtype.itemsize}")
    out = np.zeros(4, a.dtype)
    linear = k.linear()
    execute(linear, signature(linear), [a, out])
    np.testing.assert_array_equal(out, a)


def test_a_variable_bounds_a_loop() -> None:
    x, y = UOp.param(0, f32, 10), UOp.param(1, f32, 10, "w")
    k = Lines()
    n = UOp(Ops.VARIABLE, dtypes.int32, (), p.Variable("n", 1, 10))
    i = k.loop(n, "i")
    k.end(i, k.add(y.store(i, x.load(i) + 1.0)))
    a, out = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    linear = k.linear()
    execute(linear, signature(linear, ["n"]), [a, out], [6])
    assert out.tolist() == [1, 2, 3, 4, 5, 6, 0, 0, 0, 0]
    with pytest.raises(LaunchError, match="n = 11 is not within 1 and 10"):
        execute(linear, signature(linear, ["n"]), [a, out], [11])


def test_a_loop_that_depends_on_its_own_stores_runs_in_order() -> None:
    """A running sum in memory: iterations are no items, and the trial that they are is taken back."""
    y = UOp.param(0, f32, 100, "rw")
    k = Lines()
    i = k.loop(99, "i")
    k.end(i, k.add(y.store(i + 1, y.load(i + 1) + y.load(i))))
    out = np.ones(100, np.float32)
    linear = k.linear()
    execute(linear, signature(linear), [out])
    np.testing.assert_array_equal(out, np.arange(1, 101, dtype=np.float32))


def test_the_last_iteration_wins_a_shared_location() -> None:
    y = UOp.param(0, dtypes.int32, 3, "w")
    k = Lines()
    i = k.loop(10, "i")
    k.end(i, k.add(y.store(i % 3, i)))
    out = np.zeros(3, np.int32)
    linear = k.linear()
    execute(linear, signature(linear), [out])
    assert out.tolist() == [9, 7, 8]


def test_a_register_carries_a_value_from_iteration_to_iteration() -> None:
    """Fibonacci numbers: two registers that are no accumulators."""
    y = UOp.param(0, dtypes.int64, 20, "w")
    k, r = Lines(), register(dtypes.int64, 2)
    first = k.add(r.store(i32(0), 0))
    second = k.add(r.store(i32(1), 1))
    i = k.loop(20, "i")
    inside = r.after(first, second, i)
    a, b = k.add(inside.load(i32(0))), k.add(inside.load(i32(1)))
    k.end(i, k.add(y.store(i, a)), k.add(inside.store(i32(0), b)), k.add(inside.store(i32(1), a + b)))
    out = np.zeros(20, np.int64)
    linear = k.linear()
    execute(linear, signature(linear), [out])
    assert out.tolist()[:8] == [0, 1, 1, 2, 3, 5, 8, 13] and out[19] == 4181


def test_trip_counts_may_differ_between_items() -> None:
    """y[i] = 0 + 1 + … + (i - 1), the loop's length being i."""
    y = UOp.param(0, dtypes.int32, 6, "w")
    k, acc = Lines(), register(dtypes.int32)
    i = k.loop(6, "i", "thread")
    start = k.add(acc.store(i32(0), 0))
    j = k.loop(i, "j")
    inside = acc.after(start, j)
    done = k.end(j, k.add(inside.store(i32(0), inside.load(i32(0)) + j)))
    k.end(i, k.add(y.store(i, acc.after(done).load(i32(0)))))
    out = np.zeros(6, np.int32)
    linear = k.linear()
    execute(linear, signature(linear), [out], grid=(6,))
    assert out.tolist() == [0, 0, 1, 3, 6, 10]


def _descriptor(python: object, effect: p.Effect = "pure") -> p.TargetOp:
    return p.TargetOp("test.rotate", lambda sources: sources[0], effect, 1, python)  # type: ignore[arg-type]


def test_target_ops_run_their_own_semantics() -> None:
    y = UOp.param(0, dtypes.int32, 8, "w")
    rotate = _descriptor(lambda x: np.roll(x.reshape(-1, 4), 1, axis=1).reshape(-1), "convergent")
    k = Lines()
    at = group(2) * 4 + item(4)
    k.add(y.store(at, UOp(Ops.TARGET, dtypes.int32, (at,), rotate)))
    out = np.zeros(8, np.int32)
    linear = k.linear()
    execute(linear, signature(linear, grid=(2, 1, 1), block=(4, 1, 1)), [out], grid=(2, 1, 1))
    assert out.tolist() == [3, 0, 1, 2, 7, 4, 5, 6]


def test_a_target_op_without_semantics_is_refused() -> None:
    k = Lines()
    k.add(
        UOp.param(0, dtypes.int32, 1, "w").store(
            i32(0), UOp(Ops.TARGET, dtypes.int32, (i32(1),), _descriptor(None))
        )
    )
    linear = k.linear()
    with pytest.raises(RenderError, match=r"test\.rotate has no semantics on PYTHON"):
        execute(linear, signature(linear), [np.zeros(1, np.int32)])


def test_malformed_lists_are_refused() -> None:
    y = UOp.param(0, dtypes.int32, 4, "w")
    i, j = UOp.range(i32(4), "i"), UOp.range(i32(4), "j")
    leak = y.store(i32(0), i + 1)
    end_i = UOp(Ops.END, dtypes.void, (i,))
    cases = {
        "is not the innermost": (i32(4), i, j, end_i, UOp(Ops.END, dtypes.void, (j,))),
        "has no end": (i32(4), i),
        "before it is listed, or after its loop": (
            i32(4), i32(1), i32(0), y, i, i + 1, end_i, leak,
        ),
    }  # fmt: skip
    for message, nodes in cases.items():
        linear = UOp(Ops.LINEAR, dtypes.void, nodes, p.KernelInfo("bad"))
        with pytest.raises(SpecError, match=message):
            execute(linear, signature(linear), [np.zeros(4, np.int32)])
