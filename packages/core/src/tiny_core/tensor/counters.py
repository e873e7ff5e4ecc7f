"""Counters of random numbers: per device, a key and how many numbers have been drawn, in storage of the
device.

Draw number i of a device is Threefry(counter + i, key), the key a function of the seed and the device's
index: the same after `manual_seed` on CPU and AMD, and whatever the schedule. Draws between two realizations
read one version of the storage at different offsets; the batch that computes the first of them also advances
the counter (`advance`), so a captured function draws new numbers at each replay.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection
from typing import TYPE_CHECKING, final

from tiny_core import dtypes
from tiny_core.ir.arith import threefry
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor import graph as g
from tiny_core.tensor.cell import Cell
from tiny_core.tensor.handle import as_int
from tiny_core.tensor.lines import Line, notes, user_line

if TYPE_CHECKING:
    from tiny_core.tensor.realize import Engine

_COUNTER = ((0, 1),)
_KEY = ((1, 2),)


@final
class Counter:
    """Of one device: `cell` holds [counter, key] as uint64; `used` numbers after the counter have been given
    out, by `lines` if those are noted."""

    __slots__ = ("cell", "lines", "used")

    def __init__(self, cell: Cell) -> None:
        self.cell, self.used = cell, 0
        self.lines: list[Line | None] = []


_lock = threading.RLock()


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - a thread that is not in this process may have held the old one
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
_counters: dict[str, Counter] = {}
_seed: list[int] = []


def manual_seed(seed: int) -> None:
    """Begin the sequence of this seed anew, on every device; raises DTypeError."""
    seed = as_int("manual_seed", seed)
    with _lock:
        _seed[:] = [seed % (1 << 64)]
        for device, counter in _counters.items():
            for part, value in ((_COUNTER, 0), (_KEY, _key(device))):
                counter.cell.store(
                    ((Ops.SHRINK, g.bounds(part)),), g.const(value, dtypes.uint64, (1,)), device, None
                )
            counter.used = 0


def _key(device: str) -> int:
    if not _seed:
        _seed.append(int.from_bytes(os.urandom(8), "little"))
    _, _, index = device.rpartition(":")
    return threefry(int(index) if index.isdigit() else 0, _seed[0])


def draw(device: str, n: int, engine: Engine) -> tuple[UOp, UOp]:
    """Reserve n numbers of `device`; return their first counter and the key, nodes of shape ()."""
    with _lock:
        counter = _counters.get(device)
        if counter is None:
            data = (0).to_bytes(8, "little") + _key(device).to_bytes(8, "little")
            buffer = engine.allocate_from_host(data, dtypes.uint64, 2, device)
            cell = Cell(buffer, device, None, leaf=True)
            cell.adopt(buffer)
            counter = _counters[device] = Counter(cell)
        state = counter.cell.value
        first = g.reshape(g.shrink(state, _COUNTER), ())
        if counter.used:
            first = g.scalar_op(Ops.ADD, first, counter.used)
        counter.used += n
        if notes.on:
            counter.lines.append(user_line())
        return first, g.reshape(g.shrink(state, _KEY), ())


def advance(nodes: Collection[UOp]) -> list[Cell]:
    """Let the counters that `nodes` read go on, lazily; return their cells, which are to be realized with
    the nodes."""
    with _lock:
        moved = []
        for device, counter in _counters.items():
            if counter.used and counter.cell.value in nodes:
                state = g.shrink(counter.cell.value, _COUNTER)
                value = g.scalar_op(Ops.ADD, state, counter.used)
                counter.cell.store(((Ops.SHRINK, g.bounds(_COUNTER)),), value, device, None)
                for line in counter.lines:
                    notes.add(counter.cell.value, line)
                counter.used, counter.lines = 0, []
                moved.append(counter.cell)
        return moved
