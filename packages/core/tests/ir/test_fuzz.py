"""Random expressions before and after simplification, by value."""

from __future__ import annotations

import weakref

import pytest
from evaluation import same, value_of
from expressions import DataGenerator, Generator

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.ir.algebra import simplify, simplify_given
from tiny_core.ir.algebra.simplifier import Simplifier
from tiny_core.ir.interval import bounds
from tiny_core.ir.text import format
from tiny_core.ir.uop import UOp

_SEED = 1


@pytest.mark.parametrize("part", range(4))
def test_index_expressions(part: int) -> None:
    """Exhaustively over the leaves: the value, the interval, and the value given a gate."""
    for k in range(100):
        seed = _SEED * 100_000 + part * 1000 + k
        g = Generator(seed)
        before = g.bool(3) if k % 3 == 0 else g.index(g.random.randint(1, 5))
        gate = g.bool(2)
        after, given = simplify(before), simplify_given(before, gate)
        (lo, hi), (low, high) = bounds(before), bounds(after)
        for at in g.points():
            value = value_of(before, at)
            assert same(value, value_of(after, at)), f"seed {seed} at {list(at.values())}\n{format(before)}"
            assert lo <= value <= hi and low <= value <= high, f"seed {seed}: bounds"
            if value_of(gate, at):
                assert same(value, value_of(given, at)), (
                    f"seed {seed} given\n{format(gate)}\n{format(before)}"
                )


def test_index_results_are_normal() -> None:
    for k in range(1500):
        seed = _SEED * 100_000 + 50_000 + k
        g = Generator(seed)
        before = g.bool(3) if k % 3 == 0 else g.index(g.random.randint(1, 5))
        after = Simplifier()(before)
        assert Simplifier()(after) is after, f"seed {seed}\n{format(before)}"


_KINDS: list[tuple[DType, tuple[DType, ...]]] = [
    (dtypes.int8, (dtypes.int32, dtypes.uint8, dtypes.float32)),
    (dtypes.uint8, (dtypes.int8, dtypes.int16, dtypes.bool_)),
    (dtypes.int32, (dtypes.int64, dtypes.int16, dtypes.float32)),
    (dtypes.uint64, (dtypes.int64, dtypes.uint32)),
    (dtypes.bool_, (dtypes.int8,)),
    (dtypes.float16, (dtypes.float32, dtypes.int32, dtypes.bool_)),
    (dtypes.float32, (dtypes.float16, dtypes.bfloat16, dtypes.float64, dtypes.int8)),
    (dtypes.float8_e4m3, (dtypes.float16, dtypes.float8_e5m2)),
    (dtypes.float8_e5m2fnuz, (dtypes.float32, dtypes.int8)),
]


@pytest.mark.parametrize(("dtype", "others"), _KINDS, ids=[d.name for d, _ in _KINDS])
def test_data_expressions(dtype: DType, others: tuple[DType, ...]) -> None:
    for k in range(250):
        seed = _SEED * 100_000 + k
        g = DataGenerator(seed, dtype, others)
        if dtype.kind == "bool" or k % 3 == 0:
            before = g.bool(3)
        else:
            before = g.data(dtype, g.random.randint(1, 4))
        after = simplify(before)
        assert Simplifier()(after) is after, f"seed {seed}\n{format(before)}"
        for _ in range(12):
            at = {leaf: g.value(dtype) for leaf in g.leaves}
            x, y = value_of(before, at), value_of(after, at)
            assert same(x, y), (
                f"seed {seed} at {list(at.values())}: {x} {y}\n{format(before)}\n{format(after)}"
            )


@pytest.mark.parametrize("dtype", [*dtypes.ints], ids=lambda d: d.name)
def test_one_more_is_not_always_more(dtype: DType) -> None:
    x = UOp.param(0, dtype, 1).load(0)
    after = simplify(x < x + 1)
    assert value_of(after, {x: int(dtype.max)}) is False
    assert value_of(after, {x: 0}) is True


def test_deep_expressions_need_no_recursion() -> None:
    i, x = UOp.range(4, "i"), UOp.param(0, dtypes.int32, 1).load(0)
    for k in range(3000):
        i, x = (i * 3 + k) % 7 + i, (x ^ k) + x
    assert simplify(i) is simplify(simplify(i))
    assert simplify(x).dtype is dtypes.int32


def test_device_storage_is_not_kept_alive() -> None:
    buffer = UOp.buffer(dtypes.int32, 4, "NULL")
    alive = weakref.ref(buffer)
    assert simplify((buffer & buffer) ^ buffer) is not buffer
    del buffer
    assert alive() is None


def test_of_indices_it_is() -> None:
    i = UOp.variable("i", -5, 5)
    assert simplify(i < i + 1).value is True
