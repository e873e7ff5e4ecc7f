"""The text of a C kernel, read in review: names, scopes, masks, parts. No compiler takes part."""

from __future__ import annotations

from tiny_core.api import Arch, Ops, dtypes
from tiny_core.devices.cpu.c import CRenderer

from .cpu_programs import params
from .linear_kernels import Lines, i32, register, signature

AVX2 = Arch("x86_64", (("avx2", True), ("fma", True)))


def body(lines: Lines, arch: Arch = AVX2, parallel: int = 1) -> str:
    linear = lines.linear()
    text = CRenderer(arch).render(linear, signature(linear, parallel=parallel))
    return text[text.index("void kernel(") :]


def test_threads_loops_and_registers() -> None:
    lines = Lines()
    a, out = params(lines, (dtypes.float32, 1024, "r"), (dtypes.float32, 16, "w"))
    total = lines.add(register(dtypes.float32, 1, 7))
    i = lines.loop(16, "i", "thread")
    clear = lines.add(total.after(i).store(i32(0), -0.0))
    j = lines.loop(64, "j")
    value = lines.add(a.load(i * 64 + j))
    done = lines.end(
        j, lines.add(total.store(i32(0), value.alu(Ops.ADD, total.after(clear, j).load(i32(0)))))
    )
    lines.end(i, lines.add(out.store(i, total.after(done).load(i32(0)))))
    assert (
        body(lines, parallel=16)
        == """\
void kernel(void **buf, const i64 *scalar, i64 begin, i64 end) {
  f32 *const p0 = (f32 *)buf[0];
  f32 *const p1 = (f32 *)buf[1];
  f32 r7_0;
  for (i32 k0 = (i32)begin; k0 < (i32)end; k0++) {
    r7_0 = (-0x0p+0f);
    for (i32 k1 = 0; k1 < 64; k1++) {
      const i32 v0 = k0 * 64;
      const i32 v1 = v0 + k1;
      const f32 v2 = p0[v1];
      const f32 v3 = r7_0;
      const f32 v4 = v2 + v3;
      r7_0 = v4;
    }
    const f32 v5 = r7_0;
    p1[k0] = v5;
  }
}
"""
    )


def test_values_wider_than_a_register_have_parts() -> None:
    lines = Lines()
    a, b = params(lines, (dtypes.float32, 16, "r"), (dtypes.float64, 16, "w"))
    value = lines.add(a.load(i32(0), lanes=16, align=64))
    gate = lines.add(value < 1.0)
    lines.add(b.store(i32(0), (value * value).cast(dtypes.float64), gate))
    text = body(lines)
    assert text.splitlines()[3:7] == [
        "  const f32x8 v0_0 = *(f32x8_a32 *)(p0 + 0);",
        "  const f32x8 v0_1 = *(f32x8_a32 *)(p0 + 0 + 8);",
        "  const f32x8 v1 = t_splat_f32x8(0x1p+0f);",
        "  const i32x8 v2_0 = (i32x8)(v0_0 < v1);",
    ]
    assert text.count("__builtin_convertvector") == 4 + 4, "four registers of doubles and of their masks"
    assert text.count("t_store_f64x4(") == 4


def test_the_fingerprint_tells_targets_apart() -> None:
    texts = {CRenderer(a).fingerprint() for a in (AVX2, Arch("x86_64"), Arch("aarch64"))}
    assert len(texts) == 3
