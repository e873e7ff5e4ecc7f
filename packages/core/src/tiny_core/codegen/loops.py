"""Loops: one RANGE per loop.

In: a kernel whose reductions may share RANGEs although one needs the other's result (softmax: its maximum, its sum). Out:
the same kernel, where two REDUCEs close the same RANGE only if one loop can serve both: equally deep in reductions and
inside the same outer loops. The others run over copies of the axis (`Range.instance`).
"""

from __future__ import annotations

from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp


def separate(kernel: UOp) -> UOp:
    """Return the kernel with a RANGE of its own for every loop."""
    done: dict[UOp, UOp] = {}
    level: dict[UOp, int] = {}
    copies: dict[tuple[int, frozenset[UOp], UOp], UOp] = {}
    instances: dict[str, int] = {}
    for node in kernel.toposort():
        src = tuple(done[s] for s in node.src)
        level[node] = max((level[s] for s in node.src), default=0)
        if node.op is Ops.REDUCE:
            level[node] += 1
            outer = src[0].ranges.difference(node.src[1:])
            mapping: dict[UOp, UOp] = {}
            for r in node.src[1:]:
                key = (level[node], outer, r)
                if key not in copies:
                    arg = r.payload(p.Range)
                    number = instances.get(arg.axis, 0)
                    instances[arg.axis] = number + 1
                    copies[key] = UOp(Ops.RANGE, r.dtype, r.src, p.Range(arg.axis, arg.kind, number))
                mapping[r] = copies[key]
            body = _substitute_free(src[0], mapping)
            done[node] = UOp(Ops.REDUCE, node.dtype, (body, *(mapping[r] for r in node.src[1:])), node.arg)
        else:
            done[node] = node if src == node.src else node.replace(src)
    return done[kernel]


def _substitute_free(node: UOp, mapping: dict[UOp, UOp]) -> UOp:
    """Replace RANGEs where they are free. Inner reductions over the same axis already have copies of their own."""
    if all(old is new for old, new in mapping.items()):
        return node
    done: dict[UOp, UOp] = dict(mapping)
    keys = mapping.keys()
    for n in node.toposort(lambda n: n not in mapping and not keys.isdisjoint(n.ranges)):
        if n in done:
            continue
        if keys.isdisjoint(n.ranges):
            done[n] = n
            continue
        src = tuple(done[s] for s in n.src)
        done[n] = n if src == n.src else n.replace(src)
    return done[node]
