"""From tensors to the host: numbers, lists, numpy arrays, text. Each of these realizes."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Never

from tiny_core import dtypes
from tiny_core.dtypes import DType, Number
from tiny_core.errors import DTypeError, ShapeError
from tiny_core.tensor.linalg import LinearAlgebra
from tiny_core.tensor.realize import engine

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

NestedList = Number | list["NestedList"]
_SHOWN = 64
"""A realized tensor of at most so many elements shows them in its repr."""


class Conversions(LinearAlgebra):
    """Data out."""

    __slots__ = ()

    def _bytes(self) -> memoryview:
        return self._contents(engine().read_host).cast("B")

    def data(self) -> memoryview:
        """The elements as a read-only view of this shape; realizes. The view does not change when the tensor
        does.

        Raises:
            DTypeError: memoryview has no format for the dtype (float16, bfloat16 and fp8); `numpy` has.
        """
        if not self.dtype.code or self.dtype.code == "e":
            raise DTypeError(
                f"data of {self.dtype.name}", "memoryview has no format for it; use .numpy() or .float()"
            )
        flat = self._bytes()
        if not self.numel() or not self.shape:
            return _formatted(flat, self.dtype.code)
        return flat.cast(self.dtype.code, self.shape)  # type: ignore[call-overload, no-any-return]  # codes of structs

    def item(self) -> Number:
        """The one element as a Python number; realizes. Raises ShapeError for more elements, or none."""
        if self.numel() != 1:
            raise ShapeError(
                f"item of a tensor of shape {self.shape}", "it has not one element; index it, or use tolist"
            )
        return _numbers(self._bytes(), self.dtype)[0]

    def tolist(self) -> NestedList:
        """The elements as nested lists of Python numbers (a number for a scalar); realizes."""
        values = _numbers(self._bytes(), self.dtype)
        return _nest(values, self.shape)

    def numpy(self) -> npt.NDArray[np.generic]:
        """The elements as a read-only numpy array; realizes. It shares memory where the host sees the
        device's, and does not change when the tensor does."""
        import numpy as np

        array = np.frombuffer(self._bytes(), _numpy_dtype(self.dtype)).reshape(self.shape)
        array.flags.writeable = False
        return array

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[np.generic]:
        array = self.numpy()
        return (
            array.astype(dtype)
            if dtype is not None and array.dtype != dtype
            else array.copy()
            if copy
            else array
        )

    __array_ufunc__ = None
    """numpy leaves arithmetic with tensors alone: `array * tensor` is a TypeError rather than an array of
    tensors."""

    def __bool__(self) -> Never:
        raise DTypeError(
            f"truth of a tensor of shape {self.shape}",
            "use .item() for its number, where() to choose by elements, any() or all() to combine them",
        )

    def __repr__(self) -> str:
        head = f"{self.dtype.name}{list(self.shape)} on {self.device}"
        if not self._cell.realized:
            return f"<Tensor {head}, lazy>"
        if self.numel() > _SHOWN:
            return f"<Tensor {head}>"
        values = (_text(v, self.dtype) for v in _numbers(self._bytes(), self.dtype))
        return f"<Tensor {head}: {_brackets(list(values), self.shape)}>"


def _numpy_dtype(dtype: DType) -> np.dtype[np.generic]:
    import numpy as np

    if dtype.code:
        return np.dtype(np.bool_ if dtype is dtypes.bool_ else dtype.name)
    import ml_dtypes

    found: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, _ML_DTYPES.get(dtype.name, dtype.name)))
    return found


_ML_DTYPES = {"float8_e4m3": "float8_e4m3fn"}


def _formatted(content: memoryview, code: str) -> memoryview:
    """The same bytes as elements of a format of `struct`."""
    return content.cast(code)  # type: ignore[call-overload, no-any-return]  # the stubs know literal codes only


def _numbers(content: memoryview, dtype: DType) -> Sequence[Number]:
    """Bytes as Python numbers."""
    if dtype.code == "e":
        return struct.unpack(f"<{content.nbytes // 2}e", content)
    if dtype.code:
        return _formatted(content, dtype.code).tolist() if content.nbytes else []
    n = dtype.itemsize
    return [
        dtypes.from_bits(int.from_bytes(content[i : i + n], "little"), dtype)
        for i in range(0, content.nbytes, n)
    ]


def _nest(values: Sequence[Number], shape: tuple[int, ...]) -> NestedList:
    """Values in row-major order as lists in lists."""
    items: list[NestedList] = list(values)
    for axis in reversed(range(len(shape))):
        n = shape[axis]
        items = [items[i * n : (i + 1) * n] for i in range(math.prod(shape[:axis]))]
    return items[0]


def _text(value: Number, dtype: DType) -> str:
    if not dtype.is_float or dtype is dtypes.float64:
        return repr(value)
    digits = {dtypes.float32: 6, dtypes.float16: 4}.get(dtype, 3)
    short = f"{value:.{digits}g}"
    return short if any(c in short for c in ".en") else short + ".0"


def _brackets(values: list[str], shape: tuple[int, ...]) -> str:
    """Put values in brackets, in this shape."""
    for axis in reversed(range(len(shape))):
        n = shape[axis]
        rows = range(math.prod(shape[:axis]))
        values = ["[" + ", ".join(values[i * n : (i + 1) * n]) + "]" for i in rows]
    return values[0]
