"""Random numbers: equal for equal seeds, different otherwise, and distributed as they should be."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_conformance.target import Target
from tiny_core import Tensor

N = 4000


@pytest.fixture(autouse=True)
def _readable(target: Target) -> None:
    if not target.stores:
        pytest.skip(f"{target.name} keeps no data to look at")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniform(dtype: str) -> None:
    Tensor.manual_seed(7)
    x = Tensor.rand(N, dtype=dtype).numpy().astype(np.float64)
    assert x.min() >= 0 and x.max() < 1
    assert abs(x.mean() - 0.5) < 0.03
    assert abs(x.var() - 1 / 12) < 0.01


def test_normal() -> None:
    Tensor.manual_seed(7)
    x = Tensor.randn(N).numpy().astype(np.float64)
    assert abs(x.mean()) < 0.08
    assert abs(x.std() - 1) < 0.06
    assert 0.64 < (np.abs(x) < 1).mean() < 0.72


def test_integers() -> None:
    Tensor.manual_seed(7)
    x = Tensor.randint(N, low=-3, high=5).numpy()
    assert x.dtype == np.int32
    assert set(np.unique(x)) == set(range(-3, 5))


def test_equal_seeds_give_equal_numbers() -> None:
    Tensor.manual_seed(3)
    a, b = Tensor.rand(100), Tensor.rand(100)
    first, second = a.numpy().copy(), b.numpy().copy()
    Tensor.manual_seed(3)
    assert (Tensor.rand(100).numpy() == first).all()
    assert (Tensor.rand(100).numpy() == second).all()
    assert not (first == second).any()


def test_numbers_do_not_depend_on_when_they_are_computed() -> None:
    Tensor.manual_seed(3)
    a, b = Tensor.rand(50), Tensor.rand(50)
    late = b.numpy().copy(), a.numpy().copy()
    Tensor.manual_seed(3)
    a, b = Tensor.rand(50), Tensor.rand(50)
    assert (a.numpy() == late[1]).all()
    assert (b.numpy() == late[0]).all()


def test_permutation() -> None:
    Tensor.manual_seed(1)
    x = Tensor.randperm(200).numpy()
    assert sorted(x.tolist()) == list(range(200))
    assert (x != np.arange(200)).sum() > 150


def test_dropout() -> None:
    Tensor.manual_seed(1)
    x = Tensor.ones(N)
    with Tensor.train():
        y = x.dropout(0.25).numpy()
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.03
    assert (x.dropout(0.25).numpy() == 1).all()
