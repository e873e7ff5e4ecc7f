"""The oracle against published and hand-computed values, and against numpy's own."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor import graph as g

from ..oracle import convert, evaluate, threefry


@pytest.mark.parametrize(
    ("counter", "key", "want"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_has_the_known_answers_of_random123(
    counter: tuple[int, int], key: tuple[int, int], want: tuple[int, int]
) -> None:
    def word(pair: tuple[int, int]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
        return np.array([pair[0] | pair[1] << 32], np.uint64)

    assert int(threefry(word(counter), word(key))[0]) == want[0] | want[1] << 32


def test_windows_and_their_adjoint() -> None:
    x = UOp.buffer(dtypes.float32, 7, "CPU")
    wide = g.expand(g.reshape(x, (7, 1)), (7, 3))
    data = {x: np.arange(7, dtype=np.float32)}
    windows = g.shear(wide, 0, 1, 2, 1, 3)
    want = np.lib.stride_tricks.sliding_window_view(data[x], 3)[::2]
    np.testing.assert_array_equal(evaluate(windows, data), want)
    back = UOp(Ops.UNSHEAR, windows.dtype, (windows,), p.Shear(0, 1, 2, 1, 7))
    shown = evaluate(back, data)
    for i in range(7):
        for j in range(3):
            o, rest = divmod(i - j, 2)
            assert shown[i, j] == (want[o, j] if rest == 0 and 0 <= o < 3 else 0)


def test_versions_are_read_side_by_side() -> None:
    x = UOp.buffer(dtypes.int32, 4, "CPU")
    part = g.shrink(x, ((1, 3),))
    first = UOp(Ops.AFTER, x.dtype, (x, UOp(Ops.STORE, dtypes.void, (part, g.const(9, x.dtype, (2,))))))
    tail = g.flip(g.shrink(first, ((2, 4),)), (0,))
    second = UOp(Ops.AFTER, x.dtype, (first, UOp(Ops.STORE, dtypes.void, (tail, g.shrink(x, ((0, 2),))))))
    total = g.alu(Ops.ADD, g.alu(Ops.MUL, first, g.const(100, x.dtype, (4,))), second)
    data = {x: np.array([1, 2, 3, 4], np.int32)}
    assert evaluate(total, data).tolist() == [101, 909, 902, 401]
    assert data[x].tolist() == [1, 2, 3, 4]


def test_conversion_saturates() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 2.9, -2.9, 3e9])
    assert convert(x, dtypes.int32).tolist() == [0, 2**31 - 1, -(2**31), 2, -2, 2**31 - 1]
    assert convert(x, dtypes.uint8).tolist() == [0, 255, 0, 2, 0, 255]
