"""Limits of one kernel: expressions over very many arrays, or very deep ones, are cut before borders are
weighed.

In: a graph's nodes, sources first, and those that are stored anyway. Out: further nodes to store. Afterwards
no element-wise expression between stored nodes and reductions reads more than MOST_ARRAYS arrays or is deeper
than MOST_DEEP operations, so that compiling a kernel never takes longer than a graph is large.
"""

from __future__ import annotations

from tiny_core.ir.ops import ELEMENTWISE, MOVEMENT, Ops
from tiny_core.ir.uop import UOp

MOST_ARRAYS = 24
MOST_DEEP = 128

_LEAVES = (Ops.BUFFER, Ops.PARAM, Ops.AFTER, Ops.COPY)


def cuts(order: list[UOp], stops: set[UOp]) -> set[UOp]:
    """Return element-wise nodes to store so that every expression keeps within the limits."""
    made: set[UOp] = set()
    arrays: dict[UOp, frozenset[UOp]] = {}
    depth: dict[UOp, int] = {}
    below: dict[UOp, UOp] = {}  # what movements move

    def cut(node: UOp) -> None:
        """Store the deepest or widest source that is worth storing."""
        best = below[max(node.src, key=lambda s: (len(arrays[s]), depth[s]))]
        if best.op in ELEMENTWISE and best not in made:
            made.add(best)
            arrays[best], depth[best] = frozenset({best}), 0

    for node in order:
        below[node] = below[node.src[0]] if node.op in MOVEMENT else node
        if node.op in _LEAVES or node.op is Ops.REDUCE or node in stops:
            arrays[node], depth[node] = frozenset({node}), 0
            continue
        sources = list(dict.fromkeys(node.src))
        for _ in range(1 + len(sources)):
            here = frozenset[UOp]().union(*(arrays[s] for s in sources))
            deep = 1 + max((depth[s] for s in sources), default=0)
            if len(here) <= MOST_ARRAYS and deep <= MOST_DEEP:
                break
            cut(node)
            # movements over what was just cut show it as one array
            for s in sources:
                if s.op in MOVEMENT and below[s] in made:
                    arrays[s], depth[s] = arrays[below[s]], 0
        arrays[node], depth[node] = here, deep
    return made
