"""Cells: what tensor handles share. Storage and value are two things.

A `Cell` holds the current value of one array as a node of the tensor graph; a handle is a cell and a chain
of movements, so handles that alias share a cell. A cell that *owns* storage has movements over a BUFFER, or
over a version of one (`AFTER(root, STORE(view, value))`), as its value; only its owner makes versions of a
BUFFER, so they form one line.

Assigning a whole value to a cell without storage replaces the value: nothing was in memory, so nothing is
overwritten. Assigning to a part first gives the cell storage. Nobody else notices an assignment: nodes that
were built before mention the version they read, and stay as they are until `realize` (tensor/realize.py)
runs them.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import final

from tiny_core import dtypes
from tiny_core.ir import payload as p
from tiny_core.ir.ops import MOVEMENT, Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor import graph as g
from tiny_core.tensor.lines import Line, notes

Step = tuple[Ops, p.Payload | None]
Chain = tuple[Step, ...]
VIEWS = frozenset(MOVEMENT - {Ops.PAD, Ops.UNSHEAR})
"""Movements that show existing elements only."""


@final
class Cell:
    """The current value of an array.

    Attributes:
        value: its node, in the cell's shape.
        device: where it lives; None for a value made of constants alone, which follows its operands.
        owner: whether the storage below `value` is this cell's.
        leaf: whether it holds data rather than a result: assigning to the whole of it is no step of a
            computation, and stops gradients.
        param: whether the history of what is computed from it is kept, for `backward`.
        line: where it was made; `written`: where it was last assigned to.
        grad: the gradient (a tensor) that `backward` has accumulated, or None.
    """

    __slots__ = ("__weakref__", "device", "grad", "leaf", "line", "owner", "param", "value", "written")

    def __init__(self, value: UOp, device: p.Device | None, line: Line | None, leaf: bool = False) -> None:
        self.value, self.device, self.line, self.leaf = value, device, line, leaf
        self.owner = self.param = False
        self.written: Line | None = None
        self.grad: object = None
        if notes.on:
            notes.add(value, line)
        watch(self)

    @property
    def realized(self) -> bool:
        """Whether the value can be read without running anything (it may still be someone else's storage)."""
        return is_storage(self.value)

    def own(self, device: p.Device) -> None:
        """Give the cell storage, filled (lazily) with its value."""
        with LOCK:
            if self.owner:
                return
            value = self.value
            buffer = UOp.buffer(value.dtype, value.size, device)
            view = g.reshape(buffer, value.shape)
            self.value = g.reshape(version(buffer, view, value), value.shape)
            if notes.on:
                notes.add(self.value, self.line)
            self.owner, self.device = True, device
            OWNERS[buffer] = weakref.ref(self)
            watch(self)

    def store(self, chain: Chain, value: UOp, device: p.Device, line: Line | None) -> None:
        """Assign `value`, of the shape of the view that `chain` describes, to that part of the array."""
        with LOCK:
            self._store(chain, value, device, line)

    def _store(self, chain: Chain, value: UOp, device: p.Device, line: Line | None) -> None:
        self.written = line
        if notes.on:
            notes.add(value, line)
        if self.leaf or self.param:
            if not chain:
                value = g.detach(value)
            elif not g.is_number(value) and value.op is not Ops.DETACH:
                self.leaf = False
        if not chain and not self.owner:
            self.value, self.device = value, self.device or device
            watch(self)
            return
        self.own(device)
        steps, root = g.movements(self.value)
        view = apply(chain, self.value)
        new = version(root, view, value)
        WRITTEN[new] = line
        if notes.on:
            notes.add(new, line)
        self.value = g.restep(steps, new)
        watch(self)

    def clear(self, device: p.Device) -> None:
        """Give a cell of no elements storage; nothing has to run for it."""
        buffer = UOp.buffer(self.value.dtype, 0, device)
        self.device = device
        self.adopt(g.reshape(buffer, self.value.shape))

    def adopt(self, value: UOp) -> None:
        """Take `value`, movements over a BUFFER that nobody else has, as value and storage."""
        OWNERS[storage(value)] = weakref.ref(self)
        self.value, self.owner = value, True
        unwatch(self)


OWNERS: weakref.WeakKeyDictionary[UOp, weakref.ref[Cell]] = weakref.WeakKeyDictionary()
"""The cell that owns, or owned, a BUFFER."""
WRITTEN: weakref.WeakKeyDictionary[UOp, Line | None] = weakref.WeakKeyDictionary()
"""The line that made a version."""


def version(root: UOp, view: UOp, value: UOp) -> UOp:
    """The version of `root` in which `view` of it holds `value`."""
    store = UOp(Ops.STORE, dtypes.void, (view, value))
    return UOp(Ops.AFTER, root.dtype, (root, store))


def apply(chain: Chain, node: UOp) -> UOp:
    """Apply a handle's movements to a node; a DETACH is no movement of storage and is left out."""
    for op, arg in chain:
        if op is not Ops.DETACH:
            node = UOp(op, node.dtype, (node,), arg)
    return node


def is_storage(node: UOp) -> bool:
    """Whether `node` shows elements of a BUFFER as it is now."""
    while node.op in VIEWS or node.op is Ops.DETACH:
        node = node.src[0]
    return node.op is Ops.BUFFER


def storage(node: UOp) -> UOp:
    """The BUFFER below a chain of movements and versions (or whatever the chain ends in)."""
    while node.op in MOVEMENT or node.op in (Ops.AFTER, Ops.DETACH):
        node = node.src[0]
    return node


# ---- the cells whose nodes may have to change: not yet computed, or showing the storage of another cell ---


@final
class _Entry(weakref.ref[Cell]):
    __slots__ = ("key",)
    key: int


LOCK = threading.RLock()
"""Held while nodes of live cells are read or replaced together."""
if hasattr(os, "register_at_fork"):  # fork when no other thread is in the middle of that
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)
_watched: dict[int, _Entry] = {}


def _forget(entry: weakref.ref[Cell]) -> None:
    assert isinstance(entry, _Entry)
    if _watched.get(entry.key) is entry:
        del _watched[entry.key]


def watch(cell: Cell) -> None:
    """Remember a cell until it has storage that holds its value."""
    known = _watched.get(id(cell))
    if known is not None and known() is cell:
        return
    entry = _Entry(cell, _forget)
    entry.key = id(cell)
    _watched[id(cell)] = entry


def unwatch(cell: Cell) -> None:
    _watched.pop(id(cell), None)


def watched() -> list[Cell]:
    """The live cells that `watch` has seen and `unwatch` has not."""
    return [cell for entry in list(_watched.values()) if (cell := entry()) is not None]


PARAMS: weakref.WeakSet[Cell] = weakref.WeakSet()
"""Cells that want gradients."""
