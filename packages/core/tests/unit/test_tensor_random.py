"""Random tensors: reproducible whatever the order of realization, distributed as they say, no number
twice."""

# mypy: disable-error-code="arg-type, misc, union-attr"
# Stubs of numpy and PyTorch, and mistakes made on purpose, are not for the type checker to judge here.
from __future__ import annotations

import math

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.ir import arith
from tiny_core.ir.ops import Ops
from tiny_core.tensor.tensor import Tensor

from ..oracle import Engine

pytestmark = pytest.mark.usefixtures("oracle")


def test_a_seed_gives_the_same_numbers_in_any_order_of_realization() -> None:
    Tensor.manual_seed(42)
    a, b, c = Tensor.rand(3), Tensor.randn(4), Tensor.rand(2)
    lazily = [c.tolist(), a.tolist(), b.tolist()]
    Tensor.manual_seed(42)
    a, b, c = Tensor.rand(3).realize(), Tensor.randn(4).realize(), Tensor.rand(2).realize()
    assert [c.tolist(), a.tolist(), b.tolist()] == lazily
    Tensor.manual_seed(43)
    assert Tensor.rand(3).tolist() != a.tolist()


def test_seeding_leaves_earlier_draws_alone() -> None:
    Tensor.manual_seed(1)
    a = Tensor.rand(4)
    Tensor.manual_seed(2)
    b = Tensor.rand(4)
    Tensor.manual_seed(1)
    again = Tensor.rand(4).tolist()
    assert a.tolist() == again
    assert b.tolist() != again


def test_numbers_are_threefry_of_a_counter(oracle: Engine) -> None:
    Tensor.manual_seed(5)
    first, second = Tensor.random_bits(3), Tensor.random_bits(3)
    have = [*second.tolist(), *first.tolist()]
    state = next(v for v in oracle.memory.values() if v.dtype == np.uint64 and v.shape == (2,))
    key = int(state[1])
    want = [arith.threefry(i, key) & 0xFFFFFFFF for i in (3, 4, 5, 0, 1, 2)]
    assert have == want
    assert int(state[0]) == 6


def test_no_number_is_drawn_twice() -> None:
    Tensor.manual_seed(0)
    drawn = [Tensor.random_bits(50) for _ in range(3)]
    drawn[1].realize()
    drawn += [Tensor.random_bits(50) for _ in range(3)]
    values = [v for t in drawn for v in t.tolist()]
    assert len(set(values)) == 300


def test_draws_of_one_batch_advance_the_counter_once(oracle: Engine) -> None:
    a, b = Tensor.rand(3), Tensor.rand(3)
    (a + b).realize()
    (batch,) = oracle.batches
    assert sum(n.op is Ops.STORE for root in batch for n in root.toposort()) == 1


def test_uniform() -> None:
    Tensor.manual_seed(0)
    x = Tensor.rand(20000).numpy()
    assert x.min() >= 0
    assert x.max() < 1
    assert abs(x.mean() - 0.5) < 0.01
    assert abs(x.var() - 1 / 12) < 0.003
    y = Tensor.uniform(20000, low=-3, high=5).numpy()
    assert (y.min() >= -3, y.max() < 5, abs(y.mean() - 1) < 0.1) == (True, True, True)


def test_normal() -> None:
    Tensor.manual_seed(0)
    x = Tensor.randn(40000).numpy()
    assert np.isfinite(x).all()
    assert abs(x.mean()) < 0.02
    assert abs(x.std() - 1) < 0.02
    assert abs((np.abs(x) < 1).mean() - math.erf(math.sqrt(0.5))) < 0.01
    y = Tensor.normal(40000, mean=3, std=2).numpy()
    assert abs(y.mean() - 3) < 0.05


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64])
def test_uniform_of_every_float_stays_below_one(dtype: dtypes.DType) -> None:
    x = Tensor.rand(3000, dtype=dtype)
    assert x.dtype is dtype
    values = np.asarray(x.numpy(), float)
    assert (values >= 0).all()
    assert (values < 1).all()


def test_integers_are_uniform() -> None:
    Tensor.manual_seed(0)
    x = Tensor.randint(30000, low=-2, high=4)
    assert x.dtype is dtypes.int32
    values, counts = np.unique(x.numpy(), return_counts=True)
    assert values.tolist() == [-2, -1, 0, 1, 2, 3]
    assert (abs(counts - 5000) < 400).all()
    assert set(Tensor.randint(1000).tolist()) == set(range(10))


def test_permutation() -> None:
    Tensor.manual_seed(3)
    x = Tensor.randperm(500)
    assert x.dtype is dtypes.int32
    assert sorted(x.tolist()) == list(range(500))
    assert x.tolist() != list(range(500))
    Tensor.manual_seed(3)
    assert Tensor.randperm(500).tolist() == x.tolist()


def test_initialisations_have_their_bounds() -> None:
    bounds = {
        "kaiming_uniform": math.sqrt(3) * math.sqrt(2 / (1 + 0.01**2)) / math.sqrt(30),
        "glorot_uniform": math.sqrt(6 / (40 + 30)),
        "scaled_uniform": 1200**-0.5,
    }
    for name, bound in bounds.items():
        x = np.abs(getattr(Tensor, name)(40, 5, 6).numpy())
        assert 0.98 * bound < x.max() <= bound
    x = Tensor.kaiming_normal(40, 5, 6, requires_grad=True)
    assert x.requires_grad
    assert abs(x.numpy().std() - math.sqrt(2 / 1.0001) / math.sqrt(30)) < 0.02


def test_dropout() -> None:
    x = Tensor.ones(10000)
    assert x.dropout(0.3) is x
    with Tensor.train():
        y = x.dropout(0.3).numpy()
        assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.7)}
        assert abs((y == 0).mean() - 0.3) < 0.02
        assert x.dropout(1.0).sum().item() == 0
        assert x.dropout(0.0) is x


def test_dropout_gradient_has_the_mask_of_the_value() -> None:
    x = Tensor(np.ones(200))
    with Tensor.train():
        y = x.dropout(0.5)
    grad = y.sum().gradient(x)[0]
    assert grad.tolist() == y.tolist()


def test_random_numbers_are_independent_of_the_shape_asked_for() -> None:
    Tensor.manual_seed(9)
    a = Tensor.rand(2, 3).flatten().tolist()
    Tensor.manual_seed(9)
    assert Tensor.rand(6).tolist() == a
    assert Tensor.zeros(2, 2).rand_like().shape == (2, 2)
    assert Tensor.zeros(2, 2, dtype=dtypes.float16).randn_like().dtype is dtypes.float16
