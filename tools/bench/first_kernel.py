"""first_kernel: `(Tensor([1.,2,3])+1).tolist()` in a fresh process, beside the same in PyTorch.

Cold: the persistent cache is an empty folder. Warm: the folder of the run before. Byte code is warm in both.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from tools.bench.measure import Round, interleave
from tools.bench.processes import AboveBare
from tools.bench.result import Budget, Line, Result

ROUNDS: Final = 9
OURS: Final = "from tiny_core import Tensor; assert (Tensor([1.,2,3])+1).tolist() == [2, 3, 4]"
TORCH: Final = "import torch; assert (torch.tensor([1.,2,3])+1).tolist() == [2, 3, 4]"


def run(seed: int) -> Result:
    """Measure; milliseconds above a bare interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        empty, full = Path(folder, "cold"), Path(folder, "warm")
        cold_process = AboveBare(OURS, {"TINY_CACHE_DIR": str(empty)})

        def cold() -> float:
            shutil.rmtree(empty, ignore_errors=True)
            return cold_process()

        warm_process, torch = AboveBare(OURS, {"TINY_CACHE_DIR": str(full)}), AboveBare(TORCH)
        contestants: dict[str, Round] = {"cold": cold, "warm": warm_process, "torch": torch}
        for contestant in contestants.values():
            contestant()
        seen = interleave(contestants, ROUNDS, pause=0)
    return Result(
        "first_kernel",
        [
            Line(
                "cold cache",
                "ms",
                seen["cold"],
                "torch",
                seen["torch"],
                Budget(1000, 400),
                cold_process.notes,
            ),
            Line(
                "warm cache", "ms", seen["warm"], "torch", seen["torch"], Budget(400, 150), warm_process.notes
            ),
        ],
    )
