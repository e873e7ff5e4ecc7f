"""What the specifications of all stages share: how rules are written, and those that hold for an op wherever
it occurs.

In: nothing; this is a table and the classes that tables are made of. Out: `COMMON`, the sources, payload and
dtypes of each op, and `Spec`, a table of a stage's own. `spec.check` applies them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.errors import SpecError, TinyError
from tiny_core.ir import payload as p
from tiny_core.ir.matrix import MatrixUnit
from tiny_core.ir.ops import ALU, BINARY, COMPARE, CONVERT, REDUCTIONS, TERNARY, UNARY, Ops
from tiny_core.ir.text import describe
from tiny_core.ir.uop import UOp

NodeRule = Callable[[UOp], "str | None"]
"""From a node to what is wrong with it."""
LimitRule = Callable[[UOp, "Limits"], "str | None"]
"""From a node, and what the target can do, to what is wrong with it."""
GraphRule = Callable[[Sequence[UOp], "Given"], "tuple[UOp, str] | None"]
"""From all nodes of a graph, sources first, to one that is wrong, and what is wrong with it."""
Table = Mapping[Ops, NodeRule]


class Space(Protocol):
    """What is asked of an address space."""

    @property
    def name(self) -> str: ...
    @property
    def bytes(self) -> int: ...


class Limits(Protocol):
    """What is asked of a target's capabilities (`render.Capabilities`, which this layer may not import)."""

    @property
    def launch(self) -> str: ...
    @property
    def dtypes(self) -> frozenset[DType]: ...
    @property
    def lanes(self) -> tuple[tuple[DType, tuple[int, ...]], ...]: ...
    @property
    def fma(self) -> frozenset[DType]: ...
    @property
    def max_params(self) -> int: ...
    @property
    def matrices(self) -> tuple[MatrixUnit, ...]: ...
    def widths(self, dtype: DType) -> tuple[int, ...]: ...
    def space(self, name: str) -> Space | None: ...
    def supports(self, op: Ops, dtype: DType) -> bool: ...


@dataclass(frozen=True, slots=True)
class Given:
    """What is known besides the graph.

    Args:
        limits: what the target can do; None for any target.
        order: names of the axes that have a place in the nesting order; None where there is none yet.
    """

    limits: Limits | None = None
    order: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Spec:
    """The specification of a stage.

    Args:
        name: of the stage.
        rules: for each op that may occur, what holds for a node of it.
        graph: what holds between nodes.
        limits: what holds for a node on a given target.
        root: the op of the root; None for any.
    """

    name: str
    rules: Mapping[Ops, tuple[NodeRule, ...]]
    graph: tuple[GraphRule, ...] = ()
    limits: tuple[LimitRule, ...] = ()
    root: Ops | None = Ops.SINK

    def wrong(self, nodes: Sequence[UOp], given: Given) -> tuple[UOp, str] | None:
        """Return the first node of a graph that breaks a rule, and the rule; None if there is none."""
        rules = self.rules
        for n in nodes:
            mine = rules.get(n.op)
            if mine is None:
                return n, f"{n.op.value} does not occur at this stage"
            for rule in mine:
                broken = rule(n)
                if broken is not None:
                    return n, broken
        if given.limits is not None:
            for limit in self.limits:
                for n in nodes:
                    broken = limit(n, given.limits)
                    if broken is not None:
                        return n, broken
        for between in self.graph:
            found = between(nodes, given)
            if found is not None:
                return found
        return None


def table(ops: Iterable[Ops], *tables: Table) -> dict[Ops, tuple[NodeRule, ...]]:
    """Return the rules of the ops that may occur at a stage: the common ones, then those of each table."""
    return {op: tuple(t[op] for t in (COMMON, *tables) if op in t) for op in ops}


def fail(stage: str, node: UOp, rule: str, after: str = "") -> NoReturn:
    """Raise a SpecError about a node; `after` names the pass that made the graph."""
    where = f"after {after}, {stage}" if after else stage
    try:
        text = describe(node)
    except AssertionError:  # without the payload of its op it has no text
        text = repr(node)
    raise SpecError(f"{where}: {rule}\n  {text}", "see docs/decisions/0001-contracts.md, Stages")


def check_node(n: UOp, rules: Table) -> str | None:
    """Return what is wrong with a node by the common rules and those given, or None."""
    for some in (COMMON, rules):
        rule = some.get(n.op)
        wrong = rule(n) if rule is not None else None
        if wrong is not None:
            return wrong
    return None


def identities(nodes: Sequence[UOp], given: Given) -> tuple[UOp, str] | None:
    """Within a kernel, a slot, a variable's name, an axis, and a buffer's id each mean one node."""
    seen: dict[object, UOp] = {}
    for n in nodes:
        arg = n.arg
        key: object
        if isinstance(arg, p.Param):
            key = ("slot", arg.slot)
        elif isinstance(arg, p.Variable):
            key = ("variable", arg.name)
        elif isinstance(arg, p.Storage):
            key = ("buffer", arg.space, arg.id)
        elif isinstance(arg, p.Range):
            key = ("axis", arg.axis, arg.instance)
        else:
            continue
        if seen.setdefault(key, n) is not n:
            return n, f"{' '.join(map(str, key))} is also {describe(seen[key])}"
    return None


def foreign(nodes: Iterable[UOp], owners: Iterable[str]) -> tuple[UOp, str] | None:
    """TARGET nodes have descriptors of these plugins only."""
    known = frozenset(owners)
    for n in nodes:
        if n.op is Ops.TARGET and n.payload(p.TargetOp).name.partition(".")[0] not in known:
            return n, f"target operations are those of {', '.join(sorted(known)) or 'nobody'}"
    return None


# ---- rules of every stage ------------------------------------------------------------------------

_FLOAT_ONLY = frozenset({Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.TRUNC, Ops.DIV, Ops.POW})
_INT_ONLY = frozenset({Ops.IDIV, Ops.IMOD, Ops.FLOORDIV, Ops.FLOORMOD, Ops.SHL, Ops.SHR})
_BITWISE = frozenset({Ops.AND, Ops.OR, Ops.XOR, Ops.NOT})


def _const(n: UOp) -> str | None:
    if not isinstance(n.arg, p.Const) or n.src:
        return "a constant has a number and no sources"
    if n.arg.dtype is not n.dtype or n.dtype is dtypes.void:
        return "a constant has the dtype of its number"
    if n.dtype.bits and not 0 <= n.arg.bits < 1 << n.dtype.bits:
        return "the bits of a constant fit its dtype"
    return None


def _leaf(kind: type[p.Payload]) -> NodeRule:
    def rule(n: UOp) -> str | None:
        return None if isinstance(n.arg, kind) and not n.src else f"{n.op.value} has a payload and no sources"

    return rule


def _elementwise(n: UOp) -> str | None:
    op, src = n.op, n.src
    count = 1 if op in UNARY else 2 if op in BINARY else 3
    if len(src) != count or n.arg is not None:
        return f"{op.value} has {count} source{'s' if count > 1 else ''} and no payload"
    dtype = src[-1].dtype
    if op is Ops.WHERE:
        if src[0].dtype is not dtypes.bool_:
            return "the condition of where is a bool"
        src = src[1:]
    for s in src:
        if s.dtype is not dtype:
            return f"the operands of {op.value} have one dtype"
        if s.shape != n.shape:
            return f"the operands of {op.value} have one shape"
    if n.dtype is not (dtypes.bool_ if op in COMPARE else dtype):
        return f"{op.value} of {dtype.name} is not a {n.dtype.name}"
    kind = dtype.kind
    if kind == "void":
        return "effects are not values"
    if op in _FLOAT_ONLY and not dtype.is_float:
        return f"{op.value} is for floats"
    if op in _INT_ONLY and not dtype.is_int:
        return f"{op.value} is for integers"
    if op in _BITWISE and dtype.is_float:
        return f"{op.value} is for integers and bools"
    if op in (Ops.SUB, Ops.NEG) and kind == "bool":
        return f"{op.value} is not for bools"
    if op is Ops.THREEFRY and dtype is not dtypes.uint64:
        return "threefry is for uint64"
    return None


def _convert(n: UOp) -> str | None:
    if len(n.src) != 1 or n.arg is not None:
        return f"{n.op.value} has one source and no payload"
    if n.dtype is dtypes.void or n.src[0].dtype is dtypes.void:
        return "effects are not values"
    if n.op is Ops.BITCAST and n.dtype.bits != n.src[0].dtype.bits:
        return "bitcast keeps the width"
    return None


def _range(n: UOp) -> str | None:
    if not isinstance(n.arg, p.Range | p.Special) or len(n.src) != 1:
        return f"{n.op.value} has a payload, and its size as source"
    size = n.src[0]
    if size.shape or not size.dtype.is_int or n.dtype is not size.dtype:
        return f"{n.op.value} and its size are scalars of one integer dtype"
    return None


def _reduction(n: UOp) -> str | None:
    if not n.src or not isinstance(n.arg, p.Reduce) or n.arg.op not in REDUCTIONS:
        return "reduce is by add, mul, max or min"
    return None if n.dtype is n.src[0].dtype else "reduce keeps the dtype"


def _stack(n: UOp) -> str | None:
    if not n.src or any(s.shape or s.dtype is not n.dtype for s in n.src):
        return "stack takes scalars of its dtype"
    return None


def _lane(n: UOp) -> str | None:
    if len(n.src) != 1 or len(n.src[0].shape) != 1 or n.dtype is not n.src[0].dtype:
        return "index takes one lane of a value of its dtype"
    if not isinstance(n.arg, p.Lane) or not 0 <= n.arg.lane < n.src[0].shape[0]:
        return "the lane of index is one of its source"
    return None


def _shuffle(n: UOp) -> str | None:
    if not n.src or any(len(s.shape) != 1 or s.dtype is not n.dtype for s in n.src):
        return "shuffle takes vectors of its dtype"
    total = sum(s.shape[0] for s in n.src)
    if not isinstance(n.arg, p.Shuffle) or any(not 0 <= lane < total for lane in n.arg.lanes):
        return "the lanes of shuffle are some of its sources'"
    return None


def _matrix(n: UOp) -> str | None:
    unit = n.arg
    if not isinstance(unit, MatrixUnit) or len(n.src) != len(unit.operands):
        return "matrix has a unit, and a source for each of its operands"
    for s, fragment in zip(n.src, unit.operands, strict=True):
        if s.dtype is not fragment.dtype or s.shape != fragment.shape:
            return f"{unit.name} takes {fragment.dtype.name} of shape {fragment.shape}"
    return None if n.dtype is unit.c.dtype else f"{unit.name} gives {unit.c.dtype.name}"


def _after(n: UOp) -> str | None:
    if len(n.src) < 2 or n.arg is not None or n.dtype is not n.src[0].dtype:
        return "after is its first source, once effects have happened"
    # a loop among them tells the reads of one iteration from those of another
    if any(s.dtype is not dtypes.void and s.op is not Ops.RANGE for s in n.src[1:]):
        return "what after waits for are effects and loops"
    return None


def _end(n: UOp) -> str | None:
    if len(n.src) < 2 or n.src[0].op is not Ops.RANGE:
        return "end closes a range after effects"
    if any(s.dtype is not dtypes.void for s in n.src[1:]) or n.dtype is not dtypes.void:
        return "end closes a range after effects, and is one"
    return None


def _effect(n: UOp) -> str | None:
    return None if n.dtype is dtypes.void else f"{n.op.value} has no value"


def _target(n: UOp) -> str | None:
    if not isinstance(n.arg, p.TargetOp):
        return "target has a descriptor"
    try:
        dtype, _ = n.arg.result(tuple((s.dtype, s.shape) for s in n.src))
    except TinyError as error:
        return error.message
    return None if dtype is n.dtype else f"{n.arg.name} gives {dtype.name}"


COMMON: dict[Ops, NodeRule] = {
    Ops.CONST: _const,
    Ops.BUFFER: _leaf(p.Storage),
    Ops.PARAM: _leaf(p.Param),
    Ops.VARIABLE: _leaf(p.Variable),
    Ops.IOTA: _leaf(p.Iota),
    **dict.fromkeys(ALU, _elementwise),
    **dict.fromkeys(CONVERT, _convert),
    Ops.RANGE: _range,
    Ops.SPECIAL: _range,
    Ops.REDUCE: _reduction,
    Ops.STACK: _stack,
    Ops.INDEX: _lane,
    Ops.SHUFFLE: _shuffle,
    Ops.MATRIX: _matrix,
    Ops.AFTER: _after,
    Ops.END: _end,
    Ops.STORE: _effect,
    Ops.BARRIER: _effect,
    Ops.SINK: _effect,
    Ops.TARGET: _target,
}
"""Sources, payload and dtypes of each op."""

assert (UNARY | BINARY | TERNARY) == ALU


# ---- memory, within kernels ----------------------------------------------------------------------


def memory_access(n: UOp) -> str | None:
    """The rule of LOAD and STORE within kernels."""
    load = n.op is Ops.LOAD
    src, arg = n.src, n.arg
    if len(src) not in ((2, 4) if load else (3, 4)) or not isinstance(arg, p.Access):
        return "load is (buf, index[, gate, alternative]), store (buf, index, value[, gate])"
    base = src[0].base
    if base.op not in (Ops.PARAM, Ops.BUFFER):
        return f"{n.op.value} touches a param or buffer"
    if src[1].shape or not src[1].dtype.is_int:
        return "the index is a scalar integer"
    value = n if load else src[2]
    if value.dtype is not base.dtype or (load and len(src) == 4 and src[3].dtype is not base.dtype):
        return "what is loaded or stored has the dtype of the buffer"
    if arg.align < 1 or arg.align & (arg.align - 1):
        return "align is a power of two"
    register = isinstance(base.arg, p.Storage) and base.arg.space == "register"
    lanes = base.payload(p.Storage).lanes if register else arg.lanes
    if value.shape != ((lanes,) if lanes else ()):
        return f"the access has {lanes or 'no'} lanes, the value shape {value.shape}"
    if load and len(src) == 4 and src[3].shape != n.shape:
        return "the alternative has the shape of the value"
    gate = src[2] if load and len(src) == 4 else src[3] if len(src) == 4 else None
    if gate is not None and (gate.dtype is not dtypes.bool_ or gate.shape != value.shape):
        return "the gate is a bool of the shape of the value"
    if isinstance(base.arg, p.Param) and ("r" if load else "w") not in base.arg.access:
        return f"the param is {base.arg.access!r} only"
    if register:
        if src[1].op is not Ops.CONST or not 0 <= int(src[1].value) < base.payload(p.Storage).size:
            return "a register has a constant slot number, one of its slots"
        if gate is not None:
            return "registers have no gates"
    return None


def near(n: UOp) -> str | None:
    """The rule of BUFFER within kernels."""
    arg = n.payload(p.Storage)
    return None if arg.device is None else "a kernel's buffers are near memory; device storage is a param"
