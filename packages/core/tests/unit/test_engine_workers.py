"""Compilation: here, in workers, and from the cache; what happens when a compiler fails or takes its process
along."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from tiny_core import dtypes
from tiny_core.engine import compile as compiling
from tiny_core.engine.cache import kernel_cache
from tiny_core.engine.codec import read_frame, write_frame
from tiny_core.engine.compile import compile_kernels, programs_for
from tiny_core.engine.fingerprint import core_digest, package_digest
from tiny_core.engine.pool import pool
from tiny_core.errors import CompileError, DeviceError, RenderError
from tiny_core.ir import payload as p
from tiny_core.ir.uop import UOp
from tiny_core.render.renderer import Arch, Compiled
from tiny_core.runtime.device import Device, OpenDevice
from tiny_core.settings import Context

from .engine_fakes import FakeRuntime

MODULE = "tiny_test_renderer"
RENDERER = '''
import os
from tiny_core.devices.cpu.c import CRenderer
from tiny_core.render.renderer import Compiler
from tiny_core.errors import CompileError, RenderError

class Odd(Compiler):
    """Does what the kernel's name says."""
    def compile(self, source, name):
        print("this is not a frame")
        if name == "dies":
            os.write(2, b"LLVM ERROR: Cannot select: intrinsic")
            os.abort()
        if name == "raises":
            raise ZeroDivisionError("inside the compiler")
        if name == "rejects":
            raise CompileError("line 1: no")
        return source.encode()[::-1]

    def fingerprint(self):
        return "odd 1"

class OddRenderer(CRenderer):
    version = "1"
    def render(self, linear, signature):
        if signature.name == "unrenderable":
            raise RenderError("cannot", "hint")
        return super().render(linear, signature)

    def compiler(self):
        return Odd()

    def host_pool(self):
        return ""

    def fingerprint(self):
        return "odd " + self.version
'''


@pytest.fixture(scope="module", autouse=True)
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("modules")
    (folder / f"{MODULE}.py").write_text(RENDERER)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    pool.close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path) -> Iterator[Path]:
    with Context(CACHE_DIR=str(tmp_path)):
        yield tmp_path / "kernels"


@pytest.fixture
def device() -> OpenDevice:
    import importlib

    kind = importlib.import_module(MODULE).OddRenderer
    return Device.install("ODD", FakeRuntime(), kind(Arch("x86_64")))


def _kernel(name: str, add: float = 1.0) -> UOp:
    i = UOp.range(64, "i")
    out, x = UOp.param(0, dtypes.float32, 64, "w", 64), UOp.param(1, dtypes.float32, 64, "r", 64)
    return UOp.sink(out.store(i, x.load(i) + add), info=p.KernelInfo(name))


GOOD = [_kernel(f"good_{i}", float(i)) for i in range(4)]


def test_a_worker_gives_what_this_process_gives(device: OpenDevice) -> None:
    with Context(CACHE=0, WORKERS=0):
        here = compile_kernels(GOOD, device)
    device.forget_programs()
    before = compiling.stats.workers
    with Context(CACHE=0, WORKERS=2):
        there = compile_kernels(GOOD, device)
    assert compiling.stats.workers == before + len(GOOD)
    assert there == here and all(c.binary == c.source.encode()[::-1] for c in here)


def test_a_dying_worker_takes_one_kernel_with_it(device: OpenDevice, cache: Path) -> None:
    kernels = [GOOD[0], _kernel("dies"), *GOOD[1:]]
    with Context(WORKERS=2), pytest.raises(CompileError) as error:
        compile_kernels(kernels, device)
    assert "died on kernel dies (SIGABRT: " in str(error.value)
    assert "Cannot select" in str(error.value)
    assert "void dies(" in error.value.source
    hits = kernel_cache.hits
    with Context(WORKERS=0):
        assert len(compile_kernels(GOOD, device)) == 4
    assert kernel_cache.hits == hits + 4, "the others had been compiled and cached"


def test_workers_are_replaced_and_kept(device: OpenDevice) -> None:
    with Context(CACHE=0, WORKERS=1):
        with pytest.raises(CompileError):
            compile_kernels([_kernel("dies", 2.0)], device)
        compile_kernels(GOOD[:1], device)
        worker = pool._workers[0].process.pid
        compile_kernels(GOOD[1:2], device)
        assert pool._workers[0].process.pid == worker
        os.kill(worker, 9)
        pool._workers[0].process.wait()
        compile_kernels(GOOD[2:3], device)
        assert pool._workers[0].process.pid != worker


@pytest.mark.parametrize("workers", [0, 1])
def test_errors_of_a_compiler_carry_the_source(device: OpenDevice, workers: int) -> None:
    with Context(WORKERS=workers), pytest.raises(CompileError, match="line 1: no") as error:
        compile_kernels([_kernel("rejects")], device)
    assert "void rejects(" in error.value.source


@pytest.mark.parametrize("workers", [0, 1])
def test_errors_of_a_renderer_keep_their_kind(device: OpenDevice, workers: int) -> None:
    with Context(WORKERS=workers), pytest.raises(RenderError, match="cannot") as error:
        compile_kernels([_kernel("unrenderable")], device)
    assert error.value.hint == "hint"


def test_an_unexpected_exception_in_a_worker_shows_its_trace(device: OpenDevice) -> None:
    with (
        Context(WORKERS=1),
        pytest.raises(CompileError, match="kernel raises raised ZeroDivisionError") as error,
    ):
        compile_kernels([_kernel("raises")], device)
    assert "inside the compiler" in str(error.value) and "Traceback" in str(error.value)


def test_several_failures_are_counted(device: OpenDevice) -> None:
    with Context(WORKERS=0), pytest.raises(CompileError) as error:
        compile_kernels([_kernel("rejects", float(i)) for i in range(3)], device)
    assert error.value.__notes__ == ["2 more kernels failed to compile"]


def test_a_worker_that_does_not_start_is_an_error(
    device: OpenDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.close()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with (
        Context(CACHE=0, WORKERS=2),
        pytest.raises(CompileError, match=r"did not start .exit code 1") as error,
    ):
        compile_kernels(GOOD, device)
    assert "TINY_WORKERS=0" in error.value.hint
    assert pool.alive == 0


def test_an_interrupted_run_leaves_no_worker_at_work(
    device: OpenDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.close()
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def popen(*args: object, **kwargs: object) -> subprocess.Popen[bytes]:
        started.append(real(*args, **kwargs))  # type: ignore[call-overload]
        return started[-1]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", popen)
    with monkeypatch.context() as patch, Context(CACHE=0, WORKERS=2):
        patch.setattr("tiny_core.engine.pool.WorkerPool._listen", interrupt)
        with pytest.raises(KeyboardInterrupt):
            compile_kernels(GOOD, device)
    assert len(started) == 2 and all(process.returncode is not None for process in started), (
        "ended and reaped"
    )
    with Context(CACHE=0, WORKERS=2):
        assert len(compile_kernels(GOOD, device)) == 4
    pool.close()
    assert all(process.returncode is not None for process in started)


_ABRUPT = """#!{python}
import os
from io import BytesIO
from tiny_core.engine.codec import compiled_to_parts, read_frame, write_frame
from tiny_core.render.renderer import Compiled
from tiny_core.render.signature import Signature

source, frames = os.fdopen(0, "rb"), BytesIO()
write_frame(frames, {{"ready": True}})
while read_frame(source) is not None:
    meta, parts = compiled_to_parts(Compiled(Signature("k", ()), b"made", "s"))
    write_frame(frames, {{"rendered": True}}, [b"s"])
    write_frame(frames, {{"done": meta}}, parts)
    os.write(1, frames.getvalue())
    frames = BytesIO()
"""


def test_frames_that_arrive_together_are_all_seen(
    device: OpenDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A worker that says at once that it is ready, has rendered and is done; the run hangs if only the first
    of these is read. (Waiting longer than any machine needs is how a hang is told from an answer.)"""
    script = tmp_path / "worker"
    script.write_text(_ABRUPT.format(python=sys.executable))
    script.chmod(0o700)
    pool.close()
    monkeypatch.setattr(sys, "executable", str(script))
    made: list[Compiled] = []

    def work() -> None:
        with Context(CACHE=0, WORKERS=1):
            made.extend(compile_kernels(GOOD[:1], device))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(60)
    if hangs := thread.is_alive():
        pool._workers[0].process.kill()  # so that the thread, and the lock it holds, come free
        thread.join()
    pool.close()
    assert not hangs
    assert [one.binary for one in made] == [b"made"]


class _Trickle(io.RawIOBase):
    """A stream that takes three bytes at a time, as a pipe that is nearly full does."""

    def __init__(self) -> None:
        self.taken = b""

    def write(self, data: Any) -> int:
        self.taken += bytes(data[:3])
        return min(len(data), 3)


def test_frames_survive_short_writes_and_short_reads() -> None:
    parts = [os.urandom(100), b"", os.urandom(7)]
    sink = _Trickle()
    write_frame(cast(BinaryIO, sink), {"name": "ü"}, parts)
    write_frame(cast(BinaryIO, sink), {"next": 1})
    source = cast(BinaryIO, io.BufferedReader(_Slow(sink.taken), 1))
    assert read_frame(source) == ({"name": "ü", "parts": [100, 0, 7]}, parts)
    assert read_frame(source) == ({"next": 1, "parts": []}, [])
    assert read_frame(source) is None


class _Slow(io.RawIOBase):
    """A stream that gives five bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self.rest = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.rest.read(min(5, len(buffer)))
        buffer[: len(data)] = data
        return len(data)


def test_a_renderer_that_differs_in_the_worker_is_noticed(device: OpenDevice) -> None:
    device.renderer.version = "2"  # type: ignore[attr-defined]
    with Context(WORKERS=1), pytest.raises(DeviceError, match="is another one in the compile worker"):
        compile_kernels(GOOD[:1], device)


def test_few_kernels_for_the_host_are_compiled_here(device: OpenDevice) -> None:
    pool.close()
    before = compiling.stats.here
    with Context(CACHE=0, WORKERS=-1):
        compile_kernels(GOOD[:1], device)
    assert compiling.stats.here == before + 1 and pool.alive == 0


def test_kernels_for_other_machines_are_compiled_by_workers(device: OpenDevice) -> None:
    assert isinstance(device.runtime, FakeRuntime)
    Device.install("ODD", FakeRuntime(visible=False), device.renderer)
    before = compiling.stats.workers
    with Context(CACHE=0, WORKERS=-1):
        compile_kernels(GOOD[:1], "ODD")
    assert compiling.stats.workers == before + 1


def test_equal_kernels_are_compiled_once(device: OpenDevice) -> None:
    before = compiling.stats.here
    with Context(CACHE=0, WORKERS=0):
        first, second, third = programs_for([GOOD[0], GOOD[1], GOOD[0]], device)
        assert programs_for([GOOD[1]], device)[0] is second
    assert first is third and compiling.stats.here == before + 2


def test_a_damaged_cache_entry_is_compiled_again(device: OpenDevice, cache: Path) -> None:
    with Context(WORKERS=0):
        compile_kernels(GOOD[:1], device)
        (entry,) = cache.glob("*/*")
        entry.write_bytes(entry.read_bytes()[:-5])
        device.forget_programs()
        here, corrupt = compiling.stats.here, kernel_cache.corrupt
        compile_kernels(GOOD[:1], device)
        assert (compiling.stats.here, kernel_cache.corrupt) == (here + 1, corrupt + 1)
        device.forget_programs()
        compile_kernels(GOOD[:1], device)
        assert compiling.stats.here == here + 1


def test_what_code_depends_on_is_part_of_the_key(device: OpenDevice, cache: Path) -> None:
    def entries() -> int:
        return len(list(cache.glob("*/*")))

    with Context(WORKERS=0):
        compile_kernels(GOOD[:1], device)
        assert entries() == 1
        with Context(OPTIMIZE=0):
            compile_kernels(GOOD[:1], device)
        assert entries() == 2
        kind = type(device.renderer)
        for arch in (Arch("x86_64", (("avx2", True),)), Arch("aarch64")):
            compile_kernels(GOOD[:1], Device.install("ODD", FakeRuntime(), kind(arch)))
        assert entries() == 4
        newer = kind(Arch("x86_64"))
        newer.version = "2"  # type: ignore[attr-defined]
        compile_kernels(GOOD[:1], Device.install("ODD", FakeRuntime(), newer))
        assert entries() == 5


def test_digests_follow_the_contents_of_sources(module: Path) -> None:
    assert core_digest() == core_digest() and len(core_digest()) == 64
    before = package_digest(MODULE)
    stamp = (module / f"{MODULE}.py").stat()
    (module / f"{MODULE}.py").write_text(RENDERER.replace("odd 1", "odd 2"))
    os.utime(module / f"{MODULE}.py", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    package_digest.cache_clear()
    assert package_digest(MODULE) != before
    (module / f"{MODULE}.py").write_text(RENDERER)


_WARM = """
import sys
from tiny_core.tensor.tensor import Tensor
from tiny_core.engine.compile import stats
print((Tensor([1.0, 2.0, 3.0]) + 1).tolist(), stats.here + stats.workers)
print(sorted({"numpy", "llvmlite", "pluggy"} & set(sys.modules)), "subprocess" in sys.modules)
"""


def test_a_warm_start_compiles_nothing_and_imports_no_compiler(tmp_path: Path) -> None:
    environment = {**os.environ, "DEV": "CPU:C", "TINY_CACHE_DIR": str(tmp_path)}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", _WARM], env=environment, capture_output=True, text=True, check=True
        )
        for _ in range(2)
    ]
    assert [run.stdout.splitlines()[0] for run in outputs] == ["[2.0, 3.0, 4.0] 1", "[2.0, 3.0, 4.0] 0"]
    assert outputs[1].stdout.splitlines()[1].startswith("[]")


_FORK = """
import os, sys
from tiny_core.tensor.tensor import Tensor
from tiny_core.settings import Context
from tiny_core.engine.pool import pool

def work(n):
    with Context(WORKERS=1):
        return (Tensor([1.0, 2.0, 3.0]) * n).sum().item()

assert work(2) == 12 and pool.alive == 1
parent = pool._workers[0].process
child = os.fork()
if child == 0:
    assert pool.alive == 0
    ok = work(3) == 18 and pool.alive == 1
    os._exit(0 if ok else 1)
assert os.waitpid(child, 0)[1] == 0
assert parent.poll() is None and work(4) == 24
"""


def test_a_forked_child_goes_on_with_workers_of_its_own(tmp_path: Path) -> None:
    environment = {**os.environ, "DEV": "CPU:C", "TINY_CACHE": "0"}
    subprocess.run([sys.executable, "-c", _FORK], env=environment, check=True)
