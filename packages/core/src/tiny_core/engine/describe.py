"""A program at the stages of its making, as text: what TINY_DEBUG prints and `tiny trace` shows.

In: a kernel, and the program that a device has made of it. Out: the text of a stage. The persistent cache
keeps source and binary but no UOps: code generation is run again, with the renderer and the settings of the
time when the program was made, so what is shown is what was compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, final

from tiny_core.engine.build import Mode
from tiny_core.engine.compile import mode_of
from tiny_core.errors import TraceError
from tiny_core.ir.rewrite import trace
from tiny_core.ir.text import describe
from tiny_core.ir.text import format as to_text
from tiny_core.ir.uop import UOp
from tiny_core.render.renderer import Compiled
from tiny_core.render.resources import Resources
from tiny_core.runtime.device import Kit, OpenDevice, Program
from tiny_core.settings import Context, codegen_key

Stage = Literal["kernel", "linear", "source", "asm"]
STAGES: Final[tuple[Stage, ...]] = ("kernel", "linear", "source", "asm")


@final
@dataclass(frozen=True, slots=True)
class Made:
    """A program and all that made it.

    Args:
        device: name of the device.
        kernel: what the scheduler gave, a SINK at the kernel stage.
        compiled: what it became.
        kit: the renderer at the time, and its compiler.
        mode: what `compiled.binary` is.
        settings: those that generated code depends on, at the time.
        runs: whether the device runs its programs at all.
    """

    device: str
    kernel: UOp
    compiled: Compiled
    kit: Kit
    mode: Mode
    settings: tuple[tuple[str, int | str | float], ...]
    runs: bool = True

    @property
    def name(self) -> str:
        return self.compiled.signature.name

    def at(self, stage: Stage) -> str:
        """Return the text of a stage; raises TraceError where there is no such stage."""
        match stage:
            case "kernel":
                return to_text(self.kernel)
            case "linear":
                return to_text(self.linear())
            case "source":
                return self.compiled.source
            case "asm":
                return self.assembly()

    def linear(self) -> UOp:
        """Return the linear kernel."""
        from tiny_core.codegen.pipeline import generate

        with Context(**dict(self.settings)):
            return generate(self.kernel, self.kit.renderer).linear

    def rewrites(self) -> str:
        """Return all rewrites from the kernel to its linear form: rule and place, the node before, and
        after."""
        with trace() as steps:
            self.linear()
        return "\n".join(
            f"  {step.rule} ({step.location})\n    {describe(step.before)}\n    {describe(step.after)}"
            for step in steps
        )

    def assembly(self) -> str:
        """Return what a disassembler makes of the binary; raises TraceError where nothing was compiled."""
        if self.mode == "text":
            why, hint = "interprets the linear kernel", "its source is the last stage there is"
        elif self.mode == "source":
            why, hint = (
                "has no compiler here",
                "`tiny doctor` says what is missing; --stage source needs none",
            )
        else:
            return self.kit.compiler.listing(self.compiled.binary, self.compiled.source)
        raise TraceError(f"{self.name} has no assembly: {self.device} {why}", hint)

    def resources(self) -> Resources | None:
        """Return what the program takes of the machine; None where that cannot be known: nothing was
        compiled, or its compiler cannot tell."""
        if self.mode != "binary":
            return None
        return self.kit.compiler.resources(self.compiled.binary, self.name)


def made(device: OpenDevice, kernel: UOp, program: Program) -> Made:
    """Return a program that `device` has made of `kernel` just now, or has found made in this way."""
    runs = device.runtime.capabilities.stores
    return Made(device.name, kernel, program.compiled, device.kit, mode_of(device), codegen_key(), runs)
