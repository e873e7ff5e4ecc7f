"""Order on graph nodes: sorting by a network, binary search, and sums of equal keys.

Elements are compared by integer keys of the same order, so that signed zeros and NaN (greater than
everything, as in PyTorch) need no care later, and by their places where keys are equal, so that these keep
their order. The network is bitonic (Batcher: Sorting networks and their applications, AFIPS 1968):
log(n)·(log(n) + 1) / 2 steps for n elements, each of which compares every element with one partner and is a
kernel that streams.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiny_core import dtypes
from tiny_core.dtypes import Number
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor import graph as g

BLOCK = 32  # elements that one step of a running reduction combines


def keys_of(x: UOp, descending: bool) -> UOp:
    """Signed integers in the order of the elements; equal for -0.0 and 0.0, and for every NaN."""
    dtype = x.dtype
    if dtype.is_float:
        wide = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
        of = dtypes.int64 if wide is dtypes.float64 else dtypes.int32
        x = g.cast(x, wide)
        zero, nan = g.const_like(0.0, x), g.const_like(float("nan"), x)
        x = g.where(g.alu(Ops.CMPEQ, x, zero), zero, g.where(g.alu(Ops.CMPNE, x, x), nan, x))
        bits = UOp(Ops.BITCAST, of, (x,))
        flipped = g.scalar_op(Ops.XOR, bits, of.max)
        keys = g.where(g.scalar_op(Ops.CMPLT, bits, 0), flipped, bits)
    elif dtype.is_unsigned and dtype.bits >= 32:
        of = dtypes.int64 if dtype.bits == 64 else dtypes.int32
        keys = g.scalar_op(Ops.XOR, UOp(Ops.BITCAST, of, (x,)), of.min)
    else:
        keys = x if dtype.is_int and dtype.bits >= 32 else g.cast(x, dtypes.int32)
    return g.scalar_op(Ops.XOR, keys, -1) if descending else keys


def sorted_places(keys: UOp) -> UOp:
    """Return the places (int32) along the last axis of the keys in order, equal ones in theirs."""
    lead, n = keys.shape[:-1], keys.shape[-1]
    if keys.size == 0 or n == 1:
        return g.const(0, dtypes.int32, keys.shape)
    total = 1 << (n - 1).bit_length()
    rows = (*lead, total)
    pairs = (*((0, 0),) * len(lead), (0, total - n))
    if total > n:  # what is added is greatest, and comes after its equals
        keys = g.filled(keys, pairs, keys.dtype.max)
    place = g.iota_along(rows, len(lead))
    if keys.dtype is dtypes.int32:  # key and place in one number: a comparison is a minimum
        high = g.scalar_op(Ops.SHL, g.cast(keys, dtypes.int64), 32)
        (both,) = _network((g.alu(Ops.OR, high, g.cast(place, dtypes.int64)),))
        place = g.cast(both, dtypes.int32)
    else:
        _, place = _network((keys, place))
    return g.shrink(place, (*((0, s) for s in lead), (0, n)))


def _network(parts: tuple[UOp, ...]) -> tuple[UOp, ...]:
    """Sort the last axis, of a power of two, of numbers made of these parts, the first weighing most."""
    *lead, n = parts[0].shape
    parts = tuple(map(_stored, parts))
    size = 1
    while size < n:
        # the first step compares mirror images, so that all blocks are sorted alike
        parts = _compared(parts, (*lead, n // (2 * size), 2, size), mirrored=True)
        step = size // 2
        while step:
            parts = _compared(parts, (*lead, n // (2 * step), 2, step), mirrored=False)
            step //= 2
        size *= 2
    return parts


def _compared(parts: tuple[UOp, ...], shape: tuple[int, ...], mirrored: bool) -> tuple[UOp, ...]:
    """Put the lesser of each element and its partner in the other half in the first half of each block."""
    flat, half = parts[0].shape, len(shape) - 2
    mine = [g.reshape(x, shape) for x in parts]
    other = [g.flip(x, (half, half + 1) if mirrored else (half,)) for x in mine]
    first = g.scalar_op(Ops.CMPEQ, g.iota_along(shape, half), 0)
    if len(parts) == 1:
        low, high = g.alu(Ops.MIN, mine[0], other[0]), g.alu(Ops.MAX, mine[0], other[0])
        chosen = [g.where(first, low, high)]
    else:
        (a, i), (b, j) = mine, other
        less = g.alu(
            Ops.OR, g.alu(Ops.CMPLT, a, b), g.alu(Ops.AND, g.alu(Ops.CMPEQ, a, b), g.alu(Ops.CMPLT, i, j))
        )
        keep = g.alu(Ops.CMPEQ, less, first)
        chosen = [g.where(keep, x, y) for x, y in zip(mine, other, strict=True)]
    return tuple(_stored(g.reshape(x, flat)) for x in chosen)


def _stored(x: UOp) -> UOp:
    return UOp(Ops.CONTIGUOUS, x.dtype, (x,))


def _halfway(low: UOp, high: UOp) -> UOp:
    return g.scalar_op(Ops.SHR, g.alu(Ops.ADD, low, high), 1)


def take(x: UOp, index: UOp) -> UOp:
    """Elements along the last axis: out[…, k] = x[…, index[…, k]]."""
    last = len(index.shape) - 1
    return g.gather(x, [*(g.iota_along(index.shape, a) for a in range(last)), index])


def search(rows: UOp, wanted: UOp, right: bool) -> UOp:
    """How many keys along the last axis, which is in order, are less than each wanted one, or not greater
    (int32); `rows` has the other axes of `wanted`, or none."""
    n = rows.shape[-1]
    low = g.const(0, dtypes.int32, wanted.shape)
    if n == 0:
        return low
    high = g.const_like(n, low)
    for _ in range(n.bit_length()):
        middle = _halfway(low, high)
        inside = g.alu(Ops.MIN, middle, g.const_like(n - 1, middle))
        there = g.gather(rows, [inside]) if len(rows.shape) == 1 else take(rows, inside)
        before = g.alu(Ops.CMPLE, there, wanted) if right else g.alu(Ops.CMPLT, there, wanted)
        searching = g.alu(Ops.CMPLT, low, high)
        up = g.alu(Ops.AND, searching, before)
        down = g.where(searching, middle, high)
        low, high = g.where(up, g.scalar_op(Ops.ADD, middle, 1), low), g.where(up, high, down)
    return low


def last_by_key(keys: UOp, count: int) -> tuple[UOp, UOp]:
    """Return the place of the last element of each key 0 … count - 1 along the last axis of (rows, n) int32
    keys, and whether there is one: (rows, count) each. Where there is none the place is any."""
    number = g.iota_along((keys.shape[0], count), 1)
    places = _stored(sorted_places(keys))
    ordered = _stored(take(keys, places))
    end = search(ordered, number, right=True)
    last = g.alu(Ops.MAX, g.scalar_op(Ops.SUB, end, 1), g.const_like(0, end))
    return take(places, last), g.alu(Ops.CMPEQ, take(ordered, last), number)


def key_of(indices: Sequence[UOp], sizes: Sequence[int], shape: tuple[int, ...]) -> UOp:
    """Return one int32 key for several indices of a shape, row-major over axes of these sizes; -1 where an
    index is out of range."""
    key, exists = g.const(0, dtypes.int32, shape), g.const(True, dtypes.bool_, shape)
    for index, n in zip(indices, sizes, strict=True):
        at = g.expand(g.cast(index, dtypes.int32), shape)
        inside = g.alu(Ops.AND, g.alu(Ops.CMPLE, g.const_like(0, at), at), g.scalar_op(Ops.CMPLT, at, n))
        exists = g.alu(Ops.AND, exists, inside)
        key = g.alu(Ops.ADD, g.scalar_op(Ops.MUL, key, n), at)
    return g.where(exists, key, g.const_like(-1, key))


def sums_by_key(op: Ops, values: UOp, keys: UOp, count: int) -> tuple[UOp, UOp]:
    """Reduce elements of equal keys.

    Args:
        op: ADD, MUL, MAX or MIN.
        values: (rows, n, width).
        keys: (rows, n), int32; those outside 0 … count - 1 are left out.
        count: how many keys there are.

    Returns:
        What each key comes to, (rows, count, width), the identity where it does not occur; and how often it
        occurs, (rows, count). It takes n·log(n) steps, and the order of operations is fixed.
    """
    rows, n, width = values.shape
    number, identity = g.iota_along((rows, count), 1), g.identity(op, values.dtype)
    if values.size == 0 or count == 0:
        return g.const(identity, values.dtype, (rows, count, width)), g.const_like(0, number)
    places = sorted_places(keys)
    ordered = _stored(take(keys, places))
    line = (rows, n)
    picked = g.gather(values, [g.iota_along(line, 0), places])
    running = _stored(_running(op, picked, ordered))
    end, begin = search(ordered, number, right=True), search(ordered, number, right=False)
    last = g.alu(Ops.MAX, g.scalar_op(Ops.SUB, end, 1), g.const_like(0, end))
    total = g.gather(running, [g.iota_along((rows, count), 0), last])
    occurs = g.expand(g.insert_axes(g.alu(Ops.CMPLT, begin, end), (2,)), total.shape)
    return g.where(occurs, total, g.const_like(identity, total)), g.alu(Ops.SUB, end, begin)


def _running(op: Ops, values: UOp, keys: UOp) -> UOp:
    """The reduction of all elements up to each one that have its key, along axis 1 of (rows, n, width); equal
    keys are neighbours. As `tensor/scan.py` has it, by blocks."""
    rows, n, width = values.shape
    identity = g.identity(op, values.dtype)
    size = min(n, BLOCK)
    count = -(-n // size)
    values = _filled(values, 0, count * size - n, identity)
    keys = _filled(keys, 0, count * size - n, -1)
    values = g.reshape(values, (rows * count, size, width))
    keys = g.reshape(keys, (rows * count, size))
    near = g.windows(_filled(values, size - 1, 0, identity), 1, size)
    names = g.windows(_filled(keys, size - 1, 0, -1), 1, size)
    mine = g.alu(Ops.CMPEQ, names, g.expand(g.insert_axes(keys, (2,)), names.shape))
    mine = g.expand(g.insert_axes(mine, (2,)), near.shape)
    inside = g.reduce(op, g.where(mine, near, g.const_like(identity, near)), (3,))
    if count > 1:
        ends = ((0, rows * count), (size - 1, size))
        whole = g.reshape(g.shrink(inside, (*ends, (0, width))), (rows, count, width))
        names = g.reshape(g.shrink(keys, ends), (rows, count))
        before = _shifted(_running(op, whole, names), identity)
        name = g.reshape(_shifted(names, -1), (rows * count, 1))
        goes_on = g.alu(Ops.CMPEQ, keys, g.expand(name, keys.shape))
        goes_on = g.expand(g.insert_axes(goes_on, (2,)), inside.shape)
        before = g.expand(g.reshape(before, (rows * count, 1, width)), inside.shape)
        inside = g.where(goes_on, g.alu(op, before, inside), inside)
    flat = g.reshape(inside, (rows, count * size, width))
    return g.shrink(flat, ((0, rows), (0, n), (0, width)))


def _filled(x: UOp, before: int, after: int, value: Number) -> UOp:
    """With so many elements of this value before and after along axis 1."""
    return g.filled(x, ((0, 0), (before, after), *((0, 0),) * (len(x.shape) - 2)), value)


def _shifted(x: UOp, value: Number) -> UOp:
    """By one along axis 1, away from the front, where `value` comes in."""
    pairs = tuple((0, n - (i == 1)) for i, n in enumerate(x.shape))
    return _filled(g.shrink(x, pairs), 1, 0, value)
