"""Linearization: a loops-stage graph to an ordered list.

In: a SINK whose effects are closed by END. Out: a LINEAR node. Every node stands in the innermost loop that
it depends on, and in no deeper one, so what does not change in a loop is computed before it. Loops run one
after the other where AFTER says so, and as soon as something needs them.
"""

from __future__ import annotations

from tiny_core import dtypes
from tiny_core.ir.ops import Ops
from tiny_core.ir.payload import KernelInfo
from tiny_core.ir.uop import UOp


def linearize(sink: UOp, info: KernelInfo) -> UOp:
    """Return the LINEAR node of a kernel."""
    return _Linearizer(sink).run(info)


class _Linearizer:
    def __init__(self, sink: UOp) -> None:
        self.sink = sink
        order = sink.toposort()
        self.end_of = {n.src[0]: n for n in order if n.op is Ops.END}
        self.depth: dict[UOp, int] = {}
        self.block: dict[UOp, UOp | None] = {}
        self.nests: dict[UOp, frozenset[UOp]] = {}
        for r in self.end_of:
            self._depth(r)
        for n in order:
            self.block[n] = max(n.ranges, key=self.depth.__getitem__, default=None)

    def _depth(self, r: UOp) -> int:
        """Loops around and including that of `r`."""
        if r not in self.depth:
            self.depth[r] = 1 + max((self._depth(o) for o in self.end_of[r].ranges), default=0)
        return self.depth[r]

    def inside(self, node: UOp, r: UOp) -> bool:
        """Whether a node stands within the loop of `r`."""
        block = self.block[node]
        return block is not None and r in self.around(block)

    def around(self, r: UOp) -> frozenset[UOp]:
        """The ranges of all loops around and including that of `r`."""
        known = self.nests.get(r)
        if known is None:
            parent = max(self.end_of[r].ranges, key=self.depth.__getitem__, default=None)
            known = self.nests[r] = (self.around(parent) if parent is not None else frozenset()) | {r}
        return known

    def run(self, info: KernelInfo) -> UOp:
        out: dict[UOp, None] = {}
        # tasks: visit a node; append one; open a loop once all it needs from outside is there
        stack: list[tuple[str, UOp]] = [("visit", s) for s in reversed(self.sink.src)]
        while stack:
            what, node = stack.pop()
            if node in out:
                continue
            if what == "append":
                out[node] = None
            elif what == "body":
                r = node.src[0]
                out[r] = None
                stack.append(("append", node))
                stack.extend(("visit", s) for s in reversed(node.src[1:]))
            elif node.op is Ops.END:
                stack.append(("body", node))
                stack.extend(("visit", n) for n in reversed(self.needed(node)))
            else:
                stack.append(("append", node))
                stack.extend(("visit", s) for s in reversed(node.src) if s not in out)
        return UOp(Ops.LINEAR, dtypes.void, tuple(out), info)

    def needed(self, end: UOp) -> list[UOp]:
        """Return what the loop closed by `end` uses from outside, in the order of use."""
        r = end.src[0]
        found: dict[UOp, None] = dict.fromkeys(r.src)
        seen: set[UOp] = {r, end}
        stack = list(reversed(end.src[1:]))
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if self.inside(node, r):
                stack.extend(reversed(node.src))
            elif node.op is not Ops.RANGE:
                found[node] = None
        return list(found)
