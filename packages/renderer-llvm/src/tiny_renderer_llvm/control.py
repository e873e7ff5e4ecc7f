"""RANGE, END and BARRIER: loops with their phis, and work-group synchronisation.

A loop is tested at its end; one that may run zero times has a test before it. The register slots that it
carries are phis at its head; after a loop that may be skipped, phis choose between the values before and
after it.
"""

from __future__ import annotations

from tiny_core.api import RenderError, UOp, payload
from tiny_renderer_llvm.function import Function, OpenLoop
from tiny_renderer_llvm.slots import Slot
from tiny_renderer_llvm.types import element, vector


def _slot_type(slot: Slot) -> str:
    buf = slot[0]
    return vector(element(buf.dtype), buf.payload(payload.Storage).lanes)


def render_range(f: Function, node: UOp) -> None:
    """Write the head of a loop."""
    host = f.dialect.kind == "host"
    info, t = f.traffic.loops[node], "i64" if host else element(node.dtype)
    start, stop = "0", f.wide(node.src[0]) if host else f.value(node.src[0])
    if node.payload(payload.Range).kind == "thread":
        if not host:
            raise RenderError("LLVM: a thread axis on a grid target")
        start, stop = "%begin", "%end"
    label = f.fresh("loop")
    guard = f.block
    if info.may_skip:
        some = f.emit(f"icmp slt {t} {start}, {stop}")
        head = f.fresh("head")
        f.effect(f"br i1 {some}, label %{head}, label %{label}.end")
        f.begin(head)
    f.effect(f"br label %{label}")
    before, entry = f.block, {s: f.slots.get(s, "poison") for s in info.stored}
    f.begin(label)
    counter = f"%{f.fresh('i')}"
    line = f.hole()
    phis: list[tuple[Slot, int, str]] = []
    for slot in info.carried():
        name = f"%{f.fresh('r')}"
        phis.append((slot, f.hole(), name))
        f.slots[slot] = name
    if host:
        f.set_wide(node, counter)
    else:
        f.values[node] = counter
    f.scopes.append({})
    f.open.append(OpenLoop(node, info, label, counter, t, start, stop, guard, before, line, phis, entry))


def render_end(f: Function, node: UOp) -> None:
    """Write the end of a loop, and fill the holes at its head."""
    loop = f.open.pop()
    assert loop.node is node.src[0], "slots.traffic has checked the nesting"
    t, last = loop.kind, f.block
    after = f.emit(f"add nsw {t} {loop.counter}, 1")
    more = f.emit(f"icmp slt {t} {after}, {loop.stop}")
    f.effect(f"br i1 {more}, label %{loop.label}, label %{loop.label}.end")
    f.lines[loop.counter_line] = (
        f"  {loop.counter} = phi {t} [ {loop.start}, %{loop.before} ], [ {after}, %{last} ]"
    )
    for slot, line, name in loop.phis:
        edges = f"[ {loop.entry[slot]}, %{loop.before} ], [ {f.slots[slot]}, %{last} ]"
        f.lines[line] = f"  {name} = phi {_slot_type(slot)} {edges}"
    f.scopes.pop()
    f.begin(f"{loop.label}.end")
    if loop.info.may_skip:
        for slot, old in loop.entry.items():
            f.slots[slot] = f.emit(
                f"phi {_slot_type(slot)} [ {old}, %{loop.guard} ], [ {f.slots[slot]}, %{last} ]"
            )


def render_barrier(f: Function, node: UOp) -> None:
    """Write a BARRIER: what was stored before it is visible to the group after it."""
    if f.dialect.kind == "host":
        return  # a group is one thread there
    f.effect('fence syncscope("workgroup") release')
    f.effect("call void @llvm.amdgcn.s.barrier()")
    f.effect('fence syncscope("workgroup") acquire')
