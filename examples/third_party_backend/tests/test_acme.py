"""The ACME through the plugin host, and its machine by hand; results are compared with numpy.

Install the wheel first (`pip install -e ".[test]"`): devices are found by entry points. What every backend
must do is asked by the conformance kit (`tiny-conform ACME`); here is the place for what only this chip has.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from acme_tiny.care import hint, machine
from acme_tiny.command import main
from acme_tiny.machine import Program, assemble
from acme_tiny.mock import RUBBISH, MockRuntime
from acme_tiny.ops import RELU, use_instructions
from acme_tiny.renderer import AcmeRenderer
from acme_tiny.runtime import AcmeRuntime

from tiny_core import Tensor
from tiny_core.api import (
    Arch,
    Compiled,
    CompileError,
    DeviceError,
    LaunchError,
    OutOfMemory,
    RenderError,
    Signature,
    TargetError,
    UOp,
    dtypes,
)

WEIRD = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 3e9], np.float32)


def run(body: str, out: np.ndarray, *inputs: np.ndarray, groups: int = 1) -> None:
    """Assemble and run a program in which `a0` is `out`, and `a1` … are the inputs."""
    types = {"float32": "f32", "int32": "i32", "bool": "b1"}
    arrays = (out, *(a.copy() for a in inputs))
    heads = [f".buffer a{n} {types[a.dtype.name]} {a.size}" for n, a in enumerate(arrays)]
    program = Program(assemble("\n".join([*heads, "%i = group.i32 0", body]), "test"))
    program.run([memoryview(a).cast("B") for a in arrays], (), (groups, 1, 1))


# ---- tensors -----------------------------------------------------------------------------------------------


def test_elementwise() -> None:
    a = np.linspace(-2, 2, 1000, dtype=np.float32)
    got = (Tensor(a, device="ACME") * 3 + 1).relu().numpy()
    np.testing.assert_array_equal(got, np.maximum(a * np.float32(3) + np.float32(1), 0))


def test_matmul() -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 24, 24)).astype(np.float32)
    got = (Tensor(a, device="ACME") @ Tensor(b, device="ACME")).numpy()
    np.testing.assert_allclose(got, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-5)


def test_what_the_chip_lacks_is_taken_apart_by_core() -> None:
    a = np.linspace(0, 3, 50, dtype=np.float32)
    np.testing.assert_allclose(Tensor(a, device="ACME").sin().numpy(), np.sin(a), rtol=1e-5, atol=1e-6)
    wide = Tensor([2**40, -3], dtype="int64", device="ACME")
    assert (wide * 3).tolist() == [3 * 2**40, -9]


# ---- the machine -------------------------------------------------------------------------------------------


def test_a_loop_adds_up_in_a_register() -> None:
    out, a = np.zeros(4, np.float32), np.arange(32, dtype=np.float32)
    run(
        """.register r0 f32 1
           %zero = const.i32 0x0
           %eight = const.i32 0x8
           %nothing = const.f32 0x0
           st.f32 r0 %zero %nothing
           %j = loop.i32 %eight
           %row = mul.i32 %i %eight
           %at = add.i32 %row %j
           %x = ld.f32 a1 %at
           %sum = ld.f32 r0 %zero
           %more = add.f32 %sum %x
           st.f32 r0 %zero %more
           end %j
           %all = ld.f32 r0 %zero
           st.f32 a0 %i %all""",
        out,
        a,
        groups=4,
    )
    np.testing.assert_array_equal(out, a.reshape(4, 8).sum(1))


def test_what_a_gate_switches_off_touches_no_memory() -> None:
    out, a = np.full(4, 9, np.float32), np.arange(2, dtype=np.float32)
    body = """%three = const.i32 0x3
              %two = const.i32 0x2
              %other = const.f32 0xbf800000
              %read = cmplt.b1 %i %two
              %x = ld.f32 a1 %i %read %other
              %write = cmplt.b1 %i %three
              st.f32 a0 %i %x %write"""
    run(body, out, a, groups=5)
    np.testing.assert_array_equal(out, [0, 1, -1, 9])
    with pytest.raises(LaunchError, match="outside memory"):
        run("%x = ld.f32 a1 %i\nst.f32 a0 %i %x", out, a, groups=4)


@pytest.mark.parametrize("y", [0, -1, 3, -3, 31, 40])
def test_arithmetic_is_total(y: int) -> None:
    x = np.array([0, 1, -1, 7, -7, -(2**31), 2**31 - 1], np.int32)
    out = np.zeros_like(x)
    body = f"%x = ld.i32 a1 %i\n%y = const.i32 {hex(y % 2**32)}\n%r = {{}}.i32 %x %y\nst.i32 a0 %i %r"
    run(body.format("idiv"), out, x, groups=7)
    want = [0 if y == 0 else abs(v) // abs(y) * (1 if (v < 0) == (y < 0) else -1) for v in x.tolist()]
    np.testing.assert_array_equal(out, np.array(want).astype(np.int32))
    run(body.format("shr"), out, x, groups=7)
    np.testing.assert_array_equal(out, [v >> y if 0 <= y < 32 else min(0, v >> 31) for v in x.tolist()])


def test_casts_saturate() -> None:
    out = np.zeros(8, np.int32)
    run("%x = ld.f32 a1 %i\n%r = cast.i32 %x\nst.i32 a0 %i %r", out, WEIRD, groups=8)
    np.testing.assert_array_equal(out, [0, 0, 1, -2, 2**31 - 1, -(2**31), 0, 2**31 - 1])


def test_a_stack_picks_lanes() -> None:
    out, a = np.zeros(4, np.float32), np.arange(8, dtype=np.float32)
    body = """%four = const.i32 0x4
              %x = ld.f32x4 a1 %i
              %y = ld.f32x4 a1 %four
              %mixed = stack.f32x4 %y.3 %x.0 %y.1 %x.2
              %one = stack.f32 %y.1
              %all = stack.f32x4 %one %one %one %one
              %product = mul.f32x4 %mixed %all
              st.f32x4 a0 %i %product"""
    run(body, out, a)
    np.testing.assert_array_equal(out, np.array([7, 0, 5, 2]) * 5)


def test_max_and_min_know_nan_and_the_sign_of_zero() -> None:
    x, y = (m.ravel() for m in np.meshgrid(WEIRD, WEIRD))
    for name, want in (("max", np.maximum(x, y)), ("min", np.minimum(x, y))):
        out = np.zeros_like(x)
        run(
            f"%x = ld.f32 a1 %i\n%y = ld.f32 a2 %i\n%r = {name}.f32 %x %y\nst.f32 a0 %i %r",
            out,
            x,
            y,
            groups=64,
        )
        np.testing.assert_array_equal(out, want)
        zeros = (x == 0) & (y == 0)
        signs = np.signbit(x) & np.signbit(y) if name == "max" else np.signbit(x) | np.signbit(y)
        np.testing.assert_array_equal(np.signbit(out[zeros]), signs[zeros])


def test_each_group_has_scratch_of_its_own() -> None:
    out, a = np.zeros(12, np.float32), np.arange(12, dtype=np.float32)
    body = """.scratch s0 f32 4
              %four = const.i32 0x4
              %three = const.i32 0x3
              %at = mul.i32 %i %four
              %j = loop.i32 %four
              %from = add.i32 %at %j
              %x = ld.f32 a1 %from
              %turned = sub.i32 %three %j
              st.f32 s0 %turned %x
              end %j
              %k = loop.i32 %four
              %y = ld.f32 s0 %k
              %to = add.i32 %at %k
              st.f32 a0 %to %y
              end %k"""
    run(body, out, a, groups=3)
    np.testing.assert_array_equal(out, a.reshape(3, 4)[:, ::-1].ravel())
    with pytest.raises(LaunchError, match="4 elements"):
        run(".scratch s0 f32 4\n%n = const.i32 0x4\n%x = ld.f32 s0 %n", out)


# ---- its own instruction -----------------------------------------------------------------------------------


def test_a_rule_brings_it_in_and_it_is_what_it_replaces() -> None:
    x = UOp.param(1, dtypes.float32, 8).load(UOp.const(0, dtypes.int32))
    assert use_instructions(x.maximum(0.0)).arg is RELU
    out = np.zeros_like(WEIRD)
    run("%x = ld.f32 a1 %i\n%r = relu.f32 %x\nst.f32 a0 %i %r", out, WEIRD, groups=8)
    np.testing.assert_array_equal(out, np.maximum(WEIRD, 0))
    assert not np.signbit(out[1])
    assert RELU.python is not None
    np.testing.assert_array_equal(RELU.python(WEIRD), out)


# ---- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["frob", "%1 = add.f32 %0 %0", "%1 = const.f9 0x0", "end %0", "ld.f32 a0"])
def test_the_assembler_names_the_line(line: str) -> None:
    with pytest.raises(CompileError, match="line 2"):
        assemble(f".kernel k\n{line}\n", "k")


def test_errors_are_typed() -> None:
    with pytest.raises(TargetError):
        AcmeRenderer(Arch("k2"))
    with pytest.raises(DeviceError):
        AcmeRuntime(1)
    with pytest.raises(LaunchError):
        AcmeRuntime().load(Compiled(Signature("k", ()), b"ELF"))
    with pytest.raises(OutOfMemory):
        AcmeRuntime(options={"memory": "1"}).allocate(1 << 21)
    with pytest.raises(DeviceError, match="megabytes"):
        AcmeRuntime(options={"memory": "much"})
    runtime = AcmeRuntime()
    block = runtime.allocate(64)
    runtime.free(block, 64)
    with pytest.raises(LaunchError):
        runtime.copy_out(memoryview(bytearray(4)), block)


# ---- care --------------------------------------------------------------------------------------------------


def test_the_mock_has_two_boards_and_memory_full_of_rubbish() -> None:
    boards = [MockRuntime(n) for n in range(2)]
    out = bytearray(8)
    boards[1].copy_out(memoryview(out), boards[1].allocate(8))
    assert out == bytes([RUBBISH]) * 8
    with pytest.raises(DeviceError):
        MockRuntime(2)


def test_the_check_and_the_hint() -> None:
    assert [c.mark for c in machine("ACME")] == ["OK"]
    assert "float32" in hint(RenderError("cast of float64: the target has no float64"))
    assert hint(RenderError("something else")) == ""


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.k1"
    file.write_text(".buffer a0 f32 1\n%i = group.i32 0\n%x = ld.f32 a0 %i\nst.f32 a0 %i %x\n")
    assert main([str(file)]) == 0
    assert capsys.readouterr().out == "3 instructions: 1 group, 1 ld, 1 st\n"
    assert main([]) == 2
    assert main([str(tmp_path / "none")]) == 1
