"""Two threads build and run graphs at once: settings are each thread's own, what is shared is whole, and
nothing is lost. Interpreter switches are made frequent; each test ends after a number of rounds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tiny_core import Context, Tensor, jit

ROUNDS = 25


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def _together(*works: Callable[[], None]) -> None:
    """Run functions in threads of their own; raises the first error."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(works))

    def guarded(work: Callable[[], None]) -> None:
        try:
            start.wait()
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "two threads wait for each other"
    if errors:
        raise errors[0]


def test_graphs_of_their_own_over_weights_that_are_shared() -> None:
    weights = np.array([[float(i + j) for j in range(8)] for i in range(8)], np.float32)
    w = Tensor(weights)
    pending = w * 2 + 1  # read by both, and not computed
    step = jit(lambda x: (x @ w).relu().sum(1))

    def work(seed: int) -> Callable[[], None]:
        def run() -> None:
            rng = np.random.default_rng(seed)
            with Context(TRAINING=seed % 2, OPTIMIZE=seed % 2):
                for _ in range(ROUNDS):
                    a = rng.random((rng.integers(1, 9), 8), np.float32)
                    x = Tensor(a)
                    y = x @ w + pending[: len(a)] * 0
                    np.testing.assert_allclose(y.numpy(), a @ weights, rtol=1e-4)
                    np.testing.assert_allclose(y.softmax(1).sum(1).numpy(), 1, rtol=1e-4)
                    np.testing.assert_allclose(step(x).numpy(), (a @ weights).sum(1), rtol=1e-4)
                    np.testing.assert_array_equal(w[1:3].reshape(16)[1:].numpy(), weights[1:3].ravel()[1:])
                    p = Tensor(a, requires_grad=True)
                    (p * p).sum().backward()
                    assert p.grad is not None
                    np.testing.assert_allclose(p.grad.numpy(), 2 * a)
                    x += 1
                    x[0] = 0.0
                    np.testing.assert_allclose(x.numpy()[1:], (a + 1)[1:])
                    assert Tensor.training is bool(seed % 2)

        return run

    _together(work(0), work(1))


def test_one_assigns_while_others_read() -> None:
    """Readers see the array at one time: all its elements are equal. No assignment is lost or done twice."""
    total = Tensor([0.0] * 64).realize()
    done = threading.Event()

    def assign() -> None:
        for i in range(6 * ROUNDS):
            total.assign(total + 1)
            if i % 3 == 0:
                total.realize()
        done.set()

    def read() -> None:
        last = -1.0
        while not done.is_set():
            seen = (total[3:60].reshape(57) * 1 + total[0:57] * 0).numpy()
            assert (seen == seen[0]).all() and seen[0] >= last
            last = seen[0]

    _together(assign, read, read)
    assert total.tolist() == [6.0 * ROUNDS] * 64


def test_one_realizes_what_others_make_views_of() -> None:
    box = [Tensor([[1.0] * 8] * 8) * 2]
    done = threading.Event()

    def realize() -> None:
        for _ in range(4 * ROUNDS):
            box[0] = Tensor([[1.0] * 8] * 8) * 2
            box[0].realize()
        done.set()

    def view() -> None:
        while not done.is_set():
            t = box[0]
            part = t[1:3].reshape(16)[2:].permute(0).detach() + t.T.sum()
            assert repr(t[0]) and part.tolist() == [130.0] * 14

    _together(realize, view, view)


def test_random_numbers_are_given_once() -> None:
    Tensor.manual_seed(3)
    expected = np.sort(Tensor.rand(2 * ROUNDS * 16).numpy())
    Tensor.manual_seed(3)
    drawn: list[Tensor] = []

    def draw() -> None:
        for i in range(ROUNDS):
            drawn.append(Tensor.rand(16))
            if i % 3 == 0:
                drawn[-1].realize()

    _together(draw, draw)
    got = np.sort(np.concatenate([t.numpy() for t in drawn]))
    np.testing.assert_array_equal(got, expected)


def test_settings_are_each_threads_own() -> None:
    def asks(name: str) -> Callable[[], None]:
        def run() -> None:
            for _ in range(ROUNDS):
                with Context(DEV=name):
                    x = Tensor([1.0, 2.0])
                    assert x.device == name and (x + 1).tolist() == [2.0, 3.0]

        return run

    _together(asks("PYTHON"), asks("CPU"))


def test_one_kernel_compiled_by_two_threads() -> None:
    results: list[object] = []
    values = [float(i) for i in range(37)]

    def run() -> None:
        with Context(CACHE=0):
            for i in range(5):
                x = Tensor(values)
                results.append((x * (i + 2) - x).sum().item())

    _together(run, run)
    assert sorted(results) == sorted([666.0 * (i + 1) for i in range(5)] * 2)  # type: ignore[type-var]
