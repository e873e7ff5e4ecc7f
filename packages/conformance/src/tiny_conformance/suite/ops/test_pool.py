"""Windows of which the greatest, or the mean, is taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiny_conformance import sample
from tiny_conformance.check import Check
from tiny_conformance.compare import Tolerance, is_float
from tiny_conformance.suite.ops.test_conv import sides, spread, windows
from tiny_conformance.table import FLOATS, NUMBERS, dtypes_of, widened
from tiny_core import Tensor

OPTIONS: dict[str, dict[str, Any]] = {
    "2x2": {"kernel_size": (2, 2)},
    "3x3 by 2": {"kernel_size": (3, 3), "stride": 2},
    "overlapping": {"kernel_size": (3, 2), "stride": 1},
    "padded": {"kernel_size": (3, 3), "stride": 2, "padding": 1},
    "dilated": {"kernel_size": (2, 3), "stride": 1, "dilation": 2},
    "one number": {"kernel_size": 2},
}
options = pytest.mark.parametrize("name", list(OPTIONS))


@options
@dtypes_of(("float32",))
def test_max_pool(dtype: str, name: str, rng: np.random.Generator, check: Check) -> None:
    how = OPTIONS[name]
    x = sample.uniform(dtype, (2, 3, 9, 10), rng, -3, 3)
    kernel = spread(how["kernel_size"], 2)
    padded = np.pad(x, [(0, 0), (0, 0), *sides(how.get("padding", 0), 2)], constant_values=-np.inf)
    view = windows(padded, kernel, spread(how.get("stride", kernel), 2), spread(how.get("dilation", 1), 2))
    check(Tensor(x).max_pool2d(**how), view.max((-1, -2)))


@options
@dtypes_of(("float32",))
def test_avg_pool(dtype: str, name: str, rng: np.random.Generator, check: Check) -> None:
    how = OPTIONS[name]
    x = sample.uniform(dtype, (2, 3, 9, 10), rng, -3, 3)
    kernel = spread(how["kernel_size"], 2)
    padded = np.pad(widened(x), [(0, 0), (0, 0), *sides(how.get("padding", 0), 2)])
    view = windows(padded, kernel, spread(how.get("stride", kernel), 2), spread(how.get("dilation", 1), 2))
    check(Tensor(x).avg_pool2d(**how), view.mean((-1, -2)), Tolerance(2, 4), 3.0, dtype)


@dtypes_of(NUMBERS)
def test_max_pool_of_each_dtype(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.numbers(dtype, 2 * 6 * 8, rng).reshape(1, 2, 6, 8)
    view = windows(x, (2, 2), (2, 2), (1, 1))
    check(Tensor(x).max_pool2d((2, 2)), view.max((-1, -2)))


@dtypes_of(FLOATS)
def test_avg_pool_of_each_dtype(dtype: str, rng: np.random.Generator, check: Check) -> None:
    assert is_float(dtype)
    x = sample.uniform(dtype, (1, 2, 6, 8), rng, -3, 3)
    view = windows(widened(x), (2, 2), (2, 2), (1, 1))
    check(Tensor(x).avg_pool2d((2, 2)), view.mean((-1, -2)), Tolerance(2, 4), 3.0, dtype)


def test_windows_beyond_the_end(rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform("float32", (1, 2, 5, 7), rng, -3, 3)
    grown = np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=-np.inf)
    check(Tensor(x).max_pool2d((2, 2), ceil_mode=True), windows(grown, (2, 2), (2, 2), (1, 1)).max((-1, -2)))


def test_padding_that_does_not_count(check: Check) -> None:
    x = np.ones((1, 1, 4, 4), np.float32)
    got = Tensor(x).avg_pool2d((3, 3), stride=1, padding=1, count_include_pad=False)
    check(got, np.ones((1, 1, 4, 4), np.float32), Tolerance(ulps=2))


def test_convolution_then_pool(rng: np.random.Generator, check: Check) -> None:
    x, w = (
        sample.uniform("int32", (2, 3, 12, 12), rng, -9, 9),
        sample.uniform("int32", (4, 3, 3, 3), rng, -9, 9),
    )
    y = np.einsum("nipquv,oiuv->nopq", windows(x, (3, 3), (1, 1), (1, 1)), w)
    want = windows(np.maximum(y, 0), (2, 2), (2, 2), (1, 1)).max((-1, -2))
    check(Tensor(x).conv2d(Tensor(w)).relu().max_pool2d((2, 2)), want)
