"""Assignment: a value that was read before it keeps what it read, and every view sees it, realized or not."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_conformance import sample
from tiny_conformance.check import Check
from tiny_conformance.compare import Array
from tiny_conformance.table import ALL, dtypes_of
from tiny_core import Tensor, jit
from tiny_core.errors import TinyError, VersionError

first = pytest.mark.parametrize("realized", [False, True], ids=["lazy", "realized"])
THREE = np.array([1.0, 2.0, 3.0], np.float32)


def stored(data: Array, realized: bool) -> Tensor:
    """A tensor with storage of its own."""
    t = Tensor(data)
    return t.realize() if realized else t


@first
@dtypes_of(ALL)
def test_assign(dtype: str, realized: bool, rng: np.random.Generator, check: Check) -> None:
    x, y = (sample.numbers(dtype, 35, rng).reshape(5, 7) for _ in range(2))
    t = stored(x, realized)
    assert t.assign(Tensor(y)) is t
    check(t, y)


@first
def test_value_computed_before(realized: bool, check: Check) -> None:
    x = stored(THREE, realized)
    y = x * 2
    x.assign(x + 10)
    check(y, THREE * 2)
    check(x, THREE + 10)


@first
def test_value_computed_before_and_realized(realized: bool, check: Check) -> None:
    x = stored(THREE, realized)
    y = (x * 2).realize()
    x.assign(x + 10)
    check(x, THREE + 10)
    check(y, THREE * 2)


@first
def test_value_computed_before_is_read_last(realized: bool, check: Check) -> None:
    x = stored(THREE, realized)
    y = x * 2
    x.assign(x + 10).realize()
    x.assign(x * 0).realize()
    check(y, THREE * 2)


@first
def test_several_assignments(realized: bool, check: Check) -> None:
    x = stored(THREE, realized)
    seen = []
    for _ in range(4):
        seen.append(x + 0.5)
        x += 1
    check(x, THREE + 4)
    for i, y in enumerate(seen):
        check(y, THREE + np.float32(i + 0.5))


@first
def test_views_see_it(realized: bool, check: Check) -> None:
    x = stored(np.arange(12, dtype=np.float32).reshape(3, 4), realized)
    row, column, turned, flat = x[1], x[:, 2], x.T, x.reshape(12)
    x.assign(x * 10)
    want = np.arange(12, dtype=np.float32).reshape(3, 4) * 10
    check(row, want[1])
    check(column, want[:, 2].copy())
    check(turned, want.T.copy())
    check(flat, want.reshape(12))


@first
def test_through_a_view(realized: bool, check: Check) -> None:
    x = stored(np.zeros((3, 4), np.float32), realized)
    before = x + 0
    x[1].assign(Tensor([1.0, 2.0, 3.0, 4.0]))
    x[:, 0] = 9
    x.T[3] += 5
    x[::2, 1:3] = Tensor([[7.0, 8.0]])
    want = np.zeros((3, 4), np.float32)
    want[1] = [1, 2, 3, 4]
    want[:, 0] = 9
    want.T[3] += 5
    want[::2, 1:3] = [[7, 8]]
    check(x, want)
    check(before, np.zeros((3, 4), np.float32))


@first
def test_of_overlapping_views(realized: bool, check: Check) -> None:
    x = stored(np.arange(6, dtype=np.int32), realized)
    x[1:].assign(x[:-1])
    check(x, np.array([0, 0, 1, 2, 3, 4], np.int32))
    x[:-1].assign(x[1:])
    check(x, np.array([0, 1, 2, 3, 4, 4], np.int32))
    x.assign(x.flip(0))
    check(x, np.array([4, 4, 3, 2, 1, 0], np.int32))


@first
def test_exchange(realized: bool, check: Check) -> None:
    x, y = stored(THREE, realized), stored(THREE * 10, realized)
    a, b = x + 0, y + 0
    x.assign(b)
    y.assign(a)
    check(x, THREE * 10)
    check(y, THREE)


@first
def test_in_place_operators(realized: bool, check: Check) -> None:
    x = stored(np.array([8, 9, 10], np.int32), realized)
    same = x
    x += 4
    x *= 3
    x -= 1
    x //= 2
    x %= 10
    x <<= 2
    x |= 1
    want = np.array([8, 9, 10], np.int32)
    want = ((((want + 4) * 3 - 1) // 2 % 10) << 2) | 1
    assert same is x
    check(x, want)


@first
def test_of_a_reduction_of_itself(realized: bool, check: Check) -> None:
    x = stored(np.arange(6, dtype=np.int32).reshape(2, 3), realized)
    x.assign(x.sum(1, keepdim=True).expand(2, 3))
    check(x, np.array([[3, 3, 3], [12, 12, 12]], np.int32))


@first
def test_of_a_product_with_itself(realized: bool, check: Check) -> None:
    m = np.array([[1, 2], [3, 4]], np.int32)
    x = stored(m, realized)
    x.assign(x @ x)
    check(x, m @ m)


def test_clone_is_apart(check: Check) -> None:
    x = Tensor(THREE).realize()
    y = x.clone()
    x += 1
    check(y, THREE)
    y += 5
    check(x, THREE + 1)


def test_constants_become_storage(check: Check) -> None:
    x, y = Tensor.zeros(4), Tensor.zeros(4)
    x[2] = 3
    check(x, np.array([0, 0, 3, 0], np.float32))
    check(y, np.zeros(4, np.float32))


def test_read_array_stays(check: Check) -> None:
    if not check.reads:
        pytest.skip("there is no data to look at")
    x = Tensor(THREE).realize()
    seen = x.numpy()
    x += 1
    x.realize()
    assert (seen == THREE).all()
    check(x, THREE + 1)


def test_running_statistics(check: Check) -> None:
    mean = Tensor.zeros(3)
    want = np.zeros(3, np.float32)
    for i in range(5):
        batch = np.full((4, 3), i, np.float32)
        mean.assign(mean * 0.5 + Tensor(batch).mean(0) * 0.5)
        want = want * np.float32(0.5) + np.float32(i) * np.float32(0.5)
    check(mean, want)


@first
def test_gradient_after_assignment(realized: bool, check: Check) -> None:
    w = Tensor(np.array([3.0], np.float32), requires_grad=True)
    if realized:
        w.realize()
    loss = (w * w).sum()
    w.assign(w + 1).realize()
    try:
        (gradient,) = loss.gradient(w)
    except VersionError:
        return
    check(gradient, np.array([6.0], np.float32))


def test_captured_update(check: Check) -> None:
    x = Tensor(np.zeros(3, np.float32)).realize()

    @jit
    def step(by: Tensor) -> Tensor:
        before = x * 1
        x.assign(x + by)
        return before.realize(x)

    total = np.zeros(3, np.float32)
    for i in range(6):
        by = THREE * i
        before = step(Tensor(by).realize())
        check(before, total)
        total = total + by
        check(x, total)


@pytest.mark.parametrize("what", ["shape", "dtype", "expanded"])
def test_refused(what: str) -> None:
    x = Tensor(THREE).realize()
    with pytest.raises(TinyError):
        if what == "shape":
            x.assign(Tensor([1.0, 2.0]))
        elif what == "dtype":
            Tensor([1, 2, 3]).assign(Tensor([0.5, 1.0, 2.0]))
        else:
            x.reshape(1, 3).expand(2, 3).assign(Tensor.zeros(2, 3))
