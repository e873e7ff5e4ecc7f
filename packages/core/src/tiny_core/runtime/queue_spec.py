"""The executable specification of queues: a list of commands that can be submitted, or SpecError.

In: commands, and the sizes of the tables they refer to. Out: nothing. Guaranteed: every slot, scalar, signal
cell and time stamp exists, grids and sizes are possible, and no signal goes backwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tiny_core.errors import SpecError
from tiny_core.runtime.queue import Barrier, Command, Copy, Launch, Signal, Slot, Timestamp, Wait

_MOST_DIMENSIONS = 3


def check_queue(
    commands: Iterable[Command],
    slots: int,
    scalars: Collection[str] = (),
    cells: Collection[int] | None = None,
) -> None:
    """Check a list of queue commands.

    Args:
        commands: in order.
        slots: entries of the table of handles.
        scalars: names of the scalars that a submission will give.
        cells: signal cells that exist; None for any.

    Raises:
        SpecError: a command refers to what does not exist, or breaks a rule; names its position.
    """
    signalled: dict[int, int] = {}
    stamps: set[int] = set()
    for position, command in enumerate(commands):
        wrong = _wrong(command, slots, scalars, cells, signalled, stamps)
        if wrong is not None:
            raise SpecError(f"queue: {wrong}\n  command {position}: {command}")


def _wrong(
    command: Command,
    slots: int,
    scalars: Collection[str],
    cells: Collection[int] | None,
    signalled: dict[int, int],
    stamps: set[int],
) -> str | None:
    match command:
        case Launch(_, buffers, values, grid):
            for value in values:
                if isinstance(value, str) and value not in scalars:
                    return f"there is no scalar {value!r}"
            if not 1 <= len(grid) <= _MOST_DIMENSIONS or any(n < 0 for n in grid):
                return "a grid has one to three sizes of at least 0"
            return _slots(buffers, slots)
        case Copy(dest, source, nbytes):
            return "a copy has a size of at least 0" if nbytes < 0 else _slots((dest, source), slots)
        case Signal(cell, value):
            if value <= signalled.get(cell, value - 1):
                return "a signal's value grows"
            signalled[cell] = value
            return _cell(cell, cells)
        case Wait(cell, _):
            return _cell(cell, cells)
        case Timestamp(index):
            if index < 0 or index in stamps:
                return "a time stamp has a number of its own"
            stamps.add(index)
            return None
        case Barrier():
            return None
    return "there is no such command"


def _slots(used: Iterable[Slot], slots: int) -> str | None:
    for slot in used:
        if not 0 <= slot.slot < slots:
            return f"there is no slot {slot.slot} among {slots}"
        if slot.offset < 0:
            return "an offset is at least 0"
    return None


def _cell(cell: int, cells: Collection[int] | None) -> str | None:
    return None if cells is None or cell in cells else f"there is no signal cell {cell}"
