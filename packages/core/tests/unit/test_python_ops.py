"""The PYTHON device's op table against scalar arithmetic on unbounded numbers: all 8-bit values, edges of the
others."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.devices.python.ops import apply
from tiny_core.devices.python.rounding import Array, numpy_dtype
from tiny_core.dtypes import DType, Number
from tiny_core.errors import DTypeError, RenderError
from tiny_core.ir.arith import evaluate, round_exact
from tiny_core.ir.ops import BINARY, TERNARY, UNARY, Ops

INEXACT = (Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW)  # through the C library there, through numpy here
ALL_OPS: list[Ops] = sorted(UNARY | BINARY, key=lambda o: str(o.value))
EIGHT = tuple(d for d in dtypes.storable if d.bits == 8)
WIDE = tuple(d for d in dtypes.storable if d.bits != 8)


def array(values: list[Number], dtype: DType) -> Array:
    """The values' bit patterns, so that the conversion under test has no part in making its input."""
    bits = np.array([dtypes.to_bits(v, dtype) for v in values], f"u{dtype.itemsize}")
    return bits.view(numpy_dtype(dtype))


def numbers(result: Array, dtype: DType) -> list[Number]:
    bits = result.view(f"u{dtype.itemsize}").tolist()
    known = {b: dtypes.from_bits(b, dtype) for b in set(bits)}
    return [known[b] for b in bits]


def every(dtype: DType) -> list[Number]:
    count = 2 if dtype.kind == "bool" else 256
    return [dtypes.from_bits(bits, dtype) for bits in range(count)]


def edges(dtype: DType) -> list[Number]:
    if dtype.is_int:
        bits = dtype.bits
        near = {
            0,
            1,
            2,
            3,
            7,
            bits - 1,
            bits,
            bits + 1,
            1 << (bits // 2),
            (1 << (bits - 2)) + 1,
            2**24 + 1,
            2**53 + 1,
        }
        near |= {int(dtype.max), int(dtype.max) - 1, int(dtype.min), int(dtype.min) + 1}
        return sorted({dtypes.wrap(s * v, dtype) for v in near for s in (1, -1)})
    least = 2.0 ** (2 - (1 << (dtype.exponent - 1)))
    tiny = dtypes.from_bits(1, dtype)
    ulp = 2.0**-dtype.mantissa
    small = [0.0, tiny, 3 * tiny, least, least - tiny, 1e-3, 1 / 3, 0.5, 0.75]
    sizes = [
        *small,
        1.0,
        1 + ulp,
        1 - ulp / 2,
        1.5,
        2.0,
        2.5,
        3.0,
        10.0,
        255.5,
        2.0**31,
        2.0**32,
        2.0**63,
        2.0**64,
    ]
    sizes += [dtype.largest, math.inf]
    values = [float(dtypes.convert(s * v, dtype)) for v in sizes for s in (1, -1)]
    return [*values, math.nan]


def same(got: Number, want: Number, dtype: DType, ulps: int) -> bool:
    if not dtype.is_float:
        return got == want
    a, b = float(got), float(want)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    if a == b:
        return math.copysign(1, a) == math.copysign(1, b)
    return ulps > 0 and abs(dtypes.to_bits(a, dtype) - dtypes.to_bits(b, dtype)) <= ulps


def check(op: Ops, dtype: DType, columns: list[list[Number]], kinds: list[DType]) -> None:
    """Compare on all rows of `columns`."""
    out = dtypes.bool_ if op in (Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE) else dtype
    source = kinds[0] if op in (Ops.CAST, Ops.BITCAST) else None
    result = apply(op, dtype, tuple(array(c, k) for c, k in zip(columns, kinds, strict=True)), source)
    assert result.dtype == numpy_dtype(out)
    ulps = 1 if op in INEXACT else 0
    for row, got in zip(zip(*columns, strict=True), numbers(result, out), strict=True):
        want = evaluate(op, out, row, kinds[0])
        if got == want and got:
            continue  # most of them, at once
        assert same(got, want, out, ulps), f"{op.value} {dtype.name} {row}: {got!r}, not {want!r}"


def meaning(op: Ops, dtype: DType) -> bool:
    sample: tuple[Number, ...] = (True, 1, 1) if op is Ops.WHERE else (1,) * (1 if op in UNARY else 2)
    try:
        evaluate(op, dtype, (*sample, 1) if op is Ops.MULACC else sample, dtype)
    except DTypeError:
        return False
    return True


@pytest.mark.parametrize("dtype", EIGHT, ids=lambda d: d.name)
@pytest.mark.parametrize("op", ALL_OPS, ids=lambda o: o.value)
def test_all_8_bit_values(op: Ops, dtype: DType) -> None:
    values = every(dtype)
    if not meaning(op, dtype):
        with pytest.raises(RenderError, match="no meaning"):
            apply(op, dtype, (array(values, dtype),) * (1 if op in UNARY else 2))
        return
    if op in UNARY:
        check(op, dtype, [values], [dtype])
        return
    pairs = list(itertools.product(values, values))
    if dtype.variant == "fnuz":
        pairs = pairs[::7]  # they differ from the others in zeros, NaN and range only, and time is short
    check(op, dtype, [[x for x, _ in pairs], [y for _, y in pairs]], [dtype, dtype])


@pytest.mark.parametrize("dtype", WIDE, ids=lambda d: d.name)
@pytest.mark.parametrize("op", ALL_OPS, ids=lambda o: o.value)
def test_edges_of_wider_types(op: Ops, dtype: DType) -> None:
    values = edges(dtype)
    if not meaning(op, dtype):
        with pytest.raises(RenderError, match="no meaning"):
            apply(op, dtype, (array(values, dtype),) * (1 if op in UNARY else 2))
        return
    if op in UNARY:
        check(op, dtype, [values], [dtype])
        return
    pairs = list(itertools.product(values, values))
    check(op, dtype, [[x for x, _ in pairs], [y for _, y in pairs]], [dtype, dtype])


@pytest.mark.parametrize("dtype", (*dtypes.narrow_floats[4:], dtypes.float32), ids=lambda d: d.name)
@pytest.mark.parametrize("op", [Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV], ids=lambda o: o.value)
def test_random_bit_patterns(op: Ops, dtype: DType) -> None:
    pick = random.Random(5)
    xs, ys = ([dtypes.from_bits(pick.getrandbits(dtype.bits), dtype) for _ in range(3000)] for _ in range(2))
    check(op, dtype, [xs, ys], [dtype, dtype])


@pytest.mark.parametrize("dtype", dtypes.storable, ids=lambda d: d.name)
def test_fused_multiply_add(dtype: DType) -> None:
    pick = random.Random(7)
    values = every(dtype) if dtype.bits == 8 else edges(dtype)
    rows = [tuple(pick.choice(values) for _ in range(3)) for _ in range(6000)]
    check(Ops.MULACC, dtype, [[r[i] for r in rows] for i in range(3)], [dtype] * 3)


@pytest.mark.parametrize("dtype", dtypes.floats, ids=lambda d: d.name)
def test_fused_multiply_add_where_two_roundings_would_differ(dtype: DType) -> None:
    """Addends that nearly cancel the product, or that leave the sum beside the middle of two neighbours."""
    pick, rows = random.Random(11), []
    for _ in range(4000):
        x, y = (float(dtypes.convert(pick.uniform(-2, 2), dtype)) for _ in range(2))
        scale = pick.choice((-1.0, 1.0)) * 2.0 ** pick.choice((0, -1, dtype.mantissa, dtype.mantissa + 1))
        z = round_exact(Fraction(x) * Fraction(y) * Fraction(scale), dtype)
        rows.append((x, y, z))
    check(Ops.MULACC, dtype, [[r[i] for r in rows] for i in range(3)], [dtype] * 3)


def test_fused_multiply_add_of_float64_at_the_ends_of_its_range() -> None:
    pick, rows = random.Random(13), []
    for _ in range(2000):
        x, y, z = (
            math.ldexp(pick.uniform(-2, 2), pick.choice((-1074, -1022, -500, 0, 500, 1022))) for _ in range(3)
        )
        rows.append((x, y, pick.choice((z, -x * y, 0.0, -0.0))))
    check(Ops.MULACC, dtypes.float64, [[r[i] for r in rows] for i in range(3)], [dtypes.float64] * 3)


@pytest.mark.parametrize("source", dtypes.storable, ids=lambda d: d.name)
def test_casts_between_all_types(source: DType) -> None:
    values = every(source) if source.bits == 8 else edges(source)
    if source.bits > 8:
        pick = random.Random(3)
        values = values + [dtypes.from_bits(pick.getrandbits(source.bits), source) for _ in range(500)]
    for dtype in dtypes.storable:
        check(Ops.CAST, dtype, [values], [source])


@pytest.mark.parametrize("dtype", (*dtypes.narrow_floats, dtypes.float32), ids=lambda d: d.name)
def test_doubles_round_once(dtype: DType) -> None:
    """Doubles just beside the middle of two neighbours, where a detour through float32 would lose the
    difference."""
    pick, values = random.Random(17), []
    bottom = 2 - (1 << (dtype.exponent - 1)) - dtype.mantissa
    for _ in range(2000):
        quantum = pick.randint(bottom, min(bottom + 40, (1 << (dtype.exponent - 1)) - dtype.mantissa - 3))
        middle = math.ldexp(pick.randrange(1 << dtype.mantissa) + 0.5, quantum)
        values.append(
            pick.choice((-1, 1)) * middle * (1 + pick.choice((-1, 0, 1)) * 2.0 ** pick.randint(-52, -30))
        )
    check(Ops.CAST, dtype, [values], [dtypes.float64])


@pytest.mark.parametrize("dtype", dtypes.narrow_floats, ids=lambda d: d.name)
def test_wide_integers_round_once(dtype: DType) -> None:
    pick = random.Random(19)
    for source in (dtypes.int64, dtypes.uint64):
        values: list[Number] = []
        for _ in range(1000):
            top = pick.randint(dtype.mantissa + 2, 62)
            middle = ((1 << dtype.mantissa) + pick.randrange(1 << dtype.mantissa)) * 2 + 1
            value = (middle << (top - dtype.mantissa - 2)) + pick.choice((-1, 0, 1))
            values.append(value if source.is_unsigned else pick.choice((-1, 1)) * value)
        check(Ops.CAST, dtype, [values], [source])


def test_bitcasts_keep_bits() -> None:
    for source, dtype in itertools.product(dtypes.storable, dtypes.storable):
        if source.bits == dtype.bits and source.kind != "bool" and dtype.kind != "bool":
            bits = np.arange(256, dtype=np.uint8).repeat(source.itemsize)
            out = apply(Ops.BITCAST, dtype, (bits.view(numpy_dtype(source)),), source)
            assert out.tobytes() == bits.tobytes()
    assert apply(Ops.BITCAST, dtypes.bool_, (np.array([0, 1, 2, 255], np.uint8),), dtypes.uint8).tolist() == [
        False, True, True, True,
    ]  # fmt: skip
    with pytest.raises(RenderError, match="widths differ"):
        apply(Ops.BITCAST, dtypes.float32, (np.zeros(1, np.int64),), dtypes.int64)


@pytest.mark.parametrize("dtype", dtypes.storable, ids=lambda d: d.name)
def test_where_picks_lanes(dtype: DType) -> None:
    values = every(dtype) if dtype.bits == 8 else edges(dtype)
    flags: list[Number] = [bool(i % 3) for i in range(len(values))]
    check(Ops.WHERE, dtype, [flags, values, values[::-1]], [dtypes.bool_, dtype, dtype])


def test_threefry_matches_the_published_vectors() -> None:
    """Known-answer tests of Random123 1.14 (kat_vectors, threefry2x32 20 rounds)."""
    counters = np.array([0, 0xFFFFFFFFFFFFFFFF, 0x85A308D3243F6A88], np.uint64)
    keys = np.array([0, 0xFFFFFFFFFFFFFFFF, 0x0370734413198A2E], np.uint64)
    words = [
        (int(r) & 0xFFFFFFFF, int(r) >> 32) for r in apply(Ops.THREEFRY, dtypes.uint64, (counters, keys))
    ]
    assert words == [(0x6B200159, 0x99BA4EFE), (0x1CB996FC, 0xBB002BE7), (0xC4923A9C, 0x483DF7A0)]


def test_every_op_is_covered() -> None:
    assert {Ops.WHERE, Ops.MULACC} == set(TERNARY)
