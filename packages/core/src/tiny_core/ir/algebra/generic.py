"""Rules that hold whatever the dtype: selections, conversions, gates.

Domain `any`: nothing is computed but bits moved, or a conversion left out that changes nothing.
"""

from __future__ import annotations

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.ir.algebra.folding import fold, fold_bitcast
from tiny_core.ir.interval import bounds
from tiny_core.ir.ops import Ops
from tiny_core.ir.pattern import Rules, const, op, rule, scalar, var
from tiny_core.ir.uop import UOp

x, y, z, g = var("x"), var("y"), var("z"), var("g")
c = const("c")


def lossless(a: DType, b: DType) -> bool:
    """Return whether every value of `a` is a value of `b`."""
    if a is b or a.kind == "bool":
        return b.kind != "void"
    if a.is_weak or b.is_weak or b.kind == "bool":
        return b is dtypes.index and a.is_int
    if a.is_int and b.is_int:
        return b.min <= a.min and a.max <= b.max
    if a.is_int:
        return a.bits - (a.kind == "int") <= b.mantissa + 1 and a.max <= b.largest
    if not b.is_float or b.variant != "ieee":
        return False
    least = [2 - (1 << (t.exponent - 1)) + (t.variant == "fnuz") * -1 - t.mantissa for t in (a, b)]
    return a.mantissa <= b.mantissa and least[1] <= least[0] and a.largest <= b.largest


def _chosen(c: UOp, x: UOp, y: UOp) -> UOp | None:
    k = scalar(c)
    return None if k is None else x if k.value else y


def _cast_chain(n: UOp, x: UOp) -> UOp | None:
    """A -> B -> C is A -> C where A -> B loses nothing, or where integers only lose high bits twice."""
    a, b, c = x.dtype, n.src[0].dtype, n.dtype
    if a.kind == "void" or (a.is_float is not b.is_float and not lossless(a, b)):
        return None
    if a is dtypes.index and b.is_int:
        lo, hi = bounds(x)
        exact = bool(b.min <= lo and hi <= b.max)
    else:
        exact = lossless(a, b)
    # an integer that goes through a float reaches an integer by saturation, not by wrapping
    if exact and not (a.is_int and b.is_float and c.is_int and not lossless(a, c)):
        return x.cast(c)
    high_bits = a.is_int and b.is_int and c.is_int and 0 < c.bits <= b.bits
    return x.cast(c) if high_bits else None


def _always(g: UOp, n: UOp) -> UOp | None:
    """A gate that is always open goes; one that is never open leaves the alternative."""
    k = scalar(g)
    if k is None:
        return None
    if k.value:
        return n.replace(n.src[:2] if n.op is Ops.LOAD else n.src[:3])
    return n.src[3] if n.op is Ops.LOAD else None


GENERIC = Rules(
    "generic",
    (
        # Selections.
        rule(op(Ops.WHERE, x, y, y), lambda y: y),
        rule(op(Ops.WHERE, c, x, y), _chosen),
        rule(op(Ops.WHERE, ~x, y, z), lambda x, y, z: x.where(z, y)),
        rule(op(Ops.WHERE, x, op(Ops.WHERE, x, y, var("w")), z), lambda x, y, z: x.where(y, z)),
        rule(op(Ops.WHERE, x, y, op(Ops.WHERE, x, var("w"), z)), lambda x, y, z: x.where(y, z)),
        # != is the complement of ==, NaN included.
        rule(~x.eq(y), lambda x, y: x.ne(y)),
        rule(~x.ne(y), lambda x, y: x.eq(y)),
        # Conversions.
        rule(op(Ops.CAST, c, name="n"), fold),
        rule(op(Ops.CAST, x, name="n"), lambda n, x: x if n.dtype is x.dtype else None, "cast to itself"),
        rule(op(Ops.CAST, x.cast(), name="n"), _cast_chain),
        rule(op(Ops.BITCAST, c, name="n"), fold_bitcast),
        rule(op(Ops.BITCAST, op(Ops.BITCAST, x), name="n"), lambda n, x: x.bitcast(n.dtype)),
        # Gates.
        rule(op(Ops.LOAD, x, y, g, z, name="n"), _always),
        rule(op(Ops.STORE, x, y, z, g, name="n"), _always),
        # Lanes that come straight from a stack.
        rule(op(Ops.INDEX, op(Ops.STACK, name="s"), name="n"), lambda n, s: s.src[n.arg.lane]),
    ),
)
"""Any dtype."""
