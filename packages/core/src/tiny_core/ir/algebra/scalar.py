"""One step of simplification of a node that is no index: comparisons of indices, bools, and the rule tables.

In: a node whose sources are in normal form. Out: an equal node (itself if no rule applies) whose sources may
need simplification in turn.
"""

from __future__ import annotations

from tiny_core import dtypes
from tiny_core.ir.algebra.compare import compare, fold_bool
from tiny_core.ir.algebra.generic import GENERIC
from tiny_core.ir.algebra.ieee import IEEE
from tiny_core.ir.algebra.simplifier import Simplifier
from tiny_core.ir.algebra.wrap import WRAP
from tiny_core.ir.ops import COMPARE
from tiny_core.ir.rewrite import record, tracing
from tiny_core.ir.uop import UOp

TABLE = GENERIC + WRAP + IEEE
"""All rules that are tried on nodes that are no index."""


def simplify_scalar(s: Simplifier, node: UOp) -> UOp:
    """Return what `node` becomes in one step."""
    matcher = TABLE.matcher(node.op)
    if matcher is None or node in s.nodes:
        return node
    if node.dtype is dtypes.bool_ and not node.shape:
        if node in s.true:
            return s.truth(True)
        first = node.src[0].dtype
        if first is dtypes.index and node.op in COMPARE:
            result = compare(s, node.op, s.form(node.src[0]), s.form(node.src[1]))
            if result is not node and tracing():
                record(f"{node.op.value} of indices", "compare.py", node, result)
            return result
        if first is dtypes.bool_:
            folded = fold_bool(s, node)
            if folded is not None:
                if folded is not node and tracing():
                    record(f"{node.op.value} of bools", "compare.py", node, folded)
                return folded
    found = matcher(node, None)
    if found is None:
        return node
    if tracing():
        record(found[1].name, found[1].location, node, found[0])
    return found[0]
