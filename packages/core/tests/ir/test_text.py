"""The text form: what is printed is parsed to the same node, at every stage."""

from __future__ import annotations

import pytest

from tiny_core import dtypes
from tiny_core.errors import ParseError, SpecError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.text import describe, format, parse
from tiny_core.ir.uop import UOp

TENSOR = """\
%buf1 : f32[32] = buffer 1 device="CPU"
%0 : f32[4, 8] = reshape %buf1
%1 : f32[4, 8] = expand 1.0
%2 : f32[4, 8] = add %0 %1
%3 : f32[8, 4] = permute %2 axes=[1, 0]
%4 : f32[9, 6] = pad %3 pairs=[0:1, 1:1]
%5 : f32[8, 4] = shrink %4 pairs=[1:9, 2:6]
%6 : f32[8, 4] = flip %5 axes=[0, 1]
%7 : i32[5] = iota
%8 : f32[5, 4] = gather %6 %7
%9 : f32[5, 4] = copy %8 device=["CPU:0", "CPU:1"]
%10 : f32[5, 4] = contiguous %9
%11 : f32[5, 4] = detach %10
%12 : i32[5, 4] = bitcast %11
%13 : bool[5, 4] = cmplt %12 %12
%14 : f32[8, 4, 3] = expand 2.0
%15 : f32[8, 2, 3] = shear %14 axis=1 by=2 stride=1 dilation=1 size=2
%16 : f32[8, 4, 3] = unshear %15 axis=1 by=2 stride=1 dilation=1 size=4
%17 : f32[4, 3] = reduce.max %16 axes=[0]
%18 = store %0 %2
%19 : f32[32] = after %buf1 %18
sink %13 %17 %19"""

KERNEL = """\
%p0 : f32[4] = param 0 w align=64
%i : index = range.loop 4 "i"
%p1 : f32[32] = param 1 r align=64
%0 : index = mul %i 8
%j.0 : index = range.reduce 8 "j.0" instance=0
%1 : index = add %0 %j.0
%2 : bool = cmplt %1 31
%3 : f32 = load %p1[%1] gate=%2 alt=-inf
%4 : f32 = reduce.max %3 %j.0
%5 = store %p0[%i] %4 gate=%2
sink "rows" options=[tile(axis="j.0", n=4), map(axis="i", how="thread"), order(axes=["i", "j.0"])] %5"""

LOOPS = """\
%p0 : f32[64] = param 0 rw align=64 space="host"
%n : index = variable "n" lo=1 hi=8
%g : index = special.group %n dim=1
%0 : index = mul %g 8
%register0 : f32[2] = buffer 0 space="register" lanes=4
%1 : f32[4] = stack 4*0.0
%2 = store %register0[0] %1 lanes=4
%k_1 : index = range.loop 2 "k" instance=1
%3 : f32[2] = after %register0 %2 %k_1
sink %2 %3"""

LINEAR = """\
linear "vectors" options=[]
%p0 : f32[64] = param 0 w align=64
%p1 : f32[64] = param 1 r align=64
%register0 : f32[1] = buffer 0 space="register" lanes=4
%local0 : f32[16] = buffer 0 space="local"
%i : i32 = range.thread 8 "i"
  %0 : f32[4] = stack 4*0.0
  %1 = store %register0[0:i32] %0 lanes=4
  %2 : f32[1] = after %register0 %1
  %j : i32 = range.reduce 2 "j"
    %3 : i32 = mul %i 8
    %4 : i32 = mul %j 4
    %5 : i32 = add %3 %4
    %6 : f32[4] = load %p1[%5] lanes=4 align=16
    %7 : f32[1] = after %2 %j
    %8 : f32[4] = load %7[0:i32] lanes=4
    %9 : f32[4] = add %8 %6
    %10 = store %2[0:i32] %9 lanes=4
  %11 = end %j %10
  %12 : f32[1] = after %2 %11
  %13 : f32[4] = load %12[0:i32] lanes=4
  %14 : f32[2] = shuffle %13 lanes=[0, 1]
  %15 : f32[2] = shuffle %13 lanes=[2, 3]
  %16 : f32[2] = add %14 %15
  %17 : f32 = index.0 %16
  %18 : f32 = index.1 %16
  %19 : f32 = mulacc %17 2.0 %18
  %20 : bool = cmplt %19 1.0
  %21 : f32 = where %20 %19 1.0
  barrier
  store %p0[%i] %21 gate=%20
end %i %11"""


@pytest.mark.parametrize("text", [TENSOR, LINEAR], ids=["tensor", "linear"])
def test_text_is_what_it_parses_to(text: str) -> None:
    assert format(parse(text)) == text


@pytest.mark.parametrize("text", [TENSOR, KERNEL, LOOPS, LINEAR], ids=["tensor", "kernel", "loops", "linear"])
def test_round_trip(text: str) -> None:
    graph = parse(text)
    assert parse(format(graph)) is graph
    assert parse(format(graph)) is parse(text)


def test_every_op_without_payload() -> None:
    value = UOp.param(0, dtypes.uint64, 4).load(0)
    for op in (Ops.NOT, Ops.NEG):
        assert parse(format(value.alu(op))) is value.alu(op)
    for op in (Ops.ADD, Ops.XOR, Ops.IDIV, Ops.CMPNE, Ops.THREEFRY, Ops.SHL):
        node = value.alu(op, 3)
        assert parse(format(node)) is node
    wide = value.cast(dtypes.float64)
    for op in (Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.TRUNC):
        assert parse(format(wide.alu(op))) is wide.alu(op)
    assert parse(format(wide.alu(Ops.POW, 0.1))) is wide.alu(Ops.POW, 0.1)


@pytest.mark.parametrize("dtype", dtypes.ALL[1:], ids=lambda d: d.name)
def test_constants_keep_their_bits(dtype: dtypes.DType) -> None:
    numbers = (0, 1, -1, 7, 0.1, -0.0, 1e-7, float("inf"), float("-inf"), float("nan"), 3.4e38, True)
    for number in numbers:
        node = UOp.const(number if dtype.is_float else int(dtypes.convert(number, dtype)), dtype)
        assert parse(format(node)) is node
        # as an operand whose dtype is known, and one whose is not
        other = UOp(Ops.PARAM, dtype, (), p.Param(0, 4)).load(0)
        if dtype.kind != "bool":
            assert parse(format(other.maximum(node))) is other.maximum(node)
        assert parse(format(UOp.sink(node))) is UOp.sink(node)


def test_a_foreign_nan_keeps_its_payload() -> None:
    node = UOp(Ops.CONST, dtypes.float32, (), p.Const(dtypes.float32, 0x7FC00123))
    assert "nan(0x7fc00123)" in format(node)
    assert parse(format(node)) is node


def test_order_of_a_linear_list_is_kept() -> None:
    two, three = UOp.const(2, dtypes.int32), UOp.const(3, dtypes.int32)
    buf = UOp.param(0, dtypes.int32, 8, "rw")
    a = UOp(Ops.ADD, dtypes.int32, (two, three))
    b = buf.load(two)
    for order in (
        (two, three, buf, a, b),
        (buf, two, three, a, b),
        (three, two, buf, a, b),
        (buf, two, b, three, a),
        (two, buf, b, three, a),
    ):
        linear = UOp(Ops.LINEAR, dtypes.void, order)
        assert parse(format(linear)) is linear


def test_storage_is_renumbered_by_appearance() -> None:
    def graph() -> UOp:
        a, b = UOp.buffer(dtypes.float32, 4, "CPU"), UOp.buffer(dtypes.float32, 4, "CPU")
        return (b + a) * a

    x, y = graph(), graph()
    assert x is not y and format(x) != format(y)
    assert format(x, renumber=True) == format(y, renumber=True)
    assert 'buffer 1 device="CPU"' in format(x, renumber=True)


def test_fresh_storage_is_new() -> None:
    a = UOp.buffer(dtypes.float32, 4, "CPU")
    graph = (a + a) * a
    copy = parse(format(graph), fresh_storage=True)
    assert copy is not graph
    assert format(copy, renumber=True) == format(graph, renumber=True)


def test_target_ops_are_found_by_name() -> None:
    def result(src: tuple[tuple[dtypes.DType, tuple[int, ...]], ...]) -> tuple[dtypes.DType, tuple[int, ...]]:
        if len(src) != 2:
            raise SpecError("acme.dot takes two operands")
        return dtypes.float32, ()

    dot = p.TargetOp("acme.dot", result)
    x = UOp.param(0, dtypes.float32, 4).load(0)
    node = UOp(Ops.TARGET, dtypes.float32, (x, UOp.const(2.0, dtypes.float32)), dot)
    assert "acme.dot(%0, 2.0:f32)" in format(node)
    assert parse(format(node), {"acme.dot": dot}) is node
    with pytest.raises(ParseError, match=r"no target operation 'acme\.dot'"):
        parse(format(node))
    with pytest.raises(ParseError, match="takes two operands"):
        parse("%0 : f32 = acme.dot(1.0:f32)", {"acme.dot": dot})


def test_names_never_clash() -> None:
    i, also = (
        UOp.range(4, "p0"),
        UOp.range(4, "i"),
    )
    buf = UOp.param(0, dtypes.index, 8)
    j = UOp.variable("i", 0, 3)
    node = buf.load(i + also + j) + i
    assert parse(format(node)) is node


def test_comments_and_blank_lines() -> None:
    assert parse("; a constant\n\n%0 : f32 = const 1.5 ; here\n") is UOp.const(1.5, dtypes.float32)


@pytest.mark.parametrize(
    ("text", "message", "caret"),
    [
        ("%0 : f32 = lod 1.0", "no operation 'lod'", "lod"),
        ("%0 : f33 = const 1.0", "unknown dtype 'f33'", "f33"),
        ("%0 : f32 = add %1 2.0", "%1 is not defined", "%1"),
        ("%0 : f32 = const 1.0\n%0 : f32 = const 2.0", "%0 is defined already", "%0"),
        ("%0 = const 1.0", "const needs a dtype", "const"),
        ("%0 : i32 = const 1 2", "expected the end of the line", "2"),
        ("%0 : i32[3] = const 1", "has shape", "const"),
        ("%0 : f32[2, 3] = expand 1.0\n%1 : f32[5] = reshape %0", "cannot reshape", "reshape"),
        ("%0 : f32 = add $ 1.0", "unexpected character", "$"),
        ("%p0 : f32[4] = param 0 x", "expected r, w or rw", "x"),
        ('%i : index = range.lop 4 "i"', "a range is one of", "range.lop"),
        ("", "nothing to parse", ""),
    ],
)
def test_errors_show_the_place(text: str, message: str, caret: str) -> None:
    with pytest.raises(ParseError) as error:
        parse(text)
    assert message in str(error.value)
    _, line, pointer = str(error.value).split("\n")[:3]
    assert line[len(pointer) - 1 :].startswith(caret)


def test_a_node_is_described_in_a_line() -> None:
    x = UOp.param(3, dtypes.float32, 8).load(1)
    assert describe(x + 1.0) == "%1 : f32 = add %0 1.0  (%0 = load)"
