"""Matmuls on matrix units: what code generation makes of them runs on PYTHON as numpy computes it, and is
what a
GPU wants: the unit's instruction, wide reads of near memory, no scratch. `python test_matrix_matmul.py`
    prints
the instructions of the inner loops."""

from __future__ import annotations

import re
import sys
from collections import Counter
from functools import cache

import numpy as np
import pytest
from matrix_kernels import Array, numpy_dtype

from tiny_core.api import Arch, DType, MatrixUnit, Ops, UOp, dtypes, payload
from tiny_core.codegen.pipeline import Generated, generate
from tiny_core.devices.python.execute import execute
from tiny_core.errors import OptionError
from tiny_core.ir import text
from tiny_core.ir.payload import Option
from tiny_renderer_llvm.architectures import ARCHITECTURES
from tiny_renderer_llvm.renderer import LLVMRenderer

F16, BF16, F32, F64 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64
LARGE = 4096


def matmul(
    m: int, n: int, k: int, of: DType, result: DType, options: tuple[Option, ...] | None = None
) -> UOp:
    """The kernel of (m, k) @ (k, n), accumulated as `Tensor.matmul` does: floats in float32 at least."""
    total = of if of in (F32, F64) else F32 if of.is_float else dtypes.int32
    i, j, r = UOp.range(m, "i0"), UOp.range(n, "i1"), UOp.range(k, "r0", "reduce")
    a = UOp.param(1, of, m * k, align=64).load(i * k + r).cast(total)
    b = UOp.param(2, of, k * n, align=64).load(r * n + j).cast(total)
    value = (a * b).reduce(Ops.ADD, r).cast(result)
    store = UOp.param(0, result, m * n, "w", 64).store(i * n + j, value)
    return UOp.sink(store, info=payload.KernelInfo("matmul", options))


def compute(arch: str, kernel: UOp, m: int, n: int, k: int, of: DType, result: DType) -> tuple[Array, Array]:
    """What PYTHON makes of a matmul of small whole numbers, and what numpy does."""
    made = generate(kernel, LLVMRenderer(Arch(arch)))
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, s).astype(numpy_dtype(of)) for s in ((m, k), (k, n)))
    out = np.zeros((m, n), numpy_dtype(result))
    linear = text.parse(text.format(made.linear))
    execute(linear, made.signature, [out.reshape(-1), a.reshape(-1), b.reshape(-1)], grid=made.signature.grid)
    return out.astype(np.float64), (a.astype(np.float64) @ b.astype(np.float64))


def unit_of(made: Generated) -> MatrixUnit | None:
    return next((n.payload(MatrixUnit) for n in made.linear.src if n.op is Ops.MATRIX), None)


@cache
def assembly(arch: str, of: DType) -> str:
    renderer = LLVMRenderer(Arch(arch))
    made = generate(matmul(LARGE, LARGE, LARGE, of, of), renderer)
    return renderer.compiler().assembly(renderer.render(made.linear, made.signature))


def inner_loop(code: str) -> list[str]:
    """The instructions of the loop with the matrix instructions, from its label to the branch back to it."""
    lines = code.splitlines()
    for start, line in enumerate(lines):
        label = re.match(r"(\.LBB0_\d+):", line)
        back = label and [
            k for k in range(start, len(lines)) if re.match(rf"\ts_cbranch\w+ {label[1]}$", lines[k])
        ]
        if back:
            body = [x.split()[0] for x in lines[start : back[-1] + 1] if re.match(r"\t[a-z]", x)]
            if any(re.match("v_w?mfma|v_wmma", x) for x in body):
                return body
    return []


@pytest.mark.parametrize("of", [F16, BF16], ids=lambda d: d.name)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_large_matmul_is_what_a_gpu_wants(arch: str, of: DType) -> None:
    code = assembly(arch, of)
    body = inner_loop(code)
    count = Counter(body)
    matrix = sum(n for x, n in count.items() if x.startswith(("v_wmma", "v_mfma")))
    reads = [x for x in body if x.startswith(("ds_load", "ds_read"))]
    assert matrix >= 16
    assert reads and all(re.search(r"b64|b128", x) for x in reads), (
        "reads of near memory have 64 bits at least"
    )
    assert len(body) < 8 * matrix, "most of the loop is not something else"
    assert re.search(r"private_segment_fixed_size: 0\b", code) and not re.search(
        r"scratch_|buffer_store", code
    )
    assert re.search(r"vgpr_spill_count: 0\b", code) and re.search(r"sgpr_spill_count: 0\b", code)
    assert not any(x.startswith(("global_load_u", "global_load_d16")) for x in body), (
        "global reads are wide too"
    )


@pytest.mark.parametrize("shape", [(64, 48, 96), (60, 37, 29), (16, 16, 16), (33, 130, 48)], ids=str)
@pytest.mark.parametrize("of", [F16, BF16], ids=lambda d: d.name)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_same_kernels_small(arch: str, of: DType, shape: tuple[int, int, int]) -> None:
    kernel = matmul(*shape, of, F32)
    unit = unit_of(generate(kernel, LLVMRenderer(Arch(arch))))
    assert unit is not None and unit.a.dtype is of
    got, wanted = compute(arch, kernel, *shape, of, F32)
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize(
    ("of", "result"),
    [(F32, F32), (F64, F64), (dtypes.int8, dtypes.int32), *((d, F32) for d in dtypes.fp8s)],
    ids=lambda d: d.name,
)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_other_dtypes_keep_every_bit(arch: str, of: DType, result: DType) -> None:
    kernel = matmul(48, 64, 80, of, result)
    unit = unit_of(generate(kernel, LLVMRenderer(Arch(arch))))
    got, wanted = compute(arch, kernel, 48, 64, 80, of, result)
    assert np.array_equal(got, wanted)
    if of in (F32, F64):  # never rounded to what a unit would take
        assert (unit is not None) == arch.startswith("gfx9") and (unit is None or unit.a.dtype is of)
    else:  # float8 runs on an f16 unit, which holds every value, where there is none for it
        assert unit is not None and unit.a.dtype in (of, F16)


def choices() -> list[object]:
    """Units that code generation can use, of every architecture."""
    rows = []
    for arch in ARCHITECTURES:
        for unit in LLVMRenderer(Arch(arch)).capabilities.matrices:
            if unit.exact:
                rows.append(pytest.param(arch, unit, id=f"{arch}-{unit.name}"))
    return rows


@pytest.mark.parametrize(("arch", "unit"), choices())
def test_a_given_unit_and_tails(arch: str, unit: MatrixUnit) -> None:
    """Every unit on a kernel with a group of two by one subgroups, each with one by two units, and tails."""
    m, n, k = 2 * unit.m - 3, 2 * unit.n - 5, 2 * unit.k - 1 if unit.k > 1 else 2
    i, j, r = UOp.range(m, "i0"), UOp.range(n, "i1"), UOp.range(k, "r0", "reduce")
    total = unit.c.dtype
    a = UOp.param(1, unit.a.dtype, m * k, align=64).load(i * k + r).cast(total)
    b = UOp.param(2, unit.b.dtype, k * n, align=64).load(r * n + j).cast(total)
    store = UOp.param(0, total, m * n, "w", 64).store(i * n + j, (a * b).reduce(Ops.ADD, r))
    options = (
        Option("pad", "i0", n=2 * unit.m), Option("pad", "i1", n=2 * unit.n),
        Option("pad", "r0", n=2 * unit.k),
        Option("matrix", axes=("i0", "i1", "r0"), unit=unit.name),
        Option("map", "i0.0", how="item"), Option("map", "i1.0", how="unroll"),
        Option("stage", "r0.0", slot=1, axes=("i0", "r0"), n=4),
        Option("stage", "r0.0", slot=2, axes=("i1", "r0")),
    )  # fmt: skip
    made = generate(UOp.sink(store, info=payload.KernelInfo("k", options)), LLVMRenderer(Arch(arch)))
    assert unit_of(made) == unit
    rng = np.random.default_rng(2)
    low = 0 if unit.a.dtype.is_unsigned or unit.b.dtype.is_unsigned else -2
    x = rng.integers(low, 3, (m, k)).astype(numpy_dtype(unit.a.dtype))
    y = rng.integers(low, 3, (k, n)).astype(numpy_dtype(unit.b.dtype))
    out = np.zeros(m * n, numpy_dtype(total))
    execute(made.linear, made.signature, [out, x.reshape(-1), y.reshape(-1)], grid=made.signature.grid)
    wanted = x.astype(np.float64) @ y.astype(np.float64)
    assert np.array_equal(out.astype(np.float64).reshape(m, n), wanted)


def test_mistakes_are_option_errors() -> None:
    renderer, unit = LLVMRenderer(Arch("gfx1100")), "wmma_f32_16x16x16_f16"

    def attempt(of: DType, *options: Option) -> None:
        generate(matmul(32, 32, 32, of, F32, options), renderer)

    with pytest.raises(OptionError, match="no matrix unit 'mfma"):
        attempt(F16, Option("matrix", axes=("i0", "i1", "r0"), unit="mfma_f32_16x16x16_f16"))
    with pytest.raises(OptionError, match="takes float16 as A, not float32"):
        attempt(F32, Option("matrix", axes=("i0", "i1", "r0"), unit=unit))
    with pytest.raises(OptionError, match="cannot be m"):
        attempt(F16, Option("matrix", axes=("r0", "i1", "i0"), unit=unit))
    with pytest.raises(OptionError, match="one matrix option, with three axes"):
        attempt(F16, Option("matrix", axes=("i0", "i1"), unit=unit))
    with pytest.raises(OptionError, match="pad it"):
        generate(
            matmul(32, 30, 32, F16, F32, (Option("matrix", axes=("i0", "i1", "r0"), unit=unit),)), renderer
        )


def test_what_is_mostly_padding_goes_elsewhere() -> None:
    assert unit_of(generate(matmul(1, 256, 256, F16, F16), LLVMRenderer(Arch("gfx1100")))) is None


def table() -> str:
    lines = []
    for of in (F16, BF16):
        for arch in ARCHITECTURES:
            code = assembly(arch, of)
            body = inner_loop(code)
            found = re.findall(r"\.(vgpr_count|vgpr_spill_count|private_segment_fixed_size): +(\d+)", code)
            lines.append(f"{of.name} {LARGE}³ on {arch}: {len(body)} instructions in the inner loop; "
                         + ", ".join(f"{name} {n}" for name, n in found))  # fmt: skip
            lines += [f"    {n:4} {x}" for x, n in Counter(body).most_common()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
