"""Convolutions in one, two and three dimensions, with stride, dilation, padding and groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tiny_conformance import sample
from tiny_conformance.check import Check
from tiny_conformance.compare import Array, Tolerance
from tiny_conformance.table import FLOATS, dtypes_of, widened
from tiny_core import Tensor


@dataclass(frozen=True, slots=True)
class Case:
    """A convolution: shapes of input and weight, and its options."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: int | tuple[int, ...] = 1
    dilation: int | tuple[int, ...] = 1
    padding: int | tuple[int, ...] = 0
    groups: int = 1


CASES = {
    "3x3": Case((2, 4, 9, 11), (5, 4, 3, 3)),
    "1x1": Case((2, 4, 5, 5), (8, 4, 1, 1)),
    "5x5": Case((3, 1, 12, 12), (8, 1, 5, 5)),
    "not square": Case((1, 3, 8, 10), (4, 3, 2, 5)),
    "stride 2": Case((2, 3, 9, 9), (4, 3, 3, 3), stride=2),
    "stride 3, 1": Case((2, 3, 10, 9), (4, 3, 3, 3), stride=(3, 1)),
    "dilation 2": Case((2, 3, 9, 9), (4, 3, 3, 3), dilation=2),
    "padding 1": Case((2, 3, 6, 6), (4, 3, 3, 3), padding=1),
    "padding 2, 1": Case((2, 3, 6, 6), (4, 3, 3, 3), padding=(2, 1)),
    "padding of each side": Case((2, 3, 6, 6), (4, 3, 3, 3), padding=(2, 0, 1, 3)),
    "all of them": Case((1, 3, 11, 10), (4, 3, 3, 2), stride=2, dilation=2, padding=2),
    "groups": Case((2, 6, 7, 7), (9, 2, 3, 3), groups=3),
    "each channel its own": Case((2, 6, 7, 7), (6, 1, 3, 3), padding=1, groups=6),
    "one dimension": Case((2, 3, 17), (4, 3, 5), padding=2),
    "three dimensions": Case((1, 2, 5, 6, 7), (3, 2, 3, 2, 3), padding=1),
    "kernel of the input's size": Case((4, 3, 5, 5), (6, 3, 5, 5)),
}


def spread(value: int | tuple[int, ...], n: int) -> tuple[int, ...]:
    return (value,) * n if isinstance(value, int) else value


def sides(padding: int | tuple[int, ...], n: int) -> list[tuple[int, int]]:
    """Zeros before and after each axis; a list for each side begins with the last axis."""
    if isinstance(padding, int) or len(padding) == n:
        return [(p, p) for p in spread(padding, n)]
    return [(padding[2 * i], padding[2 * i + 1]) for i in reversed(range(n))]


def windows(x: Array, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]) -> Array:
    """(…, out…, kernel…) of (…, size…)."""
    n = len(kernel)
    axes = tuple(range(x.ndim - n, x.ndim))
    span = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(x, span, axes)
    steps: Any = tuple(slice(None, None, s) for s in (*stride, *dilation))
    return np.asarray(view[(..., *steps)])


def convolve(x: Array, w: Array, case: Case) -> Array:
    """The convolution, in the dtype of x."""
    n = w.ndim - 2
    padded = np.pad(x, [(0, 0), (0, 0), *sides(case.padding, n)])
    view = windows(padded, w.shape[2:], spread(case.stride, n), spread(case.dilation, n))
    out = view.shape[2 : 2 + n]
    grouped = view.reshape(x.shape[0], case.groups, w.shape[1], *out, *w.shape[2:])
    weights = w.reshape(case.groups, w.shape[0] // case.groups, *w.shape[1:])
    o, k = "opq"[:n], "uvw"[:n]
    y = np.einsum(f"ngi{o}{k},gmi{k}->ngm{o}", grouped, weights)
    return np.asarray(y.reshape(x.shape[0], w.shape[0], *out))


def agrees(check: Check, case: Case, dtype: str, rng: np.random.Generator) -> None:
    x, w = sample.uniform(dtype, case.x, rng, -2, 2), sample.uniform(dtype, case.w, rng, -2, 2)
    got = Tensor(x).conv2d(Tensor(w), None, case.groups, case.stride, case.dilation, case.padding)
    if dtype == "int32":
        check(got, convolve(x, w, case))
        return
    scale = convolve(np.abs(widened(x)), np.abs(widened(w)), case)
    epsilons = 1.0 if dtype in ("float16", "bfloat16") else 2 * float(np.prod(case.w[1:])) ** 0.5 + 2
    check(got, convolve(widened(x), widened(w), case), Tolerance(1, epsilons), scale, dtype)


@pytest.mark.parametrize("name", list(CASES))
def test_convolution(name: str, rng: np.random.Generator, check: Check) -> None:
    agrees(check, CASES[name], "float32", rng)


@dtypes_of((*FLOATS, "int32"))
@pytest.mark.parametrize("name", ["3x3", "all of them"])
def test_each_dtype(dtype: str, name: str, rng: np.random.Generator, check: Check) -> None:
    agrees(check, CASES[name], dtype, rng)


def test_bias_and_what_follows(rng: np.random.Generator, check: Check) -> None:
    case = CASES["padding 1"]
    x, w = sample.uniform("float32", case.x, rng, -2, 2), sample.uniform("float32", case.w, rng, -2, 2)
    bias = sample.uniform("float32", (4,), rng, -2, 2)
    got = Tensor(x).conv2d(Tensor(w), Tensor(bias), padding=1).relu()
    want = np.maximum(convolve(widened(x), widened(w), case) + widened(bias).reshape(1, 4, 1, 1), 0)
    scale = convolve(np.abs(widened(x)), np.abs(widened(w)), case) + 2
    check(got, want, Tolerance(1, 16), scale, "float32")


def test_two_in_a_row(rng: np.random.Generator, check: Check) -> None:
    x, v, w = (sample.uniform("int32", s, rng, -9, 9) for s in ((2, 3, 10, 10), (4, 3, 3, 3), (5, 4, 3, 3)))
    case = Case(x.shape, v.shape)
    check(
        Tensor(x).conv2d(Tensor(v)).relu().conv2d(Tensor(w)),
        convolve(np.maximum(convolve(x, v, case), 0), w, case),
    )


@pytest.mark.large
def test_large(rng: np.random.Generator, check: Check) -> None:
    agrees(check, Case((16, 32, 24, 24), (32, 32, 5, 5)), "float32", rng)
