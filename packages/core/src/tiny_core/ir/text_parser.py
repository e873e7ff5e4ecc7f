"""The parser of the text form (see `text.py`): lines to nodes, with errors that show the place.

In: text, and descriptors of TARGET ops. Out: the node of its last line, or a LINEAR of its lines. Raises:
    ParseError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn, cast, get_args

from tiny_core import dtypes
from tiny_core.dtypes import DType, Number
from tiny_core.errors import ParseError, TinyError
from tiny_core.ir import payload as p
from tiny_core.ir.matrix import MatrixUnit
from tiny_core.ir.ops import COMPARE, Ops
from tiny_core.ir.text import OPTION_DEFAULTS, SHORT, expected
from tiny_core.ir.uop import UOp

_OPS = {op.value: op for op in Ops}
_DTYPES = {short: dtype for dtype, short in SHORT.items()}
_VOID = frozenset({Ops.STORE, Ops.END, Ops.BARRIER, Ops.SINK, Ops.LINEAR, Ops.CALL})
_KINDS = frozenset(get_args(p.AxisKind))
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<name>%[\w.]+)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<number>-?(?:nan\(0x[0-9a-f]+\)|(?:inf|nan)\b|\d+\.?\d*(?:e[+-]?\d+)?))
    | (?P<word>[A-Za-z_][\w.]*)
    | (?P<sign>[\[\]():,=*])
    | (?P<end>(?:;.*)?$)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class _Literal:
    """A constant whose dtype may still depend on the node it is an operand of."""

    text: str
    dtype: DType | None

    def node(self, want: DType | None) -> UOp:
        dtype = self.dtype or want
        text = self.text
        if text.startswith("nan("):
            assert dtype is not None
            return UOp(Ops.CONST, dtype, (), p.Const(dtype, int(text[4:-1], 16)))
        value: Number
        if text in ("True", "False"):
            value = text == "True"
        elif any(c in text for c in ".ean") or "inf" in text:
            value = float(text)
        else:
            value = int(text)
        return UOp.const(value, dtype)


_Item = UOp | _Literal


class Parser:
    """State of one parse: the line being read and the names defined so far."""

    def __init__(self, text: str, targets: Mapping[str, p.TargetOp], fresh_storage: bool) -> None:
        self.lines = text.split("\n")
        self.targets = targets
        self.fresh: dict[int, UOp] | None = {} if fresh_storage else None
        self.names: dict[str, UOp] = {}
        self.row = 0
        self.line = ""
        self.tokens: list[tuple[str, str, int]] = []
        self.at = 0
        self.order: list[UOp] | None = None
        self.listed: set[UOp] = set()

    # ---- lines -----------------------------------------------------------------------------------

    def graph(self) -> UOp:
        info: p.KernelInfo | None = None
        last: UOp | None = None
        for row, line in enumerate(self.lines):
            self.row, self.line = row, line
            self._tokenise()
            if not self.tokens:
                continue
            if self.tokens[0][:2] == ("word", "linear"):
                if last is not None or self.order is not None:
                    self.fail("linear must be the first line")
                self.at, self.order = 1, []
                info = self._info()
                self._end()
                continue
            last = self._statement()
            if self.order is not None:
                self._list(last)
        if self.order is not None:
            return UOp(Ops.LINEAR, dtypes.void, tuple(self.order), info)
        if last is None:
            self.fail("nothing to parse")
        return last

    def _list(self, node: UOp) -> None:
        assert self.order is not None
        for s in (*node.src, node) if node.op is not Ops.CONST else (node,):
            if (s is node or s.op is Ops.CONST) and s not in self.listed:
                self.listed.add(s)
                self.order.append(s)

    def _tokenise(self) -> None:
        self.at = 0
        tokens = self.tokens = []
        text, place, match = self.line, 0, _TOKEN.match
        while (found := match(text, place)) is not None:
            kind = found.lastgroup
            assert kind is not None
            if kind == "end":
                return
            tokens.append((kind, found[kind], found.start(kind)))
            place = found.end()
        self.fail("unexpected character", len(text) - len(text[place:].lstrip()))

    def fail(self, message: str, column: int | None = None) -> NoReturn:
        """Raise a ParseError that points into the line."""
        if column is None:
            column = self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.line)
        raise ParseError(f"line {self.row + 1}: {message}\n  {self.line}\n  {' ' * column}^")

    # ---- tokens ----------------------------------------------------------------------------------

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        at = self.at + ahead
        return self.tokens[at][:2] if at < len(self.tokens) else ("end", "")

    def _next(self, kind: str, what: str) -> str:
        have, text = self._peek()
        if have != kind:
            self.fail(f"expected {what}")
        self.at += 1
        return text

    def _sign(self, text: str) -> bool:
        """Skip a sign if it is next."""
        if self._peek() == ("sign", text):
            self.at += 1
            return True
        return False

    def _need(self, text: str) -> None:
        if not self._sign(text):
            self.fail(f"expected {text!r}")

    def _end(self) -> None:
        if self._peek()[0] != "end":
            self.fail("expected the end of the line")

    def _int(self) -> int:
        text = self._next("number", "an integer")
        try:
            return int(text)
        except ValueError:
            self.at -= 1
            self.fail("expected an integer")

    def _dtype(self) -> DType:
        text = self._next("word", "a dtype")
        if text in _DTYPES:
            return _DTYPES[text]
        try:
            return dtypes.parse(text)
        except TinyError as error:
            self.at -= 1
            self.fail(error.message)

    def _string(self) -> str:
        return str(json.loads(self._next("string", "a quoted string")))

    def _ints(self) -> tuple[int, ...]:
        self._need("[")
        found = list[int]()
        while not self._sign("]"):
            found.append(self._int())
            if not self._sign(","):
                self._need("]")
                break
        return tuple(found)

    def _pairs(self) -> tuple[tuple[int, int], ...]:
        self._need("[")
        found = list[tuple[int, int]]()
        while not self._sign("]"):
            a = self._int()
            self._need(":")
            found.append((a, self._int()))
            if not self._sign(","):
                self._need("]")
                break
        return tuple(found)

    def _strings(self) -> tuple[str, ...]:
        self._need("[")
        found = list[str]()
        while not self._sign("]"):
            found.append(self._string())
            if not self._sign(","):
                self._need("]")
                break
        return tuple(found)

    def _device(self) -> p.Device:
        return self._strings() if self._peek() == ("sign", "[") else self._string()

    def _key(self, name: str) -> bool:
        """Skip `name=` if it is next."""
        if self._peek() == ("word", name) and self._peek(1) == ("sign", "="):
            self.at += 2
            return True
        return False

    def _keyed_int(self, name: str, default: int | None = None) -> int:
        if self._key(name):
            return self._int()
        if default is None:
            self.fail(f"expected {name}=")
        return default

    def _info(self) -> p.KernelInfo | None:
        if self._peek()[0] != "string":
            return None
        name = self._string()
        return p.KernelInfo(name, self._options() if self._key("options") else None)

    def _options(self) -> tuple[p.Option, ...]:
        self._need("[")
        found = list[p.Option]()
        while not self._sign("]"):
            found.append(self._option())
            if not self._sign(","):
                self._need("]")
                break
        return tuple(found)

    def _option(self) -> p.Option:
        kind = self._next("word", "an option")
        self._need("(")
        fields: dict[str, object] = {}
        while not self._sign(")"):
            key = self._next("word", "a field of an option")
            if key not in OPTION_DEFAULTS:
                self.at -= 1
                self.fail("options have no such field")
            self._need("=")
            if self._peek()[0] == "string":
                fields[key] = self._string()
            else:
                fields[key] = self._strings() if self._peek() == ("sign", "[") else self._int()
            if not self._sign(","):
                self._need(")")
                break
        return p.Option(kind, **fields)  # type: ignore[arg-type]  # names and kinds of fields are checked above

    # ---- operands --------------------------------------------------------------------------------

    def _operand(self) -> _Item | None:
        """The next operand, or None if there is none."""
        kind, text = self._peek()
        if kind == "name":
            node = self.names.get(text)
            if node is None:
                self.fail(f"{text} is not defined")
            self.at += 1
            return node
        if kind == "number" or text in ("True", "False"):
            self.at += 1
            return _Literal(text, self._dtype() if self._sign(":") else None)
        return None

    def _needed(self) -> _Item:
        item = self._operand()
        if item is None:
            self.fail("expected an operand")
        return item

    def _operands(self) -> list[_Item]:
        if self._peek()[0] == "number" and self._peek(1) == ("sign", "*"):
            count = self._int()
            self.at += 1
            return [self._needed()] * count
        found = list[_Item]()
        while (item := self._operand()) is not None:
            found.append(item)
        return found

    def _resolve(self, op: Ops, dtype: DType, items: list[_Item]) -> tuple[UOp, ...]:
        known = tuple(x if isinstance(x, UOp) else None for x in items)
        return tuple(
            x if isinstance(x, UOp) else x.node(expected(op, dtype, known, i)) for i, x in enumerate(items)
        )

    # ---- statements ------------------------------------------------------------------------------

    def _statement(self) -> UOp:
        name, dtype, shape = "", None, None
        if self._peek()[0] == "name":
            name = self._next("name", "a name")
            if name in self.names:
                self.at -= 1
                self.fail(f"{name} is defined already")
            if self._sign(":"):
                dtype = self._dtype()
                if self._peek() == ("sign", "["):
                    shape = self._ints()
            self._need("=")
        start = self.at
        try:
            node = self._node(dtype, shape)
            self._end()
        except ParseError:
            raise
        except TinyError as error:
            self.at = start
            self.fail(error.message)
        if shape is not None and node.shape != shape:
            self.at = start
            self.fail(f"has shape {list(node.shape)}, not {list(shape)}")
        if name:
            self.names[name] = node
        return node

    def _node(self, dtype: DType | None, shape: tuple[int, ...] | None) -> UOp:
        start = self.at
        word = self._next("word", "an operation")
        if self._peek() == ("sign", "("):
            return self._target(word, dtype, start)
        base, _, suffix = word.partition(".")
        op = _OPS.get(base)
        if op is None or op in (Ops.TARGET, Ops.LINEAR):
            self.at = start
            self.fail(f"there is no operation {base!r}")
        read = _READ.get(op)
        if suffix and op not in _SUFFIXED:
            self.at = start
            self.fail(f"{base} takes no suffix")
        if dtype is None:
            if op not in _VOID and op not in COMPARE:
                self.at = start
                self.fail(f"{base} needs a dtype: %name : dtype = {base} …")
            dtype = dtypes.bool_ if op in COMPARE else dtypes.void
        if read is not None:
            return read(self, op, suffix, dtype, shape)
        return UOp(op, dtype, self._resolve(op, dtype, self._operands()))

    def _target(self, word: str, dtype: DType | None, start: int) -> UOp:
        descriptor = self.targets.get(word)
        if descriptor is None:
            self.at = start
            known = ", ".join(sorted(self.targets)) or "none"
            self.fail(f"there is no target operation {word!r} (known: {known})")
        self._need("(")
        items = list[_Item]()
        while not self._sign(")"):
            items.append(self._needed())
            if not self._sign(","):
                self._need(")")
                break
        given = dtype or dtypes.void
        return UOp(Ops.TARGET, given, self._resolve(Ops.TARGET, given, items), descriptor)

    # ---- ops with payloads -----------------------------------------------------------------------

    def const(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        item = self._needed()
        if isinstance(item, UOp):
            self.fail("expected a number")
        return item.node(dtype)

    def _size(self, shape: tuple[int, ...] | None) -> int:
        if shape is None or len(shape) != 1:
            self.fail("expected its size as a shape: %name : dtype[size] = …")
        return shape[0]

    def buffer(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        size, number = self._size(shape), self._int()
        space = self._string() if self._key("space") else "global"
        lanes = self._keyed_int("lanes", 0)
        device = self._device() if self._key("device") else None
        if device is not None and self.fresh is not None:
            if number not in self.fresh:
                self.fresh[number] = UOp.buffer(dtype, size, device)
            return self.fresh[number]
        return UOp(op, dtype, (), p.Storage(number, size, space, device, lanes))

    def param(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        size, slot = self._size(shape), self._int()
        access = self._next("word", "r, w or rw")
        if access not in ("r", "w", "rw"):
            self.at -= 1
            self.fail("expected r, w or rw")
        align = self._keyed_int("align", 1)
        space = self._string() if self._key("space") else "global"
        device = self._device() if self._key("device") else None
        return UOp(op, dtype, (), p.Param(slot, size, access, align, space, device))  # type: ignore[arg-type]

    def variable(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        name = self._string()
        return UOp(op, dtype, (), p.Variable(name, self._keyed_int("lo"), self._keyed_int("hi")))

    def iota(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        return UOp(op, dtype, (), p.Iota(self._size(shape)))

    def range(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        if suffix not in _KINDS:
            self.at -= 1
            self.fail(f"a range is one of {', '.join(sorted(_KINDS))}")
        size = self._needed()
        axis = self._string()
        arg = p.Range(axis, cast(p.AxisKind, suffix), self._keyed_int("instance", 0))
        return UOp(op, dtype, self._resolve(op, dtype, [size]), arg)

    def special(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        if suffix not in ("group", "item"):
            self.at -= 1
            self.fail("expected special.group or special.item")
        size = self._resolve(op, dtype, [self._needed()])
        return UOp(op, dtype, size, p.Special(suffix, self._keyed_int("dim")))  # type: ignore[arg-type]

    def lane(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        if not suffix.isdigit():
            self.at -= 1
            self.fail("expected index.LANE")
        return UOp(op, dtype, self._resolve(op, dtype, self._operands()), p.Lane(int(suffix)))

    def shuffle(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        src = self._resolve(op, dtype, self._operands())
        if not self._key("lanes"):
            self.fail("expected lanes=")
        return UOp(op, dtype, src, p.Shuffle(self._ints()))

    def matrix(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        src = self._resolve(op, dtype, self._operands())
        return UOp(op, dtype, src, MatrixUnit.parse(self._string()))

    def shaped(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        if shape is None:
            self.fail("expected a shape: %name : dtype[shape] = …")
        return UOp(op, dtype, self._resolve(op, dtype, self._operands()), p.Shape(shape))

    def axes(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        src = self._resolve(op, dtype, self._operands())
        if not self._key("axes"):
            self.fail("expected axes=")
        return UOp(op, dtype, src, p.Axes(self._ints()))

    def bounds(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        src = self._resolve(op, dtype, self._operands())
        if not self._key("pairs"):
            self.fail("expected pairs=")
        return UOp(op, dtype, src, p.Bounds(self._pairs()))

    def shear(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        src = self._resolve(op, dtype, self._operands())
        axis = self._keyed_int("axis")
        by = self._int() if self._key("by") else None
        rest = [self._keyed_int(key) for key in ("stride", "dilation", "size")]
        return UOp(op, dtype, src, p.Shear(axis, by, *rest))

    def reduce(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        if suffix not in _OPS:
            self.at -= 1
            self.fail("expected reduce.OP")
        src = self._resolve(op, dtype, self._operands())
        return UOp(op, dtype, src, p.Reduce(_OPS[suffix], self._ints() if self._key("axes") else ()))

    def access(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        buf = self._needed()
        if not isinstance(buf, UOp):
            self.fail("expected a buffer")
        items: list[_Item] = [buf]
        if not self._sign("["):
            if op is Ops.LOAD:
                self.fail("expected '['")
            return UOp(op, dtype, self._resolve(op, dtype, [buf, self._needed()]))
        items.append(self._needed())
        self._need("]")
        if op is Ops.STORE:
            items.append(self._needed())
        if self._key("gate"):
            items.append(self._needed())
            if op is Ops.LOAD:
                if not self._key("alt"):
                    self.fail("expected alt=")
                items.append(self._needed())
        arg = p.Access(self._keyed_int("lanes", 0), self._keyed_int("align", buf.dtype.itemsize))
        return UOp(op, dtype, self._resolve(op, dtype, items), arg)

    def copy(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        src = self._resolve(op, dtype, self._operands())
        if not self._key("device"):
            self.fail("expected device=")
        return UOp(op, dtype, src, p.Copy(self._device()))

    def sink(self, op: Ops, suffix: str, dtype: DType, shape: tuple[int, ...] | None) -> UOp:
        info = self._info()
        return UOp(op, dtype, self._resolve(op, dtype, self._operands()), info)


_SUFFIXED = frozenset({Ops.RANGE, Ops.SPECIAL, Ops.INDEX, Ops.REDUCE})
_READ: dict[Ops, Callable[[Parser, Ops, str, DType, tuple[int, ...] | None], UOp]] = {
    Ops.CONST: Parser.const,
    Ops.BUFFER: Parser.buffer,
    Ops.PARAM: Parser.param,
    Ops.VARIABLE: Parser.variable,
    Ops.IOTA: Parser.iota,
    Ops.RANGE: Parser.range,
    Ops.SPECIAL: Parser.special,
    Ops.INDEX: Parser.lane,
    Ops.SHUFFLE: Parser.shuffle,
    Ops.MATRIX: Parser.matrix,
    Ops.RESHAPE: Parser.shaped,
    Ops.EXPAND: Parser.shaped,
    Ops.PERMUTE: Parser.axes,
    Ops.FLIP: Parser.axes,
    Ops.PAD: Parser.bounds,
    Ops.SHRINK: Parser.bounds,
    Ops.SHEAR: Parser.shear,
    Ops.UNSHEAR: Parser.shear,
    Ops.REDUCE: Parser.reduce,
    Ops.LOAD: Parser.access,
    Ops.STORE: Parser.access,
    Ops.COPY: Parser.copy,
    Ops.SINK: Parser.sink,
}
