"""What each item of a schedule is for: the nodes of the graph that it computes, and why it stores results.

In: roots, as `schedule` takes them. Out: one `Served` per item of their schedule, in its order. For people:
scheduling itself does not need it, and does not pay for it. Scheduling rewrites a graph before it decides;
a *trail* says for every node that it makes which nodes of the graph it was made for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiny_core.ir.attribution import inherited
from tiny_core.ir.ops import MOVEMENT, Ops
from tiny_core.ir.uop import UOp, toposort
from tiny_core.schedule.fuse import Border, Fusion, is_storage, stored_value

Trail = dict[UOp, dict[UOp, None]]
"""By node: those it was made for, in order."""


@dataclass(frozen=True, slots=True)
class Served:
    """What a kernel is for; empty for a copy.

    Args:
        nodes: what it computes, users before what they use.
        stores: for each of its results, what it is and why it is stored.
    """

    nodes: tuple[UOp, ...] = ()
    stores: tuple[str, ...] = ()


def made_for(trail: Trail | None, old: UOp, new: UOp) -> None:
    """Note that `new` was made for what `old` was made for."""
    if trail is not None and new is not old:
        trail.setdefault(new, {}).update(trail.get(old, {old: None}))


def products_for(trail: Trail, old: UOp, new: UOp) -> None:
    """Note that the products in `new` were made for those in `old`, which it is in another shape."""
    if old.op is new.op is Ops.MUL:
        made_for(trail, old, new)
        for was, now in zip(old.src, new.src, strict=True):
            products_for(trail, was, now)


def served(members: Sequence[UOp], fusion: Fusion, why: Mapping[UOp, str]) -> Served:
    """Return what the kernel that stores `members` is for.

    Args:
        members: roots of the kernel.
        fusion: the borders that were decided.
        why: reasons to store nodes that were not weighed.
    """
    borders = {border.node: border for border in fusion.borders}
    nodes: dict[UOp, None] = {}
    for root in members:
        stack = [root]
        while stack:
            node = stack.pop()
            if node in nodes:
                continue
            nodes[node] = None
            below = (stored_value(node),) if node is root and node.op is Ops.AFTER else node.src
            stack += [s for s in reversed(below) if s not in fusion.stored and not is_storage(s)]
    return Served(tuple(nodes), tuple(_reason(root, borders, why) for root in members))


def _reason(root: UOp, borders: Mapping[UOp, Border], why: Mapping[UOp, str]) -> str:
    node = root
    while node not in borders and node not in why and node.op in MOVEMENT:
        node = node.src[0]
    if node in borders:
        return f"border {borders[node]}"
    return f"stores {root.op.value} {list(stored_value(root).shape)}: {why.get(node, 'it was asked for')}"


def bound(
    items: Sequence[Served], trail: Trail, roots: Sequence[UOp], origin: Mapping[UOp, UOp]
) -> tuple[Served, ...]:
    """Return `items` in terms of the graph that was given.

    Args:
        items: in terms of the graph as scheduling has rewritten it.
        trail: of that rewriting.
        roots: the rewritten graph.
        origin: from nodes that the trail ends at to those of the graph that was given.
    """
    order = toposort(roots)
    known: dict[UOp, dict[UOp, None]] = {}
    for node in order:
        olds = [old for old in (node, *trail.get(node, ())) if old in origin]
        if olds:
            known[node] = dict.fromkeys(olds)
    made = inherited(order, known)
    out = []
    for item in items:
        found = dict.fromkeys(old for node in item.nodes for old in made[node])
        out.append(Served(tuple(origin[n] for n in found), item.stores))
    return tuple(out)
