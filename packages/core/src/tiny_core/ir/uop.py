"""The node of the IR: immutable and hash-consed, so equality is identity.

`UOp(op, dtype, src, arg)` looks itself up first: building the same node twice gives the same object. Shape is
derived when a node is made (a malformed one raises ShapeError there); loops a value depends on are derived on
demand. Builders (`const`, `a + b`, `buf.load(i)`, …) fill in dtypes, turn Python numbers into constants of
the other operand's dtype and repeat a scalar over lanes.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import count
from typing import ClassVar, TypeVar, final

from tiny_core import dtypes
from tiny_core.dtypes import DType, Number
from tiny_core.errors import DTypeError, ShapeError
from tiny_core.ir import payload as p
from tiny_core.ir.matrix import MatrixUnit
from tiny_core.ir.ops import COMPARE, ELEMENTWISE, Ops

Key = tuple[Ops, DType, "tuple[UOp, ...]", "p.Payload | None"]
_PayloadT = TypeVar("_PayloadT")
_EMPTY: frozenset[UOp] = frozenset()


class _Entry(weakref.ref["UOp"]):
    """A weak reference that knows its key, so that its death can remove it from the table."""

    __slots__ = ("key",)
    key: Key


@final
class UOp:
    """A node.

    Attributes:
        op: what it does.
        dtype: element type of its value; void for effects and structure.
        src: its sources.
        arg: its payload, or None.
        shape: tensor stage: the array's shape; later: () for a scalar, (n,) for n lanes; (size,) for memory.
    """

    __slots__ = ("__weakref__", "_base", "_ranges", "arg", "dtype", "op", "shape", "src")
    op: Ops
    dtype: DType
    src: tuple[UOp, ...]
    arg: p.Payload | None
    shape: tuple[int, ...]
    _base: UOp
    _ranges: frozenset[UOp] | None

    _table: ClassVar[dict[Key, _Entry]] = {}
    _lock: ClassVar[threading.RLock] = threading.RLock()  # re-entrant: a collection inside may run `_forget`

    def __new__(cls, op: Ops, dtype: DType, src: tuple[UOp, ...] = (), arg: p.Payload | None = None) -> UOp:
        key = (op, dtype, src, arg)
        entry = cls._table.get(key)  # one step of the interpreter; whoever misses looks again under the lock
        if entry is not None and (known := entry()) is not None:
            return known
        with cls._lock:
            entry = cls._table.get(key)
            if entry is not None and (known := entry()) is not None:
                return known
            node = object.__new__(cls)
            node.op, node.dtype, node.src, node.arg = op, dtype, src, arg
            node._ranges = None
            node.shape = _shape(node)
            entry = _Entry(node, cls._forget)
            entry.key = key
            cls._table[key] = entry
            return node

    @classmethod
    def _forget(cls, entry: weakref.ref[UOp]) -> None:
        # runs even when the interpreter ends, when names of this module are gone already: so it uses none
        key: Key = entry.key  # type: ignore[attr-defined]  # it is an _Entry
        with cls._lock:
            if cls._table.get(key) is entry:
                del cls._table[key]

    def __copy__(self) -> UOp:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> UOp:
        return self

    def __repr__(self) -> str:
        shape = str(list(self.shape)) if self.shape else ""
        return f"<{self.op.value} {self.dtype.name}{shape} arg={self.arg}>"

    # ---- payloads, read through typed accessors

    def payload(self, kind: type[_PayloadT]) -> _PayloadT:
        """Return `arg`, which must be of class `kind`."""
        assert isinstance(self.arg, kind), f"{self.op} has payload {self.arg!r}, not {kind.__name__}"
        return self.arg

    @property
    def value(self) -> Number:
        """The number of a CONST."""
        arg = self.payload(p.Const)
        return arg.bits if arg.dtype is dtypes.index else arg.value

    @property
    def is_const(self) -> bool:
        return self.op is Ops.CONST

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def base(self) -> UOp:
        """The PARAM or BUFFER below any AFTER."""
        if self.op is not Ops.AFTER:
            return self
        known: UOp | None = getattr(self, "_base", None)
        if known is None:  # remembered, as chains of assignments can be long
            node = self.src[0]
            while node.op is Ops.AFTER:
                node = getattr(node, "_base", None) or node.src[0]
            self._base = known = node
        return known

    # ---- graph

    def toposort(self, gate: Callable[[UOp], bool] | None = None) -> list[UOp]:
        """Return all nodes below and including this one, sources first; `gate(node)` False does not enter a
        node's sources (the node itself is listed)."""
        return toposort((self,), gate)

    @property
    def ranges(self) -> frozenset[UOp]:
        """The RANGEs this value depends on and that no REDUCE or END below it has closed."""
        known = self._ranges
        if known is None:
            for s in self.src:
                if s._ranges is None:
                    for node in toposort(self.src, lambda n: n._ranges is None):
                        if node._ranges is None:
                            node._ranges = _open_ranges(node)
                    break
            known = self._ranges = _open_ranges(self)
        return known

    def replace(self, src: tuple[UOp, ...] | None = None, arg: p.Payload | None = None) -> UOp:
        """Return this node with other sources or another payload (dtype unchanged)."""
        return UOp(self.op, self.dtype, self.src if src is None else src, self.arg if arg is None else arg)

    def substitute(self, mapping: dict[UOp, UOp]) -> UOp:
        """Return this graph with the keys of `mapping` replaced; replacements are not searched again."""
        if not mapping:
            return self
        done: dict[UOp, UOp] = dict(mapping)
        for node in self.toposort(lambda n: n not in mapping):
            if node not in done:
                src = tuple(done[s] for s in node.src)
                done[node] = node if src == node.src else node.replace(src)
        return done[self]

    # ---- builders

    @staticmethod
    def const(value: Number, dtype: DType | None = None, lanes: int = 0) -> UOp:
        """A constant of `dtype` (by default the weak type of `value`), repeated over `lanes` if not 0."""
        if dtype is None:
            dtype = dtypes.kind_of(value)
        if type(value) is int and not lanes:
            return _whole(value, dtype)
        bits = value if dtype is dtypes.index and type(value) is int else dtypes.to_bits(value, dtype)
        node = UOp(Ops.CONST, dtype, (), p.Const(dtype, bits))
        return node.splat(lanes) if lanes else node

    @staticmethod
    def variable(name: str, lo: int, hi: int) -> UOp:
        return UOp(Ops.VARIABLE, dtypes.index, (), p.Variable(name, lo, hi))

    @staticmethod
    def param(
        slot: int, dtype: DType, size: int, access: str = "r", align: int = 1, space: str = "global"
    ) -> UOp:
        assert access in ("r", "w", "rw")
        return UOp(Ops.PARAM, dtype, (), p.Param(slot, size, access, align, space))  # type: ignore[arg-type]
        # checked

    @staticmethod
    def buffer(dtype: DType, size: int, device: p.Device) -> UOp:
        """New device storage, unlike any other."""
        return UOp(Ops.BUFFER, dtype, (), p.Storage(next(_storage_ids), size, "global", device))

    @staticmethod
    def near(dtype: DType, size: int, id: int, space: str = "local", lanes: int = 0) -> UOp:
        """Near memory or registers of a kernel; `id` is unique in the kernel."""
        return UOp(Ops.BUFFER, dtype, (), p.Storage(id, size, space, None, lanes))

    @staticmethod
    def range(size: int | UOp, axis: str, kind: p.AxisKind = "loop", instance: int = 0) -> UOp:
        """An axis of `size` iterations."""
        stop = UOp.const(size) if isinstance(size, int) else size
        return UOp(Ops.RANGE, stop.dtype, (stop,), p.Range(axis, kind, instance))

    @staticmethod
    def sink(*src: UOp, info: p.KernelInfo | None = None) -> UOp:
        return UOp(Ops.SINK, dtypes.void, src, info)

    def splat(self, lanes: int) -> UOp:
        """This scalar in each of `lanes` lanes (itself for 0)."""
        return UOp(Ops.STACK, self.dtype, (self,) * lanes) if lanes else self

    def _operand(self, other: UOp | Number) -> UOp:
        """`other` as an operand beside this node: of its dtype if a number, and over its lanes if a
        scalar."""
        if not isinstance(other, UOp):
            other = UOp.const(other, self.dtype)
        return other.splat(self.shape[0]) if len(self.shape) == 1 and not other.shape else other

    def alu(self, op: Ops, *others: UOp | Number) -> UOp:
        """Apply an element-wise op with this node as first operand."""
        operands = [self._operand(o) for o in others]
        first = operands[0]._operand(self) if operands else self
        dtype = dtypes.bool_ if op in COMPARE else operands[0].dtype if op is Ops.WHERE else self.dtype
        return UOp(op, dtype, (first, *operands))

    def __neg__(self) -> UOp:
        return self.alu(Ops.NEG)

    def __invert__(self) -> UOp:
        return self.alu(Ops.NOT)

    def __add__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.ADD, other)

    __radd__ = __add__

    def __sub__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.SUB, other)

    def __rsub__(self, other: UOp | Number) -> UOp:
        return self._operand(other).alu(Ops.SUB, self)

    def __mul__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.MUL, other)

    __rmul__ = __mul__

    def __truediv__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.DIV, other)

    def __floordiv__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.FLOORDIV, other)

    def __mod__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.FLOORMOD, other)

    def __and__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.AND, other)

    def __or__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.OR, other)

    def __xor__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.XOR, other)

    def __lshift__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.SHL, other)

    def __rshift__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.SHR, other)

    def __lt__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.CMPLT, other)

    def __le__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.CMPLE, other)

    def __gt__(self, other: UOp | Number) -> UOp:
        return self._operand(other).alu(Ops.CMPLT, self)

    def __ge__(self, other: UOp | Number) -> UOp:
        return self._operand(other).alu(Ops.CMPLE, self)

    def eq(self, other: UOp | Number) -> UOp:
        """Element-wise equality (`==` on nodes is identity)."""
        return self.alu(Ops.CMPEQ, other)

    def ne(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.CMPNE, other)

    def maximum(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.MAX, other)

    def minimum(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.MIN, other)

    def where(self, x: UOp | Number, y: UOp | Number) -> UOp:
        """x where this bool holds, else y; at least one of the two is a node."""
        if not isinstance(x, UOp):
            assert isinstance(y, UOp), "where needs a node for x or y"
            x = y._operand(x)
        return self.alu(Ops.WHERE, x, x._operand(y))

    def cast(self, dtype: DType) -> UOp:
        return self if dtype is self.dtype else UOp(Ops.CAST, dtype, (self,))

    def bitcast(self, dtype: DType) -> UOp:
        if dtype.bits != self.dtype.bits:
            raise DTypeError(f"bitcast from {self.dtype.name} to {dtype.name}: widths differ")
        return self if dtype is self.dtype else UOp(Ops.BITCAST, dtype, (self,))

    def lane(self, lane: int) -> UOp:
        return UOp(Ops.INDEX, self.dtype, (self,), p.Lane(lane))

    def load(
        self,
        index: UOp | int,
        gate: UOp | None = None,
        alt: UOp | Number | None = None,
        lanes: int = 0,
        align: int = 0,
    ) -> UOp:
        """Load from this PARAM or BUFFER; where `gate` is False, `alt` (default 0) without touching
        memory."""
        at = UOp.const(index) if isinstance(index, int) else index
        src: tuple[UOp, ...] = (self, at)
        if gate is not None:
            other = alt if isinstance(alt, UOp) else UOp.const(0 if alt is None else alt, self.dtype, lanes)
            src = (self, at, gate, other)
        return UOp(Ops.LOAD, self.dtype, src, p.Access(lanes, align or self.dtype.itemsize))

    def store(self, index: UOp | int, value: UOp | Number, gate: UOp | None = None, align: int = 0) -> UOp:
        """Store `value` to this PARAM or BUFFER; nothing where `gate` is False."""
        at = UOp.const(index) if isinstance(index, int) else index
        node = value if isinstance(value, UOp) else UOp.const(value, self.dtype)
        lanes = node.shape[0] if node.shape else 0
        src = (self, at, node) if gate is None else (self, at, node, gate)
        return UOp(Ops.STORE, dtypes.void, src, p.Access(lanes, align or self.dtype.itemsize))

    def after(self, *effects: UOp) -> UOp:
        return UOp(Ops.AFTER, self.dtype, (self, *effects)) if effects else self

    def end(self, *ranges: UOp) -> UOp:
        """Close `ranges` (innermost first) around this effect."""
        node = self
        for r in ranges:
            node = UOp(Ops.END, dtypes.void, (r, node))
        return node

    def reduce(self, op: Ops, *ranges: UOp) -> UOp:
        """Reduce over kernel ranges."""
        return UOp(Ops.REDUCE, self.dtype, (self, *ranges), p.Reduce(op)) if ranges else self


_storage_ids: Iterator[int] = count(1)

if hasattr(os, "register_at_fork"):  # the child has none of the other threads, which might hold the lock
    os.register_at_fork(
        before=UOp._lock.acquire, after_in_parent=UOp._lock.release, after_in_child=UOp._lock.release
    )


@lru_cache(maxsize=1 << 12)
def _whole(value: int, dtype: DType) -> UOp:
    """A constant from an int; the most frequent node by far."""
    bits = value if dtype is dtypes.index else dtypes.to_bits(value, dtype)
    return UOp(Ops.CONST, dtype, (), p.Const(dtype, bits))


def toposort(roots: Iterable[UOp], gate: Callable[[UOp], bool] | None = None) -> list[UOp]:
    """Return all nodes below and including `roots`, sources before users, in a fixed order; see
    `UOp.toposort`."""
    order: dict[UOp, None] = {}
    stack: list[UOp | None] = list(roots)
    stack.reverse()
    pop, push = stack.pop, stack.append
    while stack:
        node = pop()
        if node is None:  # the sources of the node below are done
            node = pop()
            assert node is not None
            order[node] = None
        elif node not in order:
            src = node.src
            if src and (gate is None or gate(node)):
                push(node)
                push(None)
                stack += src[::-1] if len(src) > 1 else src
            else:
                order[node] = None
    return list(order)


def _open_ranges(node: UOp) -> frozenset[UOp]:
    """The open RANGEs of a node whose sources know theirs. Equal sets are mostly one object, so nodes share
    them."""
    src, op = node.src, node.op
    if not src:
        return _EMPTY
    if op is Ops.REDUCE:
        return src[0].ranges.difference(src[1:])
    if op is Ops.END:
        return _union(src[1:]).union(src[0].ranges) - {src[0]}
    if op is Ops.RANGE:
        return src[0].ranges | {node}
    if op is Ops.MATRIX and src[2].op is Ops.RANGE:  # its operands' elements end here, C's begin
        inside = _union((*src[:2], *src[3:]))
        return frozenset(r for r in inside if r.payload(p.Range).kind != "vector") | {src[2]}
    return src[0].ranges if len(src) == 1 else _union(src)


def _union(nodes: tuple[UOp, ...]) -> frozenset[UOp]:
    total = _EMPTY
    for node in nodes:
        more = node._ranges
        if more is not total and more:
            total = more if total <= more else total if more <= total else total | more
    return total


# ---- shapes


def _shape(node: UOp) -> tuple[int, ...]:
    if node.op in ELEMENTWISE:
        shape = node.src[0].shape
        for s in node.src:
            if s.shape is not shape and s.shape != shape:
                raise ShapeError(f"{node.op.value} of shapes {', '.join(str(s.shape) for s in node.src)}")
        return shape
    rule = _SHAPES.get(node.op)
    return rule(node) if rule is not None else ()


def _reshape(node: UOp) -> tuple[int, ...]:
    dims = node.payload(p.Shape).dims
    if math.prod(dims) != node.src[0].size or any(d < 0 for d in dims):
        raise ShapeError(f"cannot reshape {node.src[0].shape} to {dims}: {node.src[0].size} elements")
    return dims


def _expand(node: UOp) -> tuple[int, ...]:
    dims, have = node.payload(p.Shape).dims, node.src[0].shape
    if len(dims) < len(have) or any(
        h not in (1, d) for h, d in zip(have, dims[len(dims) - len(have) :], strict=True)
    ):
        raise ShapeError(
            f"cannot expand {have} to {dims}", "an axis must be 1 or keep its size; new axes lead"
        )
    return dims


def _permute(node: UOp) -> tuple[int, ...]:
    axes, have = node.payload(p.Axes).axes, node.src[0].shape
    if sorted(axes) != list(range(len(have))):
        raise ShapeError(f"{axes} is not a permutation of the {len(have)} axes of {have}")
    return tuple(have[a] for a in axes)


def _bounds(node: UOp) -> tuple[int, ...]:
    pairs, have = node.payload(p.Bounds).pairs, node.src[0].shape
    if len(pairs) != len(have):
        raise ShapeError(f"{node.op.value} of {have} needs {len(have)} pairs, got {len(pairs)}")
    if node.op is Ops.PAD:
        if any(a < 0 or b < 0 for a, b in pairs):
            raise ShapeError(f"cannot pad {have} by {pairs}: negative")
        return tuple(n + a + b for n, (a, b) in zip(have, pairs, strict=True))
    if any(not 0 <= a <= b <= n for n, (a, b) in zip(have, pairs, strict=True)):
        raise ShapeError(f"cannot shrink {have} to {pairs}: out of bounds")
    return tuple(b - a for a, b in pairs)


def _shear(node: UOp) -> tuple[int, ...]:
    arg, have = node.payload(p.Shear), node.src[0].shape
    other = have[arg.by] if arg.by is not None else 1
    # the longer of the two lengths that the map ties together, and the shorter
    long, short = (have[arg.axis], arg.size) if node.op is Ops.SHEAR else (arg.size, have[arg.axis])
    if arg.stride < 1 or arg.dilation < 0 or arg.axis == arg.by:
        raise ShapeError(f"{node.op.value} of {have} with {arg}")
    if short and other and (short - 1) * arg.stride + (other - 1) * arg.dilation >= long:
        raise ShapeError(f"{node.op.value} of {have} to {arg.size} along axis {arg.axis} runs out of bounds")
    return (*have[: arg.axis], arg.size, *have[arg.axis + 1 :])


def _reduce(node: UOp) -> tuple[int, ...]:
    axes, have = node.payload(p.Reduce).axes, node.src[0].shape
    if any(not 0 <= a < len(have) for a in axes) or len(set(axes)) != len(axes):
        raise ShapeError(f"cannot reduce axes {axes} of {have}")
    return tuple(n for i, n in enumerate(have) if i not in axes)


def _gather(node: UOp) -> tuple[int, ...]:
    x, *indices = node.src
    if not indices or len(indices) > len(x.shape) or any(i.shape != indices[0].shape for i in indices):
        raise ShapeError(f"gather of {x.shape} by indices of shapes {[i.shape for i in indices]}")
    return indices[0].shape + x.shape[len(indices) :]


def _lanes(n: int) -> tuple[int, ...]:
    return (n,) if n else ()


def _load(node: UOp) -> tuple[int, ...]:
    base = node.src[0].base
    if base.op is Ops.BUFFER and base.payload(p.Storage).space == "register":
        return _lanes(base.payload(p.Storage).lanes)
    return _lanes(node.payload(p.Access).lanes)


def _target(node: UOp) -> tuple[int, ...]:
    return node.payload(p.TargetOp).result(tuple((s.dtype, s.shape) for s in node.src))[1]


_SHAPES: dict[Ops, Callable[[UOp], tuple[int, ...]]] = {
    Ops.BUFFER: lambda n: (n.payload(p.Storage).size,),
    Ops.PARAM: lambda n: (n.payload(p.Param).size,),
    Ops.IOTA: lambda n: (n.payload(p.Iota).size,),
    Ops.STACK: lambda n: (len(n.src),),
    Ops.SHUFFLE: lambda n: (len(n.payload(p.Shuffle).lanes),),
    Ops.RESHAPE: _reshape,
    Ops.EXPAND: _expand,
    Ops.PERMUTE: _permute,
    Ops.PAD: _bounds,
    Ops.SHRINK: _bounds,
    Ops.FLIP: lambda n: n.src[0].shape,
    Ops.SHEAR: _shear,
    Ops.UNSHEAR: _shear,
    Ops.GATHER: _gather,
    Ops.REDUCE: _reduce,
    Ops.LOAD: _load,
    Ops.COPY: lambda n: n.src[0].shape,
    Ops.AFTER: lambda n: n.src[0].shape,
    Ops.CONTIGUOUS: lambda n: n.src[0].shape,
    Ops.DETACH: lambda n: n.src[0].shape,
    Ops.MATRIX: lambda n: () if n.src[2].op is Ops.RANGE else n.payload(MatrixUnit).c.shape,
    Ops.TARGET: _target,
}
