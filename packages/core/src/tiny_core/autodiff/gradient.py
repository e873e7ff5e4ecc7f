"""Reverse-mode differentiation of tensor graphs.

In: a root, targets and the cotangent of the root, all nodes. Out: for each target the node of its cotangent,
with what stands in the way of computing it. Guaranteed: only nodes on a path from the root to a target are
differentiated, each once.

Values are versions: a target that is storage is looked for in the version it has now, and if the root does
not read that, in the latest earlier one. Values that were realized are differentiated through the graph that
history kept for them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tiny_core.autodiff.rules import RULES, put_back
from tiny_core.errors import GradientError
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor import cell as cells
from tiny_core.tensor import graph as g
from tiny_core.tensor import history
from tiny_core.tensor.lines import notes, user_line

_REARRANGE = frozenset({Ops.RESHAPE, Ops.PERMUTE, Ops.FLIP})


@dataclass(frozen=True, slots=True)
class Found:
    """The cotangent of a target.

    Args:
        node: it, or None if the root does not depend on the target.
        ghost: an overwritten version that it would have to read, or None.
        cut: a BUFFER that was computed from the target by a graph that is gone, or None.
    """

    node: UOp | None
    ghost: history.Ghost | None = None
    cut: UOp | None = None


def differentiate(root: UOp, targets: Sequence[UOp], seed: UOp) -> list[Found]:
    """Return the cotangent of each target, given that of `root`; raises GradientError where an op has no
    derivative."""
    sources = _graph(root)
    order = list(sources)
    aims = [_aim(t, sources) for t in targets]
    wanted = set(aims)
    reach: dict[UOp, bool] = {}
    for node in order:
        reach[node] = node in wanted or any(reach[s] for s in sources[node])
    here, forward = (user_line(), notes.of(order)) if notes.on else (None, {})
    cotangents: dict[UOp, UOp] = {root: seed}
    for node in reversed(order):
        c = cotangents.get(node)
        if c is None or not reach[node]:
            continue
        for source, part in _contributions(node, c, sources[node], reach):
            have = cotangents.get(source)
            total = cotangents[source] = part if have is None else g.alu(Ops.ADD, have, part)
            if forward:
                for made in (part, total):
                    notes.add_gradient(made, forward[node], here)
    ghosts = any(history.ghost_of(n) for n in order)
    computed = [(n, ids) for n in order if n.op is Ops.BUFFER and (ids := history.cut_from(n))]
    return [_found(t, cotangents.get(a), computed, ghosts) for t, a in zip(targets, aims, strict=True)]


def _differentiable(node: UOp) -> bool:
    return node.op is not Ops.DETACH and (node.dtype.is_float or node.op is Ops.STORE)


def _sources(node: UOp) -> tuple[UOp, ...]:
    """What cotangents can flow to from a node."""
    if not _differentiable(node):
        return ()
    if node.op is Ops.BUFFER:
        graph = history.origin(node)
        return () if graph is None else (graph,)
    if node.op is Ops.STORE:
        return node.src[1:]
    return node.src


def _graph(root: UOp) -> dict[UOp, tuple[UOp, ...]]:
    """The nodes below `root`, sources first, each with what cotangents can flow to; realized values lead on
    to what computed them."""
    done: dict[UOp, tuple[UOp, ...]] = {}
    below: dict[UOp, tuple[UOp, ...]] = {}
    stack: list[tuple[UOp, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        sources = below.get(node)
        if sources is None:
            sources = below[node] = _sources(node)
        if ready or not sources:
            done[node] = sources
            continue
        stack.append((node, True))
        stack.extend((s, False) for s in sources if s not in done)
    return done


def _aim(target: UOp, known: Collection[UOp]) -> UOp:
    """The node that stands for `target` in the graph: itself, or the latest earlier version of its
    storage."""
    if target in known:
        return target
    steps, base = g.movements(target)
    steps = [s for s in steps if s.op is not Ops.DETACH]
    if base.op not in (Ops.BUFFER, Ops.AFTER) or base.base.op is not Ops.BUFFER:
        return target
    storage = history.storage_id(base.base)
    best, age = target, -2
    for node in known:
        if node.op not in (Ops.BUFFER, Ops.AFTER) or node.base.op is not Ops.BUFFER:
            continue
        ghost = history.ghost_of(node.base)
        if storage != (history.storage_id(node.base) if ghost is None else ghost.storage):
            continue
        version = _depth(node) - (ghost is not None)
        there = g.restep(steps, node)
        if there in known and version > age:
            best, age = there, version
    return best


def _depth(node: UOp) -> int:
    depth = 0
    while node.op is Ops.AFTER:
        node, depth = node.src[0], depth + 1
    return depth


def _contributions(
    node: UOp, c: UOp, sources: tuple[UOp, ...], reach: dict[UOp, bool]
) -> list[tuple[UOp, UOp]]:
    if node.op is Ops.BUFFER:
        return [(s, c) for s in sources if reach[s]]
    if node.op is Ops.AFTER:
        return _through_stores(node, c, reach)
    rule = RULES.get(node.op)
    if rule is None:
        if not any(reach.get(s) for s in node.src):
            return []
        raise GradientError(f"{node.op.value} has no derivative", "detach() the part that needs none")
    need = [reach.get(s, False) for s in node.src]
    parts = rule(node, c, need)
    return [(s, part) for s, part, n in zip(node.src, parts, need, strict=False) if n and part is not None]


def _through_stores(node: UOp, c: UOp, reach: dict[UOp, bool]) -> list[tuple[UOp, UOp]]:
    """A version: what was stored gets its part of the cotangent, the version before gets the rest."""
    out: list[tuple[UOp, UOp]] = []
    before = node.src[0]
    for store in node.src[1:]:
        if store.op is not Ops.STORE or cells.storage(store.src[0]) is not cells.storage(before):
            continue
        view, value = store.src
        steps = g.movements(view)[0]
        if reach.get(value):
            out.append((value, g.restep(steps, c)))
        if all(s.op in _REARRANGE for s in steps):
            return out
        mask = put_back(steps, g.const(1, c.dtype, view.shape))
        c = g.where(g.scalar_op(Ops.CMPEQ, mask, 0), c, g.const_like(0, c))
    if reach.get(before):
        out.append((before, c))
    return out


def _found(target: UOp, node: UOp | None, computed: list[tuple[UOp, history.Ids]], ghosts: bool) -> Found:
    base = cells.storage(target)
    gone = None
    if base.op is Ops.BUFFER:
        gone = next((n for n, ids in computed if history.storage_id(base) in ids and n is not base), None)
    ghost = None
    if node is not None and ghosts:
        ghost = next((found for n in node.toposort() if (found := history.ghost_of(n)) is not None), None)
    return Found(node, ghost, gone)
