"""Schedules: what is computed once, together, or not at all; and that results do not depend on it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiny_conformance.check import Check
from tiny_conformance.compare import Array
from tiny_conformance.target import Target
from tiny_core import Device, GlobalCounters, Tensor

X = np.arange(-30, 30, dtype=np.int32).reshape(6, 10)


def kernels(work: Callable[[], object]) -> int:
    """How many kernels some work launches."""
    before = GlobalCounters.kernel_count
    work()
    return GlobalCounters.kernel_count - before


def test_a_chain_of_elementwise_operations_is_one_kernel(check: Check) -> None:
    x = Tensor(X).realize()
    y = ((x * 3 + 1).maximum(0) - x) * x
    assert kernels(y.realize) == 1
    check(y, (np.maximum(X * 3 + 1, 0) - X) * X)


def test_what_is_realized_is_not_computed_again(check: Check) -> None:
    y = (Tensor(X).realize() * 3).realize()
    assert kernels(y.realize) == 0
    z = y + 1
    assert kernels(z.realize) == 1
    check(z, X * 3 + 1)


def test_two_results_of_one_input_share_a_kernel(check: Check) -> None:
    x = Tensor(X).realize()
    y, z = x * 2, x + 1
    assert kernels(lambda: y.realize(z)) == 1
    check(y, X * 2)
    check(z, X + 1)


@pytest.mark.needs("views")
def test_a_part_that_lies_together_costs_nothing(check: Check) -> None:
    x = Tensor(X).realize()
    rows = x[2:5]
    assert kernels(rows.realize) == 0
    check(rows, X[2:5])


def test_a_reduction_takes_in_what_goes_before_and_after(check: Check) -> None:
    x = Tensor(X).realize()
    y = (x * x + 1).sum(1) * 2
    assert kernels(y.realize) == 1
    check(y, ((X * X + 1).sum(1) * 2).astype(np.int32))


def test_nothing_runs_before_it_is_asked_for() -> None:
    x = Tensor(X).realize()
    assert kernels((x + 1).sum) == 0


def test_memory_of_results_that_are_gone_is_given_back() -> None:
    import gc

    x = Tensor(X).realize()
    (x + 1).realize()
    gc.collect()
    memory = Device[Device.DEFAULT].memory
    before = memory.used()
    for _ in range(5):
        y = [(x * n).realize() for n in range(2, 6)]
        del y
    gc.collect()
    assert memory.used() == before, "memory of tensors that are gone is in use"


UNARY: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]] = {
    "neg": (lambda t: -t, lambda x: -x),
    "plus": (lambda t: t + 3, lambda x: x + 3),
    "times": (lambda t: t * 5, lambda x: x * 5),
    "square": (lambda t: t * t, lambda x: x * x),
    "relu": (lambda t: t.relu(), lambda x: np.maximum(x, 0)),
    "transpose": (lambda t: t.T, lambda x: x.T),
    "flip": (lambda t: t.flip(0), lambda x: x[::-1]),
    "pad": (lambda t: t.pad(((1, 0), (0, 2))), lambda x: np.pad(x, ((1, 0), (0, 2)))),
    "tail": (lambda t: t[1:], lambda x: x[1:]),
    "every other": (lambda t: t[:, ::2], lambda x: x[:, ::2]),
    "centre": (
        lambda t: t - t.sum(1, keepdim=True),
        lambda x: x - x.sum(1, keepdims=True, dtype=np.int32),
    ),
    "running": (lambda t: t + t.max(0), lambda x: x + x.max(0)),
    "twice": (lambda t: t.cat(t, dim=0), lambda x: np.concatenate([x, x])),
    "realize": (lambda t: t.realize(), lambda x: x),
    "contiguous": (lambda t: t.contiguous(), lambda x: x),
}


@given(data=st.data())
def test_any_sequence_of_steps(data: st.DataObject, target: Target) -> None:
    """Random programs of integer operations, exact whatever is fused with what."""
    rows, columns = data.draw(st.integers(2, 5)), data.draw(st.integers(2, 7))
    x = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns) - rows
    t = Tensor(x)
    for name in data.draw(st.lists(st.sampled_from(sorted(UNARY)), min_size=1, max_size=6)):
        if x.size > 500 or min(x.shape) < 2:
            continue
        ours, numpys = UNARY[name]
        t, x = ours(t), numpys(x)
    t.realize()
    if target.stores:
        np.testing.assert_array_equal(t.numpy(), x)
