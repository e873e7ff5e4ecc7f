"""Device memory and who owns it: BUFFER nodes own `Buffer` objects through a weak table.

A `Buffer` is freed by reference count: its owners are the table's entry of a living BUFFER node, parts and
exports of it, and captured calls. The table never holds a node: when the last graph that reads a BUFFER goes,
so does its entry, and the memory with it. Memory is allocated at first use.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Final, final

from tiny_core.errors import DeviceError, JitError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.runtime.runtime import Handle

if TYPE_CHECKING:
    from tiny_core.runtime.device import OpenDevice


@final
class Buffer:
    """Memory of a device.

    Args:
        device: whose.
        nbytes: how much.
        label: for the message of OutOfMemory: its text says what it is, and the line that made it.
        parent: the Buffer that it is a part of, `offset` bytes in.
        external: a handle that someone else owns; `owner` is kept alive as long as the Buffer lives.

    Attributes:
        exports: host views of it that are alive. Memory with exports is not written: the writer moves
            elsewhere.
        given_away: whether jit took the memory for something else; using it raises JitError.
    """

    __slots__ = (
        "__weakref__", "_borrowed", "_handle", "_owner", "device", "exports", "given_away", "label", "nbytes",
        "offset", "parent",
    )  # fmt: skip

    def __init__(
        self,
        device: OpenDevice,
        nbytes: int,
        label: object = "",
        *,
        parent: Buffer | None = None,
        offset: int = 0,
        external: Handle | None = None,
        owner: object = None,
    ) -> None:
        self.device, self.nbytes, self.label = device, nbytes, label
        self.parent, self.offset = parent, offset
        self.exports = 0
        self.given_away = False
        self._handle: Handle | None = external
        self._owner = owner
        self._borrowed = parent is not None or external is not None

    @property
    def handle(self) -> Handle:
        """The runtime's handle; allocates at first use. Raises OutOfMemory, and JitError if it was given
        away."""
        if self._handle is None:
            if self.given_away:
                raise JitError(
                    "this tensor was given away to a captured function",
                    "leave it out of donate=, or pass a copy",
                )
            if self.parent is not None:
                self._handle = self.device.runtime.view(self.parent.handle, self.offset)
            else:
                self._handle = self.device.memory.allocate(self.nbytes, self.label)
        return self._handle

    @property
    def allocated(self) -> bool:
        return self._handle is not None if self.parent is None else self.parent.allocated

    @property
    def own(self) -> bool:
        """Whether this memory is the Buffer's alone: no part of another, and not somebody else's."""
        return not self._borrowed

    @property
    def owner(self) -> object:
        """What owns the memory of an external handle."""
        return self._owner

    @property
    def root(self) -> Buffer:
        """The Buffer whose memory this is."""
        return self if self.parent is None else self.parent.root

    def part(self, offset: int, nbytes: int) -> Buffer:
        """Return `nbytes` of this memory from `offset` bytes on; it keeps the whole alive."""
        assert offset >= 0 and offset + nbytes <= self.nbytes
        return Buffer(self.device, nbytes, self.label, parent=self, offset=offset)

    def __del__(self) -> None:
        # Not weakref.finalize: that costs 2 µs a buffer against 0.2 µs, and replay makes fresh outputs at
        # each call. `release` only appends to a deque, so it is safe wherever the last reference happens to
        # go.
        if not self._borrowed and self._handle is not None:
            self.device.memory.release(self._handle, self.nbytes)


@final
class _Entry(weakref.ref[UOp]):
    """A BUFFER node in the table, and its memory."""

    __slots__ = ("buffer", "id")
    id: int
    buffer: Buffer


@final
class _Moves:
    """Counts how often memory of a node was replaced: whoever remembers handles looks whether they still
    hold."""

    def __init__(self) -> None:
        self.count = 0


moves: Final = _Moves()
_table: Final[dict[int, _Entry]] = {}
_lock = threading.RLock()


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - a thread that is not in this process may have held the old one
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _forget(entry: weakref.ref[UOp]) -> None:
    assert isinstance(entry, _Entry)
    if _table.get(entry.id) is entry:
        del _table[entry.id]


def memory_of(node: UOp) -> Buffer:
    """Return the memory of a BUFFER node of one device.

    Raises:
        DeviceError: the device does not open, or the buffer is spread over several.
    """
    storage = node.payload(p.Storage)
    entry = _table.get(storage.id)
    if entry is not None and entry() is node:
        return entry.buffer
    buffer = _make(node, storage)  # outside the lock: it may open the device
    with _lock:
        entry = _table.get(storage.id)
        if entry is not None and entry() is node:
            return entry.buffer
        return set_memory(node, buffer)


def known_memory(node: UOp) -> Buffer | None:
    """Return the memory of a BUFFER node if it has been touched before."""
    entry = _table.get(node.payload(p.Storage).id)
    return entry.buffer if entry is not None and entry() is node else None


def set_memory(node: UOp, buffer: Buffer) -> Buffer:
    """Make `buffer` the memory of `node`, from now on."""
    assert node.op is Ops.BUFFER and buffer.nbytes >= nbytes_of(node)
    entry = _Entry(node, _forget)
    entry.id, entry.buffer = node.payload(p.Storage).id, buffer
    with _lock:
        known = _table.get(entry.id)
        moves.count += known is not None and known() is node
        _table[entry.id] = entry
    return buffer


def drop_memory(node: UOp) -> None:
    """Let go of the memory of a BUFFER node that nothing will read again."""
    _table.pop(node.payload(p.Storage).id, None)


def nbytes_of(node: UOp) -> int:
    """Return the bytes of a BUFFER node's memory."""
    return node.payload(p.Storage).size * node.dtype.itemsize


def _make(node: UOp, storage: p.Storage) -> Buffer:
    from tiny_core.runtime.device import Device

    if not isinstance(storage.device, str):
        raise DeviceError(
            f"a buffer over devices {storage.device} has no memory of its own",
            "sharded storage is not supported yet; copy the parts to one device each",
        )
    return Buffer(Device[storage.device], nbytes_of(node))
