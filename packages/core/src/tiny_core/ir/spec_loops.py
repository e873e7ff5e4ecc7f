"""The specifications of graphs of loops: what expansion leaves, and each pass up to linearization.

In: the nodes of such a graph, sources first. Out: what is wrong, if anything. REDUCE is gone: accumulators
are registers, every effect is closed by the END of its loops, and AFTER orders effects.

- `loops` (after expand, and after rules of plugins): values are scalars or have lanes.
- `ordered` (after barriers.insert): what items share goes through barriers.
- `committed` (after commit): no weak dtypes; indices are machine integers.
- `decomposed` (after decompose, and up to linearization): only what the target declares.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiny_core import dtypes
from tiny_core.ir import payload as p
from tiny_core.ir.matrix import MatrixUnit
from tiny_core.ir.ops import EFFECTS, ELEMENTWISE, Ops
from tiny_core.ir.spec_common import Given, Limits, NodeRule, Spec, identities, memory_access, near, table
from tiny_core.ir.spec_kernel import sink
from tiny_core.ir.uop import UOp

# ---- loops: after expand -------------------------------------------------------------------------


def vector(n: UOp) -> str | None:
    """The rule that a value is a scalar or has lanes."""
    return "a value is a scalar or has lanes" if len(n.shape) > 1 else None


def _loop(n: UOp) -> str | None:
    kind = n.payload(p.Range).kind
    return None if kind in LOOP_KINDS else f"a loop is one of {', '.join(sorted(LOOP_KINDS))}, not {kind}"


def _given(n: UOp) -> str | None:
    if n.src[0].op is Ops.BUFFER:
        return "registers and near memory are loaded from after something has been stored"
    return memory_access(n)


def _whole(n: UOp) -> str | None:
    wrong = sink(n)
    if wrong is None and n.ranges:
        names = ", ".join(sorted(r.payload(p.Range).axis for r in n.ranges))
        return f"every loop is closed, but {names}"
    return wrong


def _ended_once(nodes: Sequence[UOp], given: Given) -> tuple[UOp, str] | None:
    """A loop has one END."""
    ends: dict[UOp, UOp] = {}
    for n in nodes:
        if n.op is Ops.END and ends.setdefault(n.src[0], n) is not n:
            return n, f"a loop has one end, but {n.src[0].payload(p.Range).axis} has more"
    return None


def lanes_of(n: UOp, limits: Limits) -> str | None:
    """The rule that a value has as many lanes as the target has."""
    if not n.shape or n.op in MEMORY or n.dtype is dtypes.bool_ or n.dtype not in limits.dtypes:
        return None
    if n.shape[0] in limits.widths(n.dtype):
        return None
    return f"the target has no {n.dtype.name} of {n.shape[0]} lanes"


def _fused(n: UOp, limits: Limits) -> str | None:
    if n.op is Ops.MULACC and n.dtype not in limits.fma:
        return f"mulacc is for dtypes of which it is one instruction, not {n.dtype.name}"
    return None


MEMORY = frozenset({Ops.PARAM, Ops.BUFFER, Ops.AFTER})
LOOP_KINDS = frozenset({"loop", "reduce", "thread"})
LOOPS_OPS = ELEMENTWISE | EFFECTS | {
    Ops.CONST, Ops.BUFFER, Ops.PARAM, Ops.VARIABLE, Ops.RANGE, Ops.SPECIAL, Ops.LOAD, Ops.STORE, Ops.AFTER,
    Ops.STACK, Ops.INDEX, Ops.SHUFFLE, Ops.MATRIX, Ops.SINK, Ops.TARGET,
}  # fmt: skip
LOOPS_RULES: dict[Ops, NodeRule] = {
    Ops.BUFFER: near,
    **dict.fromkeys(ELEMENTWISE, vector),
    Ops.LOAD: memory_access,
    Ops.STORE: memory_access,
    Ops.SINK: sink,
}
"""What also holds in linear lists."""

_CLOSED: dict[Ops, NodeRule] = {**LOOPS_RULES, Ops.RANGE: _loop, Ops.LOAD: _given, Ops.SINK: _whole}
LOOPS = Spec("loops", table(LOOPS_OPS, _CLOSED), (identities, _ended_once), (lanes_of, _fused))


# ---- ordered: after barriers.insert --------------------------------------------------------------


def _shared(n: UOp) -> bool:
    base = n.base
    return base.op is Ops.BUFFER and base.payload(p.Storage).space not in ("register", "global")


def _seen(n: UOp) -> str | None:
    if _shared(n) and any(s.op in (Ops.STORE, Ops.END) for s in n.src[1:]):
        return "items read what others have stored after a barrier"
    return None


def _refilled(nodes: Sequence[UOp], given: Given) -> tuple[UOp, str] | None:
    """A loop that fills near memory and reads it lets all items finish reading before the next fill."""
    filled: dict[UOp, set[UOp]] = {}
    read: dict[UOp, set[UOp]] = {}
    for n in nodes:
        if n.op in (Ops.STORE, Ops.LOAD) and _shared(n.src[0]):
            for r in n.ranges:
                (filled if n.op is Ops.STORE else read).setdefault(r, set()).add(n.src[0].base)
    for n in nodes:
        if n.op is not Ops.END or all(s.op is Ops.BARRIER for s in n.src[1:]):
            continue
        if not filled.get(n.src[0], set()).isdisjoint(read.get(n.src[0], ())):
            return n, "a loop that fills near memory and reads it ends with a barrier"
    return None


ORDERED = Spec(
    "ordered",
    table(LOOPS_OPS, _CLOSED, {Ops.AFTER: _seen}),
    (identities, _ended_once, _refilled),
    (lanes_of, _fused),
)


# ---- committed: after commit ---------------------------------------------------------------------


def strong(n: UOp) -> str | None:
    """The rule that no weak dtypes are left."""
    return "there are no weak dtypes" if n.dtype.is_weak else None


def _machine(n: UOp) -> str | None:
    if n.dtype.is_weak:
        return "there are no weak dtypes"
    return None if n.src[1].dtype in (dtypes.int32, dtypes.int64) else "an index is int32 or int64"


def _machine_size(n: UOp) -> str | None:
    return None if n.dtype in (dtypes.int32, dtypes.int64) else "the size of a loop is int32 or int64"


_VALUES = ELEMENTWISE | {Ops.CONST, Ops.VARIABLE, Ops.STACK, Ops.INDEX, Ops.SHUFFLE, Ops.TARGET, Ops.MATRIX}
COMMITTED_RULES: dict[Ops, NodeRule] = {
    **dict.fromkeys(_VALUES, strong),
    **dict.fromkeys((Ops.RANGE, Ops.SPECIAL), _machine_size),
    **dict.fromkeys((Ops.LOAD, Ops.STORE), _machine),
}
COMMITTED = Spec(
    "committed", table(LOOPS_OPS, _CLOSED, COMMITTED_RULES), (identities, _ended_once), (lanes_of, _fused)
)


# ---- decomposed: after decompose -----------------------------------------------------------------


def beyond(n: UOp, limits: Limits) -> str | None:
    """What is wrong with a node on a target: its op, dtype, lanes or address space is none it declares."""
    op, dtype = n.op, n.dtype
    if op is Ops.AFTER:
        return None
    if op in MEMORY:
        arg = n.arg
        assert isinstance(arg, p.Param | p.Storage)
        if limits.space(arg.space) is None:
            return f"the target has no address space {arg.space!r}"
        lanes = arg.lanes if isinstance(arg, p.Storage) else 0
    else:
        lanes = n.shape[0] if n.shape else 0
    # masks have as many lanes as what they mask
    widths = {w for _, some in limits.lanes for w in some} if dtype is dtypes.bool_ else limits.widths(dtype)
    if lanes and lanes not in widths:
        return f"the target has no {dtype.name} of {lanes} lanes"
    if dtype not in limits.dtypes and dtype is not dtypes.void and dtype is not dtypes.bool_:
        return f"the target has no {dtype.name}"
    if op in ELEMENTWISE:
        of = n.src[1 if op is Ops.WHERE else 0].dtype
        return None if limits.supports(op, of) else f"the target has no {op.value} of {of.name}"
    if op is Ops.MATRIX and n.arg not in limits.matrices:
        return f"the target has no matrix unit {n.payload(MatrixUnit).name}"
    if op is Ops.SPECIAL and limits.launch != "grid":
        return "special is for grid targets"
    if op is Ops.RANGE and n.payload(p.Range).kind == "thread" and limits.launch != "threads":
        return "thread ranges are for targets that launch threads"
    return None


DECOMPOSED = Spec("decomposed", COMMITTED.rules, (identities, _ended_once), (beyond,))
