"""Barriers: between items of a group, data in near memory is visible only after a BARRIER.

In: a loops-stage graph of a grid kernel. Out: the same, where every AFTER that reads near memory which items
have filled goes through a BARRIER (read after write; one serves all tiles of one place), and where memory
that is filled again in a loop is not filled before all items have read it (write after read). Barriers stand
in uniform control flow: loops have the same bounds for all items, and no gate is a branch.
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
    shared = _together(order)
    done: dict[UOp, UOp] = {}

    def settle(node: UOp) -> UOp:
        """Return what a node becomes; its sources may be ahead in the order where a barrier is shared."""
        for n in node.toposort(lambda n: n not in done):
            if n in done:
                continue
            src = tuple(done[s] for s in n.src)
            new = n if src == n.src else n.replace(src)
            if n in shared:
                fills = [e for a in shared[n] for e in a.src[1:] if _fills_near(e)]
                others = [done[e] for e in n.src[1:] if not _fills_near(e)]
                barrier = UOp(Ops.BARRIER, dtypes.void, tuple(dict.fromkeys(settle(e) for e in fills)))
                new = UOp(Ops.AFTER, n.dtype, (new.src[0], barrier, *others))
            done[n] = new
        return done[node]

    return _before_refill(settle(root))


def _fills_near(effect: UOp) -> bool:
    return effect.op in (Ops.STORE, Ops.END)


def _together(order: list[UOp]) -> dict[UOp, list[UOp]]:
    """Return the AFTERs that wait for near memory to be filled, each with those that one barrier serves as
    well: filled in the same loops from what waits for no barrier."""
    teams: dict[frozenset[UOp], list[UOp]] = {}
    found: dict[UOp, list[UOp]] = {}
    for node in order:
        if node.op is not Ops.AFTER or not _is_near(node.base) or not any(map(_fills_near, node.src[1:])):
            continue
        ranges = frozenset[UOp]().union(*(e.ranges for e in node.src[1:]))
        alone = any(n in found for e in node.src[1:] for n in e.toposort())
        found[node] = [node] if alone else teams.setdefault(ranges, [])
        if not alone:
            found[node].append(node)
    return found


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
