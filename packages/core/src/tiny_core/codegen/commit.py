"""Commit index arithmetic to machine integers.

In: a loops-stage graph with values of dtype `index`. Out: the same with int32 or int64. Scalars are 64 bits
wide on host programs, whose addresses are, and otherwise the narrowest of the two that interval analysis
proves; lanes (used in masks) likewise the narrowest.
"""

from __future__ import annotations

from tiny_core import dtypes
from tiny_core.ir import payload as p
from tiny_core.ir.interval import bounds
from tiny_core.ir.ops import COMPARE, Ops
from tiny_core.ir.uop import UOp


def commit(root: UOp, host: bool) -> UOp:
    """Return the graph without `index` values."""
    order = root.toposort()
    small = all(_fits(n) for n in order if n.dtype is dtypes.index)
    scalar = dtypes.int64 if host or not small else dtypes.int32
    lanes = dtypes.int32 if small else dtypes.int64
    done: dict[UOp, UOp] = {}
    for node in order:
        src = tuple(done[s] for s in node.src)
        wide = bool(node.shape)
        if node.dtype is dtypes.index:
            want = lanes if wide else scalar
            if node.op is Ops.CONST:
                done[node] = UOp.const(node.value, want)
            elif node.op is Ops.CAST:
                done[node] = src[0].cast(want)
            elif node.op in (Ops.LOAD, Ops.RANGE, Ops.SPECIAL, Ops.VARIABLE):
                done[node] = UOp(node.op, want, src, node.arg)
            else:
                fixed = tuple(s if s.dtype is dtypes.bool_ else s.cast(want) for s in src)
                done[node] = UOp(node.op, want, fixed, node.arg)
        elif node.op in COMPARE and node.src[0].dtype is dtypes.index:
            want = lanes if node.src[0].shape else scalar
            done[node] = UOp(node.op, node.dtype, tuple(s.cast(want) for s in src), node.arg)
        elif node.op in (Ops.LOAD, Ops.STORE) and _is_register(node):
            done[node] = node.replace((src[0], UOp.const(node.src[1].value, dtypes.int32), *src[2:]))
        else:
            done[node] = node if src == node.src else node.replace(src)
    return done[root]


def _is_register(node: UOp) -> bool:
    base = node.src[0].base
    return base.op is Ops.BUFFER and base.payload(p.Storage).space == "register"


def _fits(node: UOp) -> bool:
    lo, hi = bounds(node)
    return lo >= -(1 << 31) and hi < 1 << 31
