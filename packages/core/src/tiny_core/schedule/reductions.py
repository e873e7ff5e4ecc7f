"""What the scheduler needs to know of reductions before it decides borders.

`split` makes a reduction to few elements out of many into two, so that it has something to run in parallel.
`is_contraction` tells reductions with reuse of operands (matmul, convolution), which own their unit and are never
repeated. `epilogues` follows the element-wise chain after a reduction to the node whose storage it should write.
"""

from __future__ import annotations

import math

from tiny_core.ir import payload as p
from tiny_core.ir.ops import ELEMENTWISE, MOVEMENT, Ops
from tiny_core.ir.uop import UOp, toposort

FEW_OUTPUTS = 16  # a reduction to at most so many elements …
MANY_INPUTS = 1 << 18  # … of at least so many is split in two
SMALL = 32  # a reduction over at most so many elements is priced like element-wise work
REUSE = 4  # iterations per distinct operand element from which a product-sum counts as a contraction


def split(node: UOp) -> UOp:
    """Return a REDUCE as two, the first to some hundred partial results, or the node itself."""
    if node.op is not Ops.REDUCE or node.size > FEW_OUTPUTS:
        return node
    x, reduce = node.src[0], node.payload(p.Reduce)
    if x.size < MANY_INPUTS or not reduce.axes:
        return node
    axis = max(reduce.axes, key=lambda a: x.shape[a])
    n = x.shape[axis]
    parts = next((d for d in range(min(256, n), 15, -1) if n % d == 0), 0)
    if not parts:
        return node
    shape = (*x.shape[:axis], parts, n // parts, *x.shape[axis + 1 :])
    inner = tuple(a + (a > axis) for a in reduce.axes if a != axis) + (axis + 1,)
    wide = UOp(Ops.RESHAPE, x.dtype, (x,), p.Shape(shape))
    partial = UOp(Ops.REDUCE, x.dtype, (wide,), p.Reduce(reduce.op, tuple(sorted(inner))))
    kept = [a for a in range(len(shape)) if a not in inner]
    stored = UOp(Ops.CONTIGUOUS, x.dtype, (partial,))
    return UOp(Ops.REDUCE, x.dtype, (stored,), p.Reduce(reduce.op, (kept.index(axis),)))


def hoist_factor(node: UOp) -> UOp:
    """Return an UNSHEAR of a product as the product of an UNSHEAR, if one factor does not vary along the sheared axis.
    The gradient of a convolution is such a sum of products; so it stays one. Outside the window the other factor is
    multiplied by zero: what was an exact 0 is NaN there if that factor is not finite."""
    if node.op is not Ops.UNSHEAR or node.src[0].op is not Ops.MUL:
        return node
    arg = node.payload(p.Shear)
    for a, b in (node.src[0].src, node.src[0].src[::-1]):
        if b.op is not Ops.EXPAND:
            continue
        lead = len(b.shape) - len(b.src[0].shape)
        if arg.axis >= lead and b.src[0].shape[arg.axis - lead] != 1:
            continue
        moved = hoist_factor(UOp(Ops.UNSHEAR, a.dtype, (a,), arg))
        return UOp(Ops.MUL, node.dtype, (moved, UOp(Ops.EXPAND, b.dtype, b.src, p.Shape(node.shape))))
    return node


def underlying(node: UOp) -> UOp:
    """Return what a chain of movements and casts shows."""
    while node.op in MOVEMENT or node.op is Ops.CAST:
        node = node.src[0]
    return node


def is_contraction(node: UOp) -> bool:
    """Return whether a REDUCE sums products whose operands are each used several times."""
    if node.op is not Ops.REDUCE or node.payload(p.Reduce).op is not Ops.ADD:
        return False
    iterations = node.src[0].size
    body = underlying(node.src[0])
    if body.op is not Ops.MUL or iterations < 4096:
        return False
    return all(iterations >= REUSE * max(1, underlying(s).size) for s in body.src)


def consumers(order: list[UOp]) -> dict[UOp, list[UOp]]:
    """Return who uses each node, each user once."""
    users: dict[UOp, list[UOp]] = {n: [] for n in order}
    for n in order:
        for s in dict.fromkeys(n.src):
            users[s].append(n)
    return users


def epilogues(order: list[UOp], stops: set[UOp]) -> dict[UOp, UOp]:
    """Map every REDUCE to the node that should be stored if the reduction ends a kernel: the last of the element-wise
    operations that alone use it, up to one in `stops`. No two reductions share such a node."""
    users = consumers(order)
    ends: dict[UOp, UOp] = {}
    claimed: set[UOp] = set()
    for node in order:
        if node.op is not Ops.REDUCE:
            continue
        end = current = node
        passed = [node]
        while current not in stops and len(users[current]) == 1:
            step = users[current][0]
            if step in claimed or step.size != node.size:
                break
            if step.op in ELEMENTWISE:
                end = step
            elif step.op not in (Ops.RESHAPE, Ops.PERMUTE):
                break
            current = step
            passed.append(step)
        claimed.update(passed)
        ends[node] = end
    return ends


def flops(order: list[UOp]) -> dict[UOp, float]:
    """Return, for each node, the operations that an element of it takes if everything down to storage is computed for
    it; what is broadcast counts in proportion, and reductions that are not SMALL, never repeated, count nothing."""
    out: dict[UOp, float] = {}
    for n in order:
        if n.op is Ops.REDUCE or not n.src:
            out[n] = 0 if not n.src else math.prod(n.src[0].shape[a] for a in n.payload(p.Reduce).axes)
        else:
            total: float = _COST.get(n.op, 1 if n.op in ELEMENTWISE else 0)
            for s in dict.fromkeys(n.src):
                if s.op is not Ops.REDUCE or out[s] <= SMALL:
                    total += out[s] * min(1.0, s.size / max(1, n.size))
            out[n] = total
    return out


_COST = {Ops.DIV: 4, Ops.RECIP: 4, Ops.SQRT: 4, Ops.EXP2: 12, Ops.LOG2: 12, Ops.SIN: 16, Ops.POW: 30, Ops.CAST: 0,
         Ops.THREEFRY: 80, Ops.IDIV: 20, Ops.IMOD: 20, Ops.FLOORDIV: 20, Ops.FLOORMOD: 20}  # fmt: skip


def loads(node: UOp, stop: set[UOp]) -> int:
    """Return how many stored arrays an element-wise expression reads, looking no further than `stop`."""
    seen = toposort((node,), lambda n: n is node or (n not in stop and n.op is not Ops.REDUCE))
    return sum(1 for n in seen if n.op in (Ops.BUFFER, Ops.AFTER) or (n in stop and n is not node))
