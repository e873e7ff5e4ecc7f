"""Products, convolutions, pools, normalisation and attention against PyTorch: values and gradients."""

# mypy: disable-error-code="arg-type, call-overload"
# Stubs of numpy and PyTorch, and mistakes made on purpose, are not for the type checker to judge here.
from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it

from tiny_core import dtypes
from tiny_core.ir.ops import Ops
from tiny_core.tensor.tensor import Tensor

from .tensor_checks import close, rng, same_function

pytestmark = pytest.mark.usefixtures("oracle")


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return rng(seed).standard_normal(shape)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 5)),
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((4,), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 1, 3, 4), (6, 4, 5)),
        ((4,), (2, 4, 3)),
        ((2, 3, 4), (4,)),
        ((1, 1), (1, 1)),
    ],
)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    same_function(lambda x, y: x @ y, lambda x, y: x @ y, normal(*a), normal(*b, seed=1))


def test_linear() -> None:
    x, w, b = normal(5, 3), normal(3, 4, seed=1), normal(4, seed=2)
    same_function(lambda x, w, b: x.linear(w, b), lambda x, w, b: F.linear(x, w.T, b), x, w, b)
    same_function(lambda x, w: x.linear(w), lambda x, w: x * w, x, normal(3, seed=1))


def test_matmul_of_halves_is_exact_until_it_is_rounded_once() -> None:
    a, b = normal(8, 300).astype(np.float16), normal(300, 8, seed=1).astype(np.float16)
    have = Tensor(a) @ Tensor(b)
    assert have.dtype is dtypes.float16
    assert [n.dtype for n in have.uop.toposort() if n.op in (Ops.MUL, Ops.REDUCE)] == [dtypes.float32] * 2
    want = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)
    np.testing.assert_allclose(have.numpy().astype(float), want.astype(float), rtol=2e-3, atol=1e-3)


def test_matmul_of_integers() -> None:
    a = np.array([[100, 100]], np.int8)
    have = Tensor(a) @ Tensor(a.T.copy())
    assert have.dtype is dtypes.int32
    assert have.tolist() == [[20000]]


CONVOLUTIONS = [
    ((2, 3, 7, 8), (4, 3, 3, 2), {}),
    ((2, 4, 7, 8), (6, 2, 3, 3), {"groups": 2, "padding": 1}),
    ((1, 4, 9, 9), (4, 1, 3, 3), {"groups": 4, "stride": 2}),
    ((2, 3, 9, 10), (2, 3, 3, 3), {"stride": (2, 3), "padding": (1, 2), "dilation": (2, 1)}),
    ((2, 3, 8, 8), (5, 3, 2, 2), {"stride": 2}),
    ((2, 3, 6, 6), (5, 3, 1, 1), {}),
    ((1, 1, 7, 7), (1, 1, 3, 3), {"stride": 3, "padding": 1}),
]


@pytest.mark.parametrize(("x", "w", "options"), CONVOLUTIONS, ids=str)
def test_convolution(x: tuple[int, ...], w: tuple[int, ...], options: dict[str, int]) -> None:
    same_function(
        lambda x, w, b: x.conv2d(w, b, **options),
        lambda x, w, b: F.conv2d(x, w, b, **options),
        normal(*x),
        normal(*w, seed=1),
        normal(w[0], seed=2),
    )


def test_convolution_over_one_and_three_axes() -> None:
    same_function(
        lambda x, w: x.conv2d(w, stride=2, padding=1),
        lambda x, w: F.conv1d(x, w, stride=2, padding=1),
        normal(2, 3, 10),
        normal(4, 3, 3, seed=1),
    )
    same_function(
        lambda x, w: x.conv2d(w, padding=1),
        lambda x, w: F.conv3d(x, w, padding=1),
        normal(1, 2, 4, 5, 3),
        normal(3, 2, 3, 2, 3, seed=1),
    )


def test_convolution_with_uneven_padding() -> None:
    x, w = normal(1, 1, 5, 5), normal(1, 1, 3, 3, seed=1)
    close(
        Tensor(x).conv2d(Tensor(w), padding=(1, 0, 2, 1)),
        F.conv2d(F.pad(torch.tensor(x), (1, 0, 2, 1)), torch.tensor(w)),
    )


POOLS = [
    {"kernel_size": 2},
    {"kernel_size": (3, 2)},
    {"kernel_size": 3, "stride": 2},
    {"kernel_size": 3, "stride": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
]


@pytest.mark.parametrize("options", POOLS, ids=str)
def test_pools(options: dict[str, int]) -> None:
    x = normal(2, 3, 7, 9)
    same_function(lambda t: t.max_pool2d(**options), lambda t: F.max_pool2d(t, **options), x)
    same_function(lambda t: t.avg_pool2d(**options), lambda t: F.avg_pool2d(t, **options), x)
    same_function(
        lambda t: t.avg_pool2d(**options, count_include_pad=False),
        lambda t: F.avg_pool2d(t, **options, count_include_pad=False),
        x,
    )


def test_dilated_pool() -> None:
    x = normal(1, 2, 9, 9)
    same_function(lambda t: t.max_pool2d(2, 1, 3), lambda t: F.max_pool2d(t, 2, 1, dilation=3), x)


def test_pool_over_one_axis_and_of_integers() -> None:
    assert Tensor([[1, 5, 2, 2]]).max_pool2d((2,)).tolist() == [[5, 2]]
    assert Tensor([[-3, -5]]).max_pool2d((2,), padding=(1,), stride=(2,)).tolist() == [[-3, -5]]


def test_pool_of_tiles_is_a_reshape() -> None:
    ops = {n.op for n in Tensor.empty(2, 3, 8, 8).max_pool2d(2).uop.toposort()}
    assert Ops.SHEAR not in ops
    assert Ops.EXPAND not in ops


def test_batchnorm() -> None:
    x, w, b = normal(4, 3, 5), normal(3, seed=1), normal(3, seed=2)

    def ours(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        var, mean = x.var_mean((0, 2), correction=0)
        return x.batchnorm(w, b, mean, (var + 1e-5).rsqrt())

    same_function(ours, lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), x, w, b)


def test_attention() -> None:
    q, k, v = normal(2, 3, 5, 4), normal(2, 3, 6, 4, seed=1), normal(2, 3, 6, 7, seed=2)
    sdpa = F.scaled_dot_product_attention
    same_function(lambda q, k, v: q.scaled_dot_product_attention(k, v), sdpa, q, k, v)
    causal = {"is_causal": True}
    same_function(
        lambda q, k, v: q.scaled_dot_product_attention(k, v, **causal),
        lambda q, k, v: sdpa(q, k, v, **causal),
        q,
        k,
        v,
    )
    mask = rng(5).random((5, 6)) < 0.7
    mask[:, 0] = True
    same_function(
        lambda q, k, v: q.scaled_dot_product_attention(k, v, Tensor(mask)),
        lambda q, k, v: sdpa(q, k, v, torch.tensor(mask)),
        q,
        k,
        v,
    )
    grouped = normal(2, 6, 5, 4)
    same_function(
        lambda q, k, v: q.scaled_dot_product_attention(k, v, enable_gqa=True),
        lambda q, k, v: sdpa(q, k, v, enable_gqa=True),
        grouped,
        k,
        v,
    )


def test_sequential() -> None:
    assert Tensor([1.0, -1.0]).sequential([Tensor.relu, lambda t: t + 1]).tolist() == [2.0, 1.0]
