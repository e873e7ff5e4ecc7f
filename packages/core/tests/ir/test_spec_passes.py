"""The specifications between the stages: what each pass may leave; and a pass that breaks one is named."""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest

from tiny_core import dtypes
from tiny_core.codegen.pipeline import generate
from tiny_core.devices.python.renderer import PythonRenderer
from tiny_core.errors import SpecError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import ALU, CONVERT, Ops
from tiny_core.ir.spec import Stage, check
from tiny_core.ir.text import parse
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import GLOBAL, REGISTER, AddressSpace, Capabilities
from tiny_core.render.renderer import Arch
from tiny_core.schedule.item import Arg, CopyItem, KernelItem, Schedule
from tiny_core.schedule.schedule_spec import check_schedule
from tiny_core.settings import Context

F32, I32 = dtypes.float32, dtypes.int32
LOCAL = AddressSpace("local", "group", 64)
HOST = Capabilities(
    launch="threads",
    dtypes=frozenset({F32, I32, dtypes.bool_}),
    ops=frozenset((op, d) for op in ALU | CONVERT for d in (F32, I32, dtypes.bool_)) - {(Ops.SIN, F32)},
    lanes=((F32, (4,)),),
    spaces=(GLOBAL, REGISTER, LOCAL),
)
GRID = replace(HOST, launch="grid", max_items=64, max_block=(64, 1, 1), max_grid=(64, 1, 1))

ROWS = """\
%p0 : f32[4] = param 0 w align=64
%i0 : index = range.loop 4 "i0"
%p1 : f32[32] = param 1 r align=64
%0 : index = mul %i0 8
%r0 : index = range.reduce 8 "r0"
%1 : index = add %0 %r0
%2 : f32 = load %p1[%1]
%3 : f32 = reduce.add %2 %r0
%4 = store %p0[%i0] %3
sink %4"""

STAGED = """\
%p0 : f32[4] = param 0 w align=64
%i0 : index = range.item 4 "i0"
%p1 : f32[8] = param 1 r align=64
%b : f32[8] = buffer 0 space="local"
%s0 : index = range.loop 8 "s0"
%0 : f32 = load %p1[%s0]
%1 = store %b[%s0] %0
%2 = end %s0 %1
%3 : f32[8] = after %b %2
%r0 : index = range.reduce 8 "r0"
%4 : f32 = load %3[%r0]
%5 : f32 = reduce.add %4 %r0
%6 = store %p0[%i0] %5
sink %6"""

PARALLEL = """\
%p0 : f32[8] = param 0 w align=64
%x : index = special.group 2 dim=0
%y : index = special.item 4 dim=0
%0 : index = mul %x 4
%1 : index = add %0 %y
%2 : index = mul %0 %y
%3 : f32 = cast %2
%4 = store %p0[%1] %3
sink %4"""

LOOPS = """\
%p0 : f32[4] = param 0 w align=64
%i : index = range.loop 4 "i0"
%p1 : f32[32] = param 1 r align=64
%b : f32[1] = buffer 0 space="register"
%0 : f32[1] = after %b %i
%1 = store %0[0] 0.0
%j : index = range.reduce 8 "r0"
%2 : f32[1] = after %b %1 %j
%3 : f32 = load %2[0]
%4 : f32 = load %p1[%j]
%5 : f32 = add %3 %4
%6 = store %2[0] %5
%7 = end %j %6
%8 : f32[1] = after %b %7
%9 : f32 = load %8[0]
%10 = store %p0[%i] %9
%11 = end %i %10
sink %11"""

ORDERED = """\
%p0 : f32[4] = param 0 w align=64
%y : index = special.item 4 dim=0
%b : f32[4] = buffer 0 space="local"
%k : index = range.loop 2 "r0"
%0 : f32[4] = after %b %k
%1 = store %0[%y] 1.0
%2 = barrier %1
%3 : f32[4] = after %b %2
%4 : f32 = load %3[0]
%5 = store %p0[%y] %4
%6 = barrier %5
%7 = end %k %6
sink %7"""

COMMITTED = """\
%p0 : f32[4] = param 0 w align=64
%i : i32 = range.loop 4 "i0"
%0 : f32 = cast %i
%1 = store %p0[%i] %0
%2 = end %i %1
sink %2"""

GOOD: dict[Stage, tuple[str, Capabilities]] = {
    "kernel": (ROWS, HOST),
    "normal": (ROWS, HOST),
    "pieces": (ROWS, HOST),
    "separate": (ROWS, HOST),
    "staged": (STAGED, GRID),
    "parallel": (PARALLEL, GRID),
    "loops": (LOOPS, HOST),
    "ordered": (ORDERED, GRID),
    "committed": (COMMITTED, HOST),
    "decomposed": (COMMITTED, HOST),
}

BAD: list[tuple[Stage, str, str, str]] = [
    # kernel
    ("kernel", 'range.reduce 8 "r0"', 'range.unroll 8 "r0"', "a loop or a reduction before options"),
    ("kernel", 'range.reduce 8 "r0"', 'range.loop 8 "r0"', "axes of kind reduce"),
    ("kernel", "%4 = store %p0[%i0] %3", "%4 = store %p0[%i0] %2", "closed by it, and open at no store"),
    ("kernel", "load %p1[%1]", "load %p1[1:i32]", "of dtype index until it is committed"),
    ("kernel", "%3 : f32 = reduce.add %2 %r0", "%3 : f32 = mulacc %2 %2 %2", "mulacc does not occur"),
    ("kernel", "%p1 : f32[32] = param 1 r align=64", '%p1 : f32[32] = buffer 1 space="local"', "not occur"),
    # normal
    ("normal", 'range.loop 4 "i0"', 'range.loop 4 "i1"', "called i0 to i0"),
    ("normal", 'range.reduce 8 "r0"', 'range.reduce 8 "j"', "called r0 to r0"),
    # pieces
    ("pieces", 'range.reduce 8 "r0"', 'range.reduce 8 "i1"', "closes pieces of the axes of reductions"),
    ("pieces", 'range.loop 4 "i0"', 'range.loop 4 "r1"', "open at no store to a param"),
    ("pieces", 'range.loop 4 "i0"', 'range.loop 4 "i7"', "has a place in the nesting order"),
    # staged
    ("staged", "%4 : f32 = load %3[%r0]", "%4 : f32 = load %b[%r0]", "after it has been filled"),
    ("staged", "range.reduce 8", "range.reduce 9", "not at 0 to 8"),
    ("staged", 'buffer 0 space="local"', 'buffer 0 space="register"', "registers come with expansion"),
    ("staged", 'buffer 0 space="local"', 'buffer 0 space="far"', "no address space 'far'"),
    ("staged", "f32[8]", "f32[80]", "320 of 64 bytes"),
    (
        "staged",
        "%2 = end %s0 %1\n%3 : f32[8] = after %b %2",
        "%3 : f32[8] = after %b %1",
        "axis s0 is not one",
    ),
    # parallel
    ("parallel", "special.item 4 dim=0", "special.item 4 dim=7", "one of three dimensions"),
    ("parallel", "store %p0[%1]", "store %p0[%y]", "one group stores to each location"),
    ("parallel", "store %p0[%1]", "store %p0[%0]", "one item stores to each location"),
    ("parallel", "special.group 2 dim=0", 'range.group 2 "i0"', "no axis is left that runs as group"),
    ("parallel", "special.group 2 dim=0", 'range.thread 2 "thread"', "launches kernels as grid"),
    # loops
    ("loops", "sink %11", "sink %10", "every loop is closed, but i0"),
    ("loops", "sink %11", "%12 = end %i %7\nsink %11 %12", "has more"),
    ("loops", 'range.reduce 8 "r0"', 'range.vector 8 "r0"', "a loop is one of loop, reduce, thread"),
    ("loops", "load %2[0]", "load %b[0]", "after something has been stored"),
    ("loops", "%5 : f32 = add %3 %4", "%5 : f32 = reduce.add %4 %j", "reduce does not occur"),
    ("loops", "%5 : f32 = add %3 %4", "%5 : f32 = mulacc %4 %4 %3", "of which it is one instruction"),
    # ordered
    ("ordered", "%3 : f32[4] = after %b %2", "%3 : f32[4] = after %b %1", "stored after a barrier"),
    ("ordered", "%7 = end %k %6", "%7 = end %k %5", "ends with a barrier"),
    # committed
    ("committed", "range.loop 4", "range.loop 4:i64", "one integer dtype"),
    ("committed", "%0 : f32 = cast %i", "%8 : index = cast %i\n%0 : f32 = cast %8", "no weak dtypes"),
    ("committed", "store %p0[%i] %0", "store %p0[2:u32] %0", "int32 or int64"),
    # decomposed
    ("decomposed", "%0 : f32 = cast %i", "%8 : f32 = cast %i\n%0 : f32 = sin %8", "no sin of float32"),
    ("decomposed", "%0 : f32 = cast %i", "%8 : f64 = cast %i\n%0 : f32 = cast %8", "no float64"),
]


def held(stage: Stage, text: str) -> None:
    order = ("i0", "r0", "r1", "s0", "i1", "thread") if stage in ("pieces", "staged", "parallel") else None
    check(parse(text), stage, GOOD[stage][1], order=order)


@pytest.mark.parametrize("stage", GOOD)
def test_what_a_pass_should_leave_passes(stage: Stage) -> None:
    held(stage, GOOD[stage][0])


@pytest.mark.parametrize(("stage", "old", "new", "rule"), BAD)
def test_what_a_pass_should_not_leave(stage: Stage, old: str, new: str, rule: str) -> None:
    text = GOOD[stage][0]
    assert old in text
    with pytest.raises(SpecError, match=rule) as error:
        held(stage, text.replace(old, new))
    assert str(error.value).startswith(f"{stage}: ")


SOFTMAX = """\
%p0 : f32[1] = param 0 w align=64
%p1 : f32[8] = param 1 r align=64
%r0 : index = range.reduce 8 "r0"
%0 : f32 = load %p1[%r0]
%1 : f32 = reduce.max %0 %r0
%2 : f32 = sub %0 %1
%3 : f32 = reduce.add %2 %r0
%4 = store %p0[0] %3
sink %4"""
TWO = """\
%p0 : f32[1] = param 0 w align=64
%p1 : f32[64] = param 1 r align=64
%r0 : index = range.reduce 8 "r0"
%r1 : index = range.reduce 8 "r1"
%5 : index = mul %r1 8
%6 : index = add %r0 %5
%0 : f32 = load %p1[%6]
%1 : f32 = reduce.max %0 %r0 %r1
%2 : f32 = reduce.add %0 %r0
%7 : f32 = reduce.add %2 %r1
%3 : f32 = add %1 %7
%4 = store %p0[0] %3
sink %4"""


@pytest.mark.parametrize(("text", "rule"), [(SOFTMAX, "need not each other"), (TWO, "share all of theirs")])
def test_reductions_that_cannot_share_a_loop(text: str, rule: str) -> None:
    check(parse(text), "pieces")
    with pytest.raises(SpecError, match=rule):
        check(parse(text), "separate")


PASSES: dict[str, str] = {
    # where a pass is, and what the pipeline calls it
    "normalize": "after normalize, normal: ",
    "axes.apply": "after axes.apply, pieces: ",
    "loops.separate": "after loops.separate, separate: ",
    "stage.stage": "after stage, staged: ",
    "fragments.lower": "after fragments.lower, staged: ",
    "expand": "after expand, loops: ",
    "commit": "after commit, committed: ",
    "decompose": "after decompose, decomposed: ",
}


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_that_makes_garbage_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = importlib.import_module("tiny_core.codegen.pipeline")
    module, _, function = name.rpartition(".")
    owner = getattr(pipeline, module) if module else pipeline
    real = getattr(owner, function)

    def broken(graph: UOp, *rest: object) -> UOp:
        done: UOp = real(graph, *rest)
        return done.replace((*done.src, UOp.const(1.0, F32)))

    monkeypatch.setattr(owner, function, broken)
    with Context(SPEC=2), pytest.raises(SpecError) as error:
        generate(parse(ROWS), PythonRenderer(Arch()))
    assert str(error.value).startswith(PASSES[name])
    assert "made of" in str(error.value)
    assert "sink" in str(error.value)


def test_what_goes_into_code_generation_is_a_kernel() -> None:
    bad = parse(ROWS.replace("reduce.add %2 %r0", "reduce.add %2 %r0 %r0"))
    with Context(SPEC=1), pytest.raises(SpecError, match="kernel: reduce has each range once"):
        generate(bad, PythonRenderer(Arch()))


def test_level_one_looks_at_borders_only(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = importlib.import_module("tiny_core.codegen.pipeline")
    seen: list[tuple[str, str]] = []

    def note(graph: UOp, stage: str, limits: object = None, *, after: str = "", order: object = None) -> None:
        seen.append((after, stage))

    monkeypatch.setattr(pipeline, "check", note)
    found = {}
    for level in (0, 1, 2):
        seen.clear()
        with Context(SPEC=level):
            generate(parse(ROWS), PythonRenderer(Arch()))
        found[level] = list(seen)
    assert found[0] == []
    assert found[1] == [("", "kernel"), ("linearize", "linear")]
    assert len(found[2]) > len(found[1])
    assert set(found[1]) < set(found[2])


def test_rules_of_plugins_are_checked_at_the_border(monkeypatch: pytest.MonkeyPatch) -> None:
    renderer = PythonRenderer(Arch())
    renderer.rules = {"after expand": lambda graph: graph.replace((*graph.src, UOp.const(1.0, F32)))}
    with Context(SPEC=1), pytest.raises(SpecError, match=r"after rules of .*, after expand, loops: a kernel"):
        generate(parse(ROWS), renderer)


# ---- schedules -----------------------------------------------------------------------------------

KERNEL = parse(ROWS)


def planned(*args: Arg, temporaries: tuple[UOp, ...] = ()) -> Schedule:
    return Schedule((KernelItem(KERNEL, args, "CPU"),), (), temporaries)


def test_a_good_schedule_passes() -> None:
    out, data = UOp.buffer(F32, 4, "CPU"), UOp.buffer(F32, 48, "CPU")
    check_schedule(planned(Arg(out), Arg(data, 16)))


@pytest.mark.parametrize(
    ("offset", "size", "dtype", "rule"),
    [
        (16, 40, F32, "32 elements from 16 on are within storage of 40"),
        (1, 48, F32, "argument 1 is aligned to 64 bytes"),
        (0, 48, I32, "argument 1 is of float32"),
    ],
)
def test_arguments_are_what_the_params_say(offset: int, size: int, dtype: dtypes.DType, rule: str) -> None:
    with pytest.raises(SpecError, match=rule):
        check_schedule(planned(Arg(UOp.buffer(F32, 4, "CPU")), Arg(UOp.buffer(dtype, size, "CPU"), offset)))


def test_temporaries_are_written_before_they_are_read() -> None:
    out, data = UOp.buffer(F32, 4, "CPU"), UOp.buffer(F32, 32, "CPU")
    with pytest.raises(SpecError, match="written before it is read"):
        check_schedule(planned(Arg(out), Arg(data), temporaries=(data,)))
    filled = CopyItem(Arg(data), Arg(UOp.buffer(F32, 32, "PYTHON")), 32)
    made = planned(Arg(out), Arg(data), temporaries=(data,))
    check_schedule(replace(made, items=(filled, *made.items)))


def test_a_kernel_has_all_of_its_arguments() -> None:
    with pytest.raises(SpecError, match="an argument for each of its 2 params"):
        check_schedule(planned(Arg(UOp.buffer(F32, 4, "CPU"))))


# ---- tensor graphs -------------------------------------------------------------------------------

BUFFER = UOp.buffer(F32, 4, "CPU")


@pytest.mark.parametrize(
    ("node", "rule"),
    [
        (UOp(Ops.RESHAPE, I32, (BUFFER,), p.Shape((2, 2))), "one source of its dtype"),
        (UOp(Ops.COPY, F32, (BUFFER,)), "a device to copy to"),
        (UOp(Ops.CONTIGUOUS, dtypes.index, (UOp.const(1),)), "a size in memory"),
        (UOp.sink(UOp.const(1)), "a size in memory"),
        (UOp(Ops.IOTA, dtypes.bool_, (), p.Iota(4)), "iota gives numbers"),
        (UOp(Ops.RANGE, dtypes.index, (UOp.const(4),), p.Range("i")), "range does not occur"),
    ],
)
def test_what_is_not_handed_to_the_scheduler(node: UOp, rule: str) -> None:
    with pytest.raises(SpecError, match=f"tensor: .*{rule}"):
        check(node, "tensor")


def test_a_version_is_of_storage() -> None:
    value = UOp(Ops.NEG, F32, (BUFFER,))
    with pytest.raises(SpecError, match="a version is of storage"):
        check(UOp(Ops.AFTER, F32, (value, UOp(Ops.STORE, dtypes.void, (BUFFER, BUFFER)))), "tensor")


def test_the_scheduler_looks_at_what_it_is_given() -> None:
    from tiny_core.schedule.scheduler import schedule

    with Context(SPEC=1), pytest.raises(SpecError, match="tensor: copy has a device to copy to"):
        schedule([UOp(Ops.COPY, F32, (BUFFER,))])
