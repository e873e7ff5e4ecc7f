"""import: `import tiny_core`, and with the names a program uses first, beside numpy's import."""

from __future__ import annotations

from typing import Final

from tools.bench.measure import interleave
from tools.bench.processes import above_bare
from tools.bench.result import Budget, Line, Result

ROUNDS: Final = 11


def run(seed: int) -> Result:
    """Measure; milliseconds above a bare interpreter."""
    contestants = {
        "module": above_bare("import tiny_core"),
        "names": above_bare("from tiny_core import Tensor, nn, jit, Device, Context, GlobalCounters"),
        "numpy": above_bare("import numpy"),
    }
    for contestant in contestants.values():
        contestant()  # writes byte code, and brings the files into memory
    seen = interleave(contestants, ROUNDS, pause=0)
    budget = Budget(100, 40)
    return Result(
        "import",
        [
            Line("import tiny_core", "ms", seen["module"], "numpy", seen["numpy"], budget),
            Line("its public names", "ms", seen["names"], "numpy", seen["numpy"], budget),
        ],
    )
