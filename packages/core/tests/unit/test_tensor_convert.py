"""Data out: numbers, lists, numpy, buffers, text; and reading views of any kind."""

# mypy: disable-error-code="comparison-overlap, operator"
# Stubs of numpy and PyTorch, and mistakes made on purpose, are not for the type checker to judge here.
from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.errors import DTypeError, ShapeError
from tiny_core.tensor.tensor import Tensor

pytestmark = pytest.mark.usefixtures("oracle")


def test_item_and_tolist() -> None:
    assert Tensor([[3]]).item() == 3
    assert Tensor(2.5).tolist() == 2.5
    assert isinstance(Tensor(True).item(), bool)
    assert Tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert Tensor([0.1], dtype=dtypes.float16).tolist() == [float(np.float16(0.1))]
    assert Tensor([0.1], dtype=dtypes.bfloat16).item() == dtypes.round_float(0.1, dtypes.bfloat16)
    with pytest.raises(ShapeError, match="one element"):
        Tensor([1, 2]).item()


def test_numpy_of_views() -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    x = Tensor(a)
    for view, want in (
        (x[1], a[1]),
        (x.T, a.swapaxes(0, 1)),
        (x[:, ::2, ::-1], a[:, ::2, ::-1]),
        (x[0, 1:], a[0, 1:]),
        (x.expand(5, 2, 3, 4), np.broadcast_to(a, (5, 2, 3, 4))),
    ):
        np.testing.assert_array_equal(view.numpy(), want)
        assert not view.numpy().flags.writeable


def test_numpy_dtypes_without_python_format() -> None:
    assert Tensor([1.5], dtype=dtypes.bfloat16).numpy().dtype.name == "bfloat16"
    assert Tensor([1.5], dtype=dtypes.float8_e4m3).numpy().dtype.name == "float8_e4m3fn"


def test_array_protocol() -> None:
    x = Tensor([1, 2])
    assert np.asarray(x).dtype == np.int32
    assert np.asarray(x, float).dtype == float
    assert np.array(x).flags.writeable
    with pytest.raises(TypeError):
        np.ones(2) + x


def test_data_is_a_read_only_buffer() -> None:
    view = Tensor([[1.0, 2.0], [3.0, 4.0]]).data()
    assert (view.shape, view.format, view.readonly) == ((2, 2), "f", True)
    assert view.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert Tensor(3).data().tolist() == [3]
    with pytest.raises(DTypeError, match="bfloat16"):
        Tensor([1.0], dtype=dtypes.bfloat16).data()


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (lambda: Tensor([1, 2]), "<Tensor int32[2] on CPU: [1, 2]>"),
        (
            lambda: Tensor([[0.1, 1e-8], [math.inf, 2]]),
            "<Tensor float32[2, 2] on CPU: [[0.1, 1e-08], [inf, 2.0]]>",
        ),
        (lambda: Tensor(3.0), "<Tensor float32[] on CPU: 3.0>"),
        (lambda: Tensor([True]), "<Tensor bool[1] on CPU: [True]>"),
        (lambda: Tensor([1, 2]) + 1, "<Tensor int32[2] on CPU, lazy>"),
        (lambda: Tensor.empty(100), "<Tensor float32[100] on CPU>"),
        (lambda: Tensor([]), "<Tensor float32[0] on CPU: []>"),
        (lambda: Tensor([1, 2, 3])[::-1], "<Tensor int32[3] on CPU: [3, 2, 1]>"),
    ],
)
def test_repr(x: object, text: str) -> None:
    assert callable(x)
    assert repr(x()) == text


def test_repr_of_lazy_runs_nothing() -> None:
    x = Tensor([1]) + 1
    repr(x)
    assert not x.is_realized


def test_copies_and_pickles() -> None:
    x = Tensor([[1.0, 2.0]], requires_grad=True)
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert (y.tolist(), y.dtype, y.requires_grad) == ([[1.0, 2.0]], dtypes.float32, True)
        y += 1
    assert x.tolist() == [[1.0, 2.0]]
