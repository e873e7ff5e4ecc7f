"""Patterns that read like the expressions they match, rules, and rule tables compiled to Python.

In: `rule(x + 0, lambda x: x)` with `x = var("x")`. Out: for each op, a function that tries the rules of a
table whose root has that op, generated as straight Python on first use. Guaranteed: a rule's function has no
parameter that its pattern does not bind (checked where the table is built); rules are tried in the order of
the table; both operand orders of a commutative op are tried.

A number in a pattern matches a constant of the same bits in whatever dtype it stands (0.0 does not match
-0.0), also one that is repeated over lanes or expanded to a shape.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Literal, final

from tiny_core import dtypes
from tiny_core.dtypes import DType, Number
from tiny_core.errors import RewriteError
from tiny_core.ir.ops import BINARY, COMMUTATIVE, COMPARE, CONVERT, TERNARY, UNARY, Ops
from tiny_core.ir.uop import UOp

Domain = Literal["index", "wrap", "ieee", "any"]
"""What arithmetic a rule is true of: unbounded integers, two's complement (and bool), floats bit for bit, or
all."""
Result = tuple[UOp, "Rule"]
Matcher = Callable[[UOp, object], "Result | None"]

_KINDS: dict[Domain, frozenset[str]] = {
    "index": frozenset({"weakint"}),
    "wrap": frozenset({"int", "uint", "bool"}),
    "ieee": frozenset({"float", "weakfloat"}),
}
_REPEATED = frozenset({Ops.STACK, Ops.EXPAND, Ops.RESHAPE})
CONSTANT = frozenset({Ops.CONST}) | _REPEATED
"""Ops a constant pattern can match."""
_ARITY = {
    **dict.fromkeys(UNARY | CONVERT, 1),
    **dict.fromkeys(BINARY, 2),
    **dict.fromkeys(TERNARY, 3),
}


def scalar(node: UOp) -> UOp | None:
    """Return the CONST that every element of `node` equals, looking through repetition over lanes and shapes,
    or None."""
    while node.op is not Ops.CONST:
        if node.op not in _REPEATED:
            return None
        if node.op is Ops.STACK and any(s is not node.src[0] for s in node.src):
            return None
        node = node.src[0]
    return node


def like(node: UOp, value: Number, dtype: DType | None = None) -> UOp:
    """Return a constant repeated as `node` (one that `scalar` accepts) is."""
    if node.op is Ops.CONST:
        return UOp.const(value, dtype or node.dtype)
    inner = like(node.src[0], value, dtype)
    return UOp(node.op, inner.dtype, (inner,) * len(node.src), node.arg)


@lru_cache(maxsize=1024)
def _bits(value: str, dtype: DType) -> int:
    # by text, because 0.0 and -0.0 (and 1 and True) are one key
    if value in ("True", "False"):
        return dtypes.to_bits(value == "True", dtype)
    try:
        return dtypes.to_bits(int(value), dtype)
    except ValueError:
        return dtypes.to_bits(float(value), dtype)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """What a node must look like.

    Args:
        ops: its op is one of these; None for any.
        src: its sources match these, one by one; None for any sources.
        name: the name under which the rule's function gets the node; a second node of one name must be the
            same node.
        value: it is a constant with the bits of this number.
        constants: all its sources are constants.
        text: how it is printed.
    """

    ops: frozenset[Ops] | None = None
    src: tuple[Pattern, ...] | None = None
    name: str = ""
    value: Number | None = None
    constants: bool = False
    text: str = ""

    def named(self, name: str) -> Pattern:
        """Return this pattern, binding the node itself too."""
        return Pattern(self.ops, self.src, name, self.value, self.constants, f"({self}).{name}")

    def _apply(self, op: Ops, symbol: str, *others: Operand) -> Pattern:
        src = (self, *map(_pattern, others))
        text = f"{symbol}{src[0]}" if len(src) == 1 else f"({src[0]} {symbol} {src[1]})"
        return Pattern(frozenset({op}), src, text=text)

    def _swapped(self, op: Ops, symbol: str, other: Operand) -> Pattern:
        return _pattern(other)._apply(op, symbol, self)

    def __neg__(self) -> Pattern:
        return self._apply(Ops.NEG, "-")

    def __invert__(self) -> Pattern:
        return self._apply(Ops.NOT, "~")

    def __add__(self, other: Operand) -> Pattern:
        return self._apply(Ops.ADD, "+", other)

    def __radd__(self, other: Operand) -> Pattern:
        return self._swapped(Ops.ADD, "+", other)

    def __sub__(self, other: Operand) -> Pattern:
        return self._apply(Ops.SUB, "-", other)

    def __rsub__(self, other: Operand) -> Pattern:
        return self._swapped(Ops.SUB, "-", other)

    def __mul__(self, other: Operand) -> Pattern:
        return self._apply(Ops.MUL, "*", other)

    def __rmul__(self, other: Operand) -> Pattern:
        return self._swapped(Ops.MUL, "*", other)

    def __truediv__(self, other: Operand) -> Pattern:
        return self._apply(Ops.DIV, "/", other)

    def __floordiv__(self, other: Operand) -> Pattern:
        return self._apply(Ops.FLOORDIV, "//", other)

    def __mod__(self, other: Operand) -> Pattern:
        return self._apply(Ops.FLOORMOD, "%", other)

    def __and__(self, other: Operand) -> Pattern:
        return self._apply(Ops.AND, "&", other)

    def __or__(self, other: Operand) -> Pattern:
        return self._apply(Ops.OR, "|", other)

    def __xor__(self, other: Operand) -> Pattern:
        return self._apply(Ops.XOR, "^", other)

    def __lshift__(self, other: Operand) -> Pattern:
        return self._apply(Ops.SHL, "<<", other)

    def __rshift__(self, other: Operand) -> Pattern:
        return self._apply(Ops.SHR, ">>", other)

    def __lt__(self, other: Operand) -> Pattern:
        return self._apply(Ops.CMPLT, "<", other)

    def __le__(self, other: Operand) -> Pattern:
        return self._apply(Ops.CMPLE, "<=", other)

    def eq(self, other: Operand) -> Pattern:
        return self._apply(Ops.CMPEQ, "==", other)

    def ne(self, other: Operand) -> Pattern:
        return self._apply(Ops.CMPNE, "!=", other)

    def maximum(self, other: Operand) -> Pattern:
        return self._apply(Ops.MAX, "max", other)

    def minimum(self, other: Operand) -> Pattern:
        return self._apply(Ops.MIN, "min", other)

    def where(self, x: Operand, y: Operand) -> Pattern:
        return op(Ops.WHERE, self, x, y)

    def cast(self) -> Pattern:
        """A cast of this to any dtype."""
        return op(Ops.CAST, self)

    def __str__(self) -> str:
        return self.text or self.name or (repr(self.value) if self.value is not None else "_")


Operand = Pattern | bool | int | float


def _pattern(x: Operand) -> Pattern:
    return x if isinstance(x, Pattern) else Pattern(CONSTANT, value=x)


def var(name: str) -> Pattern:
    """Any node, bound to `name`."""
    return Pattern(name=name)


def const(name: str) -> Pattern:
    """A constant, bound to `name` as it stands (see `scalar` for its number)."""
    return Pattern(CONSTANT, name=name)


def op(ops: Ops | Iterable[Ops], *src: Operand, name: str = "", constants: bool = False) -> Pattern:
    """A node of one of `ops` over `src`; over any sources if none are given, over constants only if
    `constants`."""
    kinds = frozenset({ops} if isinstance(ops, Ops) else ops)
    parts = tuple(map(_pattern, src)) or None
    label = ops.value if isinstance(ops, Ops) else "op"
    text = f"{label}({', '.join(map(str, parts or ()))})"
    return Pattern(kinds, parts, name, None, constants, text)


# ---- rules ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A pattern and what becomes of it.

    Args:
        pattern: what the rule applies to.
        function: from the nodes that the pattern binds (and `ctx`) to the replacement, or None to decline.
        parameters: names of its parameters.
        name: as printed in traces and errors.
        location: file and line.
        domain: what arithmetic it is true of.
    """

    pattern: Pattern
    function: Callable[..., UOp | None]
    parameters: tuple[str, ...]
    name: str
    location: str
    domain: Domain = "any"


def rule(pattern: Pattern, function: Callable[..., UOp | None], name: str = "") -> Rule:
    """Return a rule; its name is by default its pattern.

    Raises:
        RewriteError: the function has a parameter that the pattern does not bind.
    """
    code = function.__code__ if inspect.isfunction(function) else None
    location = f"{code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno}" if code else "?"
    parameters = tuple(inspect.signature(function).parameters)
    known = set(_names(pattern)) | {"ctx"}
    for parameter in parameters:
        if parameter not in known:
            raise RewriteError(
                f"rule {name or str(pattern)} at {location} wants {parameter!r}",
                f"its pattern binds {', '.join(sorted(known - {'ctx'})) or 'nothing'}",
            )
    return Rule(pattern, function, parameters, name or str(pattern), location)


def _names(pattern: Pattern) -> list[str]:
    inner = [n for s in pattern.src or () for n in _names(s)]
    return [pattern.name, *inner] if pattern.name else inner


@final
@dataclass(slots=True, eq=False)
class Rules:
    """A table of rules; `+` puts one after another.

    Args:
        name: of the table.
        rules: tried in order.
        domain: of all its rules (of each rule that has none of its own).
        context_free: results depend on the node alone, so they may be remembered; then no function takes
            `ctx`.

    Raises:
        RewriteError: a context-free table has a rule that takes `ctx`.
    """

    name: str
    rules: tuple[Rule, ...]
    domain: Domain = "any"
    context_free: bool = True
    memo: dict[UOp, UOp] = field(default_factory=dict, repr=False)
    _matchers: dict[Ops, Matcher | None] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.domain != "any":
            self.rules = tuple(
                Rule(r.pattern, r.function, r.parameters, r.name, r.location, self.domain)
                if r.domain == "any"
                else r
                for r in self.rules
            )
        for r in self.rules:
            if self.context_free and "ctx" in r.parameters:
                raise RewriteError(f"rule {r.name} at {r.location} takes ctx in context-free {self.name}")

    def __add__(self, other: Rules) -> Rules:
        return Rules(
            f"{self.name} + {other.name}",
            self.rules + other.rules,
            "any",
            self.context_free and other.context_free,
        )

    def matcher(self, op: Ops) -> Matcher | None:
        """Return the function that applies the first rule that fits a node of `op`; None where no rule has
        that root."""
        try:
            return self._matchers[op]
        except KeyError:
            fitting = [r for r in self.rules if r.pattern.ops is None or op in r.pattern.ops]
            made = self._matchers[op] = compile_matcher(op, fitting) if fitting else None
            return made


# ---- compilation ---------------------------------------------------------------------------------


class _Writer:
    """Source of one matcher, and the objects it refers to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.space: dict[str, object] = {"scalar": scalar, "bits": _bits}

    def put(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def ref(self, value: object) -> str:
        for name, known in self.space.items():
            if known is value:
                return name
        name = f"k{len(self.space)}"
        self.space[name] = value
        return name


def compile_matcher(op: Ops, rules: list[Rule]) -> Matcher:
    """Return a function (node, ctx) -> (replacement, rule) or None that tries `rules` on nodes of `op`."""
    w = _Writer()
    w.put(0, "def match(n, ctx):")
    w.put(1, "src = n.src")
    fixed = _ARITY.get(op, 0)
    width = fixed or max((len(r.pattern.src) for r in rules if r.pattern.src is not None), default=0)
    for i in range(width):
        w.put(1, f"s{i} = src[{i}]" if fixed else f"s{i} = src[{i}] if len(src) > {i} else None")
        w.put(1, f"o{i} = s{i}.op" if fixed else f"o{i} = s{i} and s{i}.op")
        w.put(1, f"v{i} = scalar(s{i}) if o{i} in {w.ref(CONSTANT)} else None")
    w.put(1, f"kind = {'s0' if op in COMPARE else 'n'}.dtype.kind")
    domain: Domain = "any"
    for r in rules:
        if r.domain not in (domain, "any"):
            w.put(1, f"if kind in {w.ref(_KINDS[r.domain])}:")
        domain = r.domain
        for form in _orders(r.pattern, op):
            _emit_rule(w, 1 if domain == "any" else 2, r, form, fixed)
    w.put(1, "return None")
    source = "\n".join(w.lines)
    exec(compile(source, f"<rules for {op.value}>", "exec"), w.space)
    made = w.space["match"]
    assert callable(made)
    return made


def _orders(pattern: Pattern, op: Ops) -> list[Pattern]:
    """The pattern with the operands of commutative ops in each order that can make a difference."""
    if pattern.src is None:
        return [pattern]
    inner = [_orders(s, next(iter(s.ops)) if s.ops and len(s.ops) == 1 else Ops.SINK) for s in pattern.src]
    forms = []
    for src in product(*inner):
        forms.append(src)
        if op in COMMUTATIVE and len(src) == 2 and not _alike(*src):
            forms.append((src[1], src[0]))
    return [Pattern(pattern.ops, src, pattern.name, pattern.value, pattern.constants) for src in forms]


def _alike(x: Pattern, y: Pattern) -> bool:
    same = x.ops == y.ops and x.src is None and y.src is None and x.value is None and y.value is None
    return same and x.name == y.name


def _emit_rule(w: _Writer, depth: int, r: Rule, pattern: Pattern, fixed: int) -> None:
    """Write the test of one rule as nested ifs: the ops of all sources first, then source by source."""
    bound = {pattern.name: "n"} if pattern.name else {}

    def test(*conditions: str) -> None:
        nonlocal depth
        if conditions:
            w.put(depth, f"if {' and '.join(conditions)}:")
            depth += 1

    todo: list[tuple[Pattern, str, str]] = []  # pattern, its node, its constant
    if pattern.constants:
        known = [f"v{i} is not None" for i in range(fixed)]
        test(*(known or ["src and all(scalar(s) is not None for s in src)"]))
    if pattern.src is not None:
        if len(pattern.src) != fixed:
            test(f"len(src) == {len(pattern.src)}")
        test(*_first_tests(w, [(s, f"o{i}", f"v{i}") for i, s in enumerate(pattern.src)]))
        todo = [(s, f"s{i}", f"v{i}") for i, s in enumerate(pattern.src)]
    while todo:
        part, at, constant = todo.pop(0)
        if part.name in bound:
            test(f"{at} is {bound[part.name]}")
        elif part.name:
            bound[part.name] = at
        if part.value is not None:
            test(f"{constant}.arg.bits == {_bits_of(part.value, constant)}")
        if part.src is None:
            continue
        arity = {_ARITY.get(o, 0) for o in part.ops or ()}
        if arity != {len(part.src)}:
            test(f"len({at}.src) == {len(part.src)}")
        inner = [f"{at}_{i}" for i in range(len(part.src))]
        w.put(depth, f"{', '.join(inner)}, = {at}.src")
        for s, x in zip(part.src, inner, strict=True):
            if s.ops == CONSTANT:
                w.put(depth, f"v{x} = scalar({x})")
        test(*_first_tests(w, [(s, f"{x}.op", f"v{x}") for s, x in zip(part.src, inner, strict=True)]))
        todo += [(s, x, f"v{x}") for s, x in zip(part.src, inner, strict=True)]
    arguments = ", ".join("ctx" if name == "ctx" else bound[name] for name in r.parameters)
    w.put(depth, f"r = {w.ref(r.function)}({arguments})")
    w.put(depth, "if r is not None and r is not n:")
    w.put(depth + 1, f"return r, {w.ref(r)}")


def _first_tests(w: _Writer, parts: list[tuple[Pattern, str, str]]) -> list[str]:
    """Conditions on the ops of sources: (pattern, expression of the op, expression of the constant)."""
    return [
        f"{constant} is not None" if part.ops == CONSTANT and part.src is None else _op_test(w, part, op)
        for part, op, constant in parts
        if part.ops is not None
    ]


def _bits_of(value: Number, constant: str) -> str:
    if repr(value) in ("0", "0.0", "False"):
        return "0"  # in every dtype
    return f"bits({str(value)!r}, {constant}.dtype)"


def _op_test(w: _Writer, pattern: Pattern, at: str) -> str:
    assert pattern.ops is not None
    if len(pattern.ops) == 1:
        return f"{at} is {w.ref(next(iter(pattern.ops)))}"
    return f"{at} in {w.ref(pattern.ops)}"
