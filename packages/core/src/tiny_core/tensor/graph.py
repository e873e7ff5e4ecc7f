"""Builders of tensor-stage nodes, shared by the Tensor methods and by differentiation.

In: nodes and Python numbers. Out: nodes that the tensor spec accepts: operands of equal shape and dtype,
explicit EXPAND, no weak dtypes. A builder that would change nothing returns its argument. Checks here are
our own invariants; what a user can get wrong is checked by the methods of Tensor before they come here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tiny_core import dtypes
from tiny_core.dtypes import DType, Number
from tiny_core.errors import ShapeError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import COMPARE, MOVEMENT, Ops
from tiny_core.ir.uop import UOp

Shape = tuple[int, ...]


def const(value: Number, dtype: DType, shape: Shape = ()) -> UOp:
    """A number of a strong dtype, repeated over `shape`."""
    # a zero's sign is no part of a key, so zeros are made each time
    return expand(_number(value, dtype) if value else UOp.const(value, dtype), shape)


@lru_cache(maxsize=4096, typed=True)
def _number(value: Number, dtype: DType) -> UOp:
    return UOp.const(value, dtype)


def const_like(value: Number, like: UOp) -> UOp:
    return const(value, like.dtype, like.shape)


def iota(n: int, dtype: DType = dtypes.int32) -> UOp:
    """The numbers 0 … n-1."""
    return UOp(Ops.IOTA, dtype, (), p.Iota(n))


def iota_along(shape: Shape, axis: int, dtype: DType = dtypes.int32) -> UOp:
    """The index along `axis`, at every position of an array of `shape`."""
    line = tuple(n if i == axis else 1 for i, n in enumerate(shape))
    return expand(reshape(iota(shape[axis], dtype), line), shape)


# ---- element-wise -----------------------------------------------------------------------------------------


def alu(op: Ops, *src: UOp) -> UOp:
    """An element-wise op on nodes of one shape."""
    dtype = dtypes.bool_ if op in COMPARE else src[1].dtype if op is Ops.WHERE else src[0].dtype
    return UOp(op, dtype, src)


def scalar_op(op: Ops, x: UOp, value: Number) -> UOp:
    """`x op value` with a number of x's dtype."""
    return alu(op, x, const_like(value, x))


def where(condition: UOp, x: UOp, y: UOp) -> UOp:
    return UOp(Ops.WHERE, x.dtype, (condition, x, y))


def cast(x: UOp, dtype: DType) -> UOp:
    return x if x.dtype is dtype else UOp(Ops.CAST, dtype, (x,))


def is_number(x: UOp) -> bool:
    """Whether every element of `x` is one constant."""
    while x.op in (Ops.EXPAND, Ops.RESHAPE):
        x = x.src[0]
    return x.op is Ops.CONST


# ---- movement ---------------------------------------------------------------------------------------------


def reshape(x: UOp, shape: Shape) -> UOp:
    return x if x.shape == shape else UOp(Ops.RESHAPE, x.dtype, (x,), p.Shape(shape))


def expand(x: UOp, shape: Shape) -> UOp:
    return x if x.shape == shape else UOp(Ops.EXPAND, x.dtype, (x,), p.Shape(shape))


def permute(x: UOp, axes: Shape) -> UOp:
    return x if axes == tuple(range(len(axes))) else UOp(Ops.PERMUTE, x.dtype, (x,), p.Axes(axes))


def bounds(pairs: tuple[tuple[int, int], ...]) -> p.Bounds:
    return p.Bounds(pairs)


def pad(x: UOp, pairs: tuple[tuple[int, int], ...]) -> UOp:
    """Zeros (False) around."""
    return x if all(q == (0, 0) for q in pairs) else UOp(Ops.PAD, x.dtype, (x,), p.Bounds(pairs))


def filled(x: UOp, pairs: tuple[tuple[int, int], ...], value: Number) -> UOp:
    """`value` around."""
    node, fill = pad(x, pairs), const(value, x.dtype)
    if node is x or fill is const(0, x.dtype):
        return node
    inside = pad(const(True, dtypes.bool_, x.shape), pairs)
    return where(inside, node, expand(fill, node.shape))


def shrink(x: UOp, pairs: tuple[tuple[int, int], ...]) -> UOp:
    if all(a == 0 and b == n for (a, b), n in zip(pairs, x.shape, strict=True)):
        return x
    return UOp(Ops.SHRINK, x.dtype, (x,), p.Bounds(pairs))


def flip(x: UOp, axes: Shape) -> UOp:
    return UOp(Ops.FLIP, x.dtype, (x,), p.Axes(axes)) if axes else x


def shear(x: UOp, axis: int, by: int | None, stride: int, dilation: int, size: int) -> UOp:
    return UOp(Ops.SHEAR, x.dtype, (x,), p.Shear(axis, by, stride, dilation, size))


def windows(x: UOp, axis: int, size: int, step: int = 1) -> UOp:
    """All windows of `size` along an axis, `step` apart; a new last axis runs within one."""
    last = len(x.shape)
    wide = expand(insert_axes(x, (last,)), (*x.shape, size))
    return shear(wide, axis, last, step, 1, (x.shape[axis] - size) // step + 1)


def detach(x: UOp) -> UOp:
    return UOp(Ops.DETACH, x.dtype, (x,))


def gather(x: UOp, indices: Sequence[UOp]) -> UOp:
    """x indexed along its leading axes by integer nodes of one shape; 0 where out of range."""
    return UOp(Ops.GATHER, x.dtype, (x, *indices))


def along(x: UOp, axis: int, n: int, index: UOp) -> UOp:
    """x along an axis at an index of n integers."""
    shape = tuple(n if a == axis else s for a, s in enumerate(x.shape))
    line = reshape(index, tuple(n if a == axis else 1 for a in range(len(shape))))
    return gather(x, [expand(line, shape) if a == axis else iota_along(shape, a) for a in range(len(shape))])


def insert_axes(x: UOp, axes: Sequence[int]) -> UOp:
    """Axes of length 1 at these places of the result."""
    shape = list(x.shape)
    for axis in sorted(axes):
        shape.insert(axis, 1)
    return reshape(x, tuple(shape))


def restep(chain: Sequence[UOp], x: UOp) -> UOp:
    """Apply the movements (and DETACHs) of `chain`, first one first, to another node."""
    for step in chain:
        x = UOp(step.op, x.dtype, (x,), step.arg)
    return x


def movements(x: UOp) -> tuple[list[UOp], UOp]:
    """Take apart a chain of movements (and DETACHs): the steps, first one first, and what they start from."""
    chain = []
    while x.op in MOVEMENT or x.op is Ops.DETACH:
        chain.append(x)
        x = x.src[0]
    chain.reverse()
    return chain, x


# ---- reductions -------------------------------------------------------------------------------------------


def identity(op: Ops, dtype: DType) -> Number:
    """What changes no value that it is reduced with."""
    return {Ops.ADD: 0, Ops.MUL: 1, Ops.MAX: dtype.min, Ops.MIN: dtype.max}[op]


def reduce(op: Ops, x: UOp, axes: Sequence[int]) -> UOp:
    """Reduce over `axes`, which disappear. Over no elements it gives the identity of `op`."""
    if not axes:
        return x
    if 0 in x.shape and x.dtype.is_float and op in (Ops.ADD, Ops.MUL):
        # a sum of one 0 each, so that gradients (of no elements) find the way
        one = pad(x, tuple((0, int(n == 0 and i in axes)) for i, n in enumerate(x.shape)))
        total = UOp(Ops.REDUCE, x.dtype, (one,), p.Reduce(Ops.ADD, tuple(sorted(axes))))
        return total if op is Ops.ADD else scalar_op(Ops.ADD, total, 1)
    if 0 in x.shape:
        return const(identity(op, x.dtype), x.dtype, tuple(n for i, n in enumerate(x.shape) if i not in axes))
    return UOp(Ops.REDUCE, x.dtype, (x,), p.Reduce(op, tuple(sorted(axes))))


def reduce_keep(op: Ops, x: UOp, axes: Sequence[int]) -> UOp:
    """Reduce over `axes`, which become 1."""
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    return reshape(reduce(op, x, axes), shape)


def accumulator(dtype: DType) -> DType:
    """The dtype in which a sum or product of `dtype` is accumulated."""
    if dtype in dtypes.narrow_floats:
        return dtypes.float32
    if dtype.kind in ("bool", "int") and dtype.bits < 32:
        return dtypes.int32
    return dtypes.uint32 if dtype.is_unsigned and dtype.bits < 32 else dtype


# ---- broadcasting -----------------------------------------------------------------------------------------


def broadcast_shape(what: str, *shapes: Shape) -> Shape:
    """Return the shape that all broadcast to by numpy's rule; raises ShapeError naming `what`."""
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    rank = max(len(s) for s in shapes)
    out = []
    for axis in range(-rank, 0):
        sizes = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if len(sizes) > 1:
            raise ShapeError(
                f"{what}: shapes {' and '.join(str(s) for s in shapes)} do not broadcast",
                f"axis {axis} has sizes {' and '.join(str(s[axis]) for s in shapes if len(s) >= -axis)}; "
                "sizes must be equal or 1, counted from the last axis",
            )
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)
