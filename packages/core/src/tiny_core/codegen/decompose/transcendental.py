"""EXP2, LOG2 and SIN of float32 and float64 in terms of additions, multiplications and integer ops.

Each is a range reduction, a polynomial (`coefficients.py`; `tools/minimax.py` derives them) and a
reconstruction, without branches and without float to integer conversions. Errors on IEEE arithmetic
without contraction, as the tests measure them over dense samples (ulp: distance of neighbouring results):

    ====  ==============  ==============
          float32         float64
    ====  ==============  ==============
    EXP2  1.1 ulp         1.1 ulp
    LOG2  1.35 ulp        1.35 ulp
    SIN   1.5 ulp         1.5 ulp
    ====  ==============  ==============

over all arguments, the results of EXP2 below the normal range included. NaN gives NaN. Narrower floats come
here through float32 (`narrow.py`); exp and cos, which are spelled by EXP2 and SIN, are in `idioms.py`.
"""

from __future__ import annotations

import math

from tiny_core.codegen.decompose import coefficients as c
from tiny_core.codegen.decompose.bits import FORMATS, Format, horner, like, select
from tiny_core.codegen.decompose.integer import multiply_high
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities


def exp2(node: UOp, target: Capabilities) -> UOp | None:
    """2**x."""
    fmt = FORMATS.get(node.dtype)
    return power_of_two(fmt, node.src[0]) if fmt else None


def log2(node: UOp, target: Capabilities) -> UOp | None:
    """The logarithm to base 2: NaN below zero, -inf at zero."""
    fmt = FORMATS.get(node.dtype)
    if fmt is None:
        return None
    x = node.src[0]
    exponent, m = split_exponent(fmt, x)
    f = m - 1.0  # exact
    # log2(1+f) as f plus a smaller term, so that the result errs little more than the last addition
    value = exponent + (f + f * horner(c.LOG2_SINGLE if fmt.dtype.bits == 32 else c.LOG2_DOUBLE, f))
    value = (x < math.inf).where(value, x)  # inf and NaN are their own
    value = (x < 0.0).where(math.nan, value)
    return x.eq(0.0).where(-math.inf, value)


def sin(node: UOp, target: Capabilities) -> UOp | None:
    """The sine, with the reduction of Payne and Hanek ("Radian reduction for trigonometric functions",
    SIGNUM 1983).

    The argument is an integer of mantissa width times a power of two; multiplied by the 3 words of 2/pi that
    decide the product modulo 4, in integers, it gives the quadrant and an exact fraction t of it, for any
    exponent.
    """
    fmt = FORMATS.get(node.dtype)
    return sine_of(fmt, node.src[0], 0, target) if fmt else None


def sine_of(fmt: Format, x: UOp, turns: int, target: Capabilities) -> UOp:
    """sin(x + turns * pi/2), for turns 0 or 1."""
    bits = x.bitcast(fmt.uint)
    magnitude = bits & (fmt.sign - 1)
    quadrant, high, low = _turns(fmt, magnitude, target)
    negative = high.bitcast(fmt.sint) >> (fmt.dtype.bits - 1)  # all ones where t < 0
    mask = negative.bitcast(fmt.uint)
    t, rest = _fraction(fmt, high ^ mask, low ^ mask)
    z = t * t
    if fmt.dtype.bits == 32:
        sine, cosine = horner(c.SIN_SINGLE, z), horner(c.COS_SINGLE, z)
    else:
        sine, cosine = horner(c.SIN_DOUBLE, z), horner(c.COS_DOUBLE, z)
    sine = t + (t * sine + rest * (math.pi / 2))
    cosine = z * cosine + 1.0
    if turns:  # of |x|, which has the same cosine
        quadrant = quadrant + turns
    odd = (quadrant & 1).ne(0)
    # sin has the sign of x, of the half turn, and (where the quadrant keeps it a sine) of t
    half = quadrant << (fmt.dtype.bits - 2)
    sign = ((half if turns else bits ^ half) ^ odd.where(0, mask)) & fmt.sign
    value = (odd.where(cosine, sine).bitcast(fmt.uint) ^ sign).bitcast(fmt.dtype)
    value = (magnitude < fmt.infinity).where(value, math.nan)
    # below 2**-tiny, x**3/6 is less than a quarter ulp, and -0.0 stays
    return (magnitude < fmt.bits(2.0 ** -_tiny(fmt))).where(1.0 if turns else x, value)


# ---- parts that POW uses too -------------------------------------------------------------------------------


def power_of_two(fmt: Format, x: UOp, low: UOp | None = None) -> UOp:
    """2**(x + low) for |low| well below 1; rounded twice only below the normal range."""
    top, bottom = float(fmt.bias + 3), float(-fmt.bias - fmt.mantissa - 3)
    t = (x > top).where(top, x)
    t = (t < bottom).where(bottom, t)
    # adding 1.5 * 2**mantissa rounds to an integer and leaves it in the low bits; NaN stays NaN throughout
    magic = 1.5 * 2.0**fmt.mantissa
    shifted = t + magic
    r = t - (shifted - magic)  # exact, |r| <= 1/2
    if low is not None:
        r = r + t.eq(x).where(low, 0.0)  # a clamped x has no low part
    value = horner(c.EXP2_SINGLE if fmt.dtype.bits == 32 else c.EXP2_DOUBLE, r)
    return scaled(fmt, value, shifted.bitcast(fmt.sint) - fmt.bits(magic))


def scaled(fmt: Format, value: UOp, k: UOp) -> UOp:
    """value * 2**k, for |k| up to twice the greatest exponent."""
    # in two factors, both normal: the second multiplication rounds once into the subnormal range
    half = k >> 1
    for part in (half, k - half):
        value = value * ((part + fmt.bias) << fmt.mantissa).bitcast(fmt.dtype)
    return value


def split_exponent(fmt: Format, x: UOp) -> tuple[UOp, UOp]:
    """x = m * 2**e for positive finite x: (e as a float, m in [sqrt(1/2), sqrt(2)))."""
    subnormal = x < 2.0 ** (1 - fmt.bias)
    bits = subnormal.where(x * 2.0**fmt.mantissa, x).bitcast(fmt.sint)
    e = (bits - fmt.bits(math.sqrt(0.5))) >> fmt.mantissa
    m = (bits - (e << fmt.mantissa)).bitcast(fmt.dtype)
    magic = 1.5 * 2.0**fmt.mantissa  # an integer added to its bits is added to its value
    exponent = (e + fmt.bits(magic)).bitcast(fmt.dtype)
    return exponent - subnormal.where(like(x, magic + fmt.mantissa), magic), m


# ---- the reduction of SIN ----------------------------------------------------------------------------------


def _tiny(fmt: Format) -> int:
    return fmt.mantissa // 2 + 1


def _turns(fmt: Format, magnitude: UOp, target: Capabilities) -> tuple[UOp, UOp, UOp]:
    """x * 2/pi modulo 4 for |x| from 2**-tiny on: (nearest integer, fraction from -1/2 to 1/2 as two words).

    The fraction is a signed number of two words in units of 2**(2-2w), w the width of a word.
    """
    w = fmt.dtype.bits
    shift_bits = w.bit_length() - 1
    field = magnitude >> fmt.mantissa
    m = (magnitude & ((1 << fmt.mantissa) - 1)) | (1 << fmt.mantissa)
    # With x = m * 2**(e-mantissa), the bit 2**-j of 2/pi matters from j = e-mantissa-1 on: those before give
    # multiples of 4. So many zeros stand before the digits that this bit is number e + tiny of the padded
    # digits.
    position = field - (fmt.bias - _tiny(fmt))
    pad = _tiny(fmt) + fmt.mantissa + 2
    digits = 1216 + pad
    last = (2 * fmt.bias + 1 - fmt.bias + _tiny(fmt)) >> shift_bits
    table = [(c.TWO_OVER_PI >> (digits - w * (i + 1))) & ((1 << w) - 1) for i in range(last + 4)]
    words = [like(position, word) for word in table]
    for stage in reversed(
        range(last.bit_length())
    ):  # move by 2**stage words where that bit of the number is set
        moved = (position & (1 << (stage + shift_bits))).ne(0)
        count = 4 + (1 << stage) - 1
        words = [
            moved.where(words[i + (1 << stage)], words[i]) if i + (1 << stage) < len(words) else words[i]
            for i in range(min(count, len(words)))
        ]
    shift = position & (w - 1)
    back = like(shift, w - 1) - shift
    a = [(words[i] << shift) | ((words[i + 1] >> 1) >> back) for i in range(3)]
    # the top two words of the product of m and three words, modulo 2**3w
    middle = m * a[1]
    low = middle + multiply_high(m, a[2], target)
    high = m * a[0] + multiply_high(m, a[1], target) + select(low < middle, 1, 0, fmt.uint)
    quadrant = (high + (1 << (w - 3))) >> (w - 2)
    return quadrant, high - (quadrant << (w - 2)), low


def _fraction(fmt: Format, high: UOp, low: UOp) -> tuple[UOp, UOp]:
    """A number of two words, 0 <= n <= 2**(2w-3), times 2**(2-2w), as a float and what it lacks."""
    w = fmt.dtype.bits
    spare = w - fmt.mantissa - 1
    top = (high & ~((1 << spare) - 1) & ((1 << w) - 1)).bitcast(fmt.sint).cast(fmt.dtype)  # exact
    tail = ((high & ((1 << spare) - 1)) << (w - 1 - spare)) | (low >> (spare + 1))
    a = top * 2.0 ** (2 - w)
    b = tail.bitcast(fmt.sint).cast(fmt.dtype) * 2.0 ** (spare + 3 - 2 * w)
    t = a + b
    return t, b - (t - a)


RULES = {Ops.EXP2: (exp2,), Ops.LOG2: (log2,), Ops.SIN: (sin,)}
