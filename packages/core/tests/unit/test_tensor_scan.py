"""Running sums, products and extremes against PyTorch: values, indices, gradients."""

# mypy: disable-error-code="arg-type, no-untyped-call"
# Stubs of numpy and PyTorch are not for the type checker to judge here.
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tiny_core import Tensor, dtypes
from tiny_core.errors import ShapeError

from .tensor_checks import close, rng, same_function

SHAPES = [
    ((5,), 0),
    ((3, 40), 1),
    ((100, 7), 0),
    ((2, 2000), -1),
    ((4, 3, 70), 1),
    ((), 0),
    ((0,), 0),
    ((3, 0), 1),
]


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_values(name: str, shape: tuple[int, ...], axis: int) -> None:
    x = rng().standard_normal(shape)
    got, want = getattr(Tensor(x), name)(axis), getattr(torch, name)(torch.tensor(x), axis)
    if name in ("cummax", "cummin"):
        close(got[1], want[1])
        got, want = got[0], want[0]
    close(got, want, 1e-9, 1e-12)


@pytest.mark.parametrize("name", ["cumsum", "logcumsumexp"])
@pytest.mark.parametrize("shape", [(7,), (3, 50)])
def test_gradients(name: str, shape: tuple[int, ...]) -> None:
    def mine(x: Tensor) -> Tensor:
        return getattr(x, name)(-1)

    def reference(x: torch.Tensor) -> torch.Tensor:
        return getattr(torch, name)(x, -1)

    same_function(mine, reference, rng(1).standard_normal(shape))


def test_the_product_has_the_gradient_of_the_product() -> None:
    same_function(lambda x: x.cumprod(0), lambda x: x.cumprod(0), rng(2).uniform(0.5, 1.5, 40))


def test_indices_are_those_of_the_last_equal_element() -> None:
    x = rng(3).integers(0, 5, (7, 90)).astype(np.int32)
    for name in ("cummax", "cummin"):
        values, places = getattr(Tensor(x), name)(1)
        want = getattr(torch, name)(torch.tensor(x), 1)
        close(values, want[0])
        close(places, want[1])
        assert places.dtype is dtypes.int32


def test_nan_stays() -> None:
    x = np.array([1.0, np.nan, 3.0, np.nan, 5.0])
    values, places = Tensor(x).cummax(0)
    want = torch.cummax(torch.tensor(x), 0)
    close(values, want[0])
    close(places, want[1])


@pytest.mark.parametrize(
    ("dtype", "result"), [("bool", "int32"), ("uint8", "uint32"), ("int64", "int64"), ("float16", "float16")]
)
def test_dtypes_are_those_of_sums(dtype: str, result: str) -> None:
    got = Tensor([1, 0, 1, 1]).cast(dtype).cumsum(0)
    assert got.dtype.name == result and got.tolist() == [1, 1, 2, 3]


def test_overflow_of_logarithms_is_avoided() -> None:
    x = np.array([1000.0, 1000.0, -np.inf, 999.0])
    close(Tensor(x).logcumsumexp(0), torch.logcumsumexp(torch.tensor(x), 0))


@pytest.mark.parametrize("scan", [Tensor.cumsum, Tensor.cumprod, Tensor.cummax, Tensor.logcumsumexp])
def test_an_axis_that_is_not_there(scan: Callable[..., object]) -> None:
    with pytest.raises(ShapeError):
        scan(Tensor([1.0]), 1)
