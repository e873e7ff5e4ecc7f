"""Every op and dtype that the C renderer declares, scalar and at several widths, against numpy on edge
values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tiny_core.api import Arch, DType, Ops, RenderError, TargetError, UOp, dtypes
from tiny_core.devices.cpu.c import CRenderer
from tiny_core.devices.cpu.c_compiler import CCompiler
from tiny_core.ir import arith
from tiny_core.ir.ops import ALU, COMPARE, UNARY
from tiny_core.ir.payload import Shape

from ..oracle import evaluate
from .cpu_programs import (
    Array,
    aligned,
    build,
    feature_levels,
    needs_compiler,
    numpy_dtype,
    params,
    renderer,
    run,
    same_bits,
)  # fmt: skip
from .linear_kernels import Lines, signature

pytestmark = needs_compiler
LEVELS = feature_levels()
DTYPES = (dtypes.bool_, *dtypes.ints, dtypes.float16, dtypes.float32, dtypes.float64)


def edges(dtype: DType) -> list[float]:
    if dtype is dtypes.bool_:
        return [False, True]
    if dtype.is_int:
        bits, least, most = dtype.bits, int(dtype.min), int(dtype.max)
        near = [0, 1, 2, 3, 7, bits - 1, bits, bits + 1, 100, most, most - 1, most // 2, most // 3]
        return [*near, *(v for v in (-1, -2, -3, -7, -100, least, least + 1, least // 2) if v >= least)]
    kind = np.finfo(numpy_dtype(dtype))
    sizes = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 1 / 3, 127.5, 255.5, 1000.25, 40000.0, float(kind.max),
             float(kind.tiny), float(kind.smallest_subnormal), 1.0 + float(kind.eps), math.inf]  # fmt: skip
    return [s * v for v in sizes for s in (1, -1)] + [math.nan]


def pairs(dtype: DType) -> tuple[Array, Array]:
    """All pairs of edge values, repeated to a length that every width divides."""
    rows = list(itertools.product(edges(dtype), edges(dtype)))
    size = -(-len(rows) // 256) * 256
    rows = (rows * (size // len(rows) + 1))[:size]
    return aligned(size, dtype, [x for x, _ in rows]), aligned(size, dtype, [y for _, y in rows])


def apply(op: Ops, x: UOp, y: UOp, z: UOp, condition: UOp) -> UOp:
    if op is Ops.WHERE:
        return condition.alu(op, x, y)
    if op is Ops.MULACC:
        return x.alu(op, y, z)
    return x.alu(op) if op in UNARY else x.alu(op, y)


def widths(features: tuple[tuple[str, bool], ...], dtype: DType) -> tuple[int, ...]:
    have = renderer(features).capabilities.widths(dtype)
    return (have[0], have[-1]) if features else (0, have[0], have[len(have) // 2], have[-1])


@pytest.mark.parametrize("features", LEVELS, ids=lambda f: ",".join(n for n, _ in f) or "host")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_ops(dtype: DType, features: tuple[tuple[str, bool], ...]) -> None:
    able = renderer(features).capabilities
    if dtype not in able.dtypes:
        assert dtype is dtypes.float16, "only half precision depends on the target"
        return
    ops = [op for op in sorted(ALU, key=lambda o: o.value) if able.supports(op, dtype)]
    x, y = pairs(dtype)
    z, condition = aligned(len(x), dtype, x[::-1]), aligned(len(x), dtypes.bool_, np.arange(len(x)) % 3 == 0)
    lines = Lines()
    inputs = params(
        lines, (dtype, len(x), "r"), (dtype, len(x), "r"), (dtype, len(x), "r"), (dtypes.bool_, len(x), "r")
    )
    arrays, wanted = [x, y, z, condition], []
    buffers = {UOp.buffer(n.dtype, len(x), "CPU"): a for n, a in zip(inputs, arrays, strict=True)}
    for lanes in dict.fromkeys(widths(features, dtype)):
        step = max(lanes, 1)
        axis = lines.loop(len(x) // step, f"i{lanes}")
        sources = [lines.add(p.load(axis * step, lanes=lanes, align=step * p.dtype.itemsize)) for p in inputs]
        stores = []
        for op in ops:
            value = apply(op, *sources)
            out = lines.add(UOp.param(len(arrays), value.dtype, len(x), "w", 64))
            arrays.append(aligned(len(x), value.dtype))
            wanted.append((op, lanes))
            stores.append(lines.add(out.store(axis * step, value, align=step * value.dtype.itemsize)))
        lines.end(axis, *stores)
    run(build(lines, features=features), arrays)
    for (op, lanes), got in zip(wanted, arrays[4:], strict=True):
        if op is Ops.MULACC and dtype in able.fma:
            rows = zip(x.tolist(), y.tolist(), z.tolist(), strict=True)
            want = np.array([arith.evaluate(op, dtype, row) for row in rows], got.dtype)
        else:
            want = evaluate(apply(op, *buffers), buffers)
        right = same_bits(got, want)
        if not right.all():
            at = int(np.argmin(right))
            pytest.fail(
                f"{op.value} x{lanes} of {x[at]!r}, {y[at]!r}, {z[at]!r}: {got[at]!r}, not {want[at]!r}"
            )


def cast(x: Array, dtype: DType) -> Array:
    """CAST by numpy; its long doubles hold every 64-bit integer."""
    to = numpy_dtype(dtype)
    with np.errstate(all="ignore"):
        if x.dtype.kind != "f" or to.kind not in "iu":
            return x.astype(to)
        limits = np.iinfo(to)
        wide = np.trunc(np.where(np.isnan(x), 0, x).astype(np.longdouble))
        return np.clip(wide, np.longdouble(limits.min), np.longdouble(limits.max)).astype(to)


@pytest.mark.parametrize("features", LEVELS, ids=lambda f: ",".join(n for n, _ in f) or "host")
@pytest.mark.parametrize("source", DTYPES, ids=lambda d: d.name)
def test_casts(source: DType, features: tuple[tuple[str, bool], ...]) -> None:
    able = renderer(features).capabilities
    if source not in able.dtypes:
        assert source is dtypes.float16
        return
    values = edges(source)
    if (
        source.is_float
    ):  # around the limits of every integer type, and doubles whose way through f32 would round twice
        for bits in (7, 8, 15, 16, 31, 32, 63, 64):
            values += [s * (2.0**bits + d) for s in (1, -1) for d in (-1, -0.5, 0, 1)]
        if source is dtypes.float64:
            middles = [1 + (2 * k + 1) * 2.0**-11 for k in range(40)]
            values += [
                m * s * (1 + e) for m in middles for s in (1, -(2.0**-20)) for e in (0, 2.0**-40, -(2.0**-40))
            ]
    with np.errstate(over="ignore"):
        array = np.array(values, None if source.is_float else numpy_dtype(source)).astype(numpy_dtype(source))
    size = -(-len(values) // 256) * 256
    x = aligned(size, source, np.resize(array, size))
    lines = Lines()
    (p,) = params(lines, (source, size, "r"))
    arrays, wanted = [x], []
    for lanes in dict.fromkeys(widths(features, dtypes.float32)):
        step = max(lanes, 1)
        axis = lines.loop(size // step, f"i{lanes}")
        value = lines.add(p.load(axis * step, lanes=lanes))
        stores = []
        for dtype in DTYPES:
            for op in (Ops.CAST, Ops.BITCAST):
                bitwise = dtype.bits == source.bits and dtypes.bool_ not in (dtype, source)
                if dtype not in able.dtypes or (op is Ops.BITCAST and not bitwise):
                    continue
                out = lines.add(UOp.param(len(arrays), dtype, size, "w", 64))
                arrays.append(aligned(size, dtype))
                wanted.append((op, dtype, lanes))
                stores.append(lines.add(out.store(axis * step, UOp(op, dtype, (value,)))))
        lines.end(axis, *stores)
    run(build(lines, features=features), arrays)
    for (op, dtype, lanes), got in zip(wanted, arrays[1:], strict=True):
        want = cast(x, dtype) if op is Ops.CAST else x.view(numpy_dtype(dtype))
        right = same_bits(got, want)
        if not right.all():
            at = int(np.argmin(right))
            pytest.fail(f"{op.value} x{lanes} of {x[at]!r} to {dtype.name}: {got[at]!r}, not {want[at]!r}")


def test_constants_keep_their_bits() -> None:
    numbers: dict[DType, list[float]] = {
        dtypes.float32: [0.0, -0.0, 1 / 3, -1e-45, 3.4e38, math.inf, -math.inf, math.nan],
        dtypes.float64: [-0.0, 5e-324, 1.7976931348623157e308, math.nan, -math.inf],
        dtypes.int8: [-128, 127], dtypes.uint8: [255], dtypes.int32: [-(2**31), 2**31 - 1],
        dtypes.uint32: [2**32 - 1], dtypes.int64: [-(2**63), 2**63 - 1], dtypes.uint64: [2**64 - 1],
        dtypes.bool_: [True, False],
    }  # fmt: skip
    lines = Lines()
    arrays: list[Array] = []
    wanted: list[Array] = []
    for slot, (dtype, values) in enumerate(numbers.items()):
        out = lines.add(UOp.param(slot, dtype, len(values), "w", 64))
        for i, value in enumerate(values):
            lines.add(out.store(UOp.const(i, dtypes.int32), UOp.const(value, dtype)))
        arrays.append(aligned(len(values), dtype))
        wanted.append(np.array(values, numpy_dtype(dtype)))
    run(build(lines), arrays)
    for got, want in zip(arrays, wanted, strict=True):
        assert same_bits(got, want).all(), (got, want)


@pytest.mark.parametrize(
    "op", [Ops.IDIV, Ops.IMOD, Ops.SHL, Ops.SHR, Ops.MAX, Ops.MIN], ids=lambda o: o.value
)
@pytest.mark.parametrize("lanes", [0, 4])
def test_constant_operands(op: Ops, lanes: int) -> None:
    """Constants take shorter ways; those that would be wrong must not."""
    kinds = [dtypes.int32, dtypes.uint32, *([dtypes.float32] if op in (Ops.MAX, Ops.MIN) else [])]
    lines, wanted = Lines(), []
    arrays: list[Array] = []
    for dtype in kinds:
        x = aligned(64, dtype, np.resize(np.array(edges(dtype)).astype(numpy_dtype(dtype)), 64))
        p = lines.add(UOp.param(len(arrays), dtype, 64, "r", 64))
        arrays.append(x)
        axis = lines.loop(64 // max(lanes, 1), dtype.name)
        at = axis * max(lanes, 1)
        value, stores = lines.add(p.load(at, lanes=lanes)), []
        for number in {dtypes.to_bits(v, dtype): v for v in edges(dtype)}.values():  # 0.0 and -0.0 are two
            constant = UOp.const(number, dtype)
            result = value.alu(op, constant)
            out = lines.add(UOp.param(len(arrays), dtype, 64, "w", 64))
            arrays.append(aligned(64, dtype))
            node = UOp.buffer(dtype, 64, "CPU")
            whole = UOp(Ops.EXPAND, dtype, (constant,), Shape((64,)))
            wanted.append((len(arrays) - 1, number, evaluate(node.alu(op, whole), {node: x})))
            stores.append(lines.add(out.store(at, result)))
        lines.end(axis, *stores)
    run(build(lines), arrays)
    for slot, number, want in wanted:
        assert same_bits(arrays[slot], want).all(), (op, number, arrays[slot], want)


@pytest.mark.parametrize("command", ["clang", "clang-19"])
def test_the_other_compiler(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What gcc and clang spell differently: square roots, fused products, masked memory, half precision."""
    import shutil

    if shutil.which(command) is None:
        pytest.skip(f"no {command}")
    monkeypatch.setenv("CC", command)
    compiler = CCompiler(renderer().arch)
    for dtype in renderer().capabilities.dtypes & {dtypes.float16, dtypes.float32, dtypes.float64}:
        width = renderer().capabilities.widths(dtypes.int32)[-1]  # of the index as well
        lines, size = Lines(), 64
        a, out = params(lines, (dtype, size, "r"), (dtype, size, "w"))
        axis = lines.loop(size // width, "i")
        lane = UOp(Ops.STACK, dtypes.int32, tuple(UOp.const(k, dtypes.int32) for k in range(width)))
        gate = lines.add((axis * width).splat(width) + lane < 61)
        x = lines.add(a.load(axis * width, gate, UOp.const(4.0, dtype, width), lanes=width))
        value = x.alu(Ops.SQRT)
        if dtype in renderer().capabilities.fma:
            value = value.alu(Ops.MULACC, x, value)
        lines.end(axis, lines.add(out.store(axis * width, value.alu(Ops.TRUNC), gate)))
        source = aligned(size, dtype, np.linspace(0, 50, size))
        result = aligned(size, dtype, -1)
        run(build(lines, with_compiler=compiler), [source, result])
        root = np.sqrt(source)
        want = np.trunc(
            root * source.astype(np.float64) + root if dtype in renderer().capabilities.fma else root
        )
        assert (result[:61] == want[:61].astype(result.dtype)).all()
        assert (result[61:] == -1).all()


def test_undeclared_is_a_render_error() -> None:
    lines = Lines()
    a, out = params(lines, (dtypes.float32, 8, "r"), (dtypes.float32, 8, "w"))
    lines.add(out.store(UOp.const(0, dtypes.int32), a.load(UOp.const(0, dtypes.int32)).alu(Ops.EXP2)))
    linear = lines.linear()
    with pytest.raises(RenderError, match="exp2 of float32"):
        renderer().render(linear, signature(linear))
    wide = Lines()
    b, out = params(wide, (dtypes.float32, 2048, "r"), (dtypes.float32, 2048, "w"))
    wide.add(out.store(UOp.const(0, dtypes.int32), b.load(UOp.const(0, dtypes.int32), lanes=1024)))
    linear = wide.linear()
    with pytest.raises(RenderError, match="1024 lanes"):
        renderer().render(linear, signature(linear))


def test_unknown_architecture_and_feature() -> None:
    with pytest.raises(TargetError, match="z80"):
        CRenderer(Arch("z80"))
    with pytest.raises(TargetError, match="avx1024"):
        CRenderer(Arch("x86_64", (("avx1024", True),)))


def test_features_bring_and_take_along_what_they_need() -> None:
    def on(*features: tuple[str, bool]) -> set[str]:
        return {f for f, has in CRenderer(Arch("x86_64", features)).arch.features if has}

    assert on() == set()
    assert {"avx512f", "avx2", "fma", "f16c", "avx", "sse3"} <= on(("avx512bw", True))
    assert "avx512dq" not in on(("avx512bw", True))
    assert on(("avx512bw", True), ("avx2", False)).isdisjoint({"avx512bw", "avx512f", "avx2"})


def test_a_named_architecture_is_rendered_alike_everywhere() -> None:
    able = CRenderer(Arch("x86_64")).capabilities
    assert able.vector_bytes == 16 and able.registers == 16 and able.caches == (32768, 524288)
    assert dtypes.float16 not in able.dtypes and not able.fma
    assert CRenderer(Arch("aarch64")).capabilities.registers == 32


def test_comparisons_are_of_one_family() -> None:
    assert all(renderer().capabilities.supports(op, d) for op in COMPARE for d in (dtypes.bool_, dtypes.int8))
