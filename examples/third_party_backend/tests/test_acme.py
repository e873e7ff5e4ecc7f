"""The ACME K1 on kernels written by hand, as core hands them to a renderer, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from acme_tiny.ops import RELU, use_instructions
from acme_tiny.renderer import AcmeRenderer, Assembler
from acme_tiny.runtime import AcmeRuntime

from tiny_core.api import (
    Arch,
    Compiled,
    CompileError,
    DeviceError,
    DType,
    LaunchError,
    Ops,
    OutOfMemory,
    ParamSpec,
    RenderError,
    ScalarSpec,
    Signature,
    TargetError,
    UOp,
    dtypes,
    payload,
)

Array = npt.NDArray[Any]
F32, I32 = dtypes.float32, dtypes.int32
WEIRD = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 3e9], np.float32)
INTS = np.array([0, 1, -1, 7, -7, 31, 40, -(2**31), 2**31 - 1], np.int32)


def linear(*roots: UOp) -> UOp:
    """The LINEAR of effects, each before the next; sources first."""
    nodes: dict[UOp, None] = {}
    for root in roots:
        for node in root.toposort(lambda n: n not in nodes):
            nodes.setdefault(node)
    return UOp(Ops.LINEAR, dtypes.void, tuple(nodes))


def launch(code: UOp, *arrays: Array, grid: tuple[int, ...] = (1,), **scalars: int) -> None:
    """Render, assemble, load and run a kernel; `arrays` hold its results afterwards."""
    params = sorted((n for n in code.src if n.op is Ops.PARAM), key=lambda n: n.payload(payload.Param).slot)
    specs = tuple(ParamSpec(n.dtype, n.size) for n in params)
    signature = Signature("kernel", specs, tuple(map(ScalarSpec, scalars)))
    renderer, runtime = AcmeRenderer(Arch()), AcmeRuntime()
    source = renderer.render(code, signature)
    program = runtime.load(Compiled(signature, renderer.compiler().compile(source, "kernel")))
    handles = tuple(runtime.allocate(a.nbytes) for a in arrays)
    for handle, array in zip(handles, arrays, strict=True):
        runtime.copy_in(handle, memoryview(array))
    runtime.launch(program, handles, tuple(scalars.values()), grid)
    for handle, array in zip(handles, arrays, strict=True):
        runtime.copy_out(memoryview(array), handle)


def at(i: int) -> UOp:
    return UOp.const(i, I32)


def group(size: int) -> UOp:
    return UOp(Ops.SPECIAL, I32, (at(size),), payload.Special("group", 0))


def loop(size: int, axis: str) -> UOp:
    return UOp.range(at(size), axis)


def each(function: Any, result: DType, *arrays: Array) -> Array:
    """Apply `function` on nodes to every element of arrays, one group for each."""
    i = group(arrays[0].size)
    loads = [UOp.param(n + 1, dtypes.parse(a.dtype.name), a.size).load(i) for n, a in enumerate(arrays)]
    out = np.zeros(arrays[0].size, result.name)
    store = UOp.param(0, result, out.size, "w").store(i, function(*loads))
    launch(linear(store), out, *(a.copy() for a in arrays), grid=(arrays[0].size,))
    return out


def test_elementwise_on_vectors() -> None:
    a, b = np.arange(16, dtype=np.float32), np.linspace(-1, 1, 16, dtype=np.float32)
    out = np.zeros(16, np.float32)
    i = group(4) * 4
    x, y = (UOp.param(n, F32, 16).load(i, lanes=4) for n in (1, 2))
    launch(linear(UOp.param(0, F32, 16, "w").store(i, x * y + 1.0)), out, a, b, grid=(4,))
    np.testing.assert_array_equal(out, a * b + np.float32(1))


def test_a_reduction_through_a_register() -> None:
    a, out = np.arange(32, dtype=np.float32).reshape(4, 8), np.zeros(4, np.float32)
    i, j, acc = group(4), loop(8, "j"), UOp.near(F32, 1, 0, "register")
    start = acc.store(at(0), 0.0)
    inside = acc.after(start, j).load(at(0)) + UOp.param(1, F32, 32).load(i * 8 + j)
    end = acc.after(start).store(at(0), inside).end(j)
    result = UOp.param(0, F32, 4, "w").store(i, acc.after(end).load(at(0)))
    launch(linear(start, result), out, a, grid=(4,))
    np.testing.assert_array_equal(out, a.sum(1))


def test_a_matmul_with_a_row_staged_in_scratch() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((8, 8)).astype(np.float32) for _ in range(2))
    out = np.zeros((8, 8), np.float32)
    i, k, copy, j = group(8), loop(8, "k"), loop(2, "copy"), loop(2, "j")
    row, acc = UOp.near(F32, 8, 1, "scratch"), UOp.near(F32, 1, 0, "register", lanes=4)
    staged = row.store(copy * 4, UOp.param(1, F32, 64).load(i * 8 + copy * 4, lanes=4)).end(copy)
    zero = acc.after(j).store(at(0), UOp.const(0.0, F32, 4))
    left = row.after(staged).load(k).splat(4)
    right = UOp.param(2, F32, 64).load(k * 8 + j * 4, lanes=4)
    step = acc.after(zero).store(at(0), acc.after(zero, k).load(at(0)) + left * right).end(k)
    end = UOp.param(0, F32, 64, "w").store(i * 8 + j * 4, acc.after(step).load(at(0))).end(j)
    launch(linear(staged, zero, end), out, a, b, grid=(8,))
    np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-6)


def test_the_rule_brings_in_the_instruction() -> None:
    node = use_instructions(UOp.param(1, F32, 8).load(at(0)).maximum(0.0))
    assert node.arg is RELU
    got = each(lambda x: use_instructions(x.maximum(0.0)), F32, WEIRD)
    np.testing.assert_array_equal(got, each(lambda x: x.maximum(0.0), F32, WEIRD))
    assert not np.signbit(got[1])
    assert RELU.python is not None
    np.testing.assert_array_equal(RELU.python(WEIRD), got)


def test_gates_touch_no_memory() -> None:
    out, a = np.full(8, 9, np.float32), np.arange(6, dtype=np.float32)
    i = group(2) * 4
    lanes = UOp(Ops.STACK, I32, tuple(i + n for n in range(4)))
    x = UOp.param(1, F32, 6).load(i, lanes < 6, -1.0, lanes=4)
    launch(linear(UOp.param(0, F32, 8, "w").store(i, x, lanes < 7)), out, a, grid=(2,))
    np.testing.assert_array_equal(out, [0, 1, 2, 3, 4, 5, -1, 9])
    with pytest.raises(LaunchError, match="outside memory"):
        launch(linear(UOp.param(0, F32, 8, "w").store(at(8), 1.0)), out)


def test_lanes_and_shuffles() -> None:
    out, a = np.zeros(4, np.float32), np.arange(8, dtype=np.float32)
    x, y = (UOp.param(1, F32, 8).load(at(n), lanes=4) for n in (0, 4))
    mixed = UOp(Ops.SHUFFLE, F32, (x, y), payload.Shuffle((7, 0, 5, 2)))
    store = UOp.param(0, F32, 4, "w").store(at(0), mixed * y.lane(1).splat(4))
    launch(linear(store), out, a)
    np.testing.assert_array_equal(out, np.array([7, 0, 5, 2]) * 5)


def test_variables_and_loops_that_do_not_run() -> None:
    out = np.zeros(4, np.float32)
    i = UOp.range(UOp(Ops.VARIABLE, I32, (), payload.Variable("n", 0, 4)), "i")
    code = linear(UOp.param(0, F32, 4, "w").store(i, i.cast(F32) + 1.0).end(i))
    launch(code, out, n=0)
    np.testing.assert_array_equal(out, [0, 0, 0, 0])
    launch(code, out, n=3)
    np.testing.assert_array_equal(out, [1, 2, 3, 0])


@pytest.mark.parametrize("divisor", [0, -1, 3, -3, 31, 40])
def test_arithmetic_is_total(divisor: int) -> None:
    y = np.full_like(INTS, divisor)
    wide = [int(x) for x in INTS]
    wrap = [0 if divisor == 0 else int(abs(x) // abs(divisor) * np.sign(x) * np.sign(divisor)) for x in wide]
    quotient = np.array(wrap).astype(np.int32)
    np.testing.assert_array_equal(each(lambda x, y: x.alu(Ops.IDIV, y), I32, INTS, y), quotient)
    rest = [x if divisor == 0 else int(np.fmod(x, divisor)) for x in wide]
    np.testing.assert_array_equal(each(lambda x, y: x.alu(Ops.IMOD, y), I32, INTS, y), rest)
    left = np.array([x << divisor if 0 <= divisor < 32 else 0 for x in wide]).astype(np.int32)
    np.testing.assert_array_equal(each(lambda x, y: x << y, I32, INTS, y), left)
    right = [x >> divisor if 0 <= divisor < 32 else (-1 if x < 0 else 0) for x in wide]
    np.testing.assert_array_equal(each(lambda x, y: x >> y, I32, INTS, y), right)


def test_conversions_saturate() -> None:
    want = [0, 0, 1, -2, 2**31 - 1, -(2**31), 0, 2**31 - 1]
    np.testing.assert_array_equal(each(lambda x: x.cast(I32), I32, WEIRD), want)
    bits = each(lambda x: x.bitcast(I32), I32, WEIRD)
    np.testing.assert_array_equal(bits, WEIRD.view(np.int32))


def test_max_and_min_know_nan_and_the_sign_of_zero() -> None:
    x, y = (m.ravel() for m in np.meshgrid(WEIRD, WEIRD))
    high, low = each(UOp.maximum, F32, x, y), each(UOp.minimum, F32, x, y)
    np.testing.assert_array_equal(high, np.maximum(x, y))
    np.testing.assert_array_equal(low, np.minimum(x, y))
    zeros = (x == 0) & (y == 0)
    np.testing.assert_array_equal(np.signbit(high[zeros]), (np.signbit(x) & np.signbit(y))[zeros])
    np.testing.assert_array_equal(np.signbit(low[zeros]), (np.signbit(x) | np.signbit(y))[zeros])


def test_errors_are_typed() -> None:
    with pytest.raises(TargetError):
        AcmeRenderer(Arch("k2"))
    with pytest.raises(RenderError, match="float64"):
        launch(linear(UOp.param(0, dtypes.float64, 8, "w").store(at(0), 1.0)), np.zeros(8))
    for line in ("frob", "%1 = add.f32 %0 %0", "%1 = const.f9 0x0", "end %0"):
        with pytest.raises(CompileError, match="line 2"):
            Assembler().compile(f".kernel k\n{line}\n", "k")
    with pytest.raises(LaunchError):
        AcmeRuntime().load(Compiled(Signature("k", ()), b"ELF"))
    with pytest.raises(DeviceError):
        AcmeRuntime(1)
    with pytest.raises(OutOfMemory):
        AcmeRuntime(options={"memory": "1"}).allocate(1 << 21)


def test_memory_has_views_and_is_given_back() -> None:
    runtime = AcmeRuntime(options={"memory": "1"})
    first, second = runtime.allocate(64), runtime.allocate(64)
    runtime.copy_in(runtime.view(first, 8), memoryview(b"abcd"))
    runtime.copy_peer(runtime.view(second, 4), first, 16)
    out = bytearray(4)
    runtime.copy_out(memoryview(out), runtime.view(second, 12))
    assert out == b"abcd"
    runtime.free(first, 64)
    with pytest.raises(LaunchError):
        runtime.copy_out(memoryview(out), first)
    runtime.free(second, 64)
    runtime.allocate(1 << 20)
