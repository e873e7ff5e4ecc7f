"""The PYTHON runtime: memory, programs as text, what the plugin declares."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.devices.python import plugin
from tiny_core.devices.python.ops import function
from tiny_core.devices.python.renderer import PythonRenderer
from tiny_core.devices.python.runtime import PythonRuntime
from tiny_core.errors import LaunchError, RaceError, RenderError, TargetError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import ALU, Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.renderer import Arch, Compiled
from tiny_core.runtime.queue import Copy, Launch, Slot, Submission

from .linear_kernels import Lines, i32, signature

f32 = dtypes.float32


def scale() -> Compiled:
    """y[i] = x[i] * 2, through the renderer and its compiler."""
    x, y = UOp.param(0, f32, 4), UOp.param(1, f32, 4, "w")
    k = Lines()
    i = k.loop(4, "i", "thread")
    k.end(i, k.add(y.store(i, x.load(i) * 2.0)))
    linear = k.linear("scale")
    renderer = PythonRenderer(Arch())
    source = renderer.render(linear, signature(linear))
    return Compiled(signature(linear), renderer.compiler().compile(source, "scale"), source)


def race() -> Compiled:
    y = UOp.param(0, f32, 8, "rw")
    k = Lines()
    i = k.loop(7, "i", "thread")
    k.end(i, k.add(y.store(i + 1, y.load(i))))
    linear = k.linear("shift")
    return Compiled(signature(linear), PythonRenderer(Arch()).render(linear, signature(linear)).encode())


def put(runtime: PythonRuntime, array: np.ndarray) -> int:
    handle = runtime.allocate(array.nbytes)
    runtime.copy_in(handle, array.data)
    return handle


def get(runtime: PythonRuntime, handle: int, count: int) -> list[float]:
    out = np.zeros(count, np.float32)
    runtime.copy_out(out.data, handle)
    return out.tolist()


def test_a_program_is_loaded_from_text_and_run() -> None:
    runtime = PythonRuntime()
    x, y = put(runtime, np.arange(4, dtype=np.float32)), runtime.allocate(16)
    runtime.launch(runtime.load(scale()), (x, y), (), (4,))
    assert get(runtime, y, 4) == [0, 2, 4, 6]


def test_a_view_is_memory_further_on() -> None:
    runtime = PythonRuntime()
    x, y = put(runtime, np.arange(8, dtype=np.float32)), runtime.allocate(32)
    runtime.copy_peer(y, x, 32)
    runtime.launch(runtime.load(scale()), (runtime.view(x, 16), runtime.view(y, 4)), (), (4,))
    assert get(runtime, y, 8) == [0, 8, 10, 12, 14, 5, 6, 7]


def test_its_queue_is_the_blocking_one() -> None:
    runtime = PythonRuntime()
    x, y = put(runtime, np.arange(4, dtype=np.float32)), runtime.allocate(32)
    queue = runtime.queue()
    queue.append(Launch(runtime.load(scale()), (Slot(0), Slot(1)), (), (4,)))
    queue.append(Copy(Slot(1, 16), Slot(0), 16))
    queue.submit(Submission([x, y]))
    assert get(runtime, y, 8) == [0, 2, 4, 6, 0, 1, 2, 3]


def test_memory_is_aligned_to_64_bytes_and_no_more() -> None:
    runtime = PythonRuntime()
    assert {runtime.allocate(n) % 128 for n in (1, 64, 100, 128, 129, 5000)} == {64}
    assert runtime.capabilities.align == 64


def test_accesses_beyond_an_allocation_are_refused() -> None:
    runtime = PythonRuntime()
    x, y = runtime.allocate(16), runtime.allocate(16)
    with pytest.raises(LaunchError, match=r"16 bytes at .* are not memory of PYTHON"):
        runtime.launch(runtime.load(scale()), (x, runtime.view(y, 4)), (), (4,))
    runtime.free(x, 16)
    with pytest.raises(LaunchError, match="are not memory"):
        get(runtime, x, 4)
    with pytest.raises(LaunchError, match="is not an allocation"):
        runtime.free(x, 16)


def test_what_is_not_a_kernel_is_refused() -> None:
    runtime, good = PythonRuntime(), scale()
    for binary, message in ((b"\x7fELF\xff", "is not the text"), (b"what %0", "is not the text")):
        with pytest.raises(LaunchError, match=message):
            runtime.load(Compiled(good.signature, binary))
    with pytest.raises(LaunchError, match="text of a sink, not of a linear kernel"):
        runtime.load(Compiled(good.signature, b"sink"))
    with pytest.raises(LaunchError, match="takes 2 buffers, not 1"):
        runtime.launch(runtime.load(good), (64,), (), (4,))
    with pytest.raises(LaunchError, match="no program of PYTHON"):
        runtime.launch("scale", (), (), (1,))


def test_the_race_checker_is_an_option() -> None:
    with pytest.raises(TargetError, match="check=yes"):
        PythonRuntime(options={"check": "yes"})
    strict, loose = PythonRuntime(), PythonRuntime(options={"check": "0"})
    for runtime in (strict, loose):
        handle = put(runtime, np.zeros(8, np.float32))
        program = runtime.load(race())
        if runtime is strict:
            with pytest.raises(RaceError):
                runtime.launch(program, (handle,), (), (7,))
        else:
            runtime.launch(program, (handle,), (), (7,))


def test_the_renderer_declares_what_the_interpreter_runs() -> None:
    able = PythonRenderer(Arch()).capabilities
    for op in ALU:
        for dtype in dtypes.storable:
            try:
                function(op, dtype)
            except RenderError:
                assert not able.supports(op, dtype), f"{op} {dtype}"
            else:
                assert able.supports(op, dtype), f"{op} {dtype}"
    assert all(able.supports(op, d) for op in (Ops.CAST, Ops.BITCAST) for d in dtypes.storable)


def test_target_ops_are_found_by_name() -> None:
    triple = p.TargetOp("test.triple", lambda sources: sources[0], python=lambda x: x * 3)
    k = Lines()
    k.add(UOp.param(0, f32, 1, "w").store(i32(0), UOp(Ops.TARGET, f32, (UOp.const(7.0, f32),), triple)))
    linear = k.linear()
    compiled = Compiled(signature(linear), PythonRenderer(Arch()).render(linear, signature(linear)).encode())
    runtime = PythonRuntime()
    with pytest.raises(LaunchError, match="triple"):
        runtime.load(compiled)
    runtime.targets["test.triple"] = triple
    y = runtime.allocate(4)
    runtime.launch(runtime.load(compiled), (y,), (), (1,))
    assert get(runtime, y, 1) == [21]


def test_there_is_no_architecture() -> None:
    with pytest.raises(TargetError, match="so not gfx1100"):
        PythonRenderer(Arch("gfx1100"))


def test_a_kernel_disassembles_to_its_text() -> None:
    made = scale()
    assert PythonRenderer(Arch()).compiler().disassemble(made.binary) == made.source


def test_the_plugin_is_data() -> None:
    (runtime,), (renderer,) = plugin.tiny_runtimes(), plugin.tiny_renderers()
    assert runtime.device == renderer.name == "PYTHON" and runtime.renderers == ("PYTHON", "*")
    modules = ("python.plugin", "python.runtime", "python.renderer", "null", "disk")
    code = ";".join(f"import tiny_core.devices.{m}" for m in modules)
    code += ";import sys;sys.exit(bool({'numpy','ml_dtypes','pluggy'}&set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
