"""From stored nodes to a kernel: every movement becomes index arithmetic, every leaf a LOAD.

Takes the nodes one kernel stores and where each of them lies, and gives a SINK of the kernel stage with its
arguments. Values that another store of the same kernel computes at the same index are used directly, not read
back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiny_core import dtypes
from tiny_core.codegen.opaque import data_in
from tiny_core.ir import payload as p
from tiny_core.ir.algebra import simplify
from tiny_core.ir.algebra.index import from_linear, linear_form
from tiny_core.ir.interval import bounds
from tiny_core.ir.ops import MOVEMENT, Ops
from tiny_core.ir.uop import UOp
from tiny_core.schedule.collapse import collapse
from tiny_core.schedule.fuse import axes, is_storage, reduce_ranges, stored_value, whole_index
from tiny_core.schedule.item import Arg
from tiny_core.schedule.movement import Index, both, flat_index, known, source_index

ALIGN = 64  # bytes to which every allocation is aligned at least

Task = tuple[UOp, Index, "UOp | None"]


@dataclass(slots=True)
class _Use:
    reads: bool = False
    writes: bool = False


class Lowering:
    """Lowers the nodes of one kernel.

    Args:
        places: for every stored node of the schedule, the BUFFER that holds it (row-major from element 0);
            assignments
            (AFTER) and storage stand for themselves.
        members: the nodes this kernel stores.
    """

    def __init__(self, places: dict[UOp, UOp], members: tuple[UOp, ...]) -> None:
        self.places = places
        self.members = members
        self.done: dict[Task, UOp] = {}
        self.uses: dict[tuple[UOp, int], _Use] = {}
        self.targets: dict[UOp, tuple[UOp, UOp]] = {}
        self.opaque: dict[UOp, UOp] = {}  # data that index, and what stands for them meanwhile

    def kernel(self) -> tuple[UOp, tuple[Arg, ...]]:
        """Return the kernel that stores all members, and its arguments by slot."""
        for node in self.members:
            ranges = axes(stored_value(node).shape)
            if node.op is Ops.AFTER:
                self.targets[node] = view_index(node.src[1].src[0], ranges)
            else:
                self.targets[node] = self.places[node], flat_index(ranges, node.shape)
        stores = []
        for node, (buffer, at) in self.targets.items():
            value = self.value(stored_value(node), axes(stored_value(node).shape))
            stores.append(self.place(buffer, at, write=True).store(at_index(at, buffer), value))
        return self.finish(stores)

    def place(self, buffer: UOp, at: UOp, write: bool = False) -> UOp:
        """Return a stand-in for the parameter that is `buffer` from the constant part of index `at` on: a
        BUFFER node whose Storage.space is `arg` and whose id and size tell buffer and offset (see
        `finish`)."""
        offset = offset_of(at, buffer)
        use = self.uses.setdefault((buffer, offset), _Use())
        use.writes |= write
        use.reads |= not write
        size = buffer.payload(p.Storage).size - offset
        return UOp(
            Ops.BUFFER, buffer.dtype, (), p.Storage(buffer.payload(p.Storage).id, size, "arg", str(offset))
        )

    def finish(self, stores: list[UOp]) -> tuple[UOp, tuple[Arg, ...]]:
        """Number the parameters: written ones first, each in the order of appearance; name the axes
        likewise."""
        sink = UOp.sink(*(collapse(s) for s in self.shown(stores)))
        by_place = {(b.payload(p.Storage).id, str(o)): (b, o, use) for (b, o), use in self.uses.items()}
        order = sink.toposort()
        seen = [n for n in order if n.op is Ops.BUFFER and n.payload(p.Storage).space == "arg"]
        written = dict.fromkeys(s.src[0] for s in sink.src)
        slots = [*written, *(n for n in seen if n not in written)]
        mapping: dict[UOp, UOp] = {}
        args = []
        for slot, stand_in in enumerate(slots):
            storage = stand_in.payload(p.Storage)
            buffer, offset, use = by_place[storage.id, str(storage.device)]
            access = "rw" if use.writes and use.reads else "w" if use.writes else "r"
            align = math.gcd(ALIGN, offset * buffer.dtype.itemsize)
            mapping[stand_in] = UOp.param(slot, buffer.dtype, storage.size, access, align)
            args.append(Arg(buffer, offset))
        mapping |= _axis_names(order)
        return sink.substitute(mapping), tuple(args)

    # ---- values

    def value(self, node: UOp, index: Index, gate: UOp | None = None) -> UOp:
        """Return `node` at `index` as a scalar expression; where `gate` is False nothing is read."""
        root: Task = (node, index, gate)
        stack: list[tuple[Task, list[Task] | None]] = [(root, None)]
        while stack:
            task, needs = stack.pop()
            if task in self.done:
                continue
            if needs is None:
                needs = self.needs(task)
                if needs is None:  # a GATHER whose picks are known only now
                    picks = self.pick_tasks(task)
                    stack.append((task, None))
                    stack.extend((t, None) for t in picks if t not in self.done)
                    continue
                stack.append((task, needs))
                stack.extend((t, None) for t in needs if t not in self.done)
            else:
                self.done[task] = self.build(task, [self.done[t] for t in needs])
        return self.done[root]

    def pick_tasks(self, task: Task) -> list[Task]:
        node, index, gate = task
        lead = len(node.src[1].shape)
        return [(pick, index[:lead], gate) for pick in node.src[1:]]

    def needs(self, task: Task) -> list[Task] | None:
        """Return the evaluations that this one is built from, or None if a gather must evaluate its indices
        first."""
        node, index, gate = task
        here = self.stored_here(node, index, gate)
        if here and node.op is Ops.AFTER:
            value = stored_value(node)
            return [(value, axes(value.shape), None)]
        if is_storage(node) or (node in self.places and not here) or not node.src:
            return []
        if node.op in MOVEMENT:
            moved, exists = source_index(node, index)
            return [(node.src[0], moved, both(gate, exists))]
        if node.op is Ops.REDUCE:
            reduced, _ = reduce_ranges(node, index, gate)
            return [(node.src[0], whole_index(node, index, reduced), gate)]
        if node.op is Ops.GATHER:
            tasks = self.pick_tasks(task)
            if any(t not in self.done for t in tasks):
                return None
            where, exists = self.picked(task)
            return [(node.src[0], where, both(gate, exists))]
        return [(s, index if s.shape else (), gate) for s in node.src]

    def picked(self, task: Task) -> tuple[Index, UOp | None]:
        """Return where a GATHER reads, and whether that lies within its source."""
        node, index, _ = task
        picks = []
        exists: UOp | None = None
        for t, n in zip(self.pick_tasks(task), node.src[0].shape, strict=False):
            value = self.done[t].cast(dtypes.index)
            pick = self.hidden(value) if data_in(value) else value
            low, high = bounds(value)
            if low < 0:
                exists = both(exists, known(simplify(UOp.const(0) <= pick)))
            if high >= n:
                exists = both(exists, known(simplify(pick < n)))
            picks.append(pick)
        return (*picks, *index[len(node.src[1].shape) :]), exists

    def hidden(self, value: UOp) -> UOp:
        """Return what stands for data in an index, so that index arithmetic around it does not look into it:
        chains of gathers would be simplified again at every step. It depends on the same ranges."""
        found = self.opaque.get(value)
        if found is None:
            at = UOp.const(0)
            for r in sorted(value.ranges, key=lambda r: r.payload(p.Range).axis):
                at = at + r
            number = len(self.opaque)
            # in normal form, so that simplification leaves it what it is
            found = UOp.param(number, dtypes.index, number + 1, space="hidden").load(simplify(at))
            self.opaque[value] = found
        return found

    def shown(self, nodes: list[UOp]) -> list[UOp]:
        """Put data back in the place of what stands for them."""
        back: dict[UOp, UOp] = {}
        for value, stand_in in self.opaque.items():  # each has earlier ones in it at most
            back[stand_in] = value.substitute(back)
        return [n.substitute(back) for n in nodes] if back else nodes

    def stored_here(self, node: UOp, index: Index, gate: UOp | None) -> bool:
        """Whether a member is read at the very index at which this kernel stores it."""
        target = self.targets.get(node)
        return target is not None and gate is None and flat_index(index, node.shape) is target[1]

    def build(self, task: Task, parts: list[UOp]) -> UOp:
        node, index, gate = task
        here = self.stored_here(node, index, gate)
        if here and node.op is Ops.AFTER:
            return parts[0]
        if node in self.places and not here:
            return self.load(self.places[node], flat_index(index, node.shape), gate)
        if is_storage(node):
            return self.load(node.base, flat_index(index, node.shape), gate)
        if node.op is Ops.IOTA:
            return index[0].cast(node.dtype)
        if not node.src:
            return node
        if node.op in MOVEMENT:
            _, exists = source_index(node, index)
            return _mask(exists, parts[0])
        if node.op is Ops.GATHER:
            _, exists = self.picked(task)
            return _mask(exists, parts[0])
        if node.op is Ops.REDUCE:
            _, ranges = reduce_ranges(node, index, gate)
            return parts[0].reduce(node.payload(p.Reduce).op, *ranges)
        if node.op in (Ops.CONTIGUOUS, Ops.DETACH):
            return parts[0]
        return UOp(node.op, node.dtype, tuple(parts), node.arg)

    def load(self, buffer: UOp, at: UOp, gate: UOp | None) -> UOp:
        return self.place(buffer, at).load(at_index(at, buffer), gate)


def view_index(view: UOp, index: Index) -> tuple[UOp, UOp]:
    """Follow a chain of movements over storage; return the BUFFER and the flat index into it."""
    node = view
    while not is_storage(node):
        index, gate = source_index(node, index)
        assert gate is None, "a view of storage has no padding"
        node = node.src[0]
    return node.base, flat_index(index, node.shape)


def offset_of(at: UOp, buffer: UOp) -> int:
    """Return the constant part of an index if it can be the argument's offset: the rest never points before
    it."""
    terms, constant = linear_form(at)
    if not 0 < constant < buffer.payload(p.Storage).size or bounds(from_linear(terms, 0))[0] < 0:
        return 0
    return constant


def at_index(at: UOp, buffer: UOp) -> UOp:
    """Return an index without the constant part that has moved into the argument's offset."""
    return from_linear(linear_form(at)[0], 0) if offset_of(at, buffer) else at


def _mask(exists: UOp | None, value: UOp) -> UOp:
    if exists is None or (value.is_const and value.value == 0 and not value.dtype.is_float):
        return value
    if value.op is Ops.LOAD and len(value.src) == 4 and _terms(exists) <= _terms(value.src[2]):
        return value  # the gate of the load says it already, with 0 as the alternative
    return exists.where(value, UOp.const(0, value.dtype))


def _terms(condition: UOp) -> set[UOp]:
    """Return the conjuncts of a condition."""
    if condition.op is not Ops.AND:
        return {condition}
    return _terms(condition.src[0]) | _terms(condition.src[1])


def _axis_names(order: list[UOp]) -> dict[UOp, UOp]:
    """Name reduce axes r0, r1, … as they appear, so that equal kernels are equal nodes."""
    names: dict[UOp, UOp] = {}
    for n in order:
        if n.op is Ops.RANGE and n.payload(p.Range).kind == "reduce":
            names[n] = UOp(Ops.RANGE, n.dtype, n.src, p.Range(f"r{len(names)}", "reduce"))
    return names
