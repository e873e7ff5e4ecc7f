"""Indices out of range: Python's raise at the call; those in tensors read 0, and under TINY_CHECK=1 raise,
with kernel and position, before anything has happened."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tiny_core import Context, GlobalCounters, Tensor, jit
from tiny_core.errors import IndexOutOfRange

X = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_python_integers_raise_at_the_call() -> None:
    x = Tensor(X)
    for wrong in (
        lambda: x[2],
        lambda: x[-3],
        lambda: x[0, 3],
        lambda: x[:, -4],
        lambda: x[[0, 2]],
        lambda: x[0, 0, 0],
    ):
        with pytest.raises(IndexOutOfRange) as raised:
            wrong()
        assert raised.value.hint and isinstance(raised.value, IndexError)
    with pytest.raises(IndexOutOfRange):
        x[5] = 1.0
    assert x.tolist() == X


def test_tensor_indices_out_of_range_read_0() -> None:
    x = Tensor(X)
    assert x[Tensor([0, 2, -3, -1])].tolist() == [X[0], [0.0] * 3, [0.0] * 3, X[1]]
    assert x[:, Tensor([[3], [-4]])].tolist() == [[[0.0], [0.0]]] * 2
    assert x.gather(1, Tensor([[3], [0]])).tolist() == [[0.0], [4.0]]
    assert x[Tensor([7], dtype="uint8")].tolist() == [[0.0] * 3]
    assert x[Tensor([1 << 40], dtype="int64")].tolist() == [[0.0] * 3]


CASES: list[tuple[str, Callable[[Tensor], Tensor], int, tuple[int, ...], int]] = [
    ("rows", lambda x: x[Tensor([0, 2, 9])] * 2, 2, (1,), 2),
    ("negative", lambda x: x[Tensor([0, -3])], -3, (1,), 2),
    ("columns", lambda x: x[:, Tensor([[0, 1], [-3, -4]])].sum(), -4, (1, 1), 3),
    ("both", lambda x: x[Tensor([0, 1]), Tensor([0, 3])], 3, (1,), 3),
    ("gather", lambda x: x.gather(1, Tensor([[0], [3]])), 3, (1, 0), 3),
    ("uint8", lambda x: x[Tensor([1, 7], dtype="uint8")], 7, (1,), 2),
    ("int8", lambda x: x[Tensor([1, -9], dtype="int8")], -9, (1,), 2),
    ("computed", lambda x: x[Tensor([0, 1]) + 1], 2, (1,), 2),
    ("index of an index", lambda x: x[Tensor([5, 0])[Tensor([1, 0])]], 5, (1,), 2),
    ("in a view", lambda x: x[:, 1:][Tensor([4])], 4, (0,), 2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "call", "value", "position", "n"), CASES, ids=[c[0] for c in CASES])
def test_checked(
    name: str, call: Callable[[Tensor], Tensor], value: int, position: tuple[int, ...], n: int
) -> None:
    y = call(Tensor(X))
    y.contiguous()
    with Context(CHECK=1), pytest.raises(IndexOutOfRange) as raised:
        y.realize()
    text = str(raised.value)
    assert f"index {value} at position {position} is out of range for an axis of {n}, in kernel " in text
    assert "for the tensor made at " in text and "test_checked_indices.py:" in text and raised.value.hint
    assert not y.is_realized
    y.realize()  # unchecked it gives what it gives


def test_what_is_in_range_is_not_in_the_way() -> None:
    with Context(CHECK=1):
        x = Tensor(X)
        assert x[Tensor([1, -2])].tolist() == [X[1], X[0]]
        assert x[Tensor([], dtype="int32")].tolist() == []
        assert x.gather(0, Tensor([[0, 1, -1]])).tolist() == [[1.0, 5.0, 6.0]]
        order = Tensor.randperm(100)
        assert sorted(Tensor.arange(100)[order].tolist()) == list(range(100))  # type: ignore[type-var, arg-type]
        w = Tensor([1.0, 2.0], requires_grad=True)
        assert w[Tensor([1, 1])].sum().gradient(w)[0].tolist() == [0.0, 2.0]


def test_indices_known_to_be_in_range_cost_nothing() -> None:
    x = Tensor(X).realize()
    with Context(CHECK=1):
        GlobalCounters.reset()
        x[Tensor.arange(2) % 2].realize()
        assert GlobalCounters.kernel_count == 1


def test_nothing_has_happened_when_it_is_raised() -> None:
    x, w = Tensor(X).realize(), Tensor([1.0, 1.0]).realize()
    w.assign(w + x[Tensor([0, 5])].sum(1))
    reader = w * 10
    for _ in range(2):
        with Context(CHECK=1), pytest.raises(IndexOutOfRange):
            w.realize()
        with Context(CHECK=1), pytest.raises(IndexOutOfRange):
            reader.realize()
    assert w.tolist() == [7.0, 1.0], "the assignment ran once, now"
    assert reader.tolist() == [70.0, 10.0]


def test_indices_that_wait_for_an_assignment_are_looked_at_after_it() -> None:
    x, k, w = Tensor(X).realize(), Tensor([0, 1]).realize(), Tensor([0.0]).realize()
    k.assign(k * 5)
    w.assign(w + 1)
    y = x[k].sum() + w
    with Context(CHECK=1), pytest.raises(IndexOutOfRange, match=r"index 5 at position \(1,\)"):
        y.realize()
    assert k.tolist() == [0, 5] and w.tolist() == [1.0], "each ran once"
    assert y.tolist() == [7.0]


def test_labels_are_checked_too() -> None:
    x = Tensor(X)
    with Context(CHECK=1):
        assert np.isfinite(x.cross_entropy(Tensor([0, 2])).item())
        for labels in ([0, 3], [0, -1]):
            with pytest.raises(
                IndexOutOfRange, match=rf"label {labels[1]} at position \(1,\) is no class of 3"
            ):
                x.cross_entropy(Tensor(labels))
        with pytest.raises(IndexOutOfRange, match="nll_loss: label -100"):
            x.nll_loss(Tensor([0, -100]))
        assert x.nll_loss(Tensor([0, -100]), ignore_index=-100).item() == -1.0
    assert np.isfinite(x.cross_entropy(Tensor([0, 3])).item())


def test_captured_functions_are_checked_at_each_call() -> None:
    pick = jit(lambda x, i: x[i] * 2)
    x = Tensor(X)
    for _ in range(3):
        pick(x, Tensor([0, 1]))
    assert pick(x, Tensor([0, 4])).tolist() == [[2.0, 4.0, 6.0], [0.0] * 3]
    with Context(CHECK=1):
        for _ in range(3):
            assert pick(x, Tensor([0, 1])).tolist() == [[2.0, 4.0, 6.0], [8.0, 10.0, 12.0]]
        with pytest.raises(IndexOutOfRange, match="index 4 at position"):
            pick(x, Tensor([0, 4])).tolist()
    assert pick(x, Tensor([1, 1])).tolist() == [[8.0, 10.0, 12.0]] * 2


def test_devices_without_data_are_not_asked() -> None:
    with Context(CHECK=1):
        x = Tensor(X, device="NULL")
        assert x[Tensor([0, 9], device="NULL")].realize().shape == (2, 3)


def test_values_beyond_the_message_are_said_to_be() -> None:
    x = Tensor(X)
    with Context(CHECK=1), pytest.raises(IndexOutOfRange, match="index 2147483647 or beyond at position"):
        x[Tensor([1 << 40], dtype="int64")].realize()
    with Context(CHECK=1), pytest.raises(IndexOutOfRange, match="index 2147483647 or beyond at position"):
        x[Tensor([(1 << 64) - 1], dtype="uint64")].realize()
