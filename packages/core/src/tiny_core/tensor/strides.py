"""Strides of views, only to decide what aliases: a reshape shares memory where PyTorch's would, else it
copies."""

from __future__ import annotations

import math

from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.tensor.cell import Chain

Strides = tuple[int, ...]


def dense(shape: tuple[int, ...]) -> Strides:
    """Row-major strides, in elements."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def reshaped(shape: tuple[int, ...], strides: Strides, new: tuple[int, ...]) -> Strides | None:
    """Return the strides by which a view of `shape` and `strides` reads as shape `new`; None if it cannot."""
    if 0 in shape:
        return dense(new)
    # runs of axes that lie together like one long axis: (length, stride of the last)
    runs: list[tuple[int, int]] = []
    for n, step in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if runs and runs[-1][1] == n * step:
            runs[-1] = (runs[-1][0] * n, step)
        else:
            runs.append((n, step))
    out: list[int] = []
    have, step = runs.pop() if runs else (1, 1)
    for n in reversed(new):
        if n == 1:
            out.append(0)
            continue
        if have == 1:
            have, step = runs.pop()
        if have % n:
            return None
        out.append(step)
        have, step = have // n, step * n
    return tuple(reversed(out))


def of_view(shape: tuple[int, ...], chain: Chain) -> Strides | None:
    """Return the strides of a chain of views over a dense array of `shape`; None if it has none."""
    strides: Strides | None = dense(shape)
    for op, arg in chain:
        if op is Ops.DETACH:
            continue
        assert strides is not None
        match op, arg:
            case Ops.RESHAPE, p.Shape(dims):
                strides = reshaped(shape, strides, dims)
                shape = dims
            case Ops.EXPAND, p.Shape(dims):
                lead = len(dims) - len(shape)
                kept = [0 if n != m else s for n, m, s in zip(dims[lead:], shape, strides, strict=True)]
                strides, shape = (*(0,) * lead, *kept), dims
            case Ops.PERMUTE, p.Axes(axes):
                strides, shape = tuple(strides[a] for a in axes), tuple(shape[a] for a in axes)
            case Ops.FLIP, p.Axes(axes):
                strides = tuple(-s if i in axes else s for i, s in enumerate(strides))
            case Ops.SHRINK, p.Bounds(pairs):
                shape = tuple(b - a for a, b in pairs)
            case Ops.SHEAR, p.Shear(axis, None, stride, _, size):
                strides = tuple(s * stride if i == axis else s for i, s in enumerate(strides))
                shape = (*shape[:axis], size, *shape[axis + 1 :])
            case _:
                return None
        if strides is None:
            return None
    return strides


def overlaps(chain: Chain) -> bool:
    """Whether several elements of the view may be one element of the array."""
    return any(op is Ops.EXPAND or (op is Ops.SHEAR and isinstance(arg, p.Shear) and arg.by is not None)
               for op, arg in chain)  # fmt: skip
