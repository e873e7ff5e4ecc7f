"""The loops of a linear kernel as a tree, and what can be said about them before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tiny_core.api import ELEMENTWISE, Ops, SpecError, UOp, payload


@dataclass(slots=True, eq=False)
class Block:
    """A loop, or (without axis) the whole kernel: its nodes and loops in order."""

    axis: UOp | None
    entries: list[UOp | Block] = field(default_factory=list)
    end: UOp | None = None

    def nodes(self) -> Iterator[UOp]:
        """All nodes within, in order."""
        for entry in self.entries:
            if isinstance(entry, Block):
                yield from entry.nodes()
            else:
                yield entry

    def effects(self) -> list[UOp | Block]:
        """Entries that do something besides having a value."""
        return [e for e in self.entries if isinstance(e, Block) or _is_effect(e)]


def _is_effect(node: UOp) -> bool:
    if node.op is Ops.TARGET:
        return node.payload(payload.TargetOp).effect != "pure"
    return node.op in (Ops.STORE, Ops.BARRIER)


def in_register(node: UOp) -> bool:
    """Whether a LOAD or STORE is of a register slot."""
    base = node.src[0].base
    return base.op is Ops.BUFFER and base.payload(payload.Storage).space == "register"


def register_slot(node: UOp) -> tuple[UOp, int]:
    """Return buffer and slot of a LOAD or STORE of a register; raises SpecError unless the slot is a
    constant."""
    base, index = node.src[0].base, node.src[1]
    if index.op is not Ops.CONST or not 0 <= int(index.value) < base.payload(payload.Storage).size:
        raise SpecError(f"a register slot is a constant below the buffer's size, not {index}")
    return base, int(index.value)


def parse_blocks(linear: UOp) -> Block:
    """Return the loops of a LINEAR node; raises SpecError where they do not nest."""
    stack = [Block(None)]
    for number, node in enumerate(linear.src):
        if node.op is Ops.RANGE:
            block = Block(node)
            stack[-1].entries.append(block)
            stack.append(block)
        elif node.op is Ops.END:
            if stack[-1].axis is not node.src[0]:
                raise SpecError(f"node {number} ends a loop that is not the innermost one")
            stack.pop().end = node
        else:
            stack[-1].entries.append(node)
    if len(stack) > 1:
        raise SpecError(f"a loop over {stack[-1].axis} has no end")
    return stack[0]


def depths(root: Block, chain: list[Block]) -> list[int]:
    """How many loops of the chain may become items, as far as registers tell: their slots must be written
    anew in each iteration before they are read."""
    threaded = bool(chain) and is_thread(chain[0])
    found = [1 if threaded else 0]
    everything = list(root.nodes())
    shared = any(
        n.op in (Ops.SPECIAL, Ops.BARRIER, Ops.TARGET)
        or (n.op is Ops.BUFFER and n.payload(payload.Storage).space != "register")
        for n in everything
    )
    if shared:  # near memory keeps what an earlier iteration left, and grids have items of their own
        return found
    for depth in range(found[0] + 1, len(chain) + 1):
        block = chain[depth - 1]
        axis = block.axis
        assert axis is not None
        if not _is_uniform(axis.src[0]):
            break
        within = list(block.nodes())
        outside = set(everything).difference(within)
        if any(n.op in (Ops.LOAD, Ops.STORE) and in_register(n) for n in outside):
            continue
        if _registers_start_fresh(block, within):
            found.append(depth)
    return found


def is_thread(block: Block) -> bool:
    """Whether a loop is the thread axis."""
    assert block.axis is not None
    return block.axis.payload(payload.Range).kind == "thread"


def _is_uniform(node: UOp) -> bool:
    return all(n.op in (Ops.CONST, Ops.VARIABLE) or n.op in ELEMENTWISE for n in node.toposort())


def _registers_start_fresh(block: Block, within: list[UOp]) -> bool:
    here = {e for e in block.entries if isinstance(e, UOp)}
    fresh: set[tuple[UOp, int]] = set()
    for node in within:
        if node.op not in (Ops.LOAD, Ops.STORE) or not in_register(node):
            continue
        slot = register_slot(node)
        if slot in fresh:
            continue
        if node.op is Ops.LOAD or len(node.src) > 3 or node not in here:
            return False
        fresh.add(slot)
    return True
