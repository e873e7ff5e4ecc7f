"""Layers: tensors to learn, and the function that they parameterise.

Weights begin as PyTorch's do: kaiming-uniform with a = sqrt(5), that is uniform within 1/sqrt(fan-in), and
biases uniform within the same bound (He et al., 2015; the constant is PyTorch's documented default).
Whatever needs no weights (activations, pooling, flatten, dropout, losses) is a method of Tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from tiny_core import dtypes
from tiny_core.errors import ShapeError
from tiny_core.tensor.tensor import Tensor

Sizes = int | Sequence[int]


class Linear:
    """x @ weightᵀ + bias, over the last axis: (…, in_features) to (…, out_features).

    Args:
        in_features: length of the last axis of the input.
        out_features: and of the output.
        bias: whether to add one.

    Attributes:
        weight: (out_features, in_features).
        bias: (out_features,), or None.

    Raises:
        ShapeError: a size is not positive; at a call, the input does not fit.

    >>> nn.Linear(4, 2)(Tensor.ones(3, 4)).shape
    (3, 2)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.weight, self.bias = _weights("Linear", (out_features, in_features), bias)

    def __call__(self, x: Tensor) -> Tensor:
        return x.linear(self.weight.transpose(), self.bias)


class _Conv:
    """Convolution over `axes` axes."""

    axes: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | Literal["same", "valid"] = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        name, n = type(self).__name__, self.axes
        kernel = (kernel_size,) * n if isinstance(kernel_size, int) else tuple(kernel_size)
        if len(kernel) != n:
            raise ShapeError(f"{name}: kernel_size {kernel_size}", f"give one number, or {n}")
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ShapeError(
                f"{name}: {in_channels} to {out_channels} channels in {groups} groups",
                "both must be multiples of the number of groups",
            )
        self.stride, self.dilation, self.groups = stride, dilation, groups
        self.padding = self._padding(name, kernel, padding)
        shape = (out_channels, in_channels // groups, *kernel)
        self.weight, self.bias = _weights(name, shape, bias)

    def _padding(self, name: str, kernel: tuple[int, ...], padding: Sizes | str) -> Sizes:
        if not isinstance(padding, str):
            return padding
        if padding == "valid":
            return 0
        strides = (self.stride,) if isinstance(self.stride, int) else self.stride
        if padding != "same" or set(strides) != {1}:
            raise ShapeError(
                f"{name}: padding {padding!r} with stride {self.stride}",
                "give numbers, 'valid', or, with stride 1, 'same'",
            )
        gaps = (self.dilation,) * len(kernel) if isinstance(self.dilation, int) else self.dilation
        ends: list[int] = []  # Tensor.conv2d takes pairs from the last axis on
        for k, d in zip(reversed(kernel), reversed(gaps), strict=True):
            whole = d * (k - 1)
            ends += (whole // 2, whole - whole // 2)
        return ends

    def __call__(self, x: Tensor) -> Tensor:
        return x.conv2d(self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding)


class Conv1d(_Conv):
    """Convolution of (N, in_channels, length); arguments as `Conv2d`, for one axis."""

    axes = 1


class Conv2d(_Conv):
    """Convolution of (N, in_channels, height, width) to (N, out_channels, height, width), whose sizes
    `Tensor.conv2d` says.

    Args:
        in_channels, out_channels: length of axis 1 of input and output.
        kernel_size, stride, padding, dilation: one number, or one per axis. Padding may be "valid" (none)
            or, with stride 1, "same" (the sizes stay).
        groups: parts of the channels that are convolved apart.
        bias: whether to add one.

    Attributes:
        weight: (out_channels, in_channels / groups, *kernel_size).
        bias: (out_channels,), or None.

    Raises:
        ShapeError: sizes do not fit each other; at a call, the input does not fit.

    >>> nn.Conv2d(3, 8, 5, padding="same")(Tensor.ones(2, 3, 16, 16)).shape
    (2, 8, 16, 16)
    """

    axes = 2


class BatchNorm:
    """Batch normalisation (Ioffe and Szegedy, 2015) of axis 1, for inputs of any rank from 2 on.
    `BatchNorm2d` and `BatchNorm3d` are the same.

    While training (`Tensor.training`) the batch's mean and biased variance are used, and the running ones
    move towards its mean and unbiased variance; otherwise the running ones are used.

    Args:
        sz: length of axis 1.
        eps: added to the variance.
        affine: whether to scale and shift by learned vectors.
        track_running_stats: whether to keep running statistics; without, the batch's are always used.
        momentum: weight of a batch in the running statistics; None for the mean over all batches.

    Attributes:
        weight, bias: (sz,), or None.
        running_mean, running_var: (sz,), or None.
        num_batches_tracked: how many batches have been seen, an int64 scalar, or None.

    Raises:
        ShapeError: at a call: axis 1 has another length, or, in training, one value a channel.

    >>> norm = nn.BatchNorm(3)
    >>> with Tensor.train():
    ...     norm(Tensor.rand(4, 3, 8, 8)).shape
    (4, 3, 8, 8)
    >>> norm.num_batches_tracked.item()
    1
    """

    def __init__(
        self,
        sz: int,
        eps: float = 1e-5,
        affine: bool = True,
        track_running_stats: bool = True,
        momentum: float | None = 0.1,
    ) -> None:
        self.eps, self.momentum = eps, momentum
        self.weight = Tensor.ones(sz, requires_grad=True) if affine else None
        self.bias = Tensor.zeros(sz, requires_grad=True) if affine else None
        self.running_mean = Tensor.zeros(sz).contiguous() if track_running_stats else None
        self.running_var = Tensor.ones(sz).contiguous() if track_running_stats else None
        self.num_batches_tracked = (
            Tensor.zeros((), dtype=dtypes.int64).contiguous() if track_running_stats else None
        )
        self._size = sz

    def __call__(self, x: Tensor) -> Tensor:
        if x.ndim < 2 or x.shape[1] != self._size:
            raise ShapeError(f"BatchNorm of {self._size} channels: input {x.shape}", "channels are axis 1")
        if self.running_mean is not None and self.running_var is not None and not Tensor.training:
            mean, var = self.running_mean, self.running_var
        else:
            mean, var = self._of_batch(x)
        return x.batchnorm(self.weight, self.bias, mean, (var + self.eps).rsqrt())

    def _of_batch(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The batch's mean and biased variance; the running ones are moved."""
        axes = tuple(i for i in range(x.ndim) if i != 1)
        mean = x.mean(axes)
        # d(variance)/d(mean) is 0, so the variance need not be differentiated through it
        centred = x - mean.detach().reshape(*(-1 if i == 1 else 1 for i in range(x.ndim)))
        var = (centred * centred).mean(axes)
        if Tensor.training and self.running_mean is not None:
            self._move(mean.detach(), var.detach(), x.numel() // self._size)
        return mean, var

    def _move(self, mean: Tensor, var: Tensor, count: int) -> None:
        assert self.running_mean is not None and self.running_var is not None
        assert self.num_batches_tracked is not None
        if count < 2:
            raise ShapeError(
                "BatchNorm: a batch of one value a channel has no variance",
                "train with larger batches, or evaluate outside Tensor.train()",
            )
        seen = self.num_batches_tracked + 1
        part: Tensor | float = 1 / seen.float() if self.momentum is None else self.momentum
        unbiased = var * (count / (count - 1))
        for running, now in ((self.running_mean, mean), (self.running_var, unbiased)):
            running.assign(running * (1 - part) + now.cast(running.dtype) * part)
        self.num_batches_tracked.assign(seen)


BatchNorm2d = BatchNorm3d = BatchNorm


class LayerNorm:
    """Layer normalisation (Ba et al., 2016) over the last axes.

    Args:
        normalized_shape: lengths of those axes, or of the one.
        eps: added to the variance.
        elementwise_affine: whether to scale and shift by learned tensors of that shape.

    Attributes:
        weight, bias: of that shape, or None.

    Raises:
        ShapeError: at a call: the last axes are not those.

    >>> nn.LayerNorm(2, eps=0.0)(Tensor([[1.0, 3.0]])).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(self, normalized_shape: Sizes, eps: float = 1e-5, elementwise_affine: bool = True) -> None:
        self.normalized_shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        self.eps = eps
        self.weight = Tensor.ones(self.normalized_shape, requires_grad=True) if elementwise_affine else None
        self.bias = Tensor.zeros(self.normalized_shape, requires_grad=True) if elementwise_affine else None

    def __call__(self, x: Tensor) -> Tensor:
        n = len(self.normalized_shape)
        if x.shape[-n:] != self.normalized_shape:
            raise ShapeError(
                f"LayerNorm over {self.normalized_shape}: input {x.shape}", "its last axes must be those"
            )
        y = x.layernorm(tuple(range(-n, 0)), self.eps)
        if self.weight is None or self.bias is None:
            return y
        return y * self.weight + self.bias


def _weights(name: str, shape: tuple[int, ...], bias: bool) -> tuple[Tensor, Tensor | None]:
    """A weight of this shape, and a bias of its first length."""
    fan_in = math.prod(shape[1:])
    if shape[0] < 1 or fan_in < 1:
        raise ShapeError(f"{name} with a weight of shape {shape}", "sizes are positive")
    weight = Tensor.kaiming_uniform(*shape, a=math.sqrt(5), requires_grad=True)
    bound = 1 / math.sqrt(fan_in)
    return weight, Tensor.uniform(shape[0], low=-bound, high=bound, requires_grad=True) if bias else None
