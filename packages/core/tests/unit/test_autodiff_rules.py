"""Differentiation: rules that Tensor methods do not reach alone, second derivatives, and what stops a
gradient."""

# mypy: disable-error-code="no-any-return"
# Stubs of numpy and PyTorch, and mistakes made on purpose, are not for the type checker to judge here.
from __future__ import annotations

import numpy as np
import pytest
import torch

from tiny_core import dtypes
from tiny_core.autodiff.gradient import differentiate
from tiny_core.autodiff.rules import RULES
from tiny_core.errors import GradientError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import ELEMENTWISE, MOVEMENT, Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor import graph as g
from tiny_core.tensor.tensor import Tensor

from ..oracle import evaluate
from .tensor_checks import close, rng

pytestmark = pytest.mark.usefixtures("oracle")


def numerically(function: UOp, at: UOp, value: np.ndarray, seed: np.ndarray, h: float = 1e-6) -> np.ndarray:
    """The derivative of sum(seed * function) by central differences."""
    out = np.zeros_like(value)
    for i in range(value.size):
        ends = []
        for step in (h, -h):
            moved = value.copy()
            moved[i] += step
            ends.append((seed * evaluate(function, {at: moved})).sum())
        out[i] = (ends[0] - ends[1]) / (2 * h)
    return out


def check(build: object, size: int, positive: bool = True) -> None:
    """Assert that a function of a buffer of float64 has the derivative that differences have."""
    assert callable(build)
    x = UOp.buffer(dtypes.float64, size, "CPU")
    value = rng().uniform(0.3, 2.0, size) if positive else rng().standard_normal(size)
    function = build(x)
    seed = rng(1).standard_normal(function.shape)
    seed_node = UOp.buffer(dtypes.float64, max(1, seed.size), "CPU")
    (found,) = differentiate(function, [x], g.reshape(seed_node, function.shape))
    assert found.node is not None
    have = evaluate(found.node, {x: value, seed_node: seed.reshape(-1)})
    np.testing.assert_allclose(have, numerically(function, x, value, seed), rtol=1e-5, atol=1e-7)


SHEARS = [(7, 3, 1, 1), (9, 2, 3, 2), (8, 1, 2, 0), (6, 2, 2, 1), (5, 3, 1, 2)]


@pytest.mark.parametrize(("n", "k", "stride", "dilation"), SHEARS)
@pytest.mark.parametrize("reversed_axes", [False, True])
def test_shear(n: int, k: int, stride: int, dilation: int, reversed_axes: bool) -> None:
    count = (n - 1 - (k - 1) * dilation) // stride + 1

    def build(x: UOp) -> UOp:
        if reversed_axes:
            wide = g.expand(g.reshape(x, (1, n)), (k, n))
            return g.shear(wide, 1, 0, stride, dilation, count)
        return g.shear(g.expand(g.reshape(x, (n, 1)), (n, k)), 0, 1, stride, dilation, count)

    check(build, n)
    check(lambda x: g.shear(x, 0, None, stride, 0, (n - 1) // stride + 1), n)


@pytest.mark.parametrize(("n", "k", "stride", "dilation"), SHEARS)
def test_unshear(n: int, k: int, stride: int, dilation: int) -> None:
    count = (n - 1 - (k - 1) * dilation) // stride + 1
    arg = p.Shear(0, 1, stride, dilation, n)
    check(lambda x: UOp(Ops.UNSHEAR, x.dtype, (g.reshape(x, (count, k)),), arg), count * k)


def test_fused_multiply_add() -> None:
    def build(x: UOp) -> UOp:
        a, b, c = (g.shrink(x, ((i, i + 4),)) for i in (0, 4, 8))
        return UOp(Ops.MULACC, x.dtype, (a, b, c))

    check(build, 12)


@pytest.mark.parametrize("op", [Ops.NEG, Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN])
def test_unary(op: Ops) -> None:
    check(lambda x: g.alu(op, x), 5)


def test_every_float_op_has_a_rule() -> None:
    of_integers = {
        Ops.NOT,
        Ops.IDIV,
        Ops.IMOD,
        Ops.FLOORDIV,
        Ops.FLOORMOD,
        Ops.AND,
        Ops.OR,
        Ops.XOR,
        Ops.SHL,
        Ops.SHR,
    }
    to_bool = {Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE}
    assert (ELEMENTWISE | MOVEMENT) - of_integers - to_bool - {Ops.THREEFRY} <= set(RULES)


def test_gather_of_several_axes_with_repeated_indices() -> None:
    i, j = (UOp.buffer(dtypes.int32, 6, "CPU") for _ in range(2))
    values = {i: np.array([0, 1, 1, 2, 9, 0], np.int32), j: np.array([3, 0, 0, 2, 1, 3], np.int32)}
    x = UOp.buffer(dtypes.float64, 24, "CPU")
    out = g.gather(g.reshape(x, (3, 4, 2)), [g.reshape(i, (2, 3)), g.reshape(j, (2, 3))])
    (found,) = differentiate(out, [x], g.const(1, dtypes.float64, out.shape))
    assert found.node is not None
    want = np.zeros((3, 4, 2))
    for a, b in zip(values[i], values[j], strict=True):
        if a < 3:
            want[a, b] += 1
    np.testing.assert_array_equal(evaluate(found.node, {**values, x: np.zeros(24)}).reshape(3, 4, 2), want)


# ---- derivatives of derivatives ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "exp",
        "log",
        "sin",
        "sqrt",
        "sigmoid",
        "tanh",
        "softplus",
        "reciprocal",
        "gelu",
        "softmax",
        "logsumexp",
    ],
)
def test_second_derivative(name: str) -> None:
    a, b = rng(2).uniform(0.5, 2, (2, 4)), rng(3).standard_normal((2, 4))
    x, t = Tensor(a), torch.tensor(a, requires_grad=True)

    def theirs(v: torch.Tensor) -> torch.Tensor:
        match name:
            case "softplus" | "gelu":
                f = getattr(torch.nn.functional, name)
                return f(v, approximate="tanh") if name == "gelu" else f(v)
            case "softmax" | "logsumexp":
                return getattr(torch, name)(v, -1)
        return getattr(torch, name)(v)

    y, w = getattr(x, name)(*((1,) if name == "logsumexp" else ())), theirs(t)
    (first,) = (y * y).sum().gradient(x)
    (want,) = torch.autograd.grad((w * w).sum(), t, create_graph=True)
    (second,) = (first * Tensor(b)).sum().gradient(x)
    (also,) = torch.autograd.grad((want * torch.tensor(b)).sum(), t)
    close(second, also, rtol=1e-7)


def test_second_derivative_of_convolution_and_pool() -> None:
    a, b = rng(1).standard_normal((1, 2, 6, 6)), rng(2).standard_normal((3, 2, 3, 3))
    x, w = Tensor(a), Tensor(b)
    t, u = torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)
    y = x.conv2d(w, padding=1).max_pool2d(3, 1).square().sum()
    v = torch.nn.functional.max_pool2d(torch.conv2d(t, u, padding=1), 3, 1).square().sum()
    (dw,) = y.gradient(w)
    (du,) = torch.autograd.grad(v, u, create_graph=True)
    close((dw * dw).sum().gradient(x)[0], torch.autograd.grad((du * du).sum(), t)[0], rtol=1e-7)


# ---- what stops, what flows -------------------------------------------------------------------------------


def test_detach_and_integers_stop() -> None:
    x = Tensor([2.0, 3.0])
    assert (x * x.detach()).sum().gradient(x)[0].tolist() == [2.0, 3.0]
    assert (x + x.cast(dtypes.int32).cast(dtypes.float32)).sum().gradient(x)[0].tolist() == [1.0, 1.0]
    assert ((x > 2.5).where(x, 0.0) + x.trunc()).sum().gradient(x)[0].tolist() == [0.0, 1.0]
    with pytest.raises(GradientError):
        x.detach().sum().gradient(x)


def test_several_targets_at_once() -> None:
    x, y = Tensor([2.0]), Tensor([5.0])
    h = x * y
    dx, dh, dy = (h * h + y).sum().gradient(x, h, y)
    assert (dx.item(), dh.item(), dy.item()) == (2 * 10 * 5, 20, 2 * 10 * 2 + 1)


def test_gradient_of_a_view_target() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    row = x[1]
    assert (row * row).sum().gradient(row)[0].tolist() == [6.0, 8.0]
    assert (row * row).sum().gradient(x)[0].tolist() == [[0.0, 0.0], [6.0, 8.0]]


def test_gradient_keeps_the_dtype_of_the_target() -> None:
    x = Tensor([1.0, 2.0], dtype=dtypes.float16)
    w = Tensor([3.0, 4.0])
    dx, dw = (x * w).sum().gradient(x, w)
    assert (dx.dtype, dw.dtype) == (dtypes.float16, dtypes.float32)
    assert dx.tolist() == [3.0, 4.0]


def test_gradient_across_devices() -> None:
    x = Tensor([1.0, 2.0])
    (grad,) = (x.to("CPU:1") * 3).sum().gradient(x)
    assert grad.device == "CPU"
    assert grad.tolist() == [3.0, 3.0]


def test_only_what_leads_to_a_target_is_differentiated() -> None:
    x, unused = Tensor.empty(4), Tensor.empty(4)
    grad = ((x * 2) + unused.exp().sin()).sum().gradient(x)[0]
    assert Ops.SIN not in {n.op for n in grad.uop.toposort()}
