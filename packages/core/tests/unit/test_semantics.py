"""Semantics that are easy to get wrong in a lazy system, end to end on several devices."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from tiny_core import Context, Tensor, dtypes
from tiny_core.errors import VersionError


@pytest.fixture(params=["CPU", "PYTHON"], autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    with Context(DEV=request.param):
        yield request.param


@pytest.mark.parametrize("first", ["nothing", "y", "x", "both"])
def test_a_value_read_before_an_assignment_stays_what_it_was(first: str) -> None:
    x = Tensor([1.0, 2.0]).realize()
    y = x * 2
    if first in ("y", "both"):
        y.realize()
    x.assign(x + 10)
    if first in ("x", "both"):
        x.realize()
    assert y.tolist() == [2.0, 4.0]
    assert x.tolist() == [11.0, 12.0]


def test_views_show_later_assignments() -> None:
    x = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    part, shaped, turned = x[1:3], x.reshape(2, 2), x.reshape(2, 2).transpose()
    x.assign(x * 10)
    assert part.tolist() == [20.0, 30.0]
    assert shaped.tolist() == [[10.0, 20.0], [30.0, 40.0]]
    assert turned.tolist() == [[10.0, 30.0], [20.0, 40.0]]


def test_storing_into_a_view_changes_the_whole() -> None:
    x = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    before = x + 0
    x[1:3] = Tensor([7.0, 8.0])
    assert x.tolist() == [1.0, 7.0, 8.0, 4.0]
    assert before.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_an_overlapping_store_reads_the_old_values() -> None:
    x = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    x[1:] = x[:-1]
    assert x.tolist() == [1.0, 1.0, 2.0, 3.0]


def test_a_gradient_belongs_to_the_version_that_was_read() -> None:
    w = Tensor([3.0], requires_grad=True).realize()
    loss = (w * w).sum()
    w.assign(w + 1).realize()
    try:
        (found,) = loss.gradient(w)
    except VersionError:
        return
    assert found.tolist() == [6.0]


def test_a_number_plus_one_is_not_always_greater() -> None:
    x = Tensor([2**31 - 1, 5], dtype=dtypes.int32)
    assert (x + 1 > x).tolist() == [False, True]


def test_integer_division_by_zero_is_zero_and_the_remainder_is_the_number() -> None:
    x, zero = Tensor([7, -7, 0], dtype=dtypes.int32), Tensor([0, 0, 0], dtype=dtypes.int32)
    assert (x // zero).tolist() == [0, 0, 0]
    assert (x % zero).tolist() == [7, -7, 0]


def test_relu_of_nan_is_nan() -> None:
    assert math.isnan(Tensor([math.nan]).relu().item())


def test_a_tensor_does_not_see_later_changes_of_the_array_it_was_made_of() -> None:
    array = np.array([1.0, 2.0], np.float32)
    x = Tensor(array)
    array[0] = 9.0
    assert x.tolist() == [1.0, 2.0]


def test_zero_and_minus_zero_are_two_constants() -> None:
    x = Tensor([1.0]).realize()
    signs = [math.copysign(1.0, v) for v in ((x * 0.0).item(), (x * -0.0).item())]
    assert signs == [1.0, -1.0]
    assert math.copysign(1.0, (Tensor([-0.0]) + (-0.0)).item()) == -1.0
    assert math.copysign(1.0, (Tensor([-0.0]) + 0.0).item()) == 1.0


def test_views_at_odd_offsets_go_through_the_kernel_of_the_others() -> None:
    x = Tensor(np.arange(64, dtype=np.float32)).realize()
    for offset in (0, 16, 1, 3, 17):
        assert (x[offset : offset + 40] * 2).tolist() == [2.0 * v for v in range(offset, offset + 40)]
