"""Write docs/tour.md: one expression followed from Tensor to machine code, by running it.

The target is fixed, so the page is the same on every machine. `--check` compares it with the file instead and
fails where they differ; machine code is compared only under the llvmlite that the file names, as another LLVM
may choose other instructions.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities
from tiny_core.render.signature import Signature

TOUR = Path(__file__).resolve().parent.parent / "docs" / "tour.md"
ARCH = "x86_64_v3"
ASSEMBLY = "8. Machine code"
"""The heading of what another version of LLVM may change."""

WIDTH = 110

PROGRAM = """\
import numpy as np
from tiny_core import Tensor

x = (np.arange(64).reshape(4, 16) % 7 - 3).astype(np.float32)
w = (np.arange(512).reshape(16, 32) % 5 - 2).astype(np.float32)
a, b = Tensor(x, device="CPU"), Tensor(w, device="CPU")
y = (a @ b).relu()
print(y)
"""

BORDERS = """\
from tiny_core.schedule.scheduler import borders

m, n = (Tensor.empty(256, 256, device="CPU") for _ in range(2))
z = (m @ n).relu() @ m
for border in borders([z.uop]):
    print(border)
"""

RESULT = """\
right = np.maximum(x @ w, 0)
for device in ("CPU", "PYTHON"):
    y = (Tensor(x, device=device) @ Tensor(w, device=device)).relu()
    print(device, np.array_equal(y.numpy(), right), y.numpy()[0, :8])
"""


@dataclass(frozen=True, slots=True)
class Steps:
    """What each step made of the expression; texts are the IR's own text form."""

    printed: str
    tensor: str
    kernel: str
    border: str
    normal: str
    options: list[str]
    expanded: str
    linear: str
    slots: int
    lanes: int
    capabilities: Capabilities
    signature: Signature
    flops: int
    nbytes: int
    ir: str
    assembly: str
    llvmlite: str
    result: str


def follow() -> Steps:
    """Run the expression through every step of the compiler."""
    from importlib.metadata import version

    from tiny_core import Tensor
    from tiny_core.codegen import axes, grid, loops, stage
    from tiny_core.codegen.expand import expand
    from tiny_core.codegen.normalize import normalize
    from tiny_core.codegen.pipeline import generate
    from tiny_core.ir.text import format as to_text
    from tiny_core.render.renderer import Arch
    from tiny_core.schedule.item import KernelItem
    from tiny_core.schedule.scheduler import schedule
    from tiny_renderer_llvm.renderer import LLVMRenderer

    names: dict[str, object] = {}
    printed = run(PROGRAM, names)
    y = names["y"]
    assert isinstance(y, Tensor)
    (item,) = schedule([y.uop]).items  # the page says that it is one kernel
    assert isinstance(item, KernelItem)
    kernel = item.kernel

    renderer = LLVMRenderer(Arch(ARCH))
    made = generate(kernel, renderer)
    options = made.kernel.payload(p.KernelInfo).options or ()
    normal = normalize(kernel)
    plan = axes.plan(normal, options)
    graph = stage.stage(loops.separate(axes.apply(normal, plan)), plan, renderer.capabilities)
    graph, _ = grid.parallelize(graph, plan, renderer.capabilities)
    graph = expand(graph, plan, renderer.capabilities)
    registers = [n.payload(p.Storage) for n in made.linear.src if n.op is Ops.BUFFER]

    ir = renderer.render(made.linear, made.signature)
    return Steps(
        printed=printed,
        tensor=to_text(y.uop, renumber=True),
        kernel=to_text(kernel, renumber=True),
        border=run(BORDERS, names),
        normal=to_text(normal, renumber=True),
        options=[
            f"- `{to_text_option(o)}`: {explain(normal, options[:i], o)}" for i, o in enumerate(options)
        ],
        expanded=to_text(graph, renumber=True),
        linear=to_text(made.linear, renumber=True),
        slots=sum(r.size for r in registers),
        lanes=max((r.lanes for r in registers), default=0),
        capabilities=renderer.capabilities,
        signature=made.signature,
        flops=made.flops,
        nbytes=made.bytes,
        ir=ir,
        assembly=renderer.compiler().assembly(ir),
        llvmlite=version("llvmlite"),
        result=run(RESULT, names),
    )


def run(code: str, names: dict[str, object]) -> str:
    """Run code of the page with and into `names`; returns what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(TOUR), "exec"), names)
    return out.getvalue()


def to_text_option(option: p.Option) -> str:
    """Return an option as the text form prints it."""
    from tiny_core.ir.text import option as text

    return text(option)


def explain(kernel: UOp, before: tuple[p.Option, ...], option: p.Option) -> str:
    """Say what an option does to the axes that the options before it have left."""
    from tiny_core.codegen import axes

    name = option.axis
    size = axes.plan(kernel, before).piece(name).size if name else 0
    maps = {
        "vector": f"all {size} steps of `{name}` are done at once, one in each lane of a vector register",
        "unroll": f"`{name}` is no loop: its {size} steps are written out one after the other",
        "thread": f"the {size} steps of `{name}` are shared among threads",
    }
    match option.kind:
        case "tile":
            outer, inner = size // option.n, option.n
            return (
                f"`{name}` of {size} steps becomes `{name}.0` of {outer} and, inside, `{name}.1` of {inner}"
            )
        case "map":
            return maps.get(option.how or "", f"`{name}` runs as {option.how}")
        case "order":
            nest = ", ".join(f"`{axis}`" for axis in option.axes) or "none is left"
            return f"the loops that remain over the result, outermost first: {nest}"
        case "pad":
            return f"`{name}` is rounded up to a multiple of {option.n}; what is added touches no memory"
        case "stage":
            return f"what the inner loops read of argument {option.slot} is first brought into near memory"
        case "group":
            return f"the sum over `{name}` is divided among {option.n} work-items"
        case "matrix":
            tiles = ", ".join(f"`{axis}`" for axis in option.axes)
            return f"tiles of {tiles} are multiplied by the matrix unit {option.unit}"


def indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def shorten(text: str, head: int, tail: int = 1) -> str:
    """Keep the first and last lines of every run of equally indented lines, and say how many are left out."""
    out: list[str] = []
    for indent, run_ in groupby(text.splitlines(), key=indentation):
        lines = list(run_)
        left_out = len(lines) - head - tail
        if left_out > 1:
            lines = [*lines[:head], f"{indent}… {left_out} more", *lines[len(lines) - tail :]]
        out += lines
    return "\n".join(out)


def without_features(ir: str) -> str:
    """Leave the list of features, which is longer than the kernel is wide, out of LLVM IR."""
    return re.sub(r'"target-features"="[^"]*"', '"target-features"="…"', ir)


def instructions(assembly: str) -> str:
    """Keep labels and instructions of assembly text: directives say nothing of the kernel, and some of the
    host."""
    kept = []
    for line in assembly.splitlines():
        label = re.fullmatch(r"(\.L[A-Za-z]+\w*|\w+):.*", line)
        if label and not line.startswith(".Lfunc"):
            kept.append(f"{label[1]}:")
        elif line.startswith("\t") and not line.strip().startswith("."):
            kept.append("    " + line.split("#")[0].strip().replace("\t", " "))
    return "\n".join(kept)


def block(text: str, language: str = "text") -> str:
    """Return a fenced block."""
    return f"```{language}\n{text.rstrip()}\n```"


def tour() -> str:
    """Run the expression and return the page."""
    return wrap(page(follow()))


def wrap(text: str) -> str:
    """Fill the paragraphs of a page, outside blocks, to the width of the repository."""
    out = []
    for i, part in enumerate(re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)):
        if i % 2:
            out.append(part)
            continue
        paragraphs = re.split(r"(\n\n+)", part)
        out += [q if not q.strip() or q.lstrip().startswith(("#", "-")) else fill(q) for q in paragraphs]
    return "".join(out)


def fill(paragraph: str) -> str:
    end = "\n" if paragraph.endswith("\n") else ""
    return textwrap.fill(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False) + end


def page(s: Steps) -> str:
    """Return the text of the page."""
    changed = (
        "Here there is nothing to do, and the kernel stays as it is."
        if s.normal == s.kernel
        else f"It makes of this kernel\n\n{block(s.normal)}"
    )
    options = "\n".join(s.options)
    name = s.signature.name
    return f"""\
# One expression, from Tensor to machine code

This page follows one line of Python down to instructions of a processor. What stands in boxes is real
output: `tools/make_tour.py` makes this page by running the program and asking every step what it has made,
and a test fails when the page is out of date. The target is fixed to `{ARCH}`, x86-64 with AVX2, so that the
page does not depend on the machine it is made on. Files are named below `packages/core/src/tiny_core` unless
their path is longer.

You need to know some Python, and what a matrix product is.

## 1. Python

{block(PROGRAM, "python")}

{block(s.printed)}

The printed tensor is *lazy*: `@` and `relu` have checked shapes and dtypes, and computed nothing. A `Tensor`
is a handle on a description of a value (`tensor/handle.py`; the methods are in the files beside it). Work
begins when somebody asks for numbers, as step 9 does.

## 2. The tensor graph

The description is a graph of *UOps*. A UOp has an operation, a dtype, sources, and perhaps a payload; equal
ones are one object (`ir/uop.py`). `ir/ops.py` lists all operations with a sentence each, and `ir/text.py`
prints graphs: a line per node, its dtype and shape after the colon, its operation after the equals sign.

{block(s.tensor)}

There is no matrix product among the operations. `a @ b` is said with smaller words: bring both matrices to
the shape (4, 32, 16), so that row i of one meets column j of the other along the last axis; multiply; and
add up along that axis. `relu` is the maximum with 0. `reshape`, `permute` and `expand` are *movements*:
other ways to look at the same memory, which never run (`tensor/graph.py` writes these graphs).

## 3. The schedule: which kernels

A *kernel* is a piece of work that runs in one go. The scheduler (`schedule/scheduler.py`) decides where one
ends and the next begins. It needs one kernel here, so neither the product of shape (4, 32, 16) nor the sum
before `relu` ever lies in memory:

{block(s.kernel)}

`%p0`, `%p1` and `%p2` are the arguments: the result, `a` and `b`. A `range` is an axis, a number that takes
all values from 0 on: `%i0` and `%i1` run over the result, `%r0` along the sum. The movements have become
arithmetic on these numbers (`schedule/movement.py`): `a[i0, r0]` is element `16 * i0 + r0` of `%p1`. Nothing
says yet which loop is outside, or that there are loops at all.

Where a value is stored between two kernels, there is a reason, weighed in bytes and operations
(`schedule/fuse.py`). With larger matrices and another product,

{block(BORDERS, "python")}

{block(s.border)}

## 4. How to run it: options

First `codegen/normalize.py` cuts and joins axes until every index is a plain sum. {changed}

Then the kernel gets *options*: what becomes of each axis. They are data, so they can be printed, stored, or
given by hand. `codegen/heuristic.py` chooses them from what the target declares, here vectors of
{s.capabilities.vector_bytes} bytes and {s.capabilities.registers} registers for them;
`codegen/contraction.py` knows a product by its indices:

{options}

So each number of `a` that is read serves several columns, and each vector of `b` several rows: memory is
slow, and reading less is most of the art. {s.slots * s.lanes} sums are under way at once, in {s.slots}
registers of {s.lanes} numbers each.

## 5. Loops and registers

`codegen/expand.py` carries the options out. An unrolled axis becomes copies of the code, a vector axis
becomes lanes (`f32[{s.lanes}]` is {s.lanes} numbers side by side), and the sum becomes `%register0` with
{s.slots} slots: set to 0, updated in the loop `%r0` by `mulacc` (multiply and add), and read after it.
`lanes={s.lanes}` loads or stores {s.lanes} neighbours in one go.

{block(shorten(s.expanded, 26, 8))}

This is a graph still: a node only has to come after its sources. `after` makes an order where that is not
enough: a register must be read after what was stored into it. `codegen/pipeline.py` lists all passes, in
order, with a sentence on why there.

## 6. One line after the other

After the other passes, indices have become 64-bit integers (`codegen/commit.py`), what the target lacks has
been put together from what it has (`codegen/decompose/`; here it lacks nothing), and `codegen/linearize.py`
has put all nodes into a list. A node stands in the innermost loop that it depends on, and in no deeper one.

{block(shorten(s.linear, 14, 2))}

This list is all that a backend has to understand. `ir/spec_linear.py` checks it before a renderer sees it.
The device `PYTHON` runs it as it is, one line at a time, and thereby defines what it means
(`devices/python/`).

With the list goes a *signature* (`render/signature.py`) that says how to call the kernel: `{name}`, so named
after its axes, takes {len(s.signature.params)} buffers and {len(s.signature.scalars)} numbers.
`codegen/estimate.py` counts {s.flops} operations and {s.nbytes} bytes for one run, which is what
`TINY_DEBUG=2` computes its rates from.

## 7. LLVM IR

A *renderer* turns the list into text for a compiler; it is a plugin, found by its name in `DEV=`. This one
is `packages/renderer-llvm/src/tiny_renderer_llvm/renderer.py`, and needs no LLVM to run. Slots of registers
have become `phi`s, LLVM's way to say that a name has one value at the first turn of a loop and another
later.

{block(shorten(without_features(s.ir), 24, 3), "llvm")}

## {ASSEMBLY}

A *compiler* turns that text into bytes: here LLVM itself, loaded into the process by llvmlite
(`packages/renderer-llvm/src/tiny_renderer_llvm/compiler.py`). This is its work (llvmlite {s.llvmlite}),
without directives. The loop that matters is the one that ends with a jump to its own label: it reads vectors
of `b`, one number of `a` at a time for all lanes, and multiplies and adds (`vfmadd…`).

{block(shorten(instructions(s.assembly), 22, 4), "asm")}

## 9. The result

`realize`, or whoever asks for numbers, runs all of this (`engine/realize.py`): kernels that have been
compiled before come from a cache (`engine/cache.py`), `devices/cpu/loader.py` maps the machine code into
memory, and a queue of commands calls it (`runtime/queue.py`). With numbers that float32 holds exactly, order
and rounding play no part, so the results must be equal to numpy's to the last bit: on the CPU, where code is
made for all features that the machine has, and on the interpreter.

{block(RESULT, "python")}

{block(s.result)}

To see the same for a program of yours, set `TINY_DEBUG`: 2 prints a line per kernel, 3 why values are stored
and which options were chosen, 4 the source, 5 the kernel before and the list after code generation, 6 every
rewrite, 7 machine code; each level prints what the lower ones do. `DEV=NULL:LLVM:{ARCH}` makes code for the
target of this page and runs nothing.
"""


def sections(text: str) -> dict[str, str]:
    """Return the parts of a page by their headings."""
    first, *rest = text.split("\n## ")
    parts = {"": first}
    for part in rest:
        heading, _, body = part.partition("\n")
        parts[heading] = body
    return parts


def named_llvmlite(text: str) -> str:
    """Return the version of llvmlite that a page names; "" if it names none."""
    found = re.search(r"\(llvmlite ([^)]+)\)", sections(text).get(ASSEMBLY, ""))
    return found[1] if found else ""


def differences(have: str, made: str, say: Callable[[str], None] = print) -> list[str]:
    """Return the lines of a diff between the page that is there and the one that should be."""
    old, new = sections(have), sections(made)
    theirs, ours = named_llvmlite(have), named_llvmlite(made)
    if theirs and theirs != ours:
        say(f"machine code is not compared: the page has llvmlite {theirs}'s, and here is {ours}")
        new[ASSEMBLY] = old[ASSEMBLY]
    return [
        line
        for heading in dict.fromkeys((*old, *new))
        for line in difflib.unified_diff(
            old.get(heading, "").splitlines(), new.get(heading, "").splitlines(),
            f"{heading} (is)", f"{heading} (should be)", lineterm="", n=1,
        )
    ]  # fmt: skip


def main() -> int:
    """Write the page, or compare it; returns 1 where it is out of date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    parser.add_argument("--file", type=Path, default=TOUR, help="the page (default: docs/tour.md)")
    args = parser.parse_args()
    for name in list(os.environ):  # nothing that the user has set may show
        if name in ("DEV", "TINY_DEV", "TINY_DEBUG", "TINY_OPTIMIZE", "TINY_CHECK"):
            del os.environ[name]
    made = tour()
    if not args.check:
        args.file.write_text(made)
        return 0
    if not args.file.exists():
        print(f"{args.file} does not exist: run python tools/make_tour.py")
        return 1
    lines = differences(args.file.read_text(), made)
    if lines:
        print("\n".join(lines))
        print(f"{args.file} is out of date: run python tools/make_tour.py")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
