"""From linear kernels to the ACME's assembly.

In: the LINEAR list of a kernel, in which core has put nothing but what CAPABILITIES declares. Out: text,
one line a node: `%3 = add.f32x4 %1 %2`. Values are numbered as the nodes come; memory is `a0` … (buffers of
the launch), `s0` … (scratch) and `r0` … (registers, by which values cross the iterations of a loop). Pure: no
toolkit, no device.

Yours prints the language of your toolkit instead: C, assembly, or words of machine code.
"""

from __future__ import annotations

from acme_tiny.machine import assemble
from acme_tiny.ops import RELU, use_instructions

from tiny_core.api import (  # isort: skip
    ELEMENTWISE, GLOBAL, REGISTER, AddressSpace, Arch, Capabilities, Compiler, DType, Ops, Renderer,
    RenderError, Signature, TargetError, UOp, dtypes, payload,
)  # fmt: skip

INTS = {dtypes.int32: "i32", dtypes.uint32: "u32"}
WIDE = (dtypes.bool_, dtypes.float32, *INTS)  # in registers of four lanes
NARROW = {dtypes.int8: "i8", dtypes.uint8: "u8", dtypes.int16: "i16", dtypes.uint16: "u16"}
TYPES = {dtypes.bool_: "b1", dtypes.float32: "f32", **INTS, **NARROW}

COMPARE = (Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE)
LOGIC = (Ops.AND, Ops.OR, Ops.XOR, Ops.NOT)
ANY = (Ops.WHERE, Ops.CAST, *COMPARE)
NUMBER = (Ops.NEG, Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.MIN, Ops.BITCAST, *ANY)
FLOAT = (*NUMBER, Ops.DIV, Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.TRUNC)
INT = (*NUMBER, *LOGIC, Ops.IDIV, Ops.SHL, Ops.SHR)
OPS = {
    dtypes.bool_: (*ANY, *LOGIC),
    dtypes.float32: FLOAT,
    **dict.fromkeys(INTS, INT),
    **dict.fromkeys(NARROW, (Ops.CAST, Ops.BITCAST)),  # loaded and stored, computed with as 32 bits
}

# Core stages operands by itself in a space of this name.
SCRATCH = AddressSpace("local", "group", bytes=16384, align=16)

# What the chip can do. Core takes everything else apart (sines, powers, remainders, 8-bit and 64-bit
# integers, …) before the renderer sees a kernel, or says what is missing: begin with little, and add what the
# chip is good at.
CAPABILITIES = Capabilities(
    launch="grid",
    dtypes=frozenset(TYPES),
    ops=frozenset((op, dtype) for dtype, ops in OPS.items() for op in ops),
    lanes=tuple((dtype, (4,)) for dtype in WIDE),
    spaces=(GLOBAL, REGISTER, SCRATCH),
    max_grid=(65536, 65536, 65536),
)
PLAIN = {Ops.RANGE: "loop", Ops.LOAD: "ld", **{op: op.value for op in (Ops.STACK, *ELEMENTWISE)}}


class AcmeRenderer(Renderer):
    """Renders for the first ACME, the only one there is."""

    name = "ACME"
    capabilities = CAPABILITIES
    rules = {"before linearize": use_instructions}
    operations = (RELU,)

    def __init__(self, arch: Arch) -> None:
        if arch.name not in ("", "k1"):
            raise TargetError(f"ACME does not know {arch.name}", "known: k1")
        self.arch = Arch("k1")

    def compiler(self) -> Compiler:
        return Assembler()

    def render(self, linear: UOp, signature: Signature) -> str:
        names: dict[UOp, str] = {}
        scalars = [scalar.name for scalar in signature.scalars]
        lines = [f".kernel {signature.name}", *(_line(node, names, scalars) for node in linear.src)]
        return "\n".join(lines) + "\n"


class Assembler(Compiler):
    """Checks assembly and encodes it. Yours calls the toolkit, here or in a subprocess."""

    def compile(self, source: str, name: str) -> bytes:
        return assemble(source, name)

    def fingerprint(self) -> str:
        return "acme-as 1"  # compiled kernels are kept on disk: change it whenever `compile` changes


def _line(node: UOp, names: dict[UOp, str], scalars: list[str]) -> str:
    """The line of a node; its name goes into `names`."""
    sources = [names.get(s, "") for s in node.src]  # effects have no name
    head = ""
    match node.op:
        case Ops.AFTER:  # the order of the list is the order of effects; this is the same memory
            names[node] = sources[0]
            return f"; {sources[0]} from here on has been written"
        case Ops.PARAM | Ops.BUFFER:
            return _memory(node, names)
        case Ops.END:
            return f"end {sources[0]}"
        case Ops.BARRIER:
            return "; a barrier, which a group of one item does not need"
        case Ops.STORE:
            return f"st.{_type(node.src[2])} {' '.join(sources)}"
        case Ops.CONST:
            head, sources = "const", [hex(node.payload(payload.Const).bits)]
        case Ops.VARIABLE:
            head, sources = "arg", [str(scalars.index(node.payload(payload.Variable).name))]
        case Ops.SPECIAL:  # a group is one item, so there are no indices of items
            head, sources = "group", [str(node.payload(payload.Special).dim)]
        case Ops.INDEX:
            head, sources = "stack", [f"{sources[0]}.{node.payload(payload.Lane).lane}"]
        case Ops.SHUFFLE:
            joined = [
                lane for source, name in zip(node.src, sources, strict=True) for lane in _lanes(source, name)
            ]
            head, sources = "stack", [joined[n] for n in node.payload(payload.Shuffle).lanes]
        case Ops.TARGET:
            head = node.payload(payload.TargetOp).name.removeprefix("acme.")
        case op if op in PLAIN:
            head = PLAIN[op]
        case op:
            raise RenderError(f"the ACME has nothing for {op.value}")
    names[node] = f"%{len(names)}"
    return f"{names[node]} = {head}.{_type(node)} {' '.join(sources)}"


def _memory(node: UOp, names: dict[UOp, str]) -> str:
    arg = node.arg
    if isinstance(arg, payload.Param):
        names[node] = f"a{arg.slot}"
        return f".buffer a{arg.slot} {_scalar(node.dtype)} {arg.size}"
    storage = node.payload(payload.Storage)
    kind = "scratch" if storage.space == SCRATCH.name else "register"
    names[node] = f"{kind[0]}{storage.id}"
    lanes = f"x{storage.lanes}" if storage.lanes else ""
    return f".{kind} {names[node]} {_scalar(node.dtype)}{lanes} {storage.size}"


def _lanes(node: UOp, name: str) -> list[str]:
    """The names of a value's lanes: `%3.0` …"""
    return [f"{name}.{i}" for i in range(node.shape[0])] if node.shape else [name]


def _type(node: UOp) -> str:
    return _scalar(node.dtype) + (f"x{node.shape[0]}" if node.shape else "")


def _scalar(dtype: DType) -> str:
    if dtype not in TYPES:
        raise RenderError(f"the ACME has no {dtype.name}")
    return TYPES[dtype]
