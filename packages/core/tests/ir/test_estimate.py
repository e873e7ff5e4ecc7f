"""Work of a launch, against counts by hand."""

from __future__ import annotations

from tiny_core import dtypes
from tiny_core.codegen.estimate import estimate, measure
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp, toposort


def i32(value: int) -> UOp:
    return UOp.const(value, dtypes.int32)


def linear(*groups: UOp) -> UOp:
    """A list of each group in turn, sources first."""
    return UOp(Ops.LINEAR, dtypes.void, tuple(toposort(groups)), p.KernelInfo("k"))


def test_elementwise_with_lanes() -> None:
    n = 1024
    i = UOp.range(i32(n // 8), "i")
    x, y = UOp.param(0, dtypes.float32, n), UOp.param(1, dtypes.float32, n, "w")
    value = (x.load(i * 8, lanes=8) * 2.0 + 1.0).maximum(0.0)
    assert estimate(linear(y.store(i * 8, value).end(i))) == (3 * n, 2 * 4 * n)


def test_a_matrix_product_moves_each_element_once_and_issues_many() -> None:
    m, n, k = 4, 5, 6
    a, b = UOp.param(0, dtypes.float32, m * k), UOp.param(1, dtypes.float32, k * n)
    c = UOp.param(2, dtypes.float32, m * n, "w")
    i, j, r = UOp.range(i32(m), "i"), UOp.range(i32(n), "j"), UOp.range(i32(k), "r", "reduce")
    slot = UOp.near(dtypes.float32, 1, 0, "register").after(i, j)
    start = slot.after(slot.store(i32(0), 0.0))
    product = a.load(i * k + r).alu(Ops.MULACC, b.load(r * n + j), start.load(i32(0)))
    loop = start.store(i32(0), product).end(r)
    store = c.store(i * n + j, start.after(loop).load(i32(0)))
    work = measure(linear(store.end(j).end(i)))
    assert work.flops == 2 * m * n * k
    assert work.bytes == 4 * (m * k + k * n + m * n)
    assert work.issued == 4 * (2 * m * n * k + m * n)


def test_items_of_a_grid_count() -> None:
    group = UOp(Ops.SPECIAL, dtypes.int32, (i32(10),), p.Special("group", 0))
    item = UOp(Ops.SPECIAL, dtypes.int32, (i32(32),), p.Special("item", 0))
    at = group * 32 + item
    store = UOp.param(1, dtypes.float16, 320, "w").store(
        at, UOp.param(0, dtypes.float16, 10).load(group) + 1.0
    )
    work = measure(linear(store))
    assert (work.flops, work.bytes, work.issued) == (320, 2 * (320 + 10), 2 * 640)


def test_index_arithmetic_is_not_work_but_integer_data_is() -> None:
    i = UOp.range(i32(16), "i")
    x, y = UOp.param(0, dtypes.int32, 64), UOp.param(1, dtypes.int32, 64, "w")
    inside = (i * 3 + 1) < 40
    value = inside.where(x.load(i * 4 + 2, i * 2 < 30, 0) * 7, 0)
    assert estimate(linear(y.store(i * 4, value).end(i)))[0] == 16


def test_a_read_window_is_at_most_the_buffer() -> None:
    i, j = UOp.range(i32(8), "i"), UOp.range(i32(3), "j")
    x, y = UOp.param(0, dtypes.float32, 10), UOp.param(1, dtypes.float32, 24, "w")
    store = y.store(i * 3 + j, x.load(i + j))
    assert measure(linear(store.end(j).end(i))).bytes == 4 * (10 + 24)


def test_variables_count_at_their_upper_bound() -> None:
    n = UOp(Ops.VARIABLE, dtypes.int32, (), p.Variable("n", 1, 50))
    i = UOp.range(n, "i")
    x, y = UOp.param(0, dtypes.float32, 100), UOp.param(1, dtypes.float32, 100, "w")
    assert estimate(linear(y.store(i, -x.load(i)).end(i))) == (50, 400)


def test_a_plugins_op_counts_what_it_says() -> None:
    descriptor = p.TargetOp("test.mul", lambda src: src[0], cost=64)
    i = UOp.range(i32(4), "i")
    x = UOp.param(0, dtypes.float32, 4).load(i)
    value = UOp(Ops.TARGET, dtypes.float32, (x,), descriptor)
    assert estimate(linear(UOp.param(1, dtypes.float32, 4, "w").store(i, value).end(i)))[0] == 256
