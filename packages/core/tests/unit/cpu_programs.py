"""Compiling linear kernels with the system's C compiler and running them on the CPU runtime, for tests."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from tiny_core.api import Arch, Compiled, Compiler, DType, UOp, dtypes
from tiny_core.devices.cpu.c import CRenderer
from tiny_core.devices.cpu.runtime import CpuProgram, CpuRuntime

from .linear_kernels import Lines, signature

Array = np.ndarray
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("gcc", "clang", "cc"))), reason="no C compiler on PATH"
)


@cache
def renderer(features: tuple[tuple[str, bool], ...] = ()) -> CRenderer:
    return CRenderer(Arch("", features))


@cache
def compiler(features: tuple[tuple[str, bool], ...] = ()) -> Compiler:
    return renderer(features).compiler()


@cache
def pool_binary() -> bytes:
    return compiler().compile(renderer().host_pool(), "tiny_pool_run")


@cache
def runtime(threads: int = 2) -> CpuRuntime:
    """A runtime with a pool, shared by tests that leave nothing behind."""
    result = CpuRuntime(options={"threads": str(threads)})
    result.host_pool(pool_binary())
    return result


def build(
    lines: Lines,
    scalars: Sequence[str] = (),
    parallel: int = 1,
    features: tuple[tuple[str, bool], ...] = (),
    name: str = "kernel",
    with_compiler: Compiler | None = None,
) -> Compiled:
    linear = lines.linear(name)
    how = signature(linear, scalars, parallel=parallel)
    source = renderer(features).render(linear, how)
    return Compiled(how, (with_compiler or compiler(features)).compile(source, name), source)


def load(compiled: Compiled, on: CpuRuntime | None = None) -> CpuProgram:
    program = (on or runtime()).load(compiled)
    assert isinstance(program, CpuProgram)
    return program


def run(compiled: Compiled, arrays: Sequence[Array], scalars: tuple[int, ...] = (), threads: int = 2) -> None:
    """Run a kernel on the memory of numpy arrays, which the caller has aligned as its PARAMs claim."""
    on = runtime(threads)
    parallel = compiled.signature.parallel
    assert isinstance(parallel, int)
    on.launch(load(compiled, on), tuple(a.ctypes.data for a in arrays), scalars, (parallel,))


def numpy_dtype(dtype: DType) -> np.dtype:
    return np.dtype(bool if dtype is dtypes.bool_ else dtype.name)


def aligned(size: int, dtype: DType | np.dtype, fill: object = None) -> Array:
    """An array that begins at a multiple of 64 bytes."""
    kind = numpy_dtype(dtype) if isinstance(dtype, DType) else dtype
    raw: Array = np.zeros(size * kind.itemsize + 64, np.uint8)
    begin = -raw.ctypes.data % 64
    array: Array = raw[begin : begin + size * kind.itemsize].view(kind)
    if fill is not None:
        array[:] = fill
    return array


def same_bits(got: Array, want: Array) -> Array:
    """Element-wise: equal, zeros of one sign, or both NaN."""
    assert got.dtype == want.dtype and got.shape == want.shape
    result: Array = got == want
    if got.dtype.kind == "f":
        result = np.where(np.isnan(want), np.isnan(got), result & (np.signbit(got) == np.signbit(want)))
    return result


def feature_levels() -> list[tuple[tuple[str, bool], ...]]:
    """Feature lists that make this host render code of each register width it has."""
    if platform.machine() != "x86_64":
        return [()]
    have = {f for f, on in renderer().arch.features if on}
    levels: list[tuple[tuple[str, bool], ...]] = [()]
    if "avx512f" in have:
        levels.append((("avx512f", False),))
    if "avx" in have:
        levels.append((("avx", False),))
    if "sse3" in have:
        levels.append((("sse3", False),))
    return levels


def params(lines: Lines, *specs: tuple[DType, int, str]) -> list[UOp]:
    """PARAMs of slots 0, 1, … aligned to 64 bytes, listed."""
    return [
        lines.add(UOp.param(slot, dtype, size, access, 64))
        for slot, (dtype, size, access) in enumerate(specs)
    ]
