"""Rules for fixed-width integers and bools.

Domain `wrap`: two's complement, bit-exact for every operand, so `x + 1 > x` is not true here. ADD of bools is
OR and MUL is AND, and the rules below hold for both readings.
"""

from __future__ import annotations

from tiny_core import dtypes
from tiny_core.ir.algebra.folding import fold
from tiny_core.ir.arith import evaluate
from tiny_core.ir.interval import bounds
from tiny_core.ir.ops import ALU, COMMUTATIVE, Ops
from tiny_core.ir.pattern import Rules, const, like, op, rule, scalar, var
from tiny_core.ir.uop import UOp

x, y, z = var("x"), var("y"), var("z")
c, d = const("c"), const("d")
_ASSOCIATIVE = (Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.XOR, Ops.MAX, Ops.MIN)


def _constant_right(n: UOp, c: UOp, x: UOp) -> UOp | None:
    return n.replace((x, c)) if n.src[0] is c and scalar(x) is None else None


def _gather(n: UOp, m: UOp, d: UOp, x: UOp, c: UOp) -> UOp | None:
    """(x . c) . d = x . (c . d) for an associative, commutative op."""
    left, right = scalar(c), scalar(d)
    if m.op is not n.op or left is None or right is None:
        return None
    return n.replace((x, like(d, evaluate(n.op, n.dtype, (left.value, right.value)))))


def _negated(n: UOp, x: UOp, c: UOp) -> UOp | None:
    """x - c = x + -c: one form for a constant distance."""
    k = scalar(c)
    if k is None or n.dtype.kind == "bool":
        return None
    return UOp(Ops.ADD, n.dtype, (x, like(c, evaluate(Ops.NEG, n.dtype, (k.value,)))))


def _one_value(n: UOp) -> UOp | None:
    """An interval of one number is that number."""
    if n.shape or n.dtype.kind not in ("int", "uint", "bool") or n.src[0].dtype.is_float:
        return None
    lo, hi = bounds(n)
    return UOp.const(bool(lo) if n.dtype.kind == "bool" else lo, n.dtype) if lo == hi else None


def _zero(n: UOp) -> UOp | None:
    return None if n.shape else UOp.const(False if n.dtype.kind == "bool" else 0, n.dtype)


def _false(n: UOp) -> UOp | None:
    return None if n.shape else UOp.const(False, dtypes.bool_)


def _true(n: UOp) -> UOp | None:
    return None if n.shape else UOp.const(True, dtypes.bool_)


def _small(x: UOp, y: UOp) -> UOp | None:
    """x % y = x for 0 <= x < y."""
    return x if bounds(x)[0] >= 0 and bounds(x)[1] < bounds(y)[0] else None


def _larger(n: UOp, x: UOp, y: UOp) -> UOp | None:
    (a, b), (e, f) = bounds(x), bounds(y)
    if a >= f:
        return x if n.op is Ops.MAX else y
    if b <= e:
        return y if n.op is Ops.MAX else x
    return None


def _not_below(x: UOp, y: UOp) -> UOp | None:
    return None if x.dtype.is_float else y <= x


def _not_at_most(x: UOp, y: UOp) -> UOp | None:
    return None if x.dtype.is_float else y < x


WRAP = Rules(
    "wrap",
    (
        # Constants: folded, gathered, and on the right, where the rules below look for them.
        rule(op(ALU, constants=True, name="n"), fold, "fold"),
        rule(op(COMMUTATIVE, c, x, name="n"), _constant_right, "constant right"),
        rule(op(_ASSOCIATIVE, op(_ASSOCIATIVE, x, c, name="m"), d, name="n"), _gather, "gather constants"),
        # Neutral and absorbing operands.
        rule(x + 0, lambda x: x),
        rule(x - 0, lambda x: x),
        rule(0 - x, lambda x: -x),
        rule(x * 1, lambda x: x),
        rule((x * 0).named("n"), lambda n: n.src[1]),
        rule(x * -1, lambda x: None if x.dtype.kind == "bool" else -x),
        rule((x & 0).named("n"), lambda n: n.src[1]),
        rule(x | 0, lambda x: x),
        rule(x ^ 0, lambda x: x),
        rule(x & -1, lambda x: x),
        rule((x | -1).named("n"), lambda n: n.src[1]),
        rule(x ^ -1, lambda x: ~x),
        rule(x << 0, lambda x: x),
        rule(x >> 0, lambda x: x),
        rule((op((Ops.SHL, Ops.SHR), 0, x)).named("n"), lambda n: n.src[0]),
        # Division is total: x // 0 = 0 and x % 0 = x.
        rule(op((Ops.FLOORDIV, Ops.IDIV), x, 1), lambda x: x),
        rule(op((Ops.FLOORDIV, Ops.IDIV), x, 0, name="n"), lambda n: n.src[1]),
        rule(op((Ops.FLOORDIV, Ops.IDIV), 0, x, name="n"), lambda n: n.src[0]),
        rule(op((Ops.FLOORMOD, Ops.IMOD), x, 0), lambda x: x),
        rule(op((Ops.FLOORMOD, Ops.IMOD), 0, x, name="n"), lambda n: n.src[0]),
        rule(op((Ops.FLOORMOD, Ops.IMOD), x, 1, name="n"), _zero),
        rule(op((Ops.FLOORMOD, Ops.IMOD), x, x, name="n"), _zero),
        rule(op((Ops.FLOORMOD, Ops.IMOD), x, y), _small, "mod of a smaller number"),
        # The same operand twice.
        rule((x - x).named("n"), _zero),
        rule((x ^ x).named("n"), _zero),
        rule(op((Ops.AND, Ops.OR, Ops.MAX, Ops.MIN), x, x), lambda x: x),
        rule((x < x).named("n"), _false),  # noqa: PLR0124  (a pattern)
        rule(x.ne(x).named("n"), _false),
        rule((x <= x).named("n"), _true),  # noqa: PLR0124  (a pattern)
        rule(x.eq(x).named("n"), _true),
        # Signs and complements.
        rule(-(-x), lambda x: x),  # noqa: B002  (two negations)
        rule(-(x - y), lambda x, y: y - x),
        rule(x + -y, lambda x, y: x - y),
        rule(x - -y, lambda x, y: x + y),
        rule(x + y - y, lambda x: x),
        rule(x - y + y, lambda x: x),
        rule((x - c).named("n"), _negated),
        rule(~~x, lambda x: x),
        rule(~(x < y), _not_below),
        rule(~(x <= y), _not_at_most),
        # Intervals decide.
        rule(op((Ops.MAX, Ops.MIN), x, y, name="n"), _larger, "max of unequal intervals"),
        rule(op(ALU, name="n"), _one_value, "one value"),
    ),
    domain="wrap",
)
"""Fixed-width integers and bools."""
