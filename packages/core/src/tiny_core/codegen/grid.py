"""Parallel axes: thread, group and item pieces become what the target runs in parallel.

In: a kernel after `axes.apply` and `loops.separate`. Out: the same with `thread` pieces taken from one
flattened thread RANGE, and `group` and `item` pieces from SPECIAL nodes. A reduction over items goes through
near memory: every item stores its part, and all read all parts (`barriers.insert` puts the barriers). A STORE
that does not depend on a parallel axis is done by the first along it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiny_core.codegen.axes import Plan
from tiny_core.codegen.opaque import simplify_around
from tiny_core.errors import OptionError
from tiny_core.ir import payload as p
from tiny_core.ir.algebra import simplify
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities

THREAD = "thread"


@dataclass(frozen=True, slots=True)
class Launch:
    """What the parallel axes come to: thread iterations, groups and items per dimension."""

    parallel: int = 1
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)


def parallelize(kernel: UOp, plan: Plan, capabilities: Capabilities) -> tuple[UOp, Launch]:
    """Return the kernel with its parallel axes mapped, and the launch that this needs."""
    ranges = sorted((n for n in kernel.toposort() if n.op is Ops.RANGE), key=plan.rank)
    kinds = {
        kind: [r for r in ranges if r.payload(p.Range).kind == kind] for kind in ("thread", "group", "item")
    }
    wrong = ("group", "item") if capabilities.launch == "threads" else ("thread",)
    for r in (r for kind in wrong for r in kinds[kind]):
        raise OptionError(
            f"axis {r.payload(p.Range).axis!r} cannot run as {r.payload(p.Range).kind!r} on this target",
            f"it launches kernels as {capabilities.launch}",
        )
    index: dict[UOp, UOp] = {}
    parallel = 1
    if kinds["thread"]:
        parallel = math.prod(_size(r) for r in kinds["thread"])
        whole = UOp.range(parallel, THREAD, "thread")
        if THREAD not in plan.order:
            plan.order.insert(0, THREAD)
        index |= _unflatten(whole, kinds["thread"])
    grid = _special("group", kinds["group"], capabilities.max_grid, index)
    own = _own_ranges(kernel) if kinds["thread"] or kinds["group"] or kinds["item"] else {}
    teams = _teams(own, kinds["item"], plan.matrix.lane if plan.matrix is not None else "")
    block = _special("item", [team[0] for team in teams], capabilities.max_block, index)
    for team in teams:
        for r in team:
            index[r] = index[team[0]]
    if math.prod(block) > max(1, capabilities.max_items):
        raise OptionError(f"{math.prod(block)} items in a group", f"at most {capabilities.max_items}")
    alone = [[r] for r in (*kinds["thread"], *kinds["group"])]
    mapper = _Mapper(plan, index, teams, alone, own)
    return mapper.run(kernel), Launch(parallel, grid, block)


def _teams(own: dict[UOp, frozenset[UOp]], items: list[UOp], lane: str) -> list[list[UOp]]:
    """Sort item RANGEs into dimensions of the group. Two of one length share a dimension if nothing depends
    on both: what a row's items reduce first, they map over next. The lane of a matrix unit is the fastest."""
    together: set[tuple[UOp, UOp]] = set()
    for over in set(own.values()):
        here = [r for r in items if r in over]
        together.update((a, b) for a in here for b in here if a is not b)
    teams: list[list[UOp]] = []
    for r in items:
        for team in teams if r.payload(p.Range).axis != lane else ():
            if all(_size(o) == _size(r) and (o, r) not in together for o in team):
                team.append(r)
                break
        else:
            teams.append([r])
    return teams


def _size(r: UOp) -> int:
    if not r.src[0].is_const:
        raise OptionError(f"symbolic axis {r.payload(p.Range).axis!r} cannot run in parallel yet")
    return int(r.src[0].value)


def _unflatten(whole: UOp, ranges: list[UOp]) -> dict[UOp, UOp]:
    out: dict[UOp, UOp] = {}
    below = 1
    for k, r in reversed(list(enumerate(ranges))):
        part = whole // below if below != 1 else whole
        out[r] = simplify(part % _size(r) if k else part)
        below *= _size(r)
    return out


def _special(
    level: str, ranges: list[UOp], limit: tuple[int, int, int], index: dict[UOp, UOp]
) -> tuple[int, int, int]:
    """Spread axes over three dimensions, the innermost over dimension 0; all but the last two share dimension
    2."""
    assert level in ("group", "item")
    dims = [1, 1, 1]
    buckets = [ranges[-1:], ranges[-2:-1], ranges[:-2]]
    for d, bucket in enumerate(buckets):
        if not bucket:
            continue
        dims[d] = math.prod(_size(r) for r in bucket)
        if dims[d] > limit[d]:
            raise OptionError(f"{dims[d]} {level}s along dimension {d}", f"at most {limit[d]}")
        size = UOp.const(dims[d])
        special = UOp(Ops.SPECIAL, size.dtype, (size,), p.Special(level, d))  # type: ignore[arg-type]  # checked
        index |= _unflatten(special, bucket)
    return dims[0], dims[1], dims[2]


class _Mapper:
    def __init__(
        self,
        plan: Plan,
        index: dict[UOp, UOp],
        teams: list[list[UOp]],
        alone: list[list[UOp]],
        own: dict[UOp, frozenset[UOp]],
    ) -> None:
        self.plan, self.index, self.teams, self.alone, self.own = plan, index, teams, alone, own
        self.near = 0

    def run(self, kernel: UOp) -> UOp:
        if not self.index:
            return kernel
        done: dict[UOp, UOp] = {}
        order = kernel.toposort()
        self.near = max((n.payload(p.Storage).id + 1 for n in order if n.op is Ops.BUFFER), default=0)
        for node in order:
            if node in self.index:
                done[node] = self.index[node]
                continue
            src = tuple(done[s] for s in node.src)
            if node.op is Ops.REDUCE:
                done[node] = self.reduce(node, src)
            elif node.op is Ops.STORE:
                done[node] = self.store(node, src)
            elif node.op is Ops.AFTER:
                effects = tuple(s for s in src[1:] if s.op in (Ops.RANGE, Ops.END, Ops.STORE, Ops.BARRIER))
                done[node] = UOp(Ops.AFTER, node.dtype, (src[0], *effects)) if effects else src[0]
            elif node.op is Ops.END and node.src[0] in self.index:
                assert len(src) == 2, "an END around one effect"
                done[node] = src[1]
            else:
                new = node if src == node.src else node.replace(src)
                if new is not node and new.op in (Ops.LOAD, Ops.STORE):
                    fixed = list(new.src)
                    fixed[1] = simplify_around(fixed[1])
                    new = new.replace(tuple(fixed))
                done[node] = new
        return done[kernel]

    def store(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        """Let only one item, group or thread of an axis store what does not depend on the axis."""
        gate: UOp | None = src[3] if len(src) == 4 else None
        only: UOp | None = None
        # near memory is that of a group, so every group fills its own
        for team in self.teams if _is_near(node) else (*self.teams, *self.alone):
            if self.own[node].isdisjoint(team):
                first = self.index[team[0]].eq(0)
                only = first if only is None else only & first
        value = src[2] if only is None else _read_by(only, src[2])
        gate = only if gate is None else gate if only is None else gate & only
        fixed = (src[0], simplify_around(src[1]), value)
        return node.replace(fixed if gate is None else (*fixed, simplify_around(gate)))

    def reduce(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        items = [r for r in node.src[1:] if r.payload(p.Range).kind == "item"]
        op = node.payload(p.Reduce).op
        if not items:
            return src[0].reduce(op, *node.src[1:])
        if len(items) > 1:
            raise OptionError("a reduction over two item axes")
        if any(r.payload(p.Range).kind in ("unroll", "vector") for r in node.ranges):
            raise OptionError("a reduction over items of several results at once")
        (mine,) = items
        part = src[0].reduce(op, *(r for r in node.src[1:] if r is not mine))
        # parts of one reduction are neighbours; other item axes have rows of their own
        others, row = UOp.const(0), 1
        for team in self.teams:
            if mine not in team:
                others = others + self.index[team[0]] * row
                row *= _size(team[0])
        n = _size(mine)
        memory = UOp.near(node.dtype, row * n, self.near)
        self.near += 1
        filled = memory.after(memory.store(simplify(others * n + self.index[mine]), part))
        name = f"{mine.payload(p.Range).axis}.all"
        if name not in self.plan.order:
            self.plan.order.append(name)
        every = UOp.range(n, name, "unroll" if n <= 8 else "reduce", self.near)
        return filled.load(simplify(others * n + every)).reduce(op, every)


def _own_ranges(root: UOp) -> dict[UOp, frozenset[UOp]]:
    """Return the ranges that each node depends on, not counting those that fill near memory it is read
    from."""
    found: dict[UOp, frozenset[UOp]] = {}
    for node in root.toposort():
        if node.op is Ops.RANGE:
            found[node] = node.ranges
        elif node.op is Ops.AFTER:
            found[node] = found[node.src[0]]
        elif node.op is Ops.REDUCE:
            found[node] = found[node.src[0]].difference(node.src[1:])
        else:
            found[node] = frozenset[UOp]().union(*(found[s] for s in node.src))
    return found


def _read_by(only: UOp, value: UOp) -> UOp:
    """Return `value` where what the kernel also writes is read only by items for which `only` holds: the
    others might read what item 0 has stored by then."""
    done: dict[UOp, UOp] = {}
    for node in value.toposort(lambda n: n.op is not Ops.AFTER):
        src = node.src if node.op is Ops.AFTER else tuple(done[s] for s in node.src)
        new = node if src == node.src else node.replace(src)
        buf = node.src[0] if node.op is Ops.LOAD else node
        if node.op is Ops.LOAD and buf.op is Ops.PARAM and buf.payload(p.Param).access != "r":
            gate = only & new.src[2] if len(new.src) == 4 else only
            new = new.replace((*new.src[:2], simplify_around(gate), UOp.const(0, node.dtype)))
        done[node] = new
    return done[value]


def _is_near(store: UOp) -> bool:
    return store.src[0].base.op is Ops.BUFFER
