"""replay: what the host spends on a kernel of a captured function, beside PyTorch's cost of an operation.

A captured chain of 256 kernels over 16 numbers, each reading the last one's result. The kernels themselves
take some ten nanoseconds. The whole call is divided by the number of kernels; what a longer chain adds to a
shorter one is given too.
"""

from __future__ import annotations

import time
from typing import Final

from tools.bench.contestants import Contestant, Params, Setup, Work
from tools.bench.measure import interleave
from tools.bench.result import Budget, Line, Result
from tools.bench.synchronous import timed, wait

ROUNDS: Final = 11
REPEAT: Final = 20
KERNELS: Final = 256
SIZE: Final = 16


def run(seed: int) -> Result:
    """Measure; microseconds a kernel."""
    with (
        Contestant("replay", "ours") as ours,
        Contestant("replay", "torch") as torch,
    ):
        seen = interleave({"ours": ours.round, "torch": torch.round}, ROUNDS)
        notes = ours.notes
    return Result(
        "replay",
        [
            Line(
                f"{KERNELS} kernels of {SIZE} numbers",
                "µs",
                seen["ours"],
                "torch",
                seen["torch"],
                Budget(10, 0.5),
                notes,
            )
        ],
    )


def _ours(params: Params) -> Work:
    from tiny_core import GlobalCounters, Tensor, jit

    def chain(length: int) -> tuple[object, Tensor, int]:
        @jit
        def f(x: Tensor) -> Tensor:
            for _ in range(length):
                x = (x * 0.5 + 1).realize()
            return x

        x = Tensor([float(i) for i in range(SIZE)]).realize()
        for _ in range(3):
            f(x)
        GlobalCounters.reset()
        assert abs(f(x)[0].item() - (2 - 2 * 0.5**length)) < 1e-6
        return f, x, GlobalCounters.kernel_count

    f, x, kernels = chain(KERNELS)
    g, y, few = chain(KERNELS // 8)
    assert callable(f) and callable(g)
    assert kernels >= KERNELS, f"{kernels} kernels are replayed"
    seconds = timed(lambda: f(x), REPEAT, wait)
    short = timed(lambda: g(y), REPEAT, wait)
    slope = (seconds() - short()) / (kernels - few)
    start = time.perf_counter()
    f(x)
    submitted = time.perf_counter() - start
    wait()
    return Work(
        lambda: 1e6 * seconds() / kernels,
        {"kernels": kernels, "us_per_added_kernel": 1e6 * slope, "us_to_submit_all": 1e6 * submitted},
    )


def _torch(params: Params) -> Work:
    import torch

    start = torch.arange(float(SIZE))

    def chain() -> torch.Tensor:
        x = start
        for _ in range(KERNELS):
            x = torch.add(x, 1.0)
        return x

    seconds = timed(chain, REPEAT)
    return Work(lambda: 1e6 * seconds() / KERNELS)


CONTESTANTS: Final[dict[str, Setup]] = {"ours": _ours, "torch": _torch}
