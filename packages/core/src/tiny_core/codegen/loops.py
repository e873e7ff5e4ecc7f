"""Loops: one RANGE per loop.

In: a kernel whose reductions may share RANGEs although one needs the other's result (softmax: its maximum,
its sum). Out: the same kernel, where two REDUCEs close the same RANGE only if one loop can serve both:
equally deep in reductions and inside the same outer loops. The others run over copies of the axis
(`Range.instance`).
"""

from __future__ import annotations

from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp

_Loop = tuple[int, frozenset[UOp], frozenset[tuple[UOp, str]], str]


def separate(kernel: UOp) -> UOp:
    """Return the kernel with a RANGE of its own for every loop."""
    return _Separator().run(kernel)


class _Separator:
    """Loops are told apart by how deep their reductions are, what runs around them, and all ranges that close
    with them.

    Attributes:
        level: how many reductions, one needing the other, a REDUCE of the result ends.
        copies: the RANGE that an axis has in a loop.
        instances: how many loops an axis has by now.
    """

    def __init__(self) -> None:
        self.level: dict[UOp, int] = {}
        self.copies: dict[_Loop, UOp] = {}
        self.instances: dict[str, int] = {}

    def run(self, kernel: UOp) -> UOp:
        done: dict[UOp, UOp] = {}
        level: dict[UOp, int] = {}
        for node in kernel.toposort():
            src = tuple(done[s] for s in node.src)
            level[node] = max((level[s] for s in node.src), default=0)
            if node.op is Ops.REDUCE:
                level[node] += 1
                outer = src[0].ranges.difference(node.src[1:])
                done[node] = self.reduce(node, src[0], level[node], outer, {})
            else:
                done[node] = node if src == node.src else node.replace(src)
        return done[kernel]

    def reduce(self, node: UOp, body: UOp, level: int, outer: frozenset[UOp], renamed: dict[UOp, UOp]) -> UOp:
        """Return a REDUCE of `body` over ranges of its own (or its siblings'), where `renamed` also holds."""
        closed = frozenset((r.src[0], r.payload(p.Range).axis) for r in node.src[1:])
        mapping = dict(renamed)
        for r in node.src[1:]:
            arg = r.payload(p.Range)
            key = (level, outer, closed, arg.axis)
            if key not in self.copies:
                number = self.instances.get(arg.axis, 0)
                self.instances[arg.axis] = number + 1
                self.copies[key] = UOp(Ops.RANGE, r.dtype, r.src, p.Range(arg.axis, arg.kind, number))
            mapping[r] = self.copies[key]
        made = UOp(
            Ops.REDUCE,
            node.dtype,
            (self.rename(body, mapping), *(mapping[r] for r in node.src[1:])),
            node.arg,
        )
        self.level[made] = level
        return made

    def rename(self, node: UOp, mapping: dict[UOp, UOp]) -> UOp:
        """Replace RANGEs where they are free. Reductions inside then run in another loop: so they get other
        ranges too."""
        if all(old is new for old, new in mapping.items()):
            return node
        done: dict[UOp, UOp] = dict(mapping)
        keys = mapping.keys()

        def enter(n: UOp) -> bool:
            return n not in mapping and n.op is not Ops.REDUCE and not keys.isdisjoint(n.ranges)

        for n in node.toposort(enter):
            if n in done:
                continue
            if keys.isdisjoint(n.ranges):
                done[n] = n
            elif n.op is Ops.REDUCE:
                free = {r: mapping[r] for r in n.ranges if r in mapping}
                outer = frozenset(free.get(r, r) for r in n.ranges)
                done[n] = self.reduce(n, n.src[0], self.level[n], outer, free)
            else:
                src = tuple(done[s] for s in n.src)
                done[n] = n if src == n.src else n.replace(src)
        return done[node]
