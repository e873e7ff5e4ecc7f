"""Division, comparison, selection and logic where a target lacks them, against Python and numpy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.codegen.decompose import decompose
from tiny_core.dtypes import DType, wrap
from tiny_core.ir.ops import COMPARE, Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities

Apply = Callable[..., np.ndarray]
Target = Callable[..., Capabilities]
DIVISIONS = (Ops.IDIV, Ops.IMOD, Ops.FLOORDIV, Ops.FLOORMOD)


def operands(dtype: DType, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    kind = np.dtype(dtype.name)
    info = np.iinfo(kind)
    rng = np.random.default_rng(4)
    if dtype.bits == 8:
        every = np.arange(info.min, info.max + 1).astype(kind)
        x, y = np.meshgrid(every, every)
        return x.ravel(), y.ravel()
    edge = [
        0,
        1,
        2,
        3,
        7,
        255,
        256,
        info.max,
        info.max - 1,
        info.min,
        info.min + 1,
        info.max // 2,
        info.max // 2 + 1,
    ]
    edge += [-1, -2, -7] if info.min else []
    spread = [
        int(rng.integers(0, info.max, dtype=kind)) >> int(rng.integers(0, dtype.bits - 1)) for _ in range(60)
    ]
    values = np.array(edge + spread, kind)
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    more = rng.integers(info.min, info.max, (2, n), kind, endpoint=True)
    return np.concatenate([x, more[0]]), np.concatenate([y, more[1] >> kind.type(n % 7)])


def divided(op: Ops, x: int, y: int, dtype: DType) -> int:
    if y == 0:
        return 0 if op in (Ops.IDIV, Ops.FLOORDIV) else x
    exact = Fraction(x, y)
    quotient = math.trunc(exact) if op in (Ops.IDIV, Ops.IMOD) else math.floor(exact)
    return wrap(quotient if op in (Ops.IDIV, Ops.FLOORDIV) else x - quotient * y, dtype)


@pytest.mark.parametrize("dtype", dtypes.ints, ids=lambda d: d.name)
@pytest.mark.parametrize(
    "lacks",
    [{Ops.FLOORDIV, Ops.FLOORMOD, Ops.IMOD}, set(DIVISIONS), {*DIVISIONS, Ops.DIV, Ops.RECIP, Ops.CAST}],
    ids=["has idiv", "no division", "by subtraction"],
)
def test_division(dtype: DType, lacks: set[Ops], apply: Apply, target: Target) -> None:
    if Ops.CAST in lacks and dtype.bits < 32:
        lacks = lacks - {Ops.CAST, Ops.DIV}
    x, y = operands(dtype)
    if dtype.bits == 8:
        x, y = x[::3], y[::3]
    for op in DIVISIONS if Ops.IDIV in lacks else (Ops.FLOORDIV, Ops.FLOORMOD, Ops.IMOD):
        got = apply(op, (dtype, dtype), dtype, target(lacks), (x, y))
        want = np.array([divided(op, int(a), int(b), dtype) for a, b in zip(x, y, strict=True)], got.dtype)
        wrong = got != want
        assert not wrong.any(), (op, x[wrong][:4], y[wrong][:4], got[wrong][:4], want[wrong][:4])


def test_reciprocal_division_of_every_scale(apply: Apply, target: Target) -> None:
    rng = np.random.default_rng(6)
    x = rng.integers(0, 1 << 32, 300000, np.uint64).astype(np.uint32)
    y = (
        rng.integers(1 << 31, 1 << 32, 300000, np.uint64) >> rng.integers(0, 32, 300000).astype(np.uint64)
    ).astype(np.uint32)
    near = (x // y) * y  # multiples of y and their neighbours, where an estimate that is off shows
    x = np.concatenate([x, near, near - np.uint32(1), near + np.uint32(1)])
    y = np.tile(y, 4)
    got = apply(Ops.IDIV, (dtypes.uint32,) * 2, dtypes.uint32, target(set(DIVISIONS)), (x, y))
    assert (got == x // y).all()


@pytest.mark.parametrize(
    "dtype", [dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64], ids=lambda d: d.name
)
def test_division_by_constants(
    dtype: DType, target: Target, compute: Callable[..., list[np.ndarray]]
) -> None:
    x = np.unique(operands(dtype, 100)[0])
    i = UOp.range(UOp.const(len(x), dtypes.int32), "i")
    load = UOp.param(0, dtype, len(x)).load(i)
    numbers = [1, 2, 3, 5, 6, 7, 9, 10, 11, 16, 100, 641, 1000, 65537, 1 << 20, 1 << 30, int(dtype.max), 0]
    numbers += [-1, -2, -3, -7, -16, -1000, int(dtype.min)] if dtype.kind == "int" else []
    for caps in (target(set(DIVISIONS)), target({Ops.FLOORDIV, Ops.FLOORMOD, Ops.IMOD})):
        for by, op in itertools.product(numbers, DIVISIONS):
            (got,) = compute((decompose(load.alu(op, by), caps),), caps, {0: x}, len(x))
            want = np.array([divided(op, int(a), by, dtype) for a in x], x.dtype)
            assert (got == want).all(), (op, by, x[got != want][:4], got[got != want][:4])


FLOATS = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.5, 1e30, -1e30], np.float32
)


@pytest.mark.parametrize("op", [Ops.MAX, Ops.MIN], ids=["max", "min"])
def test_extrema_of_floats(
    op: Ops, apply: Apply, target: Target, compute: Callable[..., list[np.ndarray]]
) -> None:
    x, y = (v.ravel() for v in np.meshgrid(FLOATS, FLOATS))

    def want(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        plain = np.maximum(a, b) if op is Ops.MAX else np.minimum(a, b)
        zero = np.where(
            np.signbit(a) & np.signbit(b) if op is Ops.MAX else np.signbit(a) | np.signbit(b), -0.0, 0.0
        )
        return np.where((a == 0) & (b == 0), zero, plain).astype(np.float32)

    caps = target({Ops.MAX, Ops.MIN})
    got = apply(op, (dtypes.float32,) * 2, dtypes.float32, caps, (x, y))
    same = (got.view(np.uint32) == want(x, y).view(np.uint32)) | (np.isnan(got) & np.isnan(want(x, y)))
    assert same.all()
    i = UOp.range(UOp.const(len(FLOATS), dtypes.int32), "i")
    load = UOp.param(0, dtypes.float32, len(FLOATS)).load(i)
    for number in FLOATS:
        for node in (load.alu(op, float(number)), UOp.const(float(number), dtypes.float32).alu(op, load)):
            result = decompose(node, caps)
            (got,) = compute((result,), caps, {0: FLOATS}, len(FLOATS))
            expected = want(FLOATS, np.full_like(FLOATS, number))
            got = np.broadcast_to(got, expected.shape).astype(np.float32)
            same = (got.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(got) & np.isnan(expected))
            assert same.all(), (number, got, expected)
            assert sum(n.op in COMPARE for n in result.toposort()) <= 1, "a bound needs one comparison"


@pytest.mark.parametrize(
    "dtype", [dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint64], ids=lambda d: d.name
)
def test_everything_else_from_few_integer_ops(dtype: DType, apply: Apply, target: Target) -> None:
    lacks = {Ops.MAX, Ops.MIN, Ops.CMPLE, Ops.CMPNE, Ops.CMPEQ, Ops.NEG, Ops.SUB, Ops.NOT, Ops.MULACC}
    caps = target(lacks - {Ops.CMPLE}) if dtype is dtypes.uint64 else target(lacks)
    x, y = operands(dtype)
    with np.errstate(all="ignore"):
        table = {
            Ops.MAX: np.maximum(x, y), Ops.MIN: np.minimum(x, y), Ops.CMPLE: x <= y, Ops.CMPNE: x != y,
            Ops.CMPEQ: x == y, Ops.SUB: x - y,
        }  # fmt: skip
        for op, want in table.items():
            to = dtypes.bool_ if op in COMPARE else dtype
            assert (apply(op, (dtype, dtype), to, caps, (x, y)) == want).all(), op
        assert (apply(Ops.NOT, (dtype,), dtype, caps, (x,)) == ~x).all()
        assert (apply(Ops.NEG, (dtype,), dtype, target({Ops.NEG}), (x,)) == np.zeros_like(x) - x).all()
        assert (apply(Ops.MULACC, (dtype,) * 3, dtype, caps, (x, y, x)) == x * y + x).all()


@pytest.mark.parametrize(
    "keeps",
    [{Ops.CMPLT, Ops.CMPEQ}, {Ops.CMPLE}, {Ops.CMPLE, Ops.CMPNE}],
    ids=["lt, eq", "le", "le, ne"],
)
def test_comparisons_of_floats_with_nan(keeps: set[Ops], apply: Apply, target: Target) -> None:
    x, y = (v.ravel() for v in np.meshgrid(FLOATS, FLOATS))
    pairs = {(op, dtypes.float32) for op in COMPARE - keeps}
    table = {Ops.CMPLT: x < y, Ops.CMPLE: x <= y, Ops.CMPEQ: x == y, Ops.CMPNE: x != y}
    for op, want in table.items():
        got = apply(op, (dtypes.float32,) * 2, dtypes.bool_, target(set(), set(), pairs), (x, y))
        assert (got == want).all(), op


def test_bools_from_select_and_exclusive_or(apply: Apply, target: Target) -> None:
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    table = {
        Ops.ADD: x | y, Ops.MUL: x & y, Ops.AND: x & y, Ops.OR: x | y, Ops.XOR: x ^ y, Ops.MAX: x | y,
        Ops.MIN: x & y,
        Ops.CMPLT: ~x & y, Ops.CMPLE: ~x | y, Ops.CMPEQ: x == y, Ops.CMPNE: x != y,
    }  # fmt: skip
    for few in ({Ops.WHERE}, {Ops.AND, Ops.OR, Ops.XOR}):
        pairs = {(op, dtypes.bool_) for op in (*table, Ops.NOT, Ops.WHERE) if op not in few}
        for op, want in table.items():
            got = apply(op, (dtypes.bool_,) * 2, dtypes.bool_, target(set(), set(), pairs), (x, y))
            assert (got == want).all(), op


def test_reciprocals_and_quotients(apply: Apply, target: Target) -> None:
    rng = np.random.default_rng(2)
    x = np.concatenate([FLOATS, rng.uniform(-4, 4, 20000).astype(np.float32)])
    y = np.concatenate([FLOATS[::-1], rng.uniform(-4, 4, 20000).astype(np.float32)])
    with np.errstate(all="ignore"):
        got = apply(Ops.RECIP, (dtypes.float32,), dtypes.float32, target({Ops.RECIP}), (x,))
        assert np.array_equal(got, np.float32(1) / x, equal_nan=True)
        got = apply(Ops.DIV, (dtypes.float32,) * 2, dtypes.float32, target({Ops.DIV}), (x, y))
        want = x / y
        off = np.abs(got.view(np.int32).astype(np.int64) - want.view(np.int32))
        usual = np.abs(x) + np.abs(y) < 1e20
        assert (off[usual & np.isfinite(want) & (np.abs(x) > 1e-30) & (np.abs(y) > 1e-30)] <= 1).all()
        assert (np.isnan(got) == np.isnan(want)).all() and (np.isinf(got) == np.isinf(want)).all()
