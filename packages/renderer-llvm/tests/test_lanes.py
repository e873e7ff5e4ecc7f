"""STACK, INDEX and SHUFFLE against numpy indexing."""

from __future__ import annotations

import numpy as np
import pytest
from llvm_kernels import Body, render, run

from tiny_core.api import Ops, RenderError, UOp, dtypes, payload

F32, I32 = dtypes.float32, dtypes.int32


def shuffle(lanes: tuple[int, ...], *src: UOp) -> UOp:
    return UOp(Ops.SHUFFLE, src[0].dtype, src, payload.Shuffle(lanes))


@pytest.mark.parametrize(
    ("widths", "lanes"),
    [
        ((8,), (7, 6, 5, 4, 3, 2, 1, 0)), ((8,), (0, 0, 4, 4)), ((8,), (0, 1, 2, 3, 4, 5, 6, 7)), ((4, 4),
        (0, 4, 1, 5, 2, 6, 3, 7)), ((4, 4, 4, 4), (0, 4, 8, 12, 15, 11, 7, 3)), ((2, 8), (0, 9, 1, 2)), ((4,
        4, 8), (15, 0, 5, 15, 3, 8, 4, 2)), ((8,), (3, 5)),
    ],
)  # fmt: skip
def test_shuffle(widths: tuple[int, ...], lanes: tuple[int, ...]) -> None:
    n = sum(widths)
    body, start, src = Body(), 0, []
    for w in widths:
        src.append(body(UOp.param(0, F32, n).load(start, lanes=w)))
        start += w
    body(UOp.param(1, F32, len(lanes), "w").store(0, body(shuffle(lanes, *src))))
    data, got = np.arange(n, dtype=np.float32), np.zeros(len(lanes), np.float32)
    run(body, [data, got])
    assert (got == data[list(lanes)]).all()


def test_stack_of_constants_values_and_both() -> None:
    body = Body()
    x = body(UOp.param(0, I32, 4).load(0))
    y = body(UOp.param(0, I32, 4).load(1))
    c = [UOp.const(v, I32) for v in (10, -20, 30, 40)]
    out = UOp.param(1, I32, 20, "w")
    rows = [(x, x, x, x), (x, y, y, x), (c[0], x, c[2], y), tuple(c), (c[1],) * 4]
    for i, row in enumerate(rows):
        body(out.store(4 * i, body(UOp(Ops.STACK, I32, row))))
    got = np.zeros(20, np.int32)
    run(body, [np.array([1, 2, 3, 4], np.int32), got])
    assert got.reshape(5, 4).tolist() == [
        [1, 1, 1, 1], [1, 2, 2, 1], [10, 1, 30, 2], [10, -20, 30, 40], [-20, -20, -20, -20],
    ]  # fmt: skip


def test_index_of_a_load_of_a_stack_and_stack_of_indices() -> None:
    body = Body()
    v = body(UOp.param(0, F32, 8).load(0, lanes=8))
    out = UOp.param(1, F32, 8, "w")
    body(out.store(0, v.lane(5)))
    body(out.store(1, UOp(Ops.STACK, F32, (v.lane(1), v.lane(2))).lane(1)))
    body(out.store(4, body(UOp(Ops.STACK, F32, tuple(v.lane(i) for i in (6, 4, 2, 0))))))
    got = np.zeros(8, np.float32)
    run(body, [np.arange(8, dtype=np.float32), got])
    assert got.tolist() == [5, 2, 0, 0, 6, 4, 2, 0]


def test_stack_of_bools_is_a_mask() -> None:
    body = Body()
    gates = tuple(body(UOp.param(0, dtypes.bool_, 4).load(i)) for i in range(4))
    mask = body(UOp(Ops.STACK, dtypes.bool_, gates))
    x = body(UOp.param(1, F32, 4).load(0, lanes=4))
    body(UOp.param(2, F32, 4, "w").store(0, mask.where(x, UOp.const(-1.0, F32, 4)), mask))
    got = np.full(4, 9, np.float32)
    run(body, [np.array([1, 0, 0, 1], np.bool_), np.arange(4, dtype=np.float32), got])
    assert got.tolist() == [0, 9, 9, 3]


def test_a_width_that_is_not_declared_is_an_error() -> None:
    body = Body()
    body(UOp.param(1, F32, 8, "w").store(0, body(UOp.param(0, F32, 8).load(0, lanes=3))))
    with pytest.raises(RenderError, match="declared widths are 2, 4"):
        render(body)
