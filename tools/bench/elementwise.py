"""elementwise: x + 1 and the sums of rows of 256 MB, beside PyTorch and beside what the memory gives.

Bytes are counted once read and once written. What the memory gives is measured by copying: two threads, each
half of the array, by the C library's memmove, which writes past the caches at this size.
"""

from __future__ import annotations

from typing import Final

from tools.bench.contestants import THREADS, Contestant, Params, Setup, Work
from tools.bench.measure import interleave
from tools.bench.result import Budget, Line, Result
from tools.bench.synchronous import timed, wait

ROUNDS: Final = 9
REPEAT: Final = 3
ROWS, COLUMNS = 8192, 8192
NBYTES: Final = 4 * ROWS * COLUMNS
COUNTED: Final = {"add": 2e-9 * NBYTES, "sum": 1e-9 * NBYTES}
LABEL: Final = {"add": "x + 1", "sum": "row sum"}


def run(seed: int) -> Result:
    """Measure; GB/s."""
    lines: list[Line] = []
    with Contestant("elementwise", "copy") as copy:
        for work, label in LABEL.items():
            params: Params = {"work": work}
            with (
                Contestant("elementwise", "ours", params) as ours,
                Contestant("elementwise", "torch", params) as torch,
            ):
                seen = interleave({"ours": ours.round, "torch": torch.round, "copy": copy.round}, ROUNDS)
            budget = Budget(0.5, 0.9, "ratio", more=True)
            lines.append(Line(label, "GB/s", seen["ours"], "memory", seen["copy"], budget))
            lines.append(Line(label, "GB/s", seen["ours"], "torch", seen["torch"]))
    return Result("elementwise", lines)


def _ours(params: Params) -> Work:
    import numpy as np

    from tiny_core import Tensor, jit

    data = np.random.default_rng(0).standard_normal((ROWS, COLUMNS), dtype=np.float32)
    x = Tensor(data).realize()
    work = str(params["work"])
    f = jit(lambda t: ((t + 1) if work == "add" else t.sum(1)).realize())
    for _ in range(3):
        got = f(x)
    part = data[:64].astype(np.float64)
    want = part + 1 if work == "add" else part.sum(1)
    assert np.allclose(got.numpy()[:64], want, rtol=1e-4, atol=1e-3), "the values are wrong"
    del got, data
    seconds = timed(lambda: f(x), REPEAT, wait)
    return Work(lambda: COUNTED[work] / seconds())


def _torch(params: Params) -> Work:
    import torch

    torch.set_num_threads(THREADS)
    x = torch.randn(ROWS, COLUMNS)
    y = torch.empty_like(x)
    work = str(params["work"])
    seconds = timed((lambda: torch.add(x, 1.0, out=y)) if work == "add" else (lambda: x.sum(1)), REPEAT)
    return Work(lambda: COUNTED[work] / seconds())


def _copy(params: Params) -> Work:
    import ctypes
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    source, dest = np.ones(NBYTES, np.uint8), np.zeros(NBYTES, np.uint8)
    part = NBYTES // THREADS
    begins = [(dest.ctypes.data + i * part, source.ctypes.data + i * part) for i in range(THREADS)]
    pool = ThreadPoolExecutor(THREADS)

    def copy() -> None:
        for job in [
            pool.submit(ctypes.memmove, d, s, part) for d, s in begins
        ]:  # without the interpreter's lock
            job.result()
        assert dest[0] == source[0]

    seconds = timed(copy, REPEAT)
    return Work(lambda: 2e-9 * NBYTES / seconds())


CONTESTANTS: Final[dict[str, Setup]] = {"ours": _ours, "torch": _torch, "copy": _copy}
