"""CAST between integers, bool, float32 and float64, and TRUNC, by operations on bits.

For targets whose conversions are not declared, or do not saturate. Casts of narrower floats are in
`narrow.py`, those of 64-bit integers on targets without them in `wide.py`.
"""

from __future__ import annotations

from tiny_core.codegen.decompose.bits import FORMATS, UNSIGNED, Format, is_nan, like, select
from tiny_core.dtypes import DType
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities


def cast(node: UOp, target: Capabilities) -> UOp | None:
    """CAST, where a rule of bits gives it."""
    x, to = node.src[0], node.dtype
    if to.kind == "bool":
        return x.ne(0)
    if x.dtype.kind == "bool":
        return select(x, 1, 0, to)
    if x.dtype in FORMATS and to.is_int:
        return to_integer(FORMATS[x.dtype], x, to)
    if x.dtype.is_int and to in FORMATS and x.dtype.bits <= to.bits:
        return to_float(x, FORMATS[to])
    if x.dtype.is_int and to.is_int and x.dtype.bits == to.bits:
        return x.bitcast(to)
    return None


def to_integer(fmt: Format, x: UOp, to: DType) -> UOp:
    """A float to an integer: truncated, saturated, NaN to 0."""
    word = UNSIGNED[max(fmt.dtype.bits, to.bits)]
    bits = x.bitcast(fmt.uint)
    size = bits & (fmt.sign - 1)
    exponent = (size >> fmt.mantissa).cast(word)
    m = ((size & ((1 << fmt.mantissa) - 1)) | (1 << fmt.mantissa)).cast(word)
    unit = fmt.bias + fmt.mantissa  # the exponent field at which m is the integer
    left, right = exponent - unit, like(exponent, unit) - exponent  # the one not used wraps to a huge shift
    value = (exponent < unit).where(m >> right, m << left)
    value = (exponent < fmt.bias).where(0, value)
    negative = bits.bitcast(fmt.sint) < 0
    over = exponent >= fmt.bias + to.bits - (to.kind == "int")
    if to.kind == "int":
        value = over.where(int(to.max), value)
        value = negative.where(
            over.where(int(to.min) & ((1 << word.bits) - 1), like(value, 0) - value), value
        )
    else:
        value = negative.where(0, over.where(int(to.max), value))
    value = is_nan(x).where(0, value)
    return value.bitcast(to) if word.bits == to.bits else value.cast(to)


def to_float(x: UOp, fmt: Format) -> UOp:
    """An integer of at most the format's width to a float, rounded once.

    Half a word in the mantissa field of 2**mantissa is that much more than it; the halves are exact, and
    their sum rounds.
    """
    if x.dtype.bits < fmt.dtype.bits:
        x = x.cast(fmt.uint if x.dtype.is_unsigned else fmt.sint)
    signed = not x.dtype.is_unsigned
    size = (x < 0).where(like(x, 0) - x, x).bitcast(fmt.uint) if signed else x
    half, unit = fmt.dtype.bits // 2, 2.0**fmt.mantissa
    parts = (size >> half, size & ((1 << half) - 1))
    high, low = ((part | fmt.bits(unit)).bitcast(fmt.dtype) - unit for part in parts)
    value = high * 2.0**half + low
    if not signed:
        return value
    return (value.bitcast(fmt.uint) ^ (x.bitcast(fmt.uint) & fmt.sign)).bitcast(fmt.dtype)


def truncate(node: UOp, target: Capabilities) -> UOp | None:
    """TRUNC: the bits below the point cleared."""
    fmt = FORMATS.get(node.dtype)
    if fmt is None:
        return None
    x = node.src[0]
    bits = x.bitcast(fmt.uint)
    exponent = (bits & (fmt.sign - 1)) >> fmt.mantissa
    fraction = like(exponent, (1 << fmt.mantissa) - 1) >> (exponent - fmt.bias)
    cut = (bits & (fraction ^ (2 * fmt.sign - 1))).bitcast(fmt.dtype)
    value = (exponent < fmt.bias).where((bits & fmt.sign).bitcast(fmt.dtype), cut)
    return (exponent < fmt.bias + fmt.mantissa).where(value, x)


RULES = {Ops.CAST: (cast,), Ops.TRUNC: (truncate,)}
