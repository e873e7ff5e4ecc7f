"""POW of float32 and float64: 2**(y log2 |x|) with the logarithm in two floats, and the special cases of
IEEE 754.

Errors on IEEE arithmetic without contraction, as the tests measure them over dense samples: 1.35 ulp in
float32 and in float64. Guaranteed: the values of IEEE 754-2019 §9.2.1 where an argument is 0, 1, infinite or
NaN, or x is negative.

Products of two floats are exact as sums of two (Dekker, "A floating-point technique for extending the
available precision", 1971), without a fused multiply-add.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tiny_core.codegen.decompose import coefficients as c
from tiny_core.codegen.decompose.bits import FORMATS, Format, constant, horner, is_nan, like, select
from tiny_core.codegen.decompose.transcendental import power_of_two, split_exponent
from tiny_core.dtypes import round_float
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities

# 1/3 and 2/ln 2, to 140 bits
_THIRD = Fraction(1, 3)
_TWO_OVER_LN2 = Fraction(0x2E2A8ECA5705FC2EEFA1FFB41A474FA23AD6, 1 << 140)
Pair = tuple[UOp, UOp]


def power(node: UOp, target: Capabilities) -> UOp | None:
    """x**y."""
    fmt = FORMATS.get(node.dtype)
    if fmt is None:
        return None
    x, y = node.src
    number = constant(y)
    if number is not None and (simple := _small_power(x, float(number))) is not None:
        return simple
    bits = x.bitcast(fmt.uint)
    size = (bits & (fmt.sign - 1)).bitcast(fmt.dtype)
    # Beyond `most` the result is 0, 1 or infinite for every x, and stays so with y clamped; products then do
    # not overflow.
    most = 2.0**32 if fmt.dtype.bits == 32 else 2.0**64
    held = (y > most).where(most, y)
    held = (held < -most).where(-most, held)
    high, low = logarithm(fmt, size)
    product, error = two_product(fmt, held, high)
    value = power_of_two(fmt, product, error + held * low)

    down = y < 0.0
    value = size.eq(0.0).where(select(down, math.inf, 0.0, fmt.dtype), value)
    value = size.eq(math.inf).where(select(down, 0.0, math.inf, fmt.dtype), value)
    half = y * 0.5
    whole = y.alu(Ops.TRUNC).eq(y)
    odd = whole & half.alu(Ops.TRUNC).ne(half)
    value = (value.bitcast(fmt.uint) ^ odd.where(bits & fmt.sign, 0)).bitcast(fmt.dtype)
    root = (x < 0.0) & (x > -math.inf) & whole.alu(Ops.XOR, True)
    value = (root | is_nan(x) | is_nan(y)).where(math.nan, value)
    return (x.eq(1.0) | y.eq(0.0)).where(1.0, value)


def _small_power(x: UOp, y: float) -> UOp | None:
    """Powers that are a product, quotient or root; None for others."""
    match y:
        case 0.0:
            return like(x, 1.0)
        case 1.0:
            return x
        case 2.0:
            return x * x
        case 3.0:
            return x * x * x
        case -1.0:
            return like(x, 1.0) / x
        case 0.5:  # which is 0.0 for -0.0, and inf for -inf
            return x.eq(-math.inf).where(math.inf, (x + 0.0).alu(Ops.SQRT))
    return None


def logarithm(fmt: Format, x: UOp) -> Pair:
    """log2 of a positive finite x as two floats, to about 2**-35 (float32) or 2**-64 (float64) of its value.

    With m = x / 2**e near 1 and s = (m-1)/(m+1), log2(x) = e + 2/ln2 atanh(s) and atanh(s) = s + s (s²/3 +
    s⁴ p(s²)); all but p is carried in two floats.
    """
    e, m = split_exponent(fmt, x)
    f = m - 1.0
    below = m + 1.0
    below_low = m - (below - 1.0)
    s = f / below
    product, error = two_product(fmt, s, below)
    s_low = (((f - product) - error) - s * below_low) / below
    z, z_low = two_product(fmt, s, s)
    z_low = z_low + (s * s_low) * 2.0
    third, third_low = _split(fmt, _THIRD)
    u, u_low = two_product(fmt, z, like(z, third))
    u_low = u_low + (z * third_low + z_low * third)
    tail = (z * z) * horner(c.ATANH_SINGLE if fmt.dtype.bits == 32 else c.ATANH_DOUBLE, z)
    u, u_low = _fast_sum(u, tail, u_low)
    v, v_low = two_product(fmt, s, u)
    v_low = v_low + (s * u_low + s_low * u)
    a, a_low = _fast_sum(s, v, s_low + v_low)
    scale, scale_low = _split(fmt, _TWO_OVER_LN2)
    high, low = two_product(fmt, a, like(a, scale))
    low = low + (a * scale_low + a_low * scale)
    return _fast_sum(e, high, low)


def two_product(fmt: Format, a: UOp, b: UOp) -> Pair:
    """The product of two floats, rounded, and the error of that; exact where nothing over- or underflows."""
    product = a * b
    (a1, a0), (b1, b0) = _halves(fmt, a), _halves(fmt, b)
    return product, ((a1 * b1 - product) + a1 * b0 + a0 * b1) + a0 * b0


def _halves(fmt: Format, a: UOp) -> Pair:
    """A float as the sum of two of half its precision."""
    shifted = a * (2.0 ** (fmt.mantissa // 2 + 1) + 1.0)
    high = shifted - (shifted - a)
    return high, a - high


def _fast_sum(a: UOp, b: UOp, low: UOp) -> Pair:
    """a + b + low in two floats, for |a| >= |b| or a = 0, and a small `low`."""
    total = a + b
    low = (b - (total - a)) + low
    high = total + low
    return high, low - (high - total)


def _split(fmt: Format, value: Fraction) -> tuple[float, float]:
    """A number as two floats."""
    high = round_float(float(value), fmt.dtype)
    return high, round_float(float(value - Fraction(high)), fmt.dtype)


RULES = {Ops.POW: (power,)}
