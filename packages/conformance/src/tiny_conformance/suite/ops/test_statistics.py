"""Means, variances, and the logarithm of a sum of exponentials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tiny_conformance import sample
from tiny_conformance.check import Check
from tiny_conformance.compare import Array, Tolerance
from tiny_conformance.table import FLOATS, Op, cases, dtypes_of, widened
from tiny_core import Tensor

Pair = tuple[Callable[[Tensor, int | None], Tensor], Callable[[Array, int | None], Any]]


def logsumexp(x: Array, axis: int | None) -> Array:
    top = np.max(x, axis=axis, keepdims=True)
    return np.asarray(np.log(np.sum(np.exp(x - top), axis=axis)) + np.max(x, axis=axis))


STATISTICS: dict[str, Pair] = {
    "mean": (lambda t, a: t.mean(a), lambda x, a: np.mean(x, axis=a)),
    "var": (lambda t, a: t.var(a), lambda x, a: np.var(x, axis=a, ddof=1)),
    "var of the population": (lambda t, a: t.var(a, correction=0), lambda x, a: np.var(x, axis=a)),
    "std": (lambda t, a: t.std(a), lambda x, a: np.std(x, axis=a, ddof=1)),
    "logsumexp": (lambda t, a: t.logsumexp(a), logsumexp),
}


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("name", list(STATISTICS))
@dtypes_of(FLOATS)
def test_statistics(dtype: str, name: str, axis: int | None, rng: np.random.Generator, check: Check) -> None:
    ours, numpys = STATISTICS[name]
    x = sample.uniform(dtype, (19, 45), rng, -3, 3)
    check(ours(Tensor(x), axis), np.asarray(numpys(widened(x), axis)), Tolerance(8, 24), 1.0, dtype)


@cases([Op("mean", lambda x: x.mean(), lambda x: x.mean(), ("bool", "int8", "uint8", "int32"))])
def test_mean_of_integers(op: Op, dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform(dtype, (13, 7), rng, 0, 100)
    check(Tensor(x).mean(), np.asarray(x.astype(np.float64).mean()), Tolerance(4), dtype="float32")


def test_variance_of_numbers_far_from_zero(rng: np.random.Generator, check: Check) -> None:
    # mean of squares less square of mean has no digit left here
    x = (10_000 + rng.uniform(-1, 1, (4, 257))).astype(np.float32)
    check(Tensor(x).var(1), np.var(widened(x), axis=1, ddof=1), Tolerance(ulps=6000), dtype="float32")


def test_logsumexp_does_not_overflow(check: Check) -> None:
    x = np.array([[1000, 1000.0], [-1000, -1001], [-np.inf, -np.inf], [np.inf, 0]], np.float32)
    want = np.array([1000 + np.log(2), -1000 + np.log1p(np.exp(-1)), -np.inf, np.inf])
    check(Tensor(x).logsumexp(1), want, Tolerance(ulps=4), dtype="float32")


def test_several_statistics_at_once(rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform("float32", (12, 33), rng, -3, 3)
    variance, mean = Tensor(x).var_mean(1)
    check(variance, np.var(widened(x), axis=1, ddof=1), Tolerance(8, 16), dtype="float32")
    check(mean, np.mean(widened(x), axis=1), Tolerance(8, 16), dtype="float32")
