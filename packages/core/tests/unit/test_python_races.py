"""The race checker of the PYTHON device: what it finds, and what it must leave alone."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.devices.python.execute import execute
from tiny_core.devices.python.races import Conflict, Shadow
from tiny_core.errors import LaunchError, RaceError
from tiny_core.ir.uop import UOp

from .linear_kernels import Lines, group, i32, item, register, signature

f32 = dtypes.float32
TILE = 16


def matmul(n: int, barrier_after_fill: bool = True, barrier_after_use: bool = True) -> UOp:
    """C = A @ B, all n by n: a group of 16 by 16 items stages 16-wide tiles of A and B in near memory."""
    a, b, c = (UOp.param(i, f32, n * n, "r" if i < 2 else "w") for i in range(3))
    tile_a, tile_b = UOp.near(f32, TILE * TILE, 1), UOp.near(f32, TILE * TILE, 2)
    k, acc = Lines(), register(f32)
    x, y = k.add(item(TILE, 0)), k.add(item(TILE, 1))
    column, row = k.add(group(n // TILE, 0) * TILE + x), k.add(group(n // TILE, 1) * TILE + y)
    start = k.add(acc.store(i32(0), 0.0))
    t = k.loop(n // TILE, "t", "reduce")
    fill_a = k.add(tile_a.store(y * TILE + x, a.load(row * n + t * TILE + x)))
    fill_b = k.add(tile_b.store(y * TILE + x, b.load((t * TILE + y) * n + column)))
    ready = k.barrier(fill_a, fill_b) if barrier_after_fill else fill_b
    s = k.loop(TILE, "s", "reduce")
    inside = acc.after(start, t, s)
    product = tile_a.after(ready).load(y * TILE + s) * tile_b.after(ready).load(s * TILE + x)
    done = k.end(s, k.add(inside.store(i32(0), inside.load(i32(0)) + product)))
    done = k.end(t, k.barrier(done) if barrier_after_use else done)
    k.add(c.store(row * n + column, acc.after(done).load(i32(0))))
    return k.linear("matmul")


def run_matmul(linear: UOp, n: int, check: bool = True) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((n, n)).astype(np.float32) for _ in range(2))
    c, grid = np.zeros((n, n), np.float32), (n // TILE, n // TILE, 1)
    execute(linear, signature(linear, grid=grid, block=(TILE, TILE, 1)), [a, b, c], grid=grid, check=check)
    return c, a.astype(np.float64) @ b


def test_a_staged_matmul_with_its_barriers_passes() -> None:
    got, want = run_matmul(matmul(64), 64)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_missing_barrier_between_fill_and_use_is_found() -> None:
    with pytest.raises(RaceError, match=r"race in matmul at element \d+ of local memory \d: .*load.*store"):
        run_matmul(matmul(32, barrier_after_fill=False), 32)


def test_a_missing_barrier_around_the_loop_is_found() -> None:
    """The next iteration's fill overwrites what a slower item still reads."""
    with pytest.raises(RaceError, match=r"race in matmul at element \d+ of local memory \d: .*store.*load"):
        run_matmul(matmul(32, barrier_after_use=False), 32)


def test_the_checker_can_be_switched_off() -> None:
    run_matmul(matmul(32, barrier_after_use=False), 32, check=False)


def run_items(k: Lines, out: np.ndarray, groups: int, items: int) -> None:
    linear = k.linear("items")
    execute(linear, signature(linear, grid=(groups, 1, 1), block=(items, 1, 1)), [out], grid=(groups, 1, 1))


def test_two_items_writing_one_location() -> None:
    k = Lines()
    k.add(UOp.param(0, f32, 4, "w").store(item(8) % 4, 1.0))
    with pytest.raises(RaceError, match="at element 0 of buffer 0: item"):
        run_items(k, np.zeros(4, np.float32), 1, 8)


def test_groups_are_not_ordered_by_their_barriers() -> None:
    """Group g writes its element and, past a barrier, reads its neighbour's."""
    buf = UOp.param(0, f32, 4, "rw")
    k = Lines()
    me = k.add(group(2) * 2 + item(2))
    order = k.barrier(k.add(buf.store(me, 1.0)))
    k.add(buf.after(order).store(me, buf.after(order).load((me + 2) % 4)))
    with pytest.raises(RaceError, match=r"item 0 of group 0 in `.*load.*an item of group 1 in `.*store"):
        run_items(k, np.zeros(4, np.float32), 2, 2)


def test_within_a_group_a_barrier_orders_global_memory() -> None:
    buf = UOp.param(0, f32, 4, "rw")
    k = Lines()
    me = k.add(item(4))
    order = k.barrier(k.add(buf.store(me, me.cast(f32))))
    other = k.add(buf.after(order).load((me + 1) % 4))
    order = k.barrier(other)
    k.add(buf.after(order).store(me, other))
    out = np.zeros(4, np.float32)
    run_items(k, out, 1, 4)
    assert out.tolist() == [1, 2, 3, 0]


def test_reading_what_nobody_writes_is_free() -> None:
    """All items read one location, and each writes its own."""
    buf = UOp.param(0, f32, 9, "rw")
    k = Lines()
    k.add(buf.store(item(4) + group(2) * 4, buf.load(i32(8))))
    out = np.arange(9, dtype=np.float32)
    run_items(k, out, 2, 4)
    assert out.tolist() == [8] * 9


def test_a_read_by_many_conflicts_with_one_write() -> None:
    buf = UOp.param(0, f32, 8, "rw")
    k = Lines()
    me = k.add(item(8))
    value = k.add(buf.load(i32(0)))
    k.add(buf.store(me, value))
    with pytest.raises(RaceError, match=r"item 0 of group 0 in `.*store.*another item in `.*load"):
        run_items(k, np.zeros(8, np.float32), 1, 8)


def test_gated_off_items_do_not_race() -> None:
    buf = UOp.param(0, f32, 1, "rw")
    k = Lines()
    me = k.add(item(8))
    k.add(buf.store(i32(0), me.cast(f32), me.eq(5)))
    out = np.zeros(1, np.float32)
    run_items(k, out, 1, 8)
    assert out.tolist() == [5]


def test_iterations_of_a_thread_axis_race() -> None:
    y = UOp.param(0, f32, 8, "rw")
    k = Lines()
    i = k.loop(7, "i", "thread")
    k.end(i, k.add(y.store(i + 1, y.load(i))))
    linear = k.linear("shift")
    with pytest.raises(RaceError, match="race in shift"):
        execute(linear, signature(linear), [np.zeros(8, np.float32)], grid=(7,))


def test_overlapping_buffers_race() -> None:
    """The same memory under two PARAMs, an element apart, and under another dtype."""
    base = np.zeros(16, np.float32)
    for other, source in ((base[1:9], f32), (base.view(np.int16)[2:18], dtypes.int16)):
        x, y = UOp.param(0, source, len(other), "r"), UOp.param(1, f32, 8, "w")
        k = Lines()
        i = k.loop(8, "i", "thread")
        k.end(i, k.add(y.store(i, x.load(i).cast(f32))))
        linear = k.linear()
        with pytest.raises(RaceError):
            execute(linear, signature(linear), [other, base[:8]], grid=(8,))


def test_updating_in_place_is_no_race() -> None:
    base = np.arange(8, dtype=np.float32)
    x, y = UOp.param(0, f32, 8, "r"), UOp.param(1, f32, 8, "w")
    k = Lines()
    i = k.loop(8, "i", "thread")
    k.end(i, k.add(y.store(i, x.load(i) * 2.0)))
    linear = k.linear()
    execute(linear, signature(linear), [base, base], grid=(8,))
    assert base.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]


def barrier_in_loop(size: UOp) -> UOp:
    y = UOp.param(0, f32, 4, "w")
    k = Lines()
    i = k.loop(size, "i")
    done = k.end(i, k.barrier(i))
    k.add(y.after(done).store(item(4), 1.0))
    return k.linear("divergent")


def test_a_barrier_that_some_items_skip_is_an_error() -> None:
    linear = barrier_in_loop(item(4))
    with pytest.raises(LaunchError, match=r"only some items of a group reach node .*barrier"):
        execute(linear, signature(linear, block=(4, 1, 1)), [np.zeros(4, np.float32)], grid=(1, 1, 1))


def test_groups_may_meet_different_numbers_of_barriers() -> None:
    y = UOp.param(0, f32, 8, "w")
    k = Lines()
    g = k.add(group(2))
    i = k.loop(g + 1, "i")
    done = k.end(i, k.barrier(i))
    k.add(y.after(done).store(g * 4 + item(4), 1.0))
    linear = k.linear()
    out = np.zeros(8, np.float32)
    execute(linear, signature(linear, grid=(2, 1, 1), block=(4, 1, 1)), [out], grid=(2, 1, 1))
    assert out.tolist() == [1] * 8


# ---- the shadow itself, against a checker that looks at all pairs ----------------------------------------


Access = tuple[bool, int, int]  # whether it writes, the item, the place


def races(history: list[tuple[int, Access]], epochs: dict[int, int], access: Access, block: int) -> bool:
    """Whether an access conflicts with an earlier one; the history holds (epoch, access)."""
    writes, who, place = access
    for epoch, (wrote, other, where) in history:
        if where != place or other == who or not (wrote or writes):
            continue
        if other // block != who // block or epoch == epochs[who // block]:
            return True
    return False


@pytest.mark.parametrize(("groups", "block"), [(1, 4), (3, 1), (3, 2)])
@pytest.mark.parametrize("seed", range(60))
def test_the_shadow_agrees_with_a_comparison_of_all_pairs(groups: int, block: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shadow = Shadow(6, groups > 1, block > 1)
    history: list[tuple[int, Access]] = []
    epochs = dict.fromkeys(range(groups), 0)
    for node in range(60):
        if rng.random() < 0.3:
            epochs[int(rng.integers(groups))] += 1
            continue
        writes = bool(rng.random() < 0.3)
        count = int(rng.integers(1, 4))
        items = rng.choice(groups * block, min(count, groups * block), replace=False)
        batch: list[Access] = [(writes, int(i), int(rng.integers(6))) for i in items]
        expected = False
        for access in batch:
            expected |= races(history, epochs, access, block)
            history.append((epochs[access[1] // block], access))
        keys = np.array([(epochs[i // block] << 32) | i for _, i, _ in batch], np.int64)
        places = np.array([place for *_, place in batch], np.int64)
        owners = np.array([i // block for _, i, _ in batch], np.int32)
        touch = shadow.write if writes else shadow.read
        if expected:
            with pytest.raises(Conflict):
                touch(places, keys, owners, node)
            return
        touch(places, keys, owners, node)
