"""Replay: the records of a capture as queues over a table of buffers.

In: a `Capture`, the ids of the storage that each call brings or makes anew, and constants. Out: `Replay`: a
table layout (brought and made storage first, in the order given, then constants and arenas) and `run`, which
submits one queue per device and stretch between copies. All other storage of the capture is temporary and
shares an arena per device.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final, final

from tiny_core.engine import memory_plan, transfer
from tiny_core.engine.batch import Batch, Touch
from tiny_core.engine.capture import Capture, Copy, Launch, Stored, Where
from tiny_core.engine.report import duration, measured, report_copy, say
from tiny_core.runtime.buffer import Buffer
from tiny_core.runtime.device import OpenDevice
from tiny_core.runtime.memory import size_class
from tiny_core.runtime.queue import Slot
from tiny_core.runtime.runtime import Handle
from tiny_core.settings import DEBUG

_EVERYTHING: Final = 1 << 62
_Segment = Batch | Copy


@final
class Replay:
    """A captured call, ready to run.

    Args:
        capture: what ran.
        varying: ids of storage that is other storage at each call; `run` is given their Buffers in this
            order.
        constants: Buffers of storage that is always the same, by id.
        initial: Buffers to copy from before the first use of varying or temporary storage, by id.

    Attributes:
        kernels: how many it launches.
        arena_bytes: memory of its temporaries, kept as long as the capture.
    """

    def __init__(
        self,
        capture: Capture,
        varying: Sequence[int],
        constants: Mapping[int, Buffer],
        initial: Mapping[int, Buffer],
    ) -> None:
        self._records = capture.records
        self._stored = capture.stored
        self._initial = dict(initial)
        self._place: dict[int, Where] = {id: (i, 0) for i, id in enumerate(varying)}
        self._fixed: list[Buffer] = []
        self._varying = len(varying)
        for id, buffer in constants.items():
            self._place[id] = (self._fix(buffer), 0)
        self._sources = {id: self._fix(buffer) for id, buffer in initial.items()}
        self.arena_bytes = 0
        self._plan_memory()
        self.kernels = sum(isinstance(record, Launch) for record in self._records)
        self._segments: dict[bool, list[_Segment]] = {}
        self._fixed_handles: list[Handle] = [buffer.handle for buffer in self._fixed]

    def run(self, handles: list[Handle], varying: list[Buffer]) -> None:
        """Run everything on these Buffers, whose handles are the first of the table; the others are appended.
        Returns when all is submitted."""
        assert len(handles) == len(varying) == self._varying
        timed, start = measured(), time.perf_counter()
        segments = self._segments.get(timed)
        if segments is None:
            segments = self._segments[timed] = self._build(timed)
        handles += self._fixed_handles
        for segment in segments:
            if isinstance(segment, Batch):
                segment.submit(handles)
            else:
                self._copy_across(segment, varying, timed)
        if DEBUG.value >= 1:
            say(f"replayed {self.kernels} kernels, submitted in {duration(time.perf_counter() - start)}")

    def _fix(self, buffer: Buffer) -> int:
        self._fixed.append(buffer)
        return self._varying + len(self._fixed) - 1

    def _plan_memory(self) -> None:
        """Put temporaries into arenas: one per device, or one for each where kernels cannot start inside a
        buffer."""
        groups: dict[tuple[OpenDevice, int], list[Stored]] = {}
        for stored in self._stored.values():
            if stored.id not in self._place and stored.first >= 0:
                apart = 0 if stored.device.runtime.capabilities.views else stored.id
                groups.setdefault((stored.device, apart), []).append(stored)
        for (device, _), members in groups.items():
            lifetimes = [memory_plan.Lifetime(s.nbytes, s.first, s.last) for s in members]
            align = max(memory_plan.ALIGN, device.runtime.capabilities.align)
            offsets, total = memory_plan.plan(lifetimes, align)
            arena = self._fix(Buffer(device, total, "temporaries of a captured function"))
            self.arena_bytes += size_class(total)
            for stored, offset in zip(members, offsets, strict=True):
                self._place[stored.id] = (arena, offset)

    def _build(self, timed: bool) -> list[_Segment]:
        segments: list[_Segment] = []
        current: dict[OpenDevice, Batch] = {}
        begins: dict[int, list[int]] = {}
        for id in self._initial:
            begins.setdefault(max(self._stored[id].first, 0), []).append(id)

        def batch(device: OpenDevice) -> Batch:
            if device not in current:
                current[device] = Batch(device, timed)
                segments.append(current[device])
            return current[device]

        def begin(i: int) -> None:
            for id in begins.pop(i, ()):
                stored = self._stored[id]
                source = (self._sources[id], 0, stored.nbytes)
                batch(stored.device).copy(
                    self._slot((id, 0)), Slot(self._sources[id]), stored.nbytes, source, self._touch(id)
                )

        for i, record in enumerate(self._records):
            begin(i)
            if isinstance(record, Launch):
                touched = list(zip(record.places, record.reads, record.writes, strict=True))
                batch(record.device).launch(
                    record.program,
                    tuple(map(self._slot, record.places)),
                    record.scalars,
                    record.grid,
                    [self._touch(id) for (id, _), reads, _ in touched if reads],
                    [self._touch(id) for (id, _), _, writes in touched if writes],
                    record.site,
                )
            elif record.dest_device is record.source_device:
                batch(record.dest_device).copy(
                    self._slot(record.dest),
                    self._slot(record.source),
                    record.nbytes,
                    self._touch(record.source[0]),
                    self._touch(record.dest[0]),
                )
            else:
                # the host copies, so both devices have to get there first: their batches end here
                current.pop(record.dest_device, None)
                current.pop(record.source_device, None)
                segments.append(record)
        for i in list(begins):
            begin(i)
        return segments

    def _slot(self, where: Where) -> Slot:
        slot, offset = self._place[where[0]]
        return Slot(slot, offset + where[1])

    def _touch(self, id: int) -> Touch:
        slot, offset = self._place[id]
        end = offset + self._stored[id].nbytes if slot >= self._varying else _EVERYTHING
        return slot, offset, end

    def _copy_across(self, record: Copy, varying: list[Buffer], timed: bool) -> None:
        start = time.perf_counter()
        dest, dest_offset = self._buffer(record.dest, varying)
        source, source_offset = self._buffer(record.source, varying)
        transfer.copy(dest, dest_offset, source, source_offset, record.nbytes)
        if timed:
            report_copy(dest.device, source.device, record.nbytes, time.perf_counter() - start)

    def _buffer(self, where: Where, varying: list[Buffer]) -> tuple[Buffer, int]:
        slot = self._slot(where)
        fixed = slot.slot - self._varying
        return (self._fixed[fixed] if fixed >= 0 else varying[slot.slot]), slot.offset
