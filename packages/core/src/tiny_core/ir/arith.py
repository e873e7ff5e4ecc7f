"""Scalar arithmetic on Python numbers: what each op means, without numpy.

In: an op, the dtype of its result, the operands as Python numbers that are values of their dtype. Out: the
value of the result. Guaranteed: total (no op raises on any values), and bit-exact for everything but EXP2,
LOG2, SIN and POW, whose values are those of the C library's double functions, rounded to the dtype. Constant
folding and the tests of decompositions use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tiny_core import dtypes
from tiny_core.dtypes import DType, Number, wrap
from tiny_core.errors import DTypeError
from tiny_core.ir.ops import Ops

if TYPE_CHECKING:  # with decimal below it, 3 ms of every start
    from fractions import Fraction

_MASK32 = 0xFFFFFFFF


def evaluate(op: Ops, dtype: DType, operands: tuple[Number, ...], source: DType | None = None) -> Number:
    """Return the value of `op` applied to `operands`.

    Args:
        op: an op of ELEMENTWISE.
        dtype: dtype of the result.
        operands: values of the sources, each a value of its dtype.
        source: dtype of the first operand, where it is not `dtype`; BITCAST needs it, others work without.

    Raises:
        DTypeError: the op has no meaning for the dtype (DIV of integers, SHL of bools, …).

    >>> evaluate(Ops.ADD, dtypes.int8, (127, 1)), evaluate(Ops.DIV, dtypes.float32, (1.0, 0.0))
    (-128, inf)
    """
    rule = _ANY.get(op)
    if rule is not None:
        return rule(dtype, operands, source)
    if dtype.is_float:
        real = _FLOAT.get(op)
        if real is not None:
            value = real(*operands)
            # Rounding a double result to 24 bits or fewer is the same as rounding the exact sum, product,
            # quotient or root once: 53 >= 2*24 + 2 (Figueroa, "When is double rounding innocuous?", 1995).
            return value if dtype.bits in (0, 64) else dtypes.round_float(value, dtype)
        if op is Ops.MULACC:
            x, y, z = operands
            return fma(float(x), float(y), float(z), dtype)
    elif dtype.kind == "bool":
        logic = _BOOL.get(op)
        if logic is not None:
            return bool(logic(*operands))
    else:
        whole = _INT.get(op)
        if whole is not None:
            return wrap(whole(*operands), dtype)
        if op in (Ops.SHL, Ops.SHR):
            return _shift(op, dtype, int(operands[0]), int(operands[1]))
    raise DTypeError(f"{op.value} has no meaning for {dtype.name}")


def round_exact(value: Fraction | int, dtype: DType) -> float:
    """Round an exact number to the nearest value of a float `dtype`, ties to even, once; zero gives +0.0."""
    from fractions import Fraction

    if value == 0:
        return 0.0
    top, bottom = value.numerator, value.denominator
    bias = (1 << (dtype.exponent - 1)) - (0 if dtype.variant == "fnuz" else 1)
    exp = abs(top).bit_length() - bottom.bit_length()  # |value| in (2^(exp-1), 2^(exp+1))
    if exp >= 0:
        exp -= abs(top) < bottom << exp
    else:
        exp -= abs(top) << -exp < bottom
    quantum = max(exp, 1 - bias) - dtype.mantissa
    steps = round(Fraction(top, bottom << quantum) if quantum >= 0 else Fraction(top << -quantum, bottom))
    if steps == 0:
        return 0.0 if top > 0 or dtype.variant == "fnuz" else -0.0
    try:
        rounded = math.ldexp(steps, quantum)
    except OverflowError:
        rounded = math.inf
    if abs(rounded) > dtype.largest:
        return math.nan if dtype.variant != "ieee" else math.inf if top > 0 else -math.inf
    return rounded


def fma(x: float, y: float, z: float, dtype: DType) -> float:
    """Return x*y+z rounded once to a float `dtype`."""
    if x == 0 or y == 0 or not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        return dtypes.round_float(x * y + z if math.isfinite(z) else _product(x, y) + z, dtype)
    from fractions import Fraction

    exact = Fraction(x) * Fraction(y) + Fraction(z)
    return round_exact(exact, dtype)


def threefry(counter: int, key: int) -> int:
    """Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

    Counter, key and result are pairs of 32-bit words, the first in the low half.
    """
    keys = (key & _MASK32, key >> 32, (key ^ (key >> 32) ^ THREEFRY_PARITY) & _MASK32)
    a, b = (counter + keys[0]) & _MASK32, ((counter >> 32) + keys[1]) & _MASK32
    for block in range(5):
        for turn in THREEFRY_ROTATIONS[block % 2]:
            a = (a + b) & _MASK32
            b = ((b << turn) | (b >> (32 - turn))) & _MASK32 ^ a
        a = (a + keys[(block + 1) % 3]) & _MASK32
        b = (b + keys[(block + 2) % 3] + block + 1) & _MASK32
    return b << 32 | a


THREEFRY_PARITY = 0x1BD11BDA
THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


# ---- ops that decide by more than the kind of the result ---------------------------------------------------


def _cast(dtype: DType, operands: tuple[Number, ...], source: DType | None) -> Number:
    value = operands[0]
    if dtype.is_float and isinstance(value, int) and not isinstance(value, bool) and abs(value) >> 53:
        return round_exact(value, dtype)  # through a double it would be rounded twice
    return dtypes.convert(value, dtype)


def _bitcast(dtype: DType, operands: tuple[Number, ...], source: DType | None) -> Number:
    if source is None or source.bits != dtype.bits:
        raise DTypeError(f"bitcast to {dtype.name} from {source.name if source else 'an unknown dtype'}")
    return dtypes.from_bits(dtypes.to_bits(operands[0], source), dtype)


def _threefry(dtype: DType, operands: tuple[Number, ...], source: DType | None) -> Number:
    if dtype is not dtypes.uint64:
        raise DTypeError(f"threefry has no meaning for {dtype.name}")
    return threefry(int(operands[0]), int(operands[1]))


_Rule = Callable[[DType, "tuple[Number, ...]", "DType | None"], Number]
_ANY: dict[Ops, _Rule] = {
    Ops.CMPLT: lambda _, v, __: v[0] < v[1],
    Ops.CMPLE: lambda _, v, __: v[0] <= v[1],
    Ops.CMPEQ: lambda _, v, __: v[0] == v[1],
    Ops.CMPNE: lambda _, v, __: v[0] != v[1],
    Ops.WHERE: lambda _, v, __: v[1] if v[0] else v[2],
    Ops.CAST: _cast,
    Ops.BITCAST: _bitcast,
    Ops.THREEFRY: _threefry,
}


# ---- floats: computed in double ----------------------------------------------------------------------------


def _product(x: float, y: float) -> float:
    """The sign and class of x*y, without overflow: only for a sum with an infinity or NaN."""
    if math.isfinite(x) and math.isfinite(y):
        return 0.0
    return x * y


def _div(x: float, y: float) -> float:
    if y != 0:
        return x / y
    if x == 0 or math.isnan(x):
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


def _sqrt(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def _exp2(x: float) -> float:
    try:
        return math.exp2(x)
    except OverflowError:
        return math.inf


def _log2(x: float) -> float:
    if x > 0:
        return math.log2(x)
    return -math.inf if x == 0 else math.nan


def _sin(x: float) -> float:
    return math.nan if math.isinf(x) else math.sin(x)


def _trunc(x: float) -> float:
    return math.copysign(float(math.trunc(x)), x) if math.isfinite(x) else x


def _pow(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and math.fmod(y, 2) != 0 else math.inf
    except ValueError:  # zero to a negative power, or a negative number to one that is not an integer
        if x != 0:
            return math.nan
        return math.copysign(math.inf, x) if abs(math.fmod(y, 2)) == 1 else math.inf


def _max(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y):
        return math.nan
    if x == 0 and y == 0:
        return x + y  # -0.0 only if both are
    return x if x > y else y


def _min(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y):
        return math.nan
    if x == 0 and y == 0:
        return -(-x - y)  # 0.0 only if both are
    return x if x < y else y


_FLOAT: dict[Ops, Callable[..., float]] = {
    Ops.NEG: lambda x: -x,
    Ops.RECIP: lambda x: _div(1.0, x),
    Ops.SQRT: _sqrt,
    Ops.EXP2: _exp2,
    Ops.LOG2: _log2,
    Ops.SIN: _sin,
    Ops.TRUNC: _trunc,
    Ops.ADD: lambda x, y: x + y,
    Ops.SUB: lambda x, y: x - y,
    Ops.MUL: lambda x, y: x * y,
    Ops.DIV: _div,
    Ops.POW: _pow,
    Ops.MAX: _max,
    Ops.MIN: _min,
}


# ---- integers: computed without bound, then wrapped --------------------------------------------------------


def _idiv(x: int, y: int) -> int:
    if y == 0:
        return 0
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def _imod(x: int, y: int) -> int:
    return x - _idiv(x, y) * y


def _shift(op: Ops, dtype: DType, x: int, count: int) -> int:
    # A negative count is a huge one, as its bit pattern read as unsigned is.
    past = count < 0 or (not dtype.is_weak and count >= dtype.bits)
    if op is Ops.SHL:
        return 0 if past else wrap(x << count, dtype)
    return x >> count if not past else -1 if x < 0 else 0


_INT: dict[Ops, Callable[..., int]] = {
    Ops.NEG: lambda x: -x,
    Ops.NOT: lambda x: ~x,
    Ops.ADD: lambda x, y: x + y,
    Ops.SUB: lambda x, y: x - y,
    Ops.MUL: lambda x, y: x * y,
    Ops.IDIV: _idiv,
    Ops.IMOD: _imod,
    Ops.FLOORDIV: lambda x, y: x // y if y else 0,
    Ops.FLOORMOD: lambda x, y: x % y if y else x,
    Ops.MAX: max,
    Ops.MIN: min,
    Ops.AND: lambda x, y: x & y,
    Ops.OR: lambda x, y: x | y,
    Ops.XOR: lambda x, y: x ^ y,
    Ops.MULACC: lambda x, y, z: x * y + z,
}

# ADD of bools is or, MUL is and (ir/ops.py); MAX and MIN follow from False < True.
_BOOL: dict[Ops, Callable[..., bool]] = {
    Ops.NOT: lambda x: not x,
    Ops.ADD: lambda x, y: x or y,
    Ops.MUL: lambda x, y: x and y,
    Ops.MAX: lambda x, y: x or y,
    Ops.MIN: lambda x, y: x and y,
    Ops.AND: lambda x, y: x and y,
    Ops.OR: lambda x, y: x or y,
    Ops.XOR: lambda x, y: x != y,
    Ops.MULACC: lambda x, y, z: (x and y) or z,
}
