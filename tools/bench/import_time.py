"""import: `import tiny_core`, and with the names a program uses first, beside numpy's import."""

from __future__ import annotations

from typing import Final

from tools.bench.measure import interleave
from tools.bench.processes import AboveBare
from tools.bench.result import Budget, Line, Result

ROUNDS: Final = 11


def run(seed: int) -> Result:
    """Measure; milliseconds above a bare interpreter."""
    contestants = {
        "module": AboveBare("import tiny_core"),
        "names": AboveBare("from tiny_core import Tensor, nn, jit, Device, Context, GlobalCounters"),
        "numpy": AboveBare("import numpy"),
    }
    for contestant in contestants.values():
        contestant()  # writes byte code, and brings the files into memory
    seen = interleave(contestants, ROUNDS, pause=0)
    return Result(
        "import",
        [
            Line(what, "ms", seen[key], "numpy", seen["numpy"], budget, contestants[key].notes)
            for what, key, budget in (
                ("import tiny_core", "module", Budget(100, 40)),
                ("its public names", "names", None),  # imported when they are first used
            )
        ],
    )
