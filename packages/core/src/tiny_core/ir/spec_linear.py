"""The specification of linear lists, the contract of renderers (`docs/decisions/0001-contracts.md`, linear,
rules 1 to 8).

In: a LINEAR, and what the target can do. Out: nothing; raises SpecError.
"""

from __future__ import annotations

from collections.abc import Iterable

from tiny_core import dtypes
from tiny_core.ir import payload as p
from tiny_core.ir.ops import ALU, CONVERT, ELEMENTWISE, Ops
from tiny_core.ir.spec import (
    LINEAR_OPS,
    LOOPS,
    Limits,
    check_identities,
    check_node,
    check_owners,
    fail,
)
from tiny_core.ir.uop import UOp

_STAGE = "linear"
_LEAVES = frozenset({Ops.CONST, Ops.PARAM, Ops.VARIABLE, Ops.BUFFER, Ops.SPECIAL})
_MEMORY = frozenset({Ops.PARAM, Ops.BUFFER, Ops.AFTER})
_LOOP_KINDS = frozenset({"loop", "reduce", "thread"})


def check_linear(root: UOp, capabilities: Limits | None, owners: Iterable[str] | None) -> None:
    """Check a LINEAR; see `spec.check`."""
    if root.op is not Ops.LINEAR or not isinstance(root.arg, p.KernelInfo | None):
        fail(_STAGE, root, "the root is a LINEAR")
    for n in root.src:
        if n.op not in LINEAR_OPS:
            fail(_STAGE, n, f"{n.op.value} does not occur at this stage")
        wrong = check_node(n, LOOPS) or _own(n)
        if wrong is not None:
            fail(_STAGE, n, wrong)
    _check_order(root)
    check_identities(_STAGE, root.src)
    if any(n.op is Ops.BARRIER for n in root.src):
        _check_uniform(root)
    if owners is not None:
        check_owners(_STAGE, root.src, owners)
    if capabilities is not None:
        _check_limits(root, capabilities)


def _own(n: UOp) -> str | None:
    """Rules of single nodes that only linear lists have."""
    if n.dtype.is_weak:
        return "there are no weak dtypes"
    if n.op is Ops.RANGE and n.payload(p.Range).kind not in _LOOP_KINDS:
        return f"a loop is one of {', '.join(sorted(_LOOP_KINDS))}"
    if n.op in (Ops.LOAD, Ops.STORE) and n.src[1].dtype not in (dtypes.int32, dtypes.int64):
        return "an index is int32 or int64"
    if n.op is Ops.AFTER and n.base.op not in _MEMORY:
        return "after is an alias of memory"
    return None


def _check_order(root: UOp) -> None:
    """Sources come before users, loops nest, and no value leaves its loop."""
    place: dict[UOp, tuple[UOp, ...]] = {}  # the loops around each node
    loops: tuple[UOp, ...] = ()
    threads = 0
    for n in root.src:
        if n in place:
            fail(_STAGE, n, "a node is listed once")
        for s in n.src:
            if s not in place:
                fail(_STAGE, n, f"a source comes before its user, but {s.op.value} does not")
        if n.op is Ops.END:
            if not loops or n.src[0] is not loops[-1]:
                fail(_STAGE, n, "end closes the innermost open loop")
            loops = loops[:-1]
        else:
            for s in n.src:
                if s.dtype is not dtypes.void and s.op not in _LEAVES and s.op not in _MEMORY:
                    around = place[s]
                    if loops[: len(around)] != around:
                        fail(_STAGE, n, f"a value does not leave its loop, but {s.op.value} does")
        place[n] = loops
        if n.op is Ops.RANGE:
            if n.payload(p.Range).kind == "thread":
                threads += 1
                if loops or threads > 1:
                    fail(_STAGE, n, "one thread range at most, and it is outermost")
            loops = (*loops, n)
            place[n] = loops
    if loops:
        fail(_STAGE, loops[-1], "every loop is closed")


def _check_uniform(root: UOp) -> None:
    """A loop around a barrier runs equally often for all items: its size depends on no item."""
    varying: set[UOp] = set()
    loops: list[UOp] = []
    for n in root.src:
        item = isinstance(n.arg, p.Special) and n.arg.level == "item"
        if item or n.op is Ops.LOAD or (n.op is not Ops.RANGE and any(s in varying for s in n.src)):
            varying.add(n)
        if n.op is Ops.RANGE:
            loops.append(n)
            if n.src[0] in varying:
                varying.add(n)
        elif n.op is Ops.END:
            loops.pop()
        elif n.op is Ops.BARRIER and any(r.src[0] in varying for r in loops):
            fail(_STAGE, n, "a barrier is in uniform control flow")


def _check_limits(root: UOp, limits: Limits) -> None:
    """Ops, dtypes, widths and address spaces are ones the target declares."""
    widths = {lanes for _, some in limits.lanes for lanes in some}
    params = 0
    for n in root.src:
        op, dtype = n.op, n.dtype
        if op in _MEMORY:
            if op is Ops.AFTER:
                continue
            arg = n.arg
            assert isinstance(arg, p.Param | p.Storage)
            params += op is Ops.PARAM
            if limits.space(arg.space) is None:
                fail(_STAGE, n, f"the target has no address space {arg.space!r}")
            lanes = arg.lanes if isinstance(arg, p.Storage) else 0
            if lanes and lanes not in (widths if dtype is dtypes.bool_ else limits.widths(dtype)):
                fail(_STAGE, n, f"the target has no {dtype.name} of {lanes} lanes")
        elif n.shape and n.shape[0] not in (widths if dtype is dtypes.bool_ else limits.widths(dtype)):
            fail(_STAGE, n, f"the target has no {dtype.name} of {n.shape[0]} lanes")
        if dtype not in limits.dtypes and dtype is not dtypes.void and dtype is not dtypes.bool_:
            fail(_STAGE, n, f"the target has no {dtype.name}")
        if op in ELEMENTWISE:
            assert op in ALU or op in CONVERT
            of = n.src[1 if op is Ops.WHERE else 0].dtype
            if not limits.supports(op, of):
                fail(_STAGE, n, f"the target has no {op.value} of {of.name}")
        elif op is Ops.SPECIAL and limits.launch != "grid":
            fail(_STAGE, n, "special is for grid targets")
        elif op is Ops.RANGE and n.payload(p.Range).kind == "thread" and limits.launch != "threads":
            fail(_STAGE, n, "thread ranges are for targets that launch threads")
    if limits.max_params and params > limits.max_params:
        fail(_STAGE, root, f"the target takes {limits.max_params} params at most")
