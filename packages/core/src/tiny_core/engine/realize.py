"""Realization: from tensor graphs to memory that holds their values; and host data in and out.

In: nodes of the tensor stage. Out: for each the node that holds its value: movements over a BUFFER. Work is
submitted when `realize_nodes` returns, and waited for when data is read. While a function is captured, what
runs is recorded too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final, Protocol, final

from tiny_core.dtypes import DType
from tiny_core.engine import transfer
from tiny_core.engine.batch import Batch, Touch
from tiny_core.engine.compile import stats
from tiny_core.engine.report import (
    GlobalCounters,
    duration,
    measured,
    report_copy,
    say,
    show_schedule,
)
from tiny_core.engine.steps import CopyStep, LaunchStep, Step, prepare
from tiny_core.engine.tracing import Site, active
from tiny_core.errors import DeviceError, JitError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import MOVEMENT, Ops
from tiny_core.ir.uop import UOp
from tiny_core.runtime.buffer import Buffer, drop_memory, memory_of, nbytes_of, set_memory
from tiny_core.runtime.device import Device, OpenDevice
from tiny_core.runtime.memory import size_class
from tiny_core.runtime.queue import Slot
from tiny_core.runtime.runtime import Handle
from tiny_core.schedule.item import Schedule
from tiny_core.settings import DEBUG

_EVERYTHING: Final = 1 << 62


class Recorder(Protocol):
    """Who is told of all that runs and all that comes from the host, while a function is captured."""

    def before(self, steps: Sequence[Step]) -> None:
        """These steps are about to run."""

    def host_data(self, node: UOp) -> None:
        """This BUFFER has just been filled with host data."""


recorder: Final[ContextVar[Recorder | None]] = ContextVar("recorder", default=None)


def realize_nodes(roots: list[UOp], labels: Sequence[object] = ()) -> list[UOp]:
    """Compute `roots`.

    Args:
        roots: nodes of the tensor stage.
        labels: what each is (its text), for the message of OutOfMemory; may be left out.

    Returns:
        for each root, movements over the BUFFER that holds its value (or the root, where it needed no work).

    Raises:
        CompileError, LaunchError, DeviceError, OutOfMemory.
    """
    from tiny_core.schedule.scheduler import schedule, serving

    start = time.perf_counter()
    plan = schedule(roots, Device.DEFAULT)
    spent = time.perf_counter() - start
    if DEBUG.value >= 3:
        show_schedule(plan.items, serving(roots, Device.DEFAULT))
    for node, label in zip(plan.results, labels, strict=False):
        _label(node, label)
    if plan.items:
        trace = active()
        sites = trace.sites(roots, Device.DEFAULT, plan) if trace is not None else ()
        run_schedule(plan, spent, sites)
    return list(plan.results)


def _label(node: UOp, label: object) -> None:
    while node.op in MOVEMENT:
        node = node.src[0]
    if node.op is Ops.BUFFER and not memory_of(node).allocated:
        memory_of(node).label = label


def run_schedule(plan: Schedule, scheduled_in: float = 0.0, sites: Sequence[Site] = ()) -> None:
    """Compile and run a schedule, which took `scheduled_in` seconds to make; `sites` say why each item is
    there, for a trace."""
    compiled, waited, kernels = stats.here + stats.workers, stats.seconds, GlobalCounters.kernel_count
    steps = prepare(plan, sites)
    if (listener := recorder.get()) is not None:
        listener.before(steps)
    start = time.perf_counter()
    _Run(steps, plan.temporaries, measured()).go()
    if DEBUG.value >= 1:
        compiled, waited = stats.here + stats.workers - compiled, stats.seconds - waited
        say(
            f"realized {GlobalCounters.kernel_count - kernels} kernels of {len(steps)} steps: "
            f"scheduled in {duration(scheduled_in)}, compiled {compiled} in {duration(waited)}, "
            f"submitted in {duration(time.perf_counter() - start)}"
        )


@final
class _Run:
    """One run of steps: batches that grow until something must happen in between.

    All memory is allocated and all programs are loaded before the first command is submitted, so that what
    fails in that leaves everything as it was: an assignment that has run, and is not known to have, would
    run again.
    """

    def __init__(self, steps: Sequence[Step], temporaries: Sequence[UOp], timed: bool) -> None:
        self.steps, self.timed = steps, timed
        self.batches: dict[OpenDevice, tuple[Batch, list[Handle], dict[Handle, int]]] = {}
        self.last: dict[UOp, int] = {}
        shared = set(temporaries)
        for i, step in enumerate(steps):
            for node in _nodes(step):
                if node in shared:
                    self.last[node] = i
        # Memory of temporaries that are done with, for later ones. It goes back to the device's allocator
        # only at the end, when all commands are submitted: before, the allocator might return it to the
        # runtime.
        self.spare: dict[tuple[OpenDevice, int], list[Buffer]] = {}

    def go(self) -> None:
        memory = [self._prepare(i, step) for i, step in enumerate(self.steps)]
        for step, buffers in zip(self.steps, memory, strict=True):
            if isinstance(step, LaunchStep):
                self._launch(step, buffers)
            else:
                self._copy(step, *buffers)
        for device in list(self.batches):
            self._flush(device)

    def _prepare(self, number: int, step: Step) -> list[Buffer]:
        """Return the memory of a step's nodes, allocated, and take back that of temporaries that end
        here."""
        if isinstance(step, LaunchStep):
            _ = step.program.handle  # loads it
            name, writes = step.program.compiled.signature.name, step.writes
        else:
            name, writes = "copy", (True, False)
        nodes = _nodes(step)
        buffers = []
        for node, writing in zip(nodes, writes, strict=True):
            buffer = self._memory(node, writing)
            buffer.label = buffer.label or name
            _ = buffer.handle  # allocates it
            buffers.append(buffer)
        for node in dict.fromkeys(nodes):
            if self.last.get(node) == number:
                buffer = memory_of(node)
                drop_memory(node)
                self.spare.setdefault((buffer.device, size_class(buffer.nbytes)), []).append(buffer)
        return buffers

    def _launch(self, step: LaunchStep, buffers: list[Buffer]) -> None:
        batch, handles, slots = self._batch(step.device)
        reads: list[Touch] = []
        writes: list[Touch] = []
        where = []
        for place, buffer, writing, reading in zip(
            step.places, buffers, step.writes, step.reads, strict=True
        ):
            where.append(_slot(buffer, place.offset, handles, slots))
            touch = (buffer.root, 0, _EVERYTHING)
            if writing:
                writes.append(touch)
            if reading:
                reads.append(touch)
        batch.launch(step.program, tuple(where), step.scalars, step.grid, reads, writes, step.site)

    def _copy(self, step: CopyStep, dest: Buffer, source: Buffer) -> None:
        if step.dest_device is step.source_device:
            batch, handles, slots = self._batch(step.dest_device)
            batch.copy(
                _slot(dest, step.dest.offset, handles, slots),
                _slot(source, step.source.offset, handles, slots),
                step.nbytes,
                (source.root, 0, _EVERYTHING),
                (dest.root, 0, _EVERYTHING),
            )
            return
        self._flush(step.source_device)
        self._flush(step.dest_device)
        start = time.perf_counter()
        transfer.copy(dest, step.dest.offset, source, step.source.offset, step.nbytes)
        if self.timed:
            report_copy(dest.device, source.device, step.nbytes, time.perf_counter() - start)

    def _memory(self, node: UOp, writing: bool) -> Buffer:
        buffer = transfer.writable(node) if writing else memory_of(node)
        if node in self.last and not buffer.allocated:
            spare = self.spare.get((buffer.device, size_class(buffer.nbytes)), [])
            for k, old in enumerate(spare):
                if old.nbytes >= buffer.nbytes:
                    return set_memory(node, spare.pop(k))
        return buffer

    def _batch(self, device: OpenDevice) -> tuple[Batch, list[Handle], dict[Handle, int]]:
        known = self.batches.get(device)
        if known is None:
            known = self.batches[device] = (Batch(device, self.timed), [], {})
        return known

    def _flush(self, device: OpenDevice) -> None:
        known = self.batches.pop(device, None)
        if known is not None and known[0]:
            known[0].submit(known[1])


def _slot(buffer: Buffer, offset: int, handles: list[Handle], slots: dict[Handle, int]) -> Slot:
    handle = buffer.handle
    slot = slots.get(handle)
    if slot is None:
        slot = slots[handle] = len(handles)
        handles.append(handle)
    if offset and not buffer.device.runtime.capabilities.views:
        raise DeviceError(
            f"kernels of {buffer.device.name} cannot start inside a buffer", "call .contiguous() first"
        )
    return Slot(slot, offset)


def _nodes(step: Step) -> tuple[UOp, ...]:
    if isinstance(step, LaunchStep):
        return tuple(place.node for place in step.places)
    return (step.dest.node, step.source.node)


def allocate_from_host(
    data: memoryview | bytes, dtype: DType, size: int, device: str, label: object = ""
) -> UOp:
    """Return new storage that holds host data.

    Args:
        data: contiguous bytes of `size` elements; may change afterwards.
        dtype: element type.
        size: number of elements.
        device: where.
        label: what it is (its text), for the message of OutOfMemory.

    Raises:
        DeviceError: several devices were named.
        OutOfMemory: there is no room.
    """
    if not isinstance(device, str):
        raise DeviceError(f"host data for devices {device}", "sharded tensors are not supported yet")
    source = memoryview(data).cast("B") if size else memoryview(b"")
    node = UOp.buffer(dtype, size, Device.canonicalize(device))
    assert source.nbytes == nbytes_of(node), f"{source.nbytes} bytes for {size} of {dtype.name}"
    buffer = memory_of(node)
    buffer.label = label
    transfer.fill(buffer, source)
    if (listener := recorder.get()) is not None:
        listener.host_data(node)
    return node


def adopt_host(address: int, nbytes: int, dtype: DType, device: str, owner: object) -> UOp:
    """Return storage that is host memory, without a copy: a vector of `nbytes // itemsize` elements.

    Args:
        address: of the first element; aligned to its size.
        nbytes: how much.
        dtype: element type.
        device: a device that computes in host memory.
        owner: kept alive as long as the storage.

    Raises:
        DeviceError: the device does not see host memory, or the address is not aligned.
    """
    opened = Device[device]
    able = opened.runtime.capabilities
    if not able.host_visible or not able.stores:
        raise DeviceError(f"{opened.name} does not compute in host memory", "copy the data instead")
    if address % dtype.itemsize:
        raise DeviceError(f"address {address:#x} is not aligned for {dtype.name}", "copy the data instead")
    # Kernels take it that a BUFFER begins aligned as allocations are, so begin before the data if it does
    # not. Nothing touches those bytes: the SHRINK leaves them out.
    before = address % able.align
    count = nbytes // dtype.itemsize
    node = UOp.buffer(dtype, count + before // dtype.itemsize, opened.name)
    set_memory(node, Buffer(opened, nbytes_of(node), external=address - before, owner=owner))
    if (listener := recorder.get()) is not None:
        listener.host_data(node)
    return node if not before else _part(node, before // dtype.itemsize, count)


def _part(node: UOp, begin: int, count: int) -> UOp:
    return UOp(Ops.SHRINK, node.dtype, (node,), p.Bounds(((begin, begin + count),)))


def keeps_data(device: p.Device) -> bool:
    """Return whether what is computed on a device can be read: not on NULL, nor while a call is captured."""
    return isinstance(device, str) and Device[device].runtime.capabilities.stores and recorder.get() is None


def read_host(node: UOp) -> memoryview:
    """Return the bytes of a realized node, read-only: movements over a BUFFER that show a contiguous part of
    it.

    Where the host sees the memory this is no copy; the view stays as it is whatever is written to the tensor
    later.

    Raises:
        JitError: a function is being captured: what depends on data cannot be replayed.
    """
    if recorder.get() is not None:
        raise JitError(
            "data is read while a function is captured by jit",
            "return the tensor and read it outside, or compute with tensors (where, masks) instead of Python",
        )
    from tiny_core.schedule.scheduler import view

    arg = view(node)
    assert arg is not None, f"read of {node}, which is not a contiguous part of storage"
    buffer = memory_of(arg.buffer)
    itemsize = node.dtype.itemsize
    return transfer.export(buffer, arg.offset * itemsize, node.size * itemsize)
