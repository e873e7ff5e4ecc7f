"""One C function from a linear kernel.

The function is `void NAME(void **buf, const i64 *scalar, i64 begin, i64 end)`. A value of n lanes becomes as
many C variables (*parts*) as fill vector registers, so that no variable is wider than a register: compilers
keep wider ones in memory. Registers of the IR are local variables, near memory is a local array.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from tiny_core.api import ELEMENTWISE, Ops, RenderError, Signature, UOp, dtypes, payload
from tiny_core.devices.cpu.c_prelude import SCALARS, Prelude, integer, literal, width

if TYPE_CHECKING:
    from tiny_core.devices.cpu.c import CRenderer

COMPARE: Final = {Ops.CMPLT: "<", Ops.CMPLE: "<=", Ops.CMPEQ: "==", Ops.CMPNE: "!="}
_INFIX: Final = {
    Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*", Ops.DIV: "/", Ops.AND: "&", Ops.OR: "|", Ops.XOR: "^",
    **COMPARE,
}  # fmt: skip
# bools: `x` and `y` are 0 and 1, or masks; `!` stands for the complement of either kind
BOOLS: Final = {
    Ops.ADD: "x | y", Ops.MUL: "x & y", Ops.MAX: "x | y", Ops.MIN: "x & y", Ops.AND: "x & y", Ops.OR: "x | y",
    Ops.XOR: "x ^ y", Ops.NOT: "!x", Ops.CMPLT: "!x & y", Ops.CMPLE: "!x | y", Ops.CMPEQ: "!(x ^ y)",
    Ops.CMPNE: "x ^ y", Ops.WHERE: "(z & x) | (!z & y)",
}  # fmt: skip
_CALLS: Final = {Ops.SQRT: "sqrt", Ops.TRUNC: "trunc", Ops.MAX: "max", Ops.MIN: "min", Ops.IDIV: "idiv",
                 Ops.IMOD: "imod", Ops.SHL: "shl", Ops.SHR: "shr"}  # fmt: skip


class Kernel:
    """One rendering. `parts` has the C expressions of each value, `masks` the bytes of a lane of each bool
    vector."""

    def __init__(self, renderer: CRenderer, signature: Signature) -> None:
        self.able, self.signature = renderer.capabilities, signature
        self.prelude = Prelude(renderer.features, renderer.arch.name)
        self.parts: dict[UOp, tuple[str, ...]] = {}
        self.masks: dict[UOp, int] = {}
        self.lines: list[str] = []
        self.head: list[str] = []  # declarations of buffers, scalars and registers
        self.indent = "  "
        self.count = 0
        self.loops = 0

    def render(self, linear: UOp) -> str:
        for node in linear.src:
            handler = _HANDLERS.get(node.op)
            if handler is not None:
                handler(self, node)
            elif node.op in ELEMENTWISE:
                self.check(node)
                self.elementwise(node)
            else:
                raise RenderError(f"the C renderer has no {node.op.value}")
        name = self.signature.name
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            raise RenderError(f"{name!r} is not a name in C")
        head = f"void {name}(void **buf, const i64 *scalar, i64 begin, i64 end) {{"
        return "\n".join((self.prelude.text(), "", head, *self.head, *self.lines, "}", ""))

    # ---- values ----------------------------------------------------------------------------------

    def check(self, node: UOp) -> None:
        """Raise RenderError for what was not declared."""
        dtype = (node.src[1] if node.op is Ops.WHERE else node.src[0]).dtype
        if not self.able.supports(node.op, dtype):
            raise RenderError(
                f"the C renderer has no {node.op.value} of {dtype.name} for this target",
                "it must be decomposed before",
            )
        self.check_type(node)

    def check_type(self, node: UOp) -> None:
        if node.dtype not in self.able.dtypes:
            raise RenderError(f"the C renderer has no {node.dtype.name} for this target")
        if node.shape and node.shape[0] not in self.able.widths(node.dtype):
            raise RenderError(
                f"the C renderer has no {node.dtype.name} of {node.shape[0]} lanes for this target"
            )

    def lanes(self, elem: str, n: int) -> int:
        """Return the lanes of a part of a value of n lanes of this element type."""
        # an f16 part has the lanes of an f32 part, which it becomes for arithmetic
        return min(n, self.able.vector_bytes // (4 if elem == "f16" else width(elem)))

    def element(self, node: UOp) -> str:
        """Return the element type of the C variables of a value."""
        return f"i{8 * self.masks[node]}" if node in self.masks else SCALARS[node.dtype.name]

    def define(self, node: UOp, expressions: list[str], mask: int = 0) -> None:
        """Make variables for the parts of a value; `mask` is the bytes of a lane of a bool vector."""
        n = node.shape[0] if node.shape else 0
        if mask:
            self.masks[node] = mask
        elem = self.element(node)
        kind = self.prelude.type(elem, self.lanes(elem, n) if n else 0)
        names: list[str] = []
        for expression in expressions:
            names.append(f"v{self.count}" if len(expressions) == 1 else f"v{self.count}_{len(names)}")
            self.lines.append(f"{self.indent}const {kind} {names[-1]} = {expression};")
        self.count += 1
        self.parts[node] = tuple(names)

    def regroup(self, parts: tuple[str, ...], have: int, want: int) -> list[str]:
        """Return parts of `have` lanes cut or joined to parts of `want` lanes."""
        if have == want:
            return list(parts)
        if have > want:
            step = range(0, have, want)
            return [
                f"__builtin_shufflevector({p}, {p}, {', '.join(map(str, range(at, at + want)))})"
                for p in parts
                for at in step
            ]
        halves = self.regroup(parts, have, want // 2)
        order = ", ".join(map(str, range(want)))
        return [
            f"__builtin_shufflevector({halves[i]}, {halves[i + 1]}, {order})"
            for i in range(0, len(halves), 2)
        ]

    def convert(
        self, node: UOp, source: str, dest: str, function: str, have: int = 0, want: int = 0
    ) -> list[str]:
        """Return the parts of a vector converted from element type `source` to `dest` by the function called
        `function` (`{}` is the argument, `{t}` the type converted to), in parts of `want` lanes."""
        n = node.shape[0]
        have, want = have or self.lanes(source, n), want or self.lanes(dest, n)
        step = min(have, want)
        kind = self.prelude.type(dest, step)
        pieces = self.regroup(self.parts[node], have, step)
        return self.regroup(tuple(function.format(x, t=kind, n=step) for x in pieces), step, want)

    def mask(self, node: UOp, size: int, want: int) -> list[str]:
        """Return a bool vector as masks of `size` bytes a lane, in parts of `want` lanes."""
        have = self.masks[node]
        call = "{}" if have == size else "__builtin_convertvector({}, {t})"
        return self.convert(node, f"i{8 * have}", f"i{8 * size}", call, want=want)

    def const(self, node: UOp) -> None:
        self.check_type(node)
        arg = node.payload(payload.Const)
        self.parts[node] = (literal(node.value, node.dtype, arg.bits),)

    def stack(self, node: UOp) -> None:
        self.check_type(node)
        n = len(node.src)
        size = 4 if node.dtype is dtypes.bool_ else 0
        elem = f"i{8 * size}" if size else SCALARS[node.dtype.name]
        lanes = self.lanes(elem, n)
        kind = self.prelude.type(elem, lanes)
        scalars = [f"-({elem}){self.parts[s][0]}" if size else self.parts[s][0] for s in node.src]
        if len(set(node.src)) == 1:
            splat = self.prelude.function("splat", elem, lanes)
            self.define(node, [f"{splat}({scalars[0]})"], size)
            self.parts[node] *= n // lanes
            return
        groups = [scalars[at : at + lanes] for at in range(0, n, lanes)]
        self.define(node, [f"({kind}){{{', '.join(g)}}}" for g in groups], size)

    def index(self, node: UOp) -> None:
        source, lane = node.src[0], node.payload(payload.Lane).lane
        lanes = self.lanes(self.element(source), source.shape[0])
        text = f"{self.parts[source][lane // lanes]}[{lane % lanes}]"
        self.define(node, [f"{text} & 1" if source in self.masks else text])

    def shuffle(self, node: UOp) -> None:
        self.check_type(node)
        first = node.src[0]
        size = self.masks.get(first, 0)
        elem = self.element(first)
        have = self.lanes(elem, first.shape[0])
        flat: list[tuple[str, int]] = []
        for source in node.src:
            lanes = self.lanes(elem, source.shape[0])
            parts = self.mask(source, size, lanes) if size else list(self.parts[source])
            flat += [(part, k) for part in parts for k in range(lanes)]
        picks = [flat[k] for k in node.payload(payload.Shuffle).lanes]
        lanes = self.lanes(elem, len(picks))
        kind = self.prelude.type(elem, lanes)
        same = all(self.lanes(elem, s.shape[0]) == have for s in node.src)
        result = []
        for at in range(0, len(picks), lanes):
            group = picks[at : at + lanes]
            parts = list(dict.fromkeys(part for part, _ in group))
            if same and len(parts) <= 2:
                order = ", ".join(str(have * parts.index(part) + k) for part, k in group)
                result.append(f"__builtin_shufflevector({parts[0]}, {parts[-1]}, {order})")
            else:
                result.append(f"({kind}){{{', '.join(f'({part})[{k}]' for part, k in group)}}}")
        self.define(node, result, size)

    # ---- element-wise ----------------------------------------------------------------------------

    def elementwise(self, node: UOp) -> None:
        if node.op is Ops.CAST:
            self.cast(node)
        elif node.op is Ops.BITCAST:
            self.bitcast(node)
        elif (node.src[1] if node.op is Ops.WHERE else node.src[0]).dtype is dtypes.bool_:
            self.bools(node)
        else:
            self.numbers(node)

    def bools(self, node: UOp) -> None:
        form, n = BOOLS[node.op], node.shape[0] if node.shape else 0
        sources = (*node.src[1:], node.src[0]) if node.op is Ops.WHERE else node.src
        size = self.masks[sources[0]] if n else 0
        rows = [
            self.mask(s, size, self.lanes(f"i{8 * size}", n)) if n else list(self.parts[s]) for s in sources
        ]
        form = form.replace("!", "~" if n else "!")
        results = []
        for operands in zip(*rows, strict=True):
            table = dict(zip("xyz", operands, strict=False))
            results.append(re.sub("[xyz]", lambda m: table[m[0]], form))  # noqa: B023 - called here
        self.define(node, results, size)

    def numbers(self, node: UOp) -> None:
        op, n = node.op, node.shape[0] if node.shape else 0
        elem = SCALARS[node.src[-1].dtype.name]
        lanes = self.lanes(elem, n) if n else 0
        if op is Ops.WHERE:
            if n:
                choose = self.prelude.function("sel", elem, lanes)
                masks = self.mask(node.src[0], width(elem), lanes)
                picks = zip(masks, *(self.parts[s] for s in node.src[1:]), strict=True)
                self.define(node, [f"{choose}({m}, {x}, {y})" for m, x, y in picks])
            else:
                c, x, y = (self.parts[s][0] for s in node.src)
                self.define(node, [f"{c} ? {x} : {y}"])
            return
        rows: list[tuple[str, ...]] = list(zip(*(self.parts[s] for s in node.src), strict=True))
        half = elem == "f16"
        if half and op is Ops.NEG:
            self.define(node, [f"{row[0]} ^ (f16)0x8000" for row in rows])
            return
        if half:
            widen = self.prelude.function("widen", elem, lanes)
            rows = [tuple(f"{widen}({x})" for x in row) for row in rows]
            elem = "f32"
        results = [self.number(node, elem, lanes, row) for row in rows]
        if op in COMPARE:
            kind = self.prelude.type(integer(elem), lanes)
            self.define(node, [f"({kind})({r})" for r in results] if n else results, width(elem) if n else 0)
            return
        if half:
            narrow = self.prelude.function("narrow", "f32", lanes)
            results = [f"{narrow}({r})" for r in results]
        self.define(node, results)

    def number(self, node: UOp, elem: str, lanes: int, row: tuple[str, ...]) -> str:
        """Return an expression for one part of a numeric operation."""
        op = node.op
        if op in _INFIX:
            return f"{row[0]} {_INFIX[op]} {row[1]}"
        match op:
            case Ops.NEG:
                return f"-{row[0]}"
            case Ops.NOT:
                return f"~{row[0]}"
            case Ops.RECIP:
                one = "1.0f" if elem == "f32" else "1.0"
                return f"{one} / {row[0]}"
            case Ops.MULACC if elem[0] == "f" and node.dtype in self.able.fma:
                return f"{self.prelude.function('fma', elem, lanes)}({', '.join(row)})"
            case Ops.MULACC:
                return f"{row[0]} * {row[1]} + {row[2]}"
        constant = _constant(node.src[1]) if len(node.src) == 2 else None
        if elem[0] != "f":
            if op in (Ops.MAX, Ops.MIN):
                kind = "maxc" if op is Ops.MAX else "minc"
                return f"{self.prelude.function(kind, elem, lanes)}({row[0]}, {row[1]})"
            if op in (Ops.IDIV, Ops.IMOD) and constant is not None and constant.value not in (0, -1):
                return f"{row[0]} {'/' if op is Ops.IDIV else '%'} {row[1]}"
            if op in (Ops.SHL, Ops.SHR) and constant is not None and 0 <= constant.value < 8 * width(elem):
                sign = "<<" if op is Ops.SHL else ">>"
                return f"{row[0]} {sign} {row[1]}"
        elif op in (Ops.MAX, Ops.MIN) and constant is not None:
            number, loser = float(constant.value), 1.0 if op is Ops.MAX else -1.0
            # one comparison is enough beside a number that is no NaN and no zero that loses against the other
            # zero
            if not math.isnan(number) and (number != 0 or math.copysign(1.0, number) == loser):
                kind = "maxc" if op is Ops.MAX else "minc"
                return f"{self.prelude.function(kind, elem, lanes)}({row[0]}, {row[1]})"
        return f"{self.prelude.function(_CALLS[op], elem, lanes)}({', '.join(row)})"

    def cast(self, node: UOp) -> None:
        source, n = node.src[0], node.shape[0] if node.shape else 0
        a, b = SCALARS[source.dtype.name], SCALARS[node.dtype.name]
        if source.dtype is node.dtype:
            self.parts[node] = self.parts[source]
            if source in self.masks:
                self.masks[node] = self.masks[source]
            return
        if source.dtype is dtypes.bool_:
            one = literal(1, node.dtype, 0x3C00)
            if n:
                masks = self.mask(source, width(b), self.lanes(b, n))
                one = (
                    one
                    if b[0] != "f"
                    else {"f16": "(i16)0x3c00", "f32": "0x3f800000", "f64": "0x3ff0000000000000L"}[b]
                )
                kind = self.prelude.type(b, self.lanes(b, n))
                self.define(node, [f"({kind})({m} & ({integer(b)}){one})" for m in masks])
            else:
                self.define(node, [f"{self.parts[source][0]} ? {one} : 0"])
            return
        if node.dtype is dtypes.bool_:
            lanes, texts = self.lanes(a, n) if n else 0, list(self.parts[source])
            if a == "f16":
                texts, a = [self.one_conversion(t, a, "f32", lanes) for t in texts], "f32"
            kind = f"({self.prelude.type(integer(a), lanes)})" if n else ""
            self.define(node, [f"{kind}({t} != 0)" for t in texts], width(a) if n else 0)
            return
        self.define(node, self.conversion(source, a, b, n))

    def conversion(self, source: UOp, a: str, b: str, n: int) -> list[str]:
        """Return the parts of a number converted to another element type."""
        steps = [a, b]
        if "f16" in steps and not {a, b} <= {"f16", "f32"} and (a, b) != ("f64", "f16"):
            steps = [a, "f32", b]  # exact one way or the other: f16 to f32, or integers that f16 can hold
        texts = list(self.parts[source])
        have = self.lanes(a, n) if n else 0
        for x, y in pairwise(steps):
            want = self.lanes(y, n) if n else 0
            step = min(have, want)
            texts = self.regroup(tuple(texts), have, step) if n else texts
            texts = [self.one_conversion(t, x, y, step) for t in texts]
            texts = self.regroup(tuple(texts), step, want) if n else texts
            have = want
        return texts

    def one_conversion(self, text: str, a: str, b: str, lanes: int) -> str:
        function = self.prelude.function
        if a == "f16":
            return f"{function('widen', a, lanes)}({text})"
        if (a, b) == ("f64", "f16"):
            return f"{function('narrow', 'f32', lanes)}({function('odd', a, lanes)}({text}))"
        if b == "f16":
            return f"{function('narrow', a, lanes)}({text})"
        if a[0] == "f" and b[0] != "f":
            return f"{function('to', a, lanes, b)}({text})"
        if lanes:
            return f"__builtin_convertvector({text}, {self.prelude.type(b, lanes)})"
        return f"({b}){text}"

    def bitcast(self, node: UOp) -> None:
        source, n = node.src[0], node.shape[0] if node.shape else 0
        a, b = SCALARS[source.dtype.name], SCALARS[node.dtype.name]
        if node.dtype is dtypes.bool_ or source.dtype is dtypes.bool_:
            self.cast(node)
        elif not n and (a[0] == "f") != (b[0] == "f") and "f16" not in (a, b):
            self.define(node, [f"((union {{ {a} x; {b} y; }}){{{self.parts[source][0]}}}).y"])
        elif not n:
            self.define(node, [f"({b}){self.parts[source][0]}"])
        else:
            self.define(node, self.convert(source, a, b, "({t})({})"))

    # ---- memory ----------------------------------------------------------------------------------

    def param(self, node: UOp) -> None:
        slot = node.payload(payload.Param).slot
        elem = SCALARS[node.dtype.name]
        self.head.append(f"  {elem} *const p{slot} = ({elem} *)buf[{slot}];")
        self.parts[node] = (f"p{slot}",)

    def variable(self, node: UOp) -> None:
        name = node.payload(payload.Variable).name
        number = next((i for i, s in enumerate(self.signature.scalars) if s.name == name), None)
        if number is None:
            raise RenderError(f"variable {name} is not among the scalars of {self.signature.name}")
        kind = SCALARS[node.dtype.name]
        self.head.append(f"  const {kind} n{number} = ({kind})scalar[{number}];")
        self.parts[node] = (f"n{number}",)

    def buffer(self, node: UOp) -> None:
        arg = node.payload(payload.Storage)
        elem = SCALARS[node.dtype.name]
        if arg.space == "local":
            self.head.append(f"  {elem} m{arg.id}[{arg.size}] __attribute__((aligned(64)));")
            self.parts[node] = (f"m{arg.id}",)
            return
        if arg.space != "register":
            raise RenderError(f"the C renderer has no address space {arg.space!r}")
        if arg.lanes and node.dtype is dtypes.bool_:
            elem = "i8"
        lanes = self.lanes(elem, arg.lanes) if arg.lanes else 0
        kind = self.prelude.type(elem, lanes)
        per = arg.lanes // lanes if lanes else 1
        names = [
            f"r{arg.id}_{slot}" + (f"_{k}" if per > 1 else "") for slot in range(arg.size) for k in range(per)
        ]
        self.head.append(f"  {kind} {', '.join(names)};")
        self.parts[node] = tuple(names)

    def register(self, node: UOp) -> tuple[str, ...]:
        """Return the variables of the register slot that a LOAD or STORE names."""
        base = node.src[0].base
        arg = base.payload(payload.Storage)
        names, slot = self.parts[base], node.src[1]
        if not slot.is_const or not 0 <= slot.value < arg.size:
            raise RenderError(f"register slot {slot!r} of {arg.size} is not a constant in range")
        per = len(names) // arg.size
        return names[int(slot.value) * per :][:per]

    def one(self, node: UOp, elem: str) -> str:
        """Return an lvalue for the element that a scalar LOAD or STORE touches."""
        align = node.payload(payload.Access).align
        if align < width(elem):
            return f"*({self.prelude.type(elem, 0, align)} *)({self.at(node, 0, 0)})"
        return f"{self.parts[node.src[0].base][0]}[{self.parts[node.src[1]][0]}]"

    def at(self, node: UOp, lanes: int, part: int) -> str:
        """Return a pointer to part number `part` of what a LOAD or STORE touches."""
        index = self.parts[node.src[1]][0]
        offset = f" + {part * lanes}" if part else ""
        return f"{self.parts[node.src[0].base][0]} + {index}{offset}"

    def wide(self, node: UOp, elem: str, lanes: int, part: int) -> str:
        """Return an lvalue for that part as a vector."""
        align = node.payload(payload.Access).align
        if part:
            align = min(align, part * lanes * width(elem) & -(part * lanes * width(elem)))
        kind = self.prelude.type(elem, lanes, max(align, 1))
        return f"*({kind} *)({self.at(node, lanes, part)})"

    def load(self, node: UOp) -> None:
        self.check_type(node)
        base, n = node.src[0].base, node.shape[0] if node.shape else 0
        flag = node.dtype is dtypes.bool_
        if _is_register(base):
            self.define(node, list(self.register(node)), 1 if flag and n else 0)
            return
        elem, gated = SCALARS[node.dtype.name], len(node.src) > 2
        if not n:
            text = self.one(node, elem) + (" != 0" if flag else "")
            if gated:
                gate, other = (self.parts[s][0] for s in node.src[2:])
                text = f"{gate} ? {text} : {other}"
            self.define(node, [text])
            return
        lanes = self.lanes(elem, n)
        steps = range(n // lanes)
        if not gated:
            texts = [self.wide(node, elem, lanes, k) for k in steps]
        else:
            masked = self.prelude.function("load", elem, lanes)
            gates = self.mask(node.src[2], width(elem), lanes)
            others: list[str] | tuple[str, ...] = self.parts[node.src[3]]
            if flag:
                others = [f"(u8x{lanes}){m}" for m in self.mask(node.src[3], 1, lanes)]
            texts = [
                f"{masked}({self.pointer(node, elem, lanes, k)}, {gates[k]}, {others[k]})" for k in steps
            ]
        if flag:
            kind = self.prelude.type("i8", lanes)
            texts = [f"({kind})({t} != 0)" for t in texts]
        self.define(node, texts, 1 if flag else 0)

    def pointer(self, node: UOp, elem: str, lanes: int, part: int) -> str:
        return f"({elem} *)({self.at(node, lanes, part)})"

    def store(self, node: UOp) -> None:
        base, value = node.src[0].base, node.src[2]
        n, flag = value.shape[0] if value.shape else 0, value.dtype is dtypes.bool_
        elem = SCALARS[value.dtype.name]
        parts: list[str] | tuple[str, ...] = self.parts[value]
        if n and flag:
            parts = self.mask(value, 1, self.lanes("i8", n))
        if _is_register(base):
            pairs = zip(self.register(node), parts, strict=True)
            self.lines += [f"{self.indent}{name} = {part};" for name, part in pairs]
            return
        gate = node.src[3] if len(node.src) > 3 else None
        if not n:
            guard = f"if ({self.parts[gate][0]}) " if gate is not None else ""
            self.lines.append(f"{self.indent}{guard}{self.one(node, elem)} = {parts[0]};")
            return
        lanes = self.lanes(elem, n)
        kind = self.prelude.type(elem, lanes)
        if flag:
            parts = [f"({kind})({p} & (i8)1)" for p in parts]
        if gate is None:
            self.lines += [
                f"{self.indent}{self.wide(node, elem, lanes, k)} = {p};" for k, p in enumerate(parts)
            ]
            return
        masked, gates = self.prelude.function("store", elem, lanes), self.mask(gate, width(elem), lanes)
        self.lines += [
            f"{self.indent}{masked}({self.pointer(node, elem, lanes, k)}, {gates[k]}, {p});"
            for k, p in enumerate(parts)
        ]

    # ---- order -----------------------------------------------------------------------------------

    def range(self, node: UOp) -> None:
        kind, name = SCALARS[node.dtype.name], f"k{self.loops}"
        self.loops += 1
        first, last = "0", self.parts[node.src[0]][0]
        if node.payload(payload.Range).kind == "thread":
            first, last = f"({kind})begin", f"({kind})end"
        self.lines.append(f"{self.indent}for ({kind} {name} = {first}; {name} < {last}; {name}++) {{")
        self.indent += "  "
        self.parts[node] = (name,)

    def end(self, node: UOp) -> None:
        self.indent = self.indent[:-2]
        self.lines.append(f"{self.indent}}}")

    def after(self, node: UOp) -> None:
        """An alias of its first source: the order is that of the list."""
        source = node.src[0]
        self.parts[node] = self.parts.get(source, ())
        if source in self.masks:
            self.masks[node] = self.masks[source]

    def nothing(self, node: UOp) -> None:
        """A group is one thread, so that a barrier has nothing to wait for."""


def _constant(node: UOp) -> payload.Const | None:
    """Return the number that this node is in every lane, or None."""
    if node.op is Ops.STACK and len(set(node.src)) == 1:
        node = node.src[0]
    return node.payload(payload.Const) if node.is_const else None


def _is_register(base: UOp) -> bool:
    return base.op is Ops.BUFFER and base.payload(payload.Storage).space == "register"


_HANDLERS: Final = {
    Ops.CONST: Kernel.const, Ops.STACK: Kernel.stack, Ops.INDEX: Kernel.index, Ops.SHUFFLE: Kernel.shuffle,
    Ops.PARAM: Kernel.param, Ops.VARIABLE: Kernel.variable, Ops.BUFFER: Kernel.buffer, Ops.LOAD: Kernel.load,
    Ops.STORE: Kernel.store, Ops.RANGE: Kernel.range, Ops.END: Kernel.end, Ops.AFTER: Kernel.after,
    Ops.BARRIER: Kernel.nothing,
}  # fmt: skip
