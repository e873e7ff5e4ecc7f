"""A direct evaluator of scalar expressions, for tests: one node after the other, by the scalar arithmetic
table."""

from __future__ import annotations

import math

from tiny_core.dtypes import Number
from tiny_core.ir import payload as p
from tiny_core.ir.arith import evaluate
from tiny_core.ir.ops import ELEMENTWISE, Ops
from tiny_core.ir.uop import UOp


def value_of(root: UOp, leaves: dict[UOp, Number]) -> Number:
    """Return the value of `root` where each leaf (RANGE, VARIABLE, SPECIAL, LOAD …) has the value given."""
    done: dict[UOp, Number] = {}
    for node in root.toposort(lambda n: n not in leaves):
        if node in leaves:
            done[node] = leaves[node]
        elif node.op is Ops.CONST:
            done[node] = node.payload(p.Const).value
        else:
            assert node.op in ELEMENTWISE, node
            operands = tuple(done[s] for s in node.src)
            done[node] = evaluate(node.op, node.dtype, operands, node.src[0].dtype)
    return done[root]


def same(x: Number, y: Number) -> bool:
    """Whether two values are the same number: all NaNs are, 0.0 and -0.0 are not."""
    if isinstance(x, float) and isinstance(y, float):
        if math.isnan(x) or math.isnan(y):
            return math.isnan(x) and math.isnan(y)
        return x == y and math.copysign(1.0, x) == math.copysign(1.0, y)
    return type(x) is type(y) and x == y
