"""Code for machines that are not here: every declared op compiles for every architecture, and GPU-shaped
kernels too."""

from __future__ import annotations

import pytest
from llvm_kernels import Body, closed, compiled, render, special, variable
from test_ops import BINARY, TERNARY, UNARY, kernel_of

from tiny_core.api import Arch, DType, Ops, RenderError, TargetError, UOp, dtypes
from tiny_renderer_llvm import codeobject, elf
from tiny_renderer_llvm.architectures import ARCHITECTURES
from tiny_renderer_llvm.renderer import ARCHS, LLVMRenderer

F32, I32, I64 = dtypes.float32, dtypes.int32, dtypes.int64
GPUS = tuple(ARCHITECTURES)
MACHINES = {"x86_64": 62, "aarch64": 183} | dict.fromkeys(GPUS, 224)  # e_machine, System V ABI
_VALUES = (dtypes.bool_, *dtypes.ints, dtypes.float16, F32, dtypes.float64)


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("arch", ["aarch64", *GPUS])
def test_every_declared_op_is_instructions(arch: str, vector: bool) -> None:
    # compile() raises if a library call is left
    can = LLVMRenderer(Arch(arch)).capabilities
    for dtype in _VALUES:
        if dtype in can.dtypes:
            ops = [op for op in (*UNARY, *BINARY, *TERNARY) if can.supports(op, dtype)]
            compiled(kernel_of(ops, dtype, 4 if vector else 0, 64), Arch(arch))


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("arch", ["aarch64", *GPUS])
def test_every_cast_is_instructions(arch: str, vector: bool) -> None:
    lanes = 4 if vector else 0
    body = Body()
    slot = 0
    for of in _VALUES:
        x = body(UOp.param(slot, of, 4).load(0, lanes=lanes))
        slot += 1
        for to in _VALUES:
            if to is not of:
                body(UOp.param(slot, to, 4, "w").store(0, x.cast(to)))
                slot += 1
    compiled(body, Arch(arch))


def group_sum(dtype: DType = F32) -> Body:
    """Sums of 64 numbers by a group of 64 items: each puts one into near memory, item 0 adds them up."""
    body = Body()
    group, item = body(special("group", 0, 128)), body(special("item", 0, 64))
    near = UOp.near(dtype, 64, 0)
    x = body(UOp.param(0, dtype, 128 * 64).load(group * 64 + item))
    wait = body(UOp(Ops.BARRIER, dtypes.void, (body(near.store(item, x)),)))
    acc = UOp.near(dtype, 1, 1, "register")
    start = body(acc.store(0, 0))
    i = body(UOp.range(UOp.const(64, I32), "i", "reduce"))
    value = body(near.after(wait).load(i))
    end = body(closed(i, body(acc.store(0, body(acc.after(start, i).load(0)) + value))))
    body(UOp.param(1, dtype, 128, "w").store(group, body(acc.after(end).load(0)), item.eq(0)))
    return body


@pytest.mark.parametrize("dtype", [dtypes.float16, F32, dtypes.float64, I32, I64], ids=lambda d: d.name)
@pytest.mark.parametrize("arch", GPUS)
def test_groups_near_memory_and_barriers(arch: str, dtype: DType) -> None:
    renderer = LLVMRenderer(Arch(arch))
    binary = compiled(group_sum(dtype), Arch(arch), block=(64, 1, 1))
    found = codeobject.read(binary)
    assert {"kernel", "kernel.kd"} == {s.name for s in found.elf.dynamic[1:]}
    assert found.kernel("kernel").descriptor.lds == 64 * dtype.itemsize
    assembly = renderer.compiler().assembly(render(group_sum(dtype), Arch(arch), (64, 1, 1)))
    assert f".amdhsa_group_segment_fixed_size {64 * dtype.itemsize}" in assembly
    # one wave needs no barrier on chips with waves of 64, where LLVM leaves a wave barrier
    assert "s_barrier" in assembly or renderer.capabilities.subgroup == 64


@pytest.mark.parametrize("arch", GPUS)
def test_several_waves_meet_at_a_barrier(arch: str) -> None:
    assembly = LLVMRenderer(Arch(arch)).compiler().assembly(render(group_sum(), Arch(arch), (256, 1, 1)))
    assert "s_barrier" in assembly
    for unused in ("dispatch_ptr", "queue_ptr", "dispatch_id"):
        assert f".amdhsa_user_sgpr_{unused} 0" in assembly
    assert ".kernarg_segment_size: 16" in assembly, "no hidden arguments"


@pytest.mark.parametrize("arch", GPUS)
def test_masks_gates_and_scalars_on_gpus(arch: str) -> None:
    body = Body()
    item = body(special("item", 0, 32, I64))
    n = variable("n", 0, 1024)
    gate = (item * 4 + 3) < n
    x = body(UOp.param(0, F32, 128, align=16).load(item * 4, gate.splat(4), UOp.const(0, F32, 4), 4, 16))
    lanes = UOp(Ops.STACK, dtypes.bool_, tuple(item * 4 + i < n for i in range(4)))
    y = body(UOp.param(1, dtypes.float16, 128).load(item * 4, lanes, UOp.const(1, dtypes.float16, 4), 4))
    body(UOp.param(2, F32, 128, "w").store(item * 4, x + y.cast(F32), lanes))
    found = codeobject.read(compiled(body, Arch(arch), (32, 1, 1)))
    said = found.kernel("kernel").metadata
    assert said is not None and [a.kind for a in said.arguments] == ["global_buffer"] * 3 + ["by_value"]


@pytest.mark.parametrize("arch", ARCHS)
def test_objects_are_for_their_machine(arch: str) -> None:
    body = Body()
    body(UOp.param(0, F32, 1, "w").store(0, 1.0))
    assert elf.read(compiled(body, Arch(arch))).header.machine == MACHINES[arch.partition("_v")[0]]


def test_wide_loads_of_an_item_are_one_instruction() -> None:
    body = Body()
    item = body(special("item", 0, 32))
    x = body(UOp.param(0, F32, 128, align=16).load(item * 4, lanes=4, align=16))
    body(UOp.param(1, F32, 128, "w", 16).store(item * 4, x + x, align=16))
    for arch in GPUS:
        assembly = LLVMRenderer(Arch(arch)).compiler().assembly(render(body, Arch(arch), (32, 1, 1)))
        assert "global_load_dwordx4" in assembly or "global_load_b128" in assembly
        assert "global_store_dwordx4" in assembly or "global_store_b128" in assembly


def test_what_a_target_does_not_have_is_an_error() -> None:
    with pytest.raises(RenderError, match="work-items"):
        render(group_sum())
    body = Body()
    t = body(UOp.range(UOp.const(4, I32), "t", "thread"))
    body(closed(t, body(UOp.param(0, I32, 4, "w").store(t, t))))
    with pytest.raises(RenderError, match="thread"):
        render(body, Arch("gfx1100"))
    with pytest.raises(TargetError, match="gfx9000"):
        LLVMRenderer(Arch("gfx9000"))
    with pytest.raises(TargetError, match="gfx1100 has no feature"):
        LLVMRenderer(Arch("gfx1100", (("avx2", True),)))


@pytest.mark.parametrize("op", [Ops.EXP2, Ops.LOG2, Ops.SIN], ids=lambda op: op.value)
@pytest.mark.parametrize("arch", ARCHS)
def test_transcendental_functions_are_left_to_core(arch: str, op: Ops) -> None:
    can = LLVMRenderer(Arch(arch)).capabilities
    assert not any(can.supports(op, d) for d in dtypes.floats)
    body = Body()
    body(UOp.param(1, F32, 1, "w").store(0, body(UOp.param(0, F32, 1).load(0)).alu(op)))
    with pytest.raises(RenderError, match=r"not declared|no \w+ of"):
        render(body, Arch(arch))


def test_a_barrier_of_a_host_program_is_nothing() -> None:
    with_barrier, without = Body(), Body()
    with_barrier(UOp(Ops.BARRIER, dtypes.void, ()))
    assert render(with_barrier, Arch("x86_64_v4")) == render(without, Arch("x86_64_v4"))


@pytest.mark.parametrize("arch", ["", *ARCHS])
def test_a_completed_architecture_names_the_same_renderer(arch: str) -> None:
    # compile workers are told the completed one
    renderer = LLVMRenderer(Arch(arch))
    again = LLVMRenderer(renderer.arch)
    assert again.fingerprint() == renderer.fingerprint()
    assert again.capabilities == renderer.capabilities
