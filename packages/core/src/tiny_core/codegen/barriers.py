"""Barriers: between items of a group, data in near memory is visible only after a BARRIER.

In: a loops-stage graph of a grid kernel. Out: the same, where every AFTER that reads near memory which items
have filled goes through a BARRIER (read after write), and where memory that is filled again in a loop is not
filled before all items have read it (write after read). Barriers stand in uniform control flow: loops have
the same bounds for all items, and no gate is a branch.
"""

from __future__ import annotations

from tiny_core import dtypes
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp


def insert(root: UOp) -> UOp:
    """Return the graph with the barriers that near memory needs."""
    order = root.toposort()
    if not any(_is_near(n) for n in order):
        return root
    done: dict[UOp, UOp] = {}
    for node in order:
        src = tuple(done[s] for s in node.src)
        new = node if src == node.src else node.replace(src)
        if node.op is Ops.AFTER and _is_near(node.base):
            effects = [e for e in new.src[1:] if e.op in (Ops.STORE, Ops.END)]
            if effects:
                others = [e for e in new.src[1:] if e not in effects]
                barrier = UOp(Ops.BARRIER, dtypes.void, tuple(effects))
                new = UOp(Ops.AFTER, node.dtype, (new.src[0], barrier, *others))
        done[node] = new
    return _before_refill(done[root])


def _is_near(node: UOp) -> bool:
    return node.op is Ops.BUFFER and node.payload(p.Storage).space not in ("register", "global")


def _before_refill(root: UOp) -> UOp:
    """In every loop in which near memory is filled, end each iteration with a barrier after all reads of
    it."""
    order = root.toposort()
    loops: dict[UOp, set[UOp]] = {}
    for node in order:
        if node.op is Ops.STORE and _is_near(node.src[0].base):
            for r in node.ranges:
                loops.setdefault(r, set()).add(node.src[0].base)
    if not loops:
        return root
    done: dict[UOp, UOp] = {}
    for node in order:
        src = tuple(done[s] for s in node.src)
        new = node if src == node.src else node.replace(src)
        if node.op is Ops.END and node.src[0] in loops and not _fills(node, loops[node.src[0]]):
            barrier = UOp(Ops.BARRIER, dtypes.void, new.src[1:])
            new = new.replace((new.src[0], barrier))
        done[node] = new
    return done[root]


def _fills(end: UOp, memories: set[UOp]) -> bool:
    """Whether a loop only fills near memory (the loop that copies a tile), so that no read is in it."""
    return all(
        (e.op is Ops.STORE and e.src[0].base in memories) or (e.op is Ops.END and _fills(e, memories))
        for e in end.src[1:]
    )
