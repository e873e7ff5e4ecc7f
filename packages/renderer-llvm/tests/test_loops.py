"""Loops and the register slots they carry; loops that may run zero times; thread ranges."""

from __future__ import annotations

import numpy as np
import pytest
from llvm_kernels import Array, Body, closed, render, run, variable

from tiny_core.api import DType, Ops, RenderError, UOp, dtypes

F32, I32, I64 = dtypes.float32, dtypes.int32, dtypes.int64


def near(id: int = 0, slots: int = 1, lanes: int = 0, dtype: DType = F32) -> UOp:
    return UOp.near(dtype, slots, id, "register", lanes)


def rows(n: int, m: int) -> Array:
    return np.random.default_rng(0).normal(size=(n, m)).astype(np.float32)


@pytest.mark.parametrize("counter", [I32, I64], ids=lambda d: d.name)
def test_accumulator_in_a_nested_loop(counter: DType) -> None:
    n, m = 5, 7
    body, acc = Body(), near()
    i = body(UOp.range(UOp.const(n, counter), "i"))
    start = body(acc.store(0, 0.0))
    j = body(UOp.range(UOp.const(m, counter), "j"))
    old = body(acc.after(start, j).load(0))
    new = body(acc.store(0, old + UOp.param(0, F32, n * m).load(i * m + j)))
    inner = body(closed(j, new))
    total = body(acc.after(inner).load(0))
    body(closed(i, body(UOp.param(1, F32, n, "w").store(i, total))))
    x, got = rows(n, m), np.zeros(n, np.float32)
    run(body, [x, got])
    want = np.zeros(n, np.float32)
    for k in range(m):
        want += x[:, k]
    assert (got == want).all()


def test_two_vector_accumulators_and_a_combining_store() -> None:
    n = 64
    body, acc = Body(), near(slots=2, lanes=8)
    starts = [body(acc.store(s, UOp.const(0.0 if s == 0 else -np.inf, F32, 8))) for s in (0, 1)]
    j = body(UOp.range(UOp.const(n // 8, I64), "j"))
    x = body(UOp.param(0, F32, n).load(j * 8, lanes=8))
    held = acc.after(*starts, j)
    a = body(acc.store(0, body(held.load(0)) + x))
    b = body(acc.store(1, body(held.load(1)).maximum(x)))
    end = body(closed(j, a, b))
    done = acc.after(end)
    body(UOp.param(1, F32, 8, "w").store(0, body(done.load(0)) + body(done.load(1))))
    data, got = rows(1, n), np.zeros(8, np.float32)
    run(body, [data, got])
    lanes = data.reshape(n // 8, 8)
    want = np.zeros(8, np.float32)
    for row in lanes:
        want += row
    assert (got == want + lanes.max(0)).all()


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_loop_that_may_run_zero_times_keeps_the_old_values(count: int) -> None:
    body, acc = Body(), near()
    start = body(acc.store(0, 10.0))
    i = body(UOp.range(variable("n", 0, 8), "i"))
    x = body(UOp.param(0, F32, 8).load(i))
    old = body(acc.after(start, i).load(0))
    end = body(closed(i, body(acc.store(0, old + x))))
    body(UOp.param(1, F32, 1, "w").store(0, body(acc.after(end).load(0))))
    got = np.zeros(1, np.float32)
    run(body, [np.arange(1, 9, dtype=np.float32), got], [count])
    assert got[0] == 10 + sum(range(1, count + 1))


def test_a_slot_that_is_only_written_in_a_skipped_loop() -> None:
    for count, want in ((0, 5.0), (4, 3.0)):
        body, acc = Body(), near()
        start = body(acc.store(0, 5.0))
        i = body(UOp.range(variable("n", 0, 8), "i"))
        end = body(closed(i, body(acc.after(start).store(0, UOp.param(0, F32, 8).load(i)))))
        body(UOp.param(1, F32, 1, "w").store(0, body(acc.after(end).load(0))))
        got = np.zeros(1, np.float32)
        run(body, [np.arange(8, dtype=np.float32), got], [count])
        assert got[0] == want


def test_an_inner_loop_that_is_skipped_carries_values_of_the_outer_one() -> None:
    body, acc = Body(), near()
    start = body(acc.store(0, 1.0))
    i = body(UOp.range(UOp.const(3, I64), "i"))
    j = body(UOp.range(variable("n", 0, 8), "j"))
    old = body(acc.after(start, j).load(0))
    inner = body(closed(j, body(acc.store(0, old + 1.0))))
    outer = body(closed(i, inner))
    body(UOp.param(0, F32, 1, "w").store(0, body(acc.after(outer).load(0))))
    for count in (0, 2):
        got = np.zeros(1, np.float32)
        run(body, [got], [count])
        assert got[0] == 1 + 3 * count


def test_loops_one_after_the_other_over_the_same_rows() -> None:
    # softmax without its exponential: the maximum, then the sum of differences, then the quotient
    n = 32
    body, top, total = Body(), near(0), near(1)
    x, out = UOp.param(0, F32, n), UOp.param(1, F32, n, "w")
    s0 = body(top.store(0, -np.inf))
    i = body(UOp.range(UOp.const(n, I64), "i"))
    e0 = body(closed(i, body(top.store(0, body(top.after(s0, i).load(0)).maximum(x.load(i))))))
    most = body(top.after(e0).load(0))
    s1 = body(total.store(0, 0.0))
    j = body(UOp.range(UOp.const(n, I64), "i", instance=1))
    e1 = body(closed(j, body(total.store(0, body(total.after(s1, j).load(0)) + (most - x.load(j))))))
    all_ = body(total.after(e1).load(0))
    k = body(UOp.range(UOp.const(n, I64), "i", instance=2))
    body(closed(k, body(out.store(k, (most - x.load(k)) / all_))))
    data, got = rows(1, n)[0], np.zeros(n, np.float32)
    run(body, [data, got])
    want = (data.max() - data) / (data.max() - data).sum()
    assert np.allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("counter", [I32, I64], ids=lambda d: d.name)
@pytest.mark.parametrize("part", [(0, 10), (3, 7), (4, 4)])
def test_a_thread_range_runs_from_begin_to_end(part: tuple[int, int], counter: DType) -> None:
    body = Body()
    t = body(UOp.range(UOp.const(10, counter), "t", "thread"))
    body(closed(t, body(UOp.param(0, I64, 10, "w").store(t, t.cast(I64) + 1))))
    got = np.zeros(10, np.int64)
    run(body, [got], begin=part[0], end=part[1])
    want = np.where((np.arange(10) >= part[0]) & (np.arange(10) < part[1]), np.arange(10) + 1, 0)
    assert (got == want).all()


def test_scalars_arrive_in_order_and_negative_ones_too() -> None:
    body = Body()
    a, b = variable("a", -5, 5, I32), variable("b", 0, 1 << 40)
    out = UOp.param(0, I64, 2, "w")
    body(out.store(0, a.cast(I64) * 2))
    body(out.store(1, b - 1))
    got = np.zeros(2, np.int64)
    run(body, [got], [-3, 1 << 33])
    assert got.tolist() == [-6, (1 << 33) - 1]


def test_index_arithmetic_that_may_wrap_does() -> None:
    # (n + 1) as int32 data wraps where n is not known to be small
    body = Body()
    x = body(UOp.param(0, I32, 1).load(0))
    body(UOp.param(1, dtypes.bool_, 1, "w").store(0, x < x + 1))
    i = body(UOp.range(UOp.const(3, I32), "i"))
    body(closed(i, body(UOp.param(2, I32, 3, "w").store(i, i * 2_000_000_000))))
    less, got = np.ones(1, np.bool_), np.zeros(3, np.int32)
    run(body, [np.array([2**31 - 1], np.int32), less, got])
    assert not less[0] and got.tolist() == [0, 2_000_000_000, 4_000_000_000 - 2**32]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_bounds_of_derived_indices(n: int) -> None:
    # quotients, remainders, shifts and differences of a counter as addresses
    body = Body()
    i = body(UOp.range(UOp.const(24, I32), "i"))
    x, out = UOp.param(0, I32, 24), UOp.param(1, I32, 24, "w")
    at = i.alu(Ops.IDIV, 6) * 6 + (5 - i.alu(Ops.IMOD, 6))
    body(closed(i, body(out.store(at + n - n, x.load(i.alu(Ops.SHR, 1) * 2 + (i & 1))))))
    data, got = np.arange(24, dtype=np.int32), np.zeros(24, np.int32)
    run(body, [data, got])
    assert (got == data.reshape(4, 6)[:, ::-1].ravel()).all()


def test_loops_must_nest() -> None:
    body = Body()
    i = body(UOp.range(UOp.const(2, I64), "i"))
    j = body(UOp.range(UOp.const(2, I64), "j"))
    store = body(UOp.param(0, I64, 4, "w").store(i * 2 + j, j))
    body(closed(i, store))
    body(closed(j, store))
    with pytest.raises(RenderError, match="innermost"):
        render(body)


def test_a_register_index_must_be_constant() -> None:
    body, acc = Body(), near(slots=2)
    i = body(UOp.range(UOp.const(2, I64), "i"))
    body(closed(i, body(acc.store(i, 1.0))))
    with pytest.raises(RenderError, match="constant"):
        render(body)
