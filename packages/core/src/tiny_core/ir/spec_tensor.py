"""The specification of tensor graphs: what the scheduler is handed, and what its rewritings keep.

In: the nodes of such a graph, sources first. Out: what is wrong, if anything. A graph that passes has storage
on devices, assignments that make versions of it one after the other, and no value without a size in memory
where memory is needed for it.
"""

from __future__ import annotations

from tiny_core import dtypes
from tiny_core.ir import payload as p
from tiny_core.ir.ops import ELEMENTWISE, MOVEMENT, Ops
from tiny_core.ir.spec_common import NodeRule, Spec, table
from tiny_core.ir.uop import UOp


def _storage(n: UOp) -> str | None:
    arg = n.payload(p.Storage)
    if arg.device is None:
        return "storage is on a device"
    if n.dtype.is_weak or n.dtype is dtypes.void:
        return "what is stored has a size in memory"
    return None


def _param(n: UOp) -> str | None:
    return "what is stored has a size in memory" if n.dtype.is_weak or n.dtype is dtypes.void else None


def _iota(n: UOp) -> str | None:
    return None if n.dtype.is_int or n.dtype.is_float else "iota gives numbers"


def _variable(n: UOp) -> str | None:
    return None if n.dtype.is_int else "a variable is an integer"


def _moved(kind: type[p.Payload]) -> NodeRule:
    def rule(n: UOp) -> str | None:
        if len(n.src) != 1 or n.dtype is not n.src[0].dtype or not isinstance(n.arg, kind):
            return f"{n.op.value} has one source of its dtype, and a payload"
        return "effects are not values" if n.dtype is dtypes.void else None

    return rule


def _kept(n: UOp) -> str | None:
    """COPY, CONTIGUOUS, DETACH: the value of the source, the first two in memory of its own."""
    if len(n.src) != 1 or n.dtype is not n.src[0].dtype:
        return f"{n.op.value} has one source of its dtype"
    if n.dtype is dtypes.void:
        return "effects are not values"
    if n.op is not Ops.DETACH and n.dtype.is_weak:
        return "what is stored has a size in memory"
    if n.op is Ops.COPY and not isinstance(n.arg, p.Copy):
        return "copy has a device to copy to"
    return None


def _reduction(n: UOp) -> str | None:
    return None if len(n.src) == 1 else "reduce has one source and axes"


def _gather(n: UOp) -> str | None:
    if n.dtype is not n.src[0].dtype or any(not s.dtype.is_int for s in n.src[1:]):
        return "gather keeps the dtype and takes integer indices"
    return None


def _assignment(n: UOp) -> str | None:
    if len(n.src) != 2 or n.arg is not None:
        return "store is (view, value) without payload"
    view, value = n.src
    if view.dtype is not value.dtype or view.shape != value.shape:
        return "what is stored has the dtype and shape of the view"
    return None if root_of(view).op in (Ops.BUFFER, Ops.PARAM) else "a view is movements over storage"


def root_of(node: UOp) -> UOp:
    """Return the node below any movements and versions."""
    while node.op in MOVEMENT or node.op in (Ops.AFTER, Ops.BITCAST):
        node = node.src[0]
    return node


def _version(n: UOp) -> str | None:
    if n.src[0].op not in (Ops.BUFFER, Ops.PARAM, Ops.AFTER):
        return "a version is of storage, or of an earlier version"
    if any(s.op not in (Ops.STORE, Ops.CALL) for s in n.src[1:]):
        return "a version is after stores or calls"
    for s in n.src[1:]:
        if s.op is Ops.STORE and root_of(s.src[0]) is not root_of(n.src[0]):
            return "a version of storage is after stores to that storage"
    return None


def _call(n: UOp) -> str | None:
    return None if n.src and n.arg is None else "call has a body"


def _wanted(n: UOp) -> str | None:
    if any(s.dtype is dtypes.void or s.dtype.is_weak for s in n.src):
        return "what is computed are values with a size in memory"
    return None


_OPS = (
    ELEMENTWISE
    | MOVEMENT
    | {Ops.CONST, Ops.BUFFER, Ops.PARAM, Ops.VARIABLE, Ops.IOTA, Ops.GATHER, Ops.REDUCE, Ops.STORE, Ops.COPY}
    | {Ops.AFTER, Ops.SINK, Ops.CALL, Ops.CONTIGUOUS, Ops.DETACH}
)

_RULES: dict[Ops, NodeRule] = {
    # leaves: storage is a device's, and of a dtype that memory can hold
    Ops.BUFFER: _storage,
    Ops.PARAM: _param,
    Ops.IOTA: _iota,
    Ops.VARIABLE: _variable,
    # views: their shapes are derived when they are made, so that a bad one is no node at all
    **dict.fromkeys((Ops.RESHAPE, Ops.EXPAND), _moved(p.Shape)),
    **dict.fromkeys((Ops.PERMUTE, Ops.FLIP), _moved(p.Axes)),
    **dict.fromkeys((Ops.PAD, Ops.SHRINK), _moved(p.Bounds)),
    **dict.fromkeys((Ops.SHEAR, Ops.UNSHEAR), _moved(p.Shear)),
    Ops.GATHER: _gather,
    Ops.REDUCE: _reduction,
    # values in memory, and what is asked for
    **dict.fromkeys((Ops.COPY, Ops.CONTIGUOUS, Ops.DETACH), _kept),
    Ops.SINK: _wanted,
    # versions: an assignment is a store, and the version after it
    Ops.STORE: _assignment,
    Ops.AFTER: _version,
    Ops.CALL: _call,
}

TENSOR = Spec("tensor", table(_OPS, _RULES), root=None)
