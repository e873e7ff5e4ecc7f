"""Every op that is declared, on every dtype, as scalars and as vectors, against numpy on values at the
edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from llvm_kernels import Array, Body, closed, levels, numpy_dtype, run

from tiny_core.api import Arch, DType, Ops, UOp, dtypes
from tiny_renderer_llvm.renderer import LLVMRenderer

_VALUES = (dtypes.bool_, *dtypes.ints, dtypes.float16, dtypes.float32, dtypes.float64)


def edges(dtype: DType) -> Array:
    """Values at which an op may go wrong."""
    t = numpy_dtype(dtype)
    if dtype is dtypes.bool_:
        return np.array([False, True], t)
    if dtype.is_float:
        info = np.finfo(t)
        some = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -2.5,
            3.7,
            1e3,
            np.inf,
            -np.inf,
            np.nan,
            info.max,
            info.tiny,
            2049.0,
        ]
        with np.errstate(over="ignore"):
            return np.array(some, t)
    low, high, bits = int(dtype.min), int(dtype.max), dtype.bits
    ints = [0, 1, 2, 3, 7, bits - 1, bits, bits + 1, high, high - 1, low, low + 1, high // 3]
    if low < 0:
        ints += [-1, -2, -3, -7]
    return np.array([x for x in ints if low <= x <= high], t)


def shift(x: Array, y: Array, left: bool) -> Array:
    bits = x.dtype.itemsize * 8
    wide = y.astype(object)
    ok = np.array([0 <= v < bits for v in wide])
    amount = np.where(ok, y, 0).astype(x.dtype)
    if left:
        return np.where(ok, np.left_shift(x, amount), 0).astype(x.dtype)
    beyond = np.right_shift(x, np.array(bits - 1, x.dtype))
    return np.where(ok, np.right_shift(x, amount), beyond if x.dtype.kind == "i" else 0).astype(x.dtype)


def quotient(x: Array, y: Array) -> Array:
    """Toward zero; x/0 is 0; wraps."""
    out = [0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs(x, y)]
    return wrapped(out, x.dtype)


def remainder(x: Array, y: Array) -> Array:
    """Sign of x; x%0 is x."""
    return wrapped([a if b == 0 else abs(a) % abs(b) * (-1 if a < 0 else 1) for a, b in pairs(x, y)], x.dtype)


def pairs(x: Array, y: Array) -> list[tuple[int, int]]:
    return list(zip(x.tolist(), y.tolist(), strict=True))


def wrapped(values: list[int], dtype: np.dtype[Any]) -> Array:
    mask = (1 << dtype.itemsize * 8) - 1
    return np.array([v & mask for v in values], f"u{dtype.itemsize}").view(dtype)


def greatest(x: Array, y: Array) -> Array:
    """NaN if either is; of two zeros the positive one."""
    both = (x == 0) & (y == 0) & (x.dtype.kind == "f")
    return np.where(both, x + y, np.maximum(x, y)).astype(x.dtype)


def least(x: Array, y: Array) -> Array:
    both = (x == 0) & (y == 0) & (x.dtype.kind == "f")
    return np.where(both, -(-x - y) if x.dtype.kind != "b" else x, np.minimum(x, y)).astype(x.dtype)


Reference = Callable[..., Array]
UNARY: dict[Ops, Reference] = {
    Ops.NEG: np.negative, Ops.RECIP: lambda x: (1 / x).astype(x.dtype), Ops.SQRT: np.sqrt,
    Ops.TRUNC: np.trunc, Ops.NOT: np.invert,
}  # fmt: skip
BINARY: dict[Ops, Reference] = {
    Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.DIV: np.divide, Ops.IDIV: quotient,
    Ops.IMOD: remainder, Ops.MAX: greatest, Ops.MIN: least, Ops.AND: np.bitwise_and, Ops.OR: np.bitwise_or,
    Ops.XOR: np.bitwise_xor, Ops.SHL: lambda x, y: shift(x, y, True),
    Ops.SHR: lambda x, y: shift(x, y, False), Ops.CMPLT: np.less, Ops.CMPLE: np.less_equal,
    Ops.CMPEQ: np.equal, Ops.CMPNE: np.not_equal,
}  # fmt: skip
TERNARY: dict[Ops, Reference] = {
    Ops.WHERE: np.where,
    Ops.MULACC: lambda x, y, z: x * y + z,
}


def grid(dtype: DType) -> tuple[Array, Array, int]:
    """All pairs of edges, padded to a multiple of 64 by repetition."""
    e = edges(dtype)
    x, y = (a.ravel() for a in np.meshgrid(e, e))
    n = -(-len(x) // 64) * 64
    return np.resize(x, n), np.resize(y, n), n


def kernel_of(ops: list[Ops], dtype: DType, lanes: int, n: int) -> Body:
    body = Body()
    x = UOp.param(0, dtype, n)
    y = UOp.param(1, dtype, n)
    c = UOp.param(2, dtypes.bool_, n)
    loop = body(UOp.range(UOp.const(n // max(lanes, 1), dtypes.int64), "i"))
    at = loop * lanes if lanes else loop
    a, b, cond = (body(p.load(at, lanes=lanes)) for p in (x, y, c))
    stores = []
    for slot, op in enumerate(ops, 3):
        if op in UNARY:
            value = a.alu(op)
        elif op in BINARY:
            value = a.alu(op, b)
        else:
            value = cond.alu(op, a, b) if op is Ops.WHERE else a.alu(op, b, a)
        stores.append(body(UOp.param(slot, value.dtype, n, "w").store(at, value)))
    body(closed(loop, *stores))
    return body


def expected(op: Ops, x: Array, y: Array, c: Array) -> Array:
    with np.errstate(all="ignore"):
        if op in UNARY:
            return UNARY[op](x)
        if op in BINARY:
            return BINARY[op](x, y)
        return TERNARY[op](c, x, y) if op is Ops.WHERE else TERNARY[op](x, y, x)


def check(got: Array, want: Array, what: str) -> None:
    assert got.dtype == want.dtype, what
    if got.dtype.kind == "f":
        nan = np.isnan(got) & np.isnan(want)
        same = nan | ((got == want) & (np.signbit(got) == np.signbit(want)))
    else:
        same = got == want
    assert same.all(), f"{what}: {got[~same][:5]} instead of {want[~same][:5]} at {np.flatnonzero(~same)[:5]}"


@pytest.mark.parametrize("arch", levels())
@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("dtype", _VALUES, ids=lambda d: d.name)
def test_declared_ops(dtype: DType, vector: bool, arch: str) -> None:
    can = LLVMRenderer(Arch(arch)).capabilities
    if dtype not in can.dtypes:
        assert dtype is dtypes.float16, "every other dtype is there on any CPU"
        return
    ops = [op for op in (*UNARY, *BINARY, *TERNARY) if can.supports(op, dtype)]
    lanes = min(can.vector_bytes // dtype.itemsize, 16) if vector else 0
    x, y, n = grid(dtype)
    c = np.arange(n) % 3 == 0
    want = [expected(op, x, y, c) for op in ops]
    got = [np.zeros(n, w.dtype) for w in want]
    run(kernel_of(ops, dtype, lanes, n), [x, y, c, *got], arch=Arch(arch))
    for op, g, w in zip(ops, got, want, strict=True):
        if op is Ops.MULACC and dtype.is_float:
            with np.errstate(all="ignore"):
                exact = (x.astype(np.longdouble) * y + x).astype(x.dtype)
            fused = dtype in can.fma
            check(g, exact if fused else w, f"{op} of {dtype.name}")
        else:
            check(g, w, f"{op} of {dtype.name}")


def test_every_op_that_is_declared_is_tested() -> None:
    declared = {op for op, _ in LLVMRenderer(Arch()).capabilities.ops}
    assert declared == {*UNARY, *BINARY, *TERNARY, Ops.CAST, Ops.BITCAST}


_GUARDED = [Ops.IDIV, Ops.IMOD, Ops.SHL, Ops.SHR, Ops.MAX, Ops.MIN]


@pytest.mark.parametrize("op", _GUARDED, ids=lambda op: op.value)
@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint16, dtypes.float32], ids=lambda d: d.name)
def test_constant_operands_take_their_short_forms(op: Ops, dtype: DType) -> None:
    if dtype.is_float != (op in (Ops.MAX, Ops.MIN)):
        return  # these ops have no short form for the kind
    values = edges(dtype)
    n = len(values)
    for lanes in (0, 4):
        for constant in values.tolist():
            for swap in (False, True):
                padded = np.resize(values, -(-n // 4) * 4)
                body = Body()
                loop = body(UOp.range(UOp.const(len(padded) // max(lanes, 1), dtypes.int64), "i"))
                at = loop * lanes if lanes else loop
                x = body(UOp.param(0, dtype, n).load(at, lanes=lanes))
                k = UOp.const(constant, dtype, lanes)
                value = k.alu(op, x) if swap else x.alu(op, k)
                body(closed(loop, body(UOp.param(1, dtype, n, "w").store(at, value))))
                got, other = np.zeros_like(padded), np.full_like(padded, constant)
                run(body, [padded, got])
                first, second = (other, padded) if swap else (padded, other)
                want = expected(op, first, second, padded)
                check(got, want, f"{op} {constant} {swap} {lanes}")
