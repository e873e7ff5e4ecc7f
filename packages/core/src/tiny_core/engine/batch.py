"""A batch: commands for one device, with the barriers that they need. Both realization and replay are made of
batches.

In: launches and copies in order, each with what it reads and writes. Out: a queue that can be submitted with
a table of handles. Guaranteed: between two commands of which one writes what the other touches, there is a
Barrier.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, final

from tiny_core.engine.report import GlobalCounters, report_copy, report_kernel
from tiny_core.engine.tracing import Site
from tiny_core.runtime.device import OpenDevice, Program
from tiny_core.runtime.queue import Barrier, Copy, Launch, Slot, Submission, Timestamp
from tiny_core.runtime.queue_spec import check_queue
from tiny_core.runtime.runtime import Handle
from tiny_core.settings import SPEC

Touch = tuple[Hashable, int, int]
"""Bytes begin … end-1 of some memory."""


@final
class _Hazards:
    """What has been read and written since the last barrier."""

    def __init__(self) -> None:
        self.read: dict[Hashable, list[tuple[int, int]]] = {}
        self.written: dict[Hashable, list[tuple[int, int]]] = {}

    def meets(self, reads: Sequence[Touch], writes: Sequence[Touch]) -> bool:
        """Whether a command that touches these must wait for an earlier one."""
        return any(_overlaps(self.written, t) for t in reads) or any(
            _overlaps(self.written, t) or _overlaps(self.read, t) for t in writes
        )

    def add(self, reads: Sequence[Touch], writes: Sequence[Touch]) -> None:
        for known, touches in ((self.read, reads), (self.written, writes)):
            for memory, begin, end in touches:
                known.setdefault(memory, []).append((begin, end))

    def clear(self) -> None:
        self.read.clear()
        self.written.clear()


def _overlaps(known: dict[Hashable, list[tuple[int, int]]], touch: Touch) -> bool:
    memory, begin, end = touch
    return any(b < end and begin < e for b, e in known.get(memory, ()))


@final
class Batch:
    """Commands for `device`.

    Args:
        device: where they run.
        timed: whether each is measured, and reported when the batch is submitted.
    """

    def __init__(self, device: OpenDevice, timed: bool) -> None:
        self.device: Final = device
        self.queue: Final = device.runtime.queue()
        self.kernels = self.ops = self.nbytes = 0
        self._timed = timed
        self._checked = False
        self._hazards = _Hazards()
        self._timings: list[tuple[Program, Site | None] | int] = []

    def __bool__(self) -> bool:
        return bool(self.queue.commands)

    def launch(
        self,
        program: Program,
        slots: tuple[Slot, ...],
        scalars: tuple[int, ...],
        grid: tuple[int, ...],
        reads: Sequence[Touch],
        writes: Sequence[Touch],
        site: Site | None = None,
    ) -> None:
        """Append a kernel; `site` says why, while a trace is on."""
        self._order(reads, writes)
        self._add(Launch(program.handle, slots, scalars, grid), (program, site))
        self.kernels += 1
        self.ops += program.compiled.flops
        self.nbytes += program.compiled.bytes

    def copy(self, dest: Slot, source: Slot, nbytes: int, read: Touch, write: Touch) -> None:
        """Append a copy within the device."""
        self._order((read,), (write,))
        self._add(Copy(dest, source, nbytes), nbytes)

    def submit(self, handles: list[Handle]) -> None:
        """Run the commands with these handles. May return before they have run, unless they are measured."""
        GlobalCounters.add(self.kernels, self.ops, self.nbytes)
        if not self._checked:
            self._checked = True  # a captured batch is submitted again, with other handles only
            if SPEC.value:
                check_queue(self.queue.commands, len(handles))
        submission = Submission(handles)
        self.device.busy = True
        if not self._timed:
            self.queue.submit(submission)
            return
        try:
            self.queue.submit(submission)
            self.device.synchronize()
        finally:  # of a batch that fails, too: what was begun
            self._report(submission.stamps)

    def _order(self, reads: Sequence[Touch], writes: Sequence[Touch]) -> None:
        if self._hazards.meets(reads, writes):
            self.queue.append(Barrier())
            self._hazards.clear()
        self._hazards.add(reads, writes)

    def _add(self, command: Launch | Copy, what: tuple[Program, Site | None] | int) -> None:
        if not self._timed:
            self.queue.append(command)
            return
        stamp = 2 * len(self._timings)
        self._timings.append(what)
        self.queue.append(Timestamp(stamp))
        self.queue.append(command)
        self.queue.append(Timestamp(stamp + 1))

    def _report(self, stamps: dict[int, int]) -> None:
        number = GlobalCounters.kernel_count - self.kernels
        for i, what in enumerate(self._timings):
            begin = stamps.get(2 * i)
            if begin is None:
                return
            seconds = (stamps.get(2 * i + 1, begin) - begin) * 1e-9
            if isinstance(what, int):
                report_copy(self.device, self.device, what, seconds)
            else:
                number += 1
                report_kernel(self.device, *what, number, seconds)
