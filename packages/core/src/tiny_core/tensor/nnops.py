"""Matrix products, convolution, pooling, normalisation, attention.

Products are EXPAND, MUL and REDUCE(ADD): what a scheduler recognises as a contraction. Operands of narrow
floats are made float32 first, so products are exact and the sum accumulates in float32; the result is
rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Self, cast

from tiny_core import dtypes
from tiny_core.errors import DTypeError, ShapeError
from tiny_core.ir.ops import Ops
from tiny_core.tensor import graph as g
from tiny_core.tensor.handle import DTypeLike, Handle, as_dtype, as_int, as_tensor, promote
from tiny_core.tensor.lines import show
from tiny_core.tensor.random import Random

Sizes = int | Sequence[int]


def each_axis(what: str, value: Sizes, n: int, least: int) -> tuple[int, ...]:
    """One number for each of n axes."""
    out = (
        tuple([as_int(what, v) for v in value]) if isinstance(value, Iterable) else (as_int(what, value),) * n
    )
    if len(out) != n or min(out, default=least) < least:
        raise ShapeError(
            f"{what} {value} for {n} axes", f"give a number of at least {least}, or one for each axis"
        )
    return out


def padding_ends(padding: Sizes, n: int) -> tuple[tuple[int, int], ...]:
    """(before, after) for each of n axes: from one number, one per axis, or flat pairs from the last axis
    on."""
    if isinstance(padding, Sequence) and len(padding) == 2 * n:
        flat = tuple(padding)
        return tuple((flat[2 * i], flat[2 * i + 1]) for i in reversed(range(n)))
    return tuple((q, q) for q in each_axis("padding", padding, n, 0))


class NeuralOps(Random):
    """What networks are made of."""

    __slots__ = ()

    # ---- products -----------------------------------------------------------------------------------------

    def dot(self, w: Handle, dtype: DTypeLike | None = None) -> Self:
        """Matrix product over the last axis of this and the last but one (or only) axis of w; leading axes
        broadcast. `@` and `matmul` are the same.

        Without a dtype, floats of less than 32 bits are accumulated in float32 and rounded once, and small
        integers accumulate in int32, as in `sum`.

        Args:
            w: (…, K, N) or (K,), for this of shape (…, M, K) or (K,).
            dtype: of accumulation and result.

        Raises:
            ShapeError: the inner sizes differ, the leading axes do not broadcast, or one is a scalar.
            DTypeError: w is no tensor.
            DeviceError: it is on another device.

        >>> Tensor([[1.0, 2.0], [3.0, 4.0]]).dot(Tensor([[1.0], [10.0]])).tolist()
        [[21.0], [43.0]]
        """
        x, name = self, "matmul"
        as_tensor(name, w)
        if not x.shape or not w.shape:
            raise ShapeError(
                f"{name} of shapes {x.shape} and {w.shape}", "both need an axis; use * for scalars"
            )
        inner = w.shape[-2] if w.ndim > 1 else w.shape[0]
        if x.shape[-1] != inner:
            raise ShapeError(
                f"{name} of shapes {x.shape} and {w.shape}: {x.shape[-1]} against {inner}",
                "the last axis of the first and the last but one of the second must be equal; "
                f"they were made at {show(x._line)} and {show(w._line)}",
            )
        result = promote(x.dtype, w.dtype)
        compute = g.accumulator(result)
        if dtype is not None:
            result = as_dtype(dtype)
            compute = dtypes.float32 if result in dtypes.narrow_floats else result
        elif not result.is_float:
            result = compute
        a, b = g.cast(x.uop, compute), g.cast(w.uop, compute)
        if x.ndim > 1 and w.ndim > 1:
            a = g.insert_axes(a, (x.ndim - 1,))  # (…, M, 1, K)
        if w.ndim > 1:
            order = (*range(w.ndim - 2), w.ndim - 1, w.ndim - 2)
            b = g.permute(b, order)  # (…, N, K)
            if x.ndim > 1:
                b = g.insert_axes(b, (w.ndim - 2,))  # (…, 1, N, K)
        shape = g.broadcast_shape(name, a.shape, b.shape)
        product = g.alu(Ops.MUL, g.expand(a, shape), g.expand(b, shape))
        node = g.cast(g.reduce(Ops.ADD, product, (len(shape) - 1,)), result)
        return self._result(name, node, w)

    def matmul(self, x: Handle, reverse: bool = False, dtype: DTypeLike | None = None) -> Self:
        """`self @ x`, or `x @ self` with `reverse`; see `dot`."""
        if reverse:
            return self._from_node(x.uop, x._cell.device).dot(self, dtype)
        return self.dot(x, dtype)

    def __matmul__(self, x: Handle) -> Self:
        return self.matmul(x) if isinstance(x, Handle) else NotImplemented

    def __rmatmul__(self, x: Handle) -> Self:
        return self.matmul(x, True) if isinstance(x, Handle) else NotImplemented

    def __imatmul__(self, x: Handle) -> Self:
        return self.assign(self.matmul(x))

    def linear(self, weight: Handle, bias: Handle | None = None, dtype: DTypeLike | None = None) -> Self:
        """`self @ weight + bias`.

        Args:
            weight: (in, out), as `dot` takes it (`nn.Linear` has it the other way round); one of a single
                axis multiplies element by element.
            bias: added, broadcast.
            dtype: to convert this tensor to before.
        """
        x = self if dtype is None else self.cast(dtype)
        as_tensor("linear", weight)
        out = x.mul(weight) if weight.ndim == 1 else x.dot(weight)
        return out if bias is None else out.add(bias)

    # ---- convolution --------------------------------------------------------------------------------------

    def conv2d(
        self,
        weight: Handle,
        bias: Handle | None = None,
        groups: int = 1,
        stride: Sizes = 1,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        dtype: DTypeLike | None = None,
    ) -> Self:
        """Convolution over as many axes as the weight has after its first two (1, 2, 3, …), without turning
        the kernel round, as networks have it.

        Args:
            weight: (out channels, in channels / groups, kernel…), for this of shape (N, in channels, size…).
            bias: (out channels,).
            groups: parts of the channels that are convolved apart.
            stride: step of the windows, one number or one per axis.
            dilation: step within a window.
            padding: zeros around: one number, one per axis, or (left, right, top, bottom, …) from the last
                axis on.
            dtype: of accumulation and result; without one, as `dot`.

        Returns:
            (N, out channels, windows…): (size + padding - dilation * (kernel - 1) - 1) // stride + 1 of them
            along each axis, where padding counts both ends.

        Raises:
            ShapeError: shapes do not fit, or the kernel is larger than the padded input.
            DTypeError: weight or bias is no tensor.
            DeviceError: they are on another device.

        >>> image, weight = Tensor.ones(1, 1, 3, 3), Tensor.ones(1, 1, 2, 2)
        >>> image.conv2d(weight).tolist()
        [[[[4.0, 4.0], [4.0, 4.0]]]]
        >>> image.conv2d(weight, padding=1, stride=2).shape
        (1, 1, 2, 2)
        """
        for t in (weight, *(() if bias is None else (bias,))):
            as_tensor("conv2d", t)
        n = weight.ndim - 2
        if n < 1 or self.ndim != weight.ndim:
            raise ShapeError(
                f"conv2d: input {self.shape} with weight {weight.shape}",
                "input is (N, channels, size…), weight (out channels, in channels / groups, kernel…)",
            )
        batch, channels = self.shape[:2]
        outs, ins, *kernel = weight.shape
        if groups < 1 or channels != groups * ins or outs % groups:
            raise ShapeError(
                f"conv2d: input of {channels} channels with weight {weight.shape} in {groups} groups",
                f"channels must be groups * {ins}, and the {outs} outputs a multiple of groups",
            )
        if bias is not None and bias.shape != (outs,):
            raise ShapeError(
                f"conv2d: bias {bias.shape} for {outs} output channels", f"its shape must be ({outs},)"
            )
        result = promote(self.dtype, weight.dtype) if dtype is None else as_dtype(dtype)
        compute = g.accumulator(result)
        strides, dilations = each_axis("stride", stride, n, 1), each_axis("dilation", dilation, n, 1)
        padded = self.cast(compute).pad(((0, 0), (0, 0), *padding_ends(padding, n)))
        windows = padded._pool(kernel, strides, dilations)  # (N, C, out…, kernel…)
        out = windows.shape[2 : 2 + n]
        per_group = (1, outs) if groups == 1 else (1, groups, outs // groups)
        x = g.reshape(windows, (batch, *(() if groups == 1 else (groups,)), 1, ins, *out, *kernel))
        w = g.reshape(g.cast(weight.uop, compute), (*per_group, ins, *(1,) * n, *kernel))
        shape = g.broadcast_shape("conv2d", x.shape, w.shape)
        product = g.alu(Ops.MUL, g.expand(x, shape), g.expand(w, shape))
        channel = len(per_group)
        node = g.reduce(Ops.ADD, product, (channel, *range(channel + 1 + n, len(shape))))
        y = self._result("conv2d", g.cast(g.reshape(node, (batch, outs, *out)), result), weight)
        return (
            y
            if bias is None
            else y.add(self._from_node(g.reshape(bias.uop, (outs, *(1,) * n)), bias._cell.device))
        )

    # ---- pooling ------------------------------------------------------------------------------------------

    def _windows(
        self,
        what: str,
        kernel_size: Sizes,
        stride: Sizes | None,
        dilation: Sizes,
        padding: Sizes,
        ceil_mode: bool,
    ) -> tuple[
        tuple[int, ...], tuple[int, ...], tuple[int, ...], list[tuple[int, int]], list[tuple[int, int]]
    ]:
        """Kernel, stride, dilation, padding, and padding with what ceil_mode adds after each axis."""
        n = len(kernel_size) if isinstance(kernel_size, Sequence) else 2
        if self.ndim < n:
            raise ShapeError(
                f"{what}: window {kernel_size} over shape {self.shape}", f"it needs at least {n} axes"
            )
        kernel = each_axis("kernel_size", kernel_size, n, 1)
        steps = kernel if stride is None else each_axis("stride", stride, n, 1)
        gaps = each_axis("dilation", dilation, n, 1)
        ends = list(padding_ends(padding, n))
        grown = list(ends)
        if ceil_mode:
            for i, (size, k, s, d) in enumerate(zip(self.shape[-n:], kernel, steps, gaps, strict=True)):
                before, after = ends[i]
                span = size + before + after - d * (k - 1) - 1
                count = -(-span // s) + 1
                if (
                    count - 1
                ) * s >= size + before:  # a window must start inside the input or its left padding
                    count -= 1
                grown[i] = (before, after + max(0, (count - 1) * s - span))
        return kernel, steps, gaps, ends, grown

    def avg_pool2d(
        self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Self:
        """Mean of windows over the last axes (as many as kernel_size has; 2 for a number); integers give
        float32.

        Args:
            kernel_size: size of the windows.
            stride: step of the windows; None for kernel_size.
            dilation: step within a window.
            padding: zeros around, as in `conv2d`.
            ceil_mode: also windows that reach beyond the end.
            count_include_pad: whether padding counts as elements (what ceil_mode adds never does).

        Raises:
            ShapeError: there are too few axes, or no window fits.

        >>> Tensor.arange(16).reshape(1, 1, 4, 4).avg_pool2d().tolist()
        [[[[2.5, 4.5], [10.5, 12.5]]]]
        """
        x, dtype = self._computed_in()
        kernel, steps, gaps, ends, grown = x._windows(
            "avg_pool2d", kernel_size, stride, dilation, padding, ceil_mode
        )
        n = len(kernel)
        lead: tuple[tuple[int, int], ...] = ((0, 0),) * (x.ndim - n)

        def total(y: Self) -> Self:
            windows = y._from_node(y._pool(kernel, steps, gaps), y._cell.device)
            return windows.sum(tuple(range(-n, 0)))

        out = total(x.pad((*lead, *grown)))
        if ends == grown and (count_include_pad or not any(a or b for a, b in ends)):
            return (out / math.prod(kernel)).cast(dtype)
        ones = x.ones_like()
        if count_include_pad:
            ones = ones.pad((*lead, *ends), value=1)
            grown = [(0, after - end) for (_, after), (_, end) in zip(grown, ends, strict=True)]
        return (out / total(ones.pad((*lead, *grown)))).cast(dtype)

    def max_pool2d(
        self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        ceil_mode: bool = False,
    ) -> Self:
        """Greatest of windows over the last axes; arguments and errors as `avg_pool2d`. Padding is never the
        greatest, and equal greatest elements share the gradient equally.

        >>> Tensor.arange(16).reshape(1, 1, 4, 4).max_pool2d().tolist()
        [[[[5, 7], [13, 15]]]]
        """
        kernel, steps, gaps, _, grown = self._windows(
            "max_pool2d", kernel_size, stride, dilation, padding, ceil_mode
        )
        return self._padded_windows(kernel, steps, gaps, grown).max(tuple(range(-len(kernel), 0)))

    def max_pool2d_with_indices(
        self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        ceil_mode: bool = False,
    ) -> tuple[Self, Self]:
        """`max_pool2d`, and where each result was within the last axes, as if these were one (int32): for
        `max_unpool2d`.

        >>> [t.tolist() for t in Tensor([[1, 2], [4, 3]]).max_pool2d_with_indices()]
        [[[4]], [[2]]]
        """
        kernel, steps, gaps, ends, grown = self._windows(
            "max_pool2d", kernel_size, stride, dilation, padding, ceil_mode
        )
        n = len(kernel)
        windows = self._padded_windows(kernel, steps, gaps, grown)
        first = windows.flatten(-n).argmax(-1).uop
        shape, rank = first.shape, len(first.shape)
        places, below = g.const(0, dtypes.int32, shape), 1
        for i in reversed(range(n)):
            step = g.scalar_op(Ops.MUL, g.iota_along(shape, rank - n + i), steps[i])
            inside = g.scalar_op(Ops.MUL, g.scalar_op(Ops.IMOD, first, kernel[i]), gaps[i])
            at = g.scalar_op(Ops.SUB, g.alu(Ops.ADD, step, inside), ends[i][0])
            places = g.alu(Ops.ADD, places, g.scalar_op(Ops.MUL, at, below))
            first, below = g.scalar_op(Ops.IDIV, first, kernel[i]), below * self.shape[i - n]
        return windows.max(tuple(range(-n, 0))), self._from_node(places, self._cell.device)

    def _padded_windows(
        self, kernel: Sequence[int], steps: Sequence[int], gaps: Sequence[int], ends: list[tuple[int, int]]
    ) -> Self:
        """Windows over what is padded with the least value there is."""
        lead: tuple[tuple[int, int], ...] = ((0, 0),) * (self.ndim - len(kernel))
        x = self.pad((*lead, *ends), value=self.dtype.min)
        return self._from_node(x._pool(tuple(kernel), tuple(steps), tuple(gaps)), self._cell.device)

    # ---- normalisation and attention ----------------------------------------------------------------------

    def batchnorm(
        self,
        weight: Handle | None,
        bias: Handle | None,
        mean: Handle,
        invstd: Handle,
        axis: int | Sequence[int] = 1,
    ) -> Self:
        """(x - mean) * invstd * weight + bias, each of them given along `axis`. `nn.BatchNorm` computes and
        keeps them.

        Args:
            weight, bias: of the length of that axis; None for 1 and 0.
            mean: what is subtracted.
            invstd: 1 / sqrt(variance + eps).
            axis: of the channels; several for statistics of several axes.
        """
        axes = self._axes("batchnorm", axis)
        shape = tuple(s if i in axes else 1 for i, s in enumerate(self.shape))

        def along(t: Handle) -> Handle:
            return t if t.ndim == self.ndim else self._from_node(g.reshape(t.uop, shape), t._cell.device)

        x = self.sub(along(mean))
        if weight is not None:
            x = x.mul(along(weight))
        x = x.mul(along(invstd))
        return x if bias is None else x.add(along(bias))

    def scaled_dot_product_attention(
        self,
        key: Handle,
        value: Handle,
        attn_mask: Handle | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        enable_gqa: bool = False,
    ) -> Self:
        """softmax(self @ keyᵀ / sqrt(E) + mask) @ value (Vaswani et al., 2017).

        Args:
            key: (…, S, E), for this of shape (…, L, E).
            value: (…, S, V).
            attn_mask: broadcasts to (…, L, S): bool, True where attended, or numbers to add.
            dropout_p: dropout of the weights, while training.
            is_causal: query i attends to keys 0 … i only; not together with a mask.
            enable_gqa: repeat the heads (axis -3) of key and value to those of this.

        Raises:
            ShapeError: shapes do not fit, or both a mask and is_causal are given.
        """
        given = [as_tensor("attention", t) for t in (key, value)]
        k, v = (self._from_node(t.uop, t._cell.device) for t in given)
        if enable_gqa:
            heads = self.shape[-3]
            k, v = (t.repeat_interleave(heads // t.shape[-3], dim=-3) for t in (k, v))
        scores = (self @ k.transpose(-2, -1)) / math.sqrt(self.shape[-1])
        if is_causal:
            if attn_mask is not None:
                raise ShapeError("attention with a mask and is_causal", "give one of them")
            shape = scores.shape[-2:]
            attn_mask = self.full(shape, True, device=self._cell.device).tril()
        if attn_mask is not None:
            mask = self._from_node(as_tensor("attention", attn_mask).uop, attn_mask._cell.device)
            scores = mask.where(scores, -math.inf) if mask.dtype is dtypes.bool_ else scores + mask
        return scores.cast(self.dtype).softmax(-1).dropout(dropout_p) @ v

    def sequential(self, functions: Sequence[object]) -> Self:
        """Apply functions of a tensor, one after the other.

        Raises:
            DTypeError: one is not callable.

        >>> Tensor([1.0, -1.0]).sequential([Tensor.relu, lambda x: x * 2]).tolist()
        [2.0, 0.0]
        """
        x: object = self
        for f in functions:
            if not callable(f):
                raise DTypeError(f"sequential: {f!r} is not callable", "give functions of a tensor")
            x = f(x)
        return cast("Self", x)
