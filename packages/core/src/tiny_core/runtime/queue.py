"""Queue commands, and the queue that serves a runtime which only has blocking calls.

The engine appends commands to a queue and submits it. A submitted queue can be submitted again (a captured
batch): the commands are the same and only the `Slots` they refer to have other handles and scalars.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiny_core.runtime.runtime import Handle, ProgramHandle, Runtime


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in a queue's table of handles, `offset` bytes further on."""

    slot: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """Run `program` on the memory in `buffers`; scalars are numbers, or names looked up at submission."""

    program: ProgramHandle
    buffers: tuple[Slot, ...]
    scalars: tuple[int | str, ...] = ()
    grid: tuple[int, ...] = (1,)


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy bytes within the device."""

    dest: Slot
    source: Slot
    nbytes: int


@dataclass(frozen=True, slots=True)
class Signal:
    """Release: everything before is visible to the system, then `cell` holds `value`."""

    cell: int
    value: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Acquire: go on once `cell` holds at least `value`."""

    cell: int
    value: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """Write the device's time in nanoseconds to stamp number `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """Commands after it see the memory effects of those before it."""


Command = Launch | Copy | Signal | Wait | Timestamp | Barrier


@dataclass(slots=True)
class Submission:
    """What varies from one submission of a queue to the next.

    Args:
        handles: the table that Slots index.
        scalars: values of named scalars.
        cells: signal cells, shared between queues that synchronise with each other.
        stamps: filled by Timestamp commands, nanoseconds.
    """

    handles: list[Handle]
    scalars: dict[str, int] = field(default_factory=dict)
    cells: dict[int, int] = field(default_factory=dict)
    stamps: dict[int, int] = field(default_factory=dict)


class Queue(ABC):
    """An ordered list of commands for one device."""

    def __init__(self) -> None:
        self.commands: list[Command] = []

    def append(self, command: Command) -> None:
        self.commands.append(command)

    @abstractmethod
    def submit(self, submission: Submission) -> None:
        """Run the commands in order; may return before they have run (`Runtime.synchronize` waits)."""


class BlockingQueue(Queue):
    """Runs each command as a blocking call of the runtime."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self.runtime = runtime

    def submit(self, submission: Submission) -> None:
        runtime, handles = self.runtime, submission.handles

        def address(slot: Slot) -> Handle:
            return runtime.view(handles[slot.slot], slot.offset) if slot.offset else handles[slot.slot]

        for command in self.commands:
            match command:
                case Launch(program, buffers, scalars, grid):
                    values = tuple(submission.scalars[s] if isinstance(s, str) else s for s in scalars)
                    runtime.launch(program, tuple(map(address, buffers)), values, grid)
                case Copy(dest, source, nbytes):
                    runtime.copy_peer(address(dest), address(source), nbytes)
                case Signal(cell, value):
                    submission.cells[cell] = value
                case Wait(cell, value):
                    assert submission.cells.get(cell, 0) >= value, (
                        "a blocking queue cannot wait for a later queue"
                    )
                case Timestamp(index):
                    submission.stamps[index] = time.perf_counter_ns()
                case Barrier():
                    pass
