"""Random tensors: each element is one Threefry call with the device's counter (tensor/counters.py), so what
is drawn fuses with its use and is the same for every device and schedule after `manual_seed`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.errors import DeviceError, DTypeError, ShapeError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.settings import TRAINING
from tiny_core.tensor import counters
from tiny_core.tensor import graph as g
from tiny_core.tensor.cell import LOCK
from tiny_core.tensor.creation import Creation
from tiny_core.tensor.elementwise import number
from tiny_core.tensor.handle import DTypeLike, as_dtype, as_int, canonical_device, default_device
from tiny_core.tensor.movement import dims_of
from tiny_core.tensor.realize import engine

Dims = int | Sequence[int]


def _bits(shape: tuple[int, ...], device: str) -> UOp:
    """64 random bits for each element, as uint64."""
    n = math.prod(shape)
    first, key = counters.draw(device, n, engine())
    place = g.cast(g.iota(n, dtypes.uint32 if n < 1 << 32 else dtypes.uint64), dtypes.uint64)
    count = g.alu(Ops.ADD, g.expand(first, (n,)), place)
    return g.reshape(g.alu(Ops.THREEFRY, count, g.expand(key, (n,))), shape)


def _low(bits: UOp) -> UOp:
    return g.cast(bits, dtypes.uint32)


def _high(bits: UOp) -> UOp:
    return g.cast(g.scalar_op(Ops.SHR, bits, 32), dtypes.uint32)


def _fraction(words: UOp, dtype: DType) -> UOp:
    """Random words as multiples of 2^-(mantissa + 1) in [0, 1): every value of that grid equally likely."""
    kept = dtype.mantissa + 1
    number = g.cast(g.scalar_op(Ops.SHR, words, words.dtype.bits - kept), dtype)
    return g.scalar_op(Ops.MUL, number, 2.0**-kept)


class Random(Creation):
    """Tensors of random numbers."""

    __slots__ = ()

    @staticmethod
    def manual_seed(seed: int = 0) -> None:
        """Begin the sequence of random numbers of this seed, on every device.

        >>> Tensor.manual_seed(1)
        >>> first = Tensor.rand(3).tolist()
        >>> Tensor.manual_seed(1)
        >>> Tensor.rand(3).tolist() == first
        True
        """
        counters.manual_seed(seed)

    @classmethod
    def _drawn(cls, shape: tuple[Dims, ...], device: p.Device | None) -> tuple[UOp, str]:
        """Random bits and the device they are drawn on. The caller holds LOCK until they are in a cell: only
        then are they computed before the device's counter goes on."""
        where = canonical_device(device) or default_device()
        if not isinstance(where, str):
            raise DeviceError(f"random numbers on devices {where}", "draw on one device, then move")
        dims = dims_of(shape)
        if not all(isinstance(d, int) and d >= 0 for d in dims):
            raise ShapeError(f"random tensor of shape {dims}", "sizes are integers, none negative")
        return _bits(dims, where), where

    @classmethod
    def _random(cls, node: UOp, device: str, requires_grad: bool | None) -> Self:
        result = cls._from_node(node, device)
        return result.is_param_() if requires_grad else result

    @classmethod
    def random_bits(cls, *shape: Dims, device: p.Device | None = None) -> Self:
        """uint32 with every bit random."""
        with LOCK:
            bits, where = cls._drawn(shape, device)
            return cls._random(_low(bits), where, None)

    @classmethod
    def rand(
        cls, *shape: Dims, dtype: DTypeLike | None = None, device: p.Device | None = None,
        requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """Uniform in [0, 1): multiples of 2^-24 for float32.

        Args:
            shape: several integers, or one sequence of them.
            dtype: a float dtype; float32 if none is given.
            device: one device.
            requires_grad: whether `backward` gives it a gradient.

        Raises:
            DTypeError: the dtype is not of floats.
            ShapeError: a size is negative.
            DeviceError: several devices.

        >>> Tensor.rand(2, 3).shape
        (2, 3)
        """
        to = _float("rand", dtype)
        with LOCK:
            bits, where = cls._drawn(shape, device)
            node = _fraction(bits if to is dtypes.float64 else _low(bits), to)
            return cls._random(node, where, requires_grad)

    @classmethod
    def randn(
        cls, *shape: Dims, dtype: DTypeLike | None = None, device: p.Device | None = None,
        requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """Normal with mean 0 and standard deviation 1 (Box and Muller, 1958); arguments as `rand`."""
        to = _float("randn", dtype)
        compute = to if to is dtypes.float64 else dtypes.float32
        with LOCK:
            bits, where = cls._drawn(shape, device)
            u, v = [
                cls._from_node(_fraction(half(bits), dtypes.float32), where).cast(compute)
                for half in (_low, _high)
            ]
        value = ((1 - u).log() * -2).sqrt() * (v * (2 * math.pi)).cos()
        return cls._random(g.cast(value.uop, to), where, requires_grad)

    @classmethod
    def randint(
        cls, *shape: Dims, low: int = 0, high: int = 10, dtype: DTypeLike | None = None,
        device: p.Device | None = None,
    ) -> Self:  # fmt: skip
        """Integers from low to high - 1, equally likely (to 2^-32 of a range's size); int32 unless another
        integer dtype is given.

        Raises:
            DTypeError: the dtype is not an integer, or does not hold the range.
            ShapeError: the range is empty, or longer than 2^32.
        """
        to = dtypes.int32 if dtype is None else as_dtype(dtype)
        if not to.is_int:
            raise DTypeError(f"randint of {to.name}", "it gives integers; use uniform for floats")
        low, high = as_int("randint", low), as_int("randint", high)
        if high <= low or high - low > 1 << 32:
            raise ShapeError(f"randint from {low} to {high}", "high must exceed low, by at most 2**32")
        if low < to.min or high - 1 > to.max:
            raise DTypeError(f"randint from {low} to {high} of {to.name}", f"it holds {to.min} … {to.max}")
        with LOCK:
            bits, where = cls._drawn(shape, device)
            wide = g.cast(_low(bits), dtypes.uint64)
            scaled = g.scalar_op(Ops.SHR, g.scalar_op(Ops.MUL, wide, high - low), 32)
            return cls._random(g.scalar_op(Ops.ADD, g.cast(scaled, to), low), where, None)

    @classmethod
    def randperm(cls, n: int, *, dtype: DTypeLike | None = None, device: p.Device | None = None) -> Self:
        """The numbers 0 … n-1 (int32) in random order. The order is made on the host, so it is not lazy."""
        with LOCK:
            bits, where = cls._drawn((n,), device)
            drawn = cls._from_node(bits, where)
        keys = memoryview(drawn._contents(engine().read_host)).cast("B").cast("Q")
        import numpy as np

        order = np.argsort(np.frombuffer(keys, np.uint64), kind="stable").astype(np.int32)
        return cls(order, device=where, dtype=dtype)

    @classmethod
    def uniform(
        cls, *shape: Dims, low: float = 0.0, high: float = 1.0, dtype: DTypeLike | None = None,
        device: p.Device | None = None, requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """Uniform from low to high, which rounding may give; arguments as `rand`."""
        x = cls.rand(*shape, dtype=dtype, device=device) * (high - low) + low
        return x.is_param_() if requires_grad else x

    @classmethod
    def normal(
        cls, *shape: Dims, mean: float = 0.0, std: float = 1.0, dtype: DTypeLike | None = None,
        device: p.Device | None = None, requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """Normal with this mean and standard deviation; arguments as `rand`."""
        x = cls.randn(*shape, dtype=dtype, device=device) * std + mean
        return x.is_param_() if requires_grad else x

    @classmethod
    def scaled_uniform(
        cls, *shape: Dims, dtype: DTypeLike | None = None, device: p.Device | None = None,
        requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """Uniform from -1 to 1, over the square root of the number of elements; arguments as `rand`."""
        scale = max(1, math.prod(dims_of(shape))) ** -0.5
        return cls.uniform(
            *shape, low=-scale, high=scale, dtype=dtype, device=device, requires_grad=requires_grad
        )

    @classmethod
    def glorot_uniform(
        cls, *shape: Dims, dtype: DTypeLike | None = None, device: p.Device | None = None,
        requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """Glorot and Bengio 2010: uniform within sqrt(6 / (shape[0] + the product of the rest))."""
        dims = dims_of(shape)
        bound = math.sqrt(6 / max(1, dims[0] + math.prod(dims[1:]))) if dims else 1.0
        return cls.uniform(
            dims, low=-bound, high=bound, dtype=dtype, device=device, requires_grad=requires_grad
        )

    @classmethod
    def kaiming_uniform(
        cls, *shape: Dims, a: float = 0.01, dtype: DTypeLike | None = None, device: p.Device | None = None,
        requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """He et al. 2015, for a leaky ReLU of slope a; fan-in is the product of all sizes but the first."""
        bound = math.sqrt(3) * _he(dims_of(shape), a)
        return cls.uniform(
            *shape, low=-bound, high=bound, dtype=dtype, device=device, requires_grad=requires_grad
        )

    @classmethod
    def kaiming_normal(
        cls, *shape: Dims, a: float = 0.01, dtype: DTypeLike | None = None, device: p.Device | None = None,
        requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """He et al. 2015: normal, for a leaky ReLU of slope a; fan-in as `kaiming_uniform`."""
        std = _he(dims_of(shape), a)
        return cls.normal(*shape, std=std, dtype=dtype, device=device, requires_grad=requires_grad)

    def rand_like(self, *, dtype: DTypeLike | None = None, device: p.Device | None = None) -> Self:
        """Uniform in [0, 1), in this tensor's shape, dtype and place."""
        return self.rand(self.shape, dtype=dtype or self.dtype, device=device or self.device)

    def randn_like(self, *, dtype: DTypeLike | None = None, device: p.Device | None = None) -> Self:
        """Normal, in this tensor's shape, dtype and place."""
        return self.randn(self.shape, dtype=dtype or self.dtype, device=device or self.device)

    def dropout(self, p: float = 0.5) -> Self:
        """While training (`Tensor.train`): each element is 0 with probability p, else divided by 1 - p.
        Otherwise the tensor itself.

        Raises:
            DTypeError: p is not a probability.

        >>> Tensor([1.0, 2.0]).dropout(0.5).tolist()
        [1.0, 2.0]
        """
        p = number("dropout", p)
        if not 0 <= p <= 1:
            raise DTypeError(f"dropout with p={p}", "a probability lies in 0 … 1")
        if not TRAINING or p == 0:
            return self
        if p == 1:
            return self.zeros_like()
        kept = self.rand(self.shape, device=self.device) >= p
        return kept.where(self, 0.0).cast(self.dtype) * (1 / (1 - p))


def _he(dims: tuple[int, ...], a: float) -> float:
    return math.sqrt(2 / (1 + a * a)) / math.sqrt(max(1, math.prod(dims[1:])))


def _float(what: str, dtype: DTypeLike | None) -> DType:
    to = dtypes.float32 if dtype is None else as_dtype(dtype)
    if not to.is_float or to.is_weak:
        raise DTypeError(f"{what} of {to.name}", "it gives floats; use randint for integers")
    return to
