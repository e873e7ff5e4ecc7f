"""Rows: softmax, layer norm, batch norm, losses."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_conformance import sample
from tiny_conformance.check import Check
from tiny_conformance.compare import Array, Tolerance
from tiny_conformance.table import FLOATS, dtypes_of, widened
from tiny_core import Tensor

NEAR = Tolerance(ulps=24, epsilons=4)
shapes = pytest.mark.parametrize(
    ("shape", "axis"), [((5, 7), -1), ((5, 7), 0), ((2, 3, 33), 1), ((3, 1000), -1), ((1, 1), 1)], ids=str
)


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


@shapes
@dtypes_of(FLOATS)
def test_softmax(
    dtype: str, shape: tuple[int, ...], axis: int, rng: np.random.Generator, check: Check
) -> None:
    x = sample.uniform(dtype, shape, rng, -6, 6)
    check(Tensor(x).softmax(axis), softmax(widened(x), axis), NEAR, dtype=dtype)


@shapes
@dtypes_of(FLOATS)
def test_log_softmax(
    dtype: str, shape: tuple[int, ...], axis: int, rng: np.random.Generator, check: Check
) -> None:
    x = sample.uniform(dtype, shape, rng, -6, 6)
    check(Tensor(x).log_softmax(axis), np.log(softmax(widened(x), axis)), NEAR, 4.0, dtype)


@shapes
@dtypes_of(FLOATS)
def test_layernorm(
    dtype: str, shape: tuple[int, ...], axis: int, rng: np.random.Generator, check: Check
) -> None:
    x = sample.uniform(dtype, shape, rng, -6, 6)
    wide = widened(x)
    centred = wide - wide.mean(axis, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(axis, keepdims=True) + 1e-5)
    check(Tensor(x).layernorm(axis), want, NEAR, 8.0, dtype)


@dtypes_of(("float32", "float64"))
def test_softmax_of_large_numbers(dtype: str, check: Check) -> None:
    x = np.array([[1000.0, 999.0, -1000.0], [-1e30, 0, 1], [3, -np.inf, 3]], dtype)
    check(Tensor(x).softmax(), softmax(widened(x), 1), Tolerance(ulps=8), dtype=dtype)


@dtypes_of(("float32",))
def test_batchnorm(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform(dtype, (4, 5, 6, 7), rng, -3, 3)
    weight, bias = (sample.uniform(dtype, (5,), rng, 0.5, 2) for _ in range(2))
    t = Tensor(x)
    mean = t.mean((0, 2, 3))
    invstd = (t.var((0, 2, 3), correction=0) + 1e-5).rsqrt()
    wide = widened(x)
    centred = wide - wide.mean((0, 2, 3), keepdims=True)
    want = centred / np.sqrt((centred**2).mean((0, 2, 3), keepdims=True) + 1e-5)
    want = want * widened(weight).reshape(1, 5, 1, 1) + widened(bias).reshape(1, 5, 1, 1)
    check(t.batchnorm(Tensor(weight), Tensor(bias), mean, invstd), want, NEAR, 8.0, dtype)


@dtypes_of(("float16", "float32", "float64"))
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(dtype: str, reduction: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform(dtype, (37, 10), rng, -6, 6)
    labels = rng.integers(0, 10, 37).astype(np.int32)
    loss = -np.log(softmax(widened(x), 1))[np.arange(37), labels]
    want = {"mean": loss.mean(), "sum": loss.sum(), "none": loss}[reduction]
    got = Tensor(x).cross_entropy(Tensor(labels), reduction=reduction)
    check(got, np.asarray(want), NEAR, 8.0, dtype)


@dtypes_of(("float32",))
def test_other_losses(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform(dtype, (37, 10), rng, -6, 6)
    labels = rng.integers(0, 10, 37).astype(np.int64)
    logs = np.log(softmax(widened(x), 1))
    picked = logs[np.arange(37), labels]
    t, y = Tensor(x), Tensor(labels)
    smooth = -(0.9 * picked + 0.1 * logs.mean(1)).mean()
    check(t.cross_entropy(y, label_smoothing=0.1), np.asarray(smooth), NEAR, 8.0, dtype)
    check(t.sparse_categorical_crossentropy(y), np.asarray(-picked.mean()), NEAR, 8.0, dtype)
    check(t.log_softmax(1).nll_loss(y), np.asarray(-picked.mean()), NEAR, 8.0, dtype)
    target = sample.uniform(dtype, (37, 10), rng, 0, 1)
    bce = np.logaddexp(0, widened(x)) - widened(x) * widened(target)
    check(t.binary_crossentropy_logits(Tensor(target)), np.asarray(bce.mean()), NEAR, 8.0, dtype)
    check(
        t.sigmoid().binary_crossentropy(Tensor(target)),
        np.asarray(bce.mean()),
        Tolerance(200, 16),
        8.0,
        dtype,
    )


@dtypes_of(("float32",))
@pytest.mark.parametrize("causal", [False, True])
def test_attention(dtype: str, causal: bool, rng: np.random.Generator, check: Check) -> None:
    q, k, v = (sample.uniform(dtype, (2, 3, 17, 8), rng, -2, 2) for _ in range(3))
    scores = widened(q) @ widened(k).swapaxes(2, 3) / np.sqrt(8)
    if causal:
        scores = np.where(np.tril(np.ones((17, 17), bool)), scores, -np.inf)
    want = softmax(scores, 3) @ widened(v)
    got = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v), is_causal=causal)
    check(got, want, NEAR, 8.0, dtype)
