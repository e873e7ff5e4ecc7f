"""The graphs that contractions have, forward and backward: what the scheduler recognises."""

from __future__ import annotations

import pytest

from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor.tensor import Tensor

pytestmark = pytest.mark.usefixtures("oracle")


def reduces(t: Tensor) -> list[UOp]:
    return [n for n in t.uop.toposort() if n.op is Ops.REDUCE]


def ops_between(node: UOp, stop: Ops) -> list[Ops]:
    """The ops from a node's first source down to the first `stop`, both included."""
    found = []
    while True:
        node = node.src[0]
        found.append(node.op)
        if node.op is stop:
            return found


X, W = (2, 3, 9, 9), (4, 3, 3, 3)


def test_convolution_is_one_product_and_one_sum() -> None:
    (total,) = reduces(Tensor.empty(*X).conv2d(Tensor.empty(*W), padding=1))
    assert total.payload(p.Reduce) == p.Reduce(Ops.ADD, (2, 5, 6))
    assert total.src[0].op is Ops.MUL
    assert total.src[0].shape == (2, 4, 3, 9, 9, 3, 3)


def test_data_gradient_of_convolution_is_one_sum_over_channels_and_window() -> None:
    x, w, seed = Tensor.empty(*X), Tensor.empty(*W), Tensor.empty(2, 4, 4, 4)
    (grad,) = x.conv2d(w, stride=2).gradient(x, gradient=seed)
    (total,) = reduces(grad)
    assert total.payload(p.Reduce) == p.Reduce(Ops.ADD, (1, 5, 6))
    assert total.src[0].shape == (2, 4, 3, 9, 9, 3, 3)
    assert ops_between(total, Ops.MUL) == [Ops.UNSHEAR, Ops.UNSHEAR, Ops.MUL]
    assert grad.uop.op is Ops.REDUCE


def test_weight_gradient_of_convolution_is_one_sum_over_batch_and_positions() -> None:
    x, w, seed = Tensor.empty(*X), Tensor.empty(*W), Tensor.empty(2, 4, 4, 4)
    (grad,) = x.conv2d(w, stride=2).gradient(w, gradient=seed)
    (total,) = reduces(grad)
    assert total.payload(p.Reduce) == p.Reduce(Ops.ADD, (0, 3, 4))
    assert total.src[0].op is Ops.MUL
    assert grad.uop.op is Ops.REDUCE


def test_gradients_of_a_product_of_matrices_are_products() -> None:
    a, b, seed = Tensor.empty(5, 6), Tensor.empty(6, 7), Tensor.empty(5, 7)
    for grad, axis in zip((a @ b).gradient(a, b, gradient=seed), (1, 0), strict=True):
        (total,) = reduces(grad)
        assert total.payload(p.Reduce) == p.Reduce(Ops.ADD, (axis,))
        assert total.src[0].op is Ops.MUL
        assert total.src[0].shape == (5, 7, 6)


def test_gradient_of_cross_entropy_has_no_gather_and_no_sum_of_its_own_size() -> None:
    x = Tensor.empty(8, 10)
    (grad,) = x.cross_entropy(Tensor([1] * 8)).gradient(x)
    ops = {n.op for n in grad.uop.toposort()}
    assert Ops.GATHER not in ops
    assert max(n.size for n in grad.uop.toposort()) == 80
