"""matmul: f32 products of matrices beside numpy's BLAS: 1024³, and three shapes drawn from the seed.

A drawn shape must reach 0.7 of the named shape's ratio: the named one may not be a special case.
"""

from __future__ import annotations

import random
from typing import Final

from tools.bench.contestants import Contestant, Params, Setup, Work
from tools.bench.measure import interleave, ratios, spread
from tools.bench.result import Budget, Line, Result
from tools.bench.synchronous import timed, wait

ROUNDS: Final = 9
REPEAT: Final = 5
NAMED: Final = (1024, 1024, 1024)
SHARE: Final = 0.7
LEAST, MOST, DRAWN = 200, 1800, 3


def run(seed: int) -> Result:
    """Measure; GFLOPS."""
    shapes = [NAMED, *drawn(seed)]
    lines: list[Line] = []
    for shape in shapes:
        params: Params = {"shape": shape, "seed": seed}
        with Contestant("matmul", "ours", params) as ours, Contestant("matmul", "numpy", params) as numpy:
            seen = interleave({"ours": ours.round, "numpy": numpy.round}, ROUNDS)
            notes = ours.notes
        budget = Budget(0.4, 1.0, "ratio", more=True)
        if lines:
            named = spread(ratios(lines[0].ours, lines[0].peers)).median
            budget = Budget(float(f"{SHARE * named:.4g}"), None, "ratio", more=True)
        what = "f32 " + " x ".join(map(str, shape))
        lines.append(Line(what, "GFLOPS", seen["ours"], "numpy", seen["numpy"], budget, notes))
    return Result("matmul", lines)


def drawn(seed: int) -> list[tuple[int, int, int]]:
    """Return three shapes (m, n, k), each size drawn evenly by its logarithm between 200 and 1800."""
    draw = random.Random(seed)
    return [(_size(draw), _size(draw), _size(draw)) for _ in range(DRAWN)]


def _size(draw: random.Random) -> int:
    size: float = LEAST * (MOST / LEAST) ** draw.random()
    return round(size)


def _matrices(params: Params) -> tuple[object, object, float]:
    import numpy as np

    shape, seed = params["shape"], params["seed"]
    assert isinstance(shape, list) and isinstance(seed, int)
    m, n, k = shape
    make = np.random.default_rng(seed)
    a = make.standard_normal((m, k), dtype=np.float32)
    b = make.standard_normal((k, n), dtype=np.float32)
    return a, b, 2e-9 * m * n * k


def _ours(params: Params) -> Work:
    import numpy as np

    from tiny_core import Tensor, jit

    a, b, work = _matrices(params)
    assert isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
    x, y = Tensor(a).realize(), Tensor(b).realize()
    product = jit(lambda p, q: (p @ q).realize())
    for _ in range(3):
        got = product(x, y)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    error = float(np.abs(got.numpy() - exact).max() / np.abs(exact).max())
    assert error < 1e-5, f"the product is off by {error:.2g} of its greatest element"
    del got
    seconds = timed(lambda: product(x, y), REPEAT, wait)
    return Work(lambda: work / seconds(), {"error": error})


def _numpy(params: Params) -> Work:
    import numpy as np

    a, b, work = _matrices(params)
    assert isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
    seconds = timed(lambda: a @ b, REPEAT)
    return Work(lambda: work / seconds())


CONTESTANTS: Final[dict[str, Setup]] = {"ours": _ours, "numpy": _numpy}
