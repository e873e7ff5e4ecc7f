"""Integer, boolean and selection ops in terms of others of the same dtype.

Each function takes a node whose op the target lacks and gives an equal expression, or None where it does not
apply; `legalize.py` tries the functions of `RULES` in order. SHL and SHR are total in every renderer that
declares them, as IDIV and IMOD are: what is built here relies on that only where it says so.
"""

from __future__ import annotations

import math

from tiny_core import dtypes
from tiny_core.codegen.decompose.bits import FORMATS, UNSIGNED, constant, invert, is_nan, lanes, like, select
from tiny_core.dtypes import DType
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities

# ---- division ----------------------------------------------------------------------------------------------


def floor_division(node: UOp, target: Capabilities) -> UOp | None:
    """FLOORDIV and FLOORMOD: the truncated quotient, corrected where it was rounded up."""
    x, y = node.src
    divide = node.op is Ops.FLOORDIV
    by = constant(y)
    if by is not None and by > 0 and int(by) & (int(by) - 1) == 0:  # shift and mask round down by themselves
        return x >> (int(by).bit_length() - 1) if divide else x & (int(by) - 1)
    quotient = x.alu(Ops.IDIV, y)
    if node.dtype.is_unsigned:
        return quotient if divide else x - quotient * y
    rest = x - quotient * y  # x where y is 0
    if by is not None and by != 0:
        up = (rest < 0) if by > 0 else (rest > 0)
    else:
        up = rest.ne(0) & ((rest ^ y) < 0)
        if divide:
            up = up & y.ne(0)
    return up.where(quotient - 1, quotient) if divide else up.where(rest + y, rest)


def remainder(node: UOp, target: Capabilities) -> UOp | None:
    """IMOD from the quotient: x where y is 0, for x/0 is 0."""
    x, y = node.src
    return x - x.alu(Ops.IDIV, y) * y


def division(node: UOp, target: Capabilities) -> UOp | None:
    """IDIV of signed numbers through unsigned ones; of unsigned ones by what the divisor and the target
    allow."""
    x, y = node.src
    dtype = node.dtype
    if dtype.bits < 32:
        return None
    if dtype.kind == "int":
        unsigned = UNSIGNED[dtype.bits]
        size = [v.bitcast(unsigned) for v in (_absolute(x), _absolute(y))]
        quotient = size[0].alu(Ops.IDIV, size[1]).bitcast(dtype)
        return ((x ^ y) < 0).where(like(x, 0) - quotient, quotient)
    by = constant(y)
    if by is not None:
        return _by_constant(x, int(by), target)
    floats = {(Ops.CAST, dtype), (Ops.CAST, dtypes.float32)} <= target.ops and _holds(
        target, dtypes.float32, x
    )
    if dtype.bits == 32 and floats:
        return y.ne(0).where(_by_reciprocal(x, y, target), 0)
    return y.ne(0).where(_by_subtraction(x, y), 0)


def _absolute(x: UOp) -> UOp:
    """|x|, which wraps to itself for the least number: right when read as unsigned."""
    number = constant(x)
    if number is not None:
        return like(x, abs(number))
    return (x < 0).where(like(x, 0) - x, x)


def _by_constant(x: UOp, by: int, target: Capabilities) -> UOp:
    """Unsigned division by multiplication (Granlund and Montgomery, "Division by invariant integers using
    multiplication", PLDI 1994, figure 4.1)."""
    if by == 0:
        return like(x, 0)
    if by & (by - 1) == 0:
        return x >> (by.bit_length() - 1)
    bits = x.dtype.bits
    length = by.bit_length()  # ceil(log2(by)), for by is no power of two
    factor = (1 << bits) * ((1 << length) - by) // by + 1
    high = multiply_high(x, like(x, factor), target)
    return (high + ((x - high) >> 1)) >> (length - 1)


def _by_reciprocal(x: UOp, y: UOp, target: Capabilities) -> UOp:
    """32-bit unsigned division for y > 0 from a float32 reciprocal and one Newton step in integers
    (Rodeheffer, "Software integer division", Microsoft Research 2008); the quotient is then at most 2 too
    small."""
    # 2**32 (1 - 2**-23) keeps the estimate below 2**32 / y
    estimate = like(x, 4294966784.0, dtypes.float32).alu(Ops.DIV, y.cast(dtypes.float32)).cast(x.dtype)
    inverse = estimate + multiply_high(estimate, (like(y, 0) - y) * estimate, target)
    quotient = multiply_high(x, inverse, target)
    rest = x - quotient * y
    for _ in range(2):
        more = y <= rest
        quotient, rest = more.where(quotient + 1, quotient), more.where(rest - y, rest)
    return quotient


def _by_subtraction(x: UOp, y: UOp) -> UOp:
    """Unsigned division for y > 0, a bit of the quotient at a time."""
    bits = x.dtype.bits
    quotient = rest = like(x, 0)
    for i in reversed(range(bits)):
        # the bit shifted out of `rest` means that it is greater than any y
        over = rest >> (bits - 1)
        rest = (rest << 1) | ((x >> i) & 1)
        more = over.ne(0) | (y <= rest)
        rest = more.where(rest - y, rest)
        quotient = quotient | select(more, 1 << i, 0, x.dtype)
    return quotient


def multiply_high(x: UOp, y: UOp, target: Capabilities) -> UOp:
    """The upper half of the product of two unsigned numbers of 32 or 64 bits."""
    bits, dtype = x.dtype.bits, x.dtype
    if bits == 32 and (Ops.MUL, dtypes.uint64) in target.ops and _holds(target, dtypes.uint64, x):
        return ((x.cast(dtypes.uint64) * y.cast(dtypes.uint64)) >> 32).cast(dtype)
    half, mask = bits // 2, (1 << bits // 2) - 1
    x0, x1, y0, y1 = x & mask, x >> half, y & mask, y >> half
    low, cross = x0 * y0, x0 * y1
    middle = (low >> half) + (cross & mask) + x1 * y0  # at most 2**bits - 1
    return x1 * y1 + (cross >> half) + (middle >> half)


def _holds(target: Capabilities, dtype: DType, x: UOp) -> bool:
    """Whether the target has values of `dtype` as wide as x."""
    return dtype in target.dtypes and (not x.shape or lanes(x) in target.widths(dtype))


# ---- order -------------------------------------------------------------------------------------------------


def extremum(node: UOp, target: Capabilities) -> UOp | None:
    """MAX and MIN by comparison: NaN if either is, and 0.0 above -0.0."""
    x, y = node.src
    greatest = node.op is Ops.MAX
    if node.dtype.kind == "bool":
        return x.alu(Ops.OR if greatest else Ops.AND, y)
    if not node.dtype.is_float:
        return (x < y).where(y, x) if greatest else (y < x).where(y, x)
    if constant(x) is not None:
        x, y = y, x
    bound = constant(y)
    if bound is not None and math.isnan(bound):
        return y
    if bound is not None:
        # One comparison does: x stays where it is NaN, and the bound replaces a zero unless it is the wrong
        # one.
        wrong_zero = bound == 0 and (math.copysign(1.0, bound) < 0) == greatest
        low, high = (x, y) if greatest else (y, x)
        return low.alu(Ops.CMPLT if wrong_zero else Ops.CMPLE, high).where(y, x)
    if node.dtype not in FORMATS:
        return None
    fmt = FORMATS[node.dtype]
    least = (x < y) if greatest else (y < x)
    # equal numbers have equal bits but for the zeros, whose signs are joined
    equal = x.bitcast(fmt.uint).alu(Ops.AND if greatest else Ops.OR, y.bitcast(fmt.uint)).bitcast(node.dtype)
    return least.where(y, x.eq(y).where(equal, is_nan(y).where(y, x)))


def compare(node: UOp, target: Capabilities) -> UOp | None:
    """A comparison from another one; of bools, from logic."""
    x, y = node.src
    dtype, op = x.dtype, node.op
    if dtype.kind == "bool":
        match op:
            case Ops.CMPNE:
                return x ^ y
            case Ops.CMPEQ:
                return invert(x ^ y)
            case Ops.CMPLT:
                return invert(x) & y
            case _:
                return invert(x) | y
    have = [o for o in (Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE) if (o, dtype) in target.ops]
    match op:
        case Ops.CMPNE if Ops.CMPEQ in have:
            return invert(x.eq(y))
        case Ops.CMPEQ if Ops.CMPNE in have:
            return invert(x.ne(y))
        case Ops.CMPEQ | Ops.CMPNE if Ops.CMPLE in have:
            return _flip((x <= y) & (y <= x), op is Ops.CMPNE)
        case Ops.CMPEQ | Ops.CMPNE if Ops.CMPLT in have and not dtype.is_float:
            return _flip((x < y) | (y < x), op is Ops.CMPEQ)
        case Ops.CMPLE if Ops.CMPLT in have:
            # with NaN the negation of y < x would hold
            return (x < y) | x.eq(y) if dtype.is_float else invert(y < x)
        case Ops.CMPLT if Ops.CMPLE in have:
            return (x <= y) & x.ne(y) if dtype.is_float else invert(y <= x)
    return None


def _flip(condition: UOp, flip: bool) -> UOp:
    return invert(condition) if flip else condition


# ---- the rest ----------------------------------------------------------------------------------------------


def negate(node: UOp, target: Capabilities) -> UOp | None:
    x = node.src[0]
    if node.dtype.kind == "bool" or (Ops.SUB, node.dtype) not in target.ops:
        return None
    return like(x, -0.0 if node.dtype.is_float else 0) - x


def subtract(node: UOp, target: Capabilities) -> UOp | None:
    """x - y; integers have ~y = -y - 1."""
    x, y = node.src
    if (Ops.NEG, node.dtype) in target.ops:
        return x + (-y)
    return None if node.dtype.is_float else x + (y ^ -1) + 1


def complement(node: UOp, target: Capabilities) -> UOp | None:
    x = node.src[0]
    if (Ops.XOR, node.dtype) in target.ops:
        return x ^ (True if node.dtype.kind == "bool" else -1)
    return select(x, False, True, node.dtype) if node.dtype.kind == "bool" else None


def logic(node: UOp, target: Capabilities) -> UOp | None:
    """ADD, MUL, AND, OR and XOR of bools."""
    if node.dtype.kind != "bool":
        return None
    x, y = node.src
    match node.op:
        case Ops.ADD:
            return x | y
        case Ops.MUL:
            return x & y
        case Ops.AND:
            return x.where(y, x)
        case Ops.OR:
            return x.where(x, y)
        case _:
            return x.where(invert(y), y)


def multiply_add(node: UOp, target: Capabilities) -> UOp | None:
    """MULACC unfused: rounded after the product and after the sum (of a narrow float, in float32)."""
    if node.dtype.is_float and node.dtype not in FORMATS:
        return None
    x, y, z = node.src
    return x * y + z


def reciprocal(node: UOp, target: Capabilities) -> UOp | None:
    x = node.src[0]
    return like(x, 1.0) / x if (Ops.DIV, node.dtype) in target.ops else None


def divide(node: UOp, target: Capabilities) -> UOp | None:
    """DIV by a reciprocal, with the residue of the quotient added: within 1 ulp where x, y and x/y are
    normal."""
    from tiny_core.codegen.decompose.power import two_product

    x, y = node.src
    if node.dtype not in FORMATS or (Ops.RECIP, node.dtype) not in target.ops:
        return None
    inverse = y.alu(Ops.RECIP)
    quotient = x * inverse
    product, error = two_product(FORMATS[node.dtype], quotient, y)
    better = quotient + ((x - product) - error) * inverse
    return (better - better).eq(0.0).where(better, quotient)  # where it is finite


RULES = {
    Ops.FLOORDIV: (floor_division,),
    Ops.FLOORMOD: (floor_division,),
    Ops.IMOD: (remainder,),
    Ops.IDIV: (division,),
    Ops.MAX: (extremum,),
    Ops.MIN: (extremum,),
    Ops.CMPLT: (compare,),
    Ops.CMPLE: (compare,),
    Ops.CMPEQ: (compare,),
    Ops.CMPNE: (compare,),
    Ops.NEG: (negate,),
    Ops.SUB: (subtract,),
    Ops.NOT: (complement,),
    Ops.ADD: (logic,),
    Ops.MUL: (logic,),
    Ops.AND: (logic,),
    Ops.OR: (logic,),
    Ops.XOR: (logic,),
    Ops.MULACC: (multiply_add,),
    Ops.RECIP: (reciprocal,),
    Ops.DIV: (divide,),
}
