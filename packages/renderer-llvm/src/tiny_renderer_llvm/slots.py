"""Register slots as SSA values: which slots does each loop carry?

In: a linear list. Out: the slot of each LOAD and STORE of registers, and for each RANGE the slots its body
stores, and those of them whose value at the loop's entry can still be read (by the body, before it stores
them). The renderer needs a phi for these only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tiny_core.api import Ops, RenderError, UOp, payload

Slot = tuple[UOp, int]


@dataclass(slots=True)
class Loop:
    """Register traffic of a loop's body.

    Args:
        stored: slots that the body may store, in order of first store.
        exposed: slots read before the body has surely stored them.
        certain: slots that each iteration stores.
        may_skip: whether the loop may run zero times.
    """

    stored: dict[Slot, None] = field(default_factory=dict)
    exposed: dict[Slot, None] = field(default_factory=dict)
    certain: set[Slot] = field(default_factory=set)
    may_skip: bool = False

    def carried(self) -> list[Slot]:
        """Return the slots that need a phi at the loop's head."""
        return [s for s in self.stored if s in self.exposed]

    def read(self, slot: Slot) -> None:
        if slot not in self.certain:
            self.exposed[slot] = None

    def write(self, slot: Slot, certain: bool = True) -> None:
        self.stored[slot] = None
        if certain:
            self.certain.add(slot)

    def close(self, inner: Loop) -> None:
        """Take over what an inner loop does."""
        for slot in inner.exposed:
            self.read(slot)
        for slot in inner.stored:
            if inner.may_skip:
                self.read(slot)  # past a skipped loop the old value lives on
            self.write(slot, not inner.may_skip and slot in inner.certain)


def _slot(node: UOp) -> Slot | None:
    base = node.src[0].base
    if base.op is not Ops.BUFFER or base.payload(payload.Storage).space != "register":
        return None
    if not node.src[1].is_const:
        raise RenderError("LLVM: a register slot number must be a constant")
    return base, node.src[1].payload(payload.Const).bits


def may_skip(loop: UOp) -> bool:
    """Return whether the RANGE `loop` may run zero times."""
    stop = loop.src[0]
    if loop.payload(payload.Range).kind == "thread":
        return True
    if stop.is_const:
        return stop.value < 1
    return not (stop.op is Ops.VARIABLE and stop.payload(payload.Variable).lo >= 1)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Register traffic of a kernel.

    Args:
        loops: what each RANGE's body does.
        slots: the slot that a LOAD or STORE touches; those that touch memory are absent.
    """

    loops: dict[UOp, Loop]
    slots: dict[UOp, Slot]


def traffic(nodes: tuple[UOp, ...]) -> Traffic:
    """Return the register traffic of a linear list.

    Raises:
        RenderError: loops do not nest, or a slot number is not a constant.
    """
    loops: dict[UOp, Loop] = {}
    slots: dict[UOp, Slot] = {}
    stack = [Loop()]
    for node in nodes:
        op = node.op
        if op is Ops.LOAD or op is Ops.STORE:
            slot = _slot(node)
            if slot is None:
                continue
            slots[node] = slot
            if op is Ops.LOAD:
                stack[-1].read(slot)
            else:
                stack[-1].write(slot)
        elif op is Ops.RANGE:
            stack.append(Loop(may_skip=may_skip(node)))
            loops[node] = stack[-1]
        elif op is Ops.END:
            if len(stack) < 2 or loops.get(node.src[0]) is not stack[-1]:
                raise RenderError("LLVM: END does not close the innermost open RANGE")
            inner = stack.pop()
            stack[-1].close(inner)
    if len(stack) != 1:
        raise RenderError("LLVM: a RANGE is never closed")
    return Traffic(loops, slots)
