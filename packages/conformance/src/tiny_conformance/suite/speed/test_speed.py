"""Figures of speed for the report. None of them is a test: what is slow does not fail."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from tiny_conformance.plugin import Measured
from tiny_conformance.target import Target
from tiny_core import Device, Tensor, jit

pytestmark = [pytest.mark.needs("stores"), pytest.mark.large]


def seconds(work: Callable[[], object], target: Target, rounds: int = 7) -> float:
    """The least of several times of a call, waiting included."""
    device = Device[target.device]
    least = float("inf")
    for _ in range(rounds):
        device.synchronize()
        start = time.perf_counter()
        work()
        device.synchronize()
        least = min(least, time.perf_counter() - start)
    return least


def test_bandwidth(target: Target, measured: Measured) -> None:
    x = Tensor(np.ones(1 << 24, np.float32)).realize()
    add = jit(lambda x: (x + 1).realize())
    for _ in range(3):
        add(x)
    measured("elementwise", 2 * 4 * (1 << 24) / seconds(lambda: add(x), target) / 1e9, "GB/s")
    total = jit(lambda x: x.sum().realize())
    for _ in range(3):
        total(x)
    measured("sum", 4 * (1 << 24) / seconds(lambda: total(x), target) / 1e9, "GB/s")


def test_copies(target: Target, measured: Measured) -> None:
    data = np.ones(1 << 24, np.float32)
    measured("to the device", data.nbytes / seconds(lambda: Tensor(data).realize(), target) / 1e9, "GB/s")
    x = Tensor(data).realize()
    measured("to the host", data.nbytes / seconds(lambda: bytes(x.data()), target) / 1e9, "GB/s")


def test_matmul(target: Target, measured: Measured) -> None:
    n = 512
    x, y = (Tensor(np.ones((n, n), np.float32)).realize() for _ in range(2))
    product = jit(lambda x, y: (x @ y).realize())
    for _ in range(3):
        product(x, y)
    measured("matmul of 512", 2 * n**3 / seconds(lambda: product(x, y), target) / 1e9, "GFLOPS")


def test_a_replay_of_many_small_kernels(target: Target, measured: Measured) -> None:
    @jit
    def chain(x: Tensor) -> Tensor:
        for _ in range(32):
            x = (x + 1).realize()
        return x

    x = Tensor(np.ones(16, np.float32)).realize()
    for _ in range(3):
        chain(x)
    measured("kernel of a replay", seconds(lambda: chain(x), target) / 32 * 1e6, "us")
