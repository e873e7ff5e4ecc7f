"""exp and cos, recognised in the EXP2 and SIN by which they are spelled.

The IR has one exponential and one sine; exp(x) is spelled EXP2(x * log2 e) and cos(x) is SIN(x + pi/2). Taken
literally, both round their argument first, and lose as many bits of the result as the argument has before the
point: 62 ulp of a float32 exp near its overflow, all of a cosine from 1e7 on. An EXP2 or SIN whose argument
is a product or sum with that very constant, rounded to the dtype, is therefore computed from x:

    ===========================  ==================  ========  ========
    node                         is                  float32   float64
    ===========================  ==================  ========  ========
    EXP2(x * log2e [+ n])        exp(x) * 2**n       1.1 ulp   1.1 ulp
    SIN(x + pi/2), SIN(pi/2 - x) cos(x)              1.5 ulp   1.5 ulp
    ===========================  ==================  ========  ========

for every x, results below the normal range included, and n an integer constant (exp(x) / 2 does not overflow
before its result does). The errors are those on IEEE arithmetic, as the tests measure them.

On targets that declare EXP2 or SIN the spelling is replaced as well if the target declares all that the
replacement is made of; there, exp is the target's EXP2 of the reduced argument, and 0.7 ulp is added to the
error of that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from tiny_core.codegen.decompose import coefficients as c
from tiny_core.codegen.decompose.bits import FORMATS, Format, constant, horner
from tiny_core.codegen.decompose.transcendental import scaled, sine_of
from tiny_core.dtypes import Number, round_float
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities

_LN2 = Fraction(0x2C5C85FDF473DE6AF278ECE600FCBDABD03D, 1 << 142)
"""ln 2, to 142 bits."""
_MOST = 64
"""Of |n| in exp(x) * 2**n."""
Rule = Callable[[UOp, Capabilities, bool], UOp | None]


def exponential(node: UOp, target: Capabilities, native: bool) -> UOp | None:
    """exp(x) * 2**n for EXP2(x * log2e + n), `native` through the target's own EXP2; None for another
    argument.

    Reduction as of Cody and Waite (Software Manual for the Elementary Functions, 1980): with k the integer
    nearest to x/ln2, x - k*ln2 in two steps, of which the first is exact, because ln2 is cut so that its
    product with k is.
    """
    fmt = FORMATS.get(node.dtype)
    if fmt is None:
        return None
    argument, n = node.src[0], 0
    if (sum_ := _with_constant(argument, Ops.ADD)) is not None:
        argument, added = sum_
        n = int(added) if math.isfinite(added) else 0
        if added != n or abs(n) > _MOST:
            return None
    product = _with_constant(argument, Ops.MUL)
    log2e = round_float(math.log2(math.e), fmt.dtype)
    if product is None or abs(float(product[1])) != log2e:
        return None
    x = product[0] if product[1] > 0 else -product[0]
    # beyond these the result is infinite, or 0
    top = round_float((fmt.bias + 3 - n) * math.log(2), fmt.dtype)
    bottom = round_float(-(fmt.bias + fmt.mantissa + 3 + n) * math.log(2), fmt.dtype)
    x = (x > top).where(top, x)
    x = (x < bottom).where(bottom, x)
    # adding 1.5 * 2**mantissa rounds to an integer and leaves it in the low bits; NaN stays NaN throughout
    magic = 1.5 * 2.0**fmt.mantissa
    shifted = x * log2e + magic
    k = shifted - magic
    high, low = _cut(fmt)
    r = (x - k * high) - k * low
    if native:  # r * log2e, but not spelled so: that would be an exponential again
        value = (r + r * round_float(math.log2(math.e) - 1, fmt.dtype)).alu(Ops.EXP2)
    else:
        value = (r + r * r * horner(c.EXP_SINGLE if fmt.dtype.bits == 32 else c.EXP_DOUBLE, r)) + 1.0
    return scaled(fmt, value, shifted.bitcast(fmt.sint) - (fmt.bits(magic) - n))


def cosine(node: UOp, target: Capabilities, native: bool) -> UOp | None:
    """cos(x) for SIN(x + pi/2) and SIN(pi/2 - x); None for another argument."""
    fmt = FORMATS.get(node.dtype)
    if fmt is None:
        return None
    argument = node.src[0]
    quarter = round_float(math.pi / 2, fmt.dtype)
    if (sum_ := _with_constant(argument, Ops.ADD)) is not None and sum_[1] == quarter:
        return sine_of(fmt, sum_[0], 1, target)
    if argument.op is Ops.SUB and constant(argument.src[0]) == quarter:
        return sine_of(fmt, argument.src[1], 1, target)
    return None


def _with_constant(node: UOp, op: Ops) -> tuple[UOp, Number] | None:
    """The operands of `op` with a constant (a SUB of one is an ADD), or None."""
    if node.op is Ops.SUB and op is Ops.ADD and (value := constant(node.src[1])) is not None:
        return node.src[0], -value
    if node.op is op:
        for x, k in (node.src, node.src[::-1]):
            if (value := constant(k)) is not None:
                return x, value
    return None


def _cut(fmt: Format) -> tuple[float, float]:
    """ln 2 in two floats, the first with so few bits that its product with any exponent is exact."""
    bits = fmt.mantissa + 1 - (fmt.dtype.exponent + 1)
    high = Fraction(round(_LN2 * (1 << bits)), 1 << bits)
    return float(high), round_float(float(_LN2 - high), fmt.dtype)


IDIOMS: dict[Ops, Rule] = {Ops.EXP2: exponential, Ops.SIN: cosine}
