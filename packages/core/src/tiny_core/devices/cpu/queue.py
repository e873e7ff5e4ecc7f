"""The CPU's queue: at its first submission it becomes native records; further ones fill a table and make one
call.

The table of a batch holds the submission's handles, then its named scalars. Every command becomes a record,
copies and time stamps by way of the pool's own kernels. Signals and waits cut the queue into batches: a
submission has run when `submit` returns, so a wait can only be for something that already happened.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tiny_core.api import LaunchError, queue
from tiny_core.devices.cpu.pool import COPY_CHUNK, MOST_CHUNKS, Batch, Pool, Record
from tiny_core.devices.cpu.runtime import CpuProgram, CpuRuntime, check_call


@dataclass(slots=True)
class _Builder:
    """A batch being packed. Sources of fix-ups are handles from 0 up and named scalars from -1 down, until it
    is known how many handles there are."""

    names: dict[str, int]
    records: list[Record] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    fixups: list[tuple[int, int, int]] = field(default_factory=list)
    pointers: list[tuple[int, int]] = field(default_factory=list)
    stamps: list[tuple[int, int]] = field(default_factory=list)
    keep: list[object] = field(default_factory=list)

    def buffer(self, slot: queue.Slot) -> None:
        self.fixups.append((len(self.words), slot.slot, slot.offset))
        self.words.append(0)

    def scalar(self, value: int | str) -> None:
        if isinstance(value, str):
            self.fixups.append((len(self.words), -1 - self.names.setdefault(value, len(self.names)), 0))
        self.words.append(0 if isinstance(value, str) else value)


@dataclass(frozen=True, slots=True)
class _Segment:
    """Commands between signals and waits: a batch, the words its time stamps come out in, then a signal or a
    wait."""

    batch: Batch | None
    stamps: tuple[tuple[int, int], ...]
    then: queue.Signal | queue.Wait | None


class CpuQueue(queue.BlockingQueue):
    """A queue of the CPU runtime. Without a pool it runs commands one by one, as its base does."""

    runtime: CpuRuntime

    def __init__(self, runtime: CpuRuntime) -> None:
        super().__init__(runtime)
        self._packed: list[_Segment] = []
        self._key: tuple[int, Pool | None] = (-1, None)
        self._names: tuple[str, ...] = ()
        self._handles = 0

    def submit(self, submission: queue.Submission) -> None:
        """Run the commands.

        Raises:
            LaunchError: the submission has fewer handles than the commands refer to, lacks a scalar, or waits
            for a
                signal that has not been given.
        """
        pool = self.runtime.pool
        if pool is None:
            super().submit(submission)
            return
        if self._key != (len(self.commands), pool):
            self._pack(pool)
        handles = submission.handles
        if len(handles) != self._handles:
            if len(handles) < self._handles:
                raise LaunchError(f"the queue refers to {self._handles} handles, {len(handles)} were given")
            handles = handles[: self._handles]
        if self._names:
            missing = [n for n in self._names if n not in submission.scalars]
            if missing:
                raise LaunchError(f"no value for scalar {', '.join(missing)}")
            handles = [*handles, *(submission.scalars[n] for n in self._names)]
        for segment in self._packed:
            if segment.batch is not None:
                pool.run(segment.batch, handles)
                for index, word in segment.stamps:
                    submission.stamps[index] = segment.batch.words[word]
            match segment.then:
                case queue.Signal(cell, value):
                    submission.cells[cell] = value
                case queue.Wait(cell, value):
                    if submission.cells.get(cell, 0) < value:
                        raise LaunchError(
                            f"the queue waits for cell {cell} to reach {value}, and nothing will raise it"
                        )

    def _pack(self, pool: Pool) -> None:
        names: dict[str, int] = {}
        pieces: list[tuple[_Builder, queue.Signal | queue.Wait | None]] = []
        builder = _Builder(names)
        for command in self.commands:
            if isinstance(command, queue.Signal | queue.Wait):
                pieces.append((builder, command))
                builder = _Builder(names)
            else:
                _add(builder, command, pool)
        pieces.append((builder, None))
        self._handles = 1 + max((f[1] for b, _ in pieces for f in b.fixups if f[1] >= 0), default=-1)
        self._names = tuple(names)
        self._packed = [
            _Segment(self._batch(b) if b.records else None, tuple(b.stamps), then) for b, then in pieces
        ]
        self._key = (len(self.commands), pool)

    def _batch(self, builder: _Builder) -> Batch:
        handles = self._handles
        fixups = [(d, s if s >= 0 else handles - 1 - s, offset) for d, s, offset in builder.fixups]
        table = handles + len(self._names)
        return Batch(builder.records, builder.words, fixups, table, builder.pointers, tuple(builder.keep))


def _add(builder: _Builder, command: queue.Command, pool: Pool) -> None:
    at = len(builder.words)
    match command:
        case queue.Launch(program, buffers, scalars, grid):
            assert isinstance(program, CpuProgram)
            check_call(program, len(buffers), len(scalars))
            for slot in buffers:
                builder.buffer(slot)
            for value in scalars:
                builder.scalar(value)
            parallel = grid[0]
            chunks = program.chunks(parallel)
            builder.records.append(Record(program.address, at, at + len(buffers), parallel, chunks))
            builder.keep.append(program)
        case queue.Copy(dest, source, nbytes):
            builder.buffer(dest)
            builder.buffer(source)
            builder.scalar(nbytes)
            pieces = -(-nbytes // COPY_CHUNK)
            builder.records.append(Record(pool.copy, at, at + 2, pieces, min(pieces, MOST_CHUNKS)))
        case queue.Timestamp(index):
            builder.words += [0, pool.clock, 0]
            builder.pointers.append((at, at + 2))
            builder.stamps.append((index, at + 2))
            builder.records.append(Record(pool.stamp, at, at + 1))
        case _:
            assert isinstance(command, queue.Barrier), "records run in order, so a barrier has nothing to do"
