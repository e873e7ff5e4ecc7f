"""One closure per node of a linear kernel: the interpreter's instructions.

In: nodes and the numbers of the slots that hold their values. Out: functions of (values, run). Values are
arrays whose last axes are the items and, for values of n lanes, the lanes; either axis may be 1 where all
items or lanes agree, and a batched loop adds a leading axis for its iterations. Guaranteed: values are never
written in place, so that slots may share them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tiny_core.api import LaunchError, Ops, RenderError, SpecError, UOp, dtypes, payload
from tiny_core.devices.python.memory import AccessError, Memory, stored_dtype
from tiny_core.devices.python.ops import function
from tiny_core.devices.python.races import Conflict, Ints, Smalls
from tiny_core.devices.python.rounding import Array, numpy_dtype

Step = Callable[[list[Array], "Run"], None]
Mask = NDArray[np.bool_]
UNSET: Array = np.empty(0, np.uint8)  # what a register slot holds before it is written; compare with `is`


@dataclass(slots=True)
class Run:
    """What a batch of items shares while it runs.

    Args:
        items: how many run at once.
        block: items of a group.
        describe: text of a node, by number.
        keys: per item, epoch and number (see `races`).
        groups: per item, its group's number.
        memories: PARAMs and near memory, by the numbers that Access has for them.
        active: which items take part, None for all; less than all in a loop that some have left.
    """

    items: int
    block: int
    describe: Callable[[int], str]
    keys: Ints
    groups: Smalls
    memories: list[Memory]
    active: Mask | None = None


# ---- values ----------------------------------------------------------------------------------------------


def elementwise(to: int, node: UOp, slots: tuple[int, ...]) -> Step:
    """Return the step of a node of ELEMENTWISE."""
    convert = node.op in (Ops.CAST, Ops.BITCAST)
    operand = node.dtype if convert or node.op is Ops.WHERE else node.src[0].dtype
    f = function(node.op, operand, node.src[0].dtype if convert else None)
    if len(slots) == 1:
        (a,) = slots

        def unary(v: list[Array], run: Run) -> None:
            v[to] = f(v[a])

        return unary
    if len(slots) == 2:
        a, b = slots

        def binary(v: list[Array], run: Run) -> None:
            v[to] = f(v[a], v[b])

        return binary
    a, b, c = slots

    def ternary(v: list[Array], run: Run) -> None:
        v[to] = f(v[a], v[b], v[c])

    return ternary


def stack(to: int, node: UOp, slots: tuple[int, ...]) -> Step:
    """Return the step of a STACK."""
    first, n, dtype = slots[0], len(slots), numpy_dtype(node.dtype)
    if all(s == first for s in slots):

        def splat(v: list[Array], run: Run) -> None:
            v[to] = v[first][..., None]

        return splat

    def step(v: list[Array], run: Run) -> None:
        parts = [v[s] for s in slots]
        shape = np.broadcast_shapes(*{x.shape for x in parts})
        out = np.empty((*shape, n), dtype)
        for i, x in enumerate(parts):
            out[..., i] = x
        v[to] = out

    return step


def lane(to: int, node: UOp, source: int) -> Step:
    """Return the step of an INDEX."""
    number = node.payload(payload.Lane).lane

    def step(v: list[Array], run: Run) -> None:
        x = v[source]
        v[to] = x[..., number if x.shape[-1] > 1 else 0]

    return step


def shuffle(to: int, node: UOp, slots: tuple[int, ...]) -> Step:
    """Return the step of a SHUFFLE."""
    picks = node.payload(payload.Shuffle).lanes
    origins = [
        (s, i if src.shape else -1) for s, src in zip(slots, node.src, strict=True) for i in range(src.size)
    ]
    dtype = numpy_dtype(node.dtype)

    def step(v: list[Array], run: Run) -> None:
        parts = []
        for pick in picks:
            slot, number = origins[pick]
            x = v[slot]
            parts.append(x if number < 0 else x[..., number if x.shape[-1] > 1 else 0])
        out = np.empty((*np.broadcast_shapes(*{x.shape for x in parts}), len(picks)), dtype)
        for i, x in enumerate(parts):
            out[..., i] = x
        v[to] = out

    return step


def target(to: int, node: UOp, slots: tuple[int, ...], number: int) -> Step:
    """Return the step of a TARGET node; raises RenderError where its descriptor gives no semantics for
    PYTHON."""
    op = node.payload(payload.TargetOp)
    python = op.python
    if python is None or op.effect in ("read", "write", "async") or any(s.op is Ops.PARAM for s in node.src):
        raise RenderError(
            f"{op.name} has no semantics on PYTHON",
            "give its descriptor `python`, a function of numpy arrays",
        )
    together = op.effect in ("barrier", "convergent")

    def step(v: list[Array], run: Run) -> None:
        operands = [v[s] for s in slots]
        if together:  # items see each other's values: give one row to each
            require_uniform(run, number)
            operands = [np.broadcast_to(x, (run.items, *x.shape[1:])) for x in operands]
        v[to] = python(*operands)

    return step


def require_uniform(run: Run, number: int) -> None:
    """Raise LaunchError unless all items of each group take part or none."""
    if run.active is None:
        return
    part = run.active.reshape(-1, run.block).sum(axis=1)
    if ((part > 0) & (part < run.block)).any():
        raise LaunchError(
            f"only some items of a group reach {run.describe(number)}",
            "a barrier is legal in uniform control flow only: loops around it need one length for all items",
        )


def barrier(number: int) -> Step:
    """Return the step of a BARRIER: a new epoch for every group that reaches it."""

    def step(v: list[Array], run: Run) -> None:
        require_uniform(run, number)
        epoch = 1 << 32
        run.keys = run.keys + (epoch if run.active is None else np.where(run.active, epoch, 0))

    return step


# ---- registers -------------------------------------------------------------------------------------------


def register_load(to: int, slot: int, number: int) -> Step:
    """Return the step of a LOAD from a register slot."""

    def step(v: list[Array], run: Run) -> None:
        value = v[slot]
        if value is UNSET:
            raise LaunchError(f"a register is read before it is written: {run.describe(number)}")
        v[to] = value

    return step


def register_store(slot: int, value: int, gate: int | None, lanes: int) -> Step:
    """Return the step of a STORE to a register slot."""

    def step(v: list[Array], run: Run) -> None:
        new = v[value]
        if gate is None and run.active is None:
            v[slot] = new
            return
        old = v[slot]
        v[slot] = np.where(_mask(v, run, gate, lanes), new, np.zeros(1, new.dtype) if old is UNSET else old)

    return step


# ---- memory ----------------------------------------------------------------------------------------------


def _mask(v: list[Array], run: Run, gate: int | None, lanes: int) -> Mask:
    """Return the conjunction of a gate and the active items, with an axis of lanes if there are any."""
    if run.active is None:
        assert gate is not None, "a mask is made where something may be off"
        return v[gate].astype(np.bool_, copy=False)
    active = run.active[:, None] if lanes else run.active
    return active if gate is None else active & v[gate].astype(np.bool_, copy=False)


class Access:
    """A LOAD or STORE of memory: index checks and the race checker's records, shared by both."""

    def __init__(self, node: UOp, number: int, buffer: int, at: int, gate: int | None) -> None:
        arg = node.payload(payload.Access)
        base = node.src[0].base
        self.number, self.buffer, self.at, self.gate = number, buffer, at, gate
        self.lanes = arg.lanes
        self.align = arg.align
        self.itemsize = base.dtype.itemsize
        self.is_load = node.op is Ops.LOAD
        index = node.src[1].dtype
        self.index = numpy_dtype(index)
        self.unsigned = np.dtype(f"u{self.index.itemsize}")
        self.steps = np.arange(arg.lanes, dtype=self.index)
        if not index.is_int or node.src[1].shape:
            raise SpecError(f"node {number}: the index of a {node.op.value} is a scalar integer")
        if arg.align < 1 or arg.align & (arg.align - 1):
            raise SpecError(f"node {number}: an alignment of {arg.align} is not a power of two")

    def open(self, run: Run) -> Memory:
        """Return the memory; raises AccessError if it may not be accessed this way."""
        memory = run.memories[self.buffer]
        if ("r" if self.is_load else "w") not in memory.access:
            raise AccessError(f"{memory.name} has access {memory.access!r}, but {run.describe(self.number)}")
        return memory

    def rows(self, memory: Memory, index: Array, run: Run) -> Array:
        """Return where in `memory.data` all items' first elements are; raises AccessError."""
        if int(index.view(self.unsigned).max()) > memory.size - (self.lanes or 1) or memory.size == 0:
            self._outside(memory, index, None, run)
        if memory.address & (self.align - 1) or self.align > self.itemsize:
            self._check_alignment(memory, index, None, run)
        if memory.origin is not None:
            index = index + memory.origin
        if memory.shadow is not None:
            self.watch(memory, index[..., None] + self.steps if self.lanes else index, None, run)
        return index

    def gated_places(self, memory: Memory, index: Array, on: Mask, run: Run) -> tuple[Array, Mask]:
        """Return where the elements of all lanes are, and the mask, of one shape; raises AccessError."""
        lanes = index[..., None] + self.steps if self.lanes else index
        lanes, on = np.broadcast_arrays(lanes, on)
        if (on & (lanes.view(self.unsigned) >= memory.size)).any():
            self._outside(memory, index, on, run)
        if memory.address & (self.align - 1) or self.align > self.itemsize:
            self._check_alignment(memory, index, on, run)
        if memory.origin is not None:
            lanes = lanes + (memory.origin[:, None] if self.lanes else memory.origin)
            lanes, on = np.broadcast_arrays(lanes, on)
        if memory.shadow is not None:
            self.watch(memory, lanes, on, run)
        return lanes, on

    def watch(self, memory: Memory, places: Array, on: Mask | None, run: Run) -> None:
        """Tell the race checker."""
        shadow = memory.shadow
        assert shadow is not None
        keys, groups = (run.keys[:, None], run.groups[:, None]) if self.lanes else (run.keys, run.groups)
        if on is None:
            places, keys, groups = (a.reshape(-1) for a in np.broadcast_arrays(places, keys, groups))
        else:
            places, on, keys, groups = np.broadcast_arrays(places, on, keys, groups)
            places, keys, groups = places[on], keys[on], groups[on]
        span = memory.shadow_span
        units = places.astype(np.int64) * span + memory.shadow_origin
        if span > 1:
            units = (units[:, None] + np.arange(span)).reshape(-1)
            keys, groups = keys.repeat(span), groups.repeat(span)
        try:
            (shadow.read if self.is_load else shadow.write)(units, keys, groups, self.number)
        except Conflict as conflict:
            conflict.where = f"element {memory.element(conflict.place)} of {memory.name}"
            raise

    def _outside(self, memory: Memory, index: Array, on: Mask | None, run: Run) -> None:
        lanes = index[..., None] + self.steps if self.lanes else index
        bad = lanes.view(self.unsigned) >= memory.size
        lanes, bad = np.broadcast_arrays(lanes, bad if on is None else bad & on)
        raise AccessError(
            f"element {int(lanes[bad][0])} of {memory.name}, which has {memory.size}: "
            f"{run.describe(self.number)}"
        )

    def _check_alignment(self, memory: Memory, index: Array, on: Mask | None, run: Run) -> None:
        mask = self.align - 1
        # The low bits are right even where the product wraps.
        off = ((index * self.itemsize + (memory.address & mask)) & mask) != 0
        if on is not None:
            off = off & (on.any(axis=-1) if self.lanes else on)
        if not off.any():
            return
        index, off = np.broadcast_arrays(index, off)
        address = memory.address + int(index[off][0]) * self.itemsize
        raise AccessError(
            f"address {address:#x} in {memory.name} is not aligned to {self.align} bytes: "
            f"{run.describe(self.number)}"
        )


def load(to: int, node: UOp, access: Access, alternative: int | None) -> Step:
    """Return the step of a LOAD from memory."""
    dtype, stored, at, gate = numpy_dtype(node.dtype), stored_dtype(node.dtype), access.at, access.gate
    is_bool, same, lanes = node.dtype is dtypes.bool_, stored == dtype, access.lanes
    zero = np.zeros(1, dtype)

    def step(v: list[Array], run: Run) -> None:
        memory, index = access.open(run), v[at]
        on = None if gate is None and run.active is None else _mask(v, run, gate, lanes)
        if on is None or on.all():
            value = memory.window(lanes)[access.rows(memory, index, run)]
            v[to] = value if same else value != 0 if is_bool else value.view(dtype)
            return
        places, on = access.gated_places(memory, index, on, run)
        other = zero if alternative is None else v[alternative]
        if memory.size == 0:
            v[to] = np.broadcast_to(other, on.shape)
            return
        value = memory.data[np.where(on, places, 0)]
        value = value if same else value != 0 if is_bool else value.view(dtype)
        v[to] = np.where(on, value, other)

    return step


def store(node: UOp, access: Access, source: int) -> Step:
    """Return the step of a STORE to memory."""
    dtype, stored = numpy_dtype(node.src[2].dtype), stored_dtype(node.src[2].dtype)
    at, gate, same, lanes = access.at, access.gate, stored == dtype, access.lanes

    def step(v: list[Array], run: Run) -> None:
        memory, index, value = access.open(run), v[at], v[source]
        if not same:
            value = value.view(stored)
        on = None if gate is None and run.active is None else _mask(v, run, gate, lanes)
        if on is None or on.all():
            rows = access.rows(memory, index, run)
            if len(value) > len(rows):  # all items store to one place, and the last one stays
                rows = np.broadcast_to(rows, value.shape[:1])
            memory.window(lanes)[rows] = value
            return
        places, on = access.gated_places(memory, index, on, run)
        places, on, value = np.broadcast_arrays(places, on, value)
        memory.data[places[on]] = value[on]

    return step
