"""Groups: which kernels become one, and in which order the groups run.

Two kernels over the same output axes are one if they read something in common, or one reads the other's
result at the very index it is stored at, and no other kernel has to run between them. The order respects
reads after writes, writes after reads of an earlier version, and copies. Where no order exists (a value is
wanted after its storage has been overwritten), the versions to copy are returned instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tiny_core.ir import payload as p
from tiny_core.ir.algebra.index import linear_form
from tiny_core.ir.ops import MOVEMENT, Ops
from tiny_core.ir.uop import UOp
from tiny_core.schedule import reductions
from tiny_core.schedule.fuse import Fusion, Kernel, is_storage, size_of
from tiny_core.schedule.lower import view_index
from tiny_core.schedule.movement import Index, flat_index

MAX_STORES = 16  # results of one kernel


@dataclass(frozen=True, slots=True)
class Group:
    """A kernel that stores `members`, or a copy."""

    members: tuple[UOp, ...]
    copy: UOp | None = None


class _Graph:
    """Kernels and copies as numbered vertices; sets of vertices are bit masks."""

    def __init__(self, order: list[UOp], fusion: Fusion) -> None:
        self.kernels: list[Kernel | None] = list(fusion.kernels)
        self.copies: dict[int, UOp] = {}
        self.maker = dict(fusion.stored)
        for node in order:
            if node.op is Ops.COPY:
                self.copies[len(self.kernels)] = node
                self.maker[node] = len(self.kernels)
                self.kernels.append(None)
        self.count = len(self.kernels)
        self.before = [0] * self.count
        self.readers: dict[UOp, int] = {}
        for v in range(self.count):
            for node in self.read(v):
                self.readers[node] = self.readers.get(node, 0) | 1 << v
                if node in self.maker and self.maker[node] != v:
                    self.before[v] |= 1 << self.maker[node]
        self.overwrites: list[
            tuple[UOp, int, int]
        ] = []  # version, its writer, the readers that must come first
        for node in order:
            if node.op is not Ops.AFTER:
                continue
            old, writer = node.src[0], self.maker[node]
            if old in self.maker:
                self.before[writer] |= 1 << self.maker[old]
            first = self.readers.get(old, 0) & ~(1 << writer)
            self.overwrites.append((old, writer, first))
            self.before[writer] |= first

    def read(self, v: int) -> list[UOp]:
        """Storage that vertex `v` reads."""
        kernel = self.kernels[v]
        if kernel is not None:
            return list(kernel.reads)
        node = self.copies[v].src[0]
        while node.op in MOVEMENT and node not in self.maker:
            node = node.src[0]
        return [node]


def group(
    order: list[UOp], fusion: Fusion, device_of: Callable[[UOp], p.Device]
) -> tuple[list[Group], set[UOp]]:
    """Return the groups in running order, or the versions of storage that must be copied first."""
    hazards = {node for k in fusion.kernels if k.root.op is Ops.AFTER for node in _read_elsewhere(k)}
    if hazards:
        return [], hazards
    graph = _Graph(order, fusion)
    after, before = _closure(graph)
    conflicts = {old for old, writer, readers in graph.overwrites if readers & after[writer]}
    if conflicts:
        return [], conflicts
    team = _merge(graph, after, before, device_of)
    return _ordered(graph, team), set()


def _read_elsewhere(kernel: Kernel) -> list[UOp]:
    """Versions of an assignment's own storage that it reads at another index than it writes."""
    target, at = view_index(kernel.root.src[1].src[0], kernel.ranges)
    return [
        node
        for node, sites in kernel.reads.items()
        if is_storage(node) and node.op is not Ops.COPY and node.base is target
        if any(gate is not None or flat_index(index, node.shape) is not at for index, gate in sites)
    ]


def _closure(graph: _Graph) -> tuple[list[int], list[int]]:
    """Return, for each vertex, all vertices after it and all before it."""
    before = list(graph.before)
    changed = True
    while changed:
        changed = False
        for v in range(graph.count):
            have = before[v]
            more, rest = have, have
            while rest:
                low = rest & -rest
                more |= before[low.bit_length() - 1]
                rest ^= low
            if more != have:
                before[v] = more
                changed = True
    after = [0] * graph.count
    for v in range(graph.count):
        rest = before[v]
        while rest:
            low = rest & -rest
            after[low.bit_length() - 1] |= 1 << v
            rest ^= low
    return after, before


def _merge(
    graph: _Graph, after: list[int], before: list[int], device_of: Callable[[UOp], p.Device]
) -> list[int]:
    """Return the team (smallest vertex of its group) of each vertex."""
    team = list(range(graph.count))
    members: dict[int, list[int]] = {v: [v] for v in range(graph.count)}
    open_teams: dict[tuple[Index, p.Device], list[int]] = {}
    for v, kernel in enumerate(graph.kernels):
        if kernel is None or kernel.contraction or kernel.alone:
            continue
        loops, device = kernel.loops, device_of(kernel.root)
        # those over the same axes first, then those over rows of which these are elements, or the reverse
        keys = [loops[:k] for k in range(len(loops), 0, -1)] or [loops]
        found = [t for key in keys for t in reversed(open_teams.get((key, device), []))]
        for t in found:
            if len(members[t]) < MAX_STORES and _may_join(graph, members[t], v, after, before):
                _join(t, v, team, members, after, before)
                break
        else:
            t = v
        for key in keys:
            if t not in (known := open_teams.setdefault((key, device), [])):
                known.append(t)
    return team


def _may_join(graph: _Graph, together: list[int], v: int, after: list[int], before: list[int]) -> bool:
    kernel = graph.kernels[v]
    assert kernel is not None
    mask = 1 << v
    for t in together:
        mask |= 1 << t
    t = together[0]  # closures of a team are equal
    between = ((after[t] & before[v]) | (after[v] & before[t])) & ~mask
    if between:
        return False
    shared = False
    for other in together:
        peer = graph.kernels[other]
        assert peer is not None
        if kernel.loops == peer.loops:
            shared |= any(node in kernel.reads and node.size > 1 for node in peer.reads)
        elif _walk_rows_together(kernel, peer):
            shared = True
        else:
            return False
        for reader, writer in ((kernel, peer), (peer, kernel)):
            if writer.root in reader.reads:
                if not _aligned(writer, reader.reads[writer.root]):
                    return False
                shared = True
            if writer.root.op is Ops.AFTER and not _reads_in_step(reader, writer):
                return False
    return shared and not _overtaken([kernel, *(k for t in together if (k := graph.kernels[t]) is not None)])


def _walk_rows_together(a: Kernel, b: Kernel) -> bool:
    """Whether one of two kernels reduces rows of something whose elements the other one takes, row by row."""
    short, long = (a, b) if len(a.loops) < len(b.loops) else (b, a)
    outer, inner = long.loops[: len(short.loops)], long.loops[len(short.loops) :]
    if outer != short.loops or math.prod(map(size_of, outer)) < reductions.FEW_OUTPUTS:
        return False
    if math.prod(map(size_of, inner)) > reductions.ROW:
        return False
    for reader, writer in ((short, long), (long, short)):
        if writer.root.op is Ops.AFTER and any(
            node.base is writer.root.base and node is not writer.root for node in reader.reads
        ):
            return False
    both = [node for node in short.reads if node in long.reads and node.size > 1]
    return any(not _walks(short, node, outer).isdisjoint(_walks(long, node, outer)) for node in both)


def _walks(kernel: Kernel, node: UOp, outer: Index) -> set[tuple[object, ...]]:
    """How a kernel goes over a node inside loops: the index of a row, then steps and lengths of the loops in
    it."""
    found: set[tuple[object, ...]] = set()
    for index, gate in kernel.reads[node]:
        terms, constant = linear_form(flat_index(index, node.shape))
        inside = {r: c for r, c in terms.items() if not r.ranges <= set(outer)}
        if gate is None and inside and all(r.op is Ops.RANGE for r in inside):
            row = frozenset((r, c) for r, c in terms.items() if r not in inside)
            found.add((constant, row, *sorted((c, size_of(r)) for r, c in inside.items())))
    return found


def _aligned(writer: Kernel, sites: set[tuple[Index, UOp | None]]) -> bool:
    """Whether all `sites` read exactly the element that the writer stores in the same iteration."""
    root = writer.root
    at = (
        view_index(root.src[1].src[0], writer.ranges)[1]
        if root.op is Ops.AFTER
        else flat_index(writer.ranges, root.shape)
    )
    return all(gate is None and flat_index(index, root.shape) is at for index, gate in sites)


def _reads_in_step(reader: Kernel, writer: Kernel) -> bool:
    """Whether the reader touches the storage that an assignment overwrites only at the element
    overwritten."""
    target, at = view_index(writer.root.src[1].src[0], writer.ranges)
    for node, sites in reader.reads.items():
        if node is writer.root or not is_storage(node) or node.op is Ops.COPY or node.base is not target:
            continue
        # one LOAD serves all that read the element; a masked one might come after the store
        if any(gate is not None or flat_index(index, node.shape) is not at for index, gate in sites):
            return False
    return reader.root.op is not Ops.AFTER or reader.root.base is not target


def _overtaken(kernels: list[Kernel]) -> bool:
    """Whether a reduction reads what an assignment beside it overwrites: many items reduce, one of them
    stores, and that one need not wait for the others unless its value comes of the reduction."""
    by_root = {k.root: k for k in kernels}
    for writer in kernels:
        if writer.root.op is not Ops.AFTER:
            continue
        target, waits = writer.root.base, _below(writer, by_root)
        for k in kernels:
            if not k.reduces or k in waits:
                continue
            read = {n for other in _below(k, by_root) for n in other.reads}
            if any(n.base is target and n is not writer.root and n.op is not Ops.COPY for n in read):
                return True
    return False


def _below(kernel: Kernel, by_root: dict[UOp, Kernel]) -> list[Kernel]:
    """Return a kernel and those of its group whose results it uses, directly or not."""
    found = [kernel]
    for k in found:
        found += [by_root[n] for n in k.reads if n in by_root and by_root[n] not in found]
    return found


def _join(
    t: int, v: int, team: list[int], members: dict[int, list[int]], after: list[int], before: list[int]
) -> None:
    team[v] = t
    members[t].append(v)
    del members[v]
    mask = sum(1 << m for m in members[t])
    down, up = after[t] | after[v], before[t] | before[v]
    for m in members[t]:
        after[m], before[m] = down & ~mask, up & ~mask
    down, up = after[t], before[t]
    rest = up
    while rest:
        low = rest & -rest
        after[low.bit_length() - 1] |= down | mask
        rest ^= low
    rest = down
    while rest:
        low = rest & -rest
        before[low.bit_length() - 1] |= up | mask
        rest ^= low


def _ordered(graph: _Graph, team: list[int]) -> list[Group]:
    """Order the teams: each as early as its vertices were met, after all it depends on."""
    members: dict[int, list[int]] = {}
    for v, t in enumerate(team):
        members.setdefault(t, []).append(v)
    needs = {
        t: {team[b] for v in vs for b in _bits(graph.before[v]) if team[b] != t} for t, vs in members.items()
    }
    done: set[int] = set()
    out: list[Group] = []
    for first in members:
        stack = [first]
        while stack:
            t = stack[-1]
            if t in done:
                stack.pop()
                continue
            waiting = [n for n in sorted(needs[t]) if n not in done]
            if waiting:
                stack.append(waiting[0])
                continue
            stack.pop()
            done.add(t)
            if t in graph.copies:
                out.append(Group((), graph.copies[t]))
            else:
                vertices = _in_order(graph, members[t])
                kernels = [k for v in vertices if (k := graph.kernels[v]) is not None]
                out.append(Group(tuple(k.root for k in kernels)))
    return out


def _in_order(graph: _Graph, vertices: list[int]) -> list[int]:
    """Order the kernels of a group: what reads a version comes before what ends it, so that of one iteration
    the loads of storage precede the store to it."""
    out: list[int] = []
    rest = list(vertices)
    while rest:
        v = next(v for v in rest if not any(graph.before[v] >> o & 1 for o in rest if o != v))
        rest.remove(v)
        out.append(v)
    return out


def _bits(mask: int) -> list[int]:
    out = []
    while mask:
        low = mask & -mask
        out.append(low.bit_length() - 1)
        mask ^= low
    return out
