"""The specifications of kernels with ranges and reductions: what the scheduler hands to code generation, and
what each pass up to expansion leaves.

In: the nodes of a kernel, sources first. Out: what is wrong, if anything. Values are scalars throughout; a
REDUCE closes its ranges, and a STORE runs for every value of the ranges that it depends on.

- `kernel`: loads and stores of params, over axes of kinds `loop` and `reduce`.
- `normal` (after normalize): axes are numbered.
- `pieces` (after axes.apply): axes are pieces with a kind; still only reductions close those of a reduction.
- `separate` (after loops.separate): reductions share all of their loops, or none.
- `staged` (after stage, and fragments.lower): near memory, which is read after the END of what fills it.
- `parallel` (after grid.parallelize): no pieces of groups and items are left, and each location is written by
  one of all that run in parallel.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from tiny_core import dtypes
from tiny_core.ir import payload as p
from tiny_core.ir.interval import bounds
from tiny_core.ir.matrix import MatrixUnit
from tiny_core.ir.ops import ELEMENTWISE, Ops
from tiny_core.ir.spec_common import Given, NodeRule, Spec, identities, memory_access, near, table
from tiny_core.ir.uop import UOp, toposort

# ---- every kernel --------------------------------------------------------------------------------


def _scalar(n: UOp) -> str | None:
    return f"values are scalars, not {n.shape}" if n.shape else None


def _access(n: UOp) -> str | None:
    wrong = memory_access(n) or (_scalar(n.src[2]) if n.op is Ops.STORE else _scalar(n))
    if wrong is None and n.src[1].dtype is not dtypes.index:
        return "an index is of dtype index until it is committed"
    return wrong


def _size(n: UOp) -> str | None:
    if n.dtype is not dtypes.index:
        return "an axis is of dtype index until it is committed"
    if n.src[0].op is Ops.CONST:
        return "a range has a size of at least 0" if int(n.src[0].value) < 0 else None
    if any(t.op not in _SIZE_OPS for t in toposort((n.src[0],))):
        return "the size of a range is made of constants and variables"
    return None


def _closing(n: UOp) -> str | None:
    ranges = n.src[1:]
    if not ranges or n.payload(p.Reduce).axes or any(r.op is not Ops.RANGE for r in ranges):
        return "reduce is over ranges, and has no axes"
    return "reduce has each range once" if len(set(ranges)) < len(ranges) else _scalar(n)


def sink(n: UOp) -> str | None:
    """The rule that a kernel is made of effects."""
    if not isinstance(n.arg, p.KernelInfo | None):
        return "the payload of a kernel is a KernelInfo"
    return None if all(s.dtype is dtypes.void for s in n.src) else "a kernel is made of effects"


def _stores(n: UOp) -> str | None:
    wrong = sink(n)
    if wrong is None and not (n.src and all(s.op is Ops.STORE for s in n.src)):
        return "a kernel is made of stores"
    return wrong


_SIZE_OPS = ELEMENTWISE | {Ops.CONST, Ops.VARIABLE}
_OPS = (ELEMENTWISE - {Ops.MULACC}) | {
    Ops.CONST, Ops.PARAM, Ops.VARIABLE, Ops.RANGE, Ops.REDUCE, Ops.LOAD, Ops.STORE, Ops.SINK, Ops.TARGET,
}  # fmt: skip

_ALL: dict[Ops, NodeRule] = {
    **dict.fromkeys(ELEMENTWISE, _scalar),
    Ops.RANGE: _size,
    Ops.REDUCE: _closing,
    Ops.LOAD: _access,
    Ops.STORE: _access,
    Ops.SINK: _stores,
}


# ---- kernel: out of the scheduler ----------------------------------------------------------------


def _kind(r: UOp) -> str:
    return r.payload(p.Range).kind


def _name(r: UOp) -> str:
    return r.payload(p.Range).axis


def _plain(n: UOp) -> str | None:
    arg = n.payload(p.Range)
    if arg.kind not in ("loop", "reduce"):
        return f"an axis is a loop or a reduction before options are applied, not {arg.kind}"
    return "an axis has one loop before options are applied" if arg.instance else None


def _of_params(n: UOp) -> str | None:
    return None if n.src[0].op is Ops.PARAM else "a kernel loads from and stores to its params"


def _reduced(n: UOp) -> str | None:
    if all(_kind(r) == "reduce" for r in n.src[1:]):
        return None
    return "reduce closes axes of kind reduce"


def _open(n: UOp) -> str | None:
    for s in n.src:
        for r in s.ranges:
            if _kind(r) == "reduce":
                return f"the axis {_name(r)} of a reduction is closed by it, and open at no store"
    return None


_HANDED: dict[Ops, NodeRule] = {
    Ops.RANGE: _plain,
    Ops.REDUCE: _reduced,
    Ops.LOAD: _of_params,
    Ops.STORE: _of_params,
    Ops.SINK: _open,
}

KERNEL = Spec("kernel", table(_OPS, _ALL, _HANDED), (identities,))


# ---- normal: after normalize ---------------------------------------------------------------------


def _numbered(nodes: Sequence[UOp], given: Given) -> tuple[UOp, str] | None:
    """Axes of each kind are numbered from 0, so that options name the same axis in equal kernels."""
    ranges = [n for n in nodes if n.op is Ops.RANGE]
    for letter, kind in (("i", "loop"), ("r", "reduce")):
        mine = [r for r in ranges if _kind(r) == kind]
        names = {f"{letter}{k}" for k in range(len(mine))}
        for r in mine:
            if _name(r) not in names:
                return r, f"axes of kind {kind} are called {letter}0 to {letter}{len(mine) - 1}"
    return None


NORMAL = Spec("normal", KERNEL.rules, (identities, _numbered))


# ---- pieces: after axes.apply --------------------------------------------------------------------

# `r0`, `r0.1`, `r0.1.all`: an axis that a reduction closes, however it runs; `i…` and
# `lane…` are of results, `s…` fill near memory
_REDUCED = re.compile(r"r\d")
_RESULT = re.compile(r"i\d|thread$|lane")


def _piece(n: UOp) -> str | None:
    arg = n.payload(p.Range)
    if arg.kind in ("vector", "unroll") and (n.src[0].op is not Ops.CONST or int(n.src[0].value) < 1):
        return f"a piece that runs as {arg.kind} has a constant size of at least 1"
    return None


def _once(n: UOp) -> str | None:
    return "an axis has one loop before loops are separated" if n.payload(p.Range).instance else _piece(n)


def _product(n: UOp) -> str | None:
    if not isinstance(n.arg, MatrixUnit) or len(n.src) != 3 or n.src[2].op is not Ops.RANGE:
        return "matrix multiplies two fragments, along a range of elements of the product"
    if _kind(n.src[2]) != "vector" or n.dtype is not n.arg.c.dtype:
        return f"the elements of a product are lanes of {n.arg.c.dtype.name}"
    return None


def _pieces_closed(n: UOp) -> str | None:
    if all(_REDUCED.match(_name(r)) for r in n.src[1:]):
        return None
    return "reduce closes pieces of the axes of reductions"


def _pieces_open(n: UOp) -> str | None:
    for s in n.src:
        for r in s.ranges:
            if not _RESULT.match(_name(r)):
                return f"the axis {_name(r)} is not one of results, and open at no store to a param"
    return None


def _placed(nodes: Sequence[UOp], given: Given) -> tuple[UOp, str] | None:
    """Axes are those of the plan, which knows how they nest."""
    if given.order is None:
        return None
    for n in nodes:
        if n.op is Ops.RANGE and _name(n) not in given.order:
            return n, f"an axis has a place in the nesting order ({', '.join(sorted(given.order))})"
    return None


_PIECES: dict[Ops, NodeRule] = {Ops.REDUCE: _pieces_closed, Ops.SINK: _pieces_open}
_APART = _OPS | {Ops.MATRIX}


def _tables(ops: frozenset[Ops], own: dict[Ops, NodeRule]) -> dict[Ops, tuple[NodeRule, ...]]:
    # a product of fragments is not yet what MATRIX becomes by expansion
    return {**table(ops, _ALL, own), Ops.MATRIX: (_product,)}


PIECES = Spec(
    "pieces",
    _tables(_APART, {**_PIECES, Ops.RANGE: _once, Ops.LOAD: _of_params, Ops.STORE: _of_params}),
    (identities, _placed),
)


# ---- separate: after loops.separate --------------------------------------------------------------


def _shared(nodes: Sequence[UOp], given: Given) -> tuple[UOp, str] | None:
    """Reductions that share a loop can run in one: none needs another's result."""
    depth: dict[UOp, int] = {}
    teams: dict[UOp, list[UOp]] = {}
    for n in nodes:
        deep = max((depth[s] for s in n.src), default=0)
        if n.op is Ops.REDUCE:
            for r in n.src[1:]:
                team = teams.setdefault(r, [])
                for other in team:
                    if set(other.src[1:]) != set(n.src[1:]):
                        return n, f"reductions that share a loop share all of theirs, but that of {_name(r)}"
                    if other.ranges != n.ranges:
                        return n, f"reductions that share a loop are inside the same, but that of {_name(r)}"
                    if depth[other] <= deep and other in toposort(n.src):
                        return n, f"reductions that share a loop need not each other, but that of {_name(r)}"
                team.append(n)
            deep += 1
        depth[n] = deep
    return None


SEPARATE = Spec(
    "separate",
    _tables(_APART, {**_PIECES, Ops.RANGE: _piece, Ops.LOAD: _of_params, Ops.STORE: _of_params}),
    (identities, _placed, _shared),
)


# ---- staged: after stage -------------------------------------------------------------------------


def _filled(n: UOp) -> str | None:
    """Near memory is read once it has been filled, and within its size."""
    buf = n.src[0]
    if buf.op is Ops.PARAM:
        return None
    if n.op is Ops.LOAD and buf.op is not Ops.AFTER:
        return "near memory is loaded from after it has been filled"
    if buf.base.op is Ops.BUFFER and len(n.src) == (2 if n.op is Ops.LOAD else 3):
        size = buf.base.payload(p.Storage).size
        low, high = bounds(n.src[1])
        if low < 0 or high >= size:
            return f"near memory of {size} is accessed within it, not at {low} to {high}"
    return None


def _memory(n: UOp) -> str | None:
    if n.payload(p.Storage).space in ("register", "global"):
        return "registers come with expansion, and global memory is a param"
    return near(n)


def _order(n: UOp) -> str | None:
    if n.src[0].base.op is not Ops.BUFFER:
        return "after orders accesses to near memory"
    if any(s.op not in (Ops.STORE, Ops.END, Ops.RANGE) for s in n.src[1:]):
        return "near memory is after what fills it"
    return None


def _to_params(n: UOp) -> str | None:
    if any(s.src[0].op is not Ops.PARAM for s in n.src):
        return "a kernel stores to its params; near memory is filled before it is read"
    return _pieces_open(n)


def _fits(nodes: Sequence[UOp], given: Given) -> tuple[UOp, str] | None:
    """Near memory is of a space of the target, and fits it."""
    if given.limits is None:
        return None
    total: dict[str, int] = {}
    for n in nodes:
        if n.op is Ops.BUFFER:
            arg = n.payload(p.Storage)
            space = given.limits.space(arg.space)
            if space is None:
                return n, f"the target has no address space {arg.space!r}"
            total[arg.space] = total.get(arg.space, 0) + arg.size * n.dtype.itemsize
            if space.bytes and total[arg.space] > space.bytes:
                return n, f"near memory fits {arg.space!r}: {total[arg.space]} of {space.bytes} bytes"
    return None


_NEAR: dict[Ops, NodeRule] = {
    Ops.BUFFER: _memory,
    Ops.AFTER: _order,
    Ops.LOAD: _filled,
    Ops.STORE: _filled,
    Ops.REDUCE: _pieces_closed,
    Ops.SINK: _to_params,
}
_STAGED = _APART | {Ops.BUFFER, Ops.AFTER, Ops.END}
STAGED = Spec("staged", _tables(_STAGED, {**_NEAR, Ops.RANGE: _piece}), (identities, _placed, _shared, _fits))


# ---- parallel: after grid.parallelize ------------------------------------------------------------


def _serial(n: UOp) -> str | None:
    kind = _kind(n)
    if kind in ("group", "item", "matrix"):
        return f"no axis is left that runs as {kind}"
    if kind == "thread" and _name(n) != "thread":
        return "the threads share one axis"
    return _piece(n)


def _special(n: UOp) -> str | None:
    if n.src[0].op is not Ops.CONST or int(n.src[0].value) < 1 or not 0 <= n.payload(p.Special).dim < 3:
        return "special has a constant size of at least 1, along one of three dimensions"
    return None


def _launched(nodes: Sequence[UOp], given: Given) -> tuple[UOp, str] | None:
    """What runs in parallel does so in the way of the target, and one of all writes each location."""
    here: list[UOp] = []
    seen: dict[tuple[str, int], UOp] = {}
    for n in nodes:
        if n.op is Ops.SPECIAL:
            arg = n.payload(p.Special)
            if seen.setdefault((arg.level, arg.dim), n) is not n:
                return n, f"there is one index of the {arg.level} along dimension {arg.dim}"
        if n.op is Ops.SPECIAL or (n.op is Ops.RANGE and _kind(n) == "thread"):
            wanted = "grid" if n.op is Ops.SPECIAL else "threads"
            if given.limits is not None and given.limits.launch != wanted:
                return n, f"the target launches kernels as {given.limits.launch}"
            if n.src[0].op is not Ops.CONST or int(n.src[0].value) > 1:
                here.append(n)
    return _written_once(nodes, here) if here else None


def _written_once(nodes: Sequence[UOp], parallel: Collection[UOp]) -> tuple[UOp, str] | None:
    none = frozenset[UOp]()
    over: dict[UOp, frozenset[UOp]] = {}
    for n in nodes:
        if n in parallel:
            over[n] = frozenset((n,))
        elif n.op is Ops.AFTER:  # what filled the memory is another matter
            over[n] = over[n.src[0]]
        else:
            over[n] = none.union(*(over[s] for s in n.src)) if n.src else none
        if n.op is not Ops.STORE:
            continue
        mine = over[n.src[1]] | over[n.src[3]] if len(n.src) == 4 else over[n.src[1]]
        for x in parallel:
            # near memory is a group's or a thread's own
            shared = n.src[0].base.op is Ops.PARAM or (x.op is Ops.SPECIAL and _level(x) == "item")
            if shared and x not in mine:
                which = _level(x) if x.op is Ops.SPECIAL else "thread"
                return n, f"one {which} stores to each location: its index or gate tells which"
    return None


def _level(n: UOp) -> str:
    return n.payload(p.Special).level


PARALLEL = Spec(
    "parallel",
    _tables(_STAGED | {Ops.SPECIAL}, {**_NEAR, Ops.RANGE: _serial, Ops.SPECIAL: _special}),
    (identities, _placed, _shared, _fits, _launched),
)
