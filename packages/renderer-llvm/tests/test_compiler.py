"""The compiler: errors with the source, objects without library calls, fingerprints, good assembly."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from llvm_kernels import Body, closed, compiled, render

from tiny_core.api import Arch, CompileError, Ops, UOp, dtypes
from tiny_renderer_llvm.elf import symbols
from tiny_renderer_llvm.renderer import LLVMRenderer

F32, I32 = dtypes.float32, dtypes.int32


def test_a_library_call_is_an_error_with_the_source() -> None:
    source = (
        "define float @kernel(float %x) {\n  %y = call float @llvm.exp2.f32(float %x)\n  ret float %y\n}\n"
    )
    with pytest.raises(CompileError, match="exp2f undefined in kernel") as caught:
        LLVMRenderer(Arch("x86_64")).compiler().compile(source, "kernel")
    assert caught.value.source == source and "decomposed" in caught.value.hint


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("define void @kernel() {\n  %x = add i32 1, %y\n  ret void\n}\n", "undefined value"),
        ("define void @kernel() {\n  ret i32 0\n}\n", "rejected"),
        ("define void @other() {\n  ret void\n}\n", "does not define kernel"),
    ],
)
def test_a_bad_module_is_an_error_with_the_source(source: str, message: str) -> None:
    with pytest.raises(CompileError, match=message) as caught:
        LLVMRenderer(Arch("x86_64")).compiler().compile(source, "kernel")
    assert caught.value.source == source


def test_clearing_and_copying_loops_stay_loops() -> None:
    # LLVM would make memset and memcpy of them
    body = Body()
    i = body(UOp.range(UOp.const(1 << 16, dtypes.int64), "i"))
    x = body(UOp.param(0, F32, 1 << 16).load(i))
    body(
        closed(
            i,
            body(UOp.param(1, F32, 1 << 16, "w").store(i, x)),
            body(UOp.param(2, F32, 1 << 16, "w").store(i, 0.0)),
        )
    )
    assert not symbols(compiled(body)).missing


def test_fingerprints_name_version_and_target() -> None:
    one, two = (LLVMRenderer(Arch(a)).compiler().fingerprint() for a in ("x86_64", "gfx942"))
    assert one != two and "llvmlite 0." in one and "x86-64" in one


def test_recent_objects_are_shown_as_assembly() -> None:
    body = Body()
    body(UOp.param(0, F32, 1, "w").store(0, 1.0))
    renderer = LLVMRenderer(Arch("gfx1100"))
    compiler = renderer.compiler()
    binary = compiler.compile(renderer.render(body.linear(), body.signature()), "kernel")
    assert "s_endpgm" in compiler.disassemble(binary)
    assert renderer.compiler().disassemble(b"not an object").startswith("; 13 bytes")


def test_rendering_needs_no_llvmlite() -> None:
    code = (
        "import sys; sys.modules['llvmlite'] = None\n"
        "from tiny_core.api import Arch, DeviceError\n"
        "from tiny_renderer_llvm.renderer import LLVMRenderer\n"
        "r = LLVMRenderer(Arch('gfx942')); r.fingerprint()\n"
        "try: r.compiler()\n"
        "except DeviceError as e: print(e.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "pip install llvmlite"


def microkernel(rows: int = 6, vectors: int = 4, k: int = 512) -> Body:
    """C[6, 64] = A[6, k] @ B[k, 64]: the register tile that the best matmul on AVX-512 is built of."""
    body = Body()
    a, b, c = (
        UOp.param(0, F32, rows * k),
        UOp.param(1, F32, k * 64, align=64),
        UOp.param(2, F32, rows * 64, "w", 64),
    )
    acc = UOp.near(F32, rows * vectors, 0, "register", 16)
    starts = [body(acc.store(s, UOp.const(0.0, F32, 16))) for s in range(rows * vectors)]
    i = body(UOp.range(UOp.const(k, I32), "k", "reduce"))
    held, stores = acc.after(*starts, i), []
    columns = [body(b.load(i * 64 + 16 * v, lanes=16, align=64)) for v in range(vectors)]
    for r in range(rows):
        x = body(body(a.load(i + r * k)).splat(16))
        for v in range(vectors):
            slot = r * vectors + v
            value = body(UOp(Ops.MULACC, F32, (x, columns[v], body(held.load(slot)))))
            stores.append(body(acc.store(slot, value)))
    end = body(closed(i, *stores))
    for slot in range(rows * vectors):
        body(c.store(slot // vectors * 64 + slot % vectors * 16, body(acc.after(end).load(slot)), align=64))
    return body


def test_a_matmul_tile_stays_in_registers() -> None:
    text = render(microkernel(), Arch("x86_64_v4"))
    assembly = LLVMRenderer(Arch("x86_64_v4")).compiler().assembly(text)
    assert not re.search(r"vmov[ua]p[sd]\s+%zmm\d+, %zmm\d+", assembly), "moves between registers"
    assert "(%rsp)" not in assembly, "spills"
    loop = max(re.split(r"^\.LBB\w+:", assembly, flags=re.M), key=lambda part: part.count("vfmadd"))
    instructions = [line.split()[0] for line in loop.splitlines() if line.startswith("\t")]
    before_jump = instructions[: instructions.index(next(i for i in instructions if i.startswith("j"))) + 1]
    assert before_jump.count("vfmadd231ps") == 24
    assert len(before_jump) <= 24 + 4 + 6 + 5, "products, columns, broadcasts, and the loop's own"


def test_a_broadcast_is_folded_into_its_only_use() -> None:
    body = Body()
    x = body(UOp.param(0, F32, 16).load(0, lanes=16))
    s = body(body(UOp.param(1, F32, 1).load(0)).splat(16))
    body(UOp.param(2, F32, 16, "w").store(0, x + s))
    renderer = LLVMRenderer(Arch("x86_64_v4"))
    assert "{1to16}" in renderer.compiler().assembly(render(body, Arch("x86_64_v4")))
