"""A linear kernel as a tree of closures, compiled once and run many times.

In: a LINEAR node. Out: `Plan`: what to put into slots before a launch, and steps. Guaranteed: the same
results, bit for bit, as running the list node by node for one item after the other. What makes it fast:

- Items are an array axis. On a grid they are the work-items of many groups. In a host program they are
  iterations of the thread axis and, where asked for (`chain`), of the loops directly inside it; `execute`
  checks that those touch no location in common, and `depths` lists how many may be taken.
- A nest of loops that only accumulates into registers (`batches.py`) runs many iterations at once.
- Nodes that depend on no loop, or only on outer ones, run outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tiny_core.api import ELEMENTWISE, Ops, SpecError, UOp, payload
from tiny_core.devices.python import batches, matrix, steps
from tiny_core.devices.python.blocks import (
    Block,
    depths,
    in_register,
    is_thread,
    parse_blocks,
    register_slot,
)
from tiny_core.devices.python.rounding import Array, numpy_dtype
from tiny_core.devices.python.steps import UNSET, Step


@dataclass(slots=True)
class Plan:
    """A compiled kernel; slots are numbers of entries of a list of values.

    Args:
        template: the list, with constants in their places.
        variables: slots of VARIABLEs.
        params: PARAMs, and
        near: near-memory BUFFERs, by their places in `Run.memories` (params first).
        specials: slot of each SPECIAL, and the slot of its size.
        chain: of the loops whose iterations are items, outermost first: slot of the RANGE, and of its size.
        prologue: steps that depend on no item, once a launch.
        body: the others, once a batch of items.
        lanes: most lanes of any value.
    """

    template: list[Array]
    variables: list[tuple[int, UOp]]
    params: list[UOp]
    near: list[UOp]
    specials: list[tuple[int, UOp, int]]
    chain: list[tuple[int, UOp, int]]
    prologue: list[Step]
    body: list[Step]
    lanes: int


@dataclass(slots=True)
class Kernel:
    """A LINEAR node taken apart; `plan(depth)` compiles it (and keeps the result).

    Args:
        linear: the node.
        root: its loops.
        chain: the outermost loops that have nothing beside them, or else the thread axis.
        depths: how many of those may become items; the first entry is the least (the thread axis, if there is
            one).
    """

    linear: UOp
    root: Block
    chain: list[Block]
    depths: list[int]
    _plans: dict[int, Plan] = field(default_factory=dict)

    @staticmethod
    def of(linear: UOp) -> Kernel:
        """Take a LINEAR node apart; raises SpecError."""
        root = parse_blocks(linear)
        chain, block = [], root
        while len(only := block.effects()) == 1 and isinstance(only[0], Block):
            block = only[0]
            chain.append(block)
        if not chain:
            # what a host program does before its thread axis, every item does for itself
            chain = [b for b in root.effects() if isinstance(b, Block) and is_thread(b)]
        return Kernel(linear, root, chain, depths(root, chain))

    def plan(self, depth: int) -> Plan:
        """Return the plan in which the first `depth` loops of the chain are items."""
        if depth not in self._plans:
            self._plans[depth] = _Compiler(self, depth).compile()
        return self._plans[depth]


class _Frame:
    """A loop being compiled: steps, and for each whether it belongs to an accumulation."""

    def __init__(self, depth: int, block: Block | None) -> None:
        self.depth, self.block = depth, block
        self.steps: list[tuple[Step, bool]] = []


class _Compiler:
    """Makes a Plan. Frame 0 is the prologue, frame 1 the body, further frames are loops."""

    def __init__(self, kernel: Kernel, depth: int) -> None:
        self.kernel, self.items = kernel, kernel.chain[:depth]
        self.numbers = {node: i for i, node in enumerate(kernel.linear.src)}
        self.slots: dict[UOp, int] = {}
        self.levels: dict[UOp, int] = {}  # the frame in which a node's value is made
        self.memories: dict[UOp, int] = {}
        self.registers: dict[tuple[UOp, int], int] = {}
        self.frames = [_Frame(0, None), _Frame(1, kernel.root)]
        self.closed: dict[int, _Frame] = {}  # frames of ended loops, by id of their block
        self.in_sums: set[UOp] = set()  # nodes of accumulations of the nest being compiled
        self.plan = Plan([], [], [], [], [], [], [], [], 1)
        self.users: dict[UOp, int] = {}
        for node in kernel.linear.src:
            for s in node.src:
                self.users[s] = self.users.get(s, 0) + 1

    def compile(self) -> Plan:
        plan, nodes = self.plan, list(self.kernel.root.nodes())
        plan.params = sorted(
            (n for n in nodes if n.op is Ops.PARAM), key=lambda n: n.payload(payload.Param).slot
        )
        plan.near = [
            n for n in nodes if n.op is Ops.BUFFER and n.payload(payload.Storage).space != "register"
        ]
        self.memories = {n: i for i, n in enumerate((*plan.params, *plan.near))}
        plan.lanes = max(
            (n.shape[0] for n in nodes if n.shape and n.op not in (Ops.PARAM, Ops.BUFFER)), default=1
        )
        self._block(self.kernel.root)
        plan.prologue = [step for step, _ in self.frames[0].steps]
        plan.body = [step for step, _ in self.frames[1].steps]
        return plan

    # ---- slots --------------------------------------------------------------------------------------------

    def _new(self, node: UOp, level: int) -> int:
        self.plan.template.append(UNSET)
        self.slots[node] = slot = len(self.plan.template) - 1
        self.levels[node] = level
        return slot

    def _slot(self, node: UOp) -> int:
        """The slot of a value; AFTER is its first source."""
        while node.op is Ops.AFTER:
            node = node.src[0]
        if node not in self.slots or self.levels[node] >= len(self.frames):
            raise SpecError(
                f"{node.op.value} {node.arg} is used before it is listed, or after its loop has ended",
                "a value leaves a loop through a register only",
            )
        return self.slots[node]

    def _level(self, nodes: tuple[UOp, ...]) -> int:
        return max((self.levels[_alias(n)] for n in nodes), default=0)

    def _register(self, node: UOp) -> int:
        key = register_slot(node)
        if key not in self.registers:
            self.plan.template.append(UNSET)
            self.registers[key] = len(self.plan.template) - 1
        return self.registers[key]

    # ---- blocks -------------------------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        for entry in block.entries:
            if isinstance(entry, UOp):
                self._node(entry)
            elif entry in self.items:
                assert entry.axis is not None
                size = self._slot(entry.axis.src[0])
                self.plan.chain.append((self._new(entry.axis, 1), entry.axis, size))
                self._block(entry)
            else:
                self._loop(entry)

    def _loop(self, block: Block) -> None:
        axis = block.axis
        assert axis is not None
        size = self._slot(axis.src[0])
        nest = None if self.in_sums else batches.find_nest(block, self.users)
        if nest is not None:
            self.in_sums = nest.members
        frame = _Frame(len(self.frames), block)
        slot = self._new(axis, frame.depth)
        self.frames.append(frame)
        self._block(block)
        self.frames.pop()
        self.closed[id(block)] = frame
        batch = None
        if nest is not None:
            self.in_sums = set()
            batch = self._batch(nest)
        body = [step for step, _ in frame.steps]
        step = batches.loop(slot, size, numpy_dtype(axis.dtype), body, batch)
        self.frames[-1].steps.append((step, bool(self.in_sums)))

    def _batch(self, nest: batches.Nest) -> batches.Batch | None:
        """The batched form of a nest that has just been compiled; None if an inner size depends on an outer
        loop."""
        axes = []
        for block in nest.blocks:
            assert block.axis is not None
            if self.levels[_alias(block.axis.src[0])] >= self.closed[id(nest.blocks[0])].depth:
                return None
            axes.append(
                (self.slots[block.axis], self.slots[_alias(block.axis.src[0])], numpy_dtype(block.axis.dtype))
            )
        pure = [step for b in nest.blocks for step, summing in self.closed[id(b)].steps if not summing]
        sums = [
            batches.Sum(
                self._register(s.store),
                self.numbers[s.store],
                s.op,
                s.store.src[2].dtype,
                [tuple(self.slots[_alias(x)] for x in term) for term in s.terms],
                len(s.store.src[2].shape),
            )
            for s in nest.sums
        ]
        return batches.Batch(axes, pure, sums, nest.lanes)

    # ---- nodes --------------------------------------------------------------------------------------------

    def _emit(self, level: int, node: UOp, step: Step) -> None:
        self.frames[level].steps.append((step, node in self.in_sums))

    def _pure(self, node: UOp) -> tuple[int, int, tuple[int, ...]]:
        slots = tuple(self._slot(s) for s in node.src)
        level = self._level(node.src)
        return self._new(node, level), level, slots

    def _node(self, node: UOp) -> None:
        number = self.numbers[node]
        match node.op:
            case Ops.CONST:
                dtype = node.dtype
                bits = np.array(
                    [node.payload(payload.Const).bits & ((1 << (dtype.bits or 64)) - 1)], np.uint64
                )
                slot = self._new(node, 0)
                raw = bits.astype(f"u{numpy_dtype(dtype).itemsize}")
                self.plan.template[slot] = raw != 0 if dtype.kind == "bool" else raw.view(numpy_dtype(dtype))
            case Ops.PARAM | Ops.BUFFER | Ops.AFTER:
                pass
            case Ops.VARIABLE:
                self.plan.variables.append((self._new(node, 0), node))
            case Ops.SPECIAL:
                size = self._slot(node.src[0])
                self.plan.specials.append((self._new(node, 1), node, size))
            case Ops.STACK:
                slot, level, slots = self._pure(node)
                self._emit(level, node, steps.stack(slot, node, slots))
            case Ops.INDEX:
                slot, level, slots = self._pure(node)
                self._emit(level, node, steps.lane(slot, node, slots[0]))
            case Ops.SHUFFLE:
                slot, level, slots = self._pure(node)
                self._emit(level, node, steps.shuffle(slot, node, slots))
            case Ops.TARGET:
                slots = tuple(self._slot(s) for s in node.src)
                pure = node.payload(payload.TargetOp).effect == "pure"
                level = self._level(node.src) if pure else len(self.frames) - 1
                self._emit(level, node, steps.target(self._new(node, level), node, slots, number))
            case Ops.MATRIX:
                slots = tuple(self._slot(s) for s in node.src)
                level = max(1, self._level(node.src))  # lanes are items, and there are none in the prologue
                self._emit(level, node, matrix.step(self._new(node, level), node, slots, number))
            case Ops.BARRIER:
                self._emit(len(self.frames) - 1, node, steps.barrier(number))
            case Ops.LOAD:
                self._load(node, number)
            case Ops.STORE:
                self._store(node, number)
            case op if op in ELEMENTWISE:
                slot, level, slots = self._pure(node)
                self._emit(level, node, steps.elementwise(slot, node, slots))
            case _:
                raise SpecError(f"node {number}: {node.op.value} has no place in a linear kernel")

    def _load(self, node: UOp, number: int) -> None:
        here = len(self.frames) - 1
        if in_register(node):
            if len(node.src) > 2:
                raise SpecError(f"node {number}: a register is loaded without a gate")
            self._emit(here, node, steps.register_load(self._new(node, here), self._register(node), number))
            return
        gate, other = (
            (self._slot(node.src[2]), self._slot(node.src[3])) if len(node.src) > 2 else (None, None)
        )
        access = self._access(node, number, gate)
        self._emit(here, node, steps.load(self._new(node, here), node, access, other))

    def _store(self, node: UOp, number: int) -> None:
        here = len(self.frames) - 1
        gate = self._slot(node.src[3]) if len(node.src) > 3 else None
        value = self._slot(node.src[2])
        if in_register(node):
            lanes = len(node.src[2].shape)
            self._emit(here, node, steps.register_store(self._register(node), value, gate, lanes))
            return
        self._emit(here, node, steps.store(node, self._access(node, number, gate), value))

    def _access(self, node: UOp, number: int, gate: int | None) -> steps.Access:
        base = node.src[0].base
        if base not in self.memories:
            raise SpecError(f"node {number}: {base.op.value} {base.arg} is not listed")
        return steps.Access(node, number, self.memories[base], self._slot(node.src[1]), gate)


def _alias(node: UOp) -> UOp:
    while node.op is Ops.AFTER:
        node = node.src[0]
    return node
