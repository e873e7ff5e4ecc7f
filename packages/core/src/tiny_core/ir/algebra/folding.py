"""Constant folding: the value of an op whose operands are all constants.

Left alone are ops whose value a target may compute otherwise than we do: the transcendental ones (accurate to
stated ulps, not correctly rounded) and MULACC of floats (fused or not).
"""

from __future__ import annotations

import math

from tiny_core import dtypes
from tiny_core.ir import payload as p
from tiny_core.ir.arith import evaluate
from tiny_core.ir.ops import Ops
from tiny_core.ir.pattern import like, scalar
from tiny_core.ir.uop import UOp

_INEXACT = frozenset({Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW, Ops.MULACC})


def fold(n: UOp) -> UOp | None:
    """Return the constant that `n` equals, or None where an operand is none."""
    if n.op in _INEXACT and n.dtype.is_float:
        return None
    values = []
    for s in n.src:
        k = scalar(s)
        if k is None:
            return None
        values.append(k.value)
    value = evaluate(n.op, n.dtype, tuple(values), n.src[0].dtype)
    return like(n.src[0], value, n.dtype)


def fold_bitcast(n: UOp) -> UOp | None:
    """Return the constant with the same bits, unless it is a NaN: of those only one pattern is kept."""
    k = scalar(n.src[0])
    if k is None or n.dtype.is_weak or k.dtype.is_weak:
        return None
    bits = k.payload(p.Const).bits
    value = dtypes.from_bits(bits, n.dtype)
    if n.dtype.kind == "bool" and bits > 1:
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    return like(n.src[0], value, n.dtype)
