"""The derivative of each op of the tensor stage, as a table.

A rule takes a node, the cotangent g of its value, and which sources need one; it gives the cotangent of each
source that does. Everything it builds is made of ops that have rules, so derivatives can be differentiated
again.

Where a function has a kink, the choice is PyTorch's: MAX and MIN share equally between equal operands, but a
constant takes all (relu'(0) = 0); a maximum over axes shares equally between equal greatest elements (as
`amax` does).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor import graph as g
from tiny_core.tensor.ordering import key_of, sums_by_key

Cotangents = Sequence[UOp | None]
Rule = Callable[[UOp, UOp, Sequence[bool]], Cotangents]
_NOTHING = (None, None, None)


def mul(x: UOp, y: UOp) -> UOp:
    return g.alu(Ops.MUL, x, y)


def div(x: UOp, y: UOp) -> UOp:
    return g.alu(Ops.DIV, x, y)


def neg(x: UOp) -> UOp:
    return g.alu(Ops.NEG, x)


def zeros(x: UOp) -> UOp:
    return g.const_like(0, x)


def total(x: UOp, axes: Sequence[int]) -> UOp:
    """Sum over axes, accumulated as sums are. The sum of a sum is one sum over the axes of both."""
    if not axes:
        return x
    if x.op is Ops.REDUCE and x.payload(p.Reduce).op is Ops.ADD:
        inner = x.payload(p.Reduce).axes
        kept = [a for a in range(len(x.src[0].shape)) if a not in inner]
        return g.reduce(Ops.ADD, x.src[0], (*inner, *(kept[a] for a in axes)))
    return g.cast(g.reduce(Ops.ADD, g.cast(x, g.accumulator(x.dtype)), axes), x.dtype)


def again(x: UOp, axes: Sequence[int], shape: tuple[int, ...]) -> UOp:
    """Undo a reduction's shape: put its axes back and repeat along them."""
    return g.expand(g.insert_axes(x, axes), shape)


def reshape(x: UOp, shape: tuple[int, ...]) -> UOp:
    """A reshape; of reshapes, only the last counts."""
    while x.op is Ops.RESHAPE:
        x = x.src[0]
    return g.reshape(x, shape)


# ---- arithmetic -------------------------------------------------------------------------------------------


def _product(n: UOp, c: UOp, need: Sequence[bool]) -> Cotangents:
    x, y = n.src
    return mul(c, y) if need[0] else None, mul(c, x) if need[1] else None


def _quotient(n: UOp, c: UOp, need: Sequence[bool]) -> Cotangents:
    y = n.src[1]
    return div(c, y) if need[0] else None, neg(div(mul(c, n), y)) if need[1] else None


def _power(n: UOp, c: UOp, need: Sequence[bool]) -> Cotangents:
    x, y = n.src
    dx = dy = None
    if need[0]:
        slope = mul(y, g.alu(Ops.POW, x, g.scalar_op(Ops.SUB, y, 1)))
        # 0 * 0**-1 is NaN, but the slope of x**0 is 0
        dx = g.where(g.scalar_op(Ops.CMPEQ, y, 0), zeros(c), mul(c, slope))
    if need[1]:
        logarithm = g.scalar_op(Ops.MUL, g.alu(Ops.LOG2, x), math.log(2))
        flat = g.alu(Ops.AND, g.scalar_op(Ops.CMPEQ, x, 0), g.alu(Ops.CMPLE, zeros(y), y))
        dy = g.where(flat, zeros(c), mul(c, mul(n, logarithm)))
    return dx, dy


def _extreme(n: UOp, c: UOp, need: Sequence[bool]) -> Cotangents:
    x, y = n.src
    # the result tells who won as well as the operands do, and is what a kernel will have stored
    if n.op is Ops.MIN:
        x_wins, y_wins = g.alu(Ops.CMPLT, n, y), g.alu(Ops.CMPLT, n, x)
    else:
        x_wins, y_wins = g.alu(Ops.CMPLT, y, n), g.alu(Ops.CMPLT, x, n)
    if g.is_number(x) or g.is_number(y):
        tie = zeros(c)
    else:
        tie = g.where(g.alu(Ops.CMPEQ, x, y), g.scalar_op(Ops.MUL, c, 0.5), zeros(c))
    return (
        g.where(x_wins, c, tie) if need[0] else None,
        g.where(y_wins, c, tie) if need[1] else None,
    )


def _choice(n: UOp, c: UOp, need: Sequence[bool]) -> Cotangents:
    condition = n.src[0]
    return (
        None,
        g.where(condition, c, zeros(c)) if need[1] else None,
        g.where(condition, zeros(c), c) if need[2] else None,
    )


def _fused(n: UOp, c: UOp, need: Sequence[bool]) -> Cotangents:
    x, y, _ = n.src
    return mul(c, y) if need[0] else None, mul(c, x) if need[1] else None, c


def _slope_of_sine(x: UOp) -> UOp:
    """The cosine, which is spelled sin(x + pi/2); where x is such a sum already, -sin."""
    if x.op is Ops.ADD and x.src[1] is g.const_like(math.pi / 2, x):
        return neg(g.alu(Ops.SIN, x.src[0]))
    return g.alu(Ops.SIN, g.scalar_op(Ops.ADD, x, math.pi / 2))


# ---- movement: the adjoint of a view puts each element back, and adds up those that were shown more than on


def _unexpand(n: UOp, c: UOp) -> UOp:
    have = n.src[0].shape
    lead = len(c.shape) - len(have)
    axes = [i for i in range(len(c.shape)) if i < lead or have[i - lead] != c.shape[i]]
    return reshape(total(c, axes), have)


def _unpermute(n: UOp, c: UOp) -> UOp:
    axes = n.payload(p.Axes).axes
    return g.permute(c, tuple(sorted(range(len(axes)), key=axes.__getitem__)))


def _unpad(n: UOp, c: UOp) -> UOp:
    pairs = n.payload(p.Bounds).pairs
    return g.shrink(c, tuple((a, a + s) for (a, _), s in zip(pairs, n.src[0].shape, strict=True)))


def _unshrink(n: UOp, c: UOp) -> UOp:
    pairs = n.payload(p.Bounds).pairs
    return g.pad(c, tuple((a, s - b) for (a, b), s in zip(pairs, n.src[0].shape, strict=True)))


def _unshear(n: UOp, c: UOp) -> UOp:
    arg = n.payload(p.Shear)
    op = Ops.UNSHEAR if n.op is Ops.SHEAR else Ops.SHEAR
    return _sheared(op, c, arg.axis, arg.by, arg, n.src[0].shape[arg.axis])


def _sheared(op: Ops, c: UOp, axis: int, by: int | None, arg: p.Shear, size: int) -> UOp:
    """UNSHEAR (or SHEAR) of a sum is the sum of it: so the data gradient of a convolution is one REDUCE,
    over channels and window, of sheared products, and not a sum of sums."""
    if c.op is Ops.REDUCE and c.payload(p.Reduce).op is Ops.ADD:
        inner = c.payload(p.Reduce).axes
        kept = [a for a in range(len(c.src[0].shape)) if a not in inner]
        body = _sheared(op, c.src[0], kept[axis], None if by is None else kept[by], arg, size)
        return g.reduce(Ops.ADD, body, inner)
    return UOp(op, c.dtype, (c,), p.Shear(axis, by, arg.stride, arg.dilation, size))


MOVEMENT: dict[Ops, Callable[[UOp, UOp], UOp]] = {
    Ops.RESHAPE: lambda n, c: reshape(c, n.src[0].shape),
    Ops.EXPAND: _unexpand,
    Ops.PERMUTE: _unpermute,
    Ops.PAD: _unpad,
    Ops.SHRINK: _unshrink,
    Ops.FLIP: lambda n, c: g.flip(c, n.payload(p.Axes).axes),
    Ops.SHEAR: _unshear,
    Ops.UNSHEAR: _unshear,
}
"""The adjoint of each movement: from (node, cotangent) to the cotangent of its source."""


def put_back(steps: Sequence[UOp], c: UOp) -> UOp:
    """The adjoint of a chain of movements, first one first."""
    for step in reversed(steps):
        c = MOVEMENT[step.op](step, c)
    return c


# ---- reductions -------------------------------------------------------------------------------------------


def _reduction(n: UOp, c: UOp, need: Sequence[bool]) -> Cotangents:
    x, arg = n.src[0], n.payload(p.Reduce)
    spread = again(c, arg.axes, x.shape)
    if arg.op is Ops.ADD:
        return (spread,)
    if arg.op is Ops.MUL:
        return (_of_product(n, x, arg.axes, spread),)
    hit = g.alu(Ops.CMPEQ, x, again(n, arg.axes, x.shape))
    share = div(c, total(g.cast(hit, x.dtype), arg.axes))
    return (g.where(hit, again(share, arg.axes, x.shape), zeros(x)),)


def _of_product(n: UOp, x: UOp, axes: Sequence[int], spread: UOp) -> UOp:
    """Each element's share is the product of the others: all over x where nothing is 0; where one element is
    0, only it has a share, the product of the rest."""
    zero = g.scalar_op(Ops.CMPEQ, x, 0)
    others = g.where(zero, g.const_like(1, x), x)
    rest = again(g.reduce(Ops.MUL, others, axes), axes, x.shape)
    count = again(total(g.cast(zero, x.dtype), axes), axes, x.shape)
    alone = g.alu(Ops.AND, zero, g.scalar_op(Ops.CMPEQ, count, 1))
    share = g.where(g.scalar_op(Ops.CMPEQ, count, 0), div(again(n, axes, x.shape), others), zeros(x))
    return mul(spread, g.where(alone, rest, share))


# ---- gathering --------------------------------------------------------------------------------------------


def _gathered(n: UOp, c: UOp, need: Sequence[bool]) -> Cotangents:
    """x[i…] puts back c: for each place of x, the sum of the elements whose indices name it.

    Axes that are indexed by their own number (an IOTA along an axis of the result, as `Tensor.gather` has
    them) need no comparison: they stay where they are.
    """
    x, *indices = n.src
    k, shape = len(indices), indices[0].shape
    straight: dict[int, int] = {}  # axis of x: axis of the result
    for axis, index in enumerate(indices):
        along = _along(index)
        if along is not None and along not in straight.values():
            straight[axis] = along
    compared = [a for a in range(k) if a not in straight]
    summed = [j for j in range(len(shape)) if j not in straight.values()]
    if c.size * math.prod(x.shape[a] for a in compared) > _COMPARED:
        return (_put_back(x, indices, c, straight), *(None for _ in indices))
    # cotangent over (compared axes of x…, axes of the indices…, rest of x…)
    lead = tuple(x.shape[a] for a in compared)
    full = (*lead, *c.shape)
    value = g.expand(c, full)
    for place, axis in enumerate(compared):
        line = g.iota_along(full, place, indices[axis].dtype)
        name = g.reshape(indices[axis], (*(1,) * len(lead), *shape, *(1,) * (len(c.shape) - len(shape))))
        value = g.where(g.alu(Ops.CMPEQ, line, g.expand(name, full)), value, zeros(value))
    value = total(value, [len(lead) + j for j in summed])
    # now (compared axes…, straight axes in the order of the result…, rest…): bring them into x's order
    kept = [j for j in range(len(shape)) if j in straight.values()]
    position = {a: i for i, a in enumerate(compared)}
    position |= {a: len(lead) + kept.index(j) for a, j in straight.items()}
    order = (*(position[a] for a in range(k)), *range(k, len(value.shape)))
    value = g.permute(value, order)
    pairs = tuple((0, s - v) for s, v in zip(x.shape, value.shape, strict=True))
    return (g.pad(value, pairs), *(None for _ in indices))


_COMPARED = 1 << 22  # comparisons of indices with places above which elements are sorted by place instead


def _put_back(x: UOp, indices: Sequence[UOp], c: UOp, straight: dict[int, int]) -> UOp:
    """`_gathered` for many places: elements of one place are summed as neighbours, after sorting."""
    k, shape = len(indices), indices[0].shape
    kept = [straight[a] for a in sorted(straight)]  # axes of the result, in the order of x's
    summed = [j for j in range(len(shape)) if j not in kept]
    compared = [a for a in range(k) if a not in straight]
    key = key_of([indices[a] for a in compared], [x.shape[a] for a in compared], shape)
    rows, n = math.prod(shape[j] for j in kept), math.prod(shape[j] for j in summed)
    keys = g.reshape(g.permute(key, (*kept, *summed)), (rows, n))
    rest = c.shape[len(shape) :]
    values = g.permute(c, (*kept, *summed, *range(len(shape), len(c.shape))))
    width, count = math.prod(rest), math.prod(x.shape[a] for a in compared)
    wide = g.cast(g.reshape(values, (rows, n, width)), g.accumulator(c.dtype))
    sums = g.cast(sums_by_key(Ops.ADD, wide, keys, count)[0], c.dtype)
    # (straight axes…, compared axes…, rest…) into x's order
    made = (*(shape[j] for j in kept), *(x.shape[a] for a in compared), *rest)
    order = [*sorted(straight), *compared]
    sums = g.permute(g.reshape(sums, made), (*(order.index(a) for a in range(k)), *range(k, len(made))))
    return g.pad(sums, tuple((0, s - v) for s, v in zip(x.shape, sums.shape, strict=True)))


def _along(index: UOp) -> int | None:
    """The axis that an index node numbers, or None."""
    node = index
    while node.op in (Ops.EXPAND, Ops.RESHAPE):
        node = node.src[0]
    if node.op is not Ops.IOTA:
        return None
    n = node.payload(p.Iota).size
    for axis, size in enumerate(index.shape):
        if size == n and index is g.iota_along(index.shape, axis, index.dtype):
            return axis
    return None


def _copied(n: UOp, c: UOp, need: Sequence[bool]) -> Cotangents:
    for node in n.src[0].toposort():
        if node.op is Ops.BUFFER:
            device = node.payload(p.Storage).device
            assert device is not None
            return (UOp(Ops.COPY, c.dtype, (c,), p.Copy(device)),)
    return (c,)


def _movement(n: UOp, c: UOp, need: Sequence[bool]) -> Cotangents:
    return (MOVEMENT[n.op](n, c),)


RULES: dict[Ops, Rule] = {
    # linear
    Ops.NEG: lambda n, c, _: (neg(c),),
    Ops.ADD: lambda n, c, _: (c, c),
    Ops.SUB: lambda n, c, need: (c, neg(c) if need[1] else None),
    Ops.CAST: lambda n, c, _: (g.cast(c, n.src[0].dtype) if n.src[0].dtype.is_float else None,),
    # products and powers; n is the value itself, so that nothing is computed twice
    Ops.MUL: _product,
    Ops.DIV: _quotient,
    Ops.MULACC: _fused,
    Ops.POW: _power,
    Ops.RECIP: lambda n, c, _: (neg(mul(c, mul(n, n))),),
    Ops.SQRT: lambda n, c, _: (div(c, g.scalar_op(Ops.MUL, n, 2)),),
    # transcendental
    Ops.EXP2: lambda n, c, _: (mul(c, g.scalar_op(Ops.MUL, n, math.log(2))),),
    Ops.LOG2: lambda n, c, _: (div(c, g.scalar_op(Ops.MUL, n.src[0], math.log(2))),),
    Ops.SIN: lambda n, c, _: (mul(c, _slope_of_sine(n.src[0])),),
    # piecewise
    Ops.MAX: _extreme,
    Ops.MIN: _extreme,
    Ops.WHERE: _choice,
    # flat, or not of floats
    Ops.TRUNC: lambda n, c, _: _NOTHING,
    Ops.BITCAST: lambda n, c, _: _NOTHING,
    Ops.DETACH: lambda n, c, _: _NOTHING,
    # arrays
    Ops.REDUCE: _reduction,
    Ops.GATHER: _gathered,
    Ops.CONTIGUOUS: lambda n, c, _: (c,),
    Ops.COPY: _copied,
    **dict.fromkeys(MOVEMENT, _movement),
}
