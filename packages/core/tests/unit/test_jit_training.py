"""jit of training steps, against the same arithmetic in numpy; random numbers; several devices; threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from tiny_core.settings import Context
from tiny_core.tensor.capture import jit
from tiny_core.tensor.tensor import Tensor

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 4, 3)).astype(np.float32)
Y = RNG.standard_normal((6, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    with Context(DEV="PYTHON"):
        yield


class Momentum:
    """SGD whose state is made at the first step."""

    def __init__(self, w: Tensor) -> None:
        self.w = w
        self.velocity: Tensor | None = None

    def step(self) -> None:
        gradient = self.w.grad
        assert gradient is not None
        if self.velocity is None:
            self.velocity = gradient * 0
        self.velocity = self.velocity * 0.9 + gradient
        self.w.assign(self.w - self.velocity * 0.1)
        Tensor.realize(self.w, self.velocity)


def _reference(steps: int) -> tuple[np.ndarray, list[float], np.ndarray]:
    w, v, losses, g = np.ones(3), np.zeros(3), [], np.zeros(3)
    for i in range(steps):
        error = X[i].astype(float) @ w - Y[i]
        losses.append(float((error**2).mean()))
        g = 2 * error @ X[i] / 4
        v = v * 0.9 + g
        w = w - 0.1 * v
    return w, losses, g


@pytest.mark.parametrize("zero", ["before", "after", "outside"])
def test_a_training_step_with_state_made_lazily(zero: str) -> None:
    w = Tensor(np.ones(3, np.float32)).requires_grad_()
    optimizer = Momentum(w)

    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        if zero == "before":
            w.grad = None
        error = (x * w).sum(1) - y
        loss = (error * error).mean()
        loss.backward()
        optimizer.step()
        if zero == "after":
            w.grad = None
        return loss

    expected_w, expected_losses, expected_g = _reference(6)
    losses = []
    for i in range(6):
        if zero == "outside":
            w.grad = None
        losses.append(step(Tensor(X[i]), Tensor(Y[i])).item())
    assert np.allclose(losses, expected_losses, rtol=1e-5)
    assert np.allclose(w.numpy(), expected_w, rtol=1e-5)
    if zero == "after":
        assert w.grad is None
    else:
        assert w.grad is not None and np.allclose(w.grad.numpy(), expected_g, atol=1e-5)
    assert len(step.recordings) >= 1


def test_gradients_accumulate_over_replays() -> None:
    w = Tensor(np.ones(3, np.float32)).requires_grad_()

    @jit
    def accumulate(x: Tensor) -> None:
        (x * w).sum().backward()

    for i in range(5):
        accumulate(Tensor(X[i]))
    assert w.grad is not None
    assert np.allclose(w.grad.numpy(), X[:5].sum((0, 1)), rtol=1e-4)


def test_random_numbers_are_new_at_each_replay_and_repeat_with_the_seed() -> None:
    f = jit(lambda x: (x + Tensor.rand(4), Tensor.rand(4) + 0))

    def draw() -> list[list[float]]:
        out = []
        for _ in range(5):
            a, b = f(Tensor([0.0, 0.0, 0.0, 0.0]))
            out += [a.tolist(), b.tolist()]
        return out

    Tensor.manual_seed(5)
    first = draw()
    assert len({tuple(row) for row in first}) == 10
    Tensor.manual_seed(5)
    second = draw()
    Tensor.manual_seed(5)
    eager = [Tensor.rand(4).tolist() for _ in range(10)]
    assert second == first == eager


def test_a_step_over_two_devices() -> None:
    w = Tensor(np.array([1, 2], np.float32), device="PYTHON:1")

    @jit
    def f(x: Tensor) -> Tensor:
        there = x.to("PYTHON:1") * w
        w.assign(w + 1)
        return (there + 1).to("PYTHON") * 2

    for i in range(4):
        got = f(Tensor(np.array([i, 1], np.float32)))
        assert got.device == "PYTHON"
        assert got.tolist() == [2 * (i * (1 + i) + 1), 2 * (2 + i + 1)]


def test_threads_may_call_one_captured_function() -> None:
    f = jit(lambda x, y: (x * y).sum())
    wrong: list[object] = []

    def work(n: int) -> None:
        for i in range(5):
            with Context(DEV="PYTHON"):
                got = f(Tensor(np.array([n, i], np.float32)), Tensor(np.array([1, 2], np.float32))).item()
            if got != n + 2 * i:
                wrong.append((n, i, got))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
