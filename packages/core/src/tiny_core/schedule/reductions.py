"""What the scheduler needs to know of reductions before it decides borders.

`split` makes two reductions of one that would run badly: of many elements to few, or over more than fits near
memory. `is_contraction` tells reductions with reuse of operands (matmul, convolution), which own their unit
and are never repeated. `epilogues` follows the element-wise chain after a reduction to the node whose storage
it should write.
"""

from __future__ import annotations

import math

from tiny_core.ir import payload as p
from tiny_core.ir.ops import ELEMENTWISE, MOVEMENT, Ops
from tiny_core.ir.uop import UOp, toposort

FEW_OUTPUTS = 16  # a reduction to at most so many elements …
MANY_INPUTS = 1 << 18  # … of at least so many is split in two, unless a row of it fits on chip:
ROW = 1 << 15  # longest row whose reduction is fused with what runs over the row again, 128 KB of float32
SMALL = 32  # a reduction over at most so many elements is priced like element-wise work
LARGE = 1 << 20  # elements of an operand that is too large for the caches of a core
PART = 1 << 16  # elements of a contraction's larger operand that one part of it should read
REUSE = 4  # iterations per distinct operand element from which a product-sum counts as a contraction


def split(node: UOp) -> UOp:
    """Return a REDUCE as two, the first to partial results: where there are too few results to run in
    parallel, and where a contraction walks operands that no near memory holds to make comparatively few
    results."""
    if node.op is not Ops.REDUCE or not node.payload(p.Reduce).axes:
        return node
    if node.src[0].op is Ops.MUL and is_contraction(node):
        return _split_contraction(node)
    x = node.src[0]
    if node.size > FEW_OUTPUTS or x.size < MANY_INPUTS or x.size <= ROW * node.size:
        return node
    axis = max(node.payload(p.Reduce).axes, key=lambda a: x.shape[a])
    n = x.shape[axis]
    parts = next((d for d in range(min(256, n), 15, -1) if n % d == 0), 0)
    return _in_parts(node, axis, parts) if parts else node


def _split_contraction(node: UOp) -> UOp:
    """Cut the longest axis that is reduced and that both operands have, so that a part of the larger operand
    fits near memory, unless the partial results would outweigh the operands."""
    a, b = node.src[0].src
    axes = [i for i in node.payload(p.Reduce).axes if not (_broadcast(a, i) or _broadcast(b, i))]
    sizes = [underlying(s).size for s in (a, b)]
    if not axes or max(sizes) < LARGE:
        return node
    axis = max(axes, key=lambda i: node.src[0].shape[i])
    n = node.src[0].shape[axis]
    for parts in range(2, n + 1):
        if n % parts == 0 and max(sizes) // parts <= PART:
            return _in_parts(node, axis, parts) if parts * node.size <= sum(sizes) else node
    return node


def _broadcast(x: UOp, axis: int) -> bool:
    """Whether x is an EXPAND along `axis`."""
    if x.op is not Ops.EXPAND:
        return False
    lead = len(x.shape) - len(x.src[0].shape)
    return axis < lead or (x.src[0].shape[axis - lead] == 1 and x.shape[axis] != 1)


def _in_parts(node: UOp, axis: int, parts: int) -> UOp:
    """Reduce `parts` parts of `axis` and all other axes first, and what is stored of that second."""
    x, reduce = node.src[0], node.payload(p.Reduce)
    inner = (*(a + (a > axis) for a in reduce.axes if a != axis), axis + 1)
    partial = UOp(Ops.REDUCE, x.dtype, (_cut(x, axis, parts),), p.Reduce(reduce.op, tuple(sorted(inner))))
    kept = [a for a in range(len(x.shape) + 1) if a not in inner]
    stored = UOp(Ops.CONTIGUOUS, x.dtype, (partial,))
    return UOp(Ops.REDUCE, x.dtype, (stored,), p.Reduce(reduce.op, (kept.index(axis),)))


def _cut(x: UOp, axis: int, parts: int) -> UOp:
    """Reshape one axis to (parts, rest); a product stays a product, of cut and expanded operands."""
    shape = (*x.shape[:axis], parts, x.shape[axis] // parts, *x.shape[axis + 1 :])
    if x.op is Ops.MUL:
        return UOp(Ops.MUL, x.dtype, tuple(_cut(s, axis, parts) for s in x.src))
    if x.op is Ops.EXPAND and len(x.shape) == len(x.src[0].shape) and not _broadcast(x, axis):
        return UOp(Ops.EXPAND, x.dtype, (_cut(x.src[0], axis, parts),), p.Shape(shape))
    return UOp(Ops.RESHAPE, x.dtype, (x,), p.Shape(shape))


def hoist_factor(node: UOp) -> UOp:
    """Return an UNSHEAR of a product as the product of an UNSHEAR, if one factor does not vary along the
    sheared axis. The gradient of a convolution is such a sum of products; so it stays one. Outside the window
    the other factor is multiplied by zero: what was an exact 0 is NaN there if that factor is not finite."""
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
    """Map every REDUCE to the node that should be stored if the reduction ends a kernel: the last of the
    element-wise operations that alone use it, up to one in `stops`. No two reductions share such a node, and
    the epilogue of a contraction has no reductions of its own."""
    users = consumers(order)
    reduces = _with_reductions(order, stops)
    ends: dict[UOp, UOp] = {}
    claimed: set[UOp] = set()
    for node in order:
        if node.op is not Ops.REDUCE:
            continue
        contraction = is_contraction(node)
        end = current = node
        passed = [node]
        while current not in stops and len(users[current]) == 1:
            step = users[current][0]
            if step.op is Ops.STORE and step.src[1] is current:
                end = users[step][0]
                break
            if step in claimed or step.size != node.size:
                break
            if step.op in ELEMENTWISE or step.op is Ops.CONTIGUOUS:
                if contraction and any(s in reduces for s in step.src if s is not current):
                    break
                end = step
            elif step.op not in (Ops.RESHAPE, Ops.PERMUTE):
                break
            current = step
            passed.append(step)
        claimed.update(passed)
        ends[node] = end
    return ends


def _with_reductions(order: list[UOp], stops: set[UOp]) -> set[UOp]:
    """Return the nodes whose evaluation, down to storage and contractions, runs a reduction."""
    found: set[UOp] = set()
    for n in order:
        if n.op is Ops.REDUCE:
            if not is_contraction(n):
                found.add(n)
        elif n not in stops and n.op not in (Ops.AFTER, Ops.COPY) and any(s in found for s in n.src):
            found.add(n)
    return found


def flops(order: list[UOp], stored: set[UOp]) -> dict[UOp, float]:
    """Return, for each node, the operations that an element of it takes if everything down to what is
    `stored` is computed for it; what is broadcast counts in proportion, and reductions that are not SMALL,
    never repeated, count nothing."""
    out: dict[UOp, float] = {}
    for n in order:
        if not n.src or n in stored:
            out[n] = 0
        elif n.op is Ops.REDUCE:
            out[n] = math.prod(n.src[0].shape[a] for a in n.payload(p.Reduce).axes)
        else:
            total: float = _COST.get(n.op, 1 if n.op in ELEMENTWISE else 0)
            for s in dict.fromkeys(n.src):
                if s.op is not Ops.REDUCE or out[s] <= SMALL:
                    total += out[s] * min(1.0, s.size / max(1, n.size))
            out[n] = total
    return out


_COST = {Ops.DIV: 4, Ops.RECIP: 4, Ops.SQRT: 4, Ops.EXP2: 12, Ops.LOG2: 12, Ops.SIN: 16, Ops.POW: 30,
         Ops.CAST: 0, Ops.THREEFRY: 80, Ops.IDIV: 20, Ops.IMOD: 20, Ops.FLOORDIV: 20,
         Ops.FLOORMOD: 20}  # fmt: skip


def loads(node: UOp, stop: set[UOp]) -> int:
    """Return how many stored arrays an element-wise expression reads, looking no further than `stop`."""
    seen = toposort((node,), lambda n: n is node or (n not in stop and n.op is not Ops.REDUCE))
    return sum(1 for n in seen if n.op in (Ops.BUFFER, Ops.AFTER) or (n in stop and n is not node))
