"""Masks, assignment at index tensors, scatter and scatter_reduce against PyTorch."""

# mypy: disable-error-code="arg-type, no-untyped-call"
# Stubs of numpy and PyTorch, and mistakes made on purpose, are not for the type checker to judge here.
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tiny_core import Tensor, dtypes
from tiny_core.errors import DTypeError, ShapeError

from .tensor_checks import close, rng, same_function


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (), (0,), (2, 0)])
def test_nonzero(shape: tuple[int, ...]) -> None:
    x = rng().integers(0, 2, shape)
    close(Tensor(x).nonzero(), torch.tensor(x).nonzero())
    close(Tensor(np.zeros(shape)).nonzero(), torch.zeros(shape).nonzero())


def test_masked_select_broadcasts() -> None:
    x, mask = rng().standard_normal((4, 5)), rng(1).random((4, 1)) < 0.5
    close(Tensor(x).masked_select(Tensor(mask)), torch.tensor(x).masked_select(torch.tensor(mask)))
    assert Tensor(3.0).masked_select(Tensor([True, False, True])).tolist() == [3.0, 3.0]


Part = Callable[[Any, Any], Any]
PARTS: dict[str, Part] = {
    "whole": lambda x, m: x[m],
    "first axes": lambda x, m: x[m[:, :, 0]],
    "last axes": lambda x, m: x[..., m[0]],
    "after a slice": lambda x, m: x[1:, m[0, :, 0]],
    "with an integer": lambda x, m: x[0, m[0]],
    "beside None": lambda x, m: x[None, m[:, 0, 0]],
    "two": lambda x, m: x[m[:, 0, 0].nonzero()[:, 0], m[0, :, 0].nonzero()[:, 0][:1]],
}


@pytest.mark.parametrize("name", PARTS)
def test_masks_select(name: str) -> None:
    x, mask = rng().standard_normal((4, 5, 6)), rng(1).random((4, 5, 6)) < 0.4
    close(PARTS[name](Tensor(x), Tensor(mask)), PARTS[name](torch.tensor(x), torch.tensor(mask)))


def test_a_mask_of_another_shape() -> None:
    for mask in (Tensor([True, False, True]), Tensor([[True], [False]])):
        with pytest.raises(ShapeError, match="mask of shape"):
            Tensor.ones(2, 3)[mask]


Store = Callable[[Any, Any, Any], None]


def _at_list(x: Any, i: Any, v: Any) -> None:
    x[i] = v[: len(i)]


def _with_slice(x: Any, i: Any, v: Any) -> None:
    x[1:, i] = 7


def _both_axes(x: Any, i: Any, v: Any) -> None:
    x[i[:3], i[:3]] = v[0, :3]


def _apart(x: Any, i: Any, v: Any) -> None:
    x[None, i[:2], :, None] = v[0, 0]


def _grid(x: Any, i: Any, v: Any) -> None:
    x[i[:2, None], i[None, :3]] = v[:2, :3]


def _mask(x: Any, i: Any, v: Any) -> None:
    m = x > 0
    x[m] = 0


def _mask_values(x: Any, i: Any, v: Any) -> None:
    x[x[:, 0] > 0] = v[0]


def _into_a_view(x: Any, i: Any, v: Any) -> None:
    x.T[i] = v.T[: len(i)]


@pytest.mark.parametrize(
    "store", [_at_list, _with_slice, _both_axes, _apart, _grid, _mask, _mask_values, _into_a_view]
)
def test_assignment(store: Store) -> None:
    x, v, i = rng().standard_normal((6, 6)), rng(1).standard_normal((6, 6)), np.array([4, 0, -1, 2])
    mine, theirs = Tensor(x), torch.tensor(x)
    store(mine, Tensor(i), Tensor(v))
    store(theirs, torch.tensor(i), torch.tensor(v))
    close(mine, theirs)


def test_of_several_elements_for_one_place_the_last_one_stays() -> None:
    x = Tensor.zeros(4).contiguous()
    x[Tensor([1, 3, 1, 9])] = Tensor([5.0, 6.0, 7.0, 8.0])
    assert x.tolist() == [0.0, 7.0, 0.0, 6.0]


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scatter(dim: int) -> None:
    x, src = rng().standard_normal((4, 5, 6)), rng(1).standard_normal((4, 5, 6))
    n = x.shape[dim]
    index = np.argsort(rng(2).random(x.shape), axis=dim)[:3, :4, :5] % n
    if dim != 0:
        index = np.argsort(rng(2).random((3, n, 5) if dim == 1 else (3, 4, n)), axis=dim)
    mine = Tensor(x).scatter(dim, Tensor(index), Tensor(src))
    theirs = torch.tensor(x).scatter(dim, torch.tensor(index), torch.tensor(src))
    if dim != 0:  # for dim 0 the cut index may name a place twice, of which PyTorch keeps any
        close(mine, theirs)
    assert Tensor([0, 0, 0]).scatter(0, Tensor([2, 0]), 4).tolist() == [4, 0, 4]


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("n", [3, 100])
def test_scatter_reduce(reduce: str, include_self: bool, n: int) -> None:
    x, src = rng().standard_normal((3, 7)), rng(1).standard_normal((3, n))
    index = rng(2).integers(0, 7, (3, n))
    mine = Tensor(x).scatter_reduce(1, Tensor(index), Tensor(src), reduce, include_self)
    theirs = torch.tensor(x).scatter_reduce(
        1, torch.tensor(index), torch.tensor(src), reduce, include_self=include_self
    )
    close(mine, theirs, 1e-9, 1e-12)


def test_gradients() -> None:
    x, src, index = (
        rng().standard_normal((3, 7)),
        rng(1).standard_normal((3, 9)),
        rng(2).integers(0, 7, (3, 9)),
    )
    same_function(
        lambda a, b: a.scatter_reduce(1, Tensor(index), b, "sum"),
        lambda a, b: a.scatter_reduce(1, torch.tensor(index), b, "sum"),
        x,
        src,
    )
    order = np.argsort(rng(3).random((3, 7)), axis=1)[:, :5]
    same_function(
        lambda a, b: a.scatter(1, Tensor(order), b),
        lambda a, b: a.scatter(1, torch.tensor(order), b),
        x,
        src[:, :5],
    )


def test_add_and_multiply() -> None:
    x = Tensor([1, 2, 3])
    index, src = Tensor([0, 0, 2]), Tensor([5, 6, 7])
    assert x.scatter(0, index, src, reduce="add").tolist() == [12, 2, 10]
    assert x.scatter(0, index, src, reduce="multiply").tolist() == [30, 2, 21]
    assert x.scatter_reduce(0, index, src, "mean").dtype is dtypes.int32


def test_mistakes() -> None:
    x, index = Tensor.ones(3, 4), Tensor([[0]])
    with pytest.raises(DTypeError, match="reduce='max'"):
        x.scatter_reduce(0, index, x, "max")
    with pytest.raises(DTypeError, match="reduce='sum'"):
        x.scatter(0, index, x, reduce="sum")
    with pytest.raises(DTypeError, match="index of float32"):
        x.scatter(0, Tensor([[0.0]]), x)
    with pytest.raises(ShapeError):
        x.scatter(0, Tensor([0]), x)
    with pytest.raises(ShapeError):
        x.scatter(0, Tensor.zeros(2, 5, dtype="int32"), Tensor.ones(3, 5))
    with pytest.raises(ShapeError, match="do not broadcast"):
        x[Tensor([0, 1])] = Tensor.ones(3)


def test_the_gradient_of_a_long_gather_is_summed_by_place() -> None:
    x, index = rng().standard_normal((3000, 4)), rng(1).integers(0, 3000, 1500)
    same_function(lambda a: a[Tensor(index)] * 2, lambda a: a[torch.tensor(index)] * 2, x)
    x, index = rng().standard_normal((2, 2500)), rng(1).integers(0, 2500, (2, 2500))
    same_function(lambda a: a.gather(1, Tensor(index)), lambda a: a.gather(1, torch.tensor(index)), x)
