"""A pytest plugin that puts a backend in the place of PYTHON: a right one, or one with a mistake.

Which is named by the environment variable `MISTAKE`. `RIGHT` lists those without a mistake: the kit must pass
them. Each of the others has one mistake and is right otherwise: the kit must notice.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from tiny_core import Device
from tiny_core.api import (
    GLOBAL,
    REGISTER,
    AddressSpace,
    Arch,
    Compiled,
    Handle,
    Ops,
    ProgramHandle,
    Renderer,
    Rules,
    Runtime,
    TinyError,
    UOp,
    dtypes,
    payload,
    queue,
    rewrite,
    rule,
    var,
)
from tiny_core.devices.python.renderer import PythonRenderer
from tiny_core.devices.python.runtime import PythonRuntime

# ---- memory and copies -------------------------------------------------------------------------------------


class Truncated(PythonRuntime):
    """Off by one: leaves out the last byte of what it copies to the host."""

    def copy_out(self, dest: memoryview, source: Handle) -> None:
        whole = memoryview(bytearray(dest.nbytes))
        super().copy_out(whole, source)
        dest.cast("B")[:-1] = whole[:-1]


class Overrun(PythonRuntime):
    """Off by one: copies a byte too many to the device, where there is room."""

    def copy_in(self, dest: Handle, source: memoryview) -> None:
        try:
            super().copy_in(dest, memoryview(bytes(source.cast("B")) + b"\xa5"))
        except TinyError:
            super().copy_in(dest, source)


class Blocks(PythonRuntime):
    """Knows the sizes of its blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[Handle, int] = {}

    def allocate(self, nbytes: int) -> Handle:
        handle = super().allocate(nbytes)
        self.sizes[handle] = nbytes
        return handle

    def rest(self, handle: Handle) -> int:
        """How many bytes there are from an address to the end of its block."""
        return next(b + n - handle for b, n in self.sizes.items() if b <= handle <= b + n)


class Stale(Blocks):
    """Gives a copy of the memory for a view of it: what is written later is not seen."""

    def view(self, handle: Handle, offset: int) -> Handle:
        data = memoryview(bytearray(self.rest(handle) - offset))
        self.copy_out(data, handle + offset)
        made = self.allocate(data.nbytes)
        self.copy_in(made, data)
        return made


class Shifted(PythonRuntime):
    """Rounds the offset of a view down to its own alignment."""

    def view(self, handle: Handle, offset: int) -> Handle:
        return super().view(handle, offset - offset % 64)


class Leaky(PythonRuntime):
    """Frees nothing."""

    def free(self, handle: Handle, nbytes: int) -> None:
        pass


class Untyped(PythonRuntime):
    """Fails with whatever Python raises."""

    def load(self, compiled: Compiled) -> ProgramHandle:
        return super().load(replace(compiled, binary=compiled.binary.decode("ascii").encode()))


# ---- launches and queues -----------------------------------------------------------------------------------


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


class LostWrite(Blocks):
    """The last element that a kernel writes does not arrive."""

    def launch(
        self,
        program: ProgramHandle,
        buffers: tuple[Handle, ...],
        scalars: tuple[int, ...],
        grid: tuple[int, ...],
    ) -> None:
        params = program.signature.params  # type: ignore[attr-defined]  # of PYTHON's own programs
        kept = []
        for handle, param in zip(buffers, params, strict=True):
            if "w" in param.access and param.size > 1:
                last = memoryview(bytearray(param.dtype.itemsize))
                at = handle + (param.size - 1) * param.dtype.itemsize
                self.copy_out(last, at)
                kept.append((at, last))
        super().launch(program, buffers, scalars, grid)
        for at, last in kept:
            self.copy_in(at, last)


class DeferredQueue(queue.BlockingQueue):
    """Runs at `synchronize` only, as an asynchronous device might."""

    runtime: Deferred

    def submit(self, submission: queue.Submission) -> None:
        line = queue.BlockingQueue(self.runtime)
        line.commands = list(self.commands)
        copy = replace(submission, handles=list(submission.handles), scalars=dict(submission.scalars))
        self.runtime.pending.append((line, copy))


class Deferred(PythonRuntime):
    """Right: a device whose queues run late."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: list[tuple[queue.BlockingQueue, queue.Submission]] = []

    def queue(self) -> queue.Queue:
        return DeferredQueue(self)

    def synchronize(self) -> None:
        while self.pending:
            line, submission = self.pending.pop(0)
            line.submit(submission)


class Unsynchronized(Deferred):
    """Does not wait for the last submission."""

    def synchronize(self) -> None:
        last = self.pending[-1:]
        self.pending = self.pending[:-1]
        super().synchronize()
        self.pending = last


class CopiesFirst(queue.BlockingQueue):
    def submit(self, submission: queue.Submission) -> None:
        self.commands.sort(key=lambda c: isinstance(c, queue.Launch))
        super().submit(submission)


class Reordered(PythonRuntime):
    """Its copy engine does not wait for programs."""

    def queue(self) -> queue.Queue:
        return CopiesFirst(self)


class OneTable(queue.BlockingQueue):
    first: queue.Submission | None = None

    def submit(self, submission: queue.Submission) -> None:
        self.first = self.first or submission
        super().submit(self.first)


class Frozen(PythonRuntime):
    """A queue that is submitted again has the addresses of the first time."""

    def queue(self) -> queue.Queue:
        return OneTable(self)


# ---- code --------------------------------------------------------------------------------------------------


def _product(x: UOp, y: UOp) -> UOp | None:
    return x * y.alu(Ops.RECIP) if x.dtype.is_float else None


def _greater(x: UOp, y: UOp) -> UOp | None:
    return (x < y).where(y, x) if x.dtype.is_float else None


def _at_most(x: UOp, y: UOp) -> UOp | None:
    return x <= y if x.dtype.is_float else None


_LESS = Rules("less", (rule(var("x") < var("y"), _at_most),), domain="ieee")
_DIV = Rules("div", (rule(var("x") / var("y"), _product),), domain="ieee")
_MAX = Rules("max", (rule(var("x").maximum(var("y")), _greater),), domain="ieee")


class Inclusive(PythonRenderer):
    """Takes less for less or equal, of floats."""

    rules = {"before linearize": lambda graph: rewrite(graph, _LESS)}


class Rounding(PythonRenderer):
    """Divides by multiplying, which rounds twice."""

    rules = {"before linearize": lambda graph: rewrite(graph, _DIV)}


class Unordered(PythonRenderer):
    """Has a maximum that loses NaN."""

    rules = {"before linearize": lambda graph: rewrite(graph, _MAX)}


def _chopped(graph: UOp) -> UOp:
    """Conversions to float16 with the bits below its own cleared first: toward zero."""
    changed = {}
    for n in graph.toposort():
        if n.op is Ops.CAST and n.dtype is dtypes.float16 and n.src[0].dtype is dtypes.float32:
            bits = n.src[0].bitcast(dtypes.uint32) & 0xFFFFE000
            changed[n] = bits.bitcast(dtypes.float32).cast(dtypes.float16)
    return graph.substitute(changed)


class Chopping(PythonRenderer):
    """Rounds to narrow floats toward zero."""

    rules = {"before linearize": _chopped}


def _ungated(graph: UOp) -> UOp:
    """Loads without their gates, of what lies nearest in their buffer."""
    changed = {}
    for n in graph.toposort():
        if n.op is Ops.LOAD and len(n.src) == 4 and n.src[0].base.op is Ops.PARAM:
            buffer, index = n.src[:2]
            lanes = n.payload(payload.Access).lanes
            size = buffer.base.payload(payload.Param).size
            if size >= max(lanes, 1):
                inside = index.maximum(0).minimum(size - max(lanes, 1))
                changed[n] = buffer.load(inside, lanes=lanes)
    return graph.substitute(changed)


class Ungated(PythonRenderer):
    """Ignores gates."""

    rules = {"before linearize": _ungated}


class Groups(PythonRenderer):
    """Right: a device of work-groups, whose items share memory."""

    def __init__(self, arch: Arch) -> None:
        super().__init__(arch)
        local = AddressSpace("local", "group", 1 << 16)
        self.capabilities = replace(
            self.capabilities, launch="grid", spaces=(GLOBAL, REGISTER, local), subgroup=8, max_items=256,
            max_block=(256, 256, 256), max_grid=(1 << 20, 1 << 16, 1 << 16), registers=128,
        )  # fmt: skip


def _open(linear: UOp) -> UOp:
    """A LINEAR list without barriers; what they ordered is ordered by what they waited for."""
    nodes: dict[UOp, UOp] = {}
    for n in linear.src:
        sources = [nodes.get(s, s) for s in n.src]
        if n.op is Ops.BARRIER:
            continue
        flat: list[UOp] = []
        for old, new in zip(n.src, sources, strict=True):
            flat += [nodes.get(s, s) for s in old.src] if old.op is Ops.BARRIER else [new]
        nodes[n] = n.replace(tuple(flat))
    return linear.replace(tuple(dict.fromkeys(nodes.values())))


class NoBarrier(Groups):
    """Drops barriers."""

    rules = {"after linearize": _open}


_Parts = tuple[Callable[[], Runtime], Callable[[Arch], Renderer]]
RIGHT: dict[str, _Parts] = {
    "none": (PythonRuntime, PythonRenderer),
    "deferred": (Deferred, PythonRenderer),
    "groups": (PythonRuntime, Groups),
}
WRONG: dict[str, _Parts] = {
    **{
        name: (runtime, PythonRenderer)
        for name, runtime in {
            "truncated copy": Truncated,
            "overrun copy": Overrun,
            "stale view": Stale,
            "shifted view": Shifted,
            "leak": Leaky,
            "untyped error": Untyped,
            "lost launch": Forgetful,
            "lost write": LostWrite,
            "dropped sync": Unsynchronized,
            "reordered queue": Reordered,
            "frozen table": Frozen,
        }.items()
    },
    "inclusive less": (PythonRuntime, Inclusive),
    "wrong rounding of division": (PythonRuntime, Rounding),
    "wrong rounding of conversions": (PythonRuntime, Chopping),
    "maximum loses NaN": (PythonRuntime, Unordered),
    "ignored gate": (PythonRuntime, Ungated),
    "dropped barrier": (PythonRuntime, NoBarrier),
}  # fmt: skip

if "MISTAKE" in os.environ:
    runtime, renderer = (RIGHT | WRONG)[os.environ["MISTAKE"]]
    Device.install("PYTHON", runtime(), renderer(Arch()))
