"""A pytest plugin that puts a backend with a mistake in the place of PYTHON: the kit must notice.

The mistake is named by the environment variable `MISTAKE`.
"""

from __future__ import annotations

import os
from dataclasses import replace

from tiny_core import Device
from tiny_core.api import Arch, Compiled, Handle, Ops, ProgramHandle, Rules, UOp, rewrite, rule, var
from tiny_core.devices.python.renderer import PythonRenderer
from tiny_core.devices.python.runtime import PythonRuntime


class Truncated(PythonRuntime):
    """Leaves out the last byte of what it copies to the host."""

    def copy_out(self, dest: memoryview, source: Handle) -> None:
        whole = memoryview(bytearray(dest.nbytes))
        super().copy_out(whole, source)
        dest.cast("B")[:-1] = whole[:-1]


class Forgetful(PythonRuntime):
    """Runs a program only when it is not the one before."""

    def __init__(self) -> None:
        super().__init__()
        self._last: ProgramHandle = None

    def launch(
        self,
        program: ProgramHandle,
        buffers: tuple[Handle, ...],
        scalars: tuple[int, ...],
        grid: tuple[int, ...],
    ) -> None:
        if program is not self._last:
            super().launch(program, buffers, scalars, grid)
        self._last = program


class Inclusive(PythonRuntime):
    """Takes less for less or equal."""

    def load(self, compiled: Compiled) -> ProgramHandle:
        return super().load(replace(compiled, binary=compiled.binary.replace(b"cmplt", b"cmple")))


def _product(x: UOp, y: UOp) -> UOp | None:
    return x * y.alu(Ops.RECIP) if x.dtype.is_float else None


def _greater(x: UOp, y: UOp) -> UOp | None:
    return (x < y).where(y, x) if x.dtype.is_float else None


class Rounding(PythonRenderer):
    """Divides by multiplying, which rounds twice."""

    rules = {"before linearize": lambda graph: rewrite(graph, _DIV)}


class Unordered(PythonRenderer):
    """Has a maximum that loses NaN."""

    rules = {"before linearize": lambda graph: rewrite(graph, _MAX)}


_DIV = Rules("div", (rule(var("x") / var("y"), _product),), domain="ieee")
_MAX = Rules("max", (rule(var("x").maximum(var("y")), _greater),), domain="ieee")
_MADE = {
    "truncated": lambda: (Truncated(), PythonRenderer(Arch())),
    "forgetful": lambda: (Forgetful(), PythonRenderer(Arch())),
    "inclusive": lambda: (Inclusive(), PythonRenderer(Arch())),
    "rounding": lambda: (PythonRuntime(), Rounding(Arch())),
    "unordered": lambda: (PythonRuntime(), Unordered(Arch())),
    "none": lambda: (PythonRuntime(), PythonRenderer(Arch())),
}
Device.install("PYTHON", *_MADE[os.environ["MISTAKE"]]())
