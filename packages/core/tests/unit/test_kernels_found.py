"""Graphs of kinds that were wrong once (`kernels.txt`), on every target, against the numpy oracle.

PYTHON also checks every access and every race between items, on host-shaped and GPU-shaped kernels.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tiny_core.ir.ops import Ops
from tiny_core.ir.text import parse
from tiny_core.schedule import reductions

from ..fuzz_schedule import problem, thresholds
from ..oracle import numpy_dtype
from ..random_graphs import Case

TARGETS = ["CPU:C", "PYTHON"]
if importlib.util.find_spec("tiny_renderer_llvm") is not None:
    TARGETS += ["CPU:LLVM", "PYTHON:LLVM:gfx1100"]


def graphs() -> list[object]:
    blocks = (Path(__file__).parent / "kernels.txt").read_text().split("\n== ")[1:]
    return [pytest.param(body, id=title) for title, _, body in (b.partition("\n") for b in blocks)]


def case(text: str) -> Case:
    """The roots of a graph, and small whole numbers for its storage."""
    graph = parse(text)
    rng = np.random.default_rng(0)
    data = {
        n: rng.integers(0 if n.dtype.is_unsigned else -4, 5, n.size).astype(numpy_dtype(n.dtype))
        for n in graph.toposort()
        if n.op is Ops.BUFFER
    }
    return Case(list(graph.src), data)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text", graphs())
def test_a_graph_that_was_wrong_once(text: str, target: str) -> None:
    assert problem(case(text), target) == ""


@pytest.mark.parametrize("text", graphs())
def test_also_where_everything_is_split_and_little_is_fused(text: str) -> None:
    with thresholds({(reductions, "ROW"): 4, (reductions, "MANY_INPUTS"): 16, (reductions, "SMALL"): 2}):
        assert problem(case(text), "PYTHON") == ""
