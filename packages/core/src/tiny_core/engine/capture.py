"""Capture: what ran while a function was called, with memory as numbers, so that it can run again on other
memory.

In: the steps of each realization, and the BUFFERs filled with host data, as realization reports them. Out:
records that mention storage by `Storage.id`, and for each such id what is known of it. BUFFERs that were
there before the call are kept alive until the capture is finished; those made in between are not, so that
capturing needs no more memory than running.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from tiny_core import dtypes
from tiny_core.engine import transfer
from tiny_core.engine.layer import Cell
from tiny_core.engine.steps import LaunchStep, Place, Step
from tiny_core.engine.tracing import Site
from tiny_core.ir import payload as p
from tiny_core.ir.ops import MOVEMENT, Ops
from tiny_core.ir.uop import UOp
from tiny_core.runtime.buffer import Buffer, memory_of, nbytes_of
from tiny_core.runtime.device import Device, OpenDevice, Program

Where = tuple[int, int]
"""A Storage.id, and a byte offset into it."""
Chain = tuple[tuple[Ops, p.Payload | None], ...]
"""Movements, from the value down to the BUFFER."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel that ran."""

    device: OpenDevice
    program: Program
    places: tuple[Where, ...]
    writes: tuple[bool, ...]
    reads: tuple[bool, ...]
    scalars: tuple[int, ...]
    grid: tuple[int, ...]
    site: Site | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy that ran."""

    dest_device: OpenDevice
    source_device: OpenDevice
    dest: Where
    source: Where
    nbytes: int


Record = Launch | Copy


@final
class Stored:
    """Storage that a capture has met.

    Attributes:
        id: its Storage.id; `dtype`, `size`, `nbytes`, `device` are as its BUFFER's.
        node: the BUFFER, weakly.
        fresh: whether it was made during the capture.
        host: whether it was filled with host data during the capture.
        written: whether a record writes it.
        first: the first record that touches it, and
        last: the last; -1 where none does.
        pristine: host data as it was before the first record that writes it.
        owner: the cell that owned it when it was first touched (storage from before the capture only), and
        chain: that cell's movements over it.
    """

    __slots__ = (
        "chain", "device", "dtype", "first", "fresh", "host", "id", "last", "nbytes", "node", "owner",
        "pristine", "size", "written",
    )  # fmt: skip

    def __init__(self, node: UOp, fresh: bool) -> None:
        storage = node.payload(p.Storage)
        assert isinstance(storage.device, str), "steps are on single devices"
        self.id, self.size, self.dtype = storage.id, storage.size, node.dtype
        self.nbytes, self.device = nbytes_of(node), Device[storage.device]
        self.node = weakref.ref(node)
        self.fresh = fresh
        self.host = self.written = False
        self.first = self.last = -1
        self.pristine: Buffer | None = None
        self.owner: Cell | None = None
        self.chain: Chain = ()

    def new_node(self) -> UOp:
        """A new BUFFER like this one."""
        return UOp.buffer(self.dtype, self.size, self.device.name)


@final
class Capture:
    """The recorder of one call; see `engine/realize.py` for who calls it.

    Args:
        owner: says which living cell owns a BUFFER.
    """

    def __init__(self, owner: Callable[[UOp], Cell | None]) -> None:
        self._owner = owner
        self.records: list[Record] = []
        self.stored: dict[int, Stored] = {}
        self.pinned: list[UOp] = []
        # ids grow, so those from here on belong to storage made during the capture
        self._first_id = UOp.buffer(dtypes.uint8, 0, "").payload(p.Storage).id

    def before(self, steps: Sequence[Step]) -> None:
        """Note steps that are about to run."""
        for step in steps:
            if isinstance(step, LaunchStep):
                places = tuple(map(self._touch, step.places, step.writes))
                self.records.append(
                    Launch(
                        step.device,
                        step.program,
                        places,
                        step.writes,
                        step.reads,
                        step.scalars,
                        step.grid,
                        step.site,
                    )
                )
            else:
                source, dest = self._touch(step.source, False), self._touch(step.dest, True)
                self.records.append(Copy(step.dest_device, step.source_device, dest, source, step.nbytes))

    def host_data(self, node: UOp) -> None:
        """Note a BUFFER that was filled by the host. Its data is part of the capture, so it is kept."""
        self.pinned.append(node)
        self._stored(node).host = True

    def _touch(self, place: Place, writing: bool) -> Where:
        stored = self._stored(place.node)
        at = len(self.records)
        stored.first = at if stored.first < 0 else stored.first
        stored.last = at
        if writing and not stored.written:
            stored.written = True
            if stored.host:
                stored.pristine = duplicate(memory_of(place.node))
        return stored.id, place.offset

    def _stored(self, node: UOp) -> Stored:
        id = node.payload(p.Storage).id
        stored = self.stored.get(id)
        if stored is None:
            stored = self.stored[id] = Stored(node, id >= self._first_id)
            if not stored.fresh:
                self.pinned.append(node)
                stored.owner = self._owner(node)
                if stored.owner is not None:
                    stored.chain = take_apart(stored.owner.value)[0]
        return stored


def duplicate(buffer: Buffer) -> Buffer:
    """Return a copy of a Buffer."""
    copied = Buffer(buffer.device, buffer.nbytes, buffer.label)
    transfer.copy(copied, 0, buffer, 0, buffer.nbytes)
    return copied


def take_apart(node: UOp) -> tuple[Chain, UOp]:
    """Return the movements of a value, from the top down, and what they start from."""
    chain = []
    while node.op in MOVEMENT or node.op is Ops.DETACH:
        chain.append((node.op, node.arg))
        node = node.src[0]
    return tuple(chain), node


def put_together(chain: Chain, node: UOp) -> UOp:
    """Return `chain` over another node."""
    for op, arg in reversed(chain):
        node = UOp(op, node.dtype, (node,), arg)
    return node
