"""`Tensor`: all layers together, gradients, modes, and the casts whose names are Python's types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self, final

from tiny_core import dtypes
from tiny_core.autodiff.gradient import Found, differentiate
from tiny_core.dtypes import DType
from tiny_core.errors import DTypeError, GradientError, ShapeError, VersionError
from tiny_core.ir import payload as p
from tiny_core.ir.uop import UOp
from tiny_core.settings import TRAINING, Context
from tiny_core.tensor import graph as g
from tiny_core.tensor import history
from tiny_core.tensor.cell import PARAMS
from tiny_core.tensor.convert import Conversions
from tiny_core.tensor.handle import Handle, as_tensor
from tiny_core.tensor.lines import show


class Gradients(Conversions):
    """Differentiation."""

    __slots__ = ()

    def gradient(self, *targets: Self, gradient: Self | None = None) -> list[Self]:
        """The derivative of this scalar with respect to each of `targets`; lazy, and differentiable in turn.

        Args:
            targets: float tensors that this was computed from, or views of them.
            gradient: the derivative of something with respect to this, of its shape: for a tensor that is no
                scalar.

        Raises:
            ShapeError: this is no scalar and `gradient` is not given, or is of another shape.
            DTypeError: this, or a target, is not of a float dtype.
            GradientError: this does not depend on a target by floats, or the target is a constant.
            VersionError: what the derivative has to read was overwritten.

        >>> x = Tensor([1.0, 2.0])
        >>> (x * x).sum().gradient(x)[0].tolist()
        [2.0, 4.0]
        """
        given: list[Handle] = [self, *(as_tensor("gradient", t) for t in targets)]
        for t in given:
            if not t.dtype.is_float:
                raise DTypeError(f"gradient of a tensor of {t.dtype.name}", "only floats have gradients")
        for t in given[1:]:
            if g.is_number(t.uop):
                raise GradientError(
                    f"gradient with respect to a constant of shape {t.shape}",
                    "equal constants are one; give requires_grad=True, or .clone() before computing with it",
                )
        results = differentiate(self.uop, [t.uop for t in targets], self._seed(gradient))
        return [self._checked(t, found) for t, found in zip(targets, results, strict=True)]

    def _checked(self, target: Self, found: Found) -> Self:
        """The gradient as a tensor; raises the error that says why there is none."""
        mine, its = self._described(), target._described()
        if found.ghost is not None and found.ghost.written is not None:
            raise VersionError(
                f"the gradient of {mine} needs a value that was overwritten at {show(found.ghost.written)}",
                "take the gradient before the assignment, or assign to a .clone()",
            )
        if found.ghost is not None:
            raise VersionError(
                f"the gradient of {mine}, which was realized, needs a value that is no more",
                "mark the target with requires_grad before computing: then what it needs is kept",
            )
        if found.cut is not None:
            written = history.last_written(found.cut) or target._cell.written
            raise VersionError(
                f"{mine} was computed from {its}, by a value that is no more"
                + (f"; it was overwritten at {show(written)}" if written else ""),
                "mark the target with requires_grad before computing, or take the gradient before realizing",
            )
        if found.node is not None:
            return self._from_node(found.node, target._cell.device)
        if target._cell.written is not None:
            raise VersionError(
                f"{mine} does not depend on the value that {its} got at {show(target._cell.written)}",
                "take the gradient before the assignment",
            )
        raise GradientError(
            f"{mine} does not depend on {its}",
            "detach, integers, comparisons and assignments of a whole tensor stop gradients",
        )

    def _described(self) -> str:
        return f"the tensor of shape {self.shape} made at {show(self._line)}"

    def _seed(self, gradient: Handle | None) -> UOp:
        if gradient is None:
            if self.numel() != 1:
                raise ShapeError(
                    f"gradient of a tensor of shape {self.shape}", "reduce it to a scalar, or give gradient="
                )
            return self._number(1)
        as_tensor("gradient=", gradient)
        if gradient.shape != self.shape:
            raise ShapeError(f"gradient= of shape {gradient.shape} for {self.shape}", "shapes must be equal")
        return g.cast(gradient.uop, self.dtype)

    def backward(self, gradient: Self | None = None) -> Self:
        """Add the derivative of this scalar to the `grad` of every parameter (`requires_grad`) that it
        depends on; returns itself.

        Args:
            gradient: as in `gradient`.

        Raises:
            GradientError: it depends on none.
            ShapeError, DTypeError, VersionError: as `gradient`.

        >>> w = Tensor([1.0, 2.0], requires_grad=True)
        >>> (w * 3).sum().backward().item(), w.grad.tolist()
        (9.0, [3.0, 3.0])
        """
        if not self.dtype.is_float:
            raise DTypeError(f"gradient of a tensor of {self.dtype.name}", "only floats have gradients")
        params = list(PARAMS)
        results = differentiate(self.uop, [c.value for c in params], self._seed(gradient))
        reached = [
            (c, f) for c, f in zip(params, results, strict=True) if f.node is not None or f.cut is not None
        ]
        if not reached:
            raise GradientError(
                f"backward: {self._described()} depends on no parameter",
                "mark some with requires_grad=True before computing",
            )
        for cell, found in reached:
            step = self._checked(self._over(cell, (), cell.line), found).detach()
            have = cell.grad
            assert have is None or isinstance(have, Gradients)
            cell.grad = step if have is None else (have + step).detach()
        return self


class _Modes(type):
    """Gives the class an attribute `training`, which is a setting: local to a thread or task."""

    @property
    def training(cls) -> bool:
        """Whether dropout drops and batch norm uses the statistics of its batch."""
        return bool(TRAINING)

    @training.setter
    def training(cls, value: bool) -> None:
        TRAINING.set(int(value))


@final
class Tensor(Gradients, metaclass=_Modes):
    """An array, lazily computed. Methods build a graph; reading data, or `realize`, runs it.

    Args:
        data: a number, nested lists or tuples of numbers, a numpy array, bytes (uint8), a tensor, or None
            for an empty tensor. It is copied now: later changes of it are not seen.
        device: where it lives, e.g. "CPU" or "CPU:1"; None for the device that DEV names.
        dtype: a DType or its name; None for that of the data: float32 for floats, int32 for integers (int64
            where one does not fit), bool, or the array's.
        requires_grad: whether `backward` gives it a gradient.

    Raises:
        ShapeError: lists of unequal lengths.
        DTypeError: data of another type, or no such dtype; `requires_grad` of a tensor that is not of
            floats.
        TargetError: there is no such device.

    >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> x.shape, x.dtype.name
    ((2, 2), 'float32')
    >>> (x @ Tensor([1.0, 1.0])).relu().tolist()
    [3.0, 7.0]
    """

    __slots__ = ()

    @staticmethod
    @contextmanager
    def train(mode: bool = True) -> Iterator[None]:
        """Set `Tensor.training` for a block, or a decorated function: dropout drops, and batch norm uses the
        statistics of its batch.

        >>> with Tensor.train():
        ...     Tensor.training
        True
        """
        with Context(TRAINING=int(mode)):
            yield

    @staticmethod
    @contextmanager
    def no_grad() -> Iterator[None]:
        """Within this block (or a decorated function), what is realized forgets how it was computed;
        gradients stop there.
        """
        with Context(GRAD=0):
            yield

    inference_mode = no_grad

    def __deepcopy__(self, memo: dict[int, object]) -> Tensor:
        copy = Tensor(self.detach())
        copy._cell.leaf = True
        return copy.is_param_() if self.is_param else copy

    def __reduce__(self) -> tuple[object, ...]:
        device = self._cell.device
        return _rebuild, (bytes(self._bytes()), self.dtype, self.shape, device, self.is_param)

    def float(self) -> Tensor:
        """`cast` to float32."""
        return self.cast(dtypes.float32)

    def half(self) -> Tensor:
        """`cast` to float16."""
        return self.cast(dtypes.float16)

    def bfloat16(self) -> Tensor:
        """`cast` to bfloat16."""
        return self.cast(dtypes.bfloat16)

    def double(self) -> Tensor:
        """`cast` to float64."""
        return self.cast(dtypes.float64)

    def int(self) -> Tensor:
        """`cast` to int32: toward zero, and out of range to the nearest there is."""
        return self.cast(dtypes.int32)

    def long(self) -> Tensor:
        """`cast` to int64."""
        return self.cast(dtypes.int64)

    def short(self) -> Tensor:
        """`cast` to int16."""
        return self.cast(dtypes.int16)

    def bool(self) -> Tensor:
        """`cast` to bool: whether an element is not 0."""
        return self.cast(dtypes.bool_)


def _rebuild(
    content: bytes, dtype: DType, shape: tuple[int, ...], device: p.Device | None, param: bool
) -> Tensor:
    """Make a pickled tensor again."""
    result = Tensor._of_bytes(content, dtype, shape, device)
    return result.is_param_() if param else result
