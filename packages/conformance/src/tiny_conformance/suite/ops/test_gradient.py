"""Derivatives, against differences of what numpy computes in double precision.

For a function f of arrays and a fixed weight u, L = sum(u * f(x…)). The directional derivative of L along
random v… is (L(x + hv) - L(x - hv)) / 2h by numpy, and sum(gradient * v) by ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from tiny_conformance import sample
from tiny_conformance.compare import Array
from tiny_conformance.suite.ops import test_conv, test_softmax, test_unary
from tiny_conformance.table import Op
from tiny_conformance.target import Target
from tiny_core import Tensor

pytestmark = pytest.mark.gradient
STEP = 1e-5


@dataclass(frozen=True, slots=True)
class Function:
    """A differentiable function of arrays of these shapes, drawn between `low` and `high`."""

    ours: Callable[..., Tensor]
    numpy: Callable[..., Array]
    shapes: tuple[tuple[int, ...], ...]
    low: float = -2.0
    high: float = 2.0


def unary(op: Op) -> Function:
    low, high = op.domain or (0.3, 3.0)
    return Function(op.ours, op.numpy, ((4, 5),), max(low, -4.0), min(high, 4.0))


CONV = test_conv.Case((2, 4, 7, 7), (6, 2, 3, 3), stride=2, dilation=1, padding=1, groups=2)
INDEX = np.array([2, 0, 2, 3], np.int32)
KINKED = ("erf",)  # its series is too coarse to be differentiated
SMOOTH = ("neg", "sqrt", "reciprocal", "square", "abs")


def loss(x: Array) -> Array:
    """Cross-entropy with the classes INDEX."""
    return np.asarray(-np.log(test_softmax.softmax(x, 1))[np.arange(4), INDEX].mean())


def normal(x: Array) -> Array:
    """Layer norm of rows."""
    return np.asarray((x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5))


def biased(x: Array, w: Array, b: Array) -> Array:
    """A convolution with bias."""
    return test_conv.convolve(x, w, test_conv.Case(x.shape, w.shape)) + b.reshape(1, -1, 1, 1)


def pooled(x: Array, size: int) -> Array:
    """Windows of a size, two apart."""
    return test_conv.windows(x, (size, size), (2, 2), (1, 1))


def joined(x: Array, y: Array) -> Array:
    return np.stack([np.concatenate([x, y], 1), np.concatenate([x, x], 1)]) ** 2


def attention(q: Array, k: Array, v: Array) -> Array:
    return np.asarray(test_softmax.softmax(q @ k.T / np.sqrt(4), 1) @ v)


# near no kink: relu, maximum and pools change slope where arguments meet
FUNCTIONS: dict[str, Function] = {
    **{op.name: unary(op) for op in (*test_unary.ELEMENTARY, *test_unary.COMPOSED) if op.name not in KINKED},
    **{op.name: unary(op) for op in test_unary.ROUNDED if op.name in SMOOTH and "float32" in op.dtypes},
    "relu": Function(lambda x: (x * x - 1).relu(), lambda x: np.maximum(x * x - 1, 0), ((4, 5),)),
    "add, broadcast": Function(lambda x, y: x + y, lambda x, y: x + y, ((4, 5), (5,))),
    "sub": Function(lambda x, y: x - y, lambda x, y: x - y, ((4, 1), (4, 5))),
    "mul, broadcast": Function(lambda x, y: x * y, lambda x, y: x * y, ((3, 4, 5), (4, 1))),
    "div": Function(lambda x, y: x / y, lambda x, y: x / y, ((4, 5), (4, 5)), 0.5, 3),
    "pow": Function(lambda x, y: x**y, lambda x, y: x**y, ((4, 5), (4, 5)), 0.5, 3),
    "pow of a number": Function(
        lambda x: x**3 + x**-1 + x**0.5, lambda x: x**3 + x**-1 + x**0.5, ((4, 5),), 0.5, 3
    ),
    "maximum": Function(lambda x, y: x.maximum(y), np.maximum, ((4, 5), (4, 5))),
    "where": Function(
        lambda x, y: (x > 0.5).where(x * y, y), lambda x, y: np.where(x > 0.5, x * y, y), ((4, 5), (4, 5))
    ),
    "sum": Function(lambda x: x.sum(1) * x.sum(), lambda x: x.sum(1) * x.sum(), ((4, 5),)),
    "mean": Function(lambda x: x.mean((0, 2)), lambda x: x.mean((0, 2)), ((3, 4, 5),)),
    "max": Function(lambda x: x.max(1), lambda x: x.max(1), ((4, 9),)),
    "min": Function(lambda x: x.min(), lambda x: x.min(), ((4, 9),)),
    "prod": Function(lambda x: x.prod(1), lambda x: x.prod(1), ((4, 5),), 0.5, 2),
    "var": Function(lambda x: x.var(1), lambda x: x.var(1, ddof=1), ((4, 9),)),
    "std": Function(lambda x: x.std(0), lambda x: x.std(0, ddof=1), ((4, 9),)),
    "logsumexp": Function(lambda x: x.logsumexp(1), lambda x: np.log(np.exp(x).sum(1)), ((4, 9),)),
    "softmax": Function(lambda x: x.softmax(1), lambda x: test_softmax.softmax(x, 1), ((4, 9),)),
    "log_softmax": Function(
        lambda x: x.log_softmax(0), lambda x: np.log(test_softmax.softmax(x, 0)), ((4, 9),)
    ),
    "layernorm": Function(lambda x: x.layernorm(), normal, ((4, 9),)),
    "cross_entropy": Function(lambda x: x.cross_entropy(Tensor(INDEX)), loss, ((4, 9),)),
    "matmul": Function(lambda x, y: x @ y, lambda x, y: x @ y, ((6, 7), (7, 5))),
    "matmul, batched": Function(lambda x, y: x @ y, lambda x, y: x @ y, ((2, 3, 4), (4, 5))),
    "linear": Function(lambda x, w, b: x.linear(w, b), lambda x, w, b: x @ w + b, ((6, 7), (7, 5), (5,))),
    "conv2d": Function(
        lambda x, w: x.conv2d(w, None, 2, 2, 1, 1),
        lambda x, w: test_conv.convolve(x, w, CONV),
        (CONV.x, CONV.w),
    ),
    "conv2d with bias": Function(lambda x, w, b: x.conv2d(w, b), biased, ((2, 3, 6, 6), (4, 3, 3, 3), (4,))),
    "max_pool2d": Function(
        lambda x: x.max_pool2d((2, 2)), lambda x: pooled(x, 2).max((-1, -2)), ((2, 3, 6, 6),)
    ),
    "avg_pool2d": Function(
        lambda x: x.avg_pool2d((3, 3), stride=2), lambda x: pooled(x, 3).mean((-1, -2)), ((2, 3, 7, 7),)
    ),
    "reshape, permute": Function(
        lambda x: x.permute(2, 0, 1).reshape(10, 6) ** 2,
        lambda x: x.transpose(2, 0, 1).reshape(10, 6) ** 2,
        ((3, 4, 5),),
    ),
    "pad, flip, slice": Function(
        lambda x: x.pad(((1, 2), (0, 1))).flip(1)[1:, ::2] ** 2,
        lambda x: np.pad(x, ((1, 2), (0, 1)))[:, ::-1][1:, ::2] ** 2,
        ((4, 5),),
    ),
    "expand": Function(
        lambda x: x.reshape(4, 1, 5).expand(4, 3, 5) ** 2,
        lambda x: np.broadcast_to(x.reshape(4, 1, 5), (4, 3, 5)) ** 2,
        ((4, 5),),
    ),
    "cat, stack": Function(
        lambda x, y: x.cat(y, dim=1).stack(x.cat(x, dim=1)) ** 2, joined, ((4, 5), (4, 5))
    ),
    "rows": Function(lambda x: x[Tensor(INDEX)] ** 2, lambda x: x[INDEX] ** 2, ((4, 5),)),
    "unfold": Function(
        lambda x: x.unfold(1, 3, 2) ** 2,
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, 1)[:, ::2] ** 2,
        ((4, 9),),
    ),
    "attention": Function(
        lambda q, k, v: q.scaled_dot_product_attention(k, v), attention, ((5, 4), (6, 4), (6, 3))
    ),
}


@pytest.mark.parametrize("op", list(FUNCTIONS))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradient(op: str, dtype: str, target: Target, rng: np.random.Generator) -> None:
    agrees_with_differences(FUNCTIONS[op], dtype, target, rng)


def agrees_with_differences(f: Function, dtype: str, target: Target, rng: np.random.Generator) -> None:
    """Check the gradient of a function at random arguments, along each operand and along all of them."""
    xs = [sample.uniform("float64", s, rng, f.low, f.high) for s in f.shapes]
    tensors = [Tensor(x.astype(dtype)) for x in xs]
    y = f.ours(*tensors)
    u = rng.uniform(0.5, 1.5, y.shape)
    gradients = (y * Tensor(u.astype(dtype))).sum().gradient(*tensors)
    if not target.stores:
        Tensor.realize(*gradients)
        return
    found = [g.numpy().astype(np.float64) for g in gradients]

    def at(h: float) -> float:
        return float((u * f.numpy(*(x + h * v for x, v in zip(xs, vs, strict=True)))).sum())

    for which in range(len(xs) + 1):  # each operand alone, then all of them
        vs = [rng.uniform(-1, 1, x.shape) * (which in (i, len(xs))) for i, x in enumerate(xs)]
        want = (at(STEP) - at(-STEP)) / (2 * STEP)
        got = float(sum((g * v).sum() for g, v in zip(found, vs, strict=True)))
        size = float(sum((np.abs(g) * np.abs(v)).sum() for g, v in zip(found, vs, strict=True)))
        allowed = (1e-6 if dtype == "float64" else 1e-3) * (size + abs(want)) + 1e-8
        assert abs(got - want) <= allowed, f"along {which}: {got}, by differences {want}"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_gradient_has_the_dtype_of_its_target(dtype: str, target: Target) -> None:
    x = Tensor(np.array([1.0, 2.0], np.float32)).cast(dtype).realize()
    (g,) = (x * x).sum().gradient(x)
    assert g.dtype.name == dtype
    if target.stores:
        assert g.float().tolist() == [2.0, 4.0]


def test_gradient_of_a_gradient(target: Target) -> None:
    x = Tensor(np.array([1.0, 2.0], np.float32))
    (g,) = (x * x * x).sum().gradient(x)
    (h,) = g.sum().gradient(x)
    assert h.shape == (2,)
    if target.stores:
        assert h.tolist() == [6.0, 12.0]


def test_slope_at_a_kink(target: Target) -> None:
    x = Tensor(np.array([-1.0, 0.0, 2.0], np.float32))
    (g,) = x.relu().sum().gradient(x)
    (m,) = x.maximum(Tensor(np.array([-1.0, 1.0, 1.0], np.float32))).sum().gradient(x)
    g.realize(m)
    if target.stores:
        assert g.tolist() == [0.0, 0.0, 1.0]
        assert m.tolist() == [0.5, 0.0, 1.0]


def test_masked_infinity_gives_no_nan(target: Target) -> None:
    x = Tensor(np.array([0.0, 4.0], np.float32))
    safe = (x == 0).where(1.0, x)
    (g,) = (x == 0).where(0.0, safe.log()).sum().gradient(x)
    g.realize()
    if target.stores:
        assert g.tolist() == [0.0, 0.25]
