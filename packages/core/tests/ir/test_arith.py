"""Scalar arithmetic against numpy, ml_dtypes, exact fractions and published vectors."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.dtypes import DType, Number
from tiny_core.errors import DTypeError
from tiny_core.ir.arith import evaluate, fma, round_exact
from tiny_core.ir.ops import Ops

NUMPY: dict[DType, type] = {
    dtypes.bool_: np.bool_,
    **{d: getattr(np, d.name) for d in dtypes.ints},
    dtypes.float16: np.float16,
    dtypes.float32: np.float32,
    dtypes.float64: np.float64,
    dtypes.bfloat16: ml_dtypes.bfloat16,
    dtypes.float8_e4m3: ml_dtypes.float8_e4m3fn,
    dtypes.float8_e5m2: ml_dtypes.float8_e5m2,
    dtypes.float8_e4m3fnuz: ml_dtypes.float8_e4m3fnuz,
    dtypes.float8_e5m2fnuz: ml_dtypes.float8_e5m2fnuz,
}
SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    math.inf,
    -math.inf,
    math.nan,
    0.5,
    -1.5,
    3.0,
    448.0,
    1e-7,
    65504.0,
    3.4e38,
    -1e-45,
)


def same(a: Number, b: Number) -> bool:
    """Equal as values of a dtype: NaN is NaN, and 0.0 is not -0.0."""
    x, y = float(a), float(b)
    return (math.isnan(x) and math.isnan(y)) or (x == y and math.copysign(1, x) == math.copysign(1, y))


def every(dtype: DType) -> list[Number]:
    return [dtypes.from_bits(bits, dtype) for bits in range(256)]


def sample(dtype: DType, n: int, seed: int = 1) -> list[Number]:
    """Values with random bit patterns, the special ones among them."""
    rng = random.Random(seed)
    values = [dtypes.from_bits(rng.getrandbits(dtype.bits), dtype) for _ in range(n)]
    if dtype.is_float:
        near = [dtypes.round_float(rng.choice((1, -1)) * rng.uniform(0.5, 4), dtype) for _ in range(n // 2)]
        return [*values, *near, *(dtypes.round_float(v, dtype) for v in SPECIAL)]
    return [*values, dtypes.wrap(-1, dtype), int(dtype.min), int(dtype.max), 0, 1]


def columns(values: list[tuple[Number, ...]], kind: type) -> tuple[np.ndarray, np.ndarray]:
    return np.array([v[0] for v in values], dtype=kind), np.array([v[1] for v in values], dtype=kind)


def pairs(dtype: DType) -> list[tuple[Number, ...]]:
    if dtype.bits == 8 and dtype.is_float:
        return list(itertools.product(every(dtype)[:: 1 if dtype is dtypes.float8_e4m3 else 5], every(dtype)))
    values = sample(dtype, 60)
    return list(itertools.product(values, repeat=2))


@pytest.mark.parametrize("dtype", dtypes.floats, ids=lambda d: d.name)
def test_float_arithmetic_is_numpys_correctly_rounded(dtype: DType) -> None:
    values = pairs(dtype)
    kind = NUMPY[dtype]
    wide = dtype.bits >= 32 or dtype is dtypes.float16
    x, y = columns(values, kind)
    if not wide:  # one rounding of a sum, product or quotient that float64 holds to 53 bits
        x, y = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(all="ignore"):
        table = {Ops.ADD: x + y, Ops.SUB: x - y, Ops.MUL: x * y, Ops.DIV: x / y}
        if not wide:
            table = {op: r.astype(kind) for op, r in table.items()}
    for op, result in table.items():
        for (a, b), want in zip(values, result.astype(np.float64).tolist(), strict=True):
            got = evaluate(op, dtype, (a, b))
            if dtype.variant == "fnuz" and want == 0:
                want = 0.0
            assert same(got, want), (op, dtype, a, b, got, want)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.float32, dtypes.float64], ids=lambda d: d.name)
def test_float_unary_and_selection_are_numpys(dtype: DType) -> None:
    values = sample(dtype, 300)
    x: np.ndarray = np.array(values).astype(NUMPY[dtype])
    with np.errstate(all="ignore"):
        table = {Ops.NEG: -x, Ops.SQRT: np.sqrt(x), Ops.TRUNC: np.trunc(x), Ops.RECIP: x.dtype.type(1) / x}
    for op, result in table.items():
        for a, want in zip(values, result.astype(np.float64).tolist(), strict=True):
            assert same(evaluate(op, dtype, (a,)), want), (op, dtype, a)


def test_max_and_min_propagate_nan_and_order_the_zeros() -> None:
    f = dtypes.float32
    assert math.isnan(evaluate(Ops.MAX, f, (math.nan, 1.0))) and math.isnan(
        evaluate(Ops.MIN, f, (1.0, math.nan))
    )
    for a, b in itertools.permutations((0.0, -0.0)):
        assert same(evaluate(Ops.MAX, f, (a, b)), 0.0) and same(evaluate(Ops.MIN, f, (a, b)), -0.0)
    assert same(evaluate(Ops.MAX, f, (-0.0, -0.0)), -0.0) and same(evaluate(Ops.MIN, f, (0.0, 0.0)), 0.0)
    for a, b in pairs(dtypes.float8_e5m2):
        want = float(np.maximum(a, b)), float(np.minimum(a, b))
        got = evaluate(Ops.MAX, dtypes.float8_e5m2, (a, b)), evaluate(Ops.MIN, dtypes.float8_e5m2, (a, b))
        assert all(g == w or (math.isnan(g) and math.isnan(w)) for g, w in zip(got, want, strict=True))


@pytest.mark.parametrize(
    "dtype", [dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint64], ids=lambda d: d.name
)
def test_integer_arithmetic_wraps(dtype: DType) -> None:
    values = list(itertools.product(every(dtype), repeat=2)) if dtype.bits == 8 else pairs(dtype)
    x, y = columns(values, NUMPY[dtype])
    with np.errstate(all="ignore"):
        table = {
            Ops.ADD: x + y, Ops.SUB: x - y, Ops.MUL: x * y, Ops.AND: x & y, Ops.OR: x | y, Ops.XOR: x ^ y,
            Ops.MAX: np.maximum(x, y), Ops.MIN: np.minimum(x, y), Ops.CMPLT: x < y, Ops.CMPLE: x <= y,
            Ops.CMPEQ: x == y, Ops.CMPNE: x != y,
        }  # fmt: skip
    for op, result in table.items():
        to = dtypes.bool_ if result.dtype == np.bool_ else dtype
        for v, want in zip(values, result.tolist(), strict=True):
            assert evaluate(op, to, v, dtype) == want, (op, v)


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8], ids=lambda d: d.name)
def test_division_is_total(dtype: DType) -> None:
    for x, y in itertools.product(every(dtype), repeat=2):
        x, y = int(x), int(y)
        if y:
            floor, trunc = Fraction(x, y).__floor__(), math.trunc(Fraction(x, y))
        got = [evaluate(op, dtype, (x, y)) for op in (Ops.IDIV, Ops.IMOD, Ops.FLOORDIV, Ops.FLOORMOD)]
        want = [trunc, x - trunc * y, floor, x - floor * y] if y else [0, x, 0, x]
        assert got == [dtypes.wrap(w, dtype) for w in want], (x, y)
    assert evaluate(Ops.IDIV, dtypes.int32, (-(1 << 31), -1)) == -(1 << 31)
    assert evaluate(Ops.IMOD, dtypes.int32, (-(1 << 31), -1)) == 0


def test_shifts_past_the_width_give_zero_or_the_sign() -> None:
    for dtype in (dtypes.int8, dtypes.uint8):
        for x, count in itertools.product(every(dtype), range(8)):
            assert evaluate(Ops.SHL, dtype, (x, count)) == dtypes.wrap(int(x) << count, dtype)
            assert evaluate(Ops.SHR, dtype, (x, count)) == int(x) >> count
        for count in (8, 9, 100, 127):
            assert evaluate(Ops.SHL, dtype, (-1 if dtype.kind == "int" else 255, count)) == 0
    assert evaluate(Ops.SHR, dtypes.int8, (-3, 8)) == -1 and evaluate(Ops.SHR, dtypes.int8, (3, -1)) == 0
    assert evaluate(Ops.SHR, dtypes.uint8, (255, 8)) == 0
    assert evaluate(Ops.SHL, dtypes.index, (1, 100)) == 1 << 100


def test_index_is_unbounded_and_weakfloat_is_a_double() -> None:
    assert evaluate(Ops.MUL, dtypes.index, (1 << 62, 1 << 62)) == 1 << 124
    assert evaluate(Ops.FLOORDIV, dtypes.index, (-7, 2)) == -4
    assert evaluate(Ops.ADD, dtypes.weakfloat, (0.1, 0.2)) == 0.1 + 0.2


def test_bools() -> None:
    for x, y in itertools.product((False, True), repeat=2):
        assert evaluate(Ops.ADD, dtypes.bool_, (x, y)) is (x or y)
        assert evaluate(Ops.MUL, dtypes.bool_, (x, y)) is (x and y)
        assert evaluate(Ops.XOR, dtypes.bool_, (x, y)) is (x != y)
        assert evaluate(Ops.CMPLT, dtypes.bool_, (x, y), dtypes.bool_) is (not x and y)
    assert evaluate(Ops.NOT, dtypes.bool_, (True,)) is False
    assert evaluate(Ops.WHERE, dtypes.int8, (False, 3, 4)) == 4


@pytest.mark.parametrize("to", dtypes.floats, ids=lambda d: d.name)
def test_casts_to_floats_round_once(to: DType) -> None:
    values = [v for d in (dtypes.float32, dtypes.float64) for v in sample(d, 400)] + list(SPECIAL)
    with np.errstate(all="ignore"):
        want = np.array(values).astype(NUMPY[to]).astype(np.float64).tolist()
    for a, w in zip(values, want, strict=True):
        got = evaluate(Ops.CAST, to, (a,), dtypes.float64)
        if to.bits >= 32 or to is dtypes.float16:  # ml_dtypes rounds a double to float first
            assert same(got, w), (a, got, w)
    singles = [float(np.float32(v)) for v in sample(dtypes.float32, 2000)]
    with np.errstate(all="ignore"):
        want = np.array(singles, np.float32).astype(NUMPY[to]).astype(np.float64).tolist()
    for a, w in zip(singles, want, strict=True):
        assert same(evaluate(Ops.CAST, to, (a,), dtypes.float32), w), (a, w)


def test_casts_of_integers_to_floats_round_once() -> None:
    rng = random.Random(3)
    values = [rng.getrandbits(rng.randint(1, 63)) * rng.choice((1, -1)) for _ in range(2000)]
    values += [(1 << 60) + (1 << 36) + 1, (1 << 63) - 1, (1 << 53) + 1]
    for kind, to in ((np.float32, dtypes.float32), (np.float64, dtypes.float64)):
        for v in values:
            assert evaluate(Ops.CAST, to, (v,), dtypes.int64) == float(np.int64(v).astype(kind)), v


def test_casts_of_floats_to_integers_saturate() -> None:
    for to in dtypes.ints:
        assert evaluate(Ops.CAST, to, (math.nan,), dtypes.float32) == 0
        assert evaluate(Ops.CAST, to, (math.inf,), dtypes.float32) == to.max
        assert evaluate(Ops.CAST, to, (-1e30,), dtypes.float32) == to.min
        assert evaluate(Ops.CAST, to, (99.9,), dtypes.float32) == 99
        assert evaluate(Ops.CAST, to, (-0.9,), dtypes.float32) == 0
    assert evaluate(Ops.CAST, dtypes.int8, (300,), dtypes.int32) == 44
    assert evaluate(Ops.CAST, dtypes.bool_, (math.nan,), dtypes.float32) is True
    assert evaluate(Ops.CAST, dtypes.bool_, (-0.0,), dtypes.float32) is False


def test_bitcast_keeps_the_bits() -> None:
    for v in sample(dtypes.float32, 500):
        bits = int(np.float32(v).view(np.int32))
        if not math.isnan(v):
            assert evaluate(Ops.BITCAST, dtypes.int32, (v,), dtypes.float32) == bits
        assert same(evaluate(Ops.BITCAST, dtypes.float32, (bits,), dtypes.int32), v)
    with pytest.raises(DTypeError, match="bitcast"):
        evaluate(Ops.BITCAST, dtypes.int32, (1.0,))


def test_mulacc_rounds_once() -> None:
    rng = random.Random(5)
    for dtype in (dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.float64):
        step = 2.0**-dtype.mantissa
        for _ in range(3000):
            x, y = 1 + rng.randint(0, 60) * step, 1 + rng.randint(0, 60) * step
            z = rng.choice((-1, 1)) * math.ldexp(1, rng.randint(-60, 1))
            got = evaluate(Ops.MULACC, dtype, (x, y, z))
            exact = Fraction(x) * Fraction(y) + Fraction(z)
            gap = abs(Fraction(got) - exact)
            neighbours = [math.nextafter(got, s) for s in (math.inf, -math.inf)]
            if dtype is not dtypes.float64:
                bits = dtypes.to_bits(got, dtype)
                neighbours = [float(dtypes.from_bits(b, dtype)) for b in (bits + 1, bits - 1) if bits]
            assert all(gap <= abs(Fraction(n) - exact) for n in neighbours if math.isfinite(n))
    # an exact product 1 + 2^-22 + 2^-46 plus a tiny term below the midpoint of two float32 numbers
    e = 2.0**-23
    assert evaluate(Ops.MULACC, dtypes.float32, (1 + e, 1 - e, -1.0)) == -(e * e)


def test_mulacc_special_values() -> None:
    f, inf = dtypes.float64, math.inf
    assert evaluate(Ops.MULACC, f, (1e300, 1e300, -inf)) == -inf
    assert evaluate(Ops.MULACC, f, (1e300, 1e300, 0.0)) == inf
    assert math.isnan(evaluate(Ops.MULACC, f, (inf, 0.0, 1.0)))
    assert math.isnan(evaluate(Ops.MULACC, f, (inf, 1.0, -inf)))
    assert same(evaluate(Ops.MULACC, f, (2.0, 3.0, -6.0)), 0.0)
    assert same(evaluate(Ops.MULACC, f, (-0.0, 3.0, -0.0)), -0.0)
    assert same(fma(1e-200, 1e-200, 0.0, f), 0.0) and same(fma(1e-200, -1e-200, -0.0, f), -0.0)
    assert evaluate(Ops.MULACC, dtypes.int8, (100, 3, 1)) == dtypes.wrap(301, dtypes.int8)


def test_round_exact_agrees_with_the_float_of_a_fraction() -> None:
    rng = random.Random(9)
    for _ in range(3000):
        value = Fraction(rng.getrandbits(80) * rng.choice((1, -1)), rng.getrandbits(80) | 1)
        value *= Fraction(2) ** rng.randint(-1100, 900)
        assert same(round_exact(value, dtypes.float64), float(value))
    assert round_exact(Fraction(1, 1 << 1074), dtypes.float64) == 5e-324
    assert same(round_exact(Fraction(-1, 1 << 1075), dtypes.float64), -0.0)
    assert round_exact(1 << 200, dtypes.float32) == math.inf
    assert math.isnan(round_exact(1 << 20, dtypes.float8_e4m3))


def test_transcendentals_of_special_values() -> None:
    f, inf = dtypes.float32, math.inf
    assert evaluate(Ops.EXP2, f, (-inf,)) == 0 and evaluate(Ops.EXP2, f, (2000.0,)) == inf
    assert evaluate(Ops.LOG2, f, (0.0,)) == -inf and evaluate(Ops.LOG2, f, (8.0,)) == 3.0
    assert math.isnan(evaluate(Ops.LOG2, f, (-1.0,))) and math.isnan(evaluate(Ops.SIN, f, (inf,)))
    assert same(evaluate(Ops.SIN, f, (-0.0,)), -0.0)


def test_pow_follows_ieee_754_9_2_1() -> None:
    def power(x: float, y: float) -> Number:
        return evaluate(Ops.POW, dtypes.float64, (x, y))

    # numpy computes a power of 0.5 as a square root, which breaks the rule for -0.0
    values = [*(v for v in SPECIAL if v != 0.5), 2.0, -2.0, 1e300, -3.0, 0.25]
    with np.errstate(all="ignore"):
        for x, y in itertools.product(values, repeat=2):
            got, want = float(power(x, y)), float(np.power(np.float64(x), np.float64(y)))
            assert same(got, want) or math.isclose(got, want, rel_tol=4e-16), (x, y)
    assert power(-1e300, 3.0) == -math.inf and power(-1e300, 2.0) == math.inf


@pytest.mark.parametrize(
    ("counter", "key", "result"),
    [
        (0, 0, 0x99BA4EFE_6B200159),
        (0xFFFFFFFF_FFFFFFFF, 0xFFFFFFFF_FFFFFFFF, 0xBB002BE7_1CB996FC),
        (0x85A308D3_243F6A88, 0x03707344_13198A2E, 0x483DF7A0_C4923A9C),
    ],
)
def test_threefry_known_answers(counter: int, key: int, result: int) -> None:
    """The threefry2x32 R=20 vectors published with Random123 (kat_vectors)."""
    assert evaluate(Ops.THREEFRY, dtypes.uint64, (counter, key)) == result


def test_meaningless_pairs_are_errors() -> None:
    for op, dtype in ((Ops.DIV, dtypes.int32), (Ops.SHL, dtypes.bool_), (Ops.AND, dtypes.float32)):
        with pytest.raises(DTypeError, match=op.value):
            evaluate(op, dtype, (1, 1))
