"""The specification of linear lists, the contract of renderers (`docs/decisions/0001-contracts.md`, linear,
rules 1 to 8).

In: the nodes of a LINEAR in order, and what the target can do. Out: what is wrong, if anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiny_core import dtypes
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.spec_common import Given, NodeRule, Spec, identities, table
from tiny_core.ir.spec_loops import COMMITTED_RULES, LOOP_KINDS, LOOPS_OPS, LOOPS_RULES, MEMORY, beyond
from tiny_core.ir.uop import UOp

_LEAVES = frozenset({Ops.CONST, Ops.PARAM, Ops.VARIABLE, Ops.BUFFER, Ops.SPECIAL})
_TOGETHER = frozenset({Ops.BARRIER, Ops.MATRIX})


def _alias(n: UOp) -> str | None:
    return None if n.base.op in MEMORY else "after is an alias of memory"


def _loop(n: UOp) -> str | None:
    if n.payload(p.Range).kind not in LOOP_KINDS:
        return f"a loop is one of {', '.join(sorted(LOOP_KINDS))}"
    return None


def _nested(nodes: Sequence[UOp], given: Given) -> tuple[UOp, str] | None:
    """Sources come before users, loops nest, and no value leaves its loop."""
    place: dict[UOp, tuple[UOp, ...]] = {}  # the loops around each node
    loops: tuple[UOp, ...] = ()
    threads = 0
    for n in nodes:
        if n in place:
            return n, "a node is listed once"
        for s in n.src:
            if s not in place:
                return n, f"a source comes before its user, but {s.op.value} does not"
        if n.op is Ops.END:
            if not loops or n.src[0] is not loops[-1]:
                return n, "end closes the innermost open loop"
            loops = loops[:-1]
        else:
            for s in n.src:
                if s.dtype is not dtypes.void and s.op not in _LEAVES and s.op not in MEMORY:
                    around = place[s]
                    if loops[: len(around)] != around:
                        return n, f"a value does not leave its loop, but {s.op.value} does"
        place[n] = loops
        if n.op is Ops.RANGE:
            if n.payload(p.Range).kind == "thread":
                threads += 1
                if loops or threads > 1:
                    return n, "one thread range at most, and it is outermost"
            loops = (*loops, n)
            place[n] = loops
    return (loops[-1], "every loop is closed") if loops else None


def _uniform(nodes: Sequence[UOp], given: Given) -> tuple[UOp, str] | None:
    """A loop around a barrier or matrix unit runs equally often for all items: its size depends on no
    item."""
    if not any(n.op in _TOGETHER for n in nodes):
        return None
    varying: set[UOp] = set()
    loops: list[UOp] = []
    for n in nodes:
        item = isinstance(n.arg, p.Special) and n.arg.level == "item"
        if item or n.op is Ops.LOAD or (n.op is not Ops.RANGE and any(s in varying for s in n.src)):
            varying.add(n)
        if n.op is Ops.RANGE:
            loops.append(n)
            if n.src[0] in varying:
                varying.add(n)
        elif n.op is Ops.END:
            loops.pop()
        elif n.op in _TOGETHER and any(r.src[0] in varying for r in loops):
            return n, f"a {n.op.value} is in uniform control flow"
    return None


def _taken(nodes: Sequence[UOp], given: Given) -> tuple[UOp, str] | None:
    """A kernel has no more params than the target passes."""
    most = given.limits.max_params if given.limits is not None else 0
    params = [n for n in nodes if n.op is Ops.PARAM]
    return (params[most], f"the target takes {most} params at most") if 0 < most < len(params) else None


_RULES: dict[Ops, NodeRule] = {Ops.AFTER: _alias, Ops.RANGE: _loop}
LINEAR = Spec(
    "linear",
    table(LOOPS_OPS - {Ops.SINK}, LOOPS_RULES, COMMITTED_RULES, _RULES),
    (_nested, identities, _uniform, _taken),
    (beyond,),
    root=Ops.LINEAR,
)
