"""What helps who is in trouble with a K1: a check for `tiny doctor`, and hints on errors."""

from __future__ import annotations

from collections.abc import Iterator

from tiny_core.api import Check, RenderError, TinyError


def machine(target: str) -> Iterator[Check]:
    """Whether a small program gives what numpy gives."""
    import numpy as np

    from acme_tiny.machine import Program, assemble

    lines = (
        ".buffer a0 f32 4",
        "%i = group.i32 0",
        "%x = ld.f32 a0 %i",
        "%r = sqrt.f32 %x",
        "st.f32 a0 %i %r",
    )
    values = np.array([0, 1, 2, 3], np.float32)
    want = np.sqrt(values)
    Program(assemble("\n".join(lines), "check")).run([values.data.cast("B")], (), (4, 1, 1))
    if np.array_equal(values, want):
        yield Check("OK", "a program gives what numpy gives")
    else:
        yield Check("FAIL", f"a square root gives {values}, not {want}", "reinstall acme-tiny")


def hint(error: TinyError) -> str:
    """What to do about an error of ours that core cannot know."""
    if isinstance(error, RenderError) and "float64" in error.message:
        return "the K1 computes in single precision: x.cast('float32')"
    return ""
