"""Kernel borders: which nodes of a tensor graph are stored, and which are recomputed inside their users.

Users are visited before what they use. Every visit tells a node where it would be evaluated (its *sites*: in
which kernel, at which index expressions, inside which loops), so the cost of storing it can be weighed
against that of evaluating it there. A stored node starts a kernel of its own, whose output axes are its own.
`Border.why` keeps the figures behind each decision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import count

from tiny_core.dtypes import index as index_dtype
from tiny_core.ir import payload as p
from tiny_core.ir.ops import ELEMENTWISE, MOVEMENT, Ops
from tiny_core.ir.uop import UOp
from tiny_core.schedule import reductions
from tiny_core.schedule.movement import ZERO, Index, both, flat_index, source_index

NESTED = 1 << 12  # most row reductions that may run one after the other inside another reduction
MOVE = 2.0  # cost of moving an element to or from memory,
FLOP = 0.25  # of one operation on it, and
LAUNCH = 20000.0  # of one more kernel, in the same unit

Site = tuple[int, Index, "UOp | None"]


@dataclass(slots=True)
class Kernel:
    """A kernel to be.

    Args:
        root: the node it stores.
        ranges: its output axes; index 0 where an axis has length 1.
        reads: stored values that it reads, with the indices and masks of each.
        reduces: whether it runs reductions, and
        contraction: whether one of them is a contraction.
        alone: whether it must not share a kernel with others.
    """

    root: UOp
    ranges: Index
    reads: dict[UOp, set[tuple[Index, UOp | None]]] = field(default_factory=dict)
    reduces: bool = False
    contraction: bool = False
    alone: bool = False

    @property
    def loops(self) -> Index:
        """Its output axes that are longer than 1."""
        return tuple(r for r in self.ranges if r is not ZERO)


@dataclass(slots=True)
class Border:
    """Why a node is stored.

    Args:
        node: what is stored.
        why: the rule that decided.
        store: modelled cost of storing it (elements moved count MOVE, operations FLOP) where costs were
            weighed, and
        inline: of evaluating it wherever it is used.
        bytes: bytes that are written and read because it is stored.
        flops: operations that would be repeated if it were not.
    """

    node: UOp
    why: str
    store: float = 0.0
    inline: float = 0.0
    bytes: int = 0
    flops: int = 0

    def __str__(self) -> str:
        shape = list(self.node.shape)
        effect = f"moves {self.bytes} bytes, saves {self.flops} operations"
        return f"{self.node.op.value} {shape}: {self.why}; {effect}"


@dataclass(slots=True)
class Fusion:
    """The decision: kernels in an order that respects their dependencies, and what was stored where."""

    kernels: list[Kernel]
    stored: dict[UOp, int]
    borders: list[Border]


def axes(shape: tuple[int, ...], prefix: str = "i") -> Index:
    """Return an index of one RANGE per axis, numbered without the axes of length 1, whose index is 0."""
    number = count()
    return tuple(UOp.range(n, f"{prefix}{next(number)}") if n != 1 else ZERO for n in shape)


def is_storage(node: UOp) -> bool:
    """Return whether a node's value lies in memory before any kernel of this graph reads it there."""
    return node.op in (Ops.BUFFER, Ops.PARAM, Ops.AFTER, Ops.COPY)


def reduce_ranges(node: UOp, index: Index, gate: UOp | None = None) -> tuple[Index, tuple[UOp, ...]]:
    """Return index and ranges for the reduced axes of a REDUCE that is evaluated at `index` where `gate`
    holds. They are numbered after all that these depend on; siblings inside equally many reductions get the
    same ranges, so that their loops can be shared."""
    over = open_ranges(index) if gate is None else open_ranges(index) | gate.ranges
    depth = max((1 + depth_of(r) for r in over if r.payload(p.Range).kind == "reduce"), default=0)
    reduced: list[UOp] = []
    for axis in node.payload(p.Reduce).axes:
        n = node.src[0].shape[axis]
        if n == 1:
            reduced.append(ZERO)
            continue
        reduced.append(UOp.range(n, f"r{depth}_{n}", "reduce"))
        depth += 1
    return tuple(reduced), tuple(r for r in reduced if r is not ZERO)


def depth_of(r: UOp) -> int:
    """Return the number of an output axis, or of a reduce axis, among those it is nested in."""
    return int(r.payload(p.Range).axis[1:].split("_")[0])


def open_ranges(index: Index) -> frozenset[UOp]:
    """Return the ranges that an index depends on."""
    return frozenset[UOp]().union(*(i.ranges for i in index)) if index else frozenset()


def whole_index(node: UOp, kept: Index, reduced: Index) -> Index:
    """Merge the index of a REDUCE's result and that of its reduced axes into the index of its source."""
    inner, outer = iter(reduced), iter(kept)
    taken = node.payload(p.Reduce).axes
    by_axis = dict(zip(taken, inner, strict=True))
    return tuple(by_axis[a] if a in by_axis else next(outer) for a in range(len(node.src[0].shape)))


class _Fuser:
    def __init__(self, order: list[UOp], forced: set[UOp], limited: frozenset[UOp]) -> None:
        self.order = order
        self.forced = forced | limited
        self.limited = limited
        self.ends = reductions.epilogues(order, self.forced)
        self.reduce_of = {end: r for r, end in self.ends.items()}
        self.users = reductions.consumers(order)
        self.flops = reductions.flops(
            order, forced | {end for r, end in self.ends.items() if reductions.is_contraction(r)}
        )
        picks = dict.fromkeys(s for n in order if n.op is Ops.GATHER for s in n.src[1:])
        self.numbers = {n: UOp.param(k, index_dtype, max(1, n.size)) for k, n in enumerate(picks)}
        self.sites: dict[UOp, dict[Site, frozenset[UOp]]] = {n: {} for n in order}
        self.kernels: list[Kernel] = []
        self.stored: dict[UOp, int] = {}
        self.borders: list[Border] = []

    def run(self) -> Fusion:
        for node in reversed(self.order):
            if is_storage(node) and node not in self.forced:
                continue
            if node in self.forced:
                self.start(node)
            elif self.sites[node]:
                border = self.border(node)
                if border is not None:
                    self.borders.append(self.priced(border))
                    shown = self.shown(node)
                    for kernel, index, gate in self.sites[shown]:
                        self.kernels[kernel].reads.setdefault(shown, set()).add((index, gate))
                    self.start(shown, node)
                else:
                    for (kernel, index, gate), context in self.sites[node].items():
                        self.enter(node, kernel, index, gate, context)
        # kernels were started users first
        count = len(self.kernels)
        stored = {n: count - 1 - k for n, k in self.stored.items()}
        return Fusion(self.kernels[::-1], stored, self.borders[::-1])

    def shown(self, node: UOp) -> UOp:
        """Return the node to store for a value: in the order of elements in which its only user wants it."""
        while len(self.users[node]) == 1 and self.users[node][0].op in (Ops.RESHAPE, Ops.PERMUTE, Ops.FLIP):
            node = self.users[node][0]
        return node

    def start(self, node: UOp, value: UOp | None = None) -> None:
        """Begin a kernel that stores `node`, which shows `value` (by default what `node` says it stores)."""
        number = len(self.kernels)
        kernel = Kernel(node, axes(stored_value(node).shape), alone=node in self.limited)
        self.kernels.append(kernel)
        self.stored[node] = number
        index = kernel.ranges
        context = frozenset(r for r in index if r is not ZERO)
        if value is not None:
            while node is not value:
                index, _ = source_index(node, index)
                node = node.src[0]
            self.enter(value, number, index, None, context)
        elif stored_value(node) is node:
            self.enter(node, number, index, None, context)
        else:
            self.visit(stored_value(node), number, index, None, context)

    def visit(self, node: UOp, kernel: int, index: Index, gate: UOp | None, context: frozenset[UOp]) -> None:
        """Note that `node` is evaluated at `index` in `kernel`."""
        if is_storage(node) or node in self.forced:
            self.kernels[kernel].reads.setdefault(node, set()).add((index, gate))
        sites = self.sites[node]
        site = (kernel, index, gate)
        sites[site] = sites[site] | context if site in sites else context

    def enter(self, node: UOp, kernel: int, index: Index, gate: UOp | None, context: frozenset[UOp]) -> None:
        """Pass a site of `node` on to its sources."""
        if node.op in MOVEMENT:
            moved, exists = source_index(node, index)
            self.visit(node.src[0], kernel, moved, both(gate, exists), context)
        elif node.op is Ops.REDUCE:
            self.kernels[kernel].reduces = True
            if reductions.is_contraction(node):
                self.kernels[kernel].contraction = True
            reduced, ranges = reduce_ranges(node, index, gate)
            self.visit(
                node.src[0], kernel, whole_index(node, index, reduced), gate, open_ranges(index).union(ranges)
            )
        elif node.op is Ops.GATHER:
            x, *picks = node.src
            lead = len(picks[0].shape)
            for pick in picks:
                self.visit(pick, kernel, index[:lead], gate, context)
            # where it lands depends on data: a read of what it picks by stands for it
            at = flat_index(index[:lead], picks[0].shape)
            unknown = tuple(self.numbers[pick].load(at) for pick in picks)
            for u, n in zip(unknown, x.shape, strict=False):
                gate = both(gate, (u >= 0) & (u < n))
            self.visit(x, kernel, unknown + index[lead:], gate, context)
        else:
            for s in dict.fromkeys(node.src):
                self.visit(s, kernel, index if s.shape else (), gate, context)

    # ---- the cost model

    def border(self, node: UOp) -> Border | None:
        """Decide whether an evaluated node is stored; returns why, or None to inline it."""
        if not node.src or node.op in MOVEMENT or node.op is Ops.DETACH:
            return None
        reduce = self.reduce_of.get(node)
        if reduce is None:
            # a reduction goes with the end of its epilogue
            return None if node.op is Ops.REDUCE else self.recompute(node)
        if reductions.is_contraction(reduce):
            return Border(node, "contraction: operands are reused in one kernel, never evaluated twice")
        length = reduce.src[0].size // max(1, reduce.size)
        if length <= reductions.SMALL:
            return self.recompute(node)
        return self.row(node, length)

    def priced(self, border: Border) -> Border:
        """Fill in the bytes and operations behind a decision."""
        node = border.node
        reduce = self.reduce_of.get(node)
        each = self.flops[node]
        if reduce is not None:
            each = max(each, 2.0 * reduce.src[0].size / max(1, node.size))
        sites = self.sites[node]
        evaluations = sum(max(node.size, _iterations(open_ranges(i), c)) for (_, i, _), c in sites.items())
        border.bytes = node.size * node.dtype.itemsize * (1 + len(sites))
        border.flops = int(each * max(0, evaluations - node.size))
        return border

    def row(self, node: UOp, length: int) -> Border | None:
        """A reduction over `length` elements: fused with its user if it is evaluated once per element
        there."""
        sites = self.sites[node]
        if len({k for k, _, _ in sites}) > 1:
            return Border(node, f"reduction over {length} used by several kernels")
        if len(sites) > 1:
            return Border(node, f"reduction over {length} used at {len(sites)} different indices")
        ((number, index, gate),) = sites
        kernel = self.kernels[number]
        over = open_ranges(index)
        if gate is not None or math.prod(size_of(r) for r in over) != node.size:
            return Border(node, f"reduction over {length} would be repeated")
        domain = [r for r in kernel.ranges if r is not ZERO]
        if over == set(domain):
            return None
        if not over <= set(domain):
            if node.size <= NESTED:
                return None
            return Border(
                node, f"{node.size} row reductions inside a reduction would run one after the other"
            )
        if over != set(domain[: len(over)]):
            return Border(node, f"reduction over {length} would be repeated for each outer iteration")
        rest = math.prod(size_of(r) for r in domain[len(over) :])
        if length <= reductions.ROW and rest <= reductions.ROW:
            return None
        return Border(node, f"row of {max(length, rest)} does not fit on chip")

    def recompute(self, node: UOp) -> Border | None:
        """Element-wise work: stored where evaluating it again costs more than moving it."""
        if node.op not in ELEMENTWISE and node.op not in (Ops.GATHER, Ops.REDUCE):
            return None
        sites = self.sites[node]
        work = self.flops[node]
        size = max(1, node.size)
        evaluations = 0
        for (kernel, index, _), context in sites.items():
            iterations = _iterations(open_ranges(index), context)
            domain = {r for r in self.kernels[kernel].ranges if r is not ZERO}
            repeated = FLOP * work * (iterations - size)
            length = math.prod(size_of(r) for r in context - domain)
            if repeated > LAUNCH and length > reductions.SMALL and iterations >= reductions.REUSE * size:
                if self.weight(node) == 0:
                    return None  # computed from indices and constants alone: cheaper than any load
                return Border(node, f"operand used {iterations // size} times in a reduction")
            evaluations += max(size, iterations)
        if len(sites) == 1 and evaluations <= size:
            return None
        arrays = self.weight(node)
        if arrays == 0:
            return None
        # what a kernel reads at several places is near when it is read again
        passes = len({kernel for kernel, _, _ in sites})
        store = MOVE * size * (1 + arrays + passes) + FLOP * work * size + LAUNCH
        inline = MOVE * size * arrays * passes + FLOP * work * evaluations
        if inline <= store:
            return None
        return Border(
            node, f"{len(sites)} uses, {evaluations / size:.1f} evaluations an element", store, inline
        )

    def weight(self, node: UOp) -> float:
        """Arrays that evaluating `node` reads, each weighed by its size relative to the node's."""
        total, seen, stack = 0.0, {node}, [node]
        size = max(1, node.size)
        while stack:
            n = stack.pop()
            for s in n.src:
                if s in seen:
                    continue
                seen.add(s)
                if is_storage(s) or s in self.forced or s.op is Ops.REDUCE:
                    total += min(1.0, s.size / size)
                else:
                    stack.append(s)
        return total


def stored_value(node: UOp) -> UOp:
    """Return what a forced node stores: the value of an assignment, the source of CONTIGUOUS, or the node
    itself."""
    if node.op is Ops.AFTER:
        return node.src[1].src[1]
    if node.op is Ops.CONTIGUOUS:
        return node.src[0]
    return node


def _iterations(over: frozenset[UOp], context: frozenset[UOp]) -> int:
    """Times that a value depending on the ranges `over` is computed inside the loops `context`: once for each
    iteration of the loops down to the innermost that it depends on."""
    order = sorted(context, key=_nesting)
    while order and order[-1] not in over:
        order.pop()
    return math.prod(size_of(r) for r in order)


def _nesting(r: UOp) -> tuple[bool, int]:
    """Output axes are outside, in order; then reduce axes by their depth."""
    return r.payload(p.Range).kind == "reduce", depth_of(r)


def size_of(r: UOp) -> int:
    stop = r.src[0]
    return int(stop.value) if stop.is_const else 1


def fuse(order: list[UOp], forced: set[UOp], limited: frozenset[UOp] = frozenset()) -> Fusion:
    """Decide the kernel borders of a graph.

    Args:
        order: its nodes, sources first.
        forced: nodes that are stored whatever it costs: results, assignments (AFTER), CONTIGUOUS, sources of
            copies.
        limited: nodes that are stored to keep kernels within limits; these never share a kernel.
    """
    return _Fuser(order, forced, limited).run()
