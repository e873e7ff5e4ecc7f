"""convnet_step: a captured training step of the conv-net, batch 512, loss read, beside PyTorch eager."""

from __future__ import annotations

import time
from typing import Final

from tools.bench.contestants import THREADS, Contestant, Params, Setup, Work
from tools.bench.convnet import BATCH, our_step, torch_step
from tools.bench.measure import interleave
from tools.bench.result import Budget, Line, Result
from tools.bench.synchronous import timed

ROUNDS: Final = 7
REPEAT: Final = 2
CAPTURES: Final = 4
"""Calls before the measured ones: state is made in the first, and the second captures."""


def run(seed: int) -> Result:
    """Measure; seconds a step."""
    with (
        Contestant("convnet_step", "ours", {"seed": seed}) as ours,
        Contestant("convnet_step", "torch", {"seed": seed}) as torch,
    ):
        seen = interleave({"ours": ours.round, "torch": torch.round}, ROUNDS)
        notes = ours.notes
    budget = Budget(3.0, 1.0, "ratio")
    line = Line(f"step of batch {BATCH}", "s", seen["ours"], "torch", seen["torch"], budget, notes)
    return Result("convnet_step", [line])


def _ours(params: Params) -> Work:
    from tiny_core import GlobalCounters, jit

    seed = params["seed"]
    assert isinstance(seed, int)
    start = time.perf_counter()
    step, x, y = our_step(BATCH, seed)
    captured = jit(step)
    losses = [captured(x, y).item() for _ in range(CAPTURES)]
    warm = time.perf_counter() - start
    assert losses[-1] < losses[0], f"it does not learn: losses {losses}"
    GlobalCounters.reset()
    captured(x, y).item()
    notes = {"kernels": GlobalCounters.kernel_count, "seconds_before_first_replay": round(warm, 2)}
    return Work(timed(lambda: captured(x, y).item(), REPEAT), {**notes})


def _torch(params: Params) -> Work:
    import torch

    torch.set_num_threads(THREADS)
    step = torch_step(BATCH)
    return Work(timed(lambda: step().item(), REPEAT))


CONTESTANTS: Final[dict[str, Setup]] = {"ours": _ours, "torch": _torch}
