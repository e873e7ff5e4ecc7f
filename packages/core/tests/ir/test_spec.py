"""The executable specifications: good graphs pass, and each rule rejects what breaks it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tiny_core import dtypes
from tiny_core.errors import SpecError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import ALU, CONVERT, Ops
from tiny_core.ir.spec import check
from tiny_core.ir.text import parse
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import GLOBAL, REGISTER, AddressSpace, Capabilities
from tiny_core.runtime.queue import Barrier, Command, Copy, Launch, Signal, Slot, Timestamp, Wait
from tiny_core.runtime.queue_spec import check_queue

F32, I32 = dtypes.float32, dtypes.int32

GOOD_TENSOR = """\
%buf1 : f32[32] = buffer 1 device="CPU"
%0 : f32[4, 8] = reshape %buf1
%1 : f32[4, 8] = expand 1.0
%2 : f32[4, 8] = add %0 %1
%3 : f32[4] = reduce.add %2 axes=[1]
%4 = store %0 %2
%5 : f32[32] = after %buf1 %4
sink %5 %3"""

GOOD_KERNEL = """\
%p0 : f32[4] = param 0 w align=64
%i : index = range.loop 4 "i"
%p1 : f32[32] = param 1 r align=64
%0 : index = mul %i 8
%j : index = range.reduce 8 "j"
%1 : index = add %0 %j
%2 : f32 = load %p1[%1]
%3 : f32 = reduce.max %2 %j
%4 = store %p0[%i] %3
sink "rows" %4"""

GOOD_LINEAR = """\
linear "sum"
%p0 : f32[4] = param 0 w align=64
%p1 : f32[32] = param 1 r align=64
%register0 : f32[1] = buffer 0 space="register" lanes=4
%i : i32 = range.thread 4 "i"
  %0 : f32[4] = stack 4*0.0
  %1 = store %register0[0:i32] %0 lanes=4
  %2 : i32 = mul %i 8
  %j : i32 = range.reduce 2 "j"
    %3 : i32 = mul %j 4
    %4 : i32 = add %2 %3
    %5 : f32[4] = load %p1[%4] lanes=4 align=16
    %6 : f32[1] = after %register0 %1 %j
    %7 : f32[4] = load %6[0:i32] lanes=4
    %8 : f32[4] = add %7 %5
    %9 = store %6[0:i32] %8 lanes=4
  %10 = end %j %9
  %11 : f32[1] = after %register0 %10
  %12 : f32[4] = load %11[0:i32] lanes=4
  %13 : f32 = index.0 %12
  %14 = store %p0[%i] %13
end %i %14"""

CAPABILITIES = Capabilities(
    launch="threads",
    dtypes=frozenset({F32, I32, dtypes.bool_}),
    ops=frozenset((op, d) for op in ALU | CONVERT for d in (F32, I32, dtypes.bool_)),
    lanes=((F32, (2, 4, 8)),),
)


def test_good_graphs_pass() -> None:
    check(parse(GOOD_TENSOR), "tensor")
    check(parse(GOOD_KERNEL), "kernel")
    check(parse(GOOD_LINEAR), "linear")
    check(parse(GOOD_LINEAR), "linear", CAPABILITIES)


def _change(text: str, old: str, new: str) -> UOp:
    assert old in text
    return parse(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("add %0 %1", "add %0 %9", "one dtype"),
        ("reduce.add", "reduce.idiv", "reduce is by"),
        ('device="CPU"', 'space="local"', "storage is on a device"),
        ("%4 = store %0 %2", "%4 = store %2 %2", "movements over storage"),
        ("%5 : f32[32] = after %buf1 %4", "%5 : f32[32] = after %buf1 %3", "effects"),
    ],
)
def test_tensor_rules(old: str, new: str, rule: str) -> None:
    extra = "%8 : f16[4, 8] = expand 1.0\n%9 : f16[4, 8] = add %8 %8\n"
    with pytest.raises(SpecError, match=rule):
        check(_change(extra + GOOD_TENSOR, old, new), "tensor")


def test_versions_are_of_the_storage_stored_to() -> None:
    a, b = UOp.buffer(F32, 4, "CPU"), UOp.buffer(F32, 4, "CPU")
    good = a.after(UOp(Ops.STORE, dtypes.void, (a, b)))
    check(good, "tensor")
    bad = b.after(UOp(Ops.STORE, dtypes.void, (a, b)))
    with pytest.raises(SpecError, match="version"):
        check(bad, "tensor")


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("%2 : f32 = load %p1[%1]", "%2 : f32 = load %p0[%1]", "'w' only"),
        ("%4 = store %p0[%i] %3", "%4 = store %p1[%i] %3", "'r' only"),
        ("%2 : f32 = load %p1[%1]", "%2 : i32 = load %p1[%1]", "dtype of the buffer"),
        ("%2 : f32 = load %p1[%1]", "%2 : f32 = load %p1[%1] align=3", "power of two"),
        ("%2 : f32 = load %p1[%1]", "%2 : f32 = load %p1[%1] gate=%0 alt=0.0", "gate is a bool"),
        ("reduce.max %2 %j", "reduce.max %2 %0", "over ranges"),
        ("reduce.max %2 %j", "reduce.max %2 %j %j", "once"),
        ('%j : index = range.reduce 8 "j"', '%j : index = range.reduce 8 "i"', "axis i 0 is also"),
        ("%p1 : f32[32] = param 1", "%p1 : f32[32] = param 0", "slot 0 is also"),
        ("range.reduce 8", "range.reduce %i", "constants and variables"),
        ("%3 : f32 = reduce.max %2 %j", "%3 : f32[1] = stack %2", "does not occur"),
        ('sink "rows" %4', 'sink "rows" %3', "made of effects"),
    ],
)
def test_kernel_rules(old: str, new: str, rule: str) -> None:
    with pytest.raises(SpecError, match=rule):
        check(_change(GOOD_KERNEL, old, new), "kernel")


def test_a_kernel_is_a_sink() -> None:
    with pytest.raises(SpecError, match="root is a SINK"):
        check(UOp.const(1), "kernel")


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("  %2 : i32 = mul %i 8", "  %2 : index = const 8", "weak"),
        ("%j : i32 = range.reduce 2", "%j : i32 = range.vector 2", "a loop is one of"),
        ("    %4 : i32 = add %2 %3\n", "", "is not defined"),
        ("  %13 : f32 = index.0 %12", "  %13 : f32 = index.0 %5", "does not leave its loop"),
        ("end %i %14", "%99 = end %j %14", "innermost"),
        ("\nend %i %14", "", "every loop is closed"),
        ("range.reduce 2", "range.thread 2", "outermost"),
        ("index.0 %12", "index.4 %12", "lane of index"),
        ("%9 = store %6[0:i32] %8", "%9 = store %6[1:i32] %8", "slot"),
        ("%9 = store %6[0:i32] %8", "%9 = store %6[%i] %8", "slot"),
        ("%5 : f32[4] = load %p1[%4] lanes=4 align=16", "%5 : f32 = load %p1[%4] align=4", "shape"),
        ("%10 = end %j %9", "%10 = end %j %9\n  %15 = end %i %10", "range does"),
    ],
)
def test_linear_rules(old: str, new: str, rule: str) -> None:
    from tiny_core.errors import TinyError

    with pytest.raises(TinyError, match=rule):
        check(_change(GOOD_LINEAR, old, new), "linear")


def test_sources_come_first_and_once() -> None:
    good = parse(GOOD_LINEAR)
    at = next(k for k, n in enumerate(good.src) if n.op is Ops.MUL)
    late = good.src[at]
    swapped = (*good.src[:at], *good.src[at + 1 : -1], late, good.src[-1])
    for src, rule in ((swapped, "before its user"), ((*good.src, good.src[0]), "listed once")):
        with pytest.raises(SpecError, match=rule):
            check(good.replace(src), "linear")
    missing = tuple(n for n in good.src if n.op is not Ops.MUL)
    with pytest.raises(SpecError, match="before its user, but mul does not"):
        check(good.replace(missing), "linear")


def test_what_the_target_lacks() -> None:
    good = parse(GOOD_LINEAR)
    lacks = [
        (replace(CAPABILITIES, lanes=((F32, (8,)),)), "no float32 of 4 lanes"),
        (replace(CAPABILITIES, dtypes=frozenset({I32})), "no float32"),
        (replace(CAPABILITIES, ops=CAPABILITIES.ops - {(Ops.MUL, I32)}), "no mul of int32"),
        (replace(CAPABILITIES, spaces=(GLOBAL,)), "no address space 'register'"),
        (replace(CAPABILITIES, launch="grid"), "launch threads"),
        (replace(CAPABILITIES, max_params=1), "takes 1 params"),
    ]
    for capabilities, message in lacks:
        with pytest.raises(SpecError, match=message):
            check(good, "linear", capabilities)


def test_barriers_are_in_uniform_control_flow() -> None:
    def kernel(size: str) -> UOp:
        return parse(f"""\
linear
%p0 : i32[8] = param 0 rw align=4
%n : i32 = variable "n" lo=1 hi=8
%t : i32 = special.item 8 dim=0
%0 : i32 = load %p0[%t]
%k : i32 = range.loop {size} "k"
  %1 = store %p0[%k] 1
  %2 = barrier %1
end %k %2""")

    check(kernel("4"), "linear")
    check(kernel("%n"), "linear")
    for size in ("%t", "%0"):
        with pytest.raises(SpecError, match="uniform"):
            check(kernel(size), "linear")


def test_target_ops_are_the_owners() -> None:
    dot = p.TargetOp("acme.dot", lambda src: (F32, ()))
    node = UOp(Ops.TARGET, F32, (UOp.const(1.0, F32),), dot)
    kernel = UOp.sink(UOp.param(0, F32, 1, "w").store(0, node))
    check(kernel, "kernel")
    check(kernel, "kernel", owners=("acme",))
    with pytest.raises(SpecError, match="target operations are those of core"):
        check(kernel, "kernel", owners=("core",))
    with pytest.raises(SpecError, match=r"acme\.dot gives float32"):
        check(UOp.sink(UOp.param(0, I32, 1, "w").store(0, UOp(Ops.TARGET, I32, node.src, dot))), "kernel")


def test_errors_show_the_node() -> None:
    with pytest.raises(SpecError) as error:
        check(_change(GOOD_KERNEL, "reduce.max %2 %j", "reduce.max %2 %j %j"), "kernel")
    assert "kernel: reduce has each range once" in str(error.value)
    assert "reduce.max %0 %j %j" in str(error.value)


def test_other_spaces() -> None:
    text = GOOD_LINEAR.replace("param 1 r align=64", 'param 1 r align=64 space="far"')
    with pytest.raises(SpecError, match="'far'"):
        check(parse(text), "linear", CAPABILITIES)
    far = AddressSpace("far", "device")
    check(parse(text), "linear", replace(CAPABILITIES, spaces=(GLOBAL, REGISTER, far)))


QUEUE: list[Command] = [
    Wait(0, 1),
    Launch(object(), (Slot(0), Slot(2, 64)), (3, "n"), (4, 1, 1)),
    Barrier(),
    Copy(Slot(1), Slot(0), 128),
    Timestamp(0),
    Signal(0, 2),
]


def test_a_good_queue_passes() -> None:
    check_queue(QUEUE, slots=3, scalars=("n",), cells=(0,))


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        (Launch(object(), (Slot(3),)), "no slot 3 among 3"),
        (Launch(object(), (Slot(0, -4),)), "offset"),
        (Launch(object(), (), ("m",)), "no scalar 'm'"),
        (Launch(object(), (), (), ()), "one to three"),
        (Launch(object(), (), (), (4, -1)), "one to three"),
        (Copy(Slot(0), Slot(5), 4), "no slot 5"),
        (Copy(Slot(0), Slot(1), -4), "size of at least 0"),
        (Signal(0, 2), "grows"),
        (Signal(7, 1), "no signal cell 7"),
        (Wait(7, 1), "no signal cell 7"),
        (Timestamp(0), "number of its own"),
        (Timestamp(-1), "number of its own"),
    ],
)
def test_queue_rules(command: Launch | Copy | Signal | Wait | Timestamp, rule: str) -> None:
    with pytest.raises(SpecError, match=rule) as error:
        check_queue([*QUEUE, command], slots=3, scalars=("n",), cells=(0,))
    assert f"command {len(QUEUE)}" in str(error.value)
