"""Index arithmetic: integers that provably do not overflow, computed in the width that addresses want.

In: a linear list. Out: the bounds of the scalar integers made of loop counters, launch scalars and constants.
Where such an ADD, SUB, MUL or RANGE stays within its dtype, it is *exact*: computing it in 64 bits gives the
same number. Host programs do that, so that loops step pointers instead of sign-extending every index; grid
programs keep 32 bits, which are cheaper there, and learn from the bounds that nothing wraps.
"""

from __future__ import annotations

from collections.abc import Callable

from tiny_core.api import Ops, UOp, dtypes, payload
from tiny_renderer_llvm.function import Function
from tiny_renderer_llvm.types import element

Bounds = tuple[int, int]


def _products(x: Bounds, y: Bounds) -> Bounds:
    corners = [a * b for a in x for b in y]
    return min(corners), max(corners)


_EXACT: dict[Ops, Callable[[Bounds, Bounds], Bounds]] = {
    Ops.ADD: lambda x, y: (x[0] + y[0], x[1] + y[1]),
    Ops.SUB: lambda x, y: (x[0] - y[1], x[1] - y[0]),
    Ops.MUL: _products,
}


def _quotient(x: Bounds, y: Bounds) -> Bounds | None:
    return (x[0] // y[0], x[1] // y[0]) if x[0] >= 0 and y[0] == y[1] > 0 else None


def _remainder(x: Bounds, y: Bounds) -> Bounds | None:
    return (0, min(x[1], y[1] - 1)) if x[0] >= 0 and y[0] > 0 else None


def _shifted(x: Bounds, y: Bounds) -> Bounds | None:
    return (x[0] >> y[0], x[1] >> y[0]) if x[0] >= 0 and 0 <= y[0] == y[1] < 64 else None


def _masked(x: Bounds, y: Bounds) -> Bounds | None:
    return (0, min(x[1], y[1])) if x[0] >= 0 and y[0] >= 0 else None


_BOUNDED: dict[Ops, Callable[[Bounds, Bounds], Bounds | None]] = {
    Ops.IDIV: _quotient, Ops.IMOD: _remainder, Ops.SHR: _shifted, Ops.AND: _masked,
    Ops.MAX: lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    Ops.MIN: lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
}  # fmt: skip


def bounds(nodes: tuple[UOp, ...]) -> dict[UOp, Bounds]:
    """Return least and greatest value of the signed scalar integers of a linear list for which that is
    known without regard to data."""
    known: dict[UOp, Bounds] = {}
    for node in nodes:
        if node.dtype not in (dtypes.int32, dtypes.int64) or node.shape:
            continue
        found: Bounds | None = None
        match node.op:
            case Ops.VARIABLE:
                variable = node.payload(payload.Variable)
                found = variable.lo, variable.hi
            case Ops.RANGE | Ops.SPECIAL:
                size = _of(node.src[0], known)
                found = (0, max(size[1] - 1, 0)) if size else None
            case Ops.CAST:
                found = _of(node.src[0], known)
            case op if op in _EXACT or op in _BOUNDED:
                x, y = _of(node.src[0], known), _of(node.src[1], known)
                if x is not None and y is not None:
                    found = _EXACT[op](x, y) if op in _EXACT else _BOUNDED[op](x, y)
            case _:
                pass
        if found is not None and node.dtype.min <= found[0] <= found[1] <= node.dtype.max:
            known[node] = found
    return known


def _of(node: UOp, known: dict[UOp, Bounds]) -> Bounds | None:
    if node.op is Ops.CONST:
        value = int(node.value)
        return value, value
    return known.get(node)


def exact(known: dict[UOp, Bounds]) -> frozenset[UOp]:
    """Return the nodes that are computed, without wrapping, from integers of known bounds."""
    return frozenset(node for node in known if node.op in _EXACT or node.op is Ops.RANGE)


_NAMES = {Ops.ADD: "add", Ops.SUB: "sub", Ops.MUL: "mul"}
_PREDICATES = {Ops.CMPLT: "slt", Ops.CMPLE: "sle", Ops.CMPEQ: "eq", Ops.CMPNE: "ne"}


def render_exact(f: Function, node: UOp) -> None:
    """Write an exact ADD, SUB or MUL. On hosts the addition of a constant waits until something other than
    an address needs it: addresses take constants as they are."""
    x, y = node.src
    if f.dialect.kind == "grid":
        f.values[node] = f.emit(f"{_NAMES[node.op]} nsw {element(node.dtype)} {f.value(x)}, {f.value(y)}")
    elif node.op is not Ops.ADD or not y.is_const:
        f.set_wide(node, f.emit(f"{_NAMES[node.op]} nsw i64 {f.wide(x)}, {f.wide(y)}"))


def render_compare(f: Function, node: UOp) -> str | None:
    """Write a comparison of integers that are there in 64 bits; return None if these are not."""
    if f.dialect.kind == "grid" or not all(s.is_const or s in f.exact for s in node.src):
        return None
    x, y = node.src
    return f.emit(f"icmp {_PREDICATES[node.op]} i64 {f.wide(x)}, {f.wide(y)}")
