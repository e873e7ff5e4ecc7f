"""From linear kernels to the K1's assembly.

One line an instruction: `%3 = add.f32x4 %1 %2`. Registers are numbered as the nodes come; memory is `a0` …
(buffers of the launch), `s0` … (scratch) and `r0` … (the register file, which is how values cross loop
iterations).
"""

from __future__ import annotations

from acme_tiny.machine import assemble
from acme_tiny.ops import use_instructions

from tiny_core.api import (  # isort: skip
    ELEMENTWISE, GLOBAL, REGISTER, AddressSpace, Arch, Capabilities, Compiler, DType, Ops, Renderer,
    RenderError, Signature, TargetError, UOp, dtypes, payload,
)  # fmt: skip

INTS = {dtypes.int32: "i32", dtypes.uint32: "u32", dtypes.int64: "i64"}
TYPES = {dtypes.bool_: "b1", dtypes.float32: "f32", **INTS}
COMPARE = (Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE)
LOGIC = (Ops.AND, Ops.OR, Ops.XOR, Ops.NOT)
ANY = (Ops.WHERE, Ops.CAST, *COMPARE)
NUMBER = (Ops.NEG, Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.MIN, Ops.BITCAST, *ANY)
FLOAT = (*NUMBER, Ops.DIV, Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.TRUNC)
INT = (*NUMBER, *LOGIC, Ops.IDIV, Ops.IMOD, Ops.SHL, Ops.SHR)
OPS = {dtypes.bool_: (*ANY, *LOGIC), dtypes.float32: FLOAT, **dict.fromkeys(INTS, INT)}

PLAIN = {Ops.RANGE: "loop", Ops.LOAD: "ld", **{op: op.value for op in (Ops.STACK, *ELEMENTWISE)}}

SCRATCH = AddressSpace("scratch", "group", bytes=16384, align=16)
CAPABILITIES = Capabilities(
    launch="grid",
    dtypes=frozenset(TYPES),
    ops=frozenset((op, dtype) for dtype, ops in OPS.items() for op in ops),  # core decomposes everything else
    lanes=((dtypes.float32, (4,)), (dtypes.int32, (4,)), (dtypes.uint32, (4,)), (dtypes.bool_, (4,))),
    spaces=(GLOBAL, REGISTER, SCRATCH),
    max_grid=(65536, 65536, 65536),
)


class AcmeRenderer(Renderer):
    """Renders for the K1, the only model there is."""

    name = "ACME"
    capabilities = CAPABILITIES
    rules = {"before linearize": use_instructions}

    def __init__(self, arch: Arch) -> None:
        if arch.name not in ("", "k1"):
            raise TargetError(f"ACME does not know {arch.name}", "known: k1")
        self.arch = Arch("k1")

    def compiler(self) -> Compiler:
        return Assembler()

    def render(self, linear: UOp, signature: Signature) -> str:
        names: dict[UOp, str] = {}
        scalars = [scalar.name for scalar in signature.scalars]
        return (
            "\n".join([f".kernel {signature.name}", *(_line(n, names, scalars) for n in linear.src)]) + "\n"
        )


class Assembler(Compiler):
    """Checks assembly and encodes it; the K1's toolkit is small enough to be part of this wheel."""

    def compile(self, source: str, name: str) -> bytes:
        return assemble(source, name)

    def fingerprint(self) -> str:
        return "acme-as 1"


def _line(node: UOp, names: dict[UOp, str], scalars: list[str]) -> str:
    """The line of a node; its name goes into `names`."""
    sources = [names.get(s, "") for s in node.src]  # effects have no name
    arg = node.arg
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
        case Ops.SPECIAL if isinstance(arg, payload.Special):
            head, sources = "group", [str(arg.dim)]  # a group is one item, so there are no other indices
        case Ops.INDEX:
            head, sources = "lane", [*sources, str(node.payload(payload.Lane).lane)]
        case Ops.SHUFFLE:
            head = "shuffle"
            sources = [*sources, *map(str, node.payload(payload.Shuffle).lanes)]
        case Ops.TARGET:
            head = node.payload(payload.TargetOp).name.removeprefix("acme.")
        case op if op in PLAIN:
            head = PLAIN[op]
        case op:
            raise RenderError(f"the K1 has nothing for {op.value}")
    names[node] = f"%{len(names)}"
    return f"{names[node]} = {head}.{_type(node)} {' '.join(sources)}"


def _memory(node: UOp, names: dict[UOp, str]) -> str:
    arg = node.arg
    if isinstance(arg, payload.Param):
        names[node] = f"a{arg.slot}"
        return f".buffer a{arg.slot} {_scalar(node.dtype)} {arg.size}"
    storage = node.payload(payload.Storage)
    scratch = storage.space == "scratch"
    names[node] = f"{'s' if scratch else 'r'}{storage.id}"
    lanes = f"x{storage.lanes}" if storage.lanes else ""
    return (
        f".{'scratch' if scratch else 'register'} {names[node]} {_scalar(node.dtype)}{lanes} {storage.size}"
    )


def _type(node: UOp) -> str:
    return _scalar(node.dtype) + (f"x{node.shape[0]}" if node.shape else "")


def _scalar(dtype: DType) -> str:
    if dtype not in TYPES:
        raise RenderError(f"the K1 has no {dtype.name}")
    return TYPES[dtype]
