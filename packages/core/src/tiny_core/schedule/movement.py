"""Movement ops as functions on indices.

`source_index(node, index)` takes one index expression per axis of a movement node's output, and gives the
index expressions into its source, with the condition under which that element exists (PAD, UNSHEAR), or None
where it always does. Nothing is moved, ever: this is all that movement ops become.
"""

from __future__ import annotations

from tiny_core.ir import payload as p
from tiny_core.ir.algebra import simplify
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp

Index = tuple[UOp, ...]
ZERO = UOp.const(0)


def source_index(node: UOp, index: Index) -> tuple[Index, UOp | None]:
    """Return the index into `node.src[0]` of the element that `node` has at `index`, and when it exists."""
    have = node.src[0].shape
    match node.op:
        case Ops.RESHAPE:
            return _reshape(have, node.shape, index), None
        case Ops.EXPAND:
            lead = len(node.shape) - len(have)
            return tuple(ZERO if n == 1 else i for n, i in zip(have, index[lead:], strict=True)), None
        case Ops.PERMUTE:
            axes = node.payload(p.Axes).axes
            inverse = sorted(range(len(axes)), key=axes.__getitem__)
            return tuple(index[a] for a in inverse), None
        case Ops.SHRINK:
            pairs = node.payload(p.Bounds).pairs
            return tuple(simplify(i + a) if a else i for i, (a, _) in zip(index, pairs, strict=True)), None
        case Ops.FLIP:
            axes = node.payload(p.Axes).axes
            return tuple(simplify((n - 1) - i) if k in axes else i
                         for k, (n, i) in enumerate(zip(have, index, strict=True))), None  # fmt: skip
        case Ops.PAD:
            return _pad(node, index)
        case Ops.SHEAR:
            arg = node.payload(p.Shear)
            by = index[arg.by] * arg.dilation if arg.by is not None else ZERO
            moved = simplify(index[arg.axis] * arg.stride + by)
            return (*index[: arg.axis], moved, *index[arg.axis + 1 :]), None
        case Ops.UNSHEAR:
            return _unshear(node, index)
        case _:
            raise AssertionError(f"{node.op} is not a movement")


def _reshape(have: tuple[int, ...], want: tuple[int, ...], index: Index) -> Index:
    """Pair up groups of axes of equal product, so that only what changes is flattened and taken apart
    again."""
    out: list[UOp] = []
    i = j = 0
    while i < len(have) or j < len(want):
        a, b, i0, j0 = 1, 1, i, j
        while True:
            if a == b and (i > i0 or j > j0) and a != 1:
                break
            if a <= b and i < len(have):
                a *= have[i]
                i += 1
            elif j < len(want):
                b *= want[j]
                j += 1
            elif i < len(have):
                a *= have[i]
                i += 1
            else:
                break
        out.extend(_regroup(have[i0:i], want[j0:j], index[j0:j]))
    return tuple(out)


def _regroup(have: tuple[int, ...], want: tuple[int, ...], index: Index) -> list[UOp]:
    real_have = [n for n in have if n != 1]
    real = [(n, x) for n, x in zip(want, index, strict=True) if n != 1]
    if real_have == [n for n, _ in real]:
        taken = iter([x for _, x in real])
        return [ZERO if n == 1 else next(taken) for n in have]
    flat, stride = ZERO, 1
    for n, x in reversed(real):
        flat, stride = flat + x * stride, stride * n
    flat = simplify(flat)
    out: list[UOp] = []
    below = 1
    for k, n in reversed(list(enumerate(have))):
        if n == 1:
            out.append(ZERO)
            continue
        first = all(m == 1 for m in have[:k])
        part = flat // below if below != 1 else flat
        out.append(simplify(part if first else part % n))
        below *= n
    return out[::-1]


def _pad(node: UOp, index: Index) -> tuple[Index, UOp | None]:
    pairs, have = node.payload(p.Bounds).pairs, node.src[0].shape
    gate: UOp | None = None
    out = []
    for n, i, (before, after) in zip(have, index, pairs, strict=True):
        moved = simplify(i - before) if before else i
        if before:
            gate = both(gate, UOp.const(0) <= moved)
        if after:
            gate = both(gate, moved < n)
        out.append(moved)
    return tuple(out), None if gate is None else known(simplify(gate))


def _unshear(node: UOp, index: Index) -> tuple[Index, UOp | None]:
    arg = node.payload(p.Shear)
    by = index[arg.by] * arg.dilation if arg.by is not None else ZERO
    moved = simplify(index[arg.axis] - by)
    gate = UOp.const(0) <= moved
    length = node.src[0].shape[arg.axis]
    if arg.stride != 1:
        gate = gate & (moved % arg.stride).eq(0)
        moved = simplify(moved // arg.stride)
    gate = gate & (moved < length)
    return (*index[: arg.axis], moved, *index[arg.axis + 1 :]), known(simplify(gate))


def both(a: UOp | None, b: UOp | None) -> UOp | None:
    """Return the conjunction of two conditions, None standing for true."""
    if a is None or b is None:
        return a if b is None else b
    return a if a is b else a & b


def known(gate: UOp) -> UOp | None:
    """Return None for a condition that is constantly true."""
    return None if gate.is_const and gate.value else gate


def flat_index(index: Index, shape: tuple[int, ...]) -> UOp:
    """Return the row-major position of `index` in `shape`."""
    flat, stride = ZERO, 1
    for n, x in reversed(tuple(zip(shape, index, strict=True))):
        if n != 1:
            flat = flat + (x * stride if stride != 1 else x)
        stride *= n
    return simplify(flat)
