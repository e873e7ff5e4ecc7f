"""Threads of the host that compute at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tiny_conformance.target import Target
from tiny_core import Tensor


def test_each_thread_gets_its_results(target: Target) -> None:
    def work(n: int) -> bool:
        x = np.arange(50, dtype=np.int32) + n
        y = Tensor(x)
        for k in range(5):
            y = (y * 3 + k).realize()
            x = x * 3 + np.int32(k)
        return not target.stores or bool((y.numpy() == x).all())

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(16)))
