"""The text form of the IR: one node a line, sources before users.

In: a node of any stage. Out: text that `parse` turns back into the same node. Guaranteed: `parse(format(g))
is g` within a process; with `renumber`, graphs that differ only in the ids of device storage print alike, in
every process.

    %p0 : f32[32] = param 0 w align=64          a leaf: its size is its shape
    %i : index = range.loop 32 "i"
    %0 : f32 = load %p0[%i] lanes=0 align=4     (defaults are left out: lanes=0, align=the element's size)
    %1 : f32 = mul %0 2.0                       a constant of the node's dtype; `2.0:f16` is one of another
    %2 = store %p0[%i] %1
    sink "scale" %2

A LINEAR starts with its own line and is indented by loops. A constant in it has a line of its own only where
its place in the list is not right before its first user. `;` starts a comment.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.ir import payload as p
from tiny_core.ir.matrix import MatrixUnit
from tiny_core.ir.ops import COMPARE, CONVERT, ELEMENTWISE, MOVEMENT, Ops
from tiny_core.ir.uop import UOp, toposort

SHORT: dict[DType, str] = {
    dtypes.void: "void", dtypes.bool_: "bool", dtypes.index: "index", dtypes.weakfloat: "weakfloat",
    dtypes.int8: "i8", dtypes.int16: "i16", dtypes.int32: "i32", dtypes.int64: "i64",
    dtypes.uint8: "u8", dtypes.uint16: "u16", dtypes.uint32: "u32", dtypes.uint64: "u64",
    dtypes.float16: "f16", dtypes.bfloat16: "bf16", dtypes.float32: "f32", dtypes.float64: "f64",
    dtypes.float8_e4m3: "f8e4m3", dtypes.float8_e5m2: "f8e5m2",
    dtypes.float8_e4m3fnuz: "f8e4m3fnuz", dtypes.float8_e5m2fnuz: "f8e5m2fnuz",
}  # fmt: skip
"""Names of dtypes in text; the parser takes the full names too."""

DEFAULTS = frozenset({dtypes.bool_, dtypes.index, dtypes.weakfloat})
"""What a bare constant is where nothing tells its dtype: that of the Python number it is written as."""

_OWN_DTYPE = (ELEMENTWISE - COMPARE - CONVERT) | MOVEMENT | {Ops.STACK, Ops.RANGE, Ops.SPECIAL, Ops.REDUCE}
SHAPED = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.IOTA, Ops.PARAM, Ops.BUFFER})
"""Ops whose payload holds the shape that is printed with the dtype."""


def format(node: UOp, *, renumber: bool = False) -> str:
    """Return the text of a graph.

    Args:
        node: its root.
        renumber: number device storage from 1 in order of appearance, instead of by its ids in this process.

    >>> print(format(UOp.param(0, dtypes.float32, 8).load(2) + 1.0))
    %p0 : f32[8] = param 0 r align=1
    %0 : f32 = load %p0[2]
    %1 : f32 = add %0 1.0
    """
    return _Printer(renumber).text(node)


def parse(text: str, targets: Mapping[str, p.TargetOp] | None = None, *, fresh_storage: bool = False) -> UOp:
    """Return the graph that `text` describes.

    Args:
        text: as `format` prints it, or written by hand.
        targets: descriptors of TARGET ops, by their full names.
        fresh_storage: make new device storage for each BUFFER instead of meaning that of its id in this
            process.

    Raises:
        ParseError: the text is malformed; shows the line and the place in it.
    """
    from tiny_core.ir.text_parser import Parser

    return Parser(text, targets or {}, fresh_storage).graph()


def describe(node: UOp) -> str:
    """Return one line about a node and, briefly, its sources, for error messages."""
    printer = _Printer(False)
    for s in node.src[:64]:
        if s.op is not Ops.CONST:
            printer.name(s)
    line = printer.line(node) if len(node.src) <= 64 else f"{node.op.value} of {len(node.src)} sources"
    known = ", ".join(f"{name} = {s.op.value}" for s, name in printer.names.items() if s is not node)
    return f"{line}  ({known})" if known else line


# ---- constants -----------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def literal(dtype: DType, bits: int) -> str:
    """Return the number of a constant, without its dtype."""
    value = dtypes.from_bits(bits, dtype)
    if math.isnan(value) and bits != dtypes.to_bits(value, dtype):
        return f"nan({bits:#x})"
    return repr(value)


def expected(op: Ops, dtype: DType, src: tuple[UOp | None, ...], i: int) -> DType | None:
    """Return the dtype that a bare constant has as source `i` (None in `src`: sources that are constants)."""
    if op in _OWN_DTYPE:
        return None if i == 0 and op is Ops.WHERE else dtype
    if op in COMPARE:
        return next((s.dtype for s in src if s is not None), None)
    if op is Ops.STORE and (i == 2 or len(src) == 2):
        return src[0].dtype if src[0] is not None else None
    return dtype if op is Ops.LOAD and i == 3 else None


# ---- printing ------------------------------------------------------------------------------------

_BAD = re.compile(r"[^\w.]")


class _Printer:
    def __init__(self, renumber: bool) -> None:
        self.renumber = renumber
        self.names: dict[UOp, str] = {}
        self.used: set[str] = set()
        self.counter = 0
        self.ids: dict[int, int] = {}

    def text(self, root: UOp) -> str:
        if root.op is Ops.LINEAR:
            return self._linear(root)
        nodes = toposort((root,))
        lines = [self.line(n) for n in nodes if n.op is not Ops.CONST or n is root]
        return "\n".join(lines)

    def _linear(self, root: UOp) -> str:
        effects = {s for n in root.src for s in n.src if s.dtype is dtypes.void}
        inline = _inline_constants(root)
        lines = [self.header("linear", root)]
        indent = ""
        for n in root.src:
            if n in inline:
                continue
            if n.op is Ops.END:
                indent = indent[2:]
            lines.append(indent + self.line(n, named=n.dtype is not dtypes.void or n in effects))
            if n.op is Ops.RANGE:
                indent += "  "
        return "\n".join(lines)

    def line(self, n: UOp, named: bool = True) -> str:
        """The line of a node; `named` if another line may refer to it."""
        render = _RENDER.get(n.op)
        right = render(self, n) if render is not None else self._plain(n)
        if not named or n.op is Ops.SINK:
            return right
        if n.dtype is dtypes.void:
            return f"{self.name(n)} = {right}"
        if n.shape or n.op in SHAPED:
            return f"{self.name(n)} : {SHORT[n.dtype]}{list(n.shape)} = {right}"
        return f"{self.name(n)} : {SHORT[n.dtype]} = {right}"

    def name(self, n: UOp) -> str:
        known = self.names.get(n)
        if known is not None:
            return known
        arg = n.arg
        if isinstance(arg, p.Range):
            base = arg.axis if not arg.instance else f"{arg.axis}_{arg.instance}"
        elif isinstance(arg, p.Param):
            base = f"p{arg.slot}"
        elif isinstance(arg, p.Variable):
            base = arg.name
        elif isinstance(arg, p.Storage):
            base = f"buf{self.storage(arg)}" if arg.device is not None else f"{arg.space}{arg.id}"
        else:
            base = ""
        if base:
            base = _BAD.sub("_", base)
            base = "%" + (base if base[0].isalpha() else "_" + base)
            made, more = base, 0
            while made in self.used:
                more += 1
                made = f"{base}_{more}"
            self.used.add(made)
        else:
            made = f"%{self.counter}"
            self.counter += 1
        self.names[n] = made
        return made

    def storage(self, arg: p.Storage) -> int:
        if not self.renumber or arg.device is None:
            return arg.id
        return self.ids.setdefault(arg.id, len(self.ids) + 1)

    def operand(self, n: UOp, i: int) -> str:
        s = n.src[i]
        known = self.names.get(s)
        if known is not None:
            return known
        arg = s.arg
        if not isinstance(arg, p.Const):
            return f"%undefined.{s.op.value}"  # only in lists that break their specification
        text = literal(arg.dtype, arg.bits)
        src = tuple(None if t.op is Ops.CONST else t for t in n.src)
        want = expected(n.op, n.dtype, src, i)
        bare = arg.dtype is want if want is not None else arg.dtype in DEFAULTS
        return text if bare else f"{text}:{SHORT[arg.dtype]}"

    def operands(self, n: UOp, start: int = 0) -> str:
        src, names = n.src, self.names
        count = len(src)
        if count > 2 and src[0] is src[1] and start == 0 and all(s is src[0] for s in src):
            return f" {count}*{self.operand(n, 0)}"
        return "".join([" " + (names.get(src[i]) or self.operand(n, i)) for i in range(start, count)])

    def _plain(self, n: UOp) -> str:
        assert n.arg is None, f"{n.op.value} has no text form for {n.arg!r}"
        return n.op.value + self.operands(n)

    def header(self, op: str, n: UOp) -> str:
        """`op` and the name and options of a kernel."""
        if n.arg is None:
            return op
        info = n.payload(p.KernelInfo)
        options = "" if info.options is None else f" options=[{', '.join(map(option, info.options))}]"
        return f"{op} {json.dumps(info.name)}{options}"

    def sink(self, n: UOp) -> str:
        return self.header("sink", n) + self.operands(n)


def _inline_constants(root: UOp) -> frozenset[UOp]:
    """Constants that stand right before their first user, in the order of its operands, as the parser lists
    them."""
    inline: set[UOp] = set()
    listed: set[UOp] = set()
    src = root.src
    waiting: list[UOp] = []
    for n in src:
        if n.op is Ops.CONST:
            waiting.append(n)
            continue
        if waiting:
            fresh = list(dict.fromkeys(s for s in n.src if s.op is Ops.CONST and s not in listed))
            if fresh and waiting[-len(fresh) :] == fresh:
                inline.update(fresh)
            listed.update(waiting)
            waiting = []
    return frozenset(inline)


def option(x: p.Option) -> str:
    """Return the text of an optimisation: `kind(field=value, …)`, defaults left out."""
    parts = []
    for key, default in OPTION_DEFAULTS.items():
        value = getattr(x, key)
        if value != default:
            parts.append(f"{key}={json.dumps(list(value) if isinstance(value, tuple) else value)}")
    return f"{x.kind}({', '.join(parts)})"


OPTION_DEFAULTS: dict[str, object] = {
    "axis": "", "n": 0, "how": None, "axes": (), "slot": 0, "access": 0, "space": "local", "copies": 1,
    "unit": "",
}  # fmt: skip


def _device(device: p.Device | None) -> str:
    if device is None:
        return ""
    return " device=" + json.dumps(list(device) if isinstance(device, tuple) else device)


def _const(t: _Printer, n: UOp) -> str:
    arg = n.payload(p.Const)
    return f"const {literal(arg.dtype, arg.bits)}"


def _buffer(t: _Printer, n: UOp) -> str:
    arg = n.payload(p.Storage)
    space = "" if arg.space == "global" else f" space={json.dumps(arg.space)}"
    lanes = f" lanes={arg.lanes}" if arg.lanes else ""
    return f"buffer {t.storage(arg)}{space}{lanes}{_device(arg.device)}"


def _param(t: _Printer, n: UOp) -> str:
    arg = n.payload(p.Param)
    space = "" if arg.space == "global" else f" space={json.dumps(arg.space)}"
    return f"param {arg.slot} {arg.access} align={arg.align}{space}{_device(arg.device)}"


def _variable(t: _Printer, n: UOp) -> str:
    arg = n.payload(p.Variable)
    return f"variable {json.dumps(arg.name)} lo={arg.lo} hi={arg.hi}"


def _range(t: _Printer, n: UOp) -> str:
    arg = n.payload(p.Range)
    instance = f" instance={arg.instance}" if arg.instance else ""
    return f"range.{arg.kind}{t.operands(n)} {json.dumps(arg.axis)}{instance}"


def _special(t: _Printer, n: UOp) -> str:
    arg = n.payload(p.Special)
    return f"special.{arg.level}{t.operands(n)} dim={arg.dim}"


def _shear(t: _Printer, n: UOp) -> str:
    arg = n.payload(p.Shear)
    by = "" if arg.by is None else f" by={arg.by}"
    return (
        f"{n.op.value}{t.operands(n)} axis={arg.axis}{by} stride={arg.stride}"
        f" dilation={arg.dilation} size={arg.size}"
    )


def _bounds(t: _Printer, n: UOp) -> str:
    pairs = ", ".join(f"{a}:{b}" for a, b in n.payload(p.Bounds).pairs)
    return f"{n.op.value}{t.operands(n)} pairs=[{pairs}]"


def _axes(t: _Printer, n: UOp) -> str:
    return f"{n.op.value}{t.operands(n)} axes={list(n.payload(p.Axes).axes)}"


def _reduce(t: _Printer, n: UOp) -> str:
    arg = n.payload(p.Reduce)
    axes = f" axes={list(arg.axes)}" if arg.axes else ""
    return f"reduce.{arg.op.value}{t.operands(n)}{axes}"


def _access(t: _Printer, n: UOp) -> str:
    if n.arg is None:
        return n.op.value + t.operands(n)
    arg = n.payload(p.Access)
    src = n.src
    text = f"{n.op.value} {t.operand(n, 0)}[{t.operand(n, 1)}]"
    if n.op is Ops.LOAD:
        if len(src) > 2:
            text += f" gate={t.operand(n, 2)} alt={t.operand(n, 3)}"
    else:
        text += f" {t.operand(n, 2)}"
        if len(src) > 3:
            text += f" gate={t.operand(n, 3)}"
    if arg.lanes:
        text += f" lanes={arg.lanes}"
    return text if arg.align == src[0].dtype.itemsize else f"{text} align={arg.align}"


def _target(t: _Printer, n: UOp) -> str:
    inner = ", ".join(t.operand(n, i) for i in range(len(n.src)))
    return f"{n.payload(p.TargetOp).name}({inner})"


_RENDER: dict[Ops, Callable[[_Printer, UOp], str]] = {
    Ops.CONST: _const,
    Ops.BUFFER: _buffer,
    Ops.PARAM: _param,
    Ops.VARIABLE: _variable,
    Ops.IOTA: lambda t, n: "iota",
    Ops.RANGE: _range,
    Ops.SPECIAL: _special,
    Ops.INDEX: lambda t, n: f"index.{n.payload(p.Lane).lane}{t.operands(n)}",
    Ops.SHUFFLE: lambda t, n: f"shuffle{t.operands(n)} lanes={list(n.payload(p.Shuffle).lanes)}",
    Ops.RESHAPE: lambda t, n: "reshape" + t.operands(n),
    Ops.EXPAND: lambda t, n: "expand" + t.operands(n),
    Ops.PERMUTE: _axes,
    Ops.FLIP: _axes,
    Ops.PAD: _bounds,
    Ops.SHRINK: _bounds,
    Ops.SHEAR: _shear,
    Ops.UNSHEAR: _shear,
    Ops.REDUCE: _reduce,
    Ops.LOAD: _access,
    Ops.STORE: _access,
    Ops.COPY: lambda t, n: f"copy{t.operands(n)}{_device(n.payload(p.Copy).device)}",
    Ops.SINK: _Printer.sink,
    Ops.LINEAR: lambda t, n: t.header("linear", n),
    Ops.MATRIX: lambda t, n: f"matrix{t.operands(n)} {json.dumps(str(n.payload(MatrixUnit)))}",
    Ops.TARGET: _target,
}
