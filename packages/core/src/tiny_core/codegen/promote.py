"""Register slots as values: where a renderer for a single-assignment target puts its phi's.

In: a linear list. Out: a `Promotion`, which says for each loop what is carried from one iteration to the
next, and for each load of a register slot which value it stands for. The list itself stays as it is. A
renderer that follows it prints nothing for BUFFERs of space `register`, nor for their loads and stores.

Loops are taken to test before each iteration, so a `Phi` is at once the value within an iteration before
anything is stored, and the value after the loop, however often that ran. Only phi's that something reads are
listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp


@dataclass(frozen=True, slots=True)
class Phi:
    """The value of a slot at the head of a loop; the name of a phi, equal to itself wherever it is mentioned.

    Args:
        loop: the RANGE.
        buffer: the BUFFER of space `register`; its dtype and `lanes` are those of the value.
        slot: which of its slots.
    """

    loop: UOp
    buffer: UOp
    slot: int


Value = UOp | Phi | None
"""A node of the list (the value that was stored), a phi, or None: nothing has been stored."""
Slot = tuple[UOp, int]


@dataclass(frozen=True, slots=True)
class Carried:
    """A value that crosses the iterations of a loop.

    Args:
        phi: its name.
        initial: value on entry to the loop.
        final: value at the end of an iteration: the phi's in the next.
    """

    phi: Phi
    initial: Value
    final: Value


@dataclass(frozen=True, slots=True)
class Promotion:
    """Register slots of a linear list as values.

    Args:
        loops: for each RANGE, what it carries, in the order of the first stores; loops without are absent.
        loads: for each LOAD of a register slot, the value it reads.
    """

    loops: Mapping[UOp, tuple[Carried, ...]]
    loads: Mapping[UOp, Value]


def promote(linear: UOp) -> Promotion:
    """Return the values behind the register slots of a LINEAR."""
    stored = _stored(linear)
    now: dict[Slot, Value] = {}
    entered: dict[UOp, dict[Slot, Value]] = {}
    carried: dict[UOp, tuple[Carried, ...]] = {}
    loads: dict[UOp, Value] = {}
    for node in linear.src:
        match node.op:
            case Ops.RANGE:
                entered[node] = {slot: now.get(slot) for slot in stored[node]}
                now.update((slot, Phi(node, *slot)) for slot in stored[node])
            case Ops.END:
                loop = node.src[0]
                initial = entered[loop]
                carried[loop] = tuple(Carried(Phi(loop, *slot), v, now[slot]) for slot, v in initial.items())
                now.update((slot, Phi(loop, *slot)) for slot in initial)
            case Ops.STORE if (slot := _slot(node)) is not None:
                now[slot] = node.src[2]
            case Ops.LOAD if (slot := _slot(node)) is not None:
                loads[node] = now.get(slot)
    return Promotion(_live(carried, loads), loads)


def _slot(node: UOp) -> Slot | None:
    """The register slot of a LOAD or STORE, or None for memory."""
    base = node.src[0].base
    if base.op is not Ops.BUFFER or base.payload(p.Storage).space != "register":
        return None
    return base, int(node.src[1].value)


def _stored(linear: UOp) -> dict[UOp, dict[Slot, None]]:
    """The slots that are stored to within each loop, in order."""
    result: dict[UOp, dict[Slot, None]] = {}
    opened: list[UOp] = []
    for node in linear.src:
        if node.op is Ops.RANGE:
            opened.append(node)
            result[node] = {}
        elif node.op is Ops.END:
            opened.remove(node.src[0])
        elif node.op is Ops.STORE and (slot := _slot(node)) is not None:
            for loop in opened:
                result[loop].setdefault(slot)
    return result


def _live(carried: dict[UOp, tuple[Carried, ...]], loads: dict[UOp, Value]) -> dict[UOp, tuple[Carried, ...]]:
    """Leave out what no load reads, directly or through another phi."""
    of = {c.phi: c for group in carried.values() for c in group}
    live: set[Phi] = set()
    pending = list(loads.values())
    while pending:
        value = pending.pop()
        if isinstance(value, Phi) and value not in live:
            live.add(value)
            pending += (of[value].initial, of[value].final)
    kept = {loop: tuple(c for c in group if c.phi in live) for loop, group in carried.items()}
    return {loop: group for loop, group in kept.items() if group}
