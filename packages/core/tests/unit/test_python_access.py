"""Bounds, alignment and access rights on the PYTHON device, and memory of the runtime."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.devices.python.execute import execute
from tiny_core.devices.python.memory import AccessError, Region
from tiny_core.errors import LaunchError
from tiny_core.ir.uop import UOp

from .linear_kernels import Lines, group, i32, item, register, signature

f32 = dtypes.float32


def copy_kernel(n: int, offset: int = 0, lanes: int = 0, align: int = 4, claim: int = 4) -> UOp:
    x, y = UOp.param(0, f32, n, "r", claim), UOp.param(1, f32, n, "w")
    k = Lines()
    i = k.loop(n // (lanes or 1), "i", "thread")
    at = i * (lanes or 1)
    k.end(i, k.add(y.store(at, x.load(at + offset, lanes=lanes, align=align))))
    return k.linear("copy")


def run(linear: UOp, n: int, address: int = 64, iterations: int | None = None) -> None:
    x = Region.of(np.zeros(n, np.float32), address)
    y = Region.of(np.zeros(n, np.float32), 1 << 20)
    execute(linear, signature(linear), [x, y], grid=(n if iterations is None else iterations,))


def test_an_element_past_the_end() -> None:
    with pytest.raises(AccessError, match=r"element 8 of buffer 0, which has 8: node \d+: %\d+ : f32 = load"):
        run(copy_kernel(8, offset=1), 8)


def test_a_negative_element() -> None:
    with pytest.raises(AccessError, match="element -2 of buffer 0"):
        run(copy_kernel(8, offset=-2), 8)


def test_a_vector_that_runs_over_the_end() -> None:
    with pytest.raises(AccessError, match="element 8 of buffer 0"):
        run(copy_kernel(8, offset=2, lanes=4), 8, iterations=2)


def test_a_gate_in_error_is_still_out_of_bounds() -> None:
    x, y = UOp.param(0, f32, 8), UOp.param(1, f32, 9, "w")
    k = Lines()
    i = k.loop(9, "i", "thread")
    k.end(i, k.add(y.store(i, x.load(i, i <= 8))))
    linear = k.linear()
    with pytest.raises(AccessError, match="element 8 of buffer 0"):
        execute(linear, signature(linear), [np.zeros(8, np.float32), np.zeros(9, np.float32)], grid=(9,))


def test_a_store_out_of_bounds_changes_nothing() -> None:
    y = UOp.param(0, f32, 4, "w")
    k = Lines()
    i = k.loop(5, "i", "thread")
    k.end(i, k.add(y.store(i, 1.0)))
    linear, out = k.linear(), np.zeros(4, np.float32)
    with pytest.raises(AccessError, match=r"element 4 of buffer 0, which has 4: node \d+: %\d+ = store"):
        execute(linear, signature(linear), [out], grid=(5,))
    assert not out.any()


def test_near_memory_has_bounds_too() -> None:
    near, k = UOp.near(f32, 4, 1), Lines()
    k.add(near.store(group(2) * 2 + item(3), 1.0))
    linear = k.linear()
    with pytest.raises(AccessError, match="element 4 of local memory 1"):
        execute(linear, signature(linear, block=(3, 1, 1)), [], grid=(2, 1, 1))


def test_an_access_aligned_worse_than_it_claims() -> None:
    run(copy_kernel(16, lanes=4, align=16), 16, iterations=4)
    with pytest.raises(
        AccessError, match=r"address 0x44 in buffer 0 is not aligned to 16 bytes: node \d+: .* = load"
    ):
        run(copy_kernel(16, lanes=4, align=16), 16, address=68, iterations=4)
    with pytest.raises(AccessError, match="not aligned to 16 bytes"):
        run(copy_kernel(16, offset=1, lanes=4, align=16), 16, iterations=3)


def test_a_buffer_aligned_worse_than_its_parameter_claims() -> None:
    run(copy_kernel(8, claim=64), 8)
    with pytest.raises(AccessError, match="buffer 0 of copy is at 0x60, not aligned to 64 bytes"):
        run(copy_kernel(8, claim=64), 8, address=96)


def test_elements_that_are_not_aligned_at_all() -> None:
    with pytest.raises(AccessError, match="is not aligned to 4 bytes"):
        execute(
            (linear := copy_kernel(4, claim=1)),
            signature(linear),
            [Region.of(np.zeros(4, np.float32), 66), Region.of(np.zeros(4, np.float32), 1024)],
            grid=(4,),
        )


@pytest.mark.parametrize(("access", "word"), [("r", "store"), ("w", "load")])
def test_access_rights(access: str, word: str) -> None:
    x, y = UOp.param(0, f32, 4, access), UOp.param(1, f32, 4, "w")
    k = Lines()
    k.add(x.store(i32(0), 1.0) if word == "store" else y.store(i32(0), x.load(i32(0))))
    linear = k.linear()
    with pytest.raises(AccessError, match=f"buffer 0 has access '{access}', but node .*{word}"):
        execute(linear, signature(linear), [np.zeros(4, np.float32)] * 2)


def test_registers_are_written_before_they_are_read() -> None:
    k = Lines()
    k.add(UOp.param(0, f32, 1, "w").store(i32(0), register(f32).load(i32(0))))
    linear = k.linear()
    with pytest.raises(LaunchError, match="read before it is written"):
        execute(linear, signature(linear), [np.zeros(1, np.float32)])


def test_buffers_and_grids_must_fit() -> None:
    linear = copy_kernel(8)
    with pytest.raises(LaunchError, match="has 16 bytes and needs 32"):
        execute(linear, signature(linear), [np.zeros(4, np.float32)] * 2, grid=(8,))
    with pytest.raises(LaunchError, match="was given 1 buffers"):
        execute(linear, signature(linear), [np.zeros(8, np.float32)], grid=(8,))
    k = Lines()
    k.add(UOp.param(0, f32, 8, "w").store(item(8), 1.0))
    linear = k.linear()
    with pytest.raises(LaunchError, match=r"item shape of \(4, 1, 1\)"):
        execute(linear, signature(linear, block=(4, 1, 1)), [np.zeros(8, np.float32)], grid=(1, 1, 1))


def test_an_empty_buffer_may_be_loaded_where_no_lane_is_on() -> None:
    x, y = UOp.param(0, f32, 0), UOp.param(1, f32, 4, "w")
    k = Lines()
    off = UOp.const(False, dtypes.bool_, 4)
    k.add(y.store(i32(0), x.load(i32(0), off, 3.0 * UOp.const(1.0, f32, 4), lanes=4)))
    linear, out = k.linear(), np.zeros(4, np.float32)
    execute(linear, signature(linear), [np.zeros(0, np.float32), out])
    assert out.tolist() == [3, 3, 3, 3]
