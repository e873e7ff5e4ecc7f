"""Queues: commands in their order, tables that change from one submission to the next, and waiting."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_conformance.bare import Bare, Loaded, each, raw
from tiny_conformance.compare import Array
from tiny_core.api import Handle, UOp, dtypes, queue

pytestmark = pytest.mark.needs("executes", "stores")
N = 259
START = np.arange(N, dtype=np.int32)


def affine(bare: Bare, factor: int, addend: int) -> Loaded:
    """The program out[i] = x[i]*factor + addend."""
    kernel = each(lambda x: x * factor + addend, dtypes.int32, [dtypes.int32], N)
    return bare.load(kernel)


def launch(program: Loaded, dest: int, source: int, offset: int = 0) -> queue.Launch:
    return queue.Launch(program.handle, (queue.Slot(dest), queue.Slot(source, offset)), (), program.grid({}))


def zeros(bare: Bare, count: int = N) -> Handle:
    return bare.put(np.zeros(count, np.int32))


def read(bare: Bare, handle: Handle) -> Array:
    return bare.get(handle, "int32", N)


def test_each_command_sees_what_those_before_it_wrote(bare: Bare) -> None:
    double, plus = affine(bare, 2, 0), affine(bare, 1, 3)
    line = bare.runtime.queue()
    for command in (launch(double, 1, 0), launch(plus, 2, 1), launch(double, 1, 2), launch(plus, 0, 1)):
        line.append(command)
        line.append(queue.Barrier())
    table = [bare.put(START), zeros(bare), zeros(bare)]
    line.submit(queue.Submission(table))
    np.testing.assert_array_equal(read(bare, table[0]), (START * 2 + 3) * 2 + 3)


def test_a_copy_waits_for_a_launch_and_a_launch_for_a_copy(bare: Bare) -> None:
    double = affine(bare, 2, 0)
    line = bare.runtime.queue()
    line.append(launch(double, 1, 0))
    line.append(queue.Copy(queue.Slot(2), queue.Slot(1), N * 4))
    line.append(launch(double, 3, 2))
    line.append(queue.Copy(queue.Slot(0), queue.Slot(3), N * 4))
    table = [bare.put(START), zeros(bare), zeros(bare), zeros(bare)]
    line.submit(queue.Submission(table))
    np.testing.assert_array_equal(read(bare, table[0]), START * 4)


def test_a_queue_is_submitted_again_with_another_table(bare: Bare) -> None:
    line = bare.runtime.queue()
    line.append(launch(affine(bare, 3, 1), 1, 0))
    pairs = [(bare.put(START + k), zeros(bare)) for k in range(5)]
    for source, dest in pairs:
        line.submit(queue.Submission([source, dest]))
    for k, (_, dest) in enumerate(pairs):
        np.testing.assert_array_equal(read(bare, dest), (START + k) * 3 + 1)


def test_the_same_submission_many_times(bare: Bare) -> None:
    plus = affine(bare, 1, 1)
    line = bare.runtime.queue()
    line.append(launch(plus, 1, 0))
    line.append(launch(plus, 0, 1))
    table = [bare.put(START), zeros(bare)]
    for _ in range(50):
        line.submit(queue.Submission(table))
    np.testing.assert_array_equal(read(bare, table[0]), START + 100)


@pytest.mark.needs("views")
def test_offsets_of_slots(bare: Bare) -> None:
    line = bare.runtime.queue()
    line.append(launch(affine(bare, 2, 0), 1, 0, offset=64))
    line.append(queue.Copy(queue.Slot(2, 128), queue.Slot(1, 4), 40))
    source = bare.put(np.arange(N + 16, dtype=np.int32))
    table = [source, zeros(bare), zeros(bare)]
    line.submit(queue.Submission(table))
    np.testing.assert_array_equal(read(bare, table[1]), (START + 16) * 2)
    got = read(bare, table[2])
    np.testing.assert_array_equal(got[32:42], (START[1:11] + 16) * 2)
    assert not got[:32].any() and not got[42:].any()


def test_scalars_by_name_are_looked_up_at_each_submission(bare: Bare) -> None:
    n = UOp.variable("n", 0, N)
    i = UOp.range(n, "i")
    kernel = UOp.sink(UOp.param(0, dtypes.int32, N, "w").store(i, UOp.param(1, dtypes.int32, N).load(i) + 7))
    program = bare.load(kernel)
    source = bare.put(START)
    for count in (N, 0, 1, 100):
        dest = zeros(bare)
        line = bare.runtime.queue()
        slots = (queue.Slot(0), queue.Slot(1))
        line.append(queue.Launch(program.handle, slots, ("n",), program.grid({"n": count})))
        line.submit(queue.Submission([dest, source], {"n": count}))
        np.testing.assert_array_equal(read(bare, dest), np.where(count > START, START + 7, 0))


def test_synchronize_waits_for_everything(bare: Bare) -> None:
    plus = affine(bare, 1, 1)
    tables = [[bare.put(START), zeros(bare)] for _ in range(4)]
    for _ in range(10):
        for table in tables:
            line = bare.runtime.queue()
            line.append(launch(plus, 1, 0))
            line.append(launch(plus, 0, 1))
            line.submit(queue.Submission(table))
    bare.runtime.synchronize()
    for table in tables:
        out = np.zeros(N, np.int32)
        bare.runtime.copy_out(raw(out), table[0])  # nothing is waited for any more
        np.testing.assert_array_equal(out, START + 20)


def test_a_queue_waits_for_another(bare: Bare) -> None:
    cells: dict[int, int] = {}
    table = [bare.put(START), zeros(bare), zeros(bare)]
    first, second = bare.runtime.queue(), bare.runtime.queue()
    first.append(launch(affine(bare, 5, 0), 1, 0))
    first.append(queue.Signal(3, 1))
    second.append(queue.Wait(3, 1))
    second.append(launch(affine(bare, 1, 2), 2, 1))
    first.submit(queue.Submission(table, cells=cells))
    second.submit(queue.Submission(table, cells=cells))
    np.testing.assert_array_equal(read(bare, table[2]), START * 5 + 2)
    assert cells[3] == 1


def test_time_stamps_do_not_run_backwards(bare: Bare) -> None:
    line = bare.runtime.queue()
    double = affine(bare, 2, 0)
    for number in range(4):
        line.append(queue.Timestamp(number))
        line.append(launch(double, 1, 0))
    submission = queue.Submission([bare.put(START), zeros(bare)])
    line.submit(submission)
    bare.runtime.synchronize()
    stamps = [submission.stamps[n] for n in range(4)]
    assert stamps == sorted(stamps)
    assert all(isinstance(s, int) for s in stamps)


def test_an_empty_queue_does_nothing(bare: Bare) -> None:
    line = bare.runtime.queue()
    line.submit(queue.Submission([]))
    bare.runtime.synchronize()


def test_launch_waits(bare: Bare) -> None:
    double = affine(bare, 2, 0)
    source, dest = bare.put(START), zeros(bare)
    for _ in range(3):
        bare.runtime.launch(double.handle, (dest, source), (), double.grid({}))
        bare.runtime.launch(double.handle, (source, dest), (), double.grid({}))
    out = np.zeros(N, np.int32)
    bare.runtime.copy_out(raw(out), source)
    np.testing.assert_array_equal(out, START * 64)
