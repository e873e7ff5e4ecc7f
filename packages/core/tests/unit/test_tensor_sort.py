"""Sorting, the greatest few, and binary search against PyTorch, with equal elements, NaN and signed zeros."""

# mypy: disable-error-code="arg-type, no-untyped-call"
# Stubs of numpy and PyTorch are not for the type checker to judge here.
from __future__ import annotations

import numpy as np
import pytest
import torch

from tiny_core import Tensor, dtypes
from tiny_core.errors import ShapeError

from .tensor_checks import Numbers, close, rng, same_function

DTYPES = ["float32", "float64", "float16", "int64", "int32", "int16", "uint8", "bool"]
SHAPES = [((5,), 0), ((1,), 0), ((3, 40), 1), ((100, 7), 0), ((4, 3, 70), 1), ((), 0), ((0,), 0), ((3, 0), 1)]


def data(shape: tuple[int, ...], dtype: str) -> Numbers:
    """Numbers with many equals; floats have NaN, infinities and both zeros among them."""
    r = rng(len(shape))
    x = np.asarray(np.round(r.standard_normal(shape) * 3, 1) if "float" in dtype else r.integers(0, 9, shape))
    x = x.astype(dtype)
    if "float" in dtype and x.size > 6:
        x.flat[:6] = [0.0, -0.0, np.nan, -np.inf, 1.0, -np.nan]
    return x


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_elements_keep_their_order(
    dtype: str, shape: tuple[int, ...], axis: int, descending: bool
) -> None:
    x = data(shape, dtype)
    values, places = Tensor(x).sort(axis, descending)
    want = torch.sort(torch.tensor(x), dim=axis, descending=descending, stable=True)
    np.testing.assert_array_equal(values.numpy(), want[0].numpy())
    close(places, want[1])
    assert values.dtype.name == dtype and places.dtype is dtypes.int32


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_large_unsigned_numbers(dtype: str) -> None:
    x = rng().integers(0, np.iinfo(dtype).max, 50, dtype=dtype, endpoint=True)
    assert Tensor(x).sort()[0].tolist() == np.sort(x).tolist()


@pytest.mark.parametrize("largest", [False, True])
def test_the_greatest_few(largest: bool) -> None:
    x = rng().standard_normal((4, 60))
    values, places = Tensor(x).topk(5, largest=largest)
    want = torch.topk(torch.tensor(x), 5, largest=largest)
    close(values, want[0])
    close(places, want[1])


def test_gradients_go_where_the_elements_came_from() -> None:
    x = rng().standard_normal((3, 9))
    same_function(lambda t: t.sort(1)[0], lambda t: t.sort(1)[0], x)
    same_function(lambda t: t.topk(2, 0)[0], lambda t: t.topk(2, 0)[0], x)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_binary_search(n: int, right: bool) -> None:
    rows = np.sort(np.round(rng().standard_normal((3, n)), 1), 1)
    wanted = np.round(rng(1).standard_normal((3, 20)), 1)
    theirs = torch.searchsorted(torch.tensor(rows), torch.tensor(wanted), right=right)
    close(Tensor(rows).searchsorted(Tensor(wanted), right), theirs)
    theirs = torch.searchsorted(torch.tensor(rows[0]), torch.tensor(wanted), right=right)
    close(Tensor(rows[0]).searchsorted(Tensor(wanted), right), theirs)


def test_mistakes() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    for wrong in (
        lambda: x.sort(2),
        lambda: x.topk(3),
        lambda: x.topk(-1),
        lambda: x.searchsorted(Tensor([1.0])),
    ):
        with pytest.raises(ShapeError):
            wrong()
