"""Intervals of integer nodes: sound for every op, and tight where passes rely on it."""

from __future__ import annotations

import random
import weakref

import pytest
from evaluation import value_of
from expressions import DataGenerator

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.ir.interval import bounds
from tiny_core.ir.ops import BINARY, COMPARE, Ops
from tiny_core.ir.uop import UOp

_OPS = sorted(BINARY - {Ops.DIV, Ops.POW, Ops.THREEFRY}, key=lambda o: o.value)
I32 = dtypes.int32


def _within(lo: int, hi: int, dtype: DType, name: str) -> UOp:
    return UOp.variable(name, lo, hi).cast(dtype)


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8, dtypes.index], ids=lambda d: d.name)
@pytest.mark.parametrize("op", _OPS, ids=lambda o: o.value)
def test_each_op_is_sound(op: Ops, dtype: DType) -> None:
    """All operands of small intervals anywhere in the dtype's range."""
    r = random.Random(f"{op.value} {dtype.name}")
    least, most = (-40, 40) if dtype is dtypes.index else (int(dtype.min), int(dtype.max))
    for _ in range(60):
        a, c = r.randint(least, most), r.choice((r.randint(least, most), 0, least, most))
        if op in (Ops.SHL, Ops.SHR) and r.random() < 0.8:
            c = r.randint(0, 9)
        b, d = min(a + r.randint(0, 6), most), min(c + r.randint(0, 6), most)
        x, y = _within(a, b, dtype, "a"), _within(c, d, dtype, "b")
        node = x.alu(op, y)
        lo, hi = bounds(node)
        leaves = [x if dtype is dtypes.index else x.src[0], y if dtype is dtypes.index else y.src[0]]
        values = {
            int(value_of(node, {leaves[0]: i, leaves[1]: j}))
            for i in range(a, b + 1)
            for j in range(c, d + 1)
        }
        assert lo <= min(values) and max(values) <= hi, (op, (a, b), (c, d), (lo, hi), values)
        if op in COMPARE and len(values) == 1 and op in (Ops.CMPLT, Ops.CMPLE):
            assert lo == hi, "a comparison of disjoint intervals is decided"


def test_random_expressions() -> None:
    seed = 3
    print(f"seed {seed}")
    for k in range(400):
        dtype = (dtypes.int8, dtypes.uint8, I32)[k % 3]
        g = DataGenerator(seed * 1000 + k, dtype, (dtypes.int32, dtypes.uint8, dtypes.bool_))
        node = g.data(dtype, 3)
        lo, hi = bounds(node)
        for _ in range(10):
            value = int(value_of(node, {leaf: g.value(dtype) for leaf in g.leaves}))
            assert lo <= value <= hi, (k, lo, hi, value)


def test_tight_where_it_matters() -> None:
    i, j, n = UOp.range(64, "i"), UOp.range(9, "j"), UOp.variable("n", 3, 10)
    assert bounds(i * 9 + j) == (0, 575)
    assert bounds((i * 9 + j) // 9) == (0, 63)
    assert bounds((i + 100) % 64) == (0, 63)
    assert bounds((j + 18) % 18) == (0, 8)
    assert bounds((j + 17) % 18) == (0, 17)
    assert bounds(j + 9 * 2 - 18) == (0, 8)
    assert bounds((j + 20) % 16) == (4, 12)
    assert bounds(UOp.range(n, "k")) == (0, 9)
    assert bounds(-j) == (-8, 0)
    assert bounds((i < 10).where(j, i)) == (0, 63)
    assert bounds(i < 64) == (1, 1)
    assert bounds(i.eq(64)) == (0, 0)
    assert bounds((i < 64) & (j < 9)) == (1, 1)
    assert bounds(i.cast(I32) + 1) == (1, 64)
    assert bounds(i & 7) == (0, 7)
    assert bounds(i << 2) == (0, 252)
    assert bounds(i.minimum(5).maximum(2)) == (2, 5)


def test_overflow_gives_the_range_of_the_dtype() -> None:
    i = UOp.range(100, "i").cast(dtypes.int8)
    assert bounds(i) == (0, 99)
    assert bounds(i + 28) == (28, 127)
    assert bounds(i + 29) == (-128, 127)
    assert bounds(UOp.variable("x", -1, 5).cast(dtypes.uint8)) == (0, 255)


def test_deep_expressions_need_no_recursion() -> None:
    node = UOp.range(4, "i")
    for _ in range(5000):
        node = (node + 1) % 7
    assert bounds(node) == (0, 6)


def test_device_storage_is_not_kept_alive() -> None:
    buffer = UOp.buffer(I32, 4, "NULL")
    alive = weakref.ref(buffer)
    assert bounds((buffer & 7) + 1) == (1, 8)
    del buffer
    assert alive() is None
