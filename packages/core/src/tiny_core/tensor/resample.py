"""Other resolutions: interpolation, transposed convolution, and the reverse of max pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

from tiny_core import dtypes
from tiny_core.errors import DTypeError, ShapeError
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor import graph as g
from tiny_core.tensor.handle import Handle, as_int, as_tensor
from tiny_core.tensor.nnops import Sizes, each_axis, padding_ends
from tiny_core.tensor.shaping import Shaping

_MODES = {"linear": 0, "bilinear": 2, "trilinear": 3, "nearest": 0, "nearest-exact": 0}


class Resampling(Shaping):
    """Resolutions."""

    __slots__ = ()

    def interpolate(self, size: Sequence[int], mode: str = "linear", align_corners: bool = False) -> Self:
        """Resize the last axes, as many as `size` has.

        Args:
            size: lengths wanted.
            mode: "linear" ("bilinear" and "trilinear" are the same for 2 and 3 axes), "nearest" (the element
                at floor(i · in / out)) or "nearest-exact" (the one whose middle is nearest).
            align_corners: for linear, whether first and last elements stay first and last; otherwise the
                borders of the elements are what is aligned.

        Raises:
            DTypeError: there is no such mode; integers are interpolated linearly.
            ShapeError: there are not so many axes, or a length is less than 1.

        >>> Tensor([0.0, 1.0]).interpolate([4]).tolist()
        [0.0, 0.25, 0.75, 1.0]
        """
        if mode not in _MODES:
            raise DTypeError(f"interpolate: mode={mode!r}", f"it is one of {', '.join(_MODES)}")
        wanted = [as_int("interpolate", n) for n in size]
        if len(wanted) > self.ndim or min(wanted, default=1) < 1 or _MODES[mode] not in (0, len(wanted)):
            raise ShapeError(f"interpolate: {tuple(wanted)} with {mode} for shape {self.shape}",
                             "a length of at least 1 for each of the last axes")  # fmt: skip
        linear = mode.endswith("linear")
        if linear and not self.dtype.is_float:
            raise DTypeError(f"interpolate: {mode} of {self.dtype.name}", "cast to a float, or take nearest")
        x, dtype = self._computed_in() if linear else (self, self.dtype)
        node = x.uop
        for axis, n in enumerate(wanted, self.ndim - len(wanted)):
            if node.shape[axis] == 0:
                raise ShapeError(f"interpolate: no elements along axis {axis} of {self.shape}")
            if linear:
                node = _linear(node, axis, n, align_corners)
            else:
                node = _nearest(node, axis, n, exact=mode == "nearest-exact")
        return self._from_node(g.cast(node, dtype), self._cell.device)

    def conv_transpose2d(
        self,
        weight: Handle,
        bias: Handle | None = None,
        groups: int = 1,
        stride: Sizes = 1,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
    ) -> Self:
        """The transpose of `conv2d`: every element spreads the kernel over the result.

        Args:
            weight: (in channels, out channels / groups, kernel…), for this of shape (N, in channels, size…).
            bias: (out channels,).
            groups: parts of the channels that are convolved apart.
            stride: distance of the windows in the result.
            dilation: step within a window.
            padding: what is cut off at each end.
            output_padding: elements more at the far end.

        Returns:
            (N, out channels, size…) of (size - 1) · stride - padding + dilation · (kernel - 1) +
            output_padding + 1 along each axis, where padding counts both ends.

        Raises:
            ShapeError: shapes do not fit.

        >>> Tensor.ones(1, 1, 2).conv_transpose2d(Tensor.ones(1, 1, 2), stride=2).tolist()
        [[[1.0, 1.0, 1.0, 1.0]]]
        """
        as_tensor("conv_transpose2d", weight)
        n = weight.ndim - 2
        if (
            n < 1
            or self.ndim != weight.ndim
            or groups < 1
            or self.shape[1] != weight.shape[0]
            or weight.shape[0] % groups
        ):
            raise ShapeError(
                f"conv_transpose2d: input {self.shape} with weight {weight.shape} in {groups} groups",
                "input is (N, channels, size…), weight (channels, out channels / groups, kernel…)",
            )
        ins, outs, *kernel = weight.shape
        steps, gaps = each_axis("stride", stride, n, 1), each_axis("dilation", dilation, n, 1)
        more = each_axis("output_padding", output_padding, n, 0)
        ends = padding_ends(padding, n)
        # the kernel turned round, and in and out channels swapped within each group
        w = g.reshape(weight.uop, (groups, ins // groups, outs, *kernel))
        w = g.flip(g.permute(w, (0, 2, 1, *range(3, 3 + n))), tuple(range(3, 3 + n)))
        turned = self._from_node(g.reshape(w, (groups * outs, ins // groups, *kernel)), weight._cell.device)
        x = self
        for axis, step in enumerate(steps, 2):
            x = x._spaced(axis, step)
        around = [
            (d * (k - 1) - before, d * (k - 1) - after + extra)
            for k, d, (before, after), extra in zip(kernel, gaps, ends, more, strict=True)
        ]
        return x.pad(((0, 0), (0, 0), *around)).conv2d(turned, bias, groups, dilation=dilation)

    def _spaced(self, axis: int, step: int) -> Self:
        """With step - 1 zeros between each two elements along an axis."""
        if step == 1 or self.shape[axis] == 0:
            return self
        n = self.shape[axis]
        apart = self.unsqueeze(axis + 1).pad(
            [(0, step - 1) if a == axis + 1 else (0, 0) for a in range(self.ndim + 1)]
        )
        flat = apart.reshape(*self.shape[:axis], n * step, *self.shape[axis + 1 :])
        return flat._part(axis, 0, (n - 1) * step + 1)

    def max_unpool2d(
        self,
        indices: Handle,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        output_size: Sequence[int] | None = None,
    ) -> Self:
        """The reverse of `max_pool2d` with indices: its results back in their places, zeros elsewhere.

        Args:
            indices: the place of each element within the last axes of the result, as if these were one.
            kernel_size, stride, dilation, padding: as they were for pooling.
            output_size: lengths of the last axes (or the whole shape) of the result, where pooling lost them.

        Raises:
            ShapeError: shapes do not fit.
        """
        as_tensor("max_unpool2d", indices)
        n = len(kernel_size) if isinstance(kernel_size, Sequence) else 2
        kernel = each_axis("kernel_size", kernel_size, n, 1)
        steps = kernel if stride is None else each_axis("stride", stride, n, 1)
        gaps, ends = each_axis("dilation", dilation, n, 1), padding_ends(padding, n)
        if indices.shape != self.shape or self.ndim < n:
            raise ShapeError(
                f"max_unpool2d: indices of {indices.shape} for {self.shape}", "one for each element"
            )
        size = tuple(
            (m - 1) * s - before - after + d * (k - 1) + 1
            for m, s, d, k, (before, after) in zip(self.shape[-n:], steps, gaps, kernel, ends, strict=True)
        )
        if output_size is not None:
            size = tuple(as_int("max_unpool2d", m) for m in output_size)[-n:]
        lead = self.shape[:-n]
        places = self._from_node(
            g.reshape(indices.uop, (*lead, math.prod(self.shape[-n:]))), indices._cell.device
        )
        empty = self._from_node(g.const(0, self.dtype, (*lead, math.prod(size))), self._cell.device)
        filled = empty.scatter(-1, places, self.reshape(places.shape))
        return filled.reshape(*lead, *size)


def _nearest(node: UOp, axis: int, n: int, exact: bool) -> UOp:
    i, size = g.iota(n, dtypes.int32), node.shape[axis]
    if exact:
        i = g.scalar_op(Ops.ADD, g.scalar_op(Ops.MUL, i, 2), 1)
    at = g.scalar_op(Ops.FLOORDIV, g.scalar_op(Ops.MUL, i, size), 2 * n if exact else n)
    return g.along(node, axis, n, at)


def _linear(node: UOp, axis: int, n: int, align_corners: bool) -> UOp:
    """Positions are (i + 1/2) · in / out - 1/2, not below 0; or i · (in - 1) / (out - 1)."""
    i, size = g.iota(n, dtypes.int32), node.shape[axis]
    if align_corners:
        below, unit = g.scalar_op(Ops.MUL, i, size - 1), max(1, n - 1)
    else:
        below = g.scalar_op(Ops.MUL, g.scalar_op(Ops.ADD, g.scalar_op(Ops.MUL, i, 2), 1), size)
        below = g.alu(Ops.MAX, g.scalar_op(Ops.SUB, below, n), g.const_like(0, below))
        unit = 2 * n
    low = g.alu(Ops.MIN, g.scalar_op(Ops.FLOORDIV, below, unit), g.const_like(size - 1, below))
    high = g.alu(Ops.MIN, g.scalar_op(Ops.ADD, low, 1), g.const_like(size - 1, low))
    part = g.alu(Ops.SUB, below, g.scalar_op(Ops.MUL, low, unit))
    weight = g.scalar_op(Ops.DIV, g.cast(part, node.dtype), unit)
    a, b = g.along(node, axis, n, low), g.along(node, axis, n, high)
    line = g.reshape(weight, tuple(n if k == axis else 1 for k in range(len(a.shape))))
    return g.alu(Ops.ADD, a, g.alu(Ops.MUL, g.expand(line, a.shape), g.alu(Ops.SUB, b, a)))
