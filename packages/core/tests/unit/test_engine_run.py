"""Running schedules: order, memory of temporaries, copies between devices, views of host memory, counters."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tiny_core import dtypes
from tiny_core.engine.realize import adopt_host, allocate_from_host, read_host, run_schedule
from tiny_core.engine.report import GlobalCounters
from tiny_core.errors import DataError, DeviceError
from tiny_core.ir.uop import UOp
from tiny_core.render.signature import evaluate
from tiny_core.runtime.buffer import memory_of
from tiny_core.runtime.device import Device
from tiny_core.runtime.memory import size_class
from tiny_core.runtime.queue import Barrier, BlockingQueue, Launch, Queue, Submission
from tiny_core.schedule.item import Arg, CopyItem, KernelItem, Schedule
from tiny_core.settings import Context

from .engine_fakes import FakeRuntime, floats, install, program

N = 256


def _vector(*values: float, device: str = "FAKE") -> UOp:
    data = struct.pack(f"{N}f", *(list(values) * N)[:N])
    return allocate_from_host(data, dtypes.float32, N, device)


def _read(node: UOp) -> list[float]:
    return list(read_host(node).cast("f"))[:2]


def _new(device: str = "FAKE") -> UOp:
    return UOp.buffer(dtypes.float32, N, device)


def _add_one(out: int, x: int) -> None:
    for i, value in enumerate(floats(x, N)):
        floats(out, N)[i] = value + 1


def _add_two(out: int, x: int) -> None:
    _add_one(out, x)
    _add_one(out, out)


def _run(items: list[KernelItem | CopyItem], results: list[UOp], temporaries: list[UOp]) -> None:
    run_schedule(Schedule(tuple(items), tuple(results), tuple(temporaries)))


@pytest.fixture
def chain() -> Iterator[tuple[UOp, list[UOp]]]:
    """x + 1 + 1 + … through nine temporaries."""
    device, _ = install()
    kernel = program(device, "add_one", "w r", N, _add_one)
    nodes = [_vector(1.0, 2.0)] + [_new() for _ in range(10)]
    items: list[KernelItem | CopyItem] = [
        KernelItem(kernel, (Arg(b), Arg(a)), "FAKE") for a, b in pairwise(nodes)
    ]
    _run(items, [nodes[-1]], nodes[1:-1])
    yield kernel, nodes


def test_a_chain_of_kernels_runs_in_order(chain: tuple[UOp, list[UOp]]) -> None:
    assert _read(chain[1][-1]) == [11.0, 12.0]


def test_temporaries_share_memory_and_leave_none_behind(chain: tuple[UOp, list[UOp]]) -> None:
    memory = memory_of(chain[1][0]).device.memory
    assert memory.peak <= 4 * size_class(4 * N), "input, output, and two for all temporaries"
    assert memory.used() == 2 * size_class(4 * N)


def test_counters_count_launches_and_what_they_do() -> None:
    device, _ = install()
    kernel = program(device, "add_one", "w r", N, _add_one)
    x, y = _vector(0.0), _new()
    GlobalCounters.reset()
    _run([KernelItem(kernel, (Arg(y), Arg(x)), "FAKE")] * 3, [y], [])
    assert (GlobalCounters.kernel_count, GlobalCounters.global_ops) == (3, 3 * N)
    assert GlobalCounters.global_mem == 3 * 8 * N
    assert GlobalCounters.mem_used >= 2 * 4 * N


def test_a_kernel_may_begin_inside_a_buffer() -> None:
    device, _ = install()
    kernel = program(device, "copy_8", "w r", 8, lambda out, x: _copy(out, x, 8))
    x, y = allocate_from_host(struct.pack("16f", *range(16)), dtypes.float32, 16, "FAKE"), _new()
    _run([KernelItem(kernel, (Arg(y, 2), Arg(x, 5)), "FAKE")], [y], [])
    assert list(read_host(y).cast("f"))[2:10] == [5, 6, 7, 8, 9, 10, 11, 12]


def _copy(out: int, x: int, n: int) -> None:
    for i, value in enumerate(floats(x, n)):
        floats(out, n)[i] = value


@pytest.mark.parametrize("visible", [(True, True), (True, False), (False, True), (False, False)])
def test_copies_between_devices_take_part_in_the_order(visible: tuple[bool, bool]) -> None:
    first, _ = install("FAKE", visible=visible[0])
    second, _ = install("FAKE:1", visible=visible[1])
    here = program(first, "add_one", "w r", N, _add_one)
    there = program(second, "add_two", "w r", N, _add_two)
    x, a, b, c, d = _vector(1.0), _new(), _new("FAKE:1"), _new("FAKE:1"), _new()
    items: list[KernelItem | CopyItem] = [
        KernelItem(here, (Arg(a), Arg(x)), "FAKE"),
        CopyItem(Arg(b), Arg(a), N),
        KernelItem(there, (Arg(c), Arg(b)), "FAKE:1"),
        CopyItem(Arg(d), Arg(c), N),
        KernelItem(here, (Arg(a), Arg(d)), "FAKE"),
    ]
    _run(items, [a], [b, c, d])
    assert _read(a) == [5.0, 5.0]


def test_a_copy_on_one_device_is_a_command_of_its_queue() -> None:
    install(visible=False)
    x, y = _vector(3.0), _vector(0.0)
    _run([CopyItem(Arg(y, 2), Arg(x), 4)], [y], [])
    assert list(read_host(y).cast("f"))[:8] == [0, 0, 3, 3, 3, 3, 0, 0]


def test_a_host_view_is_the_memory_and_does_not_change_when_the_tensor_is_written() -> None:
    device, _ = install()
    kernel = program(device, "add_one", "rw", N, lambda x: _add_one(x, x))
    x = _vector(1.0)
    view = read_host(x).cast("f")
    address = memory_of(x).handle
    with pytest.raises(TypeError):
        view[0] = 5.0
    _run([KernelItem(kernel, (Arg(x),), "FAKE")], [x], [])
    assert view[0] == 1.0 and _read(x)[0] == 2.0
    assert memory_of(x).handle != address, "the writer has moved"
    moved = memory_of(x).handle
    _run([KernelItem(kernel, (Arg(x),), "FAKE")], [x], [])
    assert memory_of(x).handle == moved, "nobody looks at it, so it stays"
    in_use = device.memory.used()
    del view
    assert device.memory.used() < in_use, "the old memory lived as long as its view"


def test_hidden_memory_is_read_as_a_copy() -> None:
    install(visible=False)
    assert _read(_vector(7.0)) == [7.0, 7.0]


def test_adopted_memory_is_computed_on_in_place() -> None:
    device, _ = install()
    kernel = program(device, "add_one", "rw", N, lambda x: _add_one(x, x))
    block = device.memory.allocate(4 * N)
    floats(block, N)[:] = [1.0] * N
    node = adopt_host(block, 4 * N, dtypes.float32, "FAKE", owner=None)
    _run([KernelItem(kernel, (Arg(node),), "FAKE")], [node], [])
    assert floats(block, N)[0] == 2.0


def test_adopted_memory_may_begin_anywhere_its_elements_may() -> None:
    device, _ = install()
    block = device.memory.allocate(4 * N)
    floats(block, N)[:] = list(map(float, range(N)))
    node = adopt_host(block + 20, 40, dtypes.float32, "FAKE", owner=None)
    assert node.shape == (10,)
    assert memory_of(node.src[0]).handle % device.runtime.capabilities.align == 0
    assert list(read_host(node).cast("f")) == [5, 6, 7, 8, 9, 10, 11, 12, 13, 14]
    with pytest.raises(DeviceError, match="aligned"):
        adopt_host(block + 2, 40, dtypes.float32, "FAKE", owner=None)


def test_hidden_memory_cannot_be_adopted() -> None:
    install(visible=False)
    with pytest.raises(DeviceError, match="host memory"):
        adopt_host(128, 16, dtypes.float32, "FAKE", owner=None)


class _Watched(FakeRuntime):
    """A runtime that keeps the queues it makes."""

    def queue(self) -> Queue:
        made = BlockingQueue(self)
        self.queues = [*getattr(self, "queues", []), made]
        return made


def test_a_barrier_stands_where_a_command_needs_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeRuntime, "queue", _Watched.queue)
    device, runtime = install()
    kernel = program(device, "add_one", "w r", N, _add_one)
    x, a, b, c = _vector(1.0), _new(), _new(), _new()
    pairs = [(a, x), (b, x), (c, a), (x, b)]  # independent, independent, reads a, overwrites x and reads b
    _run([KernelItem(kernel, (Arg(o), Arg(i)), "FAKE") for o, i in pairs], [c, x], [])
    commands = runtime.queues[-1].commands  # type: ignore[attr-defined]
    assert [type(c) for c in commands] == [Launch, Launch, Barrier, Launch, Launch]


def test_measured_runs_report_a_line_for_each_command(capfd: pytest.CaptureFixture[str]) -> None:
    device, _ = install()
    kernel = program(device, "add_one", "w r", N, _add_one)
    x, y = _vector(1.0), _new()
    with Context(DEBUG=2):
        _run([KernelItem(kernel, (Arg(y), Arg(x)), "FAKE"), CopyItem(Arg(x), Arg(y), N)], [x], [])
    lines = capfd.readouterr().err.splitlines()
    assert "add_one" in lines[0] and "GFLOPS" in lines[0] and "GB/s" in lines[0]
    assert "copy" in lines[1] and "1 kernels of 2 steps" in lines[2]


def test_a_kernel_over_several_devices_is_refused() -> None:
    device, _ = install()
    kernel = program(device, "add_one", "w r", N, _add_one)
    with pytest.raises(DeviceError, match="sharded"):
        _run([KernelItem(kernel, (Arg(_new()), Arg(_new())), ("FAKE", "FAKE:1"))], [], [])


def test_launch_dimensions_are_expressions_over_scalars() -> None:
    assert evaluate(("n", 15, "+", 16, "//", 2, "max"), {"n": 1}) == 2
    assert evaluate(("n", 2, "-", "m", "%", "m", "*"), {"n": 9, "m": 4}) == 12
    assert evaluate((7, "n", 3, "-", "min"), {"n": 5}) == 2
    assert evaluate(3, {}) == 3


def test_submissions_are_waited_for_only_when_data_is_read() -> None:
    device, runtime = install()
    kernel = program(device, "add_one", "w r", N, _add_one)
    x, y = _vector(1.0), _new()
    waits = runtime.waits
    _run([KernelItem(kernel, (Arg(y), Arg(x)), "FAKE")], [y], [])
    assert runtime.waits == waits and device.busy
    _read(y)
    assert runtime.waits == waits + 1 and not device.busy
    assert Submission([]).handles == []


def test_a_file_is_storage_that_copies_read(tmp_path: Path) -> None:
    device, _ = install()
    path = tmp_path / "floats"
    path.write_bytes(struct.pack("10f", *range(10)))
    kernel = program(device, "add_one", "rw", N, lambda x: _add_one(x, x))
    disk = UOp.buffer(dtypes.float32, 10, Device.canonicalize(f"DISK:{path}"))
    x = _vector(0.0)
    _run([CopyItem(Arg(x, 1), Arg(disk, 3), 4), KernelItem(kernel, (Arg(x),), "FAKE")], [x], [])
    assert list(read_host(x).cast("f"))[:6] == [1, 4, 5, 6, 7, 1]
    assert list(read_host(disk).cast("f")) == list(range(10))
    with pytest.raises(DeviceError, match="runs no kernels"):
        _ = Device[f"DISK:{path}"].renderer
    path.write_bytes(b"short")
    with pytest.raises(DataError, match="had 40 bytes when it was opened and has 5"):
        read_host(disk)
    Device.close(f"DISK:{path}")
