"""Narrow floats and integers in wider ones, and floats that a target cannot even load."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.codegen.decompose import decompose
from tiny_core.dtypes import DType
from tiny_core.errors import RenderError
from tiny_core.ir.ops import COMPARE, ELEMENTWISE, Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities

Apply = Callable[..., np.ndarray]
Target = Callable[..., Capabilities]
KINDS = {
    dtypes.float16: np.dtype(np.float16), dtypes.bfloat16: np.dtype(ml_dtypes.bfloat16),
    dtypes.float8_e4m3: np.dtype(ml_dtypes.float8_e4m3fn),
    dtypes.float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
    dtypes.float8_e4m3fnuz: np.dtype(ml_dtypes.float8_e4m3fnuz),
    dtypes.float8_e5m2fnuz: np.dtype(ml_dtypes.float8_e5m2fnuz),
}  # fmt: skip
NARROW = pytest.mark.parametrize("dtype", list(KINDS), ids=lambda d: d.name)
LEVELS = pytest.mark.parametrize("level", ["storage only", "absent", "casts by bits"])


def capabilities(target: Target, dtype: DType, level: str) -> Capabilities:
    if level == "absent":
        return target(set(), {dtype})
    keeps = {Ops.BITCAST} if level == "casts by bits" else {Ops.BITCAST, Ops.CAST}
    return target(set(), set(), {(op, dtype) for op in ELEMENTWISE - keeps})


def every(dtype: DType) -> np.ndarray:
    return np.arange(1 << dtype.bits, dtype=f"u{dtype.itemsize}").view(KINDS[dtype])


def assert_same(got: np.ndarray, want: np.ndarray, x: object = None) -> None:
    """The same values bit for bit, all NaNs being one."""
    word = f"u{got.dtype.itemsize}"
    a, b = got.astype(np.float64), want.astype(np.float64)
    same = (got.view(word) == want.view(word)) | (np.isnan(a) & np.isnan(b))
    assert same.all(), (got[~same][:5], want[~same][:5], np.flatnonzero(~same)[:5])


@NARROW
@LEVELS
def test_casts_round_to_nearest_even(dtype: DType, level: str, apply: Apply, target: Target) -> None:
    caps = capabilities(target, dtype, level)
    with np.errstate(all="ignore"):
        x = every(dtype)
        assert_same(apply(Ops.CAST, (dtype,), dtypes.float32, caps, (x,)), x.astype(np.float32))
        rng = np.random.default_rng(1)
        singles = rng.integers(0, 1 << 32, 40000, np.uint64).astype(np.uint32).view(np.float32)
        values = x.astype(np.float32)[np.isfinite(x.astype(np.float32))]
        halfway = (np.sort(values)[1:] / 2 + np.sort(values)[:-1] / 2).astype(np.float32)
        edges = [np.nextafter(halfway, np.float32(s)) for s in (np.inf, -np.inf)]
        top = np.float32(dtype.largest) * np.linspace(0.9, 1.2, 301, dtype=np.float32)
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45], np.float32)
        singles = np.concatenate([singles, values, halfway, *edges, top, -top, special])
        assert_same(apply(Ops.CAST, (dtypes.float32,), dtype, caps, (singles,)), singles.astype(KINDS[dtype]))


@NARROW
@LEVELS
def test_arithmetic_rounds_once(dtype: DType, level: str, apply: Apply, target: Target) -> None:
    caps = capabilities(target, dtype, level)
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << dtype.bits, (2, 20000)).astype(f"u{dtype.itemsize}")
    x, y = bits.view(KINDS[dtype])
    with np.errstate(all="ignore"):
        a, b = x.astype(np.float64), y.astype(np.float64)
        table = {Ops.ADD: a + b, Ops.SUB: a - b, Ops.MUL: a * b, Ops.DIV: a / b}
        for op, want in table.items():
            single = want.astype(
                np.float32
            )  # rounds as the exact result does: ml_dtypes goes this way itself
            assert_same(apply(op, (dtype, dtype), dtype, caps, (x, y)), single.astype(KINDS[dtype]))
        for op, truth in {Ops.CMPLT: a < b, Ops.CMPLE: a <= b, Ops.CMPEQ: a == b, Ops.CMPNE: a != b}.items():
            assert (apply(op, (dtype, dtype), dtypes.bool_, caps, (x, y)) == truth).all()
        for op, one in {Ops.SQRT: np.sqrt(a), Ops.NEG: -a, Ops.TRUNC: np.trunc(a)}.items():
            assert_same(apply(op, (dtype,), dtype, caps, (x,)), one.astype(np.float32).astype(KINDS[dtype]))


@pytest.mark.parametrize(
    "source", [dtypes.float64, dtypes.int32, dtypes.uint64, dtypes.int64], ids=lambda d: d.name
)
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda d: d.name)
def test_wide_sources_round_once(source: DType, dtype: DType, apply: Apply, target: Target) -> None:
    """Exact references: a number just beside the midpoint of two narrow ones goes to the nearer."""
    from fractions import Fraction

    from tiny_core.ir.arith import round_exact

    rng = np.random.default_rng(5)
    near = [int(rng.integers(1 << 8, 1 << 16)) | 1 for _ in range(400)]
    values: list[float | int] = []
    for m in near:
        if source is dtypes.float64:
            for off in (0.0, 2.0**-40, -(2.0**-40)):
                values.append((m + off) * 2.0 ** int(rng.integers(-20, 0)))
        else:
            top = source.bits - (source.kind == "int") - 17
            k = int(rng.integers(0, top))
            values += [(m << k) + off for off in (-1, 0, 1)]
    x = np.array(values, source.name)
    kind = KINDS[dtype]
    want = np.array([round_exact(Fraction(v.item()), dtype) for v in x], np.float32).astype(kind)
    for level in ("absent", "casts by bits"):
        assert_same(apply(Ops.CAST, (source,), dtype, capabilities(target, dtype, level), (x,)), want)


@NARROW
def test_buffers_of_an_absent_float_hold_bits(
    dtype: DType, target: Target, compute: Callable[..., list[np.ndarray]]
) -> None:
    caps = target(set(), {dtype})
    n = 64
    i = UOp.range(UOp.const(n // 4, dtypes.int32), "i")
    gate = UOp.const(n // 4 - 2, dtypes.int32)
    x, y, out = (UOp.param(k, dtype, n, "rw") for k in range(3))
    mask = (i < gate).splat(4)
    value = x.load(i * 4, mask, 1.5, lanes=4) + y.load(i * 4, lanes=4)
    slot = UOp.near(dtype, 1, 7, "register", 4)
    held = slot.after(slot.store(UOp.const(0, dtypes.int32), value)).load(UOp.const(0, dtypes.int32))
    kernel = decompose(UOp.sink(out.store(i * 4, held, mask)), caps)
    data = every(dtype)[:: (1 << dtype.bits) // n][:n]
    memory = {0: data.copy(), 1: data[::-1].copy(), 2: np.zeros(n, KINDS[dtype])}
    assert all(p.dtype.kind == "uint" for p in kernel.toposort() if p.op is Ops.PARAM)
    compute((kernel,), caps, memory, n // 4)
    with np.errstate(all="ignore"):
        want = (memory[0].astype(np.float32) + memory[1].astype(np.float32)).astype(KINDS[dtype])
    want[-8:] = 0
    assert_same(memory[2], want)


def test_bits_of_an_absent_float_are_its_storage(apply: Apply, target: Target) -> None:
    caps = target(set(), {dtypes.float16})
    x = every(dtypes.float16)
    got = apply(Ops.BITCAST, (dtypes.float16,), dtypes.uint16, caps, (x,))
    assert (got == x.view(np.uint16)).all()
    assert_same(apply(Ops.BITCAST, (dtypes.uint16,), dtypes.float16, caps, (x.view(np.uint16),)), x)


@pytest.mark.parametrize(
    "dtype", [dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16], ids=lambda d: d.name
)
def test_small_integers_compute_in_32_bits(dtype: DType, apply: Apply, target: Target) -> None:
    caps = target(set(), set(), {(op, dtype) for op in ELEMENTWISE - {Ops.CAST, Ops.BITCAST}})
    kind = np.dtype(dtype.name)
    info = np.iinfo(kind)
    rng = np.random.default_rng(2)
    x, y = rng.integers(info.min, info.max, (2, 20000), kind, endpoint=True)
    count = (y.astype(np.int64) % 24).astype(kind)
    with np.errstate(all="ignore"):
        wide = x.astype(np.int64)
        table = {
            Ops.ADD: x + y, Ops.SUB: x - y, Ops.MUL: x * y, Ops.AND: x & y, Ops.XOR: x ^ y,
            Ops.MAX: np.maximum(x, y),
            Ops.CMPLT: x < y, Ops.CMPNE: x != y,
        }  # fmt: skip
        for op, want in table.items():
            to = dtypes.bool_ if op in COMPARE else dtype
            assert (apply(op, (dtype, dtype), to, caps, (x, y)) == want).all(), op
        got = apply(Ops.SHL, (dtype, dtype), dtype, caps, (x, count))
        assert (got == (wide << count.astype(np.int64)).astype(kind)).all()
        got = apply(Ops.SHR, (dtype, dtype), dtype, caps, (x, count))
        assert (got == (wide >> count.astype(np.int64)).astype(kind)).all()
        got = apply(Ops.IDIV, (dtype, dtype), dtype, caps, (x, y))
        safe = np.where(y == 0, 1, y).astype(np.int64)
        want = np.where(y == 0, 0, np.sign(wide) * np.sign(safe) * (np.abs(wide) // np.abs(safe))).astype(
            kind
        )
        assert (got == want).all()


def test_no_integers_to_store_a_float_in_is_an_error(target: Target) -> None:
    caps = target(set(), {dtypes.float16, dtypes.uint16})
    load = UOp.param(0, dtypes.float16, 4).load(UOp.const(0, dtypes.int32))
    with pytest.raises(RenderError, match="neither float16 nor uint16"):
        decompose(load + 1.0, caps)
