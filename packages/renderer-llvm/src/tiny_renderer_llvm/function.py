"""A function while it is written: lines, names, blocks, and the values of nodes.

Values are operand texts without their types. What is written inside a loop is forgotten at its end where it
need not dominate what follows (`scopes`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tiny_core.api import DType, Ops, Signature, UOp, payload
from tiny_renderer_llvm.slots import Loop, Slot, Traffic
from tiny_renderer_llvm.types import constant, element, number, same, value_type, vector


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the functions of a target differ.

    Args:
        triple: LLVM's name of the target.
        kind: "host" programs run thread iterations, "grid" programs work-items.
        half_math: whether f16 arithmetic is native; else it goes through f32, which rounds alike.
        half_from_double: whether f64 to f16 is one conversion; else it goes through f32 rounded to odd.
        fma: dtypes whose MULACC is an instruction.
        spaces: LLVM's address space number of each space of ours that is memory.
        stream: bytes of an array from which writing it goes past the caches; 0 if it never does.
    """

    triple: str
    kind: Literal["host", "grid"]
    half_math: bool
    half_from_double: bool
    fma: frozenset[DType]
    spaces: dict[str, int]
    stream: int = 0

    def pointer(self, space: str) -> str:
        """Return the type of pointers into `space`."""
        number = self.spaces[space]
        return f"ptr addrspace({number})" if number else "ptr"


@dataclass(slots=True)
class OpenLoop:
    """A loop whose END has not come: where its holes in the text are, and what to restore."""

    node: UOp
    info: Loop
    label: str
    counter: str
    kind: str
    start: str
    stop: str
    guard: str
    before: str
    counter_line: int
    phis: list[tuple[Slot, int, str]]
    entry: dict[Slot, str]


@dataclass(slots=True)
class Function:
    """The text of a kernel so far.

    Args:
        signature: its calling convention.
        dialect: its target.
        scalars: position of each launch scalar.
        traffic: what register slots LOADs and STOREs touch and RANGEs carry.
        bounds: least and greatest value of index arithmetic.
        exact: nodes of index arithmetic that do not wrap; host programs have them in 64 bits.
    """

    signature: Signature
    dialect: Dialect
    scalars: dict[str, int]
    traffic: Traffic
    bounds: dict[UOp, tuple[int, int]]
    exact: frozenset[UOp]
    lines: list[str] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)
    declarations: dict[str, None] = field(default_factory=dict)
    values: dict[UOp, str] = field(default_factory=dict)
    wides: dict[UOp, str] = field(default_factory=dict)
    pointers: dict[UOp, str] = field(default_factory=dict)
    slots: dict[Slot, str] = field(default_factory=dict)
    scopes: list[dict[tuple[object, ...], str]] = field(default_factory=lambda: [{}])
    open: list[OpenLoop] = field(default_factory=list)
    block: str = "entry"
    count: int = 0
    streamed: bool = False

    def emit(self, text: str) -> str:
        """Write an instruction and return the name of its result."""
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def effect(self, text: str) -> None:
        """Write an instruction without a result."""
        self.lines.append("  " + text)

    def fresh(self, prefix: str) -> str:
        """Return a new name for a block or value, without its sigil."""
        self.count += 1
        return f"{prefix}{self.count}"

    def begin(self, label: str) -> None:
        """Start the block `label`."""
        self.lines.append(f"{label}:")
        self.block = label

    def hole(self) -> int:
        """Leave a line to be filled later, and return its number."""
        self.lines.append("")
        return len(self.lines) - 1

    def value(self, node: UOp) -> str:
        """Return the operand text of a node that was written before."""
        known = self.values.get(node)
        if known is not None:
            return known
        if node.op is Ops.CONST:
            const = node.payload(payload.Const)
            text = self.values[node] = number(const.dtype, const.bits)
            return text
        assert node in self.exact or node in self.wides, f"{node.op.value} is used before it is listed"
        wide = self.wide(node)
        return wide if node.dtype.bits == 64 else self.once(("narrow", node), f"trunc i64 {wide} to i32")

    def wide(self, node: UOp) -> str:
        """Return a scalar integer in 64 bits."""
        if node.op is Ops.CONST:
            return str(int(node.value))
        known = (self.values if node.dtype.bits == 64 else self.wides).get(node)
        if known is not None:
            return known
        if node in self.exact and self.dialect.kind == "host":
            return self.once(
                ("wide", node), f"add nsw i64 {self.wide(node.src[0])}, {self.wide(node.src[1])}"
            )
        low = self.bounds.get(node, (-1, 0))[0]
        how = "zext" if node.dtype.is_unsigned else "zext nneg" if low >= 0 else "sext"
        return self.once(("wide", node), f"{how} {element(node.dtype)} {self.value(node)} to i64")

    def set_wide(self, node: UOp, text: str) -> None:
        """Set the value of a node whose 64 bits are `text`."""
        (self.values if node.dtype.bits == 64 else self.wides)[node] = text

    def once(self, key: tuple[object, ...], text: str) -> str:
        """Write an instruction, unless its result is known under `key` already; return its result."""
        known = self.remember(key)
        if known is None:
            known = self.scopes[-1][key] = self.emit(text)
        return known

    def typed(self, node: UOp) -> str:
        """Return the operand with its type, as calls and stores want it."""
        return f"{value_type(node)} {self.value(node)}"

    def remember(self, key: tuple[object, ...]) -> str | None:
        """Return the value written before under `key`, if it dominates this point."""
        for scope in reversed(self.scopes):
            if key in scope:
                return scope[key]
        return None

    def splat(self, text: str, of: str, lanes: int) -> str:
        """Write a scalar value into each of `lanes` lanes."""
        if not lanes:
            return text
        t = vector(of, lanes)
        one = self.emit(f"insertelement {t} poison, {of} {text}, i64 0")
        return self.emit(f"shufflevector {t} {one}, {t} poison, {vector('i32', lanes)} zeroinitializer")

    def filled(self, node: UOp, value: int | str) -> str:
        """Return a constant of a node's dtype and lanes; an int is a bit pattern."""
        text = value if isinstance(value, str) else number(node.dtype, value)
        return same(text, element(node.dtype), node.shape[0] if node.shape else 0)

    def constant_data(self, node: UOp, align: int) -> str | None:
        """Return a global that holds the constant `node`, aligned to `align` bytes at least; or None if it is
        not a constant."""
        const = constant(node)
        if const is None:
            return None
        of = "i8" if const.dtype.kind == "bool" else element(const.dtype)
        lanes = node.shape[0] if node.shape else 0
        text = same(str(const.bits) if of == "i8" else number(const.dtype, const.bits), of, lanes)
        key = f"private unnamed_addr constant {vector(of, lanes)} {text}, align {max(align, 64)}"
        return self.constants.setdefault(key, f"@c{len(self.constants)}")
