"""Worker threads: every iteration once, equal bits for any number of threads, interrupts, forks, exits."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tiny_core.api import LaunchError, UOp, dtypes
from tiny_core.devices.cpu import pool as pool_module
from tiny_core.devices.cpu.loader import load as load_object
from tiny_core.devices.cpu.pool import Batch, Pool, Record
from tiny_core.devices.cpu.runtime import CpuProgram, CpuRuntime

from .cpu_programs import aligned, build, compiler, load, needs_compiler, params, pool_binary, run, runtime
from .linear_kernels import Lines, i32
from .test_c_kernels import matmul

pytestmark = needs_compiler
HERE = Path(__file__).parent


def counting(size: int) -> CpuProgram:
    """Adds 1 to each of `size` numbers, one an iteration."""
    lines = Lines()
    (a,) = params(lines, (dtypes.int64, size, "rw"))
    axis = lines.loop(size, "i", "thread")
    lines.end(axis, lines.add(a.store(axis, a.load(axis) + 1)))
    return load(build(lines, parallel=size))


def batch(program: CpuProgram, array: np.ndarray, times: int, chunks: int) -> Batch:
    records = [Record(program.address, 0, 1, len(array), chunks)] * times
    return Batch(records, [array.ctypes.data], [], 0, keep=(program,))


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize(("spin", "slice_ns"), [(50_000, 50_000_000), (0, 50_000_000), (50_000, 0)])
def test_every_iteration_runs_once(
    threads: int, spin: int, slice_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when nobody spins, so that each hand-over sleeps and wakes, and when every chunk ends a slice."""
    monkeypatch.setattr(pool_module, "SPIN", spin)
    monkeypatch.setattr(pool_module, "SLICE", slice_ns)
    pool = Pool(pool_binary(), threads)
    for size, chunks in ((1, 1), (5, 5), (97, 4), (1000, 256), (3, 2)):
        program, array = counting(size), aligned(size, dtypes.int64)
        pool.run(batch(program, array, 60, chunks))
        assert (array == 60).all(), (size, chunks)
    pool.close()


def test_workers_start_with_the_first_parallel_kernel_and_again_after_close() -> None:
    pool = Pool(pool_binary(), 3)
    program, array = counting(8), aligned(8, dtypes.int64)

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    before = threads()
    pool.run(batch(program, array, 1, 1))
    assert threads() == before
    pool.run(batch(program, array, 1, 8))
    assert threads() == before + 2
    pool.close()
    pool.run(batch(program, array, 1, 8))
    assert (array == 3).all()
    pool.close()


def test_results_have_equal_bits_for_any_number_of_threads() -> None:
    rng = np.random.default_rng(3)
    m, n, k = 64, 64, 200
    a, b = (aligned(s, dtypes.float32, rng.standard_normal(s)) for s in (m * k, k * n))
    compiled, results = build(matmul(m, n, k, 2, 16 if m else 1, 2), parallel=m // 2), []
    for threads in (1, 2, 5):
        c = aligned(m * n, dtypes.float32)
        run(compiled, [a, b, c], threads=threads)
        results.append(c.tobytes())
    assert len(set(results)) == 1
    assert np.allclose(c.reshape(m, n), a.reshape(m, k) @ b.reshape(k, n), atol=1e-4)


def test_chunks_depend_on_the_work_and_not_on_threads() -> None:
    program = counting(10)
    unknown = program.chunks
    assert [unknown(p) for p in (0, 1, 2, 100, 100_000)] == [1, 1, 2, 64, 64]

    def of(work: int) -> CpuProgram:
        return CpuProgram(program.code, program.address, program.signature, work)

    assert of(2_000).chunks(500) == 1, "too little to wake anybody for"
    assert of(40_000).chunks(500) == 10
    assert of(1 << 40).chunks(500) == 64


def test_a_run_within_a_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a signal handler computes while a kernel of the same device is being waited for."""
    pool = Pool(pool_binary(), 1)
    work = batch(counting(4), aligned(4, dtypes.int64), 1, 1)
    monkeypatch.setattr(pool, "_run", lambda *_: pool.run(work))
    with pytest.raises(LaunchError, match="below this signal handler"):
        pool.run(work)


def test_an_object_that_is_no_pool_is_refused() -> None:
    with pytest.raises(LaunchError, match="tiny_pool_run"):
        Pool(compiler().compile("void other(void) {}", "other"), 2)


def test_forked_child_computes_and_parent_goes_on() -> None:
    on = runtime(2)
    program, array = counting(64), aligned(64, dtypes.int64)

    def go() -> None:
        on.launch(program, (array.ctypes.data,), (), (64,))

    go()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        go()
        on.after_fork()
        go()
        right = (array == 3).all() and len(os.listdir("/proc/self/task")) == 2
        os._exit(0 if right else 1)
    _, status = os.waitpid(child, 0)
    go()
    assert status == 0
    assert (array == 2).all()


SCRIPT = """
import sys
sys.path.insert(0, {root!r})
import numpy as np
from tiny_core.api import dtypes
from {package}.cpu_programs import *
from {package}.linear_kernels import Lines, i32, register
from tiny_core.api import UOp, Ops

def slow(size, steps):
    # a chain of multiplications that nobody can shorten
    lines = Lines()
    (a,) = params(lines, (dtypes.uint64, size, "rw"))
    state = lines.add(register(dtypes.uint64))
    i = lines.loop(size, "i", "thread")
    first = lines.add(state.after(i).store(i32(0), a.load(i)))
    k = lines.loop(steps, "k")
    value = state.after(first, k).load(i32(0))
    done = lines.end(k, lines.add(state.store(i32(0), value * 6364136223846793005 + 1)))
    lines.end(i, lines.add(a.store(i, state.after(done).load(i32(0)))))
    return build(lines, parallel=size)
"""


def in_a_process(script: str) -> subprocess.Popen[str]:
    package = __package__ or ""
    root = HERE
    for _ in package.split("."):
        root = root.parent
    text = SCRIPT.format(root=str(root), package=package) + script
    return subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_interrupt_during_a_long_kernel() -> None:
    """KeyboardInterrupt comes between chunks; the rest does not run; the runtime works afterwards."""
    child = in_a_process("""
x = aligned(4096, dtypes.uint64)
long, short = slow(4096, 20_000_000), slow(4096, 3)
try:
    print("running", flush=True)
    run(long, [x])
    print("finished")
except KeyboardInterrupt:
    print("interrupted", (x == 0).sum() > 3000)
y = aligned(4096, dtypes.uint64)
run(short, [y])
print(len(set(y.tolist())), y[0] != 0)
""")
    assert child.stdout is not None
    assert child.stdout.readline() == "running\n"
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (0, "interrupted True\n1 True\n"), err


def test_process_with_workers_exits() -> None:
    child = in_a_process("""
x = aligned(512, dtypes.uint64)
run(slow(512, 1000), [x], threads=4)
print((x != 0).all())
""")
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (0, "True\n", "")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads MXCSR")
@pytest.mark.parametrize("threads", [1, 3])
def test_floating_point_mode_is_the_default_and_the_callers_is_restored(threads: int) -> None:
    source = """
    void set_mode(unsigned mode) { __builtin_ia32_ldmxcsr(mode); }
    unsigned get_mode(void) { return __builtin_ia32_stmxcsr(); }
    """
    helper = load_object(compiler().compile(source, "set_mode"))
    set_mode = ctypes.CFUNCTYPE(None, ctypes.c_uint)(helper.entry("set_mode"))
    get_mode = ctypes.CFUNCTYPE(ctypes.c_uint)(helper.entry("get_mode"))
    lines = Lines()
    a, b = params(lines, (dtypes.float32, 64, "r"), (dtypes.float32, 64, "w"))
    axis = lines.loop(64, "i", "thread")
    lines.end(axis, lines.add(b.store(axis, a.load(axis) * 0.5)))
    compiled = build(lines, parallel=64)
    on = CpuRuntime(options={"threads": str(threads)})
    on.host_pool(pool_binary())
    program = load(compiled, on)
    x, y = aligned(64, dtypes.float32, 2.0**-130), aligned(64, dtypes.float32)
    before = get_mode()
    try:
        set_mode(0x9FC0)  # flush to zero, subnormals are zero
        on.launch(
            program, (x.ctypes.data, y.ctypes.data), (), (64,)
        )  # workers inherit the mode of who starts them
        during = get_mode()
    finally:
        set_mode(before)
    on.close()
    assert during & 0x8040 == 0x8040
    assert (y == np.float32(2.0**-131)).all()


def test_fix_ups_read_the_table_anew() -> None:
    lines = Lines()
    (a,) = params(lines, (dtypes.int32, 1, "w"))
    lines.add(a.store(i32(0), UOp.const(7, dtypes.int32)))
    program = load(build(lines))
    work = Batch([Record(program.address, 0, 1)], [0], [(0, 1, 4)], 2, keep=(program,))
    pool, x, y = Pool(pool_binary(), 1), aligned(3, dtypes.int32), aligned(3, dtypes.int32)
    pool.run(work, [0, x.ctypes.data])
    pool.run(work, [0, y.ctypes.data + 4])
    assert x.tolist() == [0, 7, 0] and y.tolist() == [0, 0, 7]
