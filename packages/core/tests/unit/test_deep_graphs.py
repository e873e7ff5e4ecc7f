"""Very long lazy chains: building, showing, realizing, differentiating and dropping them needs no deep stack,
and what they cost grows with their length."""

from __future__ import annotations

import copy
import gc
import weakref

import numpy as np

from tiny_core import Tensor
from tiny_core.ir.text import format as to_text
from tiny_core.schedule.scheduler import schedule

LONG = 20_000


def _chain(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        x = x + 1.0 if i % 2 else x * 1.0001
    return x


def test_a_long_chain_is_built_shown_realized_and_dropped() -> None:
    x = _chain(Tensor([1.0, 2.0]), LONG)
    assert repr(x) == "<Tensor float32[2] on CPU, lazy>"
    assert repr(x.uop).startswith("<add float32[2]")
    expected = np.array([1.0, 2.0], np.float32)
    for i in range(LONG):
        expected = expected + np.float32(1) if i % 2 else expected * np.float32(1.0001)
    np.testing.assert_allclose(x.numpy(), expected, rtol=1e-5)
    y = _chain(Tensor([1.0]), LONG)
    gone = weakref.ref(y.uop)
    del y
    gc.collect()
    assert gone() is None, "dropping it needs no deep stack either"


def test_a_long_chain_is_differentiated() -> None:
    w = Tensor([2.0], requires_grad=True)
    x = w
    for _ in range(LONG // 2):
        x = x * 1.0001
    (gradient,) = x.sum().gradient(w)
    np.testing.assert_allclose(gradient.numpy(), [1.0001 ** (LONG // 2)], rtol=1e-2)


def test_a_long_chain_of_views() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    for i in range(2001):
        x = x.permute(1, 0) if i % 2 == 0 else x.reshape(4)[:].reshape(2, 2)
    assert x.tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_a_long_chain_of_padding_and_cutting() -> None:
    x = Tensor([1.0, 2.0])
    for _ in range(500):
        x = x.pad(((1, 1),)).shrink(((1, 3),)).flip(0)
    assert x.tolist() == [1.0, 2.0]


def test_a_long_chain_of_reductions() -> None:
    x = Tensor([1.0, 2.0, 3.0])
    for _ in range(200):
        x = x - x.mean() + 1.0
    np.testing.assert_allclose(x.numpy(), [0.0, 1.0, 2.0], rtol=1e-4)


def test_a_long_sum_of_many_tensors() -> None:
    parts = [Tensor([float(i)]) for i in range(500)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    assert total.item() == sum(range(500))


def test_many_assignments_before_one_is_run() -> None:
    x = Tensor([0.0, 0.0])
    for i in range(300):
        x[i % 2] += 1.0
    assert x.tolist() == [150.0, 150.0]


def test_a_graph_whose_paths_double_at_each_step() -> None:
    x = Tensor([1.0], requires_grad=True)
    y = x
    for _ in range(200):
        y = (y + y) * 0.5
    assert y.item() == 1.0
    assert y.sum().gradient(x)[0].item() == 1.0


def test_text_copies_and_schedules_of_a_long_chain() -> None:
    x = _chain(Tensor([1.0]), 2000)
    assert to_text(x.uop).count("\n") > 2000
    assert copy.deepcopy(x).tolist() == x.tolist()
    assert schedule([_chain(Tensor([1.0]), 2000).uop]).items


def test_many_axes() -> None:
    x = Tensor([1.0, 2.0]).reshape(*(1,) * 1500, 2)
    assert x.ndim == 1501 and repr(x.realize()).count("[") == 1501 + 1
    nested = x.tolist()
    for _ in range(1500):
        assert isinstance(nested, list)
        (nested,) = nested
    assert nested == [1.0, 2.0]
