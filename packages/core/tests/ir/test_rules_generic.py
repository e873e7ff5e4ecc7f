"""Rules of any domain: chains of casts on the values where they could go wrong, selections, gates."""

from __future__ import annotations

import pytest
from evaluation import same, value_of

from tiny_core import dtypes
from tiny_core.dtypes import DType, Number
from tiny_core.ir.algebra import simplify
from tiny_core.ir.algebra.generic import lossless
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp

_TYPES = dtypes.storable


def _values(dtype: DType) -> list[Number]:
    if dtype.kind == "bool":
        return [False, True]
    if dtype.is_float:
        numbers = (0.0, -0.0, 1.0, -1.5, 255.0, 256.0, 65504.0, -129.0, 3e9, -3e9, 1e19, 1e-8, dtype.largest,
                   float("inf"), float("-inf"), float("nan"))  # fmt: skip
        return [dtypes.convert(n, dtype) for n in numbers]
    ends = [int(dtype.min), int(dtype.max), int(dtype.max) - 1]
    return [
        *ends,
        *(dtypes.wrap(n, dtype) for n in (0, 1, -1, 127, 128, 255, 256, 2049, 65535, 1 << 24, (1 << 24) + 1)),
    ]


@pytest.mark.parametrize("source", _TYPES, ids=lambda d: d.name)
def test_chains_of_casts(source: DType) -> None:
    x = UOp.param(0, source, 1).load(0)
    shorter = 0
    for middle in _TYPES:
        for target in _TYPES:
            before = x.cast(middle).cast(target)
            after = simplify(before)
            shorter += len(after.toposort()) < len(before.toposort()) and middle is not source
            if after is not before:
                for value in _values(source):
                    assert same(value_of(before, {x: value}), value_of(after, {x: value})), (
                        middle,
                        target,
                        value,
                    )
    assert shorter or source is dtypes.float64  # nothing holds all of float64


@pytest.mark.parametrize("source", _TYPES, ids=lambda d: d.name)
def test_lossless_is_what_it_says(source: DType) -> None:
    for target in _TYPES:
        there_and_back = [dtypes.convert(dtypes.convert(v, target), source) for v in _values(source)]
        kept = all(same(a, b) for a, b in zip(_values(source), there_and_back, strict=True))
        if lossless(source, target) and target.kind != "bool":
            assert kept, target


def test_selections() -> None:
    c, d = (UOp.param(s, dtypes.bool_, 1).load(0) for s in range(2))
    x, y, z = (UOp.param(s, dtypes.float32, 1).load(0) for s in range(3))
    assert simplify(c.where(x, x)) is x
    assert simplify((~c).where(x, y)) is c.where(y, x)
    assert simplify(c.where(c.where(x, y), z)) is c.where(x, z)
    assert simplify(c.where(x, c.where(y, z))) is c.where(x, z)
    assert simplify(UOp.const(True).where(x, y)) is x
    assert simplify(UOp.const(False).where(x, y)) is y
    assert simplify(c.where(UOp.const(True), UOp.const(False))) is c
    assert simplify(c.where(UOp.const(False), UOp.const(True))) is ~c
    assert simplify(c & d & c) is simplify(d & c)
    assert simplify(c & ~c).value is False
    assert simplify(c | ~c).value is True


def test_gates() -> None:
    buf, x = UOp.param(0, dtypes.float32, 8, "rw"), UOp.param(1, dtypes.float32, 1).load(0)
    yes, no = UOp.const(True), UOp.const(False)
    assert simplify(buf.load(3, yes, 1.0)) is buf.load(3)
    assert simplify(buf.load(3, no, x)) is x
    assert simplify(buf.store(3, x, yes)) is buf.store(3, x)


def test_bitcasts() -> None:
    x = UOp.param(0, dtypes.float32, 1).load(0)
    assert simplify(x.bitcast(dtypes.int32).bitcast(dtypes.float32)) is x
    assert simplify(UOp.const(1.0, dtypes.float32).bitcast(dtypes.uint32)).value == 0x3F800000
    nan = UOp(Ops.BITCAST, dtypes.float32, (UOp.const(0x7FC00123, dtypes.uint32),))
    assert simplify(nan) is nan
