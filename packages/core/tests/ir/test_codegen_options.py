"""Options that do not apply raise OptionError, with what there is instead; names are stable."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tiny_core import dtypes
from tiny_core.codegen import axes
from tiny_core.codegen.normalize import normalize
from tiny_core.codegen.pipeline import generate, name_of
from tiny_core.devices.python.renderer import PythonRenderer
from tiny_core.errors import OptionError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.payload import Option
from tiny_core.ir.text import parse
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import GLOBAL, REGISTER, AddressSpace
from tiny_core.render.renderer import Arch

ROWS = """
%p0 : f32[6] = param 0 w align=64
%i0 : index = range.loop 6 "i0"
%0 : index = mul %i0 12
%r0 : index = range.reduce 12 "r0"
%1 : index = add %0 %r0
%p1 : f32[72] = param 1 r align=64
%2 : f32 = load %p1[%1]
%3 : f32 = reduce.add %2 %r0
%4 = store %p0[%i0] %3
sink %4
"""
TWO = """
%p0 : f32[24] = param 0 w align=64
%p1 : f32[6] = param 1 w align=64
%i0 : index = range.loop 6 "i0"
%0 : index = mul %i0 4
%i1 : index = range.loop 4 "i1"
%1 : index = add %0 %i1
%p2 : f32[24] = param 2 r align=64
%2 : f32 = load %p2[%1]
%3 = store %p0[%1] %2
%r0 : index = range.reduce 4 "r0"
%4 : index = add %0 %r0
%5 : f32 = load %p2[%4]
%6 : f32 = reduce.add %5 %r0
%7 = store %p1[%i0] %6
sink %3 %7
"""
IN_PLACE = """
%p0 : f32[6] = param 0 rw align=64
%i0 : index = range.loop 6 "i0"
%0 : f32 = load %p0[%i0]
%1 : f32 = add %0 1.0
%2 = store %p0[%i0] %1
sink %2
"""


class Host(PythonRenderer):
    """PYTHON with near memory."""

    def __init__(self) -> None:
        super().__init__(Arch())
        spaces = (GLOBAL, REGISTER, AddressSpace("local", "group", 1 << 12))
        self.capabilities = replace(self.capabilities, spaces=spaces)


def made(text: str, *options: Option) -> UOp:
    """Generate code under options; return the linear list."""
    kernel = parse(text).replace(arg=p.KernelInfo(options=options))
    return generate(kernel, Host()).linear


def tile(axis: str, n: int) -> Option:
    return Option("tile", axis, n=n)


def run(axis: str, how: p.AxisKind) -> Option:
    return Option("map", axis, how=how)


def lanes(axis: str, n: int) -> tuple[Option, Option]:
    return tile(axis, n), run(f"{axis}.1", "vector")


REFUSED: dict[str, tuple[str, tuple[Option, ...], str]] = {
    "unknown axis": (ROWS, (tile("i7", 2),), "no axis 'i7'"),
    "axis that was tiled": (ROWS, (tile("i0", 2), run("i0", "unroll")), "no axis 'i0'"),
    "tile that does not divide": (ROWS, (tile("i0", 4),), "cannot tile axis 'i0' of 6 iterations by 4"),
    "pad after tile": (ROWS, (tile("i0", 2), Option("pad", "i0.0", n=4)), "pad an axis before"),
    "reduction over threads": (ROWS, (run("r0", "thread"),), "cannot run as 'thread'"),
    "order of an unknown axis": (ROWS, (Option("order", axes=("i0", "x")),), "unknown or repeated"),
    "group of an output axis": (ROWS, (Option("group", "i0", n=2),), "no reduction"),
    "items on a host": (ROWS, (run("i0", "item"),), "cannot run as 'item'"),
    "groups on a host": (ROWS, (run("i0", "group"),), "cannot run as 'group'"),
    "lanes that the target has not": (ROWS, (run("r0", "vector"),), "of 12 lanes"),
    "lanes along two axes": (ROWS, (*lanes("i0", 2), *lanes("r0", 4)), "two vector axes"),
    "operand that is not there": (ROWS, (Option("stage", slot=5),), "no load number 0 of operand 5"),
    "load that is not there": (ROWS, (Option("stage", slot=1, access=1),), "no load number 1 of operand 1"),
    "stage point that was tiled": (ROWS, (Option("stage", "i0", slot=1), tile("i0", 2)), "no axis 'i0'"),
    "operand that is staged already": (ROWS, (Option("stage", slot=1), Option("stage", slot=1)), "already"),
    "space that is not there": (ROWS, (Option("stage", slot=1, space="lds"),), "no such space"),
    "copies in flight": (ROWS, (Option("stage", slot=1, copies=2),), "more than one copy"),
    "operand that the kernel writes": (IN_PLACE, (Option("stage", slot=0),), "also writes it"),
    "inner axis outermost for one result only": (TWO, (Option("order", axes=("i1",)),), "different loops"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_an_option_that_does_not_apply_is_refused(name: str) -> None:
    text, options, message = REFUSED[name]
    with pytest.raises(OptionError, match=message):
        made(text, *options)


def test_names_say_how_an_axis_was_cut() -> None:
    kernel = normalize(parse(ROWS))
    plan = axes.plan(kernel, (tile("r0", 6), tile("r0.1", 2), tile("i0", 3)))
    assert plan.order == ["i0.0", "i0.1", "r0.0", "r0.1.0", "r0.1.1"]
    strides = {q.name: (q.size, q.stride) for axis in plan.axes.values() for q in axis.pieces}
    assert strides["r0.0"] == (2, 6)
    assert strides["r0.1.0"] == (3, 2)
    assert strides["r0.1.1"] == (2, 1)


def test_the_options_that_were_applied_are_kept_and_give_the_same_kernel_again() -> None:
    kernel = parse(ROWS)
    renderer = PythonRenderer(Arch())
    chosen = generate(kernel, renderer)
    info = chosen.kernel.payload(p.KernelInfo)
    assert info.options is not None
    again = generate(kernel.replace(arg=p.KernelInfo(options=info.options)), renderer)
    assert again.linear is chosen.linear


def test_a_kernel_is_named_after_its_axes() -> None:
    assert name_of(normalize(parse(ROWS))) == "r_6_r12"
    assert name_of(normalize(parse(IN_PLACE))) == "e_6"


def test_a_parameter_that_turns_out_unused_is_still_one() -> None:
    x, y = UOp.param(1, dtypes.int32, 4), UOp.param(2, dtypes.int32, 4)
    i = UOp.range(4, "i0")
    value = x.load(i) + (y.load(i) - y.load(i))
    store = UOp.param(0, dtypes.int32, 4, "w").store(i, value)
    generated = generate(UOp.sink(store, info=p.KernelInfo(options=())), PythonRenderer(Arch()))
    assert [s.access for s in generated.signature.params] == ["w", "r", "r"]
    assert sum(n.op is Ops.PARAM for n in generated.linear.src) == 2
