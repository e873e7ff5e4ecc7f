"""Decompositions compiled for this machine give the bits of the numpy evaluator: nothing was contracted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.codegen.decompose import decompose
from tiny_core.codegen.linearize import linearize
from tiny_core.dtypes import DType
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.renderer import Compiled

from ..cpu_programs import aligned, compiler, needs_compiler, renderer, run
from ..linear_kernels import signature

pytestmark = needs_compiler
N = 4096


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("op", [Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW], ids=lambda o: o.value)
def test_bits_of_the_machine(
    op: Ops, dtype: DType, lanes: int, compute: Callable[..., list[np.ndarray]]
) -> None:
    caps = renderer().capabilities
    count = N // max(lanes, 1)
    i = UOp.range(UOp.const(count, dtypes.int32), "i")
    at = i * lanes if lanes else i
    arity = 2 if op is Ops.POW else 1
    loads = tuple(UOp.param(k, dtype, N).load(at, lanes=lanes) for k in range(arity))
    store = UOp.param(arity, dtype, N, "w").store(at, UOp(op, dtype, loads))
    graph = decompose(UOp.sink(store.end(i)), caps)
    rng = np.random.default_rng(11)
    word = np.uint32 if dtype.bits == 32 else np.uint64
    arrays = []
    for _ in range(arity):
        bits = rng.integers(0, np.iinfo(word).max, N // 2, word, endpoint=True).view(dtype.name)
        arrays.append(
            aligned(N, dtype, np.concatenate([bits, rng.uniform(-30, 30, N // 2).astype(dtype.name)]))
        )
    want, got = np.zeros(N, dtype.name), aligned(N, dtype)
    compute((graph,), caps, dict(enumerate([*arrays, want])), count)
    linear = linearize(graph, p.KernelInfo("kernel"))
    how = signature(linear)
    binary = compiler().compile(renderer().render(linear, how), "kernel")
    run(Compiled(how, binary), [*arrays, got])
    same = (got.view(word) == want.view(word)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), (got[~same][:4], want[~same][:4])
