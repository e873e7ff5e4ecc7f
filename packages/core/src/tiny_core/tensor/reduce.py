"""Reductions, and what is made of them. Sums accumulate bools and small integers in int32 (unsigned in
uint32), narrow floats in float32, rounded once at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.errors import DTypeError, ShapeError
from tiny_core.ir.ops import Ops
from tiny_core.tensor import graph as g
from tiny_core.tensor.handle import DTypeLike, as_dtype
from tiny_core.tensor.movement import Movement

Axis = int | Sequence[int] | None


class Reductions(Movement):
    """Sums, extremes, statistics."""

    __slots__ = ()

    def _reduce(self, what: str, op: Ops, axis: Axis, keepdim: bool, dtype: DType, result: DType) -> Self:
        axes = self._axes(what, axis)
        build = g.reduce_keep if keepdim else g.reduce
        node = g.cast(build(op, g.cast(self.uop, dtype), axes), result)
        return self._from_node(node, self._cell.device)

    def _accumulate(self, what: str, op: Ops, axis: Axis, keepdim: bool, dtype: DTypeLike | None) -> Self:
        if dtype is not None:
            chosen = as_dtype(dtype)
            inner = dtypes.float32 if chosen in dtypes.narrow_floats else chosen
            return self._reduce(what, op, axis, keepdim, inner, chosen)
        inner = g.accumulator(self.dtype)
        return self._reduce(what, op, axis, keepdim, inner, self.dtype if self.dtype.is_float else inner)

    def sum(self, axis: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """Sum over axes. Without a dtype, bools and integers of less than 32 bits give int32 (or uint32), and
        floats of less than 32 bits are accumulated in float32 and rounded once.

        Args:
            axis: one axis, several, or None for all.
            keepdim: keep the axes, with length 1.
            dtype: of accumulation and result.

        Raises:
            ShapeError: there is no such axis, or it is named twice.

        >>> Tensor([[1, 2], [3, 4]]).sum(0).tolist(), Tensor([[1, 2], [3, 4]]).sum().item()
        ([4, 6], 10)
        """
        return self._accumulate("sum", Ops.ADD, axis, keepdim, dtype)

    def prod(self, axis: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """Product over axes; arguments and dtypes as `sum`. Over no elements it is 1."""
        return self._accumulate("prod", Ops.MUL, axis, keepdim, dtype)

    def max(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """Greatest over axes, as `sum` takes them; NaN if there is one. Equal greatest elements share the
        gradient equally.

        Raises:
            ShapeError: there are no elements to choose from.

        >>> Tensor([[1, 5], [3, 4]]).max(1).tolist()
        [5, 4]
        """
        return self._extreme("max", Ops.MAX, axis, keepdim)

    def min(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """Least over axes; NaN if there is one. As `max` otherwise."""
        return self._extreme("min", Ops.MIN, axis, keepdim)

    def _extreme(self, what: str, op: Ops, axis: Axis, keepdim: bool) -> Self:
        if any(self.shape[a] == 0 for a in self._axes(what, axis)):
            raise ShapeError(
                f"{what} over no elements: axes {axis} of shape {self.shape}", "there is nothing to choose"
            )
        return self._reduce(what, op, axis, keepdim, self.dtype, self.dtype)

    def any(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """Whether any element is not 0 (bool), over axes as `sum` takes them."""
        return self.cast(dtypes.bool_)._reduce("any", Ops.MAX, axis, keepdim, dtypes.bool_, dtypes.bool_)

    def all(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """Whether no element is 0 (bool), over axes as `sum` takes them."""
        return self.cast(dtypes.bool_)._reduce("all", Ops.MIN, axis, keepdim, dtypes.bool_, dtypes.bool_)

    def _count(self, what: str, axis: Axis) -> int:
        return math.prod(self.shape[a] for a in self._axes(what, axis))

    def mean(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """Mean over axes, as `sum` takes them; integers give float32. Over no elements it is NaN.

        >>> Tensor([1, 2, 3, 4]).mean().item()
        2.5
        """
        x, dtype = self._computed_in()
        n = self._count("mean", axis)
        return (x.sum(axis, keepdim) / n).cast(dtype)

    def var(self, axis: Axis = None, keepdim: bool = False, correction: int = 1) -> Self:
        """Variance over axes, in two passes; integers give float32.

        Args:
            axis: one axis, several, or None for all.
            keepdim: keep the axes, with length 1.
            correction: the sum of squares is divided by max(0, n - correction): 1 (Bessel's) makes it an
                unbiased estimate, NaN for one element.

        >>> Tensor([1.0, 2.0, 3.0]).var().item(), Tensor([1.0, 3.0]).var(correction=0).item()
        (1.0, 1.0)
        """
        return self.var_mean(axis, keepdim, correction)[0]

    def std(self, axis: Axis = None, keepdim: bool = False, correction: int = 1) -> Self:
        """Standard deviation over axes: the root of `var`."""
        x, dtype = self._computed_in()
        return x.var(axis, keepdim, correction).sqrt().cast(dtype)

    def var_mean(self, axis: Axis = None, keepdim: bool = False, correction: int = 1) -> tuple[Self, Self]:
        """Variance and mean over axes; see `var`."""
        x, dtype = self._computed_in()
        n = self._count("var", axis)
        mean = x.mean(axis, keepdim=True)
        spread = x - mean
        variance = (spread * spread).sum(axis, keepdim) / max(0, n - correction)
        final = mean if keepdim else mean.reshape(variance.shape)
        return variance.cast(dtype), final.cast(dtype)

    def std_mean(self, axis: Axis = None, keepdim: bool = False, correction: int = 1) -> tuple[Self, Self]:
        """Standard deviation and mean over axes; see `var`."""
        return self.std(axis, keepdim, correction), self.mean(axis, keepdim)

    def argmax(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """Index (int32) of the first greatest element along `axis`, or of the flattened tensor; NaN counts as
        greatest.

        Raises:
            ShapeError: there are no elements to choose from.

        >>> Tensor([[1, 5], [7, 4]]).argmax(1).tolist(), Tensor([[1, 5], [7, 4]]).argmax().item()
        ([1, 0], 2)
        """
        return self._first("argmax", Ops.MAX, axis, keepdim)

    def argmin(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """Index (int32) of the first least element; NaN counts as least. As `argmax` otherwise."""
        return self._first("argmin", Ops.MIN, axis, keepdim)

    def _first(self, what: str, op: Ops, axis: int | None, keepdim: bool) -> Self:
        if axis is None:
            index = self.flatten()._first(what, op, 0, False)
            return index.reshape((1,) * self.ndim) if keepdim else index
        if not self.shape:
            return self._from_node(g.const(0, dtypes.int32), self._cell.device)
        a = self._axis(what, axis)
        n = self.shape[a]
        if n == 0:
            raise ShapeError(
                f"{what} over no elements: axis {axis} of shape {self.shape}", "there is nothing to choose"
            )
        x = self.uop
        best = g.expand(g.reduce_keep(op, x, (a,)), x.shape)
        found = g.alu(Ops.CMPEQ, x, best)
        if self.dtype.is_float:
            found = g.alu(Ops.OR, found, g.alu(Ops.CMPNE, x, x))
        place = g.iota_along(x.shape, a)
        first = g.where(found, place, g.const_like(n, place))
        build = g.reduce_keep if keepdim else g.reduce
        return self._from_node(build(Ops.MIN, first, (a,)), self._cell.device)

    def logsumexp(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """log(sum(exp(x))) over axes, without overflow."""
        x, dtype = self._computed_in()
        m = x.max(axis, keepdim=True)
        m = m.isfinite().where(m, 0.0).cast(m.dtype)._detached()
        total = (x - m).exp().sum(axis, keepdim).log()
        return (total + (m if keepdim else m.reshape(total.shape))).cast(dtype)

    def _shifted(self, axis: int) -> tuple[Self, Self, DType]:
        """x - max, exp of it, and the dtype of the result."""
        x, dtype = self._computed_in()
        shifted = x - x.max(axis, keepdim=True)._detached()
        return shifted, shifted.exp(), dtype

    def softmax(self, axis: int = -1, dtype: DTypeLike | None = None) -> Self:
        """exp(x) / sum(exp(x)) along an axis, without overflow; integers give float32.

        Args:
            axis: along which it adds up to 1.
            dtype: to convert to before.

        >>> Tensor([0.0, 0.0]).softmax().tolist()
        [0.5, 0.5]
        """
        x = self if dtype is None else self.cast(dtype)
        _, e, result = x._shifted(axis)
        return (e / e.sum(axis, keepdim=True)).cast(result)

    def softmin(self, axis: int = -1) -> Self:
        """softmax(-x)."""
        return (-self).softmax(axis)

    def log_softmax(self, axis: int = -1, dtype: DTypeLike | None = None) -> Self:
        """log(softmax(x)) along an axis, without overflow; see `softmax`."""
        x = self if dtype is None else self.cast(dtype)
        shifted, e, result = x._shifted(axis)
        return (shifted - e.sum(axis, keepdim=True).log()).cast(result)

    def layernorm(self, axis: Axis = -1, eps: float = 1e-5) -> Self:
        """(x - mean) / sqrt(variance + eps) over axes, with the variance of n elements divided by n (Ba et
        al., 2016). Scale and shift are `nn.LayerNorm`'s.

        >>> Tensor([[1.0, 3.0]]).layernorm(eps=0.0).tolist()
        [[-1.0, 1.0]]
        """
        x, dtype = self._computed_in()
        y = x - x.mean(axis, keepdim=True)
        return (y * ((y * y).mean(axis, keepdim=True) + eps).rsqrt()).cast(dtype)

    def normalize(self, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Self:
        """x / max(its p-norm along `dim`, eps); integers give float32."""
        x, dtype = self._computed_in()
        norm = (x.abs() ** p).sum(dim, keepdim=True) ** (1 / p)
        return (x / norm.maximum(eps)).cast(dtype)

    def _need_float(self, what: str) -> None:
        if not self.dtype.is_float:
            raise DTypeError(f"{what} of {self.dtype.name}", "it takes floats; cast first")
