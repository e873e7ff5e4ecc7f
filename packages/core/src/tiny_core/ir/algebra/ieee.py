"""Rules for floats.

Domain `ieee`: bit-exact for every operand, NaN, infinities and -0.0 included (of NaNs only that they are NaN
counts). No reassociation, no x*0 = 0, no x+0.0 = x (it turns -0.0 into 0.0), no x-x = 0, no contraction.
"""

from __future__ import annotations

import math

from tiny_core import dtypes
from tiny_core.ir.algebra.folding import fold
from tiny_core.ir.ops import ALU, COMMUTATIVE, Ops
from tiny_core.ir.pattern import Rules, const, like, op, rule, scalar, var
from tiny_core.ir.uop import UOp

x, y = var("x"), var("y")
c = const("c")


def _constant_right(n: UOp, c: UOp, x: UOp) -> UOp | None:
    return n.replace((x, c)) if n.src[0] is c and scalar(x) is None else None


def _by_power_of_two(n: UOp, x: UOp, c: UOp) -> UOp | None:
    """x / 2^k = x * 2^-k: both round x*2^-k once. Not where 2^-k is subnormal, which targets may flush."""
    k = scalar(c)
    if k is None:
        return None
    value = float(k.value)
    if not math.isfinite(value) or value == 0 or abs(math.frexp(value)[0]) != 0.5:
        return None
    inverse = 1 / value
    least = math.ldexp(1.0, 2 - (1 << (n.dtype.exponent - 1)))
    if (
        abs(inverse) < least
        or abs(inverse) > n.dtype.largest
        or dtypes.round_float(inverse, n.dtype) != inverse
    ):
        return None
    return UOp(Ops.MUL, n.dtype, (x, like(c, inverse)))


def _false(n: UOp) -> UOp | None:
    return None if n.shape else UOp.const(False, dtypes.bool_)


IEEE = Rules(
    "ieee",
    (
        # Constants: folded where the result is the correctly rounded one, and on the right.
        rule(op(ALU, constants=True, name="n"), fold, "fold"),
        rule(op(COMMUTATIVE, c, x, name="n"), _constant_right, "constant right"),
        # Neutral operands: -0.0 is that of addition.
        rule(x * 1.0, lambda x: x),
        rule(x / 1.0, lambda x: x),
        rule(x + -0.0, lambda x: x),
        rule(x - 0.0, lambda x: x),
        # Signs: negation is exact and commutes with rounding.
        rule(-(-x), lambda x: x),  # noqa: B002  (two negations)
        rule(x * -1.0, lambda x: -x),
        rule(x / -1.0, lambda x: -x),
        rule(x + -y, lambda x, y: x - y),
        rule(x - -y, lambda x, y: x + y),
        rule(-x * -y, lambda x, y: x * y),
        rule(-x / -y, lambda x, y: x / y),
        # Division where the inverse is exact.
        rule((x / c).named("n"), _by_power_of_two),
        # Idempotent ops.
        rule(op((Ops.MAX, Ops.MIN), x, x), lambda x: x),
        rule(op(Ops.TRUNC, op(Ops.TRUNC, x, name="n")), lambda n: n),
        # Nothing is less than itself; equality of x with itself asks for NaN, and stays.
        rule((x < x).named("n"), _false),  # noqa: PLR0124  (a pattern)
    ),
    domain="ieee",
)
"""Floats."""
