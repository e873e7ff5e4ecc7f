"""Creation: host data and its dtypes, filled shapes, sequences."""

# mypy: disable-error-code="arg-type, index, list-item"
# Stubs of numpy and PyTorch, and mistakes made on purpose, are not for the type checker to judge here.
from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.ir.ops import Ops
from tiny_core.tensor.tensor import Tensor

from .tensor_checks import close

pytestmark = pytest.mark.usefixtures("oracle")


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (3, dtypes.int32, ()),
        (2.5, dtypes.float32, ()),
        (True, dtypes.bool_, ()),
        ([1, 2], dtypes.int32, (2,)),
        ([[1.0], [2]], dtypes.float32, (2, 1)),
        ([True, False], dtypes.bool_, (2,)),
        ([True, 2], dtypes.int32, (2,)),
        ([1 << 40], dtypes.int64, (1,)),
        ([], dtypes.float32, (0,)),
        ([[], []], dtypes.float32, (2, 0)),
        (((1, 2), (3, 4)), dtypes.int32, (2, 2)),
        (b"ab", dtypes.uint8, (2,)),
        (None, dtypes.float32, (0,)),
    ],
)
def test_dtype_and_shape_of_data(data: object, dtype: dtypes.DType, shape: tuple[int, ...]) -> None:
    x = Tensor(data)
    assert (x.dtype, x.shape) == (dtype, shape)


@pytest.mark.parametrize("dtype", dtypes.storable, ids=str)
def test_numbers_of_every_dtype_come_back(dtype: dtypes.DType) -> None:
    values = (
        [True, False]
        if dtype is dtypes.bool_
        else [0, 1, 4, 100]
        if dtype.is_int
        else [0.0, 1.0, -2.5, 0.375]
    )
    x = Tensor(values, dtype=dtype)
    assert x.dtype is dtype
    assert x.tolist() == values


def test_numpy_dtypes() -> None:
    for kind in ("bool", "int8", "uint16", "int64", "uint64", "float16", "float32", "float64"):
        a = np.array([0, 1, 1], kind)
        assert Tensor(a).dtype.name == kind
        np.testing.assert_array_equal(Tensor(a).numpy(), a)
    b = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    assert Tensor(b).dtype is dtypes.bfloat16
    assert Tensor(b).tolist() == [1.5, -2.0]
    assert Tensor(np.array([1.5], ml_dtypes.float8_e4m3fn)).dtype is dtypes.float8_e4m3


def test_numpy_array_is_copied_at_the_call() -> None:
    a = np.arange(4.0)
    x, y = Tensor(a), Tensor(a[::2])
    a[:] = -1
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert y.tolist() == [0.0, 2.0]


def test_dtype_converts_data() -> None:
    assert Tensor([1.7, -1.7], dtype="int32").tolist() == [1, -1]
    assert Tensor(np.array([1.5]), dtype=dtypes.float16).dtype is dtypes.float16
    assert Tensor([1e300]).tolist() == [math.inf]
    assert Tensor([np.float32(1.5), 2]).tolist() == [1.5, 2.0]


def test_tensor_of_a_tensor_is_a_copy() -> None:
    x = Tensor([1.0, 2.0])
    y = Tensor(x)
    x.assign(x + 1).realize()
    assert y.tolist() == [1.0, 2.0]
    y += 10
    assert x.tolist() == [2.0, 3.0]
    assert Tensor(x, dtype=dtypes.int32).tolist() == [2, 3]


def test_filled() -> None:
    assert Tensor.zeros(2, 3).tolist() == [[0.0] * 3] * 2
    assert Tensor.ones((2,), dtype=dtypes.int8).tolist() == [1, 1]
    assert Tensor.full((2, 1), 7).dtype is dtypes.int32
    assert Tensor.full(3, 2.5).tolist() == [2.5] * 3
    assert Tensor.eye(2, 3).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert Tensor.empty(2, 2).shape == (2, 2)
    x = Tensor([[1, 2]], dtype=dtypes.int16)
    for like, value in ((x.zeros_like(), 0), (x.ones_like(), 1), (x.full_like(7), 7)):
        assert (like.dtype, like.tolist()) == (dtypes.int16, [[value, value]])
    assert x.empty_like().dtype is dtypes.int16
    assert x.const_like(4).tolist() == 4


def test_filled_takes_no_memory() -> None:
    assert not any(n.op is Ops.BUFFER for n in (Tensor.zeros(1000, 1000) + 1).uop.toposort())


@pytest.mark.parametrize(
    "args",
    [(5,), (2, 7), (0, 10, 3), (10, 0, -3), (5, 5), (0.0, 1.0, 0.25), (1, 2, 0.3), (3, 0), (-2.5, 2.5)],
    ids=str,
)
def test_arange(args: tuple[float, ...]) -> None:
    want = np.arange(*args)
    close(Tensor.arange(*args), want, rtol=1e-6)
    assert Tensor.arange(*args).dtype is (dtypes.float32 if want.dtype.kind == "f" else dtypes.int32)


def test_arange_of_other_dtypes_is_one_iota() -> None:
    assert Tensor.arange(4, dtype=dtypes.float16).dtype is dtypes.float16
    assert Tensor.arange(3, dtype=dtypes.int64).tolist() == [0, 1, 2]
    assert [n.op for n in Tensor.arange(4).uop.toposort()] == [Ops.IOTA]


def test_linspace() -> None:
    close(Tensor.linspace(-1, 2, 7), np.linspace(-1, 2, 7), rtol=1e-6, atol=1e-7)
    assert Tensor.linspace(0, 1, 11).tolist()[-1] == 1.0
    assert Tensor.linspace(3, 4, 1).tolist() == [3.0]


def test_properties() -> None:
    x = Tensor.zeros(2, 3, dtype=dtypes.float16)
    assert (x.ndim, x.numel(), x.element_size(), x.nbytes(), x.size(), x.size(-1)) == (2, 6, 2, 12, (2, 3), 3)
    assert x.is_floating_point()
    assert x.device == "CPU"


def test_large_integers_become_floats_with_one_rounding() -> None:
    """The middle between two float32s and a bit more: by way of float64, the middle, which goes to even."""
    rng = np.random.default_rng(4)
    values = [2**60 + 2**36 + 1, -(2**60 + 2**36 + 1), 2**62 - 1, 0, 1, 2**24 + 1]
    values += [(int(v) << 40 | 1 << 39) + d for v in rng.integers(1, 2**23, 500) for d in (-1, 0, 1)]
    for kind in (np.float32, np.float64):
        dtype = dtypes.parse(np.dtype(kind).name)
        assert [dtypes.convert(v, dtype) for v in values] == np.array(values, np.int64).astype(kind).tolist()
    assert dtypes.convert(10**400, dtypes.float32) == math.inf
    assert Tensor.full((1,), 2**60 + 2**36 + 1, dtype="float32").item() == float(2**60 + 2**37)
