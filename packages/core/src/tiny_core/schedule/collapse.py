"""Reductions that algebra can do without a loop.

A sum over an axis that only picks one element (one-hot masks, gathers written as comparisons) becomes that
element; a sum of what does not depend on the axis becomes a product; a sum of the axis itself its closed
form. Domain: integers and masks; for floats the first, which adds nothing but zeros, and the second, which
rounds once.
"""

from __future__ import annotations

from tiny_core import dtypes
from tiny_core.ir.algebra import simplify
from tiny_core.ir.ops import ELEMENTWISE, Ops
from tiny_core.ir.payload import Reduce
from tiny_core.ir.uop import UOp

_WHOLE = {dtypes.float16: 1 << 11, dtypes.float32: 1 << 24, dtypes.float64: 1 << 53}
"""Up to where a float dtype has every whole number."""


def collapse(root: UOp) -> UOp:
    """Return the kernel expression with every reduction that has a closed form replaced by it."""
    done: dict[UOp, UOp] = {}
    for node in root.toposort():
        src = tuple(done[s] for s in node.src)
        new = node if src == node.src else node.replace(src)
        if new.op is Ops.REDUCE:
            new = _reduce(new)
        done[node] = new
    return done[root]


def _reduce(node: UOp) -> UOp:
    op = node.payload(Reduce).op
    value, ranges = node.src[0], list(node.src[1:])
    changed = True
    while changed and ranges:
        changed = False
        for r in list(ranges):
            closed = _close(op, value, r)
            if closed is not None:
                value = closed
                ranges.remove(r)
                changed = True
    return value.reduce(op, *ranges)


def _close(op: Ops, value: UOp, r: UOp) -> UOp | None:
    """Return the reduction of `value` over `r` without a loop, or None."""
    if not r.src[0].is_const:
        return None
    n = int(r.src[0].value)
    if r not in value.ranges:
        if op in (Ops.MAX, Ops.MIN) or value.dtype is dtypes.bool_:
            return value
        if op is Ops.ADD and (value.dtype.is_int or n <= _WHOLE.get(value.dtype, 0)):
            return value * n
        return None
    if op is not Ops.ADD:
        return None
    if value.op is Ops.CAST and value.src[0].dtype is dtypes.index and value.dtype.is_int:
        inner = value.src[0]
        if inner is r:
            return UOp.const(n * (n - 1) // 2, value.dtype)
        return None
    if value.op is Ops.CAST and value.src[0].dtype is dtypes.bool_ and value.dtype.is_int:
        return _pick(value.src[0], UOp.const(1, value.dtype), UOp.const(0, value.dtype), r, n)
    if value.op is Ops.WHERE and _is_zero(value.src[2]):
        condition, picked, zero = value.src
        return _pick(condition, picked, zero, r, n)
    if value.op is Ops.MUL:
        for mask, other in (value.src, value.src[::-1]):
            if mask.op is Ops.CAST and mask.src[0].dtype is dtypes.bool_ and not value.dtype.is_float:
                return _pick(mask.src[0], other, UOp.const(0, value.dtype), r, n)
    return None


def _is_zero(node: UOp) -> bool:
    return node.is_const and node.value == 0


def _pick(condition: UOp, value: UOp, zero: UOp, r: UOp, n: int) -> UOp | None:
    """The sum over r of `value` where `condition`, a conjunction with one term `r == e`, holds."""
    terms: list[UOp] = []
    stack = [condition]
    while stack:
        c = stack.pop()
        if c.op is Ops.AND and c.dtype is dtypes.bool_:
            stack.extend(c.src)
        else:
            terms.append(c)
    for term in terms:
        if term.op is not Ops.CMPEQ:
            continue
        for a, b in (term.src, term.src[::-1]):
            axis = a
            while axis.op is Ops.CAST and axis.src[0].dtype.is_int:
                axis = axis.src[0]
            if axis is not r or r in b.ranges:
                continue
            at = b.cast(dtypes.index)
            inside = (UOp.const(0) <= at) & (at < n)
            rest = [t for t in terms if t is not term]
            for t in rest:
                inside = inside & t
            moved = _at(value, r, at, inside)
            return simplify(_at(inside, r, at, inside)).where(moved, zero)
    return None


def _at(value: UOp, r: UOp, at: UOp, inside: UOp) -> UOp:
    """Return `value` with r at `at`; what it loads is read only where `inside` holds."""
    done: dict[UOp, UOp] = {r: at}
    for node in value.toposort(lambda n: n is not r and r in n.ranges):
        if node in done:
            continue
        if r not in node.ranges:
            done[node] = node  # a reduction over the same axis binds it anew
            continue
        src = tuple(done[s] for s in node.src)
        new = node if src == node.src else node.replace(src)
        if node.op is Ops.LOAD and new is not node:
            gate = inside if r not in inside.ranges else inside.substitute({r: at})
            index = simplify(new.src[1])
            if len(new.src) == 4:
                gate = simplify(gate & new.src[2])
            new = new.src[0].load(index, gate)
        elif new.op in ELEMENTWISE and new.dtype in (dtypes.index, dtypes.bool_):
            new = simplify(new)
        done[node] = new
    return done[value]
