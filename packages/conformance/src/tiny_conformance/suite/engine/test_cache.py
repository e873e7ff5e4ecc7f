"""Caches: a key holds all that code depends on, so that nothing is found that should not be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tiny_conformance.bare import Bare, each
from tiny_conformance.check import Check
from tiny_conformance.offers import python
from tiny_conformance.target import Target
from tiny_core import Tensor
from tiny_core.api import dtypes, generate

PROGRAM = """
from tiny_core import Tensor
x = (Tensor(list(range(40))).reshape(5, 8) * {factor} + 1).sum(1)
{show}
"""
SOURCE = """
from tiny_core import Device
from tiny_core.api import Ops, UOp, dtypes, generate
i = UOp.range(300, "i")
x = UOp.param(1, dtypes.float32, 300).load(i)
kernel = UOp.sink(UOp.param(0, dtypes.float32, 300, "w").store(i, x * x + x.alu(Ops.SQRT)))
renderer = Device[Device.DEFAULT].renderer
made = generate(kernel, renderer)
print(renderer.fingerprint())
print(renderer.render(made.linear, made.signature))
"""


def run(target: Target, factor: int, folder: Path) -> str:
    """Compute in a process of its own that keeps its kernels in a folder."""
    show = "print(x.tolist())" if target.stores else "x.realize(); print('compiled')"
    code = PROGRAM.format(factor=factor, show=show)
    env = {"TINY_CACHE_DIR": str(folder), "TINY_CACHE": "1", "TINY_WORKERS": "0"}
    done = python("-c", code, **env, TINY_DEV=target.name)
    assert done.returncode == 0, done.stderr
    return done.stdout


def want(target: Target, factor: int) -> str:
    x = (np.arange(40).reshape(5, 8) * factor + 1).sum(1)
    return f"{x.tolist()}\n" if target.stores else "compiled\n"


def entries(folder: Path) -> set[Path]:
    return {p for p in folder.rglob("*") if p.is_file()}


def test_a_second_process_finds_kernels_and_gives_the_same(target: Target, tmp_path: Path) -> None:
    assert run(target, 3, tmp_path) == want(target, 3)
    first = entries(tmp_path)
    assert first, "nothing was kept"
    assert run(target, 3, tmp_path) == want(target, 3)
    assert entries(tmp_path) == first, "the same program had other kernels"
    assert run(target, 4, tmp_path) == want(target, 4)


def test_a_damaged_entry_is_not_used(target: Target, tmp_path: Path) -> None:
    assert run(target, 3, tmp_path) == want(target, 3)
    for file in entries(tmp_path):
        data = bytearray(file.read_bytes())
        data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
        file.write_bytes(data)
    assert run(target, 3, tmp_path) == want(target, 3)


def test_rendering_is_the_same_in_every_process(target: Target) -> None:
    if target.interprets:
        pytest.skip("nothing is rendered")
    texts = set()
    for seed in ("0", "1"):
        done = python("-c", SOURCE, PYTHONHASHSEED=seed, TINY_DEV=target.name)
        assert done.returncode == 0, done.stderr
        texts.add(done.stdout)
    assert len(texts) == 1, "source or fingerprint depend on the process"


def test_rendering_twice_gives_the_same(bare: Bare, target: Target) -> None:
    if target.interprets:
        pytest.skip("nothing is rendered")
    kernel = each(lambda x, y: x * y + 1.0, dtypes.float32, [dtypes.float32] * 2, 100)
    made = [generate(kernel, bare.renderer) for _ in range(2)]
    sources = {bare.renderer.render(m.linear, m.signature) for m in made}
    assert len(sources) == 1
    assert len({bare.renderer.fingerprint() for _ in range(2)}) == 1


def test_kernels_that_differ_in_little_are_not_taken_for_each_other(check: Check) -> None:
    x = np.arange(24, dtype=np.int32)
    t = Tensor(x).realize()
    for n in (2, 3, 2, -2):
        check(t * n, x * np.int32(n))
    check(t.reshape(4, 6).sum(0), x.reshape(4, 6).sum(0, dtype=np.int32))
    check(t.reshape(6, 4).sum(0), x.reshape(6, 4).sum(0, dtype=np.int32))
    check(t.reshape(4, 6).sum(1), x.reshape(4, 6).sum(1, dtype=np.int32))
    zero, negative = Tensor(np.zeros(3, np.float32)).realize(), -0.0
    check(zero * negative, np.array([-0.0] * 3, np.float32))
    check(zero * 0.0, np.zeros(3, np.float32))
