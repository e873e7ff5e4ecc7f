"""The schedule cache: graphs of one structure are scheduled once, whatever storage they read.

A graph is rewritten so that its BUFFERs are numbered in the order of appearance; as nodes are unique, the
rewritten roots are the key. The schedule that is kept mentions only such stand-ins, which never own memory;
`bind` replaces them by the storage at hand and makes new storage for results and temporaries.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp, toposort
from tiny_core.schedule.item import Arg, CopyItem, Item, KernelItem, Schedule
from tiny_core.schedule.served import Served, Trail, bound

_Made = TypeVar("_Made")
Key = tuple[tuple[UOp, ...], p.Device]
MOST = 512  # schedules kept

Explanation = tuple[list[Served], Trail, list[UOp]]
"""What the items of a schedule are for, over the graph as scheduling has rewritten it; that rewriting; and
the roots of that graph."""

_kept: OrderedDict[Key, Schedule] = OrderedDict()
_explanations: OrderedDict[Key, Explanation] = OrderedDict()
_lock = threading.Lock()


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - a thread that is not in this process may have held the old one
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def cached(
    roots: Sequence[UOp], device: p.Device, make: Callable[[Sequence[UOp], p.Device], Schedule]
) -> Schedule:
    """Return the schedule of `roots`: a kept one of the same structure, or what `make` gives."""
    shape, storage, origin = _canonical(roots)
    return _bind(_remembered(_kept, (shape, device), make), storage, origin)


def explained(
    roots: Sequence[UOp], device: p.Device, make: Callable[[Sequence[UOp], p.Device], Explanation]
) -> tuple[Served, ...]:
    """Return what the items of the schedule that `cached` returns are for."""
    shape, _, origin = _canonical(roots)
    return bound(*_remembered(_explanations, (shape, device), make), origin)


def _remembered(
    table: OrderedDict[Key, _Made], key: Key, make: Callable[[Sequence[UOp], p.Device], _Made]
) -> _Made:
    with _lock:
        known = table.get(key)
        if known is not None:
            table.move_to_end(key)
            return known
    made = make(*key)
    with _lock:
        table[key] = made
        while len(table) > MOST:
            table.popitem(last=False)
    return made


def clear() -> None:
    """Forget all schedules."""
    with _lock:
        _kept.clear()
        _explanations.clear()


def _canonical(roots: Sequence[UOp]) -> tuple[tuple[UOp, ...], dict[UOp, UOp], dict[UOp, UOp]]:
    """Return the roots over numbered BUFFERs, the storage behind each of those, and the node behind each
    node."""
    done: dict[UOp, UOp] = {}
    storage: dict[UOp, UOp] = {}
    for node in toposort(roots):
        if node.op is Ops.BUFFER:
            arg = node.payload(p.Storage)
            new = node.replace(arg=p.Storage(-1 - len(storage), arg.size, arg.space, arg.device))
            storage[new] = node
        else:
            src = tuple(done[s] for s in node.src)
            new = node if src == node.src else node.replace(src)
        done[node] = new
    return tuple(done[r] for r in roots), storage, {new: old for old, new in done.items()}


def _bind(plan: Schedule, storage: dict[UOp, UOp], origin: dict[UOp, UOp]) -> Schedule:
    """Return the schedule over real storage."""
    real = dict(storage)

    def at(arg: Arg) -> Arg:
        node = real.get(arg.buffer)
        if node is None:
            old = arg.buffer.payload(p.Storage)
            assert old.device is not None
            node = real[arg.buffer] = UOp.buffer(arg.buffer.dtype, old.size, old.device)
        return Arg(node, arg.offset)

    items: list[Item] = []
    for item in plan.items:
        if isinstance(item, CopyItem):
            items.append(CopyItem(at(item.dest), at(item.source), item.size))
        else:
            # what scheduling has rewritten has no node of the graph that was given; people read it as it is
            serves = tuple(origin.get(n, n) for n in item.serves)
            items.append(
                KernelItem(item.kernel, tuple(map(at, item.args)), item.device, item.scalars, serves)
            )
    results = tuple(r.substitute(real) for r in plan.results)
    return Schedule(tuple(items), results, tuple(real[t] for t in plan.temporaries if t in real))
