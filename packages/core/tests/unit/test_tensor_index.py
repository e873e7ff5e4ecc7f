"""Indexing and gathering against PyTorch and numpy: values, gradients, assignment into views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tiny_core import dtypes
from tiny_core.ir.ops import Ops
from tiny_core.tensor.tensor import Tensor

from .tensor_checks import close, rng, same_function

pytestmark = pytest.mark.usefixtures("oracle")

X = rng().standard_normal((5, 4, 6))
BASIC: list[Any] = [
    0,
    -1,
    (1, 2),
    (slice(None), -2),
    slice(1, 4),
    slice(None, None, 2),
    slice(4, None, -1),
    slice(None, None, -2),
    (slice(3, 1),),
    (..., 1),
    (None, 2),
    (0, None, ..., None),
    (slice(0, 5, 3), slice(3, 0, -2), slice(-4, -1)),
    (1, slice(None), 2),
    (Ellipsis, slice(1, 2)),
    (),
    (slice(10, 20),),
    (slice(-100, 2), 0),
    (2, ..., slice(5, 0, -3)),
]


@pytest.mark.parametrize("index", BASIC, ids=str)
def test_basic_index_is_numpys(index: Any) -> None:
    close(Tensor(X)[index], X[index])


@pytest.mark.parametrize("index", [i for i in BASIC if "-" not in str(i) or i == -1], ids=str)
def test_basic_index_has_pytorchs_gradient(index: Any) -> None:
    same_function(lambda t: t[index] * 2, lambda t: t[index] * 2, X)


@pytest.mark.parametrize("index", [i for i in BASIC if X[i].size], ids=str)
def test_basic_index_is_a_view_to_assign_to(index: Any) -> None:
    have, want = Tensor(X), X.copy()
    value = rng(1).standard_normal(X[index].shape)
    have[index] = Tensor(value)
    want[index] = value
    close(have, want)
    have[index] = -1
    want[index] = -1
    close(have, want)


I, J = np.array([[0, 4, -1], [2, 2, 3]]), np.array([1, -4, 3])
ADVANCED: list[tuple[Any, Any]] = [
    ((I,), None),
    ((slice(None), J), None),
    ((I, J), None),
    ((slice(None), J, J), None),
    ((J, slice(None), J), None),
    ((0, J), None),
    ((None, J), None),
    ((..., J), None),
    ((slice(1, None, 2), J, None), None),
    ((J[:, None], J), None),
    ((J, 1), None),
    ((slice(None), 2, J), None),
]


@pytest.mark.parametrize("number", range(len(ADVANCED)))
def test_tensor_index_is_pytorchs(number: int) -> None:
    index = ADVANCED[number][0]
    ours = tuple(Tensor(i) if isinstance(i, np.ndarray) else i for i in index)
    theirs = tuple(torch.tensor(i) if isinstance(i, np.ndarray) else i for i in index)
    same_function(lambda t: t[ours], lambda t: t[theirs], X)


def test_list_is_an_index_tensor() -> None:
    close(Tensor(X)[[0, 2, -1]], X[[0, 2, -1]])
    close(Tensor(X)[:, [1, 1]], X[:, [1, 1]])


def test_tensor_index_gathers_without_one_hot() -> None:
    node = Tensor.empty(1000, 8)[Tensor([1, 2, 3])].uop
    assert max(n.size for n in node.toposort()) == 8000
    assert Ops.GATHER in {n.op for n in node.toposort()}
    assert Ops.REDUCE not in {n.op for n in node.toposort()}


def test_out_of_range_elements_read_zero() -> None:
    x = Tensor([1.0, 2.0, 3.0])
    assert x[Tensor([0, 3, -4, -1])].tolist() == [1.0, 0.0, 0.0, 3.0]
    assert x[Tensor([0, 255, 2], dtype=dtypes.uint8)].tolist() == [1.0, 0.0, 3.0]


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_gather(dim: int) -> None:
    index = rng(3).integers(0, X.shape[dim], (3, 2, 5))
    same_function(lambda t: t.gather(dim, Tensor(index)), lambda t: t.gather(dim, torch.tensor(index)), X)


def test_gather_gradient_compares_along_one_axis_only() -> None:
    x, labels = Tensor.empty(64, 10), Tensor.empty(64, 1, dtype=dtypes.int32)
    grad = x.gather(1, labels).sum().gradient(x)[0]
    assert max(n.size for n in grad.uop.toposort()) == 640


def test_one_hot() -> None:
    have = Tensor([1, 0, 3]).one_hot(4)
    assert have.dtype is dtypes.int32
    assert have.tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]]


def test_assignment_broadcasts_and_casts() -> None:
    x = Tensor(np.zeros((3, 4)))
    x[1:] = Tensor([1.0, 2.0, 3.0, 4.0])
    x[0, :2] = [7, 8]
    assert x.tolist() == [[7, 8, 0, 0], [1, 2, 3, 4], [1, 2, 3, 4]]
    y = Tensor([1, 2, 3])
    y[1] = 2.9
    assert y.tolist() == [1, 2, 3]


def test_assignment_where_a_mask_holds() -> None:
    x = Tensor([1.0, -2.0, 3.0, -4.0])
    x[x < 0] = 0
    assert x.tolist() == [1.0, 0.0, 3.0, 0.0]


def test_assignment_reads_before_it_writes() -> None:
    x = Tensor([1.0, 2.0, 3.0, 4.0])
    x[1:] = x[:-1]
    assert x.tolist() == [1.0, 1.0, 2.0, 3.0]
    x[:] = x[::-1]
    assert x.tolist() == [3.0, 2.0, 1.0, 1.0]


def test_iteration_gives_rows() -> None:
    assert [r.tolist() for r in Tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    a, b = Tensor([5, 6])
    assert (a.item(), b.item()) == (5, 6)
    assert len(Tensor([5, 6])) == 2
