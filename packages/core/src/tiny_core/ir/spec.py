"""Executable specifications of the stages: a graph meets its stage's rules, or SpecError names the node and
the rule.

In: the root of a graph, and the stage it claims to be at (`tensor`, `kernel`, `loops`, `linear`); for
`linear` also what the target can do. Out: nothing. Guaranteed: what passes has the ops, sources, payloads,
dtypes and shapes that `docs/decisions/0001-contracts.md` promises to the next stage; a linear list is in an
order that can be run.

Rules of an op that hold at every stage are in `COMMON`; those of a stage in its own table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, Protocol

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.errors import SpecError, TinyError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import (
    ALU,
    BINARY,
    COMPARE,
    CONVERT,
    EFFECTS,
    ELEMENTWISE,
    MOVEMENT,
    REDUCTIONS,
    TERNARY,
    UNARY,
    Ops,
)
from tiny_core.ir.text import describe
from tiny_core.ir.uop import UOp, toposort

Stage = Literal["tensor", "kernel", "loops", "linear"]
NodeRule = Callable[[UOp], "str | None"]
"""From a node to what is wrong with it."""


class Space(Protocol):
    """What is asked of an address space."""

    @property
    def name(self) -> str: ...


class Limits(Protocol):
    """What is asked of a target's capabilities (`render.Capabilities`, which this layer may not import)."""

    @property
    def launch(self) -> str: ...
    @property
    def dtypes(self) -> frozenset[DType]: ...
    @property
    def lanes(self) -> tuple[tuple[DType, tuple[int, ...]], ...]: ...
    @property
    def max_params(self) -> int: ...
    def widths(self, dtype: DType) -> tuple[int, ...]: ...
    def space(self, name: str) -> Space | None: ...
    def supports(self, op: Ops, dtype: DType) -> bool: ...


def check(
    node: UOp, stage: Stage, capabilities: Limits | None = None, owners: Iterable[str] | None = None
) -> None:
    """Check a graph against the specification of a stage.

    Args:
        node: its root: any node (tensor), a SINK (kernel, loops), a LINEAR (linear).
        stage: which specification.
        capabilities: linear only: the target's; None checks what holds for every target.
        owners: plugins whose TARGET ops may occur; None for any.

    Raises:
        SpecError: a rule is broken; names the node in text form, and the rule.
    """
    if stage == "linear":
        from tiny_core.ir.spec_linear import check_linear

        return check_linear(node, capabilities, owners)
    allowed, rules = _STAGES[stage]
    if stage != "tensor" and node.op is not Ops.SINK:
        fail(stage, node, "the root is a SINK")
    nodes = toposort((node,), _enter_tensor) if stage == "tensor" else toposort((node,))
    for n in nodes:
        if n.op not in allowed:
            fail(stage, n, f"{n.op.value} does not occur at this stage")
        wrong = check_node(n, rules)
        if wrong is not None:
            fail(stage, n, wrong)
    if stage != "tensor":
        check_identities(stage, nodes)
    if owners is not None:
        check_owners(stage, nodes, owners)
    return None


def fail(stage: str, node: UOp, rule: str) -> None:
    """Raise a SpecError about a node."""
    raise SpecError(f"{stage}: {rule}\n  {describe(node)}", "see docs/decisions/0001-contracts.md, Stages")


def check_node(n: UOp, rules: dict[Ops, NodeRule]) -> str | None:
    """Return what is wrong with a node by the common rules and those given, or None."""
    rule = COMMON.get(n.op)
    wrong = rule(n) if rule is not None else None
    if wrong is None:
        rule = rules.get(n.op)
        wrong = rule(n) if rule is not None else None
    return wrong


def check_identities(stage: str, nodes: Iterable[UOp]) -> None:
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
            fail(stage, n, f"{' '.join(map(str, key))} is also {describe(seen[key])}")


def check_owners(stage: str, nodes: Iterable[UOp], owners: Iterable[str]) -> None:
    """TARGET nodes have descriptors of these plugins only."""
    known = frozenset(owners)
    for n in nodes:
        if n.op is Ops.TARGET and n.payload(p.TargetOp).name.partition(".")[0] not in known:
            fail(stage, n, f"target operations are those of {', '.join(sorted(known)) or 'nobody'}")


def _enter_tensor(n: UOp) -> bool:
    # the body of a CALL is a kernel, which its own check looks at
    return n.op is not Ops.CALL


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


def _near(n: UOp) -> str | None:
    arg = n.payload(p.Storage)
    return None if arg.device is None else "a kernel's buffers are near memory; device storage is a param"


# ---- tensor --------------------------------------------------------------------------------------


def _device_storage(n: UOp) -> str | None:
    arg = n.payload(p.Storage)
    return "storage is on a device" if arg.device is None else None


def _movement(n: UOp) -> str | None:
    if len(n.src) != 1 or n.dtype is not n.src[0].dtype:
        return f"{n.op.value} has one source of its dtype"
    return None


def _tensor_reduce(n: UOp) -> str | None:
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
    if any(s.op not in (Ops.STORE, Ops.CALL) for s in n.src[1:]):
        return "a version is after stores or calls"
    for s in n.src[1:]:
        if s.op is Ops.STORE and root_of(s.src[0]) is not root_of(n.src[0]):
            return "a version of storage is after stores to that storage"
    return None


def _call(n: UOp) -> str | None:
    return None if n.src and n.arg is None else "call has a body"


_TENSOR_OPS = (
    ELEMENTWISE
    | MOVEMENT
    | {Ops.CONST, Ops.BUFFER, Ops.PARAM, Ops.VARIABLE, Ops.IOTA, Ops.GATHER, Ops.REDUCE, Ops.STORE, Ops.COPY}
    | {Ops.AFTER, Ops.SINK, Ops.CALL, Ops.CONTIGUOUS, Ops.DETACH}
)
_TENSOR: dict[Ops, NodeRule] = {
    Ops.BUFFER: _device_storage,
    **dict.fromkeys((*MOVEMENT, Ops.COPY, Ops.CONTIGUOUS, Ops.DETACH), _movement),
    Ops.REDUCE: _tensor_reduce,
    Ops.GATHER: _gather,
    Ops.STORE: _assignment,
    Ops.AFTER: _version,
    Ops.CALL: _call,
}


# ---- kernel --------------------------------------------------------------------------------------


def _scalar(n: UOp) -> str | None:
    return f"values are scalars, not {n.shape}" if n.shape else None


def _kernel_access(n: UOp) -> str | None:
    return memory_access(n) or (_scalar(n.src[2]) if n.op is Ops.STORE else _scalar(n))


def _kernel_range(n: UOp) -> str | None:
    if n.src[0].op is Ops.CONST and int(n.src[0].value) < 0:
        return "a range has a size of at least 0"
    if any(t.op not in _SIZE_OPS for t in toposort((n.src[0],))):
        return "the size of a range is made of constants and variables"
    return None


def _kernel_reduce(n: UOp) -> str | None:
    ranges = n.src[1:]
    if not ranges or n.payload(p.Reduce).axes or any(r.op is not Ops.RANGE for r in ranges):
        return "reduce is over ranges, and has no axes"
    return "reduce has each range once" if len(set(ranges)) < len(ranges) else _scalar(n)


def _kernel_sink(n: UOp) -> str | None:
    if not isinstance(n.arg, p.KernelInfo | None):
        return "the payload of a kernel is a KernelInfo"
    return None if all(s.dtype is dtypes.void for s in n.src) else "a kernel is made of effects"


def _kernel_root(n: UOp) -> str | None:
    return _kernel_sink(n) or (
        None if n.src and all(s.op is Ops.STORE for s in n.src) else "a kernel is made of stores"
    )


_SIZE_OPS = ELEMENTWISE | {Ops.CONST, Ops.VARIABLE}
_KERNEL_OPS = ELEMENTWISE | {
    Ops.CONST, Ops.BUFFER, Ops.PARAM, Ops.VARIABLE, Ops.RANGE, Ops.REDUCE, Ops.LOAD, Ops.STORE, Ops.AFTER,
    Ops.SINK, Ops.TARGET,
}  # fmt: skip
_KERNEL: dict[Ops, NodeRule] = {
    Ops.BUFFER: _near,
    **dict.fromkeys(ELEMENTWISE, _scalar),
    Ops.RANGE: _kernel_range,
    Ops.REDUCE: _kernel_reduce,
    Ops.LOAD: _kernel_access,
    Ops.STORE: _kernel_access,
    Ops.SINK: _kernel_root,
}


# ---- loops ---------------------------------------------------------------------------------------


def vector(n: UOp) -> str | None:
    """The rule that a value is a scalar or has lanes."""
    return "a value is a scalar or has lanes" if len(n.shape) > 1 else None


_LOOPS_OPS = (_KERNEL_OPS - {Ops.REDUCE}) | EFFECTS | {Ops.SPECIAL, Ops.STACK, Ops.INDEX, Ops.SHUFFLE}
LOOPS: dict[Ops, NodeRule] = {
    Ops.BUFFER: _near,
    **dict.fromkeys(ELEMENTWISE, vector),
    Ops.LOAD: memory_access,
    Ops.STORE: memory_access,
    Ops.SINK: _kernel_sink,
}
LINEAR_OPS = _LOOPS_OPS - {Ops.SINK}

_STAGES: dict[str, tuple[frozenset[Ops], dict[Ops, NodeRule]]] = {
    "tensor": (_TENSOR_OPS, _TENSOR),
    "kernel": (_KERNEL_OPS, _KERNEL),
    "loops": (_LOOPS_OPS, LOOPS),
}
