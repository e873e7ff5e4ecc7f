"""Reductions against PyTorch: values, gradients, dtypes of accumulation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.ir.ops import Ops
from tiny_core.tensor.tensor import Tensor

from .tensor_checks import close, rng, same_function

pytestmark = pytest.mark.usefixtures("oracle")

X = rng().standard_normal((3, 4, 5))
CASES: list[tuple[str, Callable[..., Tensor], Callable[..., torch.Tensor]]] = [
    ("sum", lambda t: t.sum(), lambda t: t.sum()),
    ("sum of axes", lambda t: t.sum((0, -1), keepdim=True), lambda t: t.sum((0, -1), keepdim=True)),
    ("prod", lambda t: t.prod(1), lambda t: t.prod(1)),
    ("max", lambda t: t.max(2), lambda t: t.amax(2)),
    ("max of all", lambda t: t.max(), lambda t: t.max()),
    ("min", lambda t: t.min((0, 1)), lambda t: t.amin((0, 1))),
    ("mean", lambda t: t.mean(-1), lambda t: t.mean(-1)),
    ("var", lambda t: t.var(1), lambda t: t.var(1)),
    ("var uncorrected", lambda t: t.var(correction=0), lambda t: t.var(correction=0)),
    ("std", lambda t: t.std((0, 2), keepdim=True), lambda t: t.std((0, 2), keepdim=True)),
    ("mean of pair", lambda t: t.var_mean(1)[1], lambda t: t.mean(1)),
    ("logsumexp", lambda t: t.logsumexp(1), lambda t: t.logsumexp(1)),
    ("softmax", lambda t: t.softmax(), lambda t: t.softmax(-1)),
    ("softmax of axis", lambda t: t.softmax(0), lambda t: t.softmax(0)),
    ("log_softmax", lambda t: t.log_softmax(1), lambda t: t.log_softmax(1)),
    ("layernorm", lambda t: t.layernorm(), lambda t: torch.nn.functional.layer_norm(t, (5,))),
    (
        "layernorm of axes",
        lambda t: t.layernorm((-2, -1)),
        lambda t: torch.nn.functional.layer_norm(t, (4, 5)),
    ),
    ("normalize", lambda t: t.normalize(), torch.nn.functional.normalize),
]


@pytest.mark.parametrize(("name", "function", "reference"), CASES, ids=[c[0] for c in CASES])
def test_reduction(
    name: str, function: Callable[..., Tensor], reference: Callable[..., torch.Tensor]
) -> None:
    same_function(function, reference, X)


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_product_with_zeros(zeros: int) -> None:
    x = np.array([[3.0, 2.0, -1.5, 0.5]])
    x[0, :zeros] = 0
    same_function(lambda t: t.prod(1), lambda t: t.prod(1), x)


def test_ties_of_a_maximum_share_the_gradient() -> None:
    same_function(lambda t: t.max(1), lambda t: t.amax(1), np.array([[2.0, 2.0, 1.0], [0.0, 0.0, 0.0]]))


def test_boolean_reductions() -> None:
    x = np.array([[0.0, 1.0], [0.0, 0.0], [2.0, np.nan]])
    assert Tensor(x).any(1).tolist() == [True, False, True]
    assert Tensor(x).all(1).tolist() == [False, False, True]
    assert Tensor(x).any().tolist() is True
    assert Tensor.zeros(2, 0).any(1).tolist() == [False, False]
    assert Tensor.zeros(2, 0).all(1).tolist() == [True, True]


ARGUMENTS = np.array([[1.0, 5.0, 5.0], [7.0, np.nan, 9.0], [-1.0, -1.0, -2.0]])


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_arguments_of_extremes(axis: int | None) -> None:
    x = torch.tensor(ARGUMENTS)
    for name in ("argmax", "argmin"):
        have = getattr(Tensor(ARGUMENTS), name)(axis)
        assert have.dtype is dtypes.int32
        np.testing.assert_array_equal(have.numpy(), getattr(x, name)(axis).numpy())
        np.testing.assert_array_equal(have.shape, getattr(Tensor(ARGUMENTS), name)(axis).shape)
    assert Tensor(ARGUMENTS).argmax(1, keepdim=True).shape == (3, 1)
    assert Tensor([3, 9, 9]).argmax().item() == 1


def test_argmax_needs_one_pass_over_the_elements() -> None:
    sizes = [n.size for n in Tensor.empty(1000).argmax().uop.toposort()]
    assert max(sizes) == 1000


ACCUMULATION: list[tuple[DType, DType, DType]] = [
    (dtypes.bool_, dtypes.int32, dtypes.int32),
    (dtypes.int8, dtypes.int32, dtypes.int32),
    (dtypes.uint16, dtypes.uint32, dtypes.uint32),
    (dtypes.int64, dtypes.int64, dtypes.int64),
    (dtypes.float16, dtypes.float32, dtypes.float16),
    (dtypes.bfloat16, dtypes.float32, dtypes.bfloat16),
    (dtypes.float8_e4m3, dtypes.float32, dtypes.float8_e4m3),
    (dtypes.float32, dtypes.float32, dtypes.float32),
    (dtypes.float64, dtypes.float64, dtypes.float64),
]


@pytest.mark.parametrize(("dtype", "inner", "result"), ACCUMULATION)
def test_sums_accumulate(dtype: DType, inner: DType, result: DType) -> None:
    total = Tensor.empty(8, dtype=dtype).sum()
    assert total.dtype is result
    assert [n.dtype for n in total.uop.toposort() if n.op is Ops.REDUCE] == [inner]


def test_sum_of_many_halves_is_rounded_once() -> None:
    x = Tensor.full((4096,), 0.1, dtype=dtypes.float16)
    assert abs(x.sum().item() - 4096 * float(np.float16(0.1))) < 0.25
    assert Tensor([200, 100], dtype=dtypes.uint8).sum().item() == 300
    assert Tensor([1.5, 2.5], dtype=dtypes.float16).sum(dtype=dtypes.float64).dtype is dtypes.float64


def test_mean_of_integers_is_float32() -> None:
    assert Tensor([1, 2]).mean().dtype is dtypes.float32
    assert Tensor([1, 2]).mean().item() == 1.5
    assert Tensor([1.0, 2.0], dtype=dtypes.float16).mean().dtype is dtypes.float16


def test_over_no_elements() -> None:
    assert Tensor.zeros(0, 3).sum(0).tolist() == [0.0, 0.0, 0.0]
    assert Tensor.zeros(2, 0).prod(1).tolist() == [1.0, 1.0]
    assert math.isnan(Tensor.zeros(0).mean().item())


def test_softmax_of_large_and_infinite() -> None:
    assert Tensor([1000.0, 1000.0]).softmax().tolist() == [0.5, 0.5]
    assert Tensor([-math.inf, 0.0]).softmax().tolist() == [0.0, 1.0]
    assert Tensor([-math.inf, -math.inf]).logsumexp().item() == -math.inf
    close(Tensor([1e4, 0.0]).log_softmax(), np.array([0.0, -1e4]))
