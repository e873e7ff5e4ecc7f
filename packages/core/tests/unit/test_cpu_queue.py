"""The CPU's queue: commands in order, replayed on other tables, with copies, time stamps, signals and
waits."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tiny_core.api import LaunchError, Ops, UOp, dtypes, payload, queue
from tiny_core.devices.cpu.queue import CpuQueue
from tiny_core.devices.cpu.runtime import CpuProgram, CpuRuntime

from .cpu_programs import aligned, build, load, needs_compiler, params, runtime
from .linear_kernels import Lines

pytestmark = needs_compiler
Slot = queue.Slot


def adding(size: int) -> CpuProgram:
    """b = a + step, where step is a scalar."""
    lines = Lines()
    a, b = params(lines, (dtypes.int64, size, "r"), (dtypes.int64, size, "w"))
    step = lines.add(UOp(Ops.VARIABLE, dtypes.int64, (), payload.Variable("step", 0, 100)))
    axis = lines.loop(size, "i", "thread")
    lines.end(axis, lines.add(b.store(axis, a.load(axis) + step)))
    return load(build(lines, scalars=("step",), parallel=size))


def make(*commands: queue.Command) -> queue.Queue:
    result = runtime().queue()
    assert isinstance(result, CpuQueue)
    for command in commands:
        result.append(command)
    return result


def launch(program: CpuProgram, a: Slot, b: Slot, step: int | str, size: int) -> queue.Launch:
    return queue.Launch(program, (a, b), (step,), (size,))


def test_commands_run_in_order_and_replay_on_other_tables() -> None:
    program = adding(32)
    work = make(
        launch(program, Slot(0), Slot(1), 5, 32),
        launch(program, Slot(1), Slot(1), "step", 32),
        queue.Barrier(),
        queue.Copy(Slot(2), Slot(1), 32 * 8),
        launch(program, Slot(2), Slot(2), 1, 32),
    )
    for round_, step in enumerate((10, 20, 30)):
        x, y, z = (aligned(32, dtypes.int64, np.arange(32) * round_) for _ in range(3))
        work.submit(queue.Submission([a.ctypes.data for a in (x, y, z)], {"step": step, "unused": 1}))
        assert (y == x + 5 + step).all() and (z == y + 1).all()


def test_slots_have_offsets() -> None:
    program = adding(4)
    x, y = aligned(8, dtypes.int64, np.arange(8)), aligned(8, dtypes.int64)
    make(launch(program, Slot(0, 32), Slot(1, 16), 0, 4)).submit(
        queue.Submission([x.ctypes.data, y.ctypes.data])
    )
    assert y.tolist() == [0, 0, 4, 5, 6, 7, 0, 0]


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 1000, 65536, 65537, 1_000_003])
def test_copies_of_any_size(nbytes: int) -> None:
    x, y = (aligned(nbytes + 2, dtypes.uint8) for _ in range(2))
    x[:] = np.random.default_rng(nbytes).integers(1, 255, nbytes + 2)
    make(queue.Copy(Slot(1, 1), Slot(0, 1), nbytes)).submit(queue.Submission([x.ctypes.data, y.ctypes.data]))
    assert (y[1 : nbytes + 1] == x[1 : nbytes + 1]).all() and y[0] == y[-1] == 0


def test_time_stamps_are_the_clock_in_order() -> None:
    program = adding(4)
    x = aligned(4, dtypes.int64)
    work = make(queue.Timestamp(3), launch(program, Slot(0), Slot(0), 1, 4), queue.Timestamp(8))
    for _ in range(2):
        submission = queue.Submission([x.ctypes.data])
        before = time.monotonic_ns()
        work.submit(submission)
        after = time.monotonic_ns()
        assert sorted(submission.stamps) == [3, 8]
        assert before <= submission.stamps[3] <= submission.stamps[8] <= after


def test_signals_and_waits() -> None:
    program = adding(4)
    x = aligned(4, dtypes.int64)
    first = make(launch(program, Slot(0), Slot(0), 1, 4), queue.Signal(7, 2))
    second = make(queue.Wait(7, 2), launch(program, Slot(0), Slot(0), 10, 4))
    cells: dict[int, int] = {}
    with pytest.raises(LaunchError, match="cell 7"):
        second.submit(queue.Submission([x.ctypes.data], cells=cells))
    first.submit(queue.Submission([x.ctypes.data], cells=cells))
    second.submit(queue.Submission([x.ctypes.data], cells=cells))
    assert cells == {7: 2} and x.tolist() == [11] * 4


def test_appending_after_a_submission_counts() -> None:
    program = adding(4)
    x = aligned(4, dtypes.int64)
    work = make(launch(program, Slot(0), Slot(0), 1, 4))
    work.submit(queue.Submission([x.ctypes.data]))
    work.append(launch(program, Slot(0), Slot(0), 100, 4))
    work.submit(queue.Submission([x.ctypes.data]))
    assert x.tolist() == [102] * 4


def test_incomplete_submissions_are_refused() -> None:
    program = adding(4)
    work = make(launch(program, Slot(0), Slot(3), "step", 4))
    with pytest.raises(LaunchError, match="refers to 4 handles, 1 were given"):
        work.submit(queue.Submission([0], {"step": 1}))
    with pytest.raises(LaunchError, match="no value for scalar step"):
        work.submit(queue.Submission([0] * 4))
    wrong = make(queue.Launch(program, (Slot(0),), (), (4,)))
    with pytest.raises(LaunchError, match="takes 2 buffers"):
        wrong.submit(queue.Submission([0]))


def test_without_a_pool_commands_run_one_by_one() -> None:
    on = CpuRuntime()
    program = adding(4)
    x, y = aligned(4, dtypes.int64), aligned(4, dtypes.int64)
    work = on.queue()
    work.append(launch(program, Slot(0), Slot(0), "step", 4))
    work.append(queue.Copy(Slot(1), Slot(0), 32))
    work.submit(queue.Submission([x.ctypes.data, y.ctypes.data], {"step": 6}))
    assert y.tolist() == [6] * 4
