"""Losses. Labels are compared with the class index, never looked up, so a loss over rows is sibling
reductions of a row and its gradient is element-wise."""

# ruff: noqa: N803 - labels are called Y wherever this API is known
from __future__ import annotations

import math
from typing import Self

from tiny_core import dtypes
from tiny_core.errors import DTypeError, ShapeError
from tiny_core.ir.ops import Ops
from tiny_core.settings import CHECK
from tiny_core.tensor import graph as g
from tiny_core.tensor.elementwise import number
from tiny_core.tensor.handle import Handle, as_tensor, default_device
from tiny_core.tensor.nnops import NeuralOps
from tiny_core.tensor.realize import engine, realize


class Losses(NeuralOps):
    """How far off a prediction is."""

    __slots__ = ()

    def _reduced(self, what: str, reduction: str) -> Self:
        match reduction:
            case "mean":
                return self.mean()
            case "sum":
                return self.sum()
            case "none":
                return self
        raise DTypeError(f"{what}: reduction {reduction!r}", "use 'mean', 'sum' or 'none'")

    def binary_crossentropy(self, Y: Handle, reduction: str = "mean") -> Self:
        """-Y log(p) - (1 - Y) log(1 - p), for probabilities p; infinite where p is 0 or 1 and wrong.

        Args:
            Y: targets from 0 to 1, of this shape.
            reduction: "mean", "sum", or "none" for a loss of each element.

        Raises:
            ShapeError: shapes differ.
            DTypeError: there is no such reduction.
        """
        self._same_shape("binary_crossentropy", Y)
        y = self._from_node(Y.uop, Y._cell.device)
        return (-(y * self.log()) - (1 - y) * (-self).log1p())._reduced("binary_crossentropy", reduction)

    def binary_crossentropy_logits(
        self, Y: Handle, reduction: str = "mean", pos_weight: Handle | None = None
    ) -> Self:
        """`binary_crossentropy` of sigmoid(x), without overflow.

        Args:
            Y: targets from 0 to 1, of this shape.
            reduction: "mean", "sum" or "none".
            pos_weight: factor of the positive class, broadcast.
        """
        self._same_shape("binary_crossentropy_logits", Y)
        y = self._from_node(Y.uop, Y._cell.device)
        positive, negative = self.logsigmoid(), (-self).logsigmoid()
        weighted = y * positive if pos_weight is None else y * positive * pos_weight
        return (-(weighted + (1 - y) * negative))._reduced("binary_crossentropy_logits", reduction)

    def sparse_categorical_crossentropy(
        self, Y: Handle, ignore_index: int = -1, label_smoothing: float = 0.0, reduction: str = "mean"
    ) -> Self:
        """Cross-entropy of logits (…, C) with class numbers (…).

        Args:
            Y: integers, 0 … C-1; one that is no class adds 0 (under TINY_CHECK=1 it is an IndexError).
            ignore_index: the class number that counts for nothing, in the mean neither.
            label_smoothing: part of each target that is spread over all classes.
            reduction: "mean", "sum" or "none".

        Raises:
            ShapeError: Y is not of this shape without its last axis.
            DTypeError: Y is not of integers; there is no such reduction; the smoothing is not in 0 … 1.

        >>> logits = Tensor([[0.0, 0.0], [1.0, 2.0]])
        >>> round(logits.sparse_categorical_crossentropy(Tensor([0, -1])).item(), 4)
        0.6931
        """
        return self._sparse(
            "sparse_categorical_crossentropy", Y, self.ndim - 1, ignore_index, label_smoothing, reduction
        )

    def _sparse(
        self, what: str, Y: Handle, axis: int, ignore_index: int | None, smoothing: float, reduction: str
    ) -> Self:
        _check_smoothing(what, smoothing)
        labels = self._labels(what, Y, axis, ignore_index)
        log_probabilities = self.log_softmax(axis)
        loss = -log_probabilities._of_class(labels, axis)
        if smoothing:
            loss = loss * (1 - smoothing) - log_probabilities.mean(axis) * smoothing
        if ignore_index is None:
            return loss._reduced(what, reduction)
        counted = labels.ne(ignore_index)
        loss = counted.where(loss, 0.0).cast(loss.dtype)
        return loss.sum() / counted.sum() if reduction == "mean" else loss._reduced(what, reduction)

    def cross_entropy(self, Y: Handle, reduction: str = "mean", label_smoothing: float = 0.0) -> Self:
        """Cross-entropy of logits (N, C, …) with class numbers (N, …), or with probabilities of the shape of
        the logits.

        Args:
            Y: integers 0 … C-1 (others add 0; under TINY_CHECK=1 they are an IndexError), or floats.
            reduction: "mean", "sum" or "none".
            label_smoothing: part of each target that is spread over all classes.

        Raises:
            ShapeError: Y has neither shape.
            DTypeError: there is no such reduction, or the smoothing is not in 0 … 1.

        >>> round(Tensor([[1.0, 2.0]]).cross_entropy(Tensor([1])).item(), 4)
        0.3133
        """
        axis = 0 if self.ndim == 1 else 1
        as_tensor("cross_entropy", Y)
        if Y.dtype.is_int and Y.shape != self.shape:
            return self._sparse("cross_entropy", Y, axis, None, label_smoothing, reduction)
        _check_smoothing("cross_entropy", label_smoothing)
        self._same_shape("cross_entropy", Y)
        target = self._from_node(Y.uop, Y._cell.device)
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / self.shape[axis]
        return -(self.log_softmax(axis) * target).sum(axis)._reduced("cross_entropy", reduction)

    def nll_loss(
        self,
        Y: Handle,
        weight: Handle | None = None,
        ignore_index: int | None = None,
        reduction: str = "mean",
    ) -> Self:
        """Negative of the log probability (N, C, …) of the classes (N, …).

        Args:
            Y: integers, 0 … C-1.
            weight: (C,), a factor for each class; the mean is over these weights.
            ignore_index: the class number that counts for nothing.
            reduction: "mean", "sum" or "none".

        Raises:
            ShapeError, DTypeError: as `sparse_categorical_crossentropy`.

        >>> Tensor([[-1.0, -0.5]]).nll_loss(Tensor([0])).item()
        1.0
        """
        axis = 0 if self.ndim == 1 else 1
        labels = self._labels("nll_loss", Y, axis, ignore_index)
        scale = self.ones(labels.shape, dtype=self.dtype, device=labels._cell.device)
        if weight is not None:
            along = self._from_node(weight.uop, weight._cell.device)
            along = along.reshape(*(-1 if i == axis else 1 for i in range(self.ndim))).expand(self.shape)
            scale = along._of_class(labels, axis)
        if ignore_index is not None:
            scale = labels.eq(ignore_index).where(0.0, scale).cast(scale.dtype)
        loss = -(self._of_class(labels, axis) * scale)
        return loss.sum() / scale.sum() if reduction == "mean" else loss._reduced("nll_loss", reduction)

    def _of_class(self, labels: Self, axis: int) -> Self:
        """The element of each row along `axis` that its label names."""
        hit = self._from_node(labels._is_class(self.shape[axis], axis), labels._cell.device)
        return hit.where(self, 0.0).cast(self.dtype).sum(axis)

    def _labels(self, what: str, Y: Handle, axis: int, ignore_index: int | None = None) -> Self:
        as_tensor(what, Y)
        if not Y.dtype.is_int:
            raise DTypeError(f"{what}: labels of {Y.dtype.name}", "labels are class numbers")
        wanted = self.shape[:axis] + self.shape[axis + 1 :]
        if not self.shape or Y.shape != wanted:
            raise ShapeError(f"{what}: labels {Y.shape} for logits {self.shape}", f"labels must be {wanted}")
        self._common_device(what, Y)
        if CHECK:
            self._check_labels(what, Y, self.shape[axis], ignore_index)
        return self._from_node(g.cast(Y.uop, dtypes.int32), Y._cell.device)

    def _check_labels(self, what: str, Y: Handle, n: int, ignore_index: int | None) -> None:
        """Compute the labels, which are compared and not looked up, to see whether all are classes."""
        from tiny_core.tensor.checked import finding_of, verify_labels

        node = Y.uop
        if ignore_index is not None:
            node = g.where(g.scalar_op(Ops.CMPEQ, node, ignore_index), g.const_like(0, node), node)
        finding = finding_of(node, n, Y._cell)
        if finding is not None and engine().keeps_data(Y.device):
            realize((finding,), default_device)
            verify_labels(what, finding, Y.shape, n, engine().read_host)

    def _same_shape(self, what: str, Y: Handle) -> None:
        as_tensor(what, Y)
        if Y.shape != self.shape:
            raise ShapeError(
                f"{what}: targets {Y.shape} for predictions {self.shape}", "shapes must be equal"
            )


def _check_smoothing(what: str, smoothing: float) -> None:
    if not 0 <= number(f"{what}: label_smoothing", smoothing) <= 1 or math.isnan(smoothing):
        raise DTypeError(f"{what}: label_smoothing {smoothing}", "it lies in 0 … 1")
