"""What is read of code objects, against the assembly text in which LLVM says the same."""

from __future__ import annotations

import json
import random
import re
import subprocess
from pathlib import Path

import pytest
from code_objects import RICH, compiler, relocatable, tool
from llvm_kernels import Body, compiled, render, special, variable
from test_targets import group_sum

from tiny_core.api import Arch, CompileError, DataError, UOp, dtypes
from tiny_renderer_llvm import codeobject, elf, show
from tiny_renderer_llvm.architectures import ARCHITECTURES, architecture
from tiny_renderer_llvm.codeobject import Kernel
from tiny_renderer_llvm.descriptor import descriptor
from tiny_renderer_llvm.link import link
from tiny_renderer_llvm.occupancy import resources

GPUS = tuple(ARCHITECTURES)
SPILLS = "\n".join(
    ["define amdgpu_kernel void @kernel(ptr addrspace(1) %p) #0 {"]
    + [f"  %a{i} = getelementptr i32, ptr addrspace(1) %p, i64 {64 * i}" for i in range(48)]
    + [f"  %x{i} = load volatile i32, ptr addrspace(1) %a{i}" for i in range(48)]
    + [f"  store volatile i32 %x{i}, ptr addrspace(1) %a{i}" for i in range(48)]
    + [
        "  ret void",
        "}",
        'attributes #0 = { "amdgpu-num-vgpr"="32" "amdgpu-flat-work-group-size"="1,256" }',
        "",
    ]
)

# directives of an assembly text and the fields that they set ("AMDHSA Kernel Assembler Directives")
DIRECTIVES = {
    "group_segment_fixed_size": "group_segment_fixed_size",
    "private_segment_fixed_size": "private_segment_fixed_size",
    "kernarg_size": "kernarg_size",
    "user_sgpr_count": "user_sgpr_count",
    "user_sgpr_dispatch_ptr": "enable_sgpr_dispatch_ptr",
    "user_sgpr_queue_ptr": "enable_sgpr_queue_ptr",
    "user_sgpr_kernarg_segment_ptr": "enable_sgpr_kernarg_segment_ptr",
    "user_sgpr_dispatch_id": "enable_sgpr_dispatch_id",
    "user_sgpr_private_segment_size": "enable_sgpr_private_segment_size",
    "user_sgpr_kernarg_preload_length": "kernarg_preload_spec_length",
    "user_sgpr_kernarg_preload_offset": "kernarg_preload_spec_offset",
    "wavefront_size32": "enable_wavefront_size32",
    "uses_dynamic_stack": "uses_dynamic_stack",
    "enable_private_segment": "enable_private_segment",
    "system_sgpr_workgroup_id_x": "enable_sgpr_workgroup_id_x",
    "system_sgpr_workgroup_id_y": "enable_sgpr_workgroup_id_y",
    "system_sgpr_workgroup_id_z": "enable_sgpr_workgroup_id_z",
    "system_sgpr_workgroup_info": "enable_sgpr_workgroup_info",
    "system_vgpr_workitem_id": "enable_vgpr_workitem_id",
    "float_round_mode_32": "float_round_mode_32",
    "float_round_mode_16_64": "float_round_mode_16_64",
    "float_denorm_mode_32": "float_denorm_mode_32",
    "float_denorm_mode_16_64": "float_denorm_mode_16_64",
    "dx10_clamp": "enable_dx10_clamp",
    "ieee_mode": "enable_ieee_mode",
    "fp16_overflow": "fp16_ovfl",
    "tg_split": "tg_split",
    "workgroup_processor_mode": "wgp_mode",
    "memory_ordered": "mem_ordered",
    "forward_progress": "fwd_progress",
    "shared_vgpr_count": "shared_vgpr_count",
    "inst_pref_size": "inst_pref_size",
    "round_robin_scheduling": "enable_wg_rr_en",
    "exception_fp_ieee_invalid_op": "enable_exception_ieee_754_fp_invalid_operation",
    "exception_fp_denorm_src": "enable_exception_fp_denormal_source",
    "exception_fp_ieee_div_zero": "enable_exception_ieee_754_fp_division_by_zero",
    "exception_fp_ieee_overflow": "enable_exception_ieee_754_fp_overflow",
    "exception_fp_ieee_underflow": "enable_exception_ieee_754_fp_underflow",
    "exception_fp_ieee_inexact": "enable_exception_ieee_754_fp_inexact",
    "exception_int_div_zero": "enable_exception_int_divide_by_zero",
}
# those that are no field but counts
COUNTS = {
    "next_free_vgpr",
    "next_free_sgpr",
    "accum_offset",
    "reserve_vcc",
    "reserve_xnack_mask",
    "named_barrier_count",
}


def positions() -> Body:
    """A kernel that uses all positions, scalars and vectors of halves."""
    body = Body()
    total = body(special("group", 0, 8))
    for level, dim in (("group", 1), ("group", 2), ("item", 0), ("item", 1), ("item", 2)):
        total = body(total + body(special(level, dim, 4)))
    n = variable("n", 0, 64, dtypes.int32)
    x = body(UOp.param(1, dtypes.float16, 1024, align=16).load(0, lanes=8, align=16))
    body(UOp.param(2, dtypes.float16, 1024, "w", 16).store(0, x + x, align=16))
    body(UOp.param(0, dtypes.int32, 64, "w").store(total, n))
    return body


def texts(arch: str) -> list[str]:
    return [
        render(group_sum(), Arch(arch), (64, 1, 1)),
        render(group_sum(dtypes.float64), Arch(arch), (256, 1, 1)),
        render(positions(), Arch(arch), (4, 4, 4)),
        RICH,
        SPILLS,
    ]


def directives(assembly: str, kernel: str) -> dict[str, int]:
    (_, _, rest) = assembly.partition(f".amdhsa_kernel {kernel}\n")
    found = re.findall(r"\.amdhsa_(\w+) (\S+)$", rest.partition(".end_amdhsa_kernel")[0], re.M)
    constants = {n: int(v) for n, v in re.findall(r"\.set (\S+), (\d+)$", assembly, re.M)}
    return {name: int(v) if v.isdigit() else constants.get(v, -1) for name, v in found}


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("arch", GPUS)
def test_descriptors_say_what_the_directives_say(arch: str, number: int) -> None:
    source = texts(arch)[number]
    wanted = directives(compiler(arch).assembly(source), "kernel")
    kernel = codeobject.read(link([compiler(arch).relocatable(source)])).kernel("kernel")
    d = kernel.descriptor
    assert not d.reserved
    assert len(wanted) > 25 and not set(wanted) - set(DIRECTIVES) - COUNTS
    for name, value in wanted.items():
        if name in DIRECTIVES and value >= 0:
            assert d.fields[DIRECTIVES[name]] == value, name
    if d.accum_offset is not None and wanted["accum_offset"] > 0:
        assert d.accum_offset == wanted["accum_offset"]
    block = 8
    if wanted["next_free_vgpr"] > 0:
        assert d.vgprs == max(-(-wanted["next_free_vgpr"] // block), 1) * block
    assert d.wave == architecture(arch).wave
    if arch.startswith("gfx1"):
        assert d.sgprs is None, "every wave has all of them"
    elif number < 3:
        assert kernel.metadata is not None and d.sgprs == -(-kernel.metadata.sgprs // 16) * 16


def yaml(assembly: str, kernel: str) -> dict[str, str]:
    """The scalars of a kernel's entry in the metadata that LLVM prints."""
    entries = re.split(
        r"^  - ", assembly.partition("amdhsa.kernels:")[2].partition("amdhsa.target")[0], flags=re.M
    )
    entry = next(e for e in entries if re.search(rf"\.name: +{kernel}$", e, re.M) and ".symbol" in e)
    return dict(re.findall(r"^ *(\.\w+): +(\S+)$", re.sub(r"^      .*\n", "", entry, flags=re.M), re.M))


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("arch", GPUS)
def test_metadata_is_what_llvm_prints(arch: str, number: int) -> None:
    source = texts(arch)[number]
    assembly = compiler(arch).assembly(source)
    found = codeobject.read(link([compiler(arch).relocatable(source)]))
    said = found.kernel("kernel").metadata
    assert said is not None and found.target == f"amdgcn-amd-amdhsa--{arch}"
    wanted = yaml(assembly, "kernel")
    rows = {
        ".vgpr_count": said.vgprs, ".sgpr_count": said.sgprs, ".vgpr_spill_count": said.vgpr_spills,
        ".sgpr_spill_count": said.sgpr_spills, ".private_segment_fixed_size": said.scratch,
        ".group_segment_fixed_size": said.lds, ".kernarg_segment_size": said.kernarg_size,
        ".kernarg_segment_align": said.kernarg_align, ".wavefront_size": said.wave,
        ".max_flat_workgroup_size": said.max_items,
    }  # fmt: skip
    assert {k: int(wanted[k]) for k in rows} == rows
    assert said.agprs == int(wanted.get(".agpr_count", 0))
    assert wanted[".symbol"] == said.symbol


@pytest.mark.parametrize("arch", GPUS)
def test_arguments_have_their_places(arch: str) -> None:
    kernel = codeobject.read(compiled(positions(), Arch(arch), (4, 4, 4))).kernel("kernel")
    assert kernel.metadata is not None
    rows = [(a.name, a.offset, a.size, a.kind, a.address_space) for a in kernel.metadata.arguments]
    buffers = [(f"p{i}", 8 * i, 8, "global_buffer", "global") for i in range(3)]
    assert rows == [*buffers, ("s0", 24, 8, "by_value", "")]


@pytest.mark.parametrize("arch", GPUS)
def test_linked_and_relocatable_say_the_same(arch: str) -> None:
    before = relocatable(RICH, arch)
    one, two = codeobject.read(before), codeobject.read(link([before]))

    def facts(k: Kernel) -> tuple[object, ...]:
        fields = {n: v for n, v in k.descriptor.fields.items() if n != "kernel_code_entry_byte_offset"}
        return k.name, fields, k.metadata, k.code_size

    assert [facts(k) for k in one.kernels] == [facts(k) for k in two.kernels]
    assert all(k.entry is None for k in one.kernels) and all(k.entry for k in two.kernels)


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100", "gfx1201"])
def test_descriptors_are_what_objdump_prints(arch: str, tmp_path: Path) -> None:
    for number, source in enumerate(texts(arch)):
        binary = link([compiler(arch).relocatable(source)])
        path = tmp_path / f"{number}.so"
        path.write_bytes(binary)
        command = [tool("llvm-objdump"), "-D", "--disassemble-symbols=kernel.kd", str(path)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        d = codeobject.read(binary).kernel("kernel").descriptor
        rows = dict(re.findall(r"\.amdhsa_(\w+) (\d+)", out))
        assert len(rows) > 20
        for name, value in rows.items():
            if name in DIRECTIVES:
                assert d.fields[DIRECTIVES[name]] == int(value), name
        assert d.vgprs == int(rows["next_free_vgpr"])


@pytest.mark.parametrize("arch", GPUS)
def test_spills_and_scratch_are_seen(arch: str) -> None:
    kernel = codeobject.read(compiler(arch).compile(SPILLS, "kernel")).kernel("kernel")
    found = resources(kernel)
    assert dict(found.registers)["vgpr"] <= 32
    # accumulation registers take the spills where there are some
    assert found.spills + dict(found.registers).get("agpr", 0) > 10
    if "agpr" not in dict(found.registers):
        assert found.scratch >= 4 * 10 and "B scratch" in str(found)
    else:
        assert kernel.descriptor.accum_offset == 32


def test_reserved_bits_are_reported() -> None:
    data = bytearray(64)
    data[60] = 1
    for name in GPUS:
        assert descriptor(bytes(data), architecture(name)).reserved == 1 << 480
    data = bytearray(64)
    data[49] = 0b10  # bit 9 of rsrc1: scalar registers on CDNA, nothing on RDNA
    assert not descriptor(bytes(data), architecture("gfx942")).reserved
    assert descriptor(bytes(data), architecture("gfx1100")).reserved
    with pytest.raises(DataError, match="64 bytes"):
        descriptor(bytes(63), architecture("gfx942"))


def test_processors_that_are_not_known_are_errors_with_the_list() -> None:
    binary = bytearray(link([relocatable(RICH)]))
    binary[48] = 0x2C  # e_flags: gfx900
    with pytest.raises(DataError, match=r"0x2c(.|\n)*gfx942, gfx950, gfx1100, gfx1201"):
        codeobject.read(bytes(binary))
    with pytest.raises(DataError, match="machine 62"):
        codeobject.read(compiled(cpu_kernel(), Arch("x86_64")))
    with pytest.raises(DataError, match="no kernel 'kernal'"):
        codeobject.read(link([relocatable(RICH)])).kernel("kernal")


def cpu_kernel() -> Body:
    body = Body()
    body(UOp.param(0, dtypes.float32, 1, "w").store(0, 1.0))
    return body


# ---- damaged files -----------------------------------------------------------------------------------------


def survives(binary: bytes) -> None:
    """Reading, showing and linking give a result or a typed error, never another exception."""
    try:
        found = codeobject.read(binary)
        assert show.as_text(found) and json.dumps(show.as_json(found))
    except DataError as error:
        assert error.message
    try:
        link([binary])
    except CompileError as error:
        assert error.message


@pytest.mark.parametrize("linked", [False, True])
def test_truncated_files_are_typed_errors(linked: bool) -> None:
    binary = relocatable(RICH)
    binary = link([binary]) if linked else binary
    for n in range(0, len(binary), 1 if len(binary) < 4000 else 3):
        with pytest.raises(DataError, match="ELF"):
            elf.read(binary[:n])
        survives(binary[:n])


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_flipped_bytes_are_results_or_typed_errors(linked: bool, seed: int) -> None:
    binary = relocatable(RICH, GPUS[seed])
    binary = link([binary]) if linked else binary
    rng = random.Random(seed)
    of = elf.read(binary)
    spans = [(0, 64)] + [
        (s.offset, s.offset + len(s.data)) for s in of.sections if s.name != ".text" and s.data
    ]
    table = int.from_bytes(binary[40:48], "little")
    spans += [(table, len(binary))] * 4
    for _ in range(600):
        damaged = bytearray(binary)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            start, end = rng.choice(spans)
            at = rng.randrange(start, end)
            damaged[at] = rng.choice(
                (0, 1, 0x7F, 0x80, 0xFF, damaged[at] ^ 1 << rng.randrange(8), rng.randrange(256))
            )
        survives(bytes(damaged))
