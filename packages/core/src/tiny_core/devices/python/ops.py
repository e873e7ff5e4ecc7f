"""What every element-wise op means, as functions of numpy arrays.

In: an op and the dtype of its operands. Out: a function from operand arrays (any shapes that broadcast) to
the result array. Guaranteed: total (nothing raises or warns on any values, given
`numpy.errstate(all="ignore")`), integers wrap, and floats are rounded once, EXP2, LOG2, SIN and POW excepted:
those are numpy's double functions, rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from tiny_core.api import DType, Ops, RenderError, dtypes
from tiny_core.devices.python.rounding import (
    Array,
    fma32,
    fma64,
    fma_narrow,
    narrow,
    numpy_dtype,
    whole_to_double,
)

Function = Callable[..., Array]


def apply(op: Ops, dtype: DType, arrays: tuple[Array, ...], source: DType | None = None) -> Array:
    """Return `op` of `arrays`.

    Args:
        op: an op of ELEMENTWISE.
        dtype: for CAST and BITCAST the dtype of the result, else that of the operands (of x and y for WHERE).
        arrays: the operands, of the numpy dtypes that `numpy_dtype` gives.
        source: for CAST and BITCAST, the dtype of the operand.

    Raises:
        RenderError: the op has no meaning for the dtype.
    """
    with np.errstate(all="ignore"):
        return function(op, dtype, source)(*arrays)


@cache
def function(op: Ops, dtype: DType, source: DType | None = None) -> Function:
    """Return the function that `apply` calls; it expects floating-point warnings to be off."""
    if op is Ops.CAST:
        assert source is not None, "a cast needs the dtype it is from"
        return _cast(source, dtype)
    if op is Ops.BITCAST:
        assert source is not None, "a bitcast needs the dtype it is from"
        return _bitcast(source, dtype)
    if op is Ops.WHERE:
        return np.where
    if op is Ops.THREEFRY and dtype is dtypes.uint64:
        return _threefry
    if dtype.is_float:
        found = _FLOAT.get(op)
        if op is Ops.MULACC:
            found = {32: fma32, 64: fma64}.get(dtype.bits, lambda x, y, z: fma_narrow(x, y, z, dtype))
        elif found is not None and dtype.bits < 64:
            found = _rounded(op, found, dtype)
    else:
        found = (_BOOL if dtype.kind == "bool" else _INT).get(op)
    if found is None:
        raise RenderError(f"{op.value} has no meaning for {dtype.name}")
    return found


# ---- floats ----------------------------------------------------------------------------------------------


def _maximum(x: Array, y: Array) -> Array:
    result: Array = np.maximum(x, y)
    zero = result == 0
    if zero.any():  # numpy leaves open which of two zeros it gives; their sum is -0.0 only if both are
        result = np.where(zero & (x == y), x + y, result)
    return result


def _minimum(x: Array, y: Array) -> Array:
    result: Array = np.minimum(x, y)
    zero = result == 0
    if zero.any():
        result = np.where(zero & (x == y), -(-x - y), result)
    return result


# Functions of float32 and float64 arrays.
_FLOAT: dict[Ops, Function] = {
    Ops.NEG: np.negative,
    Ops.RECIP: np.reciprocal,
    Ops.SQRT: np.sqrt,
    Ops.EXP2: np.exp2,
    Ops.LOG2: np.log2,
    Ops.SIN: np.sin,
    Ops.TRUNC: np.trunc,
    Ops.ADD: np.add,
    Ops.SUB: np.subtract,
    Ops.MUL: np.multiply,
    Ops.DIV: np.divide,
    Ops.POW: np.power,
    Ops.MAX: _maximum,
    Ops.MIN: _minimum,
    Ops.CMPLT: np.less,
    Ops.CMPLE: np.less_equal,
    Ops.CMPEQ: np.equal,
    Ops.CMPNE: np.not_equal,
}
_TRANSCENDENTAL = (Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW)
_BASIC = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.RECIP, Ops.SQRT)
_COMPARE = (Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE)


def _rounded(op: Ops, wide: Function, dtype: DType) -> Function:
    """Return `wide`, for operands of a `dtype` narrower than float64: computed wider and rounded once.

    Rounding +, -, *, / and sqrt to 2p+2 bits first is innocuous (Figueroa, "When is double rounding
    innocuous?", 1995): float32 serves float16 and fp8. bfloat16 has float32's exponents, so its tiny products
    need double.
    """
    if op in _TRANSCENDENTAL:
        return lambda *xs: narrow(wide(*(x.astype(np.float64) for x in xs)), dtype)
    if dtype.bits == 32:
        return wide
    if op in _COMPARE:
        return lambda x, y: wide(x.astype(np.float32), y.astype(np.float32))
    if op in _BASIC and dtype is dtypes.bfloat16:
        return lambda *xs: narrow(wide(*(x.astype(np.float64) for x in xs)), dtype)
    target = numpy_dtype(dtype)
    return lambda *xs: wide(*(x.astype(np.float32) for x in xs)).astype(target)


# ---- integers --------------------------------------------------------------------------------------------


def _divisor(y: Array) -> tuple[Array, Array | None]:
    """Return y with ones for zeros, and where those were (None if nowhere)."""
    zero = y == 0
    return (np.where(zero, y.dtype.type(1), y), zero) if zero.any() else (y, None)


def _floordiv(x: Array, y: Array) -> Array:
    y, zero = _divisor(y)
    quotient: Array = np.floor_divide(x, y)  # numpy wraps INT_MIN // -1
    return quotient if zero is None else np.where(zero, x.dtype.type(0), quotient)


def _floormod(x: Array, y: Array) -> Array:
    y, zero = _divisor(y)
    rest: Array = np.remainder(x, y)
    return rest if zero is None else np.where(zero, x, rest)


def _idiv(x: Array, y: Array) -> Array:
    y, zero = _divisor(y)
    quotient: Array = np.floor_divide(x - np.fmod(x, y), y)  # exact after the remainder is off
    return quotient if zero is None else np.where(zero, x.dtype.type(0), quotient)


def _imod(x: Array, y: Array) -> Array:
    y, zero = _divisor(y)
    rest: Array = np.fmod(x, y)
    return rest if zero is None else np.where(zero, x, rest)


_INT: dict[Ops, Function] = {
    Ops.NEG: np.negative,
    Ops.NOT: np.invert,
    Ops.ADD: np.add,
    Ops.SUB: np.subtract,
    Ops.MUL: np.multiply,
    Ops.IDIV: _idiv,
    Ops.IMOD: _imod,
    Ops.FLOORDIV: _floordiv,
    Ops.FLOORMOD: _floormod,
    Ops.MAX: np.maximum,
    Ops.MIN: np.minimum,
    Ops.AND: np.bitwise_and,
    Ops.OR: np.bitwise_or,
    Ops.XOR: np.bitwise_xor,
    # numpy reads a count as unsigned and gives 0, or the sign, for one that is not below the width.
    Ops.SHL: np.left_shift,
    Ops.SHR: np.right_shift,
    Ops.CMPLT: np.less,
    Ops.CMPLE: np.less_equal,
    Ops.CMPEQ: np.equal,
    Ops.CMPNE: np.not_equal,
    Ops.MULACC: lambda x, y, z: x * y + z,
}
_BOOL: dict[Ops, Function] = {
    Ops.NOT: np.logical_not,
    Ops.ADD: np.logical_or,
    Ops.MUL: np.logical_and,
    Ops.MAX: np.logical_or,
    Ops.MIN: np.logical_and,
    Ops.AND: np.logical_and,
    Ops.OR: np.logical_or,
    Ops.XOR: np.logical_xor,
    Ops.CMPLT: np.less,
    Ops.CMPLE: np.less_equal,
    Ops.CMPEQ: np.equal,
    Ops.CMPNE: np.not_equal,
    Ops.MULACC: lambda x, y, z: (x & y) | z,
}

_PARITY = np.uint32(0x1BD11BDA)
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _threefry(counter: Array, key: Array) -> Array:
    """Threefry-2x32, 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011)."""
    low, high = np.uint64(0xFFFFFFFF), np.uint64(32)
    first, second = (key & low).astype(np.uint32), (key >> high).astype(np.uint32)
    keys = (first, second, first ^ second ^ _PARITY)
    a, b = (counter & low).astype(np.uint32) + first, (counter >> high).astype(np.uint32) + second
    for block in range(5):
        for turn in _ROTATIONS[block % 2]:
            a = a + b
            b = ((b << np.uint32(turn)) | (b >> np.uint32(32 - turn))) ^ a
        a = a + keys[(block + 1) % 3]
        b = b + keys[(block + 2) % 3] + np.uint32(block + 1)
    return b.astype(np.uint64) << high | a


# ---- conversions -----------------------------------------------------------------------------------------


def _cast(source: DType, dtype: DType) -> Function:
    target = numpy_dtype(dtype)
    if dtype.kind == "bool":
        return (lambda x: x.astype(np.float32) != 0) if source in dtypes.narrow_floats else lambda x: x != 0
    if not source.is_float:
        if source.kind != "bool" and dtype in dtypes.narrow_floats:
            return lambda x: narrow(whole_to_double(x), dtype)
        return lambda x: x.astype(target)
    if dtype.is_float:
        if source.bits == 64 and dtype in dtypes.narrow_floats:
            return lambda x: narrow(x, dtype)
        if source in dtypes.narrow_floats and dtype.bits <= 16:
            return lambda x: x.astype(np.float32).astype(target)
        return lambda x: x.astype(target)
    return lambda x: _saturate(x, dtype, target)


def _saturate(x: Array, dtype: DType, target: np.dtype[np.generic]) -> Array:
    """Truncate floats toward zero to integers; out of range gives the nearest integer, NaN gives 0."""
    wide = x if x.dtype.itemsize >= 4 else x.astype(np.float32)
    bits = dtype.bits or 64
    above = wide >= 2.0 ** (bits if dtype.is_unsigned else bits - 1)
    below = wide <= -1 if dtype.is_unsigned else wide < -(2.0 ** (bits - 1))
    inside = ~(above | below | np.isnan(wide))
    # A signed minimum minus a fraction still truncates to the minimum; saturating gives the same.
    result: Array = np.where(inside, wide, wide.dtype.type(0)).astype(target)
    if not inside.all():
        result = np.where(above, target.type(dtype.max), result)
        result = np.where(below, target.type(dtype.min), result)
    return result


def _bitcast(source: DType, dtype: DType) -> Function:
    if source.bits != dtype.bits:
        raise RenderError(f"bitcast from {source.name} to {dtype.name}: widths differ")
    target = numpy_dtype(dtype)
    if dtype.kind == "bool":
        return lambda x: x.view(np.uint8) != 0
    return lambda x: x.view(target)
