"""Functions of tensors that have no file of their own: a row each. A new function needs a row and no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tiny_conformance import sample
from tiny_conformance.check import Check
from tiny_conformance.compare import EXACT, Array, Tolerance, is_float
from tiny_conformance.suite.ops.test_gradient import Function, agrees_with_differences
from tiny_conformance.suite.ops.test_softmax import softmax
from tiny_conformance.table import FLOATS, INTS, narrowed, widened
from tiny_conformance.target import Target
from tiny_core import Tensor

Shape = tuple[int, ...]
FEW = ("int32", "float32")
SOME = ("int32", "int64", "float16", "float32", "float64")
WIDE = ("float32", "float64")
ORDERED = (*INTS, *FLOATS)


@dataclass(frozen=True, slots=True)
class Row:
    """A function.

    Args:
        ours: it, on tensors.
        numpy: it, on arrays: of the dtype itself where results are exact or integers, else of a wider one.
        shapes: of the operands.
        dtypes: of the operands.
        tolerance: of float results.
        domain: between what operands are drawn.
        scale: what the tolerance's epsilons are relative to, from the operands; None for 1.
        result: dtype of the result; "" for that of the operands.
        smooth: whether it is differentiable there, so that its gradient is checked too.
        reads: whether the length of its result depends on data.
    """

    ours: Callable[..., Tensor]
    numpy: Callable[..., Any]
    shapes: tuple[Shape, ...] = ((5, 12),)
    dtypes: tuple[str, ...] = FEW
    tolerance: Tolerance = EXACT
    domain: tuple[float, float] = (-9, 9)
    scale: Callable[..., Any] | None = None
    result: str = ""
    smooth: bool = False
    reads: bool = False


NEAR, LOOSE = Tolerance(4, 4), Tolerance(16, 16)
INDEX = np.array([[3, 0, 7], [1, 2, 11], [5, 4, 6], [0, 9, 8], [10, 2, 1]], np.int32)
EDGES = np.linspace(-8, 8, 9)


def scattered(x: Array, y: Array) -> Array:
    out = x.copy()
    np.put_along_axis(out, INDEX, y, 1)
    return out


def gathered_sums(x: Array, y: Array) -> Array:
    out = x.copy()
    rows = np.broadcast_to(np.arange(5)[:, None], INDEX.shape)
    np.add.at(out, (rows, INDEX), y)
    return out


def transposed_convolution(x: Array, w: Array) -> Array:
    """Stride 2: each input spreads a scaled kernel."""
    n, _, height, width = x.shape
    _, channels, kh, kw = w.shape
    out = np.zeros((n, channels, 2 * height - 2 + kh, 2 * width - 2 + kw), x.dtype)
    for u in range(kh):
        for v in range(kw):
            part = np.einsum("nihw,io->nohw", x, w[:, :, u, v])
            out[:, :, u : u + 2 * height : 2, v : v + 2 * width : 2] += part
    return out


ROWS: dict[str, Row] = {
    # running
    "cumsum": Row(
        lambda t: t.cumsum(1), lambda x: np.cumsum(x, 1), ((4, 33),), (*FEW, "float64"), Tolerance(1, 12),
        scale=lambda x: np.cumsum(np.abs(x), 1), smooth=True,
    ),
    "cumprod": Row(
        lambda t: t.cumprod(1), lambda x: np.cumprod(x, 1), ((4, 17),), WIDE, Tolerance(24), (0.7, 1.4),
        smooth=True,
    ),
    "cummax": Row(lambda t: t.cummax(1)[0], lambda x: np.maximum.accumulate(x, 1), ((4, 33),), SOME),
    "cummin": Row(lambda t: t.cummin(1)[0], lambda x: np.minimum.accumulate(x, 1), ((4, 33),), SOME),
    "logcumsumexp": Row(
        lambda t: t.logcumsumexp(1), lambda x: np.logaddexp.accumulate(x, 1), ((4, 17),), WIDE, LOOSE,
        scale=lambda x: np.abs(x).max() + 3,
    ),
    # order
    "sort": Row(lambda t: t.sort(1)[0], lambda x: np.sort(x, 1), ((3, 29),), ORDERED),
    "sort, descending": Row(
        lambda t: t.sort(1, descending=True)[0], lambda x: np.sort(x, 1)[:, ::-1], ((3, 29),), SOME
    ),
    "argsort": Row(
        lambda t: t.argsort(1), lambda x: np.argsort(x, 1, kind="stable"), ((3, 29),), SOME, result="int32"
    ),
    "topk": Row(lambda t: t.topk(5, 1)[0], lambda x: np.sort(x, 1)[:, :-6:-1], ((3, 29),), SOME),
    "searchsorted": Row(
        lambda t: Tensor(EDGES.astype(np.float32)).searchsorted(t),
        lambda x: np.searchsorted(EDGES.astype(np.float32), x), dtypes=("float32",), result="int32",
    ),
    # places
    "scatter": Row(lambda x, y: x.scatter(1, Tensor(INDEX), y), scattered, ((5, 12), (5, 3)), SOME),
    "scatter_reduce": Row(
        lambda x, y: x.scatter_reduce(1, Tensor(INDEX), y, "sum"), gathered_sums, ((5, 12), (5, 3)), FEW,
        NEAR,
        scale=lambda x, y: 30.0,
    ),
    "nonzero": Row(lambda t: (t > 0).nonzero(), lambda x: np.argwhere(x > 0), result="int32", reads=True),
    "masked_select": Row(lambda t: t.masked_select(t > 0), lambda x: x[x > 0], dtypes=SOME, reads=True),
    "diag": Row(lambda t: t.diag(), np.diag, ((6,),), SOME),
    "diagonal": Row(lambda t: t.diagonal(), np.diagonal, ((5, 7),), SOME),
    "rearrange": Row(
        lambda t: t.rearrange("a (b c) -> (c a) b", b=3),
        lambda x: x.reshape(5, 3, 4).transpose(2, 0, 1).reshape(20, 3), smooth=True,
    ),
    "pad_to": Row(lambda t: t.pad_to(8, 12), lambda x: np.pad(x, ((0, 3), (0, 0))), smooth=True),
    "shrink_to": Row(lambda t: t.shrink_to(2, 9), lambda x: x[:2, :9], smooth=True),
    "meshgrid": Row(
        lambda x, y: x.meshgrid(y)[1], lambda x, y: np.meshgrid(x, y, indexing="ij")[1], ((3,), (4,))
    ),
    "interpolate": Row(
        lambda t: t.interpolate((6, 3), mode="nearest"),
        lambda x: x[:, :, np.arange(6) * 4 // 6][..., np.arange(3) * 5 // 3], ((2, 3, 4, 5),), FEW,
    ),
    # products
    "dot": Row(lambda x, y: x.dot(y), np.dot, ((7,), (7,)), FEW, NEAR, scale=lambda x, y: 300.0, smooth=True),
    "matmul": Row(
        lambda x, y: x.matmul(y), np.matmul, ((4, 7), (7, 3)), FEW, NEAR, scale=lambda x, y: 300.0
    ),
    "outer": Row(lambda x, y: x.outer(y), np.outer, ((5,), (4,)), FEW, smooth=True),
    "kron": Row(lambda x, y: x.kron(y), np.kron, ((2, 3), (3, 2)), FEW, smooth=True),
    "cross": Row(
        lambda x, y: x.cross(y), np.cross, ((4, 3), (4, 3)), FEW, NEAR, scale=lambda x, y: 200.0, smooth=True
    ),
    "conv_transpose2d": Row(
        lambda x, w: x.conv_transpose2d(w, stride=2), transposed_convolution, ((2, 3, 4, 5), (3, 2, 3, 3)),
        FEW, NEAR, (-2, 2), lambda x, w: 60.0, smooth=True,
    ),
    # arithmetic
    "expm1": Row(lambda t: t.expm1(), np.expm1, dtypes=FLOATS, tolerance=LOOSE, domain=(-4, 4), smooth=True),
    "log1p": Row(
        lambda t: t.log1p(), np.log1p, dtypes=FLOATS, tolerance=LOOSE, domain=(-0.9, 9), smooth=True
    ),
    "normalize": Row(
        lambda t: t.normalize(), lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)), dtypes=WIDE,
        tolerance=LOOSE, smooth=True,
    ),
    "softmin": Row(
        lambda t: t.softmin(1), lambda x: softmax(-x, 1), dtypes=WIDE, tolerance=Tolerance(24, 4),
        domain=(-5, 5), smooth=True,
    ),
    "std_mean": Row(
        lambda t: t.std_mean(1)[0], lambda x: np.std(x, 1, ddof=1), dtypes=WIDE, tolerance=LOOSE, smooth=True
    ),
    "isclose": Row(
        lambda t: t.isclose(t + 0.00001, atol=1e-3), lambda x: np.ones(x.shape, bool), dtypes=WIDE,
        result="bool",
    ),
    # other names of what the tables of operations test
    "sub": Row(lambda x, y: x.sub(y), np.subtract, ((4, 5), (5,)), SOME),
    "mul": Row(lambda x, y: x.mul(y), np.multiply, ((4, 5), (5,)), SOME),
    "neg": Row(lambda t: t.neg(), np.negative, dtypes=SOME),
    "eq": Row(lambda x, y: x.eq(y), np.equal, ((4, 5), (5,)), SOME, result="bool"),
    "ne": Row(lambda x, y: x.ne(y), np.not_equal, ((4, 5), (5,)), SOME, result="bool"),
    "lshift": Row(lambda t: t.lshift(2), lambda x: x << 2, dtypes=INTS),
    "rshift": Row(lambda t: t.rshift(2), lambda x: x >> 2, dtypes=INTS),
    "bitwise_not": Row(lambda t: t.bitwise_not(), np.invert, dtypes=INTS),
    "swish": Row(
        lambda t: t.swish(), lambda x: x / (1 + np.exp(-x)), dtypes=FLOATS, tolerance=LOOSE, smooth=True
    ),
}  # fmt: skip
CASES = [(name, dtype) for name, r in ROWS.items() for dtype in r.dtypes]
SMOOTH = [name for name, r in ROWS.items() if r.smooth]


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=[f"{n}-{d}" for n, d in CASES])
def test_function(op: str, dtype: str, target: Target, rng: np.random.Generator, check: Check) -> None:
    r = ROWS[op]
    if r.reads and not target.stores:
        pytest.skip("the result depends on data")
    xs = [sample.uniform(dtype, s, rng, *r.domain) for s in r.shapes]
    rounded = is_float(dtype) and r.tolerance != EXACT
    wide = [widened(x) if rounded else x for x in xs]
    want = np.asarray(r.numpy(*wide))
    if not rounded:
        want = want.astype(r.result) if r.result else narrowed(want, dtype)
    scale = 1.0 if r.scale is None else r.scale(*(widened(x) for x in xs))
    tolerance = r.tolerance if rounded else EXACT
    check(r.ours(*(Tensor(x) for x in xs)), want, tolerance, scale, r.result or dtype)


@pytest.mark.gradient
@pytest.mark.parametrize("op", SMOOTH)
@pytest.mark.parametrize("dtype", WIDE)
def test_gradient(op: str, dtype: str, target: Target, rng: np.random.Generator) -> None:
    r = ROWS[op]
    low, high = max(r.domain[0], -2.0), min(r.domain[1], 2.0)
    agrees_with_differences(Function(r.ours, r.numpy, r.shapes, low, high), dtype, target, rng)
