"""Captured calls: a replay gives what the function gives, with whatever arguments and state it finds."""

from __future__ import annotations

import numpy as np

from tiny_conformance.check import Check
from tiny_core import Tensor, jit

X = np.arange(12, dtype=np.int32).reshape(3, 4)


def test_a_replay_takes_its_arguments(check: Check) -> None:
    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        return (x * 2 + y).realize()

    for n in range(6):
        x, y = Tensor(X + n).realize(), Tensor(X * n).realize()
        check(step(x, y), (X + n) * 2 + X * n)


def test_results_of_earlier_calls_stay(check: Check) -> None:
    @jit
    def step(x: Tensor) -> Tensor:
        return (x + 1).realize()

    results = [step(Tensor(X + n).realize()) for n in range(6)]
    for n, result in enumerate(results):
        check(result, X + n + 1)


def test_several_kernels_that_feed_each_other(check: Check) -> None:
    @jit
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        y = (x * 3).realize()
        total = y.sum(0).realize()
        return (y - total).realize(), total

    for n in range(5):
        rest, total = step(Tensor(X + n).realize())
        want = (X + n) * 3
        check(total, want.sum(0, dtype=np.int32))
        check(rest, want - want.sum(0, dtype=np.int32))


def test_state_is_updated_at_each_call(check: Check) -> None:
    state = Tensor(np.zeros((3, 4), np.int32)).realize()

    @jit
    def step(x: Tensor) -> Tensor:
        state.assign(state * 2 + x)
        return (state + 0).realize(state)

    want = np.zeros((3, 4), np.int32)
    for n in range(6):
        want = want * 2 + X + n
        check(step(Tensor(X + n).realize()), want)
    check(state, want)


def test_an_argument_that_is_the_result_of_the_last_call(check: Check) -> None:
    @jit
    def step(x: Tensor) -> Tensor:
        return (x * 2 - 1).realize()

    t, want = Tensor(X).realize(), X
    for _ in range(6):
        t, want = step(t), want * 2 - 1
    check(t, want)


def test_views_are_arguments(check: Check) -> None:
    @jit
    def step(x: Tensor) -> Tensor:
        return (x + 10).realize()

    base = Tensor(np.arange(60, dtype=np.int32).reshape(15, 4)).realize()
    for n in range(5):
        part = base[3 * n : 3 * n + 3].contiguous().realize()
        check(step(part), np.arange(60, dtype=np.int32).reshape(15, 4)[3 * n : 3 * n + 3] + 10)


def test_another_shape_is_another_capture_or_an_error(check: Check) -> None:
    from tiny_core.errors import TinyError

    @jit
    def step(x: Tensor) -> Tensor:
        return (x + 1).realize()

    for _ in range(4):
        check(step(Tensor(X).realize()), X + 1)
    try:
        got = step(Tensor(X[:2]).realize())
    except TinyError:
        return
    check(got, X[:2] + 1)


def test_numbers_are_part_of_the_capture(check: Check) -> None:
    @jit
    def step(x: Tensor, factor: int) -> Tensor:
        return (x * factor).realize()

    for _ in range(3):
        check(step(Tensor(X).realize(), 2), X * 2)
        check(step(Tensor(X).realize(), 3), X * 3)


def test_random_numbers_go_on(check: Check) -> None:
    @jit
    def step() -> Tensor:
        return Tensor.rand(16).realize()

    Tensor.manual_seed(5)
    drawn = [step() for _ in range(5)]
    if check.reads:
        rows = {t.numpy().tobytes() for t in drawn}
        assert len(rows) == 5, "a replay repeats its random numbers"
